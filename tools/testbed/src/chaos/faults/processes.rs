//! Replicas that are killed, paused and ended, the leader more often than the others.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use fastrand::Rng;
use tokio::{sync::MutexGuard, task::JoinSet};

use super::Hands;
use crate::chaos::{
    pace::{Until, percent},
    replica::{Process, Replica},
    stage::Stage,
};

/// Longer than it may take until another leads.
const LATE: std::ops::Range<u64> = 6_500..9_000;

/// Until the end.
pub(super) async fn run(mut hands: Hands) -> Result<()> {
    let mut strikes = JoinSet::new();
    while hands.until.pause(&mut hands.rng, 2_000..=7_000).await {
        let number = target(&hands.stage, &mut hands.rng);
        let strike = Strike {
            stage: hands.stage.clone(),
            number,
            rng: hands.rng.fork(),
            until: hands.until.clone(),
        };
        strikes.spawn(strike.run());
        while let Some(ended) = strikes.try_join_next() {
            ended??;
        }
    }
    while let Some(ended) = strikes.join_next().await {
        ended??;
    }
    Ok(())
}

/// Starts again what ended by itself, as a kubelet does. Until the end.
pub(super) async fn revive(mut hands: Hands) -> Result<()> {
    while hands.until.wait(Duration::from_millis(500)).await {
        for replica in &hands.stage.replicas {
            // One that is being struck is its striker's.
            if let Ok(mut process) = replica.process.try_lock()
                && process.running().is_some()
            {
                process.revive(&hands.stage.findings)?;
            }
        }
    }
    Ok(())
}

/// The leader, if one is known and not by chance another.
fn target(stage: &Stage, rng: &mut Rng) -> usize {
    let any = rng.usize(0..stage.replicas.len());
    let prefers = percent(rng, 65);
    let leader = stage.replicas.iter().position(|replica| is_leader(stage, replica));
    leader.filter(|_| prefers).unwrap_or(any)
}

fn is_leader(stage: &Stage, replica: &Replica) -> bool {
    replica.process.try_lock().is_ok_and(|process| stage.leader.is(process.identity()))
}

/// One blow to one replica, and its recovery.
struct Strike {
    stage: Arc<Stage>,
    number: usize,
    rng: Rng,
    until: Until,
}

impl Strike {
    async fn run(mut self) -> Result<()> {
        let stage = self.stage.clone();
        // It is down, or being revived, already.
        let Ok(mut process) = stage.replicas[self.number].process.try_lock() else { return Ok(()) };
        match self.rng.u8(0..10) {
            0..5 => self.kill(&mut process).await?,
            5..8 => self.pause(&mut process).await,
            _ => self.terminate(&mut process).await?,
        }
        Ok(())
    }

    /// A crash. The kubelet starts the container again, or the pod's controller makes another pod.
    async fn kill(&mut self, process: &mut MutexGuard<'_, Process>) -> Result<()> {
        let stage = self.stage.clone();
        let leads = stage.leader.is(process.identity());
        let (renew, late) = (percent(&mut self.rng, 40), self.rng.bool());
        process.kill();
        stage.faults.add("replica killed (SIGKILL)");
        if leads {
            stage.faults.add("leader killed (SIGKILL)");
            // The same one back in place is no takeover.
            if renew || late {
                stage.leader.killed();
            }
        }
        let wait = if late { LATE } else { 0..1_000 };
        self.until.wait(Duration::from_millis(self.rng.u64(wait))).await;
        if renew {
            process.renew();
        }
        process.start()
    }

    /// A suspended machine, or a very long pause.
    async fn pause(&mut self, process: &mut MutexGuard<'_, Process>) {
        let Some(controller) = process.running() else { return };
        controller.sigstop();
        self.stage.faults.add("replica paused (SIGSTOP)");
        self.until.pause(&mut self.rng, 1_000..=20_000).await;
        controller.sigcont();
    }

    /// A drained node, or a rolling update.
    async fn terminate(&mut self, process: &mut MutexGuard<'_, Process>) -> Result<()> {
        self.stage.faults.add("replica ended (SIGTERM)");
        process.terminate(&self.stage.findings).await;
        self.until.pause(&mut self.rng, 0..=3_000).await;
        if percent(&mut self.rng, 70) {
            process.renew();
        }
        process.start()
    }
}
