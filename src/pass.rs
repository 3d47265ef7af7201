//! What the passes of both controllers have in common: how one ends, and how that is counted.

use std::{future::Future, time::Duration};

use tracing::{Instrument, Span};

use crate::{
    apiserver::Refusal,
    queue::Next,
    telemetry::{Kind, Metrics, Outcome},
    world::World,
};

/// How a pass ended, and when its object is to be looked at again.
pub(crate) type Ended = (Outcome, Next);

/// Runs a pass in its span, and counts it.
pub(crate) async fn counted(
    world: &World,
    metrics: &Metrics,
    kind: Kind,
    queued: Duration,
    span: Span,
    pass: impl Future<Output = Ended>,
) -> Next {
    metrics.queued(kind, queued);
    let began = world.clock().now().elapsed;
    let (outcome, next) = pass.instrument(span.clone()).await;
    span.record("outcome", outcome.as_str());
    metrics.pass(kind, outcome, world.clock().now().elapsed.saturating_sub(began));
    next
}

/// What is to become of an object whose pass came to nothing.
pub(crate) fn failed(refusal: &Refusal) -> Ended {
    match refusal {
        Refusal::Conflict | Refusal::Absent => (Outcome::Conflict, Next::Again),
        Refusal::Fenced => (Outcome::Elsewhere, Next::Settled),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A conflict is not an error: at once, with fresh eyes. What failed waits for its turn.
    #[test]
    fn a_conflict_is_looked_at_again_and_a_failure_is_tried_again() {
        assert_eq!(failed(&Refusal::Conflict), (Outcome::Conflict, Next::Again));
        assert_eq!(failed(&Refusal::Absent), (Outcome::Conflict, Next::Again));
        assert_eq!(failed(&Refusal::Fenced), (Outcome::Elsewhere, Next::Settled));
        assert_eq!(failed(&Refusal::Denied("no".into())), (Outcome::Refused, Next::Retry));
        assert_eq!(failed(&Refusal::Unanswered("cut".into())), (Outcome::Retry, Next::Retry));
    }
}
