//! The tests of this room, by what is decided.

mod address_cases;
mod address_reservation;
mod address_table;
mod address_world;
mod claim_class;
mod claim_collect;
mod claim_crash;
mod claim_dual;
mod claim_held;
mod claim_pin;
mod claim_properties;
mod claim_reads;
mod claim_stamp;
mod claim_world;
mod first;
mod index_changes;
mod index_model;
mod matching;
mod reclaim;
mod selection;
mod status;
mod view;
mod waiters;
mod waiters_random;
