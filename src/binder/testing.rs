//! Builders for the tests of this room: objects as the API server would send them, a world of them,
//! and the decisions about them.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    address, claim,
    index::Index,
    plan::{AddressPlan, ClaimPlan, Decision},
    view::{AddressView, ClaimKey, ClaimView, ClassView, Name},
};
use crate::api::{
    IPAddress, IPAddressClaim, IPAddressClass,
    well_known::{
        ADDRESS_FINALIZER, CLAIM_FINALIZER, DEFAULT_CLASS_ANNOTATION, PROVISIONER_ANNOTATION,
        SELECTED_ADDRESSES_ANNOTATION,
    },
};

/// The moment at which tests happen.
pub(crate) fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// An object under construction, as JSON.
#[derive(Clone, Debug)]
pub(crate) struct Object(pub(crate) Value);

impl Object {
    fn new(kind: &str, namespace: Option<&str>, name: &str, spec: &Value) -> Self {
        let mut metadata = json!({
            "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1", "generation": 1,
            "creationTimestamp": "2026-01-01T11:00:00Z", "finalizers": [], "annotations": {},
        });
        if let Some(namespace) = namespace {
            metadata["namespace"] = json!(namespace);
        }
        Self(json!({
            "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": kind,
            "metadata": metadata, "spec": spec, "status": {},
        }))
    }

    /// Sets the value at a JSON pointer's path, such as `/spec/family`.
    pub(crate) fn set(mut self, path: &str, value: impl Into<Value>) -> Self {
        let mut at = &mut self.0;
        for part in path.trim_start_matches('/').split('/') {
            if at.is_null() {
                *at = json!({});
            }
            at = &mut at[part.replace("~1", "/")];
        }
        *at = value.into();
        self
    }

    pub(crate) fn uid(self, uid: &str) -> Self {
        self.set("/metadata/uid", uid)
    }
    pub(crate) fn version(self, version: u64) -> Self {
        self.set("/metadata/resourceVersion", version.to_string())
    }
    pub(crate) fn created(self, at: &str) -> Self {
        self.set("/metadata/creationTimestamp", at)
    }
    pub(crate) fn deleting(self) -> Self {
        self.set("/metadata/deletionTimestamp", "2026-01-01T11:59:00Z")
    }
    /// Puts our protection finalizer on.
    pub(crate) fn protected(self) -> Self {
        let ours = if self.0["kind"] == "IPAddress" { ADDRESS_FINALIZER } else { CLAIM_FINALIZER };
        self.finalizer(ours)
    }
    pub(crate) fn finalizer(mut self, name: &str) -> Self {
        if let Some(all) = self.0["metadata"]["finalizers"].as_array_mut() {
            all.push(json!(name));
        }
        self
    }
    pub(crate) fn phase(self, phase: &str) -> Self {
        self.set("/status/phase", phase)
    }
    pub(crate) fn class(self, class: &str) -> Self {
        self.set("/spec/className", class)
    }
    pub(crate) fn policy(self, policy: &str) -> Self {
        self.set("/spec/reclaimPolicy", policy)
    }
    /// For addresses: `claimRef`, with or without a uid.
    pub(crate) fn held_by(self, key: &str, uid: Option<&str>) -> Self {
        let (namespace, name) = key.split_once('/').unwrap();
        let mut reference = json!({"namespace": namespace, "name": name});
        if let Some(uid) = uid {
            reference["uid"] = json!(uid);
        }
        self.set("/spec/claimRef", reference)
    }
    pub(crate) fn family(self, family: &str) -> Self {
        self.set("/spec/family", family)
    }
    pub(crate) fn pin(self, name: &str) -> Self {
        self.set("/spec/addressName", name)
    }
    pub(crate) fn stamp(self, provisioner: &str) -> Self {
        self.set(&format!("/metadata/annotations/{}", escape(PROVISIONER_ANNOTATION)), provisioner)
    }
    pub(crate) fn selected(self, selection: &str) -> Self {
        let key = escape(SELECTED_ADDRESSES_ANNOTATION);
        self.set(&format!("/metadata/annotations/{key}"), selection)
    }
    pub(crate) fn default_class(self) -> Self {
        self.set(&format!("/metadata/annotations/{}", escape(DEFAULT_CLASS_ANNOTATION)), "true")
    }
    /// For claims: `status.addresses`, from pairs of name and address.
    pub(crate) fn published(self, addresses: &[(&str, &str)]) -> Self {
        let all: Vec<_> = addresses.iter().map(|(n, a)| json!({"name": n, "address": a})).collect();
        self.set("/status/addresses", all)
    }
    pub(crate) fn resolved(self, class: &str) -> Self {
        self.set("/status/className", class)
    }

