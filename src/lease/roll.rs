//! Which Leases are seen, and which of them still count.
//!
//! A dead watch makes everybody else look dead. So one's own renewals must come back on it, or
//! nobody is judged; and a Lease that looks expired is read once before its holder is called dead.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use super::{Record, Times};

/// How many of one's own writes are remembered at most until the watch shows them.
const MANY: usize = 16;

/// One Lease, as it was last seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Sighting {
    /// What it said.
    pub record: Record,
    /// When it was first seen to say so.
    pub seen: Duration,
    /// It was deleted at that time.
    pub gone: Option<Duration>,
    /// It was read again after it had expired, and had not changed.
    confirmed: bool,
    /// It was in the list that is being read.
    listed: bool,
}

impl Sighting {
    /// When it expires, unless it changes: counted from when it was first seen so, whatever is
    /// written in it.
    pub fn expires(&self, times: &Times) -> Duration {
        self.seen + self.record.duration().unwrap_or(times.duration)
    }

    /// Whether its holder counts as alive.
    ///
    /// One that was deleted counts for as long as one that is silent: whoever holds it does not know
    /// yet, and makes it anew.
    fn counts(&self, times: &Times, now: Duration) -> bool {
        let expired = now >= self.expires(times);
        self.record.holder().is_some() && !(expired && (self.confirmed || self.gone.is_some()))
    }

    fn is_suspect(&self, times: &Times, now: Duration) -> bool {
        self.counts(times, now) && now >= self.expires(times)
    }
}

/// The Leases of one installation, as one replica sees them.
#[derive(Clone, Debug)]
pub struct Roll {
    times: Times,
    seen: BTreeMap<String, Sighting>,
    /// One's own writes that the watch has not shown yet, and when each was answered.
    unechoed: VecDeque<(Record, Duration)>,
    listed: bool,
}

impl Roll {
    /// Nothing was seen.
    pub fn new(times: Times) -> Self {
        Self { times, seen: BTreeMap::new(), unechoed: VecDeque::new(), listed: false }
    }

    /// A list begins: what it does not show by its end is gone.
    pub fn list_started(&mut self) {
        self.seen.values_mut().for_each(|s| s.listed = false);
    }

    /// A list is complete.
    pub fn list_ended(&mut self, now: Duration) {
        for sighting in self.seen.values_mut().filter(|s| !s.listed) {
            sighting.gone.get_or_insert(now);
        }
        self.listed = true;
        self.forget(now);
    }

    /// Whether there was a complete list.
    pub fn is_listed(&self) -> bool {
        self.listed
    }

    /// The watch shows a Lease.
    pub fn watched(&mut self, record: Record, now: Duration) {
        self.unechoed.retain(|(own, _)| own.name() != record.name() || own.is_newer(&record));
        self.saw(record, now);
    }

    /// A read, or the answer to a write, shows a Lease.
    pub fn saw(&mut self, record: Record, now: Duration) {
        match self.seen.get_mut(record.name()) {
            Some(known) if record.version() == known.record.version() => {
                known.listed = true;
                known.gone = None;
            }
            Some(known) if !record.is_newer(&known.record) => known.listed = true,
            Some(_) | None => {
                let name = record.name().to_owned();
                let sighting =
                    Sighting { record, seen: now, gone: None, confirmed: false, listed: true };
                self.seen.insert(name, sighting);
            }
        }
    }

    /// One's own write was granted: the watch has to show it.
    pub fn wrote(&mut self, record: Record, now: Duration) {
        let shown = self.seen.get(record.name()).is_some_and(|s| !record.is_newer(&s.record));
        // The oldest is what counts: where many wait, more of them say no more.
        if !shown && self.unechoed.len() < MANY {
            self.unechoed.push_back((record.clone(), now));
        }
        self.saw(record, now);
    }

    /// A Lease was deleted, in this state or a later one.
    pub fn deleted(&mut self, name: &str, uid: &str, now: Duration) {
        if let Some(known) = self.seen.get_mut(name).filter(|s| s.record.uid() == uid) {
            known.gone.get_or_insert(now);
        }
        self.forget(now);
    }

    /// A Lease was read: it is as it was. (What has changed is brought by [`saw`](Self::saw).) It
    /// counts where it had expired: one that is read earlier may still be renewed.
    pub fn confirm(&mut self, name: &str, version: &str, now: Duration) {
        let times = self.times;
        if let Some(known) = self.seen.get_mut(name).filter(|s| s.record.version() == version) {
            known.confirmed |= now >= known.expires(&times);
        }
    }

    /// Whether the watch is not to be believed: a write of one's own did not come back on it within
    /// two periods.
    pub fn is_blind(&self, now: Duration) -> bool {
        let bound = self.times.period * 2;
        !self.listed || self.unechoed.front().is_some_and(|(_, since)| now >= *since + bound)
    }

    /// Whether a write of one's own has not come back on the watch yet.
    pub fn is_waiting(&self) -> bool {
        !self.unechoed.is_empty()
    }

    /// A new list is being asked for because the watch was blind: it has its time to show the write.
    pub fn asked_again(&mut self, now: Duration) {
        for (_, since) in &mut self.unechoed {
            *since = now;
        }
    }

    /// A Lease, as it was last seen.
    pub fn get(&self, name: &str) -> Option<&Sighting> {
        self.seen.get(name)
    }

    /// Every Lease, in the order of their names.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Sighting)> {
        self.seen.iter().map(|(name, s)| (name.as_str(), s))
    }

    /// Whether a Lease's holder counts as alive.
    pub fn counts(&self, name: &str, now: Duration) -> bool {
        self.seen.get(name).is_some_and(|s| s.counts(&self.times, now))
    }

    /// The Leases that have expired and must be read before their holders are called dead. None
    /// while the watch is not to be believed.
    pub fn suspects(&self, now: Duration) -> Vec<Record> {
        if self.is_blind(now) {
            return Vec::new();
        }
        let suspects = self.seen.values().filter(|s| s.is_suspect(&self.times, now));
        suspects.map(|s| s.record.clone()).collect()
    }

    /// When something will have expired that has not yet.
    pub fn next_expiry(&self, now: Duration) -> Option<Duration> {
        let ahead = self.seen.values().filter(|s| s.record.holder().is_some());
        ahead.map(|s| s.expires(&self.times)).filter(|at| *at > now).min()
    }

    /// Leases of nobody, or of dead ones, that were left lying for long: with how they were seen.
    pub fn forgotten(&self, now: Duration) -> impl Iterator<Item = &Record> {
        let bound = self.times.forgotten();
        let old = move |s: &&Sighting| s.gone.is_none() && now >= s.seen + bound;
        let dead = move |s: &&Sighting| !s.counts(&self.times, now);
        self.seen.values().filter(old).filter(dead).map(|s| &s.record)
    }

    /// Drops what was deleted and does not count any more.
    fn forget(&mut self, now: Duration) {
        let times = self.times;
        self.seen.retain(|_, s| s.gone.is_none() || s.counts(&times, now));
    }
}
