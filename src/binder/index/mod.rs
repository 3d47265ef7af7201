//! The world as seen, and who is to be looked at when it changes.
//!
//! One synchronous structure holds what decisions are made on: the three kinds as views, addresses
//! by the claim they name, free addresses by class and family in name order, addresses by IP, and
//! the claims that wait by what they wait for. Every change goes through it and comes back as the
//! keys to look at. It knows no client, no runtime and no clock: a moment is a number that the
//! caller brings.

mod changes;
pub mod crowding;
mod shelf;
mod waiters;

use std::{collections::BTreeSet, net::IpAddr, sync::Arc, time::Duration};

use jiff::Timestamp;
use rustc_hash::FxHashMap;

use self::{
    crowding::Crowding,
    shelf::{Item, Shelf, Stored},
    waiters::Waiters,
};
pub use self::{
    crowding::Race,
    shelf::{Gone, Seen, Strange},
    waiters::Pool,
};
use super::{
    plan::Waiting,
    view::{AddressView, ClaimKey, ClaimView, ClassView, Name},
};
use crate::api::IpFamily;

/// The keys that a change concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wakes {
    /// Claims to look at.
    pub claims: BTreeSet<ClaimKey>,
    /// Addresses to look at.
    pub addresses: BTreeSet<Name>,
}

impl Wakes {
    /// Whether nobody is concerned.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.addresses.is_empty()
    }
}

/// The kinds that are indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexedKind {
    /// `IPAddressClass`.
    Class,
    /// `IPAddress`.
    Address,
    /// `IPAddressClaim`.
    Claim,
}

/// The world as seen.
#[derive(Debug, Default)]
pub struct Index {
    classes: Shelf<Name, ClassView>,
    addresses: Shelf<Name, AddressView>,
    claims: Shelf<ClaimKey, ClaimView>,
    by_claim: FxHashMap<ClaimKey, BTreeSet<Name>>,
    by_ip: FxHashMap<IpAddr, BTreeSet<Name>>,
    free: FxHashMap<Pool, BTreeSet<Name>>,
    defaults: BTreeSet<Name>,
    waiters: Waiters,
    reserved: FxHashMap<Name, ClaimKey>,
    reservations: FxHashMap<Name, Reservation>,
    crowding: Crowding,
}

/// An address that names a claim without a uid.
#[derive(Clone, Debug)]
struct Reservation {
    /// The address's uid.
    uid: Name,
    /// The claim that it waits for.
    claim: ClaimKey,
    /// When it was first seen so.
    seen: Duration,
}

impl Reservation {
    fn of(address: &AddressView, seen: Duration) -> Option<Self> {
        let reference = address.claim_ref.as_ref().filter(|r| r.uid.is_none())?;
        Some(Self { uid: address.id.uid.clone(), claim: reference.key.clone(), seen })
    }

    fn is_same(&self, other: &Self) -> bool {
        self.uid == other.uid && self.claim == other.claim
    }
}

