//! Which claims wait for what, so that a change wakes those it can help and no others.
//!
//! A claim's waits are replaced at each decision, under the same lock as the decision: a change
//! that comes afterwards finds them. One address that comes free wakes one claim. If that claim
//! does not take it, the next decision hands the wake-up on (see [`Waiters::settle`]).

use std::collections::BTreeSet;

use jiff::Timestamp;
use rustc_hash::FxHashMap;

use crate::{
    api::IpFamily,
    binder::{
        plan::Waiting,
        view::{ClaimKey, Name},
    },
};

/// A class and family, within which every free address is as good as the other.
pub type Pool = (Name, IpFamily);

/// In line for any address of a pool: the oldest claim first.
type Place = (Timestamp, ClaimKey);

#[derive(Debug, Default)]
pub(super) struct Waiters {
    waits: FxHashMap<ClaimKey, (Timestamp, Vec<Waiting>)>,
    classes: FxHashMap<Name, BTreeSet<ClaimKey>>,
    default_class: BTreeSet<ClaimKey>,
    addresses: FxHashMap<Name, BTreeSet<ClaimKey>>,
    lines: FxHashMap<Pool, BTreeSet<Place>>,
    /// Claims called out of a line that have not been decided since.
    called: FxHashMap<ClaimKey, Vec<Pool>>,
}

impl Waiters {
    /// Replaces what a claim waits for. Returns the pools it had been called for.
    pub(super) fn settle(
        &mut self,
        claim: &ClaimKey,
        created: Timestamp,
        waits: Vec<Waiting>,
    ) -> Vec<Pool> {
        self.leave(claim);
        for wait in &waits {
            match wait {
                Waiting::Class(name) => insert(&mut self.classes, name, claim),
                Waiting::DefaultClass => {
                    self.default_class.insert(claim.clone());
                }
                Waiting::Address(name) => insert(&mut self.addresses, name, claim),
                Waiting::Candidate(class, family) => {
                    self.lines
                        .entry((class.clone(), *family))
                        .or_default()
                        .insert((created, claim.clone()));
                }
            }
        }
        if !waits.is_empty() {
            self.waits.insert(claim.clone(), (created, waits));
        }
        self.called.remove(claim).unwrap_or_default()
    }

    fn leave(&mut self, claim: &ClaimKey) {
        let Some((created, waits)) = self.waits.remove(claim) else { return };
        for wait in waits {
            match wait {
                Waiting::Class(name) => remove(&mut self.classes, &name, claim),
                Waiting::DefaultClass => {
                    self.default_class.remove(claim);
                }
                Waiting::Address(name) => remove(&mut self.addresses, &name, claim),
                Waiting::Candidate(class, family) => {
                    let pool = (class, family);
                    if let Some(line) = self.lines.get_mut(&pool) {
                        line.remove(&(created, claim.clone()));
                        if line.is_empty() {
                            self.lines.remove(&pool);
                        }
                    }
                }
            }
        }
    }

    /// Calls the first claim in line for a pool. It stays uncalled by others until it is decided.
    pub(super) fn call(&mut self, pool: &Pool) -> Option<ClaimKey> {
        let line = self.lines.get_mut(pool)?;
        let (_, claim) = line.pop_first()?;
        if line.is_empty() {
            self.lines.remove(pool);
        }
        self.called.entry(claim.clone()).or_default().push(pool.clone());
        Some(claim)
    }

    pub(super) fn on_class(&self, name: &Name) -> impl Iterator<Item = &ClaimKey> {
        self.classes.get(name).into_iter().flatten()
    }

    pub(super) fn on_default_class(&self) -> impl Iterator<Item = &ClaimKey> {
        self.default_class.iter()
    }

    pub(super) fn on_address(&self, name: &Name) -> impl Iterator<Item = &ClaimKey> {
        self.addresses.get(name).into_iter().flatten()
    }

    /// How many claims wait for something.
    pub(super) fn len(&self) -> usize {
        self.waits.len()
    }
}

fn insert(map: &mut FxHashMap<Name, BTreeSet<ClaimKey>>, name: &Name, claim: &ClaimKey) {
    map.entry(name.clone()).or_default().insert(claim.clone());
}

fn remove(map: &mut FxHashMap<Name, BTreeSet<ClaimKey>>, name: &Name, claim: &ClaimKey) {
    if let Some(set) = map.get_mut(name) {
        set.remove(claim);
        if set.is_empty() {
            map.remove(name);
        }
    }
}
