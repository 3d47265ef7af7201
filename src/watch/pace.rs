//! How long to wait before trying again.
//!
//! kube's own `default_backoff` starts afresh at every event, and its watcher has an event at the
//! beginning of every list: an API server that refuses lists would be asked every second for ever.

use std::time::Duration;

use tokio::time::Instant;

use crate::queue::Backoff;

/// No pause between two attempts is longer.
pub const MAX_PAUSE: Duration = Duration::from_secs(30);

const PAUSES: Backoff = Backoff { base: Duration::from_millis(800), factor: 2.0, max: MAX_PAUSE };

/// What went on for this long is well: failures before it are forgotten.
const STEADY: Duration = Duration::from_secs(30);

/// The pauses of one stream.
#[derive(Debug)]
pub(super) struct Pace {
    failures: u32,
    /// When the current attempt began.
    began: Instant,
}

impl Pace {
    /// An attempt begins.
    pub fn new(now: Instant) -> Self {
        Self { failures: 0, began: now }
    }

    /// Whether the current attempt has held long enough for what was before it to be over.
    pub fn is_steady(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) >= STEADY
    }

    /// The attempt failed: how long to wait for the next. `jitter` is from 0 to 1.
    pub fn failed(&mut self, now: Instant, jitter: f64) -> Duration {
        if self.is_steady(now) {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        let pause = PAUSES.pause(self.failures, jitter);
        self.began = now + pause;
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_their_ceiling_while_attempts_fail() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        let pauses: Vec<u128> = (0..8)
            .map(|_| {
                let pause = pace.failed(now, 1.0);
                now += pause + Duration::from_secs(1);
                pause.as_millis()
            })
            .collect();
        assert_eq!(pauses, [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_held_for_a_while_forgets_the_failures() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        now += pace.failed(now, 1.0);
        now += pace.failed(now, 1.0) + Duration::from_secs(29);
        let third = pace.failed(now, 1.0);
        assert_eq!(third, Duration::from_millis(3_200));
        now += third + STEADY;
        assert_eq!(pace.failed(now, 1.0), Duration::from_millis(800));
    }
}
