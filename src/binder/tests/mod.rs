//! The tests of this room, by what is decided.

mod findings;
mod first;
