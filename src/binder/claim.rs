//! Decides a claim's pass.
//!
//! Three rules of fencing are kept here and nowhere else. Whoever binds selects first: the choice is
//! written onto the claim, on the state of the claim that was decided on, and then onto the
//! address, on the state of the address that was read before. A known choice is given up only
//! after the API server itself was asked about that address, which is what [`Decision::Read`] is.
//! And where the address that is given up is still free (the claim asks for another by now, or a
//! second object records the same IP), it is written to first: an older attempt on it may still be
//! on its way, and nothing else would refuse it.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{
    index::{Index, Seen},
    matching::{self, Missing, Resolution, choose, target},
    plan::{ClaimPlan, ClaimStep, Decision, Planned, Waiting},
    reclaim,
    selection::Selections,
    status::{self, Outlook},
    view::{AddressView, ClaimView, ClassView, Name},
};
use crate::api::{AddressPhase, ClaimPhase, ClaimedAddress, IpFamily, parse_ip};

/// What a claim's pass decides on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The world as seen.
    pub index: &'a Index,
    /// The claim, as it was when the pass began: the reads that are confirmed came after it. With a
    /// newer state of the claim the pass begins anew, and nothing is confirmed: a choice made in
    /// between could otherwise be given up on the word of a read that is older than the choice.
    pub claim: &'a ClaimView,
    /// The addresses that were read from the API server for this pass. Their states are in the
    /// index, or newer ones are.
    pub confirmed: &'a BTreeSet<Name>,
    /// The wall clock, for conditions.
    pub now: Timestamp,
}

/// Decides a claim's pass, or names the addresses that must be read first.
pub fn decide(facts: &Facts<'_>) -> Decision<ClaimPlan, Name> {
    if facts.claim.id.deleting {
        return reclaim::decide(facts);
    }
    let held = Held::by(facts);
    let unread = held.unread(facts);
    if !unread.is_empty() {
        return Decision::Read(unread);
    }
    Decision::Act(plan(facts, &held))
}

/// The addresses that name a claim without a uid or with this claim's: its own, now or soon.
pub(super) fn collected<'a>(
    index: &'a Index,
    claim: &'a ClaimView,
) -> impl Iterator<Item = &'a AddressView> {
    let own = |a: &&AddressView| a.claim_ref.as_ref().is_some_and(|r| r.is_to(claim));
    index.claimed_by(&claim.key).filter(own)
}

/// The collected addresses without those that are as good as gone.
pub(super) fn staying<'a>(
    index: &'a Index,
    claim: &'a ClaimView,
) -> impl Iterator<Item = &'a AddressView> {
    collected(index, claim).filter(|a| !(a.going() || a.id.deleting && is_open(a)))
}

/// What a live claim holds, and what it lacks.
struct Held<'a> {
    /// Its addresses, sorted by name.
    addresses: Vec<&'a AddressView>,
    /// Those whose text is not one IP: neither completed nor published.
    invalid: Vec<&'a AddressView>,
    /// Published addresses that no longer parse: kept as they are until they do.
    unreadable: Vec<&'a ClaimedAddress>,
    /// The families that nothing satisfies.
    missing: Vec<IpFamily>,
}

impl<'a> Held<'a> {
    fn by(facts: &Facts<'a>) -> Self {
        let (addresses, invalid): (Vec<_>, Vec<_>) =
            staying(facts.index, facts.claim).partition(|a| a.ip.is_some());
        let unreadable: Vec<_> = facts
            .claim
            .published
            .iter()
            .filter(|p| matches!(facts.index.address(&p.name.as_str().into()), Seen::Strange(_)))
            .collect();
        let satisfied = |family: IpFamily| {
            let by_address = addresses
                .iter()
                .any(|a| a.family() == Some(family) && a.phase != Some(AddressPhase::Lost));
            by_address || unreadable.iter().any(|p| family_of(p) == Some(family))
        };
        let missing =
            facts.claim.family.wanted().iter().copied().filter(|f| !satisfied(*f)).collect();
        Self { addresses, invalid, unreadable, missing }
    }

