//! Random pauses that the end of a run cuts short.

use std::{ops::RangeInclusive, time::Duration};

use fastrand::Rng;
use tokio::sync::watch;

/// The end of something, told by whoever holds it. Dropping it is the end too.
#[derive(Debug)]
pub(super) struct End(watch::Sender<bool>);

/// Hears of an [`End`].
#[derive(Clone, Debug)]
pub(super) struct Until(watch::Receiver<bool>);

impl End {
    pub(super) fn new() -> Self {
        Self(watch::channel(false).0)
    }

    pub(super) fn until(&self) -> Until {
        Until(self.0.subscribe())
    }

    pub(super) fn now(&self) {
        self.0.send_replace(true);
    }
}

impl Until {
    /// Waits for a random time of so many milliseconds. Whether it goes on after that.
    pub(super) async fn pause(&mut self, rng: &mut Rng, millis: RangeInclusive<u64>) -> bool {
        self.wait(Duration::from_millis(rng.u64(millis))).await
    }

    /// Waits for so long, or until the end. Whether it goes on after that.
    pub(super) async fn wait(&mut self, time: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(time) => true,
            _ = self.0.wait_for(|over| *over) => false,
        }
    }

    /// Waits for the end.
    pub(super) async fn over(&mut self) {
        let _ = self.0.wait_for(|over| *over).await;
    }
}

/// True in so many of a hundred cases.
pub(super) fn percent(rng: &mut Rng, chance: u8) -> bool {
    rng.u8(0..100) < chance
}