    pub(crate) fn address(&self) -> AddressView {
        let object: IPAddress = serde_json::from_value(self.0.clone()).unwrap();
        AddressView::from(&object)
    }
    pub(crate) fn claim(&self) -> ClaimView {
        let object: IPAddressClaim = serde_json::from_value(self.0.clone()).unwrap();
        ClaimView::from(&object)
    }
    pub(crate) fn class_view(&self) -> ClassView {
        let object: IPAddressClass = serde_json::from_value(self.0.clone()).unwrap();
        ClassView::from(&object)
    }
}

fn escape(key: &str) -> String {
    key.replace('/', "~1")
}

/// An address of class `public`, just created; its uid is `uid-NAME`.
pub(crate) fn address(name: &str, ip: &str) -> Object {
    let spec = json!({"className": "public", "address": ip, "source": {"fromClass": {}}});
    Object::new("IPAddress", None, name, &spec)
}

/// An address of class `public` that any claim may have.
pub(crate) fn free(name: &str, ip: &str) -> Object {
    address(name, ip).protected().phase("Available")
}

/// A claim for IPv4 of class `public`, just created, from `namespace/name`; its uid is `uid-NAME`.
pub(crate) fn claim(key: &str) -> Object {
    let (namespace, name) = key.split_once('/').unwrap();
    Object::new("IPAddressClaim", Some(namespace), name, &json!({"className": "public"}))
}

/// A class served by `fake.example.org`.
pub(crate) fn class(name: &str) -> Object {
    Object::new("IPAddressClass", None, name, &json!({"provisioner": "fake.example.org"}))
}

/// The key of `namespace/name`.
pub(crate) fn key(text: &str) -> ClaimKey {
    let (namespace, name) = text.split_once('/').unwrap();
    ClaimKey::new(namespace, name)
}

/// An index of these objects, all seen an hour after the start of the monotonic clock.
pub(crate) fn world(objects: &[Object]) -> Index {
    let mut index = Index::default();
    for object in objects {
        add(&mut index, object);
    }
    index
}

/// Brings an object's state into an index.
pub(crate) fn add(index: &mut Index, object: &Object) -> super::index::Wakes {
    match object.0["kind"].as_str().unwrap() {
        "IPAddress" => index.apply_address(object.address(), Duration::from_hours(1)),
        "IPAddressClaim" => index.apply_claim(object.claim()),
        _ => index.apply_class(object.class_view()),
    }
}

/// Decides a claim's pass with some addresses confirmed.
pub(crate) fn decide_claim(
    index: &Index,
    at: &str,
    confirmed: &[&str],
) -> Decision<ClaimPlan, Name> {
    let confirmed: BTreeSet<Name> = confirmed.iter().map(|n| Name::from(*n)).collect();
    let claim = index.claim(&key(at)).known().expect("the claim is in the world");
    claim::decide(&claim::Facts { index, claim, confirmed: &confirmed, now: now() })
}

/// The plan of a claim's pass for which nothing needs to be read.
pub(crate) fn plan_claim(index: &Index, at: &str) -> ClaimPlan {
    plan_claim_after(index, at, &[])
}

/// The plan of a claim's pass for which nothing but these needs to be read.
pub(crate) fn plan_claim_after(index: &Index, at: &str, confirmed: &[&str]) -> ClaimPlan {
    match decide_claim(index, at, confirmed) {
        Decision::Act(plan) => plan,
        Decision::Read(names) => panic!("asks for {names:?}"),
    }
}

/// Decides an address's pass, two hours after the start of the monotonic clock.
pub(crate) fn decide_address(
    index: &Index,
    name: &str,
    confirmed: bool,
) -> Decision<AddressPlan, ClaimKey> {
    let address = index.address(&name.into()).known().expect("the address is in the world");
    address::decide(&address::Facts {
        index,
        address,
        confirmed,
        now: now(),
        moment: Duration::from_hours(2),
        grace: Duration::from_mins(5),
    })
}

/// The plan of an address's pass for which nothing needs to be read.
pub(crate) fn plan_address(index: &Index, name: &str) -> AddressPlan {
    match decide_address(index, name, false) {
        Decision::Act(plan) => plan,
        Decision::Read(keys) => panic!("asks for {keys:?}"),
    }
}
