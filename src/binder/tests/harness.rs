//! A replica for tests: an index, and passes that end in writes.

use std::{collections::BTreeSet, time::Duration};

use serde_json::Value;

use super::store::{Id, Store, Write, address_writes, claim_writes};
use crate::binder::{
    address, claim,
    index::{Gone, Index, Seen},
    plan::Decision,
    testing::{Object, add, now},
    view::{AddressView, ClaimKey, Name},
};

#[derive(Debug, Default)]
pub(super) struct Replica {
    pub(super) index: Index,
    /// It takes its caches' word for what should be read: to see that tests find it.
    pub(super) careless: bool,
}

impl Replica {
    /// A process that has just listed everything.
    pub(super) fn fresh(store: &Store) -> Self {
        let mut replica = Self::default();
        for object in store.objects() {
            replica.see(object);
        }
        replica
    }

    pub(super) fn see(&mut self, object: &Value) {
        add(&mut self.index, &Object(object.clone()));
    }

    /// A watch tells that this object was deleted, or it is the answer to an own write.
    pub(super) fn gone(&mut self, id: &Id, uid: &str) {
        let gone = Gone::Object { uid: uid.into() };
        match id {
            Id::Class(name) => self.index.remove_class(name, &gone),
            Id::Address(name) => self.index.remove_address(name, &gone),
            Id::Claim(key) => self.index.remove_claim(key, &gone),
        };
    }

    /// The watches catch up.
    pub(super) fn sync(&mut self, store: &Store) {
        let known = self.index.everything();
        let addresses = known.addresses.into_iter().map(Id::Address);
        for id in addresses.chain(known.claims.into_iter().map(Id::Claim)) {
            self.sync_one(store, &id);
        }
        for object in store.objects() {
            self.see(object);
        }
    }

    fn sync_one(&mut self, store: &Store, id: &Id) {
        let known = match id {
            Id::Class(_) => None,
            Id::Address(name) => self.index.address(name).known().map(|a| a.id.uid.clone()),
            Id::Claim(key) => self.index.claim(key).known().map(|c| c.id.uid.clone()),
        };
        let now = store.get(id).map(|o| &o["metadata"]["uid"]);
        if let Some(known) = known
            && now.is_none_or(|uid| *uid != *known)
        {
            self.gone(id, &known);
        }
    }

    /// A read from the API server, and its answer into the index.
    fn read(&mut self, store: &Store, id: &Id) {
        if self.careless {
            return;
        }
        if let Some(object) = store.get(id) {
            self.see(object);
            return;
        }
        match id {
            Id::Class(_) => {}
            Id::Address(name) => {
                if let Seen::Known(known) = self.index.address(name) {
                    let version = known.id.resource_version.clone();
                    self.index.remove_address(name, &Gone::AsOf { version });
                }
            }
            Id::Claim(key) => {
                if let Seen::Known(known) = self.index.claim(key) {
                    let version = known.id.resource_version.clone();
                    self.index.remove_claim(key, &Gone::AsOf { version });
                }
            }
        }
    }

    /// A pass up to its plan, reads included. Empty when there is nothing to write, or no object.
    pub(super) fn pass(&mut self, store: &Store, id: &Id) -> Vec<Write> {
        match id {
            Id::Class(_) => Vec::new(),
            Id::Address(name) => self.address_pass(store, name),
            Id::Claim(key) => self.claim_pass(store, key),
        }
    }

    fn claim_pass(&mut self, store: &Store, key: &ClaimKey) -> Vec<Write> {
        let Some(claim) = self.index.claim(key).known().cloned() else { return Vec::new() };
        let mut confirmed: BTreeSet<Name> = BTreeSet::new();
        for _ in 0..8 {
            let facts = claim::Facts {
                index: &self.index,
                claim: &claim,
                confirmed: &confirmed,
                now: now(),
            };
            match claim::decide(&facts) {
                Decision::Read(names) => {
                    for name in names {
                        self.read(store, &Id::Address(name.clone()));
                        assert!(confirmed.insert(name), "{key} asks for the same read again");
                    }
                    let open =
                        |n: &Name| self.index.address(n).known().is_some_and(AddressView::is_open);
                    if confirmed.iter().any(open) {
                        self.read(store, &Id::Claim(key.clone()));
                        // Another state, another pass.
                        if self.index.claim(key).known() != Some(&claim) {
                            return Vec::new();
                        }
                    }
                }
                Decision::Act(plan) => {
                    let writes = claim_writes(&plan);
                    let chosen: Vec<Name> = plan.chosen().map(|(n, _)| n.clone()).collect();
                    self.index.decided(key, plan.created, plan.waiting, chosen);
                    return writes;
                }
            }
        }
        panic!("{key} never stops reading")
    }

    fn address_pass(&mut self, store: &Store, name: &Name) -> Vec<Write> {
        let Some(address) = self.index.address(name).known().cloned() else { return Vec::new() };
        let mut confirmed = false;
        for _ in 0..2 {
            let facts = address::Facts {
                index: &self.index,
                address: &address,
                confirmed,
                now: now(),
                moment: Duration::from_hours(2),
                grace: Duration::from_mins(5),
            };
            match address::decide(&facts) {
                Decision::Read(keys) => {
                    for key in keys {
                        self.read(store, &Id::Claim(key));
                    }
                    confirmed = true;
                }
                Decision::Act(plan) => return address_writes(&plan),
            }
        }
        panic!("{name} never stops reading")
    }

    /// The plan of a pass has ended: what it went for is no longer reserved.
    pub(super) fn ended(&mut self, writes: &[Write]) {
        let Some(key) = writes.iter().find_map(|w| match &w.id {
            Id::Claim(key) => Some(key.clone()),
            Id::Class(_) | Id::Address(_) => None,
        }) else {
            return;
        };
        let bound = writes.iter().filter(|w| w.step == "bind").filter_map(|w| match &w.id {
            Id::Address(name) => Some(name.clone()),
            Id::Class(_) | Id::Claim(_) => None,
        });
        self.index.unreserve(&key, bound);
    }
}
