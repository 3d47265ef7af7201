//! The controller of addresses: observe, decide, apply.
//!
//! The same shape as the controller of claims; its rules are the binder's.

mod apply;
mod observe;

use std::{sync::Arc, time::Duration};

use tracing::{Span, field::Empty};

use crate::{
    apiserver::{ApiServer, Refusal},
    binder::{plan::AddressStep, view::Name},
    leader::Leadership,
    pass::{Ended, counted, failed},
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
    /// Whether addresses are this replica's.
    pub leadership: Leadership,
    /// How old a reservation must be before it is reclaimed for want of its claim.
    pub grace: Duration,
}

impl Controller {
    /// One pass over one address.
    pub async fn pass(self: Arc<Self>, job: Job<Name>) -> Next {
        let span = tracing::info_span!(
            "reconcile IPAddress",
            name = &*job.key,
            uid = Empty,
            version = Empty,
            wake = job.wake.as_str(),
            attempt = job.attempt,
            outcome = Empty,
        );
        let pass = self.look(&job.key);
        counted(&self.world, &self.metrics, Kind::Address, job.queued, span, pass).await
    }

    async fn look(&self, name: &Name) -> Ended {
        if !self.leadership.leads() {
            return failed(&Refusal::Fenced);
        }
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
        // What is deleted stays until our finalizer goes: the next pass's to do, and the answer that
        // told of the deletion wakes everybody but this one.
        if plan.steps.iter().any(|p| p.step == AddressStep::Delete) {
            return (Outcome::Written, Next::After(Duration::ZERO));
        }
        match (plan.steps.is_empty(), plan.look_again) {
            (true, None) => (Outcome::Settled, Next::Settled),
            (true, Some(rest)) => (Outcome::Waiting, Next::After(rest)),
            (false, Some(rest)) => (Outcome::Written, Next::After(rest)),
            (false, None) => (Outcome::Written, Next::Settled),
        }
    }
}