    /// What holds this published address by name, or its place while it does not parse.
    fn keeps(&self, p: &ClaimedAddress, as_it_is: impl Fn(&AddressView) -> bool) -> bool {
        self.addresses.iter().any(|a| *a.name == *p.name && as_it_is(a))
            || self.unreadable.iter().any(|u| u.name == p.name)
    }

    /// Published addresses that are no longer the claim's, as far as is known, or another IP by now.
    fn leaving(&self, claim: &'a ClaimView) -> impl Iterator<Item = &'a ClaimedAddress> {
        claim.published.iter().filter(|p| !self.keeps(p, |a| *a.text == *p.address))
    }

    /// The families of which everything that was published leaves, and the first name that does.
    fn losses(&self, claim: &'a ClaimView) -> Vec<(IpFamily, Name)> {
        let all_leave = |family: IpFamily| {
            let leaves = |p: &&ClaimedAddress| !self.keeps(p, |a| a.family() == Some(family));
            let mut shown = claim.published_of(family);
            let first = shown.next().filter(leaves)?;
            shown.all(|p| leaves(&p)).then(|| (family, first.name.as_str().into()))
        };
        [IpFamily::IPv4, IpFamily::IPv6].into_iter().filter_map(all_leave).collect()
    }

    /// What must be read before anything is published that this pass itself does not bind or
    /// complete, or is withdrawn, called lost, or chosen anew.
    fn unread(&self, facts: &Facts<'_>) -> Vec<Name> {
        let claim = facts.claim;
        let mut names: BTreeSet<Name> =
            self.leaving(claim).map(|p| p.name.as_str().into()).collect();
        let published = |a: &AddressView| claim.published.iter().any(|p| p.name == *a.name);
        let anew = self.addresses.iter().filter(|a| !is_open(a) && !published(a));
        names.extend(anew.map(|a| a.name.clone()));
        if claim.phase == Some(ClaimPhase::Bound) && !self.missing.is_empty() {
            let lost = self.addresses.iter().filter(|a| a.phase == Some(AddressPhase::Lost));
            names.extend(lost.map(|a| a.name.clone()));
        }
        for family in &self.missing {
            let may_choose = claim.pin.is_some() || !claim.has_held(*family);
            if let Some(known) = claim.selections.get(*family).filter(|_| may_choose) {
                names.insert(known.name.clone());
            }
        }
        // A loss is recorded in the place of a choice that cannot be had any more.
        for (family, _) in self.losses(claim) {
            names.extend(claim.selections.get(family).map(|s| s.name.clone()));
        }
        names.retain(|n| {
            !facts.confirmed.contains(n) && !matches!(facts.index.address(n), Seen::Strange(_))
        });
        names.into_iter().collect()
    }
}

fn family_of(published: &ClaimedAddress) -> Option<IpFamily> {
    parse_ip(&published.address).ok().map(IpFamily::of)
}

/// What this pass does about the families that are missing.
struct Matches<'a> {
    resolution: Resolution<'a>,
    chosen: Vec<(IpFamily, &'a AddressView)>,
    missing: Vec<(IpFamily, Missing)>,
}

impl<'a> Matches<'a> {
    fn of(facts: &Facts<'a>, missing: &[IpFamily], known: &Selections) -> Self {
        let resolution = Resolution::of(facts.index, facts.claim);
        let mut matches = Self { resolution, chosen: Vec::new(), missing: Vec::new() };
        for family in missing.iter().copied() {
            let choice = match matches.resolution.class() {
                Some(class) => choose(facts.index, facts.claim, known, class, family),
                None => Err(Missing::NoClass),
            };
            match choice {
                Ok(address) => matches.chosen.push((family, address)),
                Err(why) => matches.missing.push((family, why)),
            }
        }
        matches
    }
}

fn plan(facts: &Facts<'_>, held: &Held<'_>) -> ClaimPlan {
    let claim = facts.claim;
    let mut selections = with_losses(facts, held);
    // Nothing missing: the class is not asked, so that a class that went disturbs no binding.
    let matches =
        (!held.missing.is_empty()).then(|| Matches::of(facts, &held.missing, &selections));
    let chosen = matches.as_ref().map_or(&[][..], |m| &m.chosen);
    let still_missing = matches.as_ref().map_or(&[][..], |m| &m.missing);
    for (family, address) in chosen {
        selections.select(*family, &address.name);
    }
    let own_match = own_match(claim, held);
    let stamp = stamp_due(facts, matches.as_ref(), own_match);
    let stamped_first = !still_missing.is_empty() && chosen.is_empty();

    let mut steps = Vec::new();
    // What is chosen again is not given up, though it stands for a loss by now.
    let again = |a: &&AddressView| chosen.iter().any(|(_, c)| c.name == a.name);
    let given_up = given_up(facts, &selections).filter(|a| !again(a));
    steps.extend(given_up.map(give_up).map(Planned::silent));
    let first_stamp = stamp.clone().filter(|_| stamped_first);
    steps.extend(mark(claim, &selections, first_stamp).map(Planned::silent));
    for address in &held.addresses {
        steps.extend(complete(address).map(Planned::silent));
    }
    for (family, address) in chosen {
        steps.push(Planned::silent(bind(*family, address)));
    }
    let outlook = Outlook {
        claim,
        addresses: &held.addresses,
        unreadable: &held.unreadable,
        invalid: &held.invalid,
        chosen,
        missing: still_missing,
        resolution: matches.as_ref().map(|m| &m.resolution),
        own_match,
        stamp: stamp.as_ref().or(claim.stamp.as_ref()),
        index: facts.index,
        now: facts.now,
    };
    let status = status::due(&outlook);
    let last_stamp = stamp
        .filter(|_| !stamped_first)
        .map(|s| ClaimStep::Mark { finalizers: None, selections: None, stamp: Some(s) })
        .map(Planned::silent);
    if still_missing.is_empty() {
        // Bound first, stamped afterwards: no driver is asked for what is already there.
        steps.extend(status);
        steps.extend(last_stamp);
    } else {
        steps.extend(last_stamp);
        steps.extend(status);
    }
    ClaimPlan {
        claim: claim.key.clone(),
        uid: claim.id.uid.clone(),
        version: claim.id.resource_version.clone(),
        created: claim.id.created,
        steps,
        waiting: matches.map_or_else(Vec::new, |m| waiting(claim, &m)),
    }
}

/// The selection with what leaves recorded as held, before anything is chosen.
///
/// A name in the selection is known to whoever binds, and may be this claim's by now: it gives way
/// to the lost one's only when it was read and cannot be had.
fn with_losses(facts: &Facts<'_>, held: &Held<'_>) -> Selections {
    let claim = facts.claim;
    let given_up = |name: &Name| match facts.index.address(name) {
        Seen::Absent => true,
        Seen::Strange(_) => false,
        Seen::Known(a) => a.claim_ref.as_ref().is_some_and(|r| !r.is_to(claim)),
    };
    let mut selections = claim.selections.clone();
    for (family, lost) in held.losses(claim) {
        match claim.selections.get(family) {
            Some(known) if known.name != lost && !given_up(&known.name) => {
                if !known.held {
                    selections.lose(family, &known.name);
                }
            }
            Some(known) if known.name == lost && known.held => {}
            Some(_) | None => selections.lose(family, &lost),
        }
    }
    selections
}

/// Choices that are replaced, or whose family is called lost, though their addresses are still free.
/// All were read in this pass.
fn given_up<'a>(
    facts: &Facts<'a>,
    next: &Selections,
) -> impl Iterator<Item = &'a AddressView> + use<'a> {
    let replaced: Vec<_> = facts
        .claim
        .selections
        .iter()
        .filter(|(family, s)| {
            next.get(*family).is_some_and(|n| n.name != s.name || n.held != s.held)
        })
        .filter_map(|(_, s)| facts.index.address(&s.name).known())
        .filter(|a| a.matchable())
        .collect();
    replaced.into_iter()
}

