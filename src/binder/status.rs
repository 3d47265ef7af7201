//! A claim's status, from scratch: phase, addresses, conditions, and the events that tell of them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{
    index::{Index, Seen},
    matching::{Missing, Resolution},
    plan::{ClaimStatus, ClaimStep, Event, EventReason, Planned, Subject},
    view::{AddressView, ClaimView, Name},
};
use crate::api::{
    BoundReason, ClaimPhase, ClaimedAddress, ClassResolvedReason, ConditionType, IpFamily,
    limits::{CONDITION_MESSAGE_LIMIT, cut},
};

/// How a claim stands once the steps before its status are written.
pub(super) struct Outlook<'a> {
    pub(super) claim: &'a ClaimView,
    pub(super) addresses: &'a [&'a AddressView],
    pub(super) unreadable: &'a [&'a ClaimedAddress],
    pub(super) invalid: &'a [&'a AddressView],
    pub(super) chosen: &'a [(IpFamily, &'a AddressView)],
    pub(super) missing: &'a [(IpFamily, Missing)],
    pub(super) resolution: Option<&'a Resolution<'a>>,
    pub(super) own_match: Option<&'a AddressView>,
    pub(super) stamp: Option<&'a Name>,
    pub(super) index: &'a Index,
    pub(super) now: Timestamp,
}

impl Outlook<'_> {
    fn seen(&self) -> (i64, Timestamp) {
        (self.claim.generation, self.now)
    }
}

/// The status to be written, unless it is what is there.
pub(super) fn due(outlook: &Outlook<'_>) -> Option<Planned<ClaimStep>> {
    let claim = outlook.claim;
    let desired = desired(outlook);
    let same = claim.phase == Some(desired.phase)
        && desired.class.as_ref().is_none_or(|c| claim.resolved_class.as_ref() == Some(c))
        && claim.published == desired.addresses
        && claim.conditions == desired.conditions;
    (!same).then(|| {
        let events = events(outlook, &desired);
        Planned { step: ClaimStep::Status(desired), events }
    })
}

/// What is withdrawn from a claim that is being deleted, once what it held is reclaimed: somebody
/// else's finalizer may keep the object for long, and another claim may have the address by then.
pub(super) fn withdrawn(claim: &ClaimView, now: Timestamp) -> Option<Planned<ClaimStep>> {
    if claim.published.is_empty() {
        return None;
    }
    let phase = ClaimPhase::Lost;
    let note = "The claim is being deleted, and what it held is reclaimed";
    let mut conditions = claim.conditions.clone();
    let (kind, reason) = (ConditionType::Bound, BoundReason::AddressLost.as_str());
    set(&mut conditions, (claim.generation, now), kind, false, reason, note.to_owned());
    let status = ClaimStatus { phase, class: None, addresses: Vec::new(), conditions };
    let event = Event {
        about: Subject::Claim { key: claim.key.clone(), uid: claim.id.uid.clone() },
        related: None,
        reason: EventReason::Lost,
        note: note.to_owned(),
    };
    let entered = (claim.phase != Some(phase)).then_some(event);
    Some(Planned { step: ClaimStep::Status(status), events: entered.into_iter().collect() })
}

/// What a claim says that waits because the API server does not take what would be recorded on it:
/// that, in the API server's words. Nothing where it says so already, or has all that it asks for.
pub fn refused(claim: &ClaimView, why: &str, now: Timestamp) -> Option<ClaimStatus> {
    let (phase, reason) = match claim.phase {
        None | Some(ClaimPhase::Pending) => {
            (ClaimPhase::Pending, BoundReason::WaitingForProvisioning)
        }
        Some(ClaimPhase::Lost) => (ClaimPhase::Lost, BoundReason::AddressLost),
        Some(ClaimPhase::Bound) => return None,
    };
    let message = format!("The API server refuses what is to be recorded on this claim: {why}");
    let mut conditions = claim.conditions.clone();
    let kind = ConditionType::Bound;
    set(&mut conditions, (claim.generation, now), kind, false, reason.as_str(), message);
    let same = claim.phase == Some(phase) && claim.conditions == conditions;
    let addresses = claim.published.clone();
    (!same).then_some(ClaimStatus { phase, class: None, addresses, conditions })
}

