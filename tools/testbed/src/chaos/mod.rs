//! Several replicas at work on a real control plane while everything that can go wrong does; then
//! peace, and the whole history held against the invariants.
//!
//! All that is random follows from one seed: what people ask for, what goes wrong, and how long
//! they wait. How the processes interleave does not: a seed that found something makes the same
//! things happen again, close to the same moments. What we break ourselves is not the controller's
//! fault: everybody introduces themselves, and the history knows who did what.

mod clock;
mod faults;
mod findings;
mod leader;
mod outcome;
mod pace;
mod replica;
mod rest;
mod stage;
mod tally;
mod workload;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use address_controller::api::well_known::MANAGER;
use anyhow::Result;
use fastrand::Rng;

use self::{faults::Faults, pace::End, stage::Stage, workload::Workload};
use crate::history::{Source, check_at_rest};

pub use outcome::{Outcome, Record, Work};

/// How often it is said how things go.
const SAY: Duration = Duration::from_secs(30);

/// A run of chaos.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The controller's program.
    pub binary: PathBuf,
    /// How many replicas.
    pub replicas: usize,
    /// How long people work and things go wrong.
    pub time: Duration,
    /// What everything random follows from.
    pub seed: u64,
    /// Whether the replicas share the work by Leases; else each does everything.
    pub leases: bool,
    /// How many claims there are at once.
    pub claims: usize,
    /// More flags for the controller.
    pub flags: Vec<String>,
}

impl Plan {
    /// Three replicas, and so many claims that some four a second come and go.
    pub fn new(binary: impl Into<PathBuf>, time: Duration, seed: u64) -> Self {
        let (replicas, claims, flags) = (3, 32, Vec::new());
        Self { binary: binary.into(), replicas, time, seed, leases: true, claims, flags }
    }

    /// The command that does the same again.
    pub fn command(&self) -> String {
        let minutes = self.time.as_secs_f64() / 60.0;
        let leases = if self.leases { "" } else { " --no-leases" };
        let flags = self.flags.join(" ");
        let flags = if flags.is_empty() { flags } else { format!(" -- {flags}") };
        format!(
            "cargo xtask chaos --replicas {} --minutes {minutes} --seed {} --claims {}{leases}{flags}",
            self.replicas, self.seed, self.claims
        )
    }
}

/// A seed for whoever has none: short, since people type it.
pub fn any_seed() -> u64 {
    fastrand::u64(1..1_000_000)
}

/// Runs a plan to its end, and says on standard error how it goes.
///
/// # Errors
/// When something cannot be started, undone or read: not when something was found.
pub async fn run(plan: Plan) -> Result<Outcome> {
    eprintln!("{}", plan.command());
    let mut rng = Rng::with_seed(plan.seed);
    let stage = Arc::new(Stage::set(&plan, &mut rng).await?);
    let ended = act(&plan, &stage, &mut rng).await;
    if ended.as_ref().map_or(true, |outcome| !outcome.is_clean()) {
        stage.keep_logs().await;
    }
    ended
}

async fn act(plan: &Plan, stage: &Arc<Stage>, rng: &mut Rng) -> Result<Outcome> {
    let end = End::new();
    let following = follow(stage, &end)?;
    let mut workload = Workload::begin(&stage.controlplane, plan.claims, rng).await?;
    let faults = Faults::begin(stage, rng);
    watch(plan, stage, &workload).await;
    workload.people_stop().await;
    faults.stop(stage).await?;
    eprintln!("  peace: waiting until nothing is written any more");
    let rest = rest::wait(stage, &workload.tally).await;
    let rest = rest.map_err(|error| stage.findings.add(format!("{error:#}"))).ok();
    let tally = workload.tally.clone();
    workload.stop().await;
    end.now();
    following.await?;
    conclude(plan, stage, tally.counts(), rest).await
}

/// Follows the leader's Lease until the end.
fn follow(stage: &Arc<Stage>, end: &End) -> Result<tokio::task::JoinHandle<()>> {
    let client = stage.controlplane.admin()?;
    let (until, stage) = (end.until(), stage.clone());
    Ok(tokio::spawn(async move {
        let name = format!("{MANAGER}-leader");
        stage.leader.follow(client, stage::NAMESPACE, &name, until).await;
    }))
}

/// Lets it go on for as long as it is to, and says how it goes.
async fn watch(plan: &Plan, stage: &Stage, workload: &Workload) {
    let begin = Instant::now();
    while let Some(left) = plan.time.checked_sub(begin.elapsed()) {
        tokio::time::sleep(left.min(SAY)).await;
        eprintln!(
            "  {:4} s: {} claims made, {} deleted; {} replicas killed, {} changes of the leader",
            begin.elapsed().as_secs(),
            workload.tally.count("claim created"),
            workload.tally.count("claim deleted"),
            stage.faults.count("replica killed (SIGKILL)"),
            stage.leader.changes(),
        );
    }
}

/// Reads what happened, and judges it.
async fn conclude(
    plan: &Plan,
    stage: &Stage,
    workload: std::collections::BTreeMap<String, usize>,
    rest: Option<Duration>,
) -> Result<Outcome> {
    let begin = Instant::now();
    let source = Source::of(&stage.controlplane).with(workload::actors());
    let history = source.read().await?;
    let report = check_at_rest(&history);
    let (takeovers, unfollowed) = stage.leader.takeovers();
    Ok(Outcome {
        plan: plan.clone(),
        work: Work::of(&history),
        faults: stage.faults.counts(),
        workload,
        takeovers,
        unfollowed,
        rest,
        report,
        findings: stage.findings.all(),
        record: Record {
            audit_bytes: std::fs::metadata(stage.controlplane.audit_log())?.len(),
            took: begin.elapsed(),
            peak_memory: outcome::peak_memory(),
        },
        clocks: stage.clock.is_some(),
    })
}