pub(super) fn give_up(address: &AddressView) -> ClaimStep {
    ClaimStep::GiveUp { address: target(address) }
}

fn mark(claim: &ClaimView, selections: &Selections, stamp: Option<Name>) -> Option<ClaimStep> {
    let finalizers = (!claim.protected()).then(|| claim.finalizers_with_ours());
    let selections = (*selections != claim.selections).then(|| selections.clone());
    let due = finalizers.is_some() || selections.is_some() || stamp.is_some();
    due.then_some(ClaimStep::Mark { finalizers, selections, stamp })
}

/// Whether an address names its claim without a uid.
fn is_open(address: &AddressView) -> bool {
    address.claim_ref.as_ref().is_some_and(|r| r.uid.is_none())
}

/// Completes an open address. One that is being deleted is left to go.
pub(super) fn complete(address: &AddressView) -> Option<ClaimStep> {
    (is_open(address) && !address.id.deleting).then(|| ClaimStep::Complete {
        address: target(address),
        finalizers: address.finalizers_with_ours(),
    })
}

fn bind(family: IpFamily, address: &AddressView) -> ClaimStep {
    ClaimStep::Bind { address: target(address), finalizers: address.finalizers_with_ours(), family }
}

/// The address that the claim's own match got it, one that is not published yet before others.
/// When the pass that bound it ended before the status was written, its class is all that tells
/// which one the claim resolved to.
fn own_match<'a>(claim: &ClaimView, held: &Held<'a>) -> Option<&'a AddressView> {
    let chosen = |a: &&&AddressView| {
        a.family().is_some_and(|family| claim.selections.chose(family, &a.name))
    };
    let own = || held.addresses.iter().filter(chosen);
    own().find(|a| !claim.publishes(&a.name)).or_else(|| own().next()).copied()
}