fn desired(outlook: &Outlook<'_>) -> ClaimStatus {
    let phase = phase(outlook);
    let addresses = addresses(outlook);
    let mut conditions = outlook.claim.conditions.clone();
    let class = class(outlook);
    if let Some((status, reason, message)) = class_resolved(outlook, class.as_ref()) {
        let kind = ConditionType::ClassResolved;
        set(&mut conditions, outlook.seen(), kind, status, reason.as_str(), message);
    }
    let (reason, message) = bound(outlook, phase, &addresses);
    let is_bound = phase == ClaimPhase::Bound;
    let kind = ConditionType::Bound;
    set(&mut conditions, outlook.seen(), kind, is_bound, reason.as_str(), message);
    ClaimStatus { phase, class, addresses, conditions }
}

fn phase(outlook: &Outlook<'_>) -> ClaimPhase {
    if outlook.missing.is_empty() {
        return ClaimPhase::Bound;
    }
    match outlook.claim.phase {
        Some(ClaimPhase::Bound | ClaimPhase::Lost) => ClaimPhase::Lost,
        Some(ClaimPhase::Pending) | None => ClaimPhase::Pending,
    }
}

fn addresses(outlook: &Outlook<'_>) -> Vec<ClaimedAddress> {
    let held = outlook.addresses.iter().copied();
    let chosen = outlook.chosen.iter().map(|(_, a)| *a);
    let mut all: Vec<_> = held
        .chain(chosen)
        .map(|a| ClaimedAddress { name: a.name.to_string(), address: a.text.to_string() })
        .chain(outlook.unreadable.iter().map(|p| (*p).clone()))
        .collect();
    all.sort();
    all.dedup_by(|a, b| a.name == b.name);
    all
}

/// The class, when this pass resolved it; or the one that the claim's own match tells of, when an
/// earlier pass did and could not write it down.
fn class(outlook: &Outlook<'_>) -> Option<Name> {
    match outlook.resolution {
        Some(resolution) => resolution.class().map(|c| c.name.clone()),
        None => outlook
            .own_match
            .filter(|a| outlook.claim.resolved_class.is_none() || !outlook.claim.publishes(&a.name))
            .map(|a| a.class.clone()),
    }
}

fn class_resolved(
    outlook: &Outlook<'_>,
    class: Option<&Name>,
) -> Option<(bool, ClassResolvedReason, String)> {
    if let Some(name) = class {
        let message = format!("IPAddressClass {name} serves this claim");
        return Some((true, ClassResolvedReason::Resolved, message));
    }
    outlook.resolution.map(|r| (false, r.reason(), r.to_string()))
}

fn bound(
    outlook: &Outlook<'_>,
    phase: ClaimPhase,
    addresses: &[ClaimedAddress],
) -> (BoundReason, String) {
    match phase {
        ClaimPhase::Bound => (BoundReason::Bound, bound_message(outlook, addresses)),
        ClaimPhase::Pending => (BoundReason::WaitingForProvisioning, waiting_message(outlook)),
        ClaimPhase::Lost => (BoundReason::AddressLost, waiting_message(outlook)),
    }
}

fn bound_message(outlook: &Outlook<'_>, addresses: &[ClaimedAddress]) -> String {
    let names: Vec<_> = addresses.iter().map(|a| format!("{} ({})", a.name, a.address)).collect();
    let asked = outlook.claim.family.wanted().len();
    let more = if addresses.len() > asked {
        format!("; it asked for {asked} and holds more than that")
    } else {
        String::new()
    };
    format!("Bound to {}{more}", names.join(", "))
}

fn waiting_message(outlook: &Outlook<'_>) -> String {
    let mut parts: Vec<_> = outlook
        .missing
        .iter()
        .map(|(family, why)| missing_message(outlook, *family, why))
        .collect();
    for address in outlook.invalid {
        parts.push(format!(
            "address {} names this claim, but its spec.address {:?} is not one IP address",
            address.name, address.text
        ));
    }
    if let Some(provisioner) = outlook.stamp.filter(|_| outlook.resolution.is_some_and(is_resolved))
    {
        parts.push(format!("{provisioner} is asked to provision"));
    }
    parts.join("; ")
}

fn is_resolved(resolution: &Resolution<'_>) -> bool {
    resolution.class().is_some()
}

