//! The tests of this room, by what is decided.

mod address_cases;
mod address_reservation;
mod address_table;
mod address_world;
mod first;
mod index_changes;
mod index_model;
mod reclaim;
mod waiters;
mod waiters_random;
