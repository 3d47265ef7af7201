//! What goes wrong, each kind by a task of its own, until the end; then all of it is undone.
//!
//! It knows replicas, proxies and servers, and nothing of claims and addresses.

mod clocks;
mod past;
mod processes;
mod requests;
mod rights;
mod servers;
mod watches;

use std::sync::Arc;

use anyhow::Result;
use fastrand::Rng;
use tokio::task::JoinSet;

use super::{
    pace::{End, Until},
    stage::Stage,
};

/// What can be watched, and so frozen and cut, each by itself.
const WATCHED: [&str; 4] = ["ipaddresses", "ipaddressclaims", "ipaddressclasses", "leases"];

/// All faults, going on.
pub(super) struct Faults {
    tasks: JoinSet<Result<()>>,
    end: End,
}

impl Faults {
    /// Begins.
    pub(super) fn begin(stage: &Arc<Stage>, rng: &mut Rng) -> Self {
        let end = End::new();
        let mut tasks = JoinSet::new();
        let mut with = || Hands { stage: stage.clone(), rng: rng.fork(), until: end.until() };
        for number in 0..stage.replicas.len() {
            tasks.spawn(requests::run(with(), number));
            tasks.spawn(watches::run(with(), number));
        }
        tasks.spawn(processes::run(with()));
        tasks.spawn(processes::leaders(with()));
        tasks.spawn(processes::revive(with()));
        tasks.spawn(servers::run(with()));
        tasks.spawn(rights::run(with()));
        tasks.spawn(clocks::run(with()));
        tasks.spawn(past::run(with()));
        Self { tasks, end }
    }

    /// Stops all faults, undoes them, and has every replica run.
    ///
    /// # Errors
    /// When something cannot be undone.
    pub(super) async fn stop(mut self, stage: &Stage) -> Result<()> {
        self.end.now();
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        for replica in &stage.replicas {
            replica.proxy.clear_rules();
            for resource in WATCHED {
                replica.proxy.thaw_watches(resource);
            }
            let mut process = replica.process.lock().await;
            process.revive(&stage.findings)?;
            process.start()?;
            process.wait_ready().await?;
        }
        Ok(())
    }
}

/// What each kind of fault works with.
struct Hands {
    stage: Arc<Stage>,
    rng: Rng,
    until: Until,
}

impl Hands {
    fn count(&self, fault: &str) {
        self.stage.faults.add(fault);
    }
}
