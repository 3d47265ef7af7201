//! Until when one may act: a deadline, not a flag.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::clock::Clock;

/// The time until which a Lease's holder may act. Cheap to clone; all clones are one.
///
/// A process that was stopped and goes on finds it passed, whatever it believed before.
#[derive(Clone)]
pub struct Tenure {
    /// Nanoseconds since the clock was made; 0: not held.
    until: Arc<AtomicU64>,
    /// The same of a tenure that rests on this one.
    upon_it: Option<Arc<AtomicU64>>,
    clock: Clock,
}

impl Tenure {
    /// Not held.
    pub fn new(clock: Clock) -> Self {
        Self { until: Arc::default(), upon_it: None, clock }
    }

    /// Not held, and `other` rests on it: once this one has passed, `other` is over too, also when
    /// this one is granted again. Others may have counted on its end.
    pub fn bearing(other: &Self) -> Self {
        Self { upon_it: Some(Arc::clone(&other.until)), ..Self::new(other.clock.clone()) }
    }

    /// Granted until then, by the clock's elapsed time.
    pub fn grant(&self, until: Duration) {
        if let Some(upon_it) = self.upon_it.as_ref().filter(|_| !self.holds()) {
            upon_it.store(0, Ordering::SeqCst);
        }
        // Five hundred years fit.
        self.until.store(u64::try_from(until.as_nanos()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Over, at once.
    pub fn end(&self) {
        self.until.store(0, Ordering::SeqCst);
    }

    /// Whether it has not passed.
    pub fn holds(&self) -> bool {
        !self.left().is_zero()
    }

    /// How much is left of it.
    pub fn left(&self) -> Duration {
        let until = Duration::from_nanos(self.until.load(Ordering::SeqCst));
        until.saturating_sub(self.clock.now().elapsed)
    }
}

impl fmt::Debug for Tenure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tenure").field(&self.left()).finish()
    }
}
