//! Keys that need a pass: first in, first out in each flow, flow after flow, one pass at a time for
//! each key, growing pauses after failures, and any number of workers that take from it.
//!
//! What a key stands for, what a pass does and how a cluster is reached are none of its business.
//! The rules are in [`state::State`], which has no clock; [`Queue`] gives it tokio's; and
//! [`worker::run`] runs the passes.

pub mod backoff;
pub mod state;
pub mod worker;

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

pub use backoff::Backoff;
use state::State;
pub use worker::{Panicked, run};

/// What stands in a queue.
pub trait Key: Clone + Eq + Hash {
    /// What shares a turn: keys of one flow wait for each other, and flows take turns, whatever the
    /// number of their keys.
    type Flow: Clone + Eq + Hash + fmt::Debug;

    /// The key's flow.
    fn flow(&self) -> Self::Flow;
}

/// Why a key is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wake {
    /// Its object was in a list.
    Listed,
    /// Its object changed.
    Changed,
    /// An object that it refers to, or that refers to it, changed.
    Related,
    /// Something that it was waiting for may have come.
    Waited,
    /// The work on it came to this replica.
    Moved,
    /// A pass asked to look again at this time.
    Timer,
    /// A pass did not get through.
    Retry,
}

impl Wake {
    /// Every reason, in the order of declaration.
    pub const ALL: [Self; 7] = [
        Self::Listed,
        Self::Changed,
        Self::Related,
        Self::Waited,
        Self::Moved,
        Self::Timer,
        Self::Retry,
    ];

    /// The reason as logs and metrics spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Listed => "listed",
            Self::Changed => "changed",
            Self::Related => "related",
            Self::Waited => "waited",
            Self::Moved => "moved",
            Self::Timer => "timer",
            Self::Retry => "retry",
        }
    }
}

impl fmt::Display for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A pass to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job<K> {
    /// What to look at.
    pub key: K,
    /// Why, by the wish that came first.
    pub wake: Wake,
    /// How long it waited since it was due: for a worker, or for the pass before it to end.
    pub queued: Duration,
    /// 1, and one more for each failure in a row before it.
    pub attempt: u32,
}

/// What is to become of a key after its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing to do until somebody adds it again. Failures are forgotten.
    Settled,
    /// It failed: again after a pause that grows with each failure in a row.
    Retry,
    /// All is well, and it is to be looked at again after this time at the latest. Failures are
    /// forgotten. A wish that comes earlier takes this one's place, so that each pass has to say
    /// anew what it still waits for.
    After(Duration),
    /// It looked at something old, such as after a conflict: at once if nothing failed before,
    /// else as [`Retry`](Self::Retry).
    Again,
}

/// How a queue behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Config {
    /// The pauses after failures.
    pub backoff: Backoff,
}

/// A handle on a queue; clones are handles on the same one.
#[derive(Debug)]
pub struct Queue<K: Key> {
    inner: Arc<Inner<K>>,
}

#[derive(Debug)]
struct Inner<K: Key> {
    state: Mutex<State<K>>,
    changed: Notify,
}

impl<K: Key> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<K: Key> Default for Queue<K> {
    fn default() -> Self {
        Self::new(Config::default())
    }
}

impl<K: Key> Queue<K> {
    /// An empty queue.
    pub fn new(config: Config) -> Self {
        let state = Mutex::new(State::new(config.backoff));
        Self { inner: Arc::new(Inner { state, changed: Notify::new() }) }
    }

    /// Asks for a pass over `key` now, also in the middle of a back-off.
    pub fn add(&self, key: K, wake: Wake) {
        self.add_after(key, Duration::ZERO, wake);
    }

    /// Asks for a pass over `key` after `delay`, or earlier if somebody else wants it earlier.
    pub fn add_after(&self, key: K, delay: Duration, wake: Wake) {
        self.inner.state.lock().add(key, delay, wake, now());
        self.inner.changed.notify_waiters();
    }

    /// How many keys are due and wait for a worker; a walk over them, so not for a hot path.
    pub fn depth(&self) -> usize {
        self.inner.state.lock().depth(now())
    }

    /// How many keys wait for their time: delays and back-offs.
    pub fn delayed(&self) -> usize {
        self.inner.state.lock().delayed(now())
    }

    /// How many passes run.
    pub fn running(&self) -> usize {
        self.inner.state.lock().running()
    }

    /// The next pass to be made, as soon as there is one; `None` after
    /// [`shut_down`](Self::shut_down).
    ///
    /// Every job must come back through [`done`](Self::done): until then its key is in a pass.
    /// Dropping the future loses nothing.
    pub async fn next(&self) -> Option<Job<K>> {
        loop {
            // Made before the look: from here on it hears what is added after the look.
            let changed = self.inner.changed.notified();
            let due = {
                let mut state = self.inner.state.lock();
                if state.is_closed() {
                    return None;
                }
                if let Some(job) = state.take(now()) {
                    return Some(job);
                }
                state.next_due()
            };
            match due {
                None => changed.await,
                Some(at) => tokio::select! {
                    () = changed => {}
                    () = sleep_until(Instant::from_std(at)) => {}
                },
            }
        }
    }

    /// Ends a pass that [`next`](Self::next) gave out.
    #[expect(clippy::needless_pass_by_value, reason = "a job is ended once")]
    pub fn done(&self, job: Job<K>, next: Next) {
        self.inner.state.lock().done(&job.key, next, now(), fastrand::f64());
        self.inner.changed.notify_waiters();
    }

    /// No more passes: whoever waits in [`next`](Self::next) is told so, and adds are dropped.
    /// Passes that run are not disturbed.
    pub fn shut_down(&self) {
        self.inner.state.lock().close();
        self.inner.changed.notify_waiters();
    }
}

/// Tokio's clock, which tests can hold.
fn now() -> std::time::Instant {
    Instant::now().into_std()
}

#[cfg(test)]
mod tests;