fn missing_message(outlook: &Outlook<'_>, family: IpFamily, why: &Missing) -> String {
    match why {
        Missing::NoClass => format!("{family} is missing, and the class is not resolved"),
        Missing::NoneFree(class) => {
            format!("{family} is missing, and no address of class {class} is free")
        }
        Missing::Pinned(name, obstacle) => {
            format!("{family} is missing, and the pinned address {name} {obstacle}")
        }
        Missing::Unreadable(name) => format!(
            "{family} is missing, and the chosen address {name} does not parse: it was written for another version of the API"
        ),
        Missing::HeldBefore(name) => format!(
            "{family} is missing: address {name} {}; it is not replaced unasked, since its IP may be in use: \
             bring it back, or set spec.addressName to ask for another",
            whereabouts(outlook, family, name)
        ),
    }
}

/// What became of an address that the claim held.
fn whereabouts(outlook: &Outlook<'_>, family: IpFamily, name: &Name) -> &'static str {
    let claim = outlook.claim;
    match outlook.index.address(name) {
        Seen::Absent => "is gone",
        Seen::Strange(_) => "does not parse",
        Seen::Known(a) if a.going() => "is being deleted",
        Seen::Known(a) if a.family() != Some(family) => "is no IP of this family any more",
        Seen::Known(a) => match &a.claim_ref {
            None => "was taken from this claim",
            Some(r) if !r.is_to(claim) => "belongs to another claim",
            // It would satisfy the family otherwise.
            Some(_) => "is lost",
        },
    }
}

/// Sets a condition, as of a generation of the claim and a moment.
fn set(
    conditions: &mut Vec<Condition>,
    (generation, now): (i64, Timestamp),
    kind: ConditionType,
    holds: bool,
    reason: &str,
    mut message: String,
) {
    // Names of classes and drivers are as long as somebody likes.
    cut(&mut message, CONDITION_MESSAGE_LIMIT);
    let status = if holds { "True" } else { "False" };
    let at = conditions.iter().position(|c| c.type_ == kind.as_str());
    let since = at
        .map(|i| &conditions[i])
        .filter(|c| c.status == status)
        .map_or(Time(now), |c| c.last_transition_time.clone());
    let condition = Condition {
        type_: kind.as_str().to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: Some(generation),
        last_transition_time: since,
    };
    match at {
        Some(i) => conditions[i] = condition,
        None => conditions.push(condition),
    }
}

/// What is told when the status is written: a match, or the phase that is entered; and why the
/// class is not resolved, when that is new.
fn events(outlook: &Outlook<'_>, desired: &ClaimStatus) -> Vec<Event> {
    let claim = outlook.claim;
    let about = Subject::Claim { key: claim.key.clone(), uid: claim.id.uid.clone() };
    let event = |reason, note: &str, related| Event {
        about: about.clone(),
        related,
        reason,
        note: note.to_owned(),
    };
    let message = |conditions: &[Condition], kind: ConditionType| {
        conditions.iter().find(|c| c.type_ == kind.as_str()).cloned()
    };
    let mut events = Vec::new();
    let note =
        message(&desired.conditions, ConditionType::Bound).map_or_else(String::new, |c| c.message);
    if let Some((_, address)) = outlook.chosen.first() {
        let related = Subject::Address { name: address.name.clone(), uid: address.id.uid.clone() };
        events.push(event(EventReason::Matched, &matched_note(outlook), Some(related)));
    }
    let told_by_match = desired.phase == ClaimPhase::Bound && !events.is_empty();
    if claim.phase != Some(desired.phase) && !told_by_match {
        let reason = match desired.phase {
            ClaimPhase::Pending => EventReason::Pending,
            ClaimPhase::Bound => EventReason::Bound,
            ClaimPhase::Lost => EventReason::Lost,
        };
        events.push(event(reason, &note, None));
    }
    let before = message(&claim.conditions, ConditionType::ClassResolved).map(|c| c.reason);
    if let Some(now) = outlook.resolution.map(Resolution::reason)
        && before.as_deref() != Some(now.as_str())
    {
        let reason = match now {
            ClassResolvedReason::Resolved => None,
            ClassResolvedReason::ClassNotFound => Some(EventReason::ClassNotFound),
            ClassResolvedReason::NoDefaultClass => Some(EventReason::NoDefaultClass),
            ClassResolvedReason::MultipleDefaultClasses => {
                Some(EventReason::MultipleDefaultClasses)
            }
        };
        let note = outlook.resolution.map(ToString::to_string).unwrap_or_default();
        events.extend(reason.map(|reason| event(reason, &note, None)));
    }
    events
}

fn matched_note(outlook: &Outlook<'_>) -> String {
    let names: Vec<_> =
        outlook.chosen.iter().map(|(_, a)| format!("{} ({})", a.name, a.text)).collect();
    format!("Matched to {}", names.join(", "))
}
