//! The tests of this room, by what is decided.

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
mod matching;
mod selection;
mod status;
mod view;
