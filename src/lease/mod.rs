//! Leases: who is there, and who leads.
//!
//! client-go's semantics, with three rules kept throughout. Every write replaces the Lease on the
//! resourceVersion of the last answer. Another's Lease is judged by how long it was seen unchanged,
//! on this machine's clock; the times written in it are for people. One's own is a deadline that is
//! counted from when the request was sent.
//!
//! All of it but [`client`] is pure: (Lease, when it was first seen as it is, now) → state. It knows
//! neither buckets nor what a leader does.

pub mod client;
pub mod keeper;
pub mod record;
pub mod roll;
pub mod tenure;
pub mod times;

pub use self::{
    client::{Answer, LeaseClient},
    keeper::{Ask, Keeper},
    record::{LeaseObject, Record, Terms},
    roll::{Roll, Sighting},
    tenure::Tenure,
    times::Times,
};

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
