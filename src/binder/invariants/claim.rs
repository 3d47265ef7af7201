//! What a write by the controller to an `IPAddressClaim` must not do.

use super::{
    Actor, Findings, Rule, Versions, World, WriteFacts,
    delta::{Step, has_finalizer, is_deleting, judge_delete, judge_metadata, step, took_off},
    world::{ip_of, phase_of},
};
use crate::api::{
    AddressPhase, ClaimedAddress, IPAddress, IPAddressClaim,
    well_known::{
        ADDRESS_FINALIZER, CLAIM_FINALIZER, PROVISIONER_ANNOTATION, SELECTED_ADDRESSES_ANNOTATION,
    },
};

const OWN_ANNOTATIONS: [&str; 2] = [PROVISIONER_ANNOTATION, SELECTED_ADDRESSES_ANNOTATION];

pub(super) fn judge(
    world: &World,
    versions: &Versions<IPAddressClaim>,
    (replica, write): (&Actor, Option<&WriteFacts>),
    findings: &mut Findings,
) {
    let new = versions.new.as_deref();
    let Some(old) = versions.old.as_deref() else {
        findings.add(Rule::WhoWritesWhat, "the controller created a claim".to_owned());
        return;
    };
    let new_meta = new.map(|n| &n.metadata);
    if step(Some(&old.metadata), new_meta) == Step::DeletionAsked {
        findings.add(Rule::WhoWritesWhat, "the controller deleted a claim".to_owned());
        judge_delete(write, findings);
    }
    judge_metadata(&old.metadata, new_meta, CLAIM_FINALIZER, &OWN_ANNOTATIONS, findings);
    if took_off(&old.metadata, new_meta, CLAIM_FINALIZER) {
        judge_let_go(world, old, replica, findings);
    }
    let Some(new) = new else { return };
    if took_off(&old.metadata, new_meta, CLAIM_FINALIZER) && is_deleting(&new.metadata) {
        judge_left_behind(new, findings);
    }
    if old.spec != new.spec {
        findings.add(Rule::WhoWritesWhat, "the controller changed a claim's spec".to_owned());
    }
    judge_published(world, old, new, findings);
    judge_withdrawn(world, old, new, replica, findings);
}

/// I5, second half: when the claim lets go, nothing it holds is left as if it were held. Counted
/// are the addresses that this replica is known to have seen in the claim's hands, in time: it has
/// written to them since, before the version of the claim that letting go was decided on; or that
/// any replica matched or published, since then they are on record on the claim. A write to the
/// address after that version tells nothing: the request that let go may have been on its way already
/// when the replica first saw the address. Nor does a name that is published, where its address was
/// made anew since. One that a driver
/// binds at that very moment is finished by its own pass, and so is one that a driver took out of its
/// own phase at that moment.
///
/// A reclaim may also give up on an address that the API server refuses to have written. That is not
/// visible among commits: see [`super::Checker::refused`].
fn judge_let_go(world: &World, old: &IPAddressClaim, replica: &Actor, findings: &mut Findings) {
    let uid = old.metadata.uid.as_deref().unwrap_or_default();
    let decided_on = world.decided_on(uid, replica, false);
    for address in world.held_by(uid) {
        let name = address.metadata.name.as_deref().unwrap_or_default();
        let held_then = world.unchanged_since(name, decided_on);
        let shown = published(old).any(|p| p.name == name);
        let on_record = world.came_by_match(name) || shown && held_then;
        let in_time = held_then && world.seen_by(replica, name, decided_on);
        let excused = world.was_refused(name) || world.marked_after(name, decided_on);
        if (on_record || in_time) && !excused && !is_reclaimed(address) {
            findings.add(
                Rule::I5,
                format!(
                    "finalizer off while address {name} is still held, in phase {:?}",
                    phase_of(address)
                ),
            );
        }
    }
}

/// Whether nothing is left to do for an address whose claim goes: it is on its way out, or released,
/// or in a state that reclaiming leaves alone.
fn is_reclaimed(address: &IPAddress) -> bool {
    is_deleting(&address.metadata)
        || ip_of(address).is_none()
        || matches!(
            phase_of(address),
            Some(AddressPhase::Released | AddressPhase::Conflict | AddressPhase::Lost)
        )
}

fn published(claim: &IPAddressClaim) -> impl Iterator<Item = &ClaimedAddress> {
    claim.status.iter().flat_map(|s| &s.addresses)
}

/// I7, first half: what is published anew carries the claim's uid, under the IP that is published.
///
/// The write is fenced by the claim's version, not by the address's. So an address that others took
/// away is still excused, until the controller has once withdrawn it: then it knows.
fn judge_published(
    world: &World,
    old: &IPAddressClaim,
    new: &IPAddressClaim,
    findings: &mut Findings,
) {
    let uid = new.metadata.uid.as_deref().unwrap_or_default();
    for entry in published(new).filter(|e| !published(old).any(|o| o == *e)) {
        let holds = world.held_by(uid).any(|a| a.metadata.name.as_ref() == Some(&entry.name));
        if !holds && !world.has_carried(uid, &entry.name) {
            findings.add(Rule::I7, format!("publishes {}, which is not its own", entry.name));
        } else if let Some(address) = world.address(&entry.name)
            && holds
            && address.spec.address != entry.address
        {
            findings.add(
                Rule::I7,
                format!(
                    "publishes {} as {}, but it is {}",
                    entry.name, entry.address, address.spec.address
                ),
            );
        }
    }
}

/// I7, when a claim is let go whose object somebody else's finalizer keeps: what it showed is
/// another's soon.
fn judge_left_behind(new: &IPAddressClaim, findings: &mut Findings) {
    if let Some(entry) = published(new).next() {
        findings.add(Rule::I7, format!("lets go and still publishes {}", entry.name));
    }
}

/// I7, second half: what a live claim holds stays published. Excused is an address that was not the
/// claim's, or was `Lost`, at any time since the version of the claim that the write was decided on.
fn judge_withdrawn(
    world: &World,
    old: &IPAddressClaim,
    new: &IPAddressClaim,
    replica: &Actor,
    findings: &mut Findings,
) {
    if is_deleting(&new.metadata) {
        return;
    }
    let uid = new.metadata.uid.as_deref().unwrap_or_default();
    for entry in published(old).filter(|e| !published(new).any(|n| n.name == e.name)) {
        let held = world.held_by(uid).find(|a| a.metadata.name.as_ref() == Some(&entry.name));
        let Some(address) = held else { continue };
        let steady = world.unchanged_since(&entry.name, world.decided_on(uid, replica, true));
        // Being deleted without our finalizer: nothing keeps it, and it is nobody's any more.
        let goes =
            is_deleting(&address.metadata) && !has_finalizer(&address.metadata, ADDRESS_FINALIZER);
        let lost = phase_of(address) == Some(AddressPhase::Lost);
        if steady && !goes && !lost && ip_of(address).is_some() {
            findings.add(Rule::I7, format!("withdraws {}, which it holds", entry.name));
        }
    }
}
