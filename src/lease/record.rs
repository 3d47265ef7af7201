//! What a Lease says, and what is written into it.
//!
//! The object is kept as it came, so that fields unknown here survive each write. Nulls, absent
//! fields and wrong types read as absent.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{Timestamp, fmt::strtime};
use k8s_openapi::{
    api::coordination::v1::Lease,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::core::{NamespaceResourceScope, Resource};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The annotation with the uid of the pod whose process holds the Lease.
pub const POD_UID_ANNOTATION: &str = "local.sdn.cozystack.io/pod-uid";

/// A Lease on the wire: all of it, whatever else is in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeaseObject {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Resource for LeaseObject {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Lease::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Lease::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Lease::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Lease::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// A Lease as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Record(Arc<LeaseObject>);

/// What its holder writes into a Lease.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// The Lease's name.
    pub name: String,
    /// Who holds it: one process, never another one after it.
    pub holder: String,
    /// How long it counts.
    pub duration: Duration,
    /// Its labels, so that it is found.
    pub labels: BTreeMap<String, String>,
    /// The uid of the holder's pod, where it is known.
    pub pod_uid: Option<String>,
    /// The object whose end is the Lease's end too.
    pub owner: Option<OwnerReference>,
}

impl Record {
    /// A Lease as it came.
    pub fn new(object: LeaseObject) -> Self {
        Self(Arc::new(object))
    }

    /// The object.
    pub fn object(&self) -> &LeaseObject {
        &self.0
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.0.metadata.name.as_deref().unwrap_or_default()
    }

    /// Its uid.
    pub fn uid(&self) -> &str {
        self.0.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Its resourceVersion.
    pub fn version(&self) -> &str {
        self.0.metadata.resource_version.as_deref().unwrap_or_default()
    }

    /// Who holds it; an empty holder is none.
    pub fn holder(&self) -> Option<&str> {
        self.spec("holderIdentity")?.as_str().filter(|holder| !holder.is_empty())
    }

    /// How long it counts, where it says so.
    pub fn duration(&self) -> Option<Duration> {
        let seconds = self.spec("leaseDurationSeconds")?.as_u64()?;
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }

    /// The uid of the pod whose process wrote it.
    pub fn pod_uid(&self) -> Option<&str> {
        let annotations = self.0.metadata.annotations.as_ref()?;
        annotations.get(POD_UID_ANNOTATION).map(String::as_str).filter(|uid| !uid.is_empty())
    }

    /// Whether it is a later state than another of the same name. Where versions are not numbers, as
    /// no known server writes them, the one that arrives last counts.
    pub fn is_newer(&self, other: &Self) -> bool {
        match (self.version().parse::<u64>(), other.version().parse::<u64>()) {
            (Ok(this), Ok(that)) => this > that,
            _ => self.version() != other.version(),
        }
    }

    fn spec(&self, field: &str) -> Option<&Value> {
        self.0.rest.get("spec")?.get(field)
    }

    /// The Lease as its holder leaves it: held by nobody, on this one's resourceVersion.
    pub fn released(&self, now: Timestamp) -> LeaseObject {
        let mut object = (*self.0).clone();
        let spec = spec_of(&mut object);
        spec.insert("holderIdentity".to_owned(), json!(""));
        // As client-go does: whoever goes by the times written may take it at once.
        spec.insert("leaseDurationSeconds".to_owned(), json!(1));
        spec.insert("renewTime".to_owned(), micro_time(now));
        object
    }
}

impl Terms {
    /// The Lease to create where there is none.
    pub fn create(&self, now: Timestamp) -> LeaseObject {
        let mut object = LeaseObject::default();
        object.metadata.name = Some(self.name.clone());
        self.write(&mut object, now, Some(0));
        object
    }

    /// The Lease to put in place of another state of it, on that one's resourceVersion: a renewal
    /// where it is held on these terms already, else a take-over.
    pub fn replace(&self, record: &Record, now: Timestamp) -> LeaseObject {
        let mut object = (*record.0).clone();
        let taken = record.holder() != Some(&*self.holder);
        let transitions = record.spec("leaseTransitions").and_then(Value::as_u64).unwrap_or(0);
        self.write(&mut object, now, taken.then_some(transitions + 1));
        object
    }

    /// `acquired`: the number of hands it has gone through, where this is the beginning.
    fn write(&self, object: &mut LeaseObject, now: Timestamp, acquired: Option<u64>) {
        // The items of a list come without.
        object.rest.insert("apiVersion".to_owned(), json!(LeaseObject::api_version(&())));
        object.rest.insert("kind".to_owned(), json!(LeaseObject::kind(&())));
        let metadata = &mut object.metadata;
        metadata.labels.get_or_insert_default().extend(self.labels.clone());
        let annotations = metadata.annotations.get_or_insert_default();
        match &self.pod_uid {
            Some(uid) => annotations.insert(POD_UID_ANNOTATION.to_owned(), uid.clone()),
            None => annotations.remove(POD_UID_ANNOTATION),
        };
        if acquired.is_some() {
            metadata.owner_references = self.owner.clone().map(|owner| vec![owner]);
        }
        let spec = spec_of(object);
        spec.insert("holderIdentity".to_owned(), json!(self.holder));
        spec.insert("leaseDurationSeconds".to_owned(), json!(self.duration.as_secs()));
        spec.insert("renewTime".to_owned(), micro_time(now));
        if let Some(transitions) = acquired {
            spec.insert("acquireTime".to_owned(), micro_time(now));
            spec.insert("leaseTransitions".to_owned(), json!(transitions));
        }
    }
}

/// The spec, made one where it is none.
fn spec_of(object: &mut LeaseObject) -> &mut Map<String, Value> {
    let spec = object.rest.entry("spec").or_insert_with(|| json!({}));
    if !spec.is_object() {
        *spec = json!({});
    }
    match spec {
        Value::Object(fields) => fields,
        _ => unreachable!("it was made an object just above"),
    }
}

/// Kubernetes' `MicroTime`: always six digits.
fn micro_time(time: Timestamp) -> Value {
    let text = strtime::format("%Y-%m-%dT%H:%M:%S%.6fZ", time);
    json!(text.unwrap_or_else(|_| time.to_string()))
}
