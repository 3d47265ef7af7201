//! The world as the changes so far have made it, with what the rules need to know of its past.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
    sync::Arc,
};

use rustc_hash::FxHashMap;

use super::{
    Actor, Change, Kind, Object, Unreadable, Versions,
    delta::{has_finalizer, is_deleting, took_off},
};
use crate::api::{
    AddressPhase, ClaimPhase, ClaimReference, IPAddress, IPAddressClaim, IPAddressClass, IpFamily,
    parse_ip,
    well_known::{CLAIM_FINALIZER, SELECTED_ADDRESSES_ANNOTATION},
};

/// Everything that exists, and what the past says about it.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub(super) revision: u64,
    pub(super) classes: BTreeMap<String, Arc<IPAddressClass>>,
    pub(super) addresses: BTreeMap<String, Arc<IPAddress>>,
    pub(super) claims: BTreeMap<(String, String), Arc<IPAddressClaim>>,
    unreadable: BTreeSet<(Kind, Option<String>, String)>,
    by_claim_uid: FxHashMap<String, BTreeSet<String>>,
    by_ip: FxHashMap<IpAddr, BTreeSet<String>>,
    address_past: FxHashMap<String, AddressPast>,
    claim_past: FxHashMap<String, ClaimPast>,
    /// Addresses whose writes were refused for good to whoever acts next.
    pub(super) refused: BTreeSet<String>,
}

/// A claim's namespace, name and uid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} {}", self.namespace, self.name, self.uid)
    }
}

/// What an address's past says, as long as it carries the uid that it carries now.
#[derive(Clone, Debug, Default)]
struct AddressPast {
    /// The controller set the `claimRef`, where there was none.
    matched: bool,
    /// The replicas that have written to the address since, and when each first did.
    seen: Vec<(Actor, u64)>,
    /// When a driver last took back `Conflict` or `Lost`.
    unmarked: u64,
    /// When the uid, or `Lost`, last changed.
    since: u64,
}

/// What a claim's past says; kept after its end, by uid.
#[derive(Clone, Debug, Default)]
pub(super) struct ClaimPast {
    key: (String, String),
    /// The revision of the claim as it is.
    revision: u64,
    /// The replica that wrote it so, whether that was its status, and the revision before.
    written: Option<(Actor, bool, u64)>,
    /// The families that it has had an address of.
    pub(super) held: BTreeSet<IpFamily>,
    /// It has been `Bound` or `Lost`.
    pub(super) was_bound: bool,
    /// Addresses that have carried its uid, but for those withdrawn since they do not.
    carried: BTreeSet<String>,
    /// The finalizer was last taken off by somebody who is not the controller.
    stripped_by_others: bool,
    /// When the finalizer was taken off, while it is.
    stripped: Option<u64>,
    /// The selection was last written by somebody who is not the controller.
    selection_by_others: bool,
    /// What was published when the selection was last written.
    published_at_selection: Vec<String>,
}

pub(super) fn uid_of(reference: &ClaimReference) -> Option<&str> {
    reference.uid.as_deref().filter(|uid| !uid.is_empty())
}

pub(super) fn phase_of(address: &IPAddress) -> Option<AddressPhase> {
    address.status.as_ref().and_then(|s| s.phase)
}

pub(super) fn ip_of(address: &IPAddress) -> Option<IpAddr> {
    parse_ip(&address.spec.address).ok()
}

fn holder_uid(address: &IPAddress) -> Option<&str> {
    address.spec.claim_ref.as_ref().and_then(uid_of)
}

fn selection(claim: &IPAddressClaim) -> Option<&String> {
    claim.metadata.annotations.as_ref()?.get(SELECTED_ADDRESSES_ANNOTATION)
}

fn published_names(claim: &IPAddressClaim) -> Vec<String> {
    claim.status.iter().flat_map(|s| &s.addresses).map(|a| a.name.clone()).collect()
}

