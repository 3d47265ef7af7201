//! How often what was done, and when last.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// Counts by name, shared by all that count.
#[derive(Debug)]
pub(super) struct Tally(Mutex<State>);

#[derive(Debug)]
struct State {
    counts: BTreeMap<String, usize>,
    last: Instant,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State { counts: BTreeMap::new(), last: Instant::now() }))
    }

    /// Once more.
    pub(super) fn add(&self, what: &str) {
        let mut state = self.0.lock();
        *state.counts.entry(what.to_owned()).or_default() += 1;
        state.last = Instant::now();
    }

    /// How long ago anything was counted last.
    pub(super) fn idle(&self) -> Duration {
        self.0.lock().last.elapsed()
    }

    /// All counts.
    pub(super) fn counts(&self) -> BTreeMap<String, usize> {
        self.0.lock().counts.clone()
    }

    /// One count.
    pub(super) fn count(&self, what: &str) -> usize {
        self.0.lock().counts.get(what).copied().unwrap_or(0)
    }
}
