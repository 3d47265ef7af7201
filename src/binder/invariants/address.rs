//! What a write by the controller to an `IPAddress` must not do.
//!
//! Every one of them is decided on the address's own version and carries it, so what is said here
//! of the address before the write is exact.

use super::{
    Findings, Rule, Versions, World, WriteFacts,
    delta::{Step, has_finalizer, is_deleting, judge_delete, judge_metadata, step, took_off},
    world::{ip_of, phase_of, uid_of},
};
use crate::api::{
    AddressPhase, ClaimReference, IPAddress, IpFamily, parse_ip,
    well_known::{ADDRESS_FINALIZER, CLAIM_FINALIZER, SELECTED_ADDRESSES_ANNOTATION},
};

pub(super) fn judge(
    world: &World,
    versions: &Versions<IPAddress>,
    write: Option<&WriteFacts>,
    findings: &mut Findings,
) {
    let new = versions.new.as_deref();
    let Some(old) = versions.old.as_deref() else {
        findings.add(Rule::WhoWritesWhat, "the controller created an address".to_owned());
        return;
    };
    if step(Some(&old.metadata), new.map(|n| &n.metadata)) == Step::DeletionAsked {
        judge_delete(write, findings);
    }
    judge_metadata(&old.metadata, new.map(|n| &n.metadata), ADDRESS_FINALIZER, &[], findings);
    judge_held(world, old, new, findings);
    let Some(new) = new else { return };
    judge_fields(old, new, findings);
    judge_phase(old, new, findings);
    if old.spec.claim_ref != new.spec.claim_ref {
        judge_claim_ref(world, old, new, write, findings);
    }
}

/// I3: while a claim that exists and is not being deleted holds the address (same namespace, name
/// and uid), the address is kept from every end. The claim's absence can never have been read by
/// the writer: a uid does not come back. A driver's `Lost` frees the object for its own deletion,
/// and nothing else.
fn judge_held(world: &World, old: &IPAddress, new: Option<&IPAddress>, findings: &mut Findings) {
    let Some(claim) = world.live_holder(old) else { return };
    let holder = format!("live claim {claim}");
    let new_meta = new.map(|n| &n.metadata);
    if step(Some(&old.metadata), new_meta) == Step::DeletionAsked {
        findings.add(Rule::I3, format!("deleted while {holder} holds it"));
    }
    if took_off(&old.metadata, new_meta, ADDRESS_FINALIZER)
        && phase_of(old) != Some(AddressPhase::Lost)
    {
        findings.add(Rule::I3, format!("protection taken off while {holder} holds it"));
    }
    let Some(new) = new else { return };
    if phase_of(new) == Some(AddressPhase::Released)
        && phase_of(old) != Some(AddressPhase::Released)
    {
        findings.add(Rule::I3, format!("released while {holder} holds it"));
    }
    if old.spec.claim_ref != new.spec.claim_ref {
        findings.add(Rule::I3, format!("claimRef changed while {holder} holds it"));
    }
}

/// The fields that are somebody else's.
fn judge_fields(old: &IPAddress, new: &IPAddress, findings: &mut Findings) {
    let but_claim_ref = |address: &IPAddress| {
        let mut spec = address.spec.clone();
        spec.claim_ref = None;
        spec
    };
    if but_claim_ref(old) != but_claim_ref(new) {
        findings.add(Rule::WhoWritesWhat, "the controller changed spec beside claimRef".to_owned());
    }
    let (before, after) =
        (old.status.clone().unwrap_or_default(), new.status.clone().unwrap_or_default());
    if before.associated_to != after.associated_to {
        findings.add(Rule::WhoWritesWhat, "the controller changed associatedTo".to_owned());
    }
    if before.conditions != after.conditions {
        findings
            .add(Rule::WhoWritesWhat, "the controller changed an address's conditions".to_owned());
    }
}

/// I6: neither into a driver's phase nor out of it.
fn judge_phase(old: &IPAddress, new: &IPAddress, findings: &mut Findings) {
    let (before, after) = (phase_of(old), phase_of(new));
    let drivers = |phase: Option<AddressPhase>| phase.is_some_and(AddressPhase::is_drivers);
    if before != after && (drivers(before) || drivers(after)) {
        findings.add(Rule::I6, format!("phase written from {before:?} to {after:?}"));
    }
}

/// A write of `claimRef`: a match sets it where there was none, a completion adds the uid to one
/// that lacks it, and there is no third.
fn judge_claim_ref(
    world: &World,
    old: &IPAddress,
    new: &IPAddress,
    write: Option<&WriteFacts>,
    findings: &mut Findings,
) {
    if write.is_some_and(|w| !w.precondition.resource_version) {
        findings.add(Rule::I8, format!("claimRef written without a resourceVersion: {write:?}"));
    }
    let Some(now) = &new.spec.claim_ref else {
        findings.add(Rule::WhoWritesWhat, "the controller cleared claimRef".to_owned());
        judge_retained(old, findings);
        return;
    };
    let Some(was) = &old.spec.claim_ref else {
        judge_named_claim(world, old, now, findings);
        judge_match(world, old, now, findings);
        return;
    };
    let same_name = (&was.namespace, &was.name) == (&now.namespace, &now.name);
    if uid_of(was).is_some() || !same_name {
        findings.add(Rule::I1, format!("claimRef handed on from {was:?} to {now:?}"));
        judge_retained(old, findings);
        return;
    }
    judge_named_claim(world, old, now, findings);
}

