//! Which keys wait, which run, and which comes next.
//!
//! A plain synchronous structure: the time and the jitter are parameters, and it must not know
//! a runtime, a lock or what a key stands for.
//!
//! It promises:
//! - a key stands in line at most once, and never while its pass runs;
//! - every add after a take leads to a take that comes later (no lost wake-up);
//! - no key is taken before it is due; those of one flow are taken in the order in which they fell
//!   due, and flows take turns;
//! - a settled key leaves nothing behind.

mod turns;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::{Backoff, Job, Key, Next, Wake};
use turns::Turns;

/// What a delay beyond what the clock can express is cut to: thirty years.
const FAR: Duration = Duration::from_hours(30 * 365 * 24);

/// A place among those that wait for their time: when it comes, then the order of arrival.
type Ticket = (Instant, u64);

/// When a key wants its pass, and why.
#[derive(Clone, Copy, Debug)]
struct Due {
    at: Instant,
    wake: Wake,
}

#[derive(Debug)]
enum Place {
    /// Waiting for its time.
    Delayed { ticket: Ticket, due: Due },
    /// Due, and waiting for a worker.
    Ready { due: Due },
    /// In a pass; what was asked for in the meantime is done after it.
    Running { after: Option<Due> },
}

#[derive(Debug)]
struct Slot {
    /// Passes in a row that did not succeed.
    failures: u32,
    place: Place,
}

/// The keys that need a pass or are in one.
#[derive(Debug)]
pub struct State<K: Key> {
    backoff: Backoff,
    slots: FxHashMap<K, Slot>,
    /// Those whose time has not come, or had not when somebody last looked.
    delayed: BTreeMap<Ticket, K>,
    ready: Turns<K>,
    arrivals: u64,
    closed: bool,
}

impl<K: Key> State<K> {
    /// An empty queue whose failed keys pause by `backoff`.
    pub fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            slots: FxHashMap::default(),
            delayed: BTreeMap::new(),
            ready: Turns::default(),
            arrivals: 0,
            closed: false,
        }
    }

    /// Asks for a pass over `key`, `delay` from `now` (zero: at once).
    ///
    /// Of several wishes for one key the earliest counts, whatever put it there, a back-off
    /// included; the count of failures is kept. Nothing is taken in after [`close`](Self::close).
    pub fn add(&mut self, key: K, delay: Duration, wake: Wake, now: Instant) {
        if self.closed {
            return;
        }
        let due = Due { at: later(now, delay), wake };
        let failures = match self.slots.get_mut(&key) {
            None => 0,
            Some(Slot { place: Place::Running { after }, .. }) => {
                *after = Some(earliest(*after, due));
                return;
            }
            Some(Slot { place: Place::Ready { .. }, .. }) => return,
            Some(Slot { place: Place::Delayed { due: old, .. }, .. }) if old.at <= due.at => return,
            Some(Slot { place: Place::Delayed { ticket, .. }, failures }) => {
                self.delayed.remove(ticket);
                *failures
            }
        };
        self.stand(key, failures, due, now);
    }

    /// The key whose turn it is, if any is due; its pass runs until [`done`](Self::done).
    pub fn take(&mut self, now: Instant) -> Option<Job<K>> {
        if self.closed {
            return None;
        }
        self.fall_due(now);
        let key = self.ready.take()?;
        let slot = self.slots.get_mut(&key)?;
        let taken = std::mem::replace(&mut slot.place, Place::Running { after: None });
        let Place::Ready { due } = taken else {
            debug_assert!(false, "a key whose turn it was did not wait");
            return None;
        };
        Some(Job {
            key,
            wake: due.wake,
            queued: now.saturating_duration_since(due.at),
            attempt: slot.failures.saturating_add(1),
        })
    }

    /// Ends the pass over `key`. `jitter`, from 0 to 1, is for the back-off.
    ///
    /// Returns whether a pass was running; if not, nothing changes.
    pub fn done(&mut self, key: &K, next: Next, now: Instant, jitter: f64) -> bool {
        let Some(Slot { failures, place: Place::Running { after } }) = self.slots.get(key) else {
            return false;
        };
        let (after, failed) = (*after, failures.saturating_add(1));
        let (failures, wish) = match next {
            Next::Settled => (0, None),
            Next::After(delay) => (0, Some((delay, Wake::Timer))),
            Next::Again if failed == 1 => (failed, Some((Duration::ZERO, Wake::Retry))),
            Next::Again | Next::Retry => {
                (failed, Some((self.backoff.pause(failed, jitter), Wake::Retry)))
            }
        };
        let wish = wish.map(|(delay, wake)| Due { at: later(now, delay), wake });
        match wish.map_or(after, |wish| Some(earliest(after, wish))) {
            Some(due) => self.stand(key.clone(), failures, due, now),
            None => {
                self.slots.remove(key);
            }
        }
        true
    }

    /// Ends the taking: [`take`](Self::take) gives nothing more, and adds are dropped.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// When the next key is due; in the past, when one waits for a worker.
    pub fn next_due(&self) -> Option<Instant> {
        let waits = self.ready.first().and_then(|key| self.slots.get(key));
        match waits.map(|slot| &slot.place) {
            Some(Place::Ready { due }) => Some(due.at),
            _ => self.delayed.first_key_value().map(|(ticket, _)| ticket.0),
        }
    }

    /// How many keys are due and wait for a worker.
    pub fn depth(&self, now: Instant) -> usize {
        self.ready.len() + self.delayed.range(..=(now, u64::MAX)).count()
    }

    /// How many keys wait for their time.
    pub fn delayed(&self, now: Instant) -> usize {
        self.ready.len() + self.delayed.len() - self.depth(now)
    }

    /// How many passes run.
    pub fn running(&self) -> usize {
        self.slots.len() - self.ready.len() - self.delayed.len()
    }

    fn stand(&mut self, key: K, failures: u32, due: Due, now: Instant) {
        // Those whose time has come in the meantime were due before.
        self.fall_due(now);
        let place = if due.at <= now {
            self.ready.add(key.clone());
            Place::Ready { due }
        } else {
            let ticket = (due.at, self.arrivals);
            self.arrivals += 1;
            self.delayed.insert(ticket, key.clone());
            Place::Delayed { ticket, due }
        };
        self.slots.insert(key, Slot { failures, place });
    }

    /// Whose time has come stands in line.
    fn fall_due(&mut self, now: Instant) {
        while let Some(first) = self.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            let key = first.remove();
            if let Some(slot) = self.slots.get_mut(&key)
                && let Place::Delayed { due, .. } = slot.place
            {
                slot.place = Place::Ready { due };
                self.ready.add(key);
            }
        }
    }
}

fn later(now: Instant, delay: Duration) -> Instant {
    now.checked_add(delay).unwrap_or(now + FAR)
}

fn earliest(one: Option<Due>, other: Due) -> Due {
    one.filter(|one| one.at <= other.at).unwrap_or(other)
}

#[cfg(test)]
mod tests;
