//! One replica's place among the others, as metrics show it.

use std::time::Duration;

/// Taken at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replicas {
    /// Whether it leads.
    pub leads: bool,
    /// How many members it knows, itself included while it is one.
    pub members: usize,
    /// How many buckets of claims are its own.
    pub buckets: usize,
    /// How long it may still act as a member.
    pub member_left: Duration,
    /// How long it may still act as the leader.
    pub leader_left: Duration,
}

impl Replicas {
    /// One that runs alone, without Leases.
    pub fn alone() -> Self {
        Self { leads: true, members: 1, buckets: 256, ..Self::default() }
    }
}