/// What is asked of the world.
impl World {
    /// The claim of that name, if there is one that can be read.
    pub fn claim(&self, namespace: &str, name: &str) -> Option<&IPAddressClaim> {
        self.claims.get(&(namespace.to_owned(), name.to_owned())).map(AsRef::as_ref)
    }

    /// The address of that name, if there is one that can be read.
    pub fn address(&self, name: &str) -> Option<&IPAddress> {
        self.addresses.get(name).map(AsRef::as_ref)
    }

    /// The class of that name, if there is one that can be read.
    pub fn class(&self, name: &str) -> Option<&IPAddressClass> {
        self.classes.get(name).map(AsRef::as_ref)
    }

    /// The addresses whose `claimRef` names this claim in full.
    pub fn held_by(&self, uid: &str) -> impl Iterator<Item = &IPAddress> {
        let key = self.claim_past.get(uid).map(|p| &p.key);
        let names = self.by_claim_uid.get(uid).into_iter().flatten();
        names.filter_map(|n| self.address(n)).filter(move |a| {
            let holder = a.spec.claim_ref.as_ref().map(|r| (&r.namespace, &r.name));
            key.is_some_and(|(namespace, name)| holder == Some((namespace, name)))
        })
    }

    pub(super) fn is_unreadable(&self, kind: Kind, namespace: Option<&str>, name: &str) -> bool {
        self.unreadable.contains(&(kind, namespace.map(str::to_owned), name.to_owned()))
    }

    pub(super) fn any_class_unreadable(&self) -> bool {
        self.unreadable.iter().any(|(kind, ..)| *kind == Kind::Class)
    }

    /// The claim that holds the address: it exists, is not being deleted, and is named in full.
    pub(super) fn live_holder(&self, address: &IPAddress) -> Option<ClaimKey> {
        let reference = address.spec.claim_ref.as_ref()?;
        let uid = uid_of(reference)?;
        let claim = self.claim(&reference.namespace, &reference.name)?;
        let live = claim.metadata.uid.as_deref() == Some(uid) && !is_deleting(&claim.metadata);
        live.then(|| ClaimKey {
            namespace: reference.namespace.clone(),
            name: reference.name.clone(),
            uid: uid.to_owned(),
        })
    }

    /// Other objects with this IP, that a live claim got by a match.
    pub(super) fn matched_with_ip(&self, ip: IpAddr) -> impl Iterator<Item = (&str, ClaimKey)> {
        self.by_ip
            .get(&ip)
            .into_iter()
            .flatten()
            .filter(|name| self.came_by_match(name))
            .filter_map(|name| Some((name.as_str(), self.live_holder(self.address(name)?)?)))
    }

    /// Whether another object records the IP of this one: one on its way out has it still.
    pub(super) fn is_duplicate(&self, name: &str, ip: IpAddr) -> bool {
        self.by_ip.get(&ip).into_iter().flatten().any(|other| other != name)
    }

    pub(super) fn came_by_match(&self, address: &str) -> bool {
        self.address_past.get(address).is_some_and(|p| p.matched)
    }

    /// Whether the replica had written to the address by a revision.
    pub(super) fn seen_by(&self, replica: &Actor, address: &str, revision: u64) -> bool {
        let seen = self.address_past.get(address).into_iter().flat_map(|p| &p.seen);
        seen.into_iter().any(|(who, at)| who == replica && *at <= revision)
    }

    /// Whether the address was in a driver's phase at any time after a revision, though it is not now.
    pub(super) fn marked_after(&self, address: &str, revision: u64) -> bool {
        self.address_past.get(address).is_some_and(|p| p.unmarked > revision)
    }

    pub(super) fn unchanged_since(&self, address: &str, revision: u64) -> bool {
        self.address_past.get(address).is_some_and(|p| p.since <= revision)
    }

    pub(super) fn past(&self, uid: &str) -> Option<&ClaimPast> {
        self.claim_past.get(uid)
    }

