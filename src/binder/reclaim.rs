//! Decides the pass of a claim that is being deleted: what it held goes by each address's own
//! policy, and then the claim may go.

use std::collections::BTreeSet;

use super::{
    holding::{Facts, collected},
    index::Seen,
    plan::{ClaimPlan, ClaimStep, Decision, Event, EventReason, Planned, Subject, Target},
    status,
    view::{AddressView, ClaimView, Name},
};
use crate::api::{AddressPhase, ReclaimPolicy};

pub(super) fn decide(facts: &Facts<'_>) -> Decision<ClaimPlan, Name> {
    let claim = facts.claim;
    let mut steps = Vec::new();
    if claim.protected() {
        let unread = unread(facts);
        if !unread.is_empty() {
            return Decision::Read(unread);
        }
        for address in collected(facts.index, claim) {
            steps.extend(reclaim(claim, address));
        }
        // Chosen, and free: who still goes for it must not bind it to a claim that is gone.
        let chosen = claim.selections.names().filter_map(|n| facts.index.address(n).known());
        steps.extend(chosen.filter(|a| a.matchable()).map(ClaimStep::give_up).map(Planned::silent));
        let finalizers = claim.finalizers_without_ours();
        if !finalizers.is_empty() {
            steps.extend(status::withdrawn(claim, facts.now));
        }
        steps.push(Planned::silent(ClaimStep::Unprotect { finalizers }));
    }
    Decision::Act(ClaimPlan {
        claim: claim.key.clone(),
        uid: claim.id.uid.clone(),
        version: claim.id.resource_version.clone(),
        created: claim.id.created,
        steps,
        waiting: Vec::new(),
    })
}

/// What the claim is known to hold and the cache does not show as its own, what the cache shows as
/// needing nothing, and what would be completed. A cache that lags must not let the claim go and leave an address behind that
/// still names it.
fn unread(facts: &Facts<'_>) -> Vec<Name> {
    let claim = facts.claim;
    let published = claim.published.iter().map(|p| Name::from(p.name.as_str()));
    let mut names: BTreeSet<Name> = claim.selections.names().cloned().chain(published).collect();
    for address in collected(facts.index, claim) {
        let nothing_due = reclaim(claim, address).is_empty() && address.ip.is_some();
        // One without a uid may be meant for the next claim of the name, where this one is gone.
        if (nothing_due || address.is_open()) && !address.id.deleting {
            names.insert(address.name.clone());
        } else {
            names.remove(&address.name);
        }
    }
    names.retain(|n| {
        !facts.confirmed.contains(n) && !matches!(facts.index.address(n), Seen::Strange(_))
    });
    names.into_iter().collect()
}

/// One address's reclaim, by its own policy.
fn reclaim(claim: &ClaimView, address: &AddressView) -> Vec<Planned<ClaimStep>> {
    // Somebody deletes it already: its own pass lets it go once this claim is gone.
    if address.id.deleting {
        return Vec::new();
    }
    let about = Subject::Address { name: address.name.clone(), uid: address.id.uid.clone() };
    let related = Subject::Claim { key: claim.key.clone(), uid: claim.id.uid.clone() };
    let event = |reason, note: String| Event {
        about: about.clone(),
        related: Some(related.clone()),
        reason,
        note,
    };
    // First the uid: what this claim held is never adopted by the next claim of its name.
    let mut steps: Vec<_> = ClaimStep::complete(address).map(Planned::silent).into_iter().collect();
    match (address.policy, address.phase) {
        (ReclaimPolicy::Delete, _) => steps.push(Planned::told(
            ClaimStep::Delete { address: Target::of(address) },
            event(
                EventReason::AddressDeleted,
                format!(
                    "Deleted because claim {} is gone and the reclaim policy is Delete",
                    claim.key
                ),
            ),
        )),
        // A driver's phase stays; the address's own pass releases it once the driver clears it.
        (ReclaimPolicy::Retain, Some(AddressPhase::Conflict | AddressPhase::Lost)) => {}
        // Released by an earlier attempt of this pass.
        (ReclaimPolicy::Retain, Some(AddressPhase::Released)) => {}
        // Text that is not one IP stays Pending, whoever claims it.
        (ReclaimPolicy::Retain, _) if address.ip.is_none() => {}
        (
            ReclaimPolicy::Retain,
            None | Some(AddressPhase::Pending | AddressPhase::Available | AddressPhase::Bound),
        ) => steps.push(Planned::told(
            ClaimStep::Release { address: Target::of(address) },
            event(EventReason::AddressReleased, released_note(&claim.key.to_string())),
        )),
    }
    steps
}

/// What the one who reads of a release may do next.
pub(super) fn released_note(claim: &str) -> String {
    format!(
        "Released because claim {claim} is gone and the reclaim policy is Retain: clear spec.claimRef to \
         make it Available, or only spec.claimRef.uid to give it to the next claim of that name"
    )
}
