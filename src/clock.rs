//! Time, handed in: decisions are given moments, and tests step them.

use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;

/// One moment, by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock: for what is written down. Never compared with another machine's alone.
    pub wall: Timestamp,
    /// From a beginning of the clock's own, never backwards: for how long something has lasted.
    pub elapsed: Duration,
}

/// A source of moments. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Moment + Send + Sync>);

impl Clock {
    /// The machine's clocks. The monotonic one is tokio's, which a test can pause.
    pub fn system() -> Self {
        let start = tokio::time::Instant::now();
        Self::new(move || Moment { wall: Timestamp::now(), elapsed: start.elapsed() })
    }

    /// The machine's clocks. The monotonic one goes on while the machine sleeps: what others saw pass
    /// has passed. For Leases.
    pub fn boot() -> Self {
        let since_boot = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
            let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
            Duration::from_secs(seconds) + Duration::from_nanos(nanos)
        };
        Self::new(move || Moment { wall: Timestamp::now(), elapsed: since_boot() })
    }

    /// Any other.
    pub fn new(now: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The moment it is.
    pub fn now(&self) -> Moment {
        (self.0)()
    }
}

/// The clocks of a process.
#[derive(Clone, Debug)]
pub struct Clocks {
    /// For work: its monotonic time stands still while the machine sleeps.
    pub work: Clock,
    /// For Leases: its monotonic time goes on.
    pub leases: Clock,
}

impl Clocks {
    /// The machine's.
    pub fn system() -> Self {
        Self { work: Clock::system(), leases: Clock::boot() }
    }

    /// One for both.
    pub fn same(clock: Clock) -> Self {
        Self { work: clock.clone(), leases: clock }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
