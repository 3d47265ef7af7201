//! Decides an address's pass.
//!
//! What may destroy or release is never decided on a cache's word alone: where the cache says that
//! the claim is not there, the claim is read from the API server first.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    index::{Index, Seen},
    plan::{AddressPlan, AddressStep, Decision, Event, EventReason, Planned, Subject, Target},
    reclaim::released_note,
    view::{AddressView, ClaimKey, ClaimRef, ClaimView},
};
use crate::api::{AddressPhase, InvalidAddress, ReclaimPolicy};

/// What an address's pass decides on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The world as seen.
    pub index: &'a Index,
    /// The address, as it was when the pass began. With a newer state of it the pass begins anew: it
    /// may name another claim, of which nothing is confirmed.
    pub address: &'a AddressView,
    /// Whether the claim that it names was read from the API server for this pass.
    pub confirmed: bool,
    /// The wall clock, for the age of a reservation.
    pub now: Timestamp,
    /// The monotonic clock that the index was told moments of.
    pub moment: Duration,
    /// How old a reservation must be before it is reclaimed for want of its claim.
    pub grace: Duration,
}

/// What becomes of the address's phase.
enum Course {
    /// It is as it should be, or waits for somebody.
    Stay,
    /// It waits for a moment.
    Wait(Duration),
    /// A phase to be in.
    Be(AddressPhase),
    /// Its claim is gone.
    Reclaim(ClaimKey),
    /// The claim must be read before it can be told.
    Ask(ClaimKey),
}

/// Decides an address's pass, or names the claim that must be read first.
pub fn decide(facts: &Facts<'_>) -> Decision<AddressPlan, ClaimKey> {
    let address = facts.address;
    if address.id.deleting {
        return deletion(facts);
    }
    let course = course(facts);
    if let Course::Ask(key) = course {
        return Decision::Read(vec![key]);
    }
    let mut steps = Vec::new();
    if !address.protected() {
        let finalizers = address.finalizers_with_ours();
        steps.push(Planned::silent(AddressStep::Protect { finalizers }));
    }
    let mut look_again = None;
    match course {
        Course::Stay | Course::Ask(_) => {}
        Course::Wait(rest) => {
            look_again = Some(rest);
            steps.extend(phase(address, AddressPhase::Pending).filter(|_| undecided(address)));
        }
        Course::Be(to) => steps.extend(phase(address, to)),
        Course::Reclaim(claim) => steps.extend(reclaim(address, &claim)),
    }
    Decision::Act(AddressPlan {
        address: Target::of(address),
        steps,
        notices: duplicate(facts).into_iter().collect(),
        look_again,
    })
}

/// A deletion is let through unless a live claim holds the address.
fn deletion(facts: &Facts<'_>) -> Decision<AddressPlan, ClaimKey> {
    let address = facts.address;
    let mut steps = Vec::new();
    let mut notices = Vec::new();
    if address.protected() {
        let holder = address.claim_ref.as_ref().filter(|_| !address.going());
        match holder.map(|reference| (reference, holds(facts, reference))) {
            Some((reference, true)) => notices.push(blocked(address, reference)),
            Some((reference, false)) if reference.uid.is_some() && !facts.confirmed => {
                return Decision::Read(vec![reference.key.clone()]);
            }
            Some((_, false)) | None => {
                let finalizers = address.finalizers_without_ours();
                steps.push(Planned::silent(AddressStep::Unprotect { finalizers }));
            }
        }
    }
    Decision::Act(AddressPlan { address: Target::of(address), steps, notices, look_again: None })
}

/// Whether a claim that exists and stays holds the address. One that does not parse is taken at
/// its uid's word: nothing is done to what it may hold.
fn holds(facts: &Facts<'_>, reference: &ClaimRef) -> bool {
    let Some(uid) = &reference.uid else { return false };
    match facts.index.claim(&reference.key) {
        Seen::Absent => false,
        Seen::Known(claim) => claim.id.uid == *uid && !claim.id.deleting,
        Seen::Strange(claim) => claim.uid == *uid,
    }
}

/// One arm for each state of the address and its claim.
fn course(facts: &Facts<'_>) -> Course {
    let address = facts.address;
    match (address.phase, &address.claim_ref) {
        // A driver's phase stays, whatever else is true.
        (Some(AddressPhase::Conflict | AddressPhase::Lost), _) => Course::Stay,
        // Text that is not one IP: nothing downstream may trust it.
        (None | Some(_), _) if address.ip.is_none() => Course::Be(AddressPhase::Pending),
        // Nobody's. Also how an administrator recycles what was released.
        (None | Some(_), None) => Course::Be(AddressPhase::Available),
        (None | Some(_), Some(reference)) => claimed(facts, reference),
    }
}

