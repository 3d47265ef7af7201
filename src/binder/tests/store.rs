//! An API server in memory, and the writes that plans ask of it.
//!
//! Objects are JSON. Every write moves one sequence of resourceVersions, a write that changes
//! nothing moves none, finalizers hold up deletions and may not be added once one has begun, and
//! neither status nor spec is written through the other's endpoint.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use crate::{
    api::well_known::{PROVISIONER_ANNOTATION, SELECTED_ADDRESSES_ANNOTATION},
    binder::{
        plan::{AddressPlan, AddressStep, ClaimPlan, ClaimStatus, ClaimStep, Target},
        testing::Object,
        view::{ClaimKey, Name},
    },
};

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Id {
    Class(Name),
    Address(Name),
    Claim(ClaimKey),
}

impl Id {
    pub(super) fn of(object: &Value) -> Self {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        match object["kind"].as_str().unwrap() {
            "IPAddress" => Self::Address(text("name").into()),
            "IPAddressClaim" => Self::Claim(ClaimKey::new(text("namespace"), text("name"))),
            _ => Self::Class(text("name").into()),
        }
    }
    pub(super) fn address(name: &str) -> Self {
        Self::Address(name.into())
    }
    pub(super) fn claim(key: &str) -> Self {
        Self::Claim(crate::binder::testing::key(key))
    }
}

/// What a write asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    /// A merge patch of the object.
    Patch(Value),
    /// A merge patch of its status.
    Status(Value),
    /// Its deletion.
    Delete,
}

/// One write of a plan.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Write {
    /// The step's name.
    pub(super) step: &'static str,
    pub(super) id: Id,
    pub(super) uid: Name,
    /// The resourceVersion that was decided on.
    pub(super) version: Name,
    pub(super) what: What,
}

/// Why a write is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NotFound,
    Conflict,
    Forbidden,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    objects: BTreeMap<Id, Arc<Value>>,
    revision: u64,
}

impl Store {
    pub(super) fn of(objects: &[Object]) -> Self {
        let mut store = Self::default();
        for object in objects {
            store.create(object);
        }
        store
    }
    pub(super) fn create(&mut self, object: &Object) -> Id {
        let id = Id::of(&object.0);
        self.revision += 1;
        let object = object.clone().version(self.revision).0;
        assert!(
            self.objects.insert(id.clone(), object.into()).is_none(),
            "{id:?} is there already"
        );
        id
    }
    pub(super) fn get(&self, id: &Id) -> Option<&Value> {
        self.objects.get(id).map(Arc::as_ref)
    }
    pub(super) fn ids(&self) -> Vec<Id> {
        self.objects.keys().cloned().collect()
    }
    pub(super) fn objects(&self) -> impl Iterator<Item = &Value> {
        self.objects.values().map(Arc::as_ref)
    }
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// A controller's write, on the version that it is conditional on.
    pub(super) fn commit(
        &mut self,
        write: &Write,
        version: &str,
    ) -> Result<Option<&Value>, Refusal> {
        let object = self.objects.get(&write.id).ok_or(Refusal::NotFound)?;
        let meta = &object["metadata"];
        if meta["resourceVersion"] != version || meta["uid"] != *write.uid {
            return Err(Refusal::Conflict);
        }
        self.put(&write.id, &write.what)
    }

    /// A write of somebody else's, who looked a moment ago.
    pub(super) fn others(&mut self, id: &Id, what: &What) {
        if self.objects.contains_key(id) {
            self.put(id, what).unwrap();
        }
    }

    fn put(&mut self, id: &Id, what: &What) -> Result<Option<&Value>, Refusal> {
        let object = &self.objects[id];
        match applied(object, what)? {
            None => {
                self.revision += 1;
                self.objects.remove(id);
                Ok(None)
            }
            Some(mut new) => {
                if new != **object {
                    self.revision += 1;
                    new["metadata"]["resourceVersion"] = json!(self.revision.to_string());
                    self.objects.insert(id.clone(), new.into());
                }
                Ok(self.get(id))
            }
        }
    }
}

/// What a write makes of an object, its version aside: nothing where the object goes by it.
pub(super) fn applied(object: &Value, what: &What) -> Result<Option<Value>, Refusal> {
    let mut new = object.clone();
    let deleting = |o: &Value| !o["metadata"]["deletionTimestamp"].is_null();
    let finalizers =
        |o: &Value| o["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    match what {
        What::Patch(patch) => {
            merge(&mut new, patch);
            new["status"] = object["status"].clone();
            let added = finalizers(&new).iter().any(|f| !finalizers(object).contains(f));
            if deleting(object) && added {
                return Err(Refusal::Forbidden);
            }
            if new["spec"] != object["spec"] {
                new["metadata"]["generation"] =
                    json!(object["metadata"]["generation"].as_u64().unwrap_or_default() + 1);
            }
        }
        What::Status(patch) => merge(&mut new["status"], patch),
        What::Delete if deleting(object) => {}
        What::Delete => new["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z"),
    }
    Ok((!deleting(&new) || !finalizers(&new).is_empty()).then_some(new))
}

