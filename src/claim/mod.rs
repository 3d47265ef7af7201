//! The controller of claims: observe, decide, apply.
//!
//! It knows no rule of binding: those are the binder's. A pass takes the facts and the decision
//! under one lock, so that what it waits for and what it reserves are in the index before anything
//! else can change; then it carries the plan out.

mod apply;
mod observe;

use std::sync::Arc;

use tracing::{Instrument, Span, field::Empty};

use crate::{
    apiserver::{ApiServer, Refusal},
    binder::view::ClaimKey,
    queue::{Job, Next},
    report::Reporter,
    telemetry::{Kind, Metrics, Outcome},
    world::World,
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
}

/// How a pass ended, and when the claim is to be looked at again.
type Ended = (Outcome, Next);

impl Controller {
    /// One pass over one claim.
    pub async fn pass(self: Arc<Self>, job: Job<ClaimKey>) -> Next {
        self.metrics.queued(Kind::Claim, job.queued);
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
        let began = self.world.clock().now().elapsed;
        let (outcome, next) = self.look(&job.key).instrument(span.clone()).await;
        span.record("outcome", outcome.as_str());
        let took = self.world.clock().now().elapsed.saturating_sub(began);
        self.metrics.pass(Kind::Claim, outcome, took);
        next
    }

    async fn look(&self, key: &ClaimKey) -> Ended {
        let plan = match self.observe(key).await {
            Ok(Some(plan)) => plan,
            Ok(None) => return (Outcome::Gone, Next::Settled),
            Err(refusal) => return failed(&refusal),
        };
        let span = Span::current();
        span.record("uid", &*plan.uid);
        span.record("version", &*plan.version);
        let chosen: Vec<_> = plan.chosen().map(|(name, _)| name.clone()).collect();
        let ended = self.apply(&plan).await;
        let wakes = self.world.index().unreserve(key, chosen);
        self.world.wake(crate::world::Learner::Watch, wakes);
        match ended {
            Ok(()) if plan.steps.is_empty() && plan.waiting.is_empty() => {
                (Outcome::Settled, Next::Settled)
            }
            Ok(()) if plan.steps.is_empty() => (Outcome::Waiting, Next::Settled),
            Ok(()) => (Outcome::Written, Next::Settled),
            Err(refusal) => failed(&refusal),
        }
    }
}

/// What is to become of a claim whose pass came to nothing.
fn failed(refusal: &Refusal) -> Ended {
    match refusal {
        Refusal::Conflict | Refusal::Absent => (Outcome::Conflict, Next::Again),
        Refusal::Denied(why) => {
            tracing::warn!(why, "refused, and tried again later");
            (Outcome::Refused, Next::Retry)
        }
        Refusal::Unanswered(why) => {
            tracing::warn!(why, "failed, and tried again");
            (Outcome::Retry, Next::Retry)
        }
    }
}