fn claimed(facts: &Facts<'_>, reference: &ClaimRef) -> Course {
    match (facts.index.claim(&reference.key), &reference.uid) {
        // The claim does not parse: neither is touched until it does.
        (Seen::Strange(_), _) => Course::Stay,
        // Not completed yet. The claim's own pass does that, also when it is being deleted.
        (Seen::Known(_), None) => Course::Stay,
        (Seen::Known(claim), Some(uid)) if claim.id.uid == *uid => held(facts, claim),
        // An earlier claim of that name held it.
        (Seen::Known(_) | Seen::Absent, Some(_)) => claimless(facts, &reference.key),
        // Reserved for a claim that does not exist (yet).
        (Seen::Absent, None) => reserved(facts, &reference.key),
    }
}

/// The claim that is named exists, and is the one.
fn held(facts: &Facts<'_>, claim: &ClaimView) -> Course {
    let released = facts.address.phase == Some(AddressPhase::Released);
    match (claim.id.deleting, released && !facts.confirmed) {
        // Its reclaim owns what comes next.
        (true, _) => Course::Stay,
        // It was released once: a cache that lags must not give it back to a claim that is gone.
        (false, true) => Course::Ask(claim.key.clone()),
        (false, false) => Course::Be(AddressPhase::Bound),
    }
}

/// The claim that is named is not there, as far as is known.
fn claimless(facts: &Facts<'_>, key: &ClaimKey) -> Course {
    let address = facts.address;
    let retained = address.policy == ReclaimPolicy::Retain;
    match (address.phase == Some(AddressPhase::Released) && retained, facts.confirmed) {
        // Done already, and not worth a read.
        (true, _) => Course::Stay,
        (false, false) => Course::Ask(key.clone()),
        (false, true) => Course::Reclaim(key.clone()),
    }
}

/// A reservation without a uid, for a claim that is not there.
fn reserved(facts: &Facts<'_>, key: &ClaimKey) -> Course {
    let rest = facts.grace.saturating_sub(age(facts));
    if rest.is_zero() { claimless(facts, key) } else { Course::Wait(rest) }
}

/// How long a reservation has surely existed: by its creation and by how long this process has
/// watched it. A clock that runs ahead of the API server's must not cut it short.
fn age(facts: &Facts<'_>) -> Duration {
    let address = facts.address;
    let by_clock = facts.now.duration_since(address.id.created);
    let by_clock = Duration::try_from(by_clock).unwrap_or_default();
    let seen = facts.index.reservation_seen(address).unwrap_or(facts.moment);
    by_clock.min(facts.moment.saturating_sub(seen))
}

/// Whether a reservation still shows no phase, or one that would invite claims to it.
fn undecided(address: &AddressView) -> bool {
    matches!(address.phase, None | Some(AddressPhase::Available | AddressPhase::Bound))
}

fn phase(address: &AddressView, to: AddressPhase) -> Option<Planned<AddressStep>> {
    if address.phase == Some(to) {
        return None;
    }
    let step = AddressStep::Phase(to);
    Some(match (to, address.ip) {
        (AddressPhase::Pending, None) => {
            let note = InvalidAddress(address.text.to_string()).to_string();
            Planned::told(step, event(address, EventReason::InvalidAddress, note))
        }
        _ => Planned::silent(step),
    })
}

fn reclaim(address: &AddressView, claim: &ClaimKey) -> Option<Planned<AddressStep>> {
    match address.policy {
        ReclaimPolicy::Delete => {
            let note = format!("Deleted: claim {claim} is gone and the reclaim policy is Delete");
            let event = event(address, EventReason::Reclaimed, note);
            Some(Planned::told(AddressStep::Delete, event))
        }
        ReclaimPolicy::Retain => (address.phase != Some(AddressPhase::Released)).then(|| {
            let note = released_note(&claim.to_string());
            let event = event(address, EventReason::Reclaimed, note);
            Planned::told(AddressStep::Phase(AddressPhase::Released), event)
        }),
    }
}

fn blocked(address: &AddressView, reference: &ClaimRef) -> Event {
    let note = format!(
        "Claim {} holds this address: it is deleted once that claim is deleted",
        reference.key
    );
    event(address, EventReason::DeletionBlocked, note)
}

/// Tells of another object with the same IP: neither is matched while there are two.
fn duplicate(facts: &Facts<'_>) -> Option<Event> {
    let other = facts.index.duplicates_of(facts.address).next()?;
    let note = format!(
        "IPAddress {other} records the same IP as spec.address {}: neither is matched to a claim \
         while both exist",
        facts.address.text
    );
    Some(event(facts.address, EventReason::DuplicateAddress, note))
}

fn event(address: &AddressView, reason: EventReason, note: String) -> Event {
    Event {
        about: Subject::Address { name: address.name.clone(), uid: address.id.uid.clone() },
        related: None,
        reason,
        note,
    }
}