/// An object with every counter of its selections as 1: that one changes is seen by the version,
/// and how high it is means nothing.
pub(super) fn without_counters(mut object: Value) -> Value {
    let annotations = object["metadata"]["annotations"].as_object_mut();
    if let Some(all) = annotations.and_then(|a| a.get_mut(SELECTED_ADDRESSES_ANNOTATION)) {
        let entry = |entry: &str| {
            let mut parts: Vec<_> = entry.split('/').collect();
            parts[1] = "1";
            parts.join("/")
        };
        let text = all.as_str().unwrap_or_default();
        *all = json!(text.split(',').map(entry).collect::<Vec<_>>().join(","));
    }
    object
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}

/// The writes of a claim's plan.
pub(super) fn claim_writes(plan: &ClaimPlan) -> Vec<Write> {
    let on_claim = |step: &ClaimStep, what| Write {
        step: step.name(),
        id: Id::Claim(plan.claim.clone()),
        uid: plan.uid.clone(),
        version: plan.version.clone(),
        what,
    };
    let holder = json!({
        "namespace": *plan.claim.namespace, "name": *plan.claim.name, "uid": *plan.uid,
    });
    let hold = |finalizers: &[Name]| {
        let finalizers: Vec<&str> = finalizers.iter().map(|f| &**f).collect();
        What::Patch(json!({
            "metadata": {"finalizers": finalizers}, "spec": {"claimRef": holder},
        }))
    };
    let phase = |phase: &str| What::Status(json!({"phase": phase}));
    let write = |step: &ClaimStep| match step {
        ClaimStep::Mark { finalizers, selections, stamp } => {
            let mut annotations = json!({});
            if let Some(selections) = selections {
                annotations[SELECTED_ADDRESSES_ANNOTATION] = json!(selections.to_string());
            }
            if let Some(stamp) = stamp {
                annotations[PROVISIONER_ANNOTATION] = json!(**stamp);
            }
            let mut meta = json!({"annotations": annotations});
            if let Some(finalizers) = finalizers {
                meta["finalizers"] = finalizers.iter().map(|f| json!(**f)).collect();
            }
            on_claim(step, What::Patch(json!({"metadata": meta})))
        }
        ClaimStep::Status(status) => on_claim(step, What::Status(status_of(status))),
        ClaimStep::Unprotect { finalizers } => on_claim(step, only_finalizers(finalizers)),
        ClaimStep::Bind { address, finalizers, .. }
        | ClaimStep::Complete { address, finalizers } => {
            on_address(step.name(), address, hold(finalizers))
        }
        ClaimStep::GiveUp { address } => on_address(step.name(), address, phase("Pending")),
        ClaimStep::Release { address } => on_address(step.name(), address, phase("Released")),
        ClaimStep::Delete { address } => on_address(step.name(), address, What::Delete),
    };
    plan.steps.iter().map(|p| write(&p.step)).collect()
}

/// The writes of an address's plan.
pub(super) fn address_writes(plan: &AddressPlan) -> Vec<Write> {
    let what = |step: &AddressStep| match step {
        AddressStep::Protect { finalizers } | AddressStep::Unprotect { finalizers } => {
            only_finalizers(finalizers)
        }
        AddressStep::Phase(phase) => What::Status(json!({"phase": phase.as_str()})),
        AddressStep::Delete => What::Delete,
    };
    let step = |s: &AddressStep| on_address(s.name(), &plan.address, what(s));
    plan.steps.iter().map(|p| step(&p.step)).collect()
}

fn on_address(step: &'static str, address: &Target, what: What) -> Write {
    Write {
        step,
        id: Id::Address(address.name.clone()),
        uid: address.uid.clone(),
        version: address.version.clone(),
        what,
    }
}

fn only_finalizers(finalizers: &[Name]) -> What {
    let finalizers: Vec<&str> = finalizers.iter().map(|f| &**f).collect();
    What::Patch(json!({"metadata": {"finalizers": finalizers}}))
}

fn status_of(status: &ClaimStatus) -> Value {
    let mut patch = json!({
        "phase": status.phase.as_str(),
        "addresses": serde_json::to_value(&status.addresses).unwrap(),
        "conditions": serde_json::to_value(&status.conditions).unwrap(),
    });
    if let Some(class) = &status.class {
        patch["className"] = json!(**class);
    }
    patch
}

/// A plan being carried out, one write at a time: the first write to an object on the version that
/// was decided on, the next on what the one before it made of the object.
#[derive(Clone, Debug)]
pub(super) struct Run {
    writes: Vec<Write>,
    at: usize,
    versions: BTreeMap<Id, Name>,
    /// The store's revision when it was decided.
    pub(super) since: u64,
}

impl Run {
    pub(super) fn new(writes: Vec<Write>, since: u64) -> Self {
        Self { writes, at: 0, versions: BTreeMap::new(), since }
    }
    pub(super) fn next(&self) -> Option<&Write> {
        self.writes.get(self.at)
    }
    /// Carries out the next write. What is refused ends the plan.
    pub(super) fn step(&mut self, store: &mut Store) -> Result<Option<Value>, Refusal> {
        let write = &self.writes[self.at];
        let version = self.versions.get(&write.id).unwrap_or(&write.version);
        match store.commit(write, version) {
            Ok(answer) => {
                if let Some(object) = answer {
                    let version = object["metadata"]["resourceVersion"].as_str().unwrap();
                    self.versions.insert(write.id.clone(), version.into());
                }
                self.at += 1;
                Ok(answer.cloned())
            }
            Err(refusal) => {
                self.at = self.writes.len();
                Err(refusal)
            }
        }
    }
}