/// The stamp to be written, if it is not what it should be.
///
/// While a family is missing it is the resolved class's provisioner. A claim that was satisfied by
/// its own match is stamped afterwards, once, also when the pass that bound it did not get so far.
fn stamp_due(
    facts: &Facts<'_>,
    matches: Option<&Matches<'_>>,
    own_match: Option<&AddressView>,
) -> Option<Name> {
    let claim = facts.claim;
    let provisioner = |class: &ClassView| class.provisioner.clone();
    match matches {
        Some(m) => {
            m.resolution.class().map(provisioner).filter(|p| claim.stamp.as_ref() != Some(p))
        }
        None if claim.stamp.is_some() => None,
        None => facts.index.class(&own_match?.class).known().map(provisioner),
    }
}

fn waiting(claim: &ClaimView, matches: &Matches<'_>) -> Vec<Waiting> {
    if matches.missing.is_empty() {
        return Vec::new();
    }
    let mut waits = vec![match &matches.resolution {
        Resolution::Resolved(class) => Waiting::Class(class.name.clone()),
        Resolution::NotFound(name) | Resolution::Unreadable(name) => Waiting::Class(name.clone()),
        Resolution::NoDefault | Resolution::MultipleDefaults(_) => Waiting::DefaultClass,
    }];
    for (family, why) in &matches.missing {
        match why {
            Missing::NoClass => {}
            Missing::NoneFree(class) => waits.push(Waiting::Candidate(class.clone(), *family)),
            Missing::Pinned(name, _) | Missing::HeldBefore(name) | Missing::Unreadable(name) => {
                waits.push(Waiting::Address(name.clone()));
            }
        }
    }
    if let Some(known) = matching_selection(claim, matches) {
        waits.push(Waiting::Address(known));
    }
    waits
}

/// A choice that could not be had is looked at again when that address changes.
fn matching_selection(claim: &ClaimView, matches: &Matches<'_>) -> Option<Name> {
    let (family, _) =
        matches.missing.iter().find(|(_, why)| matches!(why, matching::Missing::NoneFree(_)))?;
    claim.selections.get(*family).map(|s| s.name.clone())
}