/// I4: a full `claimRef` on a `Released` address is an administrator's to clear.
fn judge_retained(old: &IPAddress, findings: &mut Findings) {
    let full = old.spec.claim_ref.as_ref().and_then(uid_of).is_some();
    if full && phase_of(old) == Some(AddressPhase::Released) {
        findings.add(Rule::I4, "claimRef of a retained address changed".to_owned());
    }
}

/// I5, first half: the claim that a `claimRef` names from now on exists and is protected. It may be
/// on its way out: a reclaim completes what it finds. Not held against the controller: a finalizer
/// that others took off; and one that another replica took off since the version of the address
/// that the write was decided on, which is all that the write is fenced by.
fn judge_named_claim(
    world: &World,
    old: &IPAddress,
    now: &ClaimReference,
    findings: &mut Findings,
) {
    let Some(uid) = uid_of(now) else {
        findings.add(Rule::I5, format!("claimRef without a uid written: {now:?}"));
        return;
    };
    let claim = world.claim(&now.namespace, &now.name);
    let protected = claim.is_some_and(|c| {
        c.metadata.uid.as_deref() == Some(uid) && has_finalizer(&c.metadata, CLAIM_FINALIZER)
    });
    let decided_on = old.metadata.resource_version.as_ref().and_then(|v| v.parse().ok());
    let was_protected = decided_on.is_some_and(|revision| world.protected_after(uid, revision));
    if !protected && !was_protected && !world.stripped_by_others(uid) {
        findings.add(
            Rule::I5,
            format!("claimRef names {}/{} {uid}: no such protected claim", now.namespace, now.name),
        );
    }
}

/// What makes a match right, beside the claim's existence.
fn judge_match(world: &World, old: &IPAddress, now: &ClaimReference, findings: &mut Findings) {
    if phase_of(old) != Some(AddressPhase::Available) || is_deleting(&old.metadata) {
        findings.add(
            Rule::WhoWritesWhat,
            format!("matched in phase {:?}, or while being deleted", phase_of(old)),
        );
    }
    let (Ok(ip), Some(uid)) = (parse_ip(&old.spec.address), uid_of(now)) else {
        findings.add(Rule::WhoWritesWhat, "matched although it is not one IP".to_owned());
        return;
    };
    let name = old.metadata.name.as_deref().unwrap_or_default();
    judge_one_per_family(world, name, IpFamily::of(ip), uid, findings);
    judge_selected(world, name, now, findings);
    for (other, claim) in world.matched_with_ip(ip) {
        if other != name && claim.uid != uid {
            findings.add(
                Rule::OneIpOneClaim,
                format!("matched although live claim {claim} holds {ip} by address {other}"),
            );
        }
    }
}

/// I2: no second address of a family. What counts as the first: one that came by a match too, and
/// one that the claim published when the choice was recorded, since the record is fenced by the
/// claim's version. A driver's address that arrived after that could not be known, and a claim that
/// is given more than it asked for keeps it all.
fn judge_one_per_family(
    world: &World,
    name: &str,
    family: IpFamily,
    uid: &str,
    findings: &mut Findings,
) {
    for other in world.held_by(uid) {
        let other_name = other.metadata.name.as_deref().unwrap_or_default();
        let same_family = ip_of(other).map(IpFamily::of) == Some(family);
        let lost = phase_of(other) == Some(AddressPhase::Lost);
        let known = world.came_by_match(other_name) || world.known_at_selection(uid, other_name);
        if other_name != name && same_family && !lost && known {
            findings.add(
                Rule::I2,
                format!("matched to claim {uid}, which already holds {other_name} for {family}"),
            );
        }
    }
}

/// I2, how it is kept: the choice is on the claim before the address names the claim. Whoever edits
/// the record by hand voids this check, not the one above. Nor is it asked of a namesake: whether
/// the claim that is named may be gone is I5's business.
fn judge_selected(world: &World, name: &str, now: &ClaimReference, findings: &mut Findings) {
    let Some(claim) = world.claim(&now.namespace, &now.name) else { return };
    if claim.metadata.uid.as_deref() != uid_of(now) {
        return;
    }
    let recorded = claim
        .metadata
        .annotations
        .iter()
        .flatten()
        .any(|(key, value)| key == SELECTED_ADDRESSES_ANNOTATION && value.contains(name));
    if !recorded && !world.selection_by_others(claim) {
        findings.add(Rule::I2, format!("matched without the choice of {name} on the claim"));
    }
}
