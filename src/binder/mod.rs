//! What a binding is and what must hold of it. Pure: no client, no runtime, no clock, no randomness.

pub mod invariants;
