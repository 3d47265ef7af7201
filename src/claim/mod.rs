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
    apiserver::ApiServer,
    binder::view::ClaimKey,
    pass::{Ended, counted, failed},
    queue::{Job, Next},
    report::Reporter,
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
        self.world.wake(Learner::Watch, wakes);
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
