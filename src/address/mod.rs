//! The controller of addresses: observe, decide, apply.
//!
//! The same shape as the controller of claims; its rules are the binder's.

mod apply;
mod observe;

use std::{sync::Arc, time::Duration};

use tracing::{Instrument, Span, field::Empty};

use crate::{
    apiserver::{ApiServer, Refusal},
    binder::view::Name,
    queue::{Job, Next},
    report::Reporter,
    telemetry::{Kind, Metrics, Outcome},
    world::World,
};

/// What an address's pass works with.
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
    /// How old a reservation must be before it is reclaimed for want of its claim.
    pub grace: Duration,
}

/// How a pass ended, and when the address is to be looked at again.
type Ended = (Outcome, Next);

impl Controller {
    /// One pass over one address.
    pub async fn pass(self: Arc<Self>, job: Job<Name>) -> Next {
        self.metrics.queued(Kind::Address, job.queued);
        let span = tracing::info_span!(
            "reconcile IPAddress",
            name = &*job.key,
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
        self.metrics.pass(Kind::Address, outcome, took);
        next
    }

    async fn look(&self, name: &Name) -> Ended {
        let plan = match self.observe(name).await {
            Ok(Some(plan)) => plan,
            Ok(None) => return (Outcome::Gone, Next::Settled),
            Err(refusal) => return failed(&refusal),
        };
        let span = Span::current();
        span.record("uid", &*plan.address.uid);
        span.record("version", &*plan.address.version);
        if let Err(refusal) = self.apply(&plan).await {
            return failed(&refusal);
        }
        self.reporter.notices(&plan.address.uid, plan.notices);
        match (plan.steps.is_empty(), plan.look_again) {
            (true, None) => (Outcome::Settled, Next::Settled),
            (true, Some(rest)) => (Outcome::Waiting, Next::After(rest)),
            (false, Some(rest)) => (Outcome::Written, Next::After(rest)),
            (false, None) => (Outcome::Written, Next::Settled),
        }
    }
}

/// What is to become of an address whose pass came to nothing.
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