    /// The version of a claim that a replica's next write, of its status or not, was decided on: a plan
    /// writes both, the second on what the first made of the claim.
    pub(super) fn decided_on(&self, uid: &str, replica: &Actor, status: bool) -> u64 {
        let Some(past) = self.past(uid) else { return 0 };
        let first = past.written.as_ref().filter(|w| w.0 == *replica && w.1 != status);
        first.map_or(past.revision, |(_, _, before)| *before)
    }

    pub(super) fn has_carried(&self, uid: &str, address: &str) -> bool {
        self.past(uid).is_some_and(|p| p.carried.contains(address))
    }

    pub(super) fn stripped_by_others(&self, uid: &str) -> bool {
        self.past(uid).is_some_and(|p| p.stripped_by_others)
    }

    /// Whether the claim was protected at any time after a revision, though it is not any more.
    pub(super) fn protected_after(&self, uid: &str, revision: u64) -> bool {
        self.past(uid).and_then(|p| p.stripped).is_some_and(|stripped| stripped > revision)
    }

    pub(super) fn was_refused(&self, address: &str) -> bool {
        self.refused.contains(address)
    }

    pub(super) fn selection_by_others(&self, claim: &IPAddressClaim) -> bool {
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        self.past(uid).is_some_and(|p| p.selection_by_others)
    }

    pub(super) fn known_at_selection(&self, uid: &str, address: &str) -> bool {
        self.past(uid).is_some_and(|p| p.published_at_selection.iter().any(|n| n == address))
    }
}

/// How the world takes a change.
impl World {
    pub(super) fn apply(&mut self, change: &Change) {
        self.revision = change.revision;
        let name = change.object.name().to_owned();
        let namespace = change.object.namespace().map(str::to_owned);
        let replica = change.actor.as_ref().filter(|a| matches!(a, Actor::Controller(_)));
        self.unreadable.remove(&(change.object.kind(), namespace.clone(), name.clone()));
        match &change.object {
            Object::Class(v) => put(&mut self.classes, name, v.new.clone()),
            Object::Address(v) => self.apply_address(name, v, replica),
            Object::Claim(v) => {
                let key = (namespace.unwrap_or_default(), name);
                self.apply_claim(key, v, replica);
            }
            Object::Unreadable(unreadable) => self.apply_unreadable(unreadable),
        }
    }

    /// What is known of an object ends when it can no longer be read.
    fn apply_unreadable(&mut self, object: &Unreadable) {
        let gone = Versions { old: None, new: None };
        match object.kind {
            Kind::Class => drop(self.classes.remove(&object.name)),
            Kind::Address => self.apply_address(object.name.clone(), &gone, None),
            Kind::Claim => {
                let namespace = object.namespace.clone().unwrap_or_default();
                self.claims.remove(&(namespace, object.name.clone()));
            }
        }
        if object.exists {
            self.unreadable.insert((object.kind, object.namespace.clone(), object.name.clone()));
        }
    }

    fn apply_address(&mut self, name: String, v: &Versions<IPAddress>, replica: Option<&Actor>) {
        let old = self.addresses.get(&name).cloned();
        if let Some(old) = &old {
            if let Some(uid) = holder_uid(old) {
                unindex(&mut self.by_claim_uid, uid, &name);
            }
            if let Some(ip) = ip_of(old) {
                unindex(&mut self.by_ip, &ip, &name);
            }
        }
        let Some(new) = v.new.clone() else {
            self.addresses.remove(&name);
            self.address_past.remove(&name);
            return;
        };
        let uid = holder_uid(&new);
        let same_holder = old.as_ref().is_some_and(|o| holder_uid(o) == uid);
        let lost = |a: &IPAddress| phase_of(a) == Some(AddressPhase::Lost);
        let past = self.address_past.entry(name.clone()).or_default();
        if !same_holder {
            let free_before = old.as_ref().is_some_and(|o| o.spec.claim_ref.is_none());
            *past = AddressPast {
                matched: replica.is_some() && free_before,
                since: self.revision,
                ..AddressPast::default()
            };
        } else if old.as_ref().is_some_and(|o| lost(o) != lost(&new)) {
            past.since = self.revision;
        }
        let marked = |a: &IPAddress| phase_of(a).is_some_and(AddressPhase::is_drivers);
        if old.as_ref().is_some_and(|o| marked(o)) && !marked(&new) {
            past.unmarked = self.revision;
        }
        if let Some(replica) = replica
            && !past.seen.iter().any(|(who, _)| who == replica)
        {
            past.seen.push((replica.clone(), self.revision));
        }
        if let Some(ip) = ip_of(&new) {
            self.by_ip.entry(ip).or_default().insert(name.clone());
        }
        if let Some(uid) = uid {
            self.by_claim_uid.entry(uid.to_owned()).or_default().insert(name.clone());
            let claim = self.claim_past.entry(uid.to_owned()).or_default();
            claim.held.extend(ip_of(&new).map(IpFamily::of));
            claim.carried.insert(name.clone());
        }
        self.addresses.insert(name, new);
    }

