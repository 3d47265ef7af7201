//! Decides a claim's pass.
//!
//! Three rules of fencing are kept here and nowhere else. Whoever binds selects first: the choice is
//! written onto the claim, on the state of the claim that was decided on, and then onto the
//! address, on the state of the address that was read before. A known choice is given up only
//! after the API server itself was asked about that address, which is what [`Decision::Read`] is.
//! And where the address that is given up is still free (the claim asks for another by now, or a
//! second object records the same IP), it is written to first: an older attempt on it may still be
//! on its way, and nothing else would refuse it.

pub use super::holding::Facts;
use super::{
    holding::Held,
    index::Seen,
    matching::{self, Missing, Resolution, choose},
    plan::{ClaimPlan, ClaimStep, Decision, Planned, Waiting},
    reclaim,
    selection::Selections,
    status::{self, Outlook},
    view::{AddressView, ClaimView, ClassView, Name},
};
use crate::api::IpFamily;

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
    steps.extend(given_up.map(ClaimStep::give_up).map(Planned::silent));
    let first_stamp = stamp.clone().filter(|_| stamped_first);
    steps.extend(mark(claim, &selections, first_stamp).map(Planned::silent));
    for address in &held.addresses {
        steps.extend(ClaimStep::complete(address).map(Planned::silent));
    }
    for (family, address) in chosen {
        steps.push(Planned::silent(ClaimStep::bind(*family, address)));
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

fn mark(claim: &ClaimView, selections: &Selections, stamp: Option<Name>) -> Option<ClaimStep> {
    let finalizers = (!claim.protected()).then(|| claim.finalizers_with_ours());
    let selections = (*selections != claim.selections).then(|| selections.clone());
    let due = finalizers.is_some() || selections.is_some() || stamp.is_some();
    due.then_some(ClaimStep::Mark { finalizers, selections, stamp })
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
