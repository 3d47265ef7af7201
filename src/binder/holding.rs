//! What a claim holds, what it lacks, and what of that must be read before it is acted on.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{
    index::{Index, Seen},
    view::{AddressView, ClaimView, Name},
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
    /// index, or newer ones are. After one that names the claim without a uid, the claim was read
    /// too: it takes the address from whoever else has its name by now, and a cache may not know yet
    /// that this claim is gone.
    pub confirmed: &'a BTreeSet<Name>,
    /// The wall clock, for conditions.
    pub now: Timestamp,
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
    collected(index, claim).filter(|a| !(a.going() || a.id.deleting && a.is_open()))
}

/// What a live claim holds, and what it lacks.
pub(super) struct Held<'a> {
    /// Its addresses, sorted by name.
    pub(super) addresses: Vec<&'a AddressView>,
    /// Those whose text is not one IP: neither completed nor published.
    pub(super) invalid: Vec<&'a AddressView>,
    /// Published addresses that no longer parse: kept as they are until they do.
    pub(super) unreadable: Vec<&'a ClaimedAddress>,
    /// The families that nothing satisfies.
    pub(super) missing: Vec<IpFamily>,
}

impl<'a> Held<'a> {
    pub(super) fn by(facts: &Facts<'a>) -> Self {
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
    pub(super) fn losses(&self, claim: &'a ClaimView) -> Vec<(IpFamily, Name)> {
        let all_leave = |family: IpFamily| {
            let leaves = |p: &&ClaimedAddress| !self.keeps(p, |a| a.family() == Some(family));
            let mut shown = claim.published_of(family);
            let first = shown.next().filter(leaves)?;
            shown.all(|p| leaves(&p)).then(|| (family, first.name.as_str().into()))
        };
        [IpFamily::IPv4, IpFamily::IPv6].into_iter().filter_map(all_leave).collect()
    }

    /// What must be read before anything is published that this pass itself does not bind, or is
    /// completed, withdrawn, called lost, or chosen anew.
    pub(super) fn unread(&self, facts: &Facts<'_>) -> Vec<Name> {
        let claim = facts.claim;
        let mut names: BTreeSet<Name> =
            self.leaving(claim).map(|p| p.name.as_str().into()).collect();
        let anew = self.addresses.iter().filter(|a| a.is_open() || !claim.publishes(&a.name));
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
