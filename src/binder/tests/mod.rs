//! The tests of this room, by what is decided.

mod checks;
mod crash;
mod findings;
mod first;
mod harness;
mod protocol;
mod store;
mod walk;