impl Index {
    /// The address of this name.
    pub fn address(&self, name: &Name) -> Seen<'_, AddressView> {
        self.addresses.get(name)
    }

    /// The claim of this name.
    pub fn claim(&self, key: &ClaimKey) -> Seen<'_, ClaimView> {
        self.claims.get(key)
    }

    /// The class of this name.
    pub fn class(&self, name: &Name) -> Seen<'_, ClassView> {
        self.classes.get(name)
    }

    /// The names of the classes annotated as default, sorted.
    pub fn default_classes(&self) -> impl Iterator<Item = &Name> {
        self.defaults.iter()
    }

    /// The addresses whose `claimRef` names this claim, whatever the uid, sorted by name.
    pub fn claimed_by(&self, key: &ClaimKey) -> impl Iterator<Item = &AddressView> {
        self.by_claim
            .get(key)
            .into_iter()
            .flatten()
            .filter_map(|name| self.addresses.get(name).known())
    }

    /// Free addresses of a class and family that no other object's IP disputes, sorted by name.
    pub fn free(&self, class: &Name, family: IpFamily) -> impl Iterator<Item = &AddressView> {
        self.free
            .get(&(class.clone(), family))
            .into_iter()
            .flatten()
            .filter_map(|name| self.addresses.get(name).known())
    }

    /// The free address that a claim may go for: the first by name that no other claim here goes for.
    /// Where other replicas have lately been faster, one of the first several: see [`crowding`].
    pub fn candidate(
        &self,
        class: &Name,
        family: IpFamily,
        claim: &ClaimKey,
    ) -> Option<&AddressView> {
        let open = |a: &&AddressView| self.reserved_for(&a.name).is_none_or(|key| key == claim);
        self.crowding.pick(&(class.clone(), family), self.free(class, family).filter(open))
    }

    /// The other replicas that match too, by the names that members go by.
    pub fn set_members(&mut self, me: &str, members: &[Arc<str>]) {
        self.crowding.set_members(me, members);
    }

    /// A match of this address was written, or was refused because another was faster.
    pub fn raced(&mut self, pool: &Pool, race: Race) {
        self.crowding.raced(pool, race);
    }

    /// The claim that an address is being bound to at this moment.
    pub fn reserved_for(&self, name: &Name) -> Option<&ClaimKey> {
        self.reserved.get(name)
    }

    /// The other objects that record the same IP, sorted by name.
    pub fn duplicates_of<'a>(&'a self, address: &'a AddressView) -> impl Iterator<Item = &'a Name> {
        address
            .ip
            .and_then(|ip| self.by_ip.get(&ip))
            .into_iter()
            .flatten()
            .filter(|name| **name != address.name)
    }

    /// When this reservation without a uid was first seen, if it is one.
    pub fn reservation_seen(&self, address: &AddressView) -> Option<Duration> {
        self.reservations
            .get(&address.name)
            .filter(|known| known.uid == address.id.uid)
            .map(|known| known.seen)
    }

    /// Every claim that is known.
    pub fn claims(&self) -> impl Iterator<Item = &ClaimView> {
        self.claims.known()
    }

    /// Every address that is known.
    pub fn addresses(&self) -> impl Iterator<Item = &AddressView> {
        self.addresses.known()
    }

    /// Every key of a kind's objects, those that do not parse included.
    pub fn everything(&self) -> Wakes {
        Wakes {
            claims: self.claims.keys().cloned().collect(),
            addresses: self.addresses.keys().cloned().collect(),
        }
    }

    /// Every class that is known.
    pub fn classes(&self) -> impl Iterator<Item = &ClassView> {
        self.classes.known()
    }

    /// How many objects of a kind do not parse.
    pub fn strange_count(&self, kind: IndexedKind) -> usize {
        match kind {
            IndexedKind::Class => self.classes.strange_count(),
            IndexedKind::Address => self.addresses.strange_count(),
            IndexedKind::Claim => self.claims.strange_count(),
        }
    }

    /// How many claims wait for something.
    pub fn waiting_count(&self) -> usize {
        self.waiters.len()
    }

    /// Records a decision: what the claim waits for from now on, and the addresses it goes for.
    ///
    /// The caller holds the index from the decision to here, so that no change falls between.
    pub fn decided(
        &mut self,
        claim: &ClaimKey,
        created: Timestamp,
        waiting: Vec<Waiting>,
        chosen: impl IntoIterator<Item = Name>,
    ) -> Wakes {
        for name in chosen {
            self.reserved.insert(name, claim.clone());
        }
        let called = self.waiters.settle(claim, created, waiting);
        self.pass_on(called)
    }

    /// A claim is another replica's now: it waits for nothing here, and what it was called for is
    /// offered to the next.
    pub fn left(&mut self, claim: &ClaimKey) -> Wakes {
        let called = self.waiters.settle(claim, Timestamp::UNIX_EPOCH, Vec::new());
        self.pass_on(called)
    }

    /// Gives up what [`Self::decided`] reserved: it is bound now, or was refused.
    pub fn unreserve(&mut self, claim: &ClaimKey, names: impl IntoIterator<Item = Name>) -> Wakes {
        let mut wakes = Wakes::default();
        for name in names {
            if self.reserved.get(&name) != Some(claim) {
                continue;
            }
            self.reserved.remove(&name);
            if self.is_free(&name) {
                self.wake_for_free(&name, &mut wakes);
            }
        }
        wakes
    }

    /// A claim that was called for a free address may have left it to others: call the next.
    fn pass_on(&mut self, called: Vec<Pool>) -> Wakes {
        let mut wakes = Wakes::default();
        for pool in called {
            let left = self
                .free
                .get(&pool)
                .is_some_and(|names| names.iter().any(|name| !self.reserved.contains_key(name)));
            if left {
                wakes.claims.extend(self.waiters.call(&pool));
            }
        }
        wakes
    }

    fn is_free(&self, name: &Name) -> bool {
        self.addresses.get(name).known().is_some_and(|a| self.matchable(a))
    }

    /// Whether a claim of its class and family may be matched to an address.
    fn matchable(&self, address: &AddressView) -> bool {
        address.matchable() && self.duplicates_of(address).next().is_none()
    }

    fn wake_for_free(&mut self, name: &Name, wakes: &mut Wakes) {
        wakes.claims.extend(self.waiters.on_address(name).cloned());
        if let Some(pool) = self.addresses.get(name).known().and_then(pool_of) {
            wakes.claims.extend(self.waiters.call(&pool));
        }
    }
}

fn pool_of(address: &AddressView) -> Option<Pool> {
    address.family().map(|family| (address.class.clone(), family))
}
