//! The controller of claims: observe, decide, apply.
//!
//! It knows no rule of binding: those are the binder's. A pass takes the facts and the decision
//! under one lock, so that what it waits for and what it reserves are in the index before anything
//! else can change; then it carries the plan out.

mod apply;
mod observe;

use std::sync::Arc;

use tracing::{Span, field::Empty};

use crate::{
    apiserver::{ApiServer, Refusal},
    binder::view::ClaimKey,
    pass::{Ended, counted, failed},
    queue::{Job, Next},
    report::Reporter,
    shard::Shard,
    telemetry::{Kind, Metrics, Outcome},
    world::{Learner, World},
};

/// What a claim's pass works with.
#[derive(Clone)]
pub struct Controller {
    /// What is known.
    pub world: Arc<World>,
    /// Where it is written.
    pub api: ApiServer,
    /// Who is told.
    pub reporter: Reporter,
    /// Where it is counted.
    pub metrics: Arc<Metrics>,
    /// Which claims are this replica's.
    pub shard: Shard,
}

impl Controller {
    /// One pass over one claim.
    pub async fn pass(self: Arc<Self>, job: Job<ClaimKey>) -> Next {
        let span = tracing::info_span!(
            "reconcile IPAddressClaim",
            namespace = &*job.key.namespace,
            name = &*job.key.name,
            uid = Empty,
            version = Empty,
            wake = job.wake.as_str(),
            attempt = job.attempt,
            outcome = Empty,
        );
        let pass = self.look(&job.key);
        counted(&self.world, &self.metrics, Kind::Claim, job.queued, span, pass).await
    }

    async fn look(&self, key: &ClaimKey) -> Ended {
        let uid = self.world.index().claim(key).known().map(|claim| claim.id.uid.clone());
        if uid.is_some_and(|uid| !self.shard.holds(&uid)) {
            return self.leave(key);
        }
        let plan = match self.observe(key).await {
            Ok(Some(plan)) => plan,
            Ok(None) => return (Outcome::Gone, Next::Settled),
            Err(refusal) => return failed(&refusal),
        };
        let span = Span::current();
        span.record("uid", &*plan.uid);
        span.record("version", &*plan.version);
        let chosen: Vec<_> = plan.chosen().map(|(name, _)| name.clone()).collect();
        // What was read took its time: the claim may have moved.
        let ours = plan.steps.is_empty() || self.shard.holds(&plan.uid);
        let ended = if ours { self.apply(&plan).await } else { Err(Refusal::Fenced) };
        let wakes = self.world.index().unreserve(key, chosen);
        self.world.wake(Learner::Watch, wakes);
        match ended {
            Ok(()) if plan.steps.is_empty() && plan.waiting.is_empty() => {
                (Outcome::Settled, Next::Settled)
            }
            Ok(()) if plan.steps.is_empty() => (Outcome::Waiting, Next::Settled),
            Ok(()) => (Outcome::Written, Next::Settled),
            Err(Refusal::Fenced) => self.leave(key),
            Err(refusal) => failed(&refusal),
        }
    }

    /// The claim is another replica's: it waits for nothing here.
    fn leave(&self, key: &ClaimKey) -> Ended {
        let wakes = self.world.index().left(key);
        self.world.wake(Learner::Watch, wakes);
        failed(&Refusal::Fenced)
    }
}