    fn apply_claim(
        &mut self,
        key: (String, String),
        v: &Versions<IPAddressClaim>,
        replica: Option<&Actor>,
    ) {
        let by_controller = replica.is_some();
        let old = v.old.as_deref();
        if let Some(claim) = v.any() {
            let uid = claim.metadata.uid.clone().unwrap_or_default();
            let new_meta = v.new.as_ref().map(|n| &n.metadata);
            let stripped = old.is_some_and(|o| took_off(&o.metadata, new_meta, CLAIM_FINALIZER));
            let withdrawn = self.withdrawn_and_gone(&uid, old, v.new.as_deref());
            let past = self.claim_past.entry(uid).or_default();
            past.key.clone_from(&key);
            let status = old.map(|o| &o.status) != v.new.as_ref().map(|n| &n.status);
            past.written = replica.map(|replica| (replica.clone(), status, past.revision));
            past.revision = self.revision;
            past.carried.retain(|name| !withdrawn.contains(name));
            if stripped {
                past.stripped_by_others = !by_controller;
                past.stripped = Some(self.revision);
            }
            if let Some(new) = v.new.as_deref() {
                past.learn(old, new, by_controller);
            }
        }
        put(&mut self.claims, key, v.new.clone());
    }

    /// What the claim no longer publishes and does not hold either.
    fn withdrawn_and_gone(
        &self,
        uid: &str,
        old: Option<&IPAddressClaim>,
        new: Option<&IPAddressClaim>,
    ) -> Vec<String> {
        let after = new.map(published_names).unwrap_or_default();
        let mut names = old.map(published_names).unwrap_or_default();
        names.retain(|name| {
            let holds = self.held_by(uid).any(|a| a.metadata.name.as_ref() == Some(name));
            !after.contains(name) && !holds
        });
        names
    }
}

impl ClaimPast {
    fn learn(&mut self, old: Option<&IPAddressClaim>, new: &IPAddressClaim, by_controller: bool) {
        if has_finalizer(&new.metadata, CLAIM_FINALIZER) {
            self.stripped_by_others = false;
            self.stripped = None;
        }
        let status = new.status.clone().unwrap_or_default();
        self.was_bound |= matches!(status.phase, Some(ClaimPhase::Bound | ClaimPhase::Lost));
        for entry in &status.addresses {
            self.held.extend(parse_ip(&entry.address).ok().map(IpFamily::of));
        }
        if selection(new) != old.and_then(selection) {
            self.selection_by_others = !by_controller;
            self.published_at_selection = old.map(published_names).unwrap_or_default();
        }
    }
}

fn put<Q: Ord, V>(map: &mut BTreeMap<Q, V>, key: Q, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}

fn unindex<Q, B>(index: &mut FxHashMap<Q, BTreeSet<String>>, key: &B, name: &str)
where
    Q: std::borrow::Borrow<B> + std::hash::Hash + Eq,
    B: std::hash::Hash + Eq + ?Sized,
{
    if let Some(names) = index.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            index.remove(key);
        }
    }
}
