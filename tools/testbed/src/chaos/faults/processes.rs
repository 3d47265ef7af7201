//! Replicas that are killed, paused and ended, the leader more often than the others.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use fastrand::Rng;
use tokio::{sync::MutexGuard, task::JoinSet};

use super::Hands;
use crate::chaos::{
    pace::{Until, percent},
    replica::Process,
    stage::Stage,
};

/// Longer than it may take until another leads.
const LATE: std::ops::Range<u64> = 6_500..9_000;

/// What may become of a process.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Kill,
    Pause,
    Terminate,
}

/// Any replica, in any way, until the end.
pub(super) async fn run(mut hands: Hands) -> Result<()> {
    let mut strikes = JoinSet::new();
    while hands.until.pause(&mut hands.rng, 2_000..=7_000).await {
        let rng = &mut hands.rng;
        let blow = match rng.u8(0..10) {
            0..5 => Blow::Kill,
            5..8 => Blow::Pause,
            _ => Blow::Terminate,
        };
        let any = rng.usize(0..hands.stage.replicas.len());
        let number = leader(&hands.stage).filter(|_| percent(rng, 50)).unwrap_or(any);
        strike(&mut strikes, &mut hands, number, blow)?;
    }
    finish(strikes).await
}

/// The leader, whoever it is, is killed again and again, until the end.
pub(super) async fn leaders(mut hands: Hands) -> Result<()> {
    let mut strikes = JoinSet::new();
    while hands.until.pause(&mut hands.rng, 6_000..=13_000).await {
        if let Some(number) = leader(&hands.stage) {
            strike(&mut strikes, &mut hands, number, Blow::Kill)?;
        }
    }
    finish(strikes).await
}

/// Begins one, and sees to those that have ended.
fn strike(
    strikes: &mut JoinSet<Result<()>>,
    hands: &mut Hands,
    number: usize,
    blow: Blow,
) -> Result<()> {
    let (stage, until) = (hands.stage.clone(), hands.until.clone());
    let strike = Strike { stage, number, rng: hands.rng.fork(), until };
    strikes.spawn(strike.run(blow));
    while let Some(ended) = strikes.try_join_next() {
        ended??;
    }
    Ok(())
}

async fn finish(mut strikes: JoinSet<Result<()>>) -> Result<()> {
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

/// Who leads, if that is known and nobody is at it.
fn leader(stage: &Stage) -> Option<usize> {
    let leads = |process: &Process| stage.leader.is(process.identity());
    stage.replicas.iter().position(|r| r.process.try_lock().is_ok_and(|process| leads(&process)))
}

/// One blow to one replica, and its recovery.
struct Strike {
    stage: Arc<Stage>,
    number: usize,
    rng: Rng,
    until: Until,
}

impl Strike {
    async fn run(mut self, blow: Blow) -> Result<()> {
        let stage = self.stage.clone();
        // It is down, or being revived, already.
        let Ok(mut process) = stage.replicas[self.number].process.try_lock() else { return Ok(()) };
        match blow {
            Blow::Kill => self.kill(&mut process).await,
            Blow::Pause => {
                self.pause(&mut process).await;
                Ok(())
            }
            Blow::Terminate => self.terminate(&mut process).await,
        }
    }

    /// Whether another replica is there to take over: up, and not paused.
    fn others_are_up(&self) -> bool {
        let others = self.stage.replicas.iter().filter(|r| r.number != self.number);
        others.into_iter().any(|r| r.process.try_lock().is_ok())
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
            // The same one back in place is no takeover, nor is a time in which nobody was there.
            if (renew || late) && self.others_are_up() {
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
