//! `IPAddress`: one address, and the only record of which claim it is bound to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::class::ReclaimPolicy;

/// One IP address, made by an administrator or a driver, never by the controller.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "local.sdn.cozystack.io",
    version = "v1alpha1",
    kind = "IPAddress",
    plural = "ipaddresses",
    singular = "ipaddress",
    category = "ipam",
    status = "IPAddressStatus",
    derive = "PartialEq",
    doc = "IPAddress is one IP address that a claim can be bound to: what PersistentVolume is to volumes.",
    selectable = ".spec.className",
    selectable = ".spec.claimRef.namespace",
    selectable = ".spec.claimRef.name",
    selectable = ".status.phase",
    printcolumn(name = "Address", type_ = "string", json_path = ".spec.address"),
    printcolumn(name = "Class", type_ = "string", json_path = ".spec.className"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "ClaimNamespace", type_ = "string", json_path = ".spec.claimRef.namespace"),
    printcolumn(name = "Claim", type_ = "string", json_path = ".spec.claimRef.name"),
    printcolumn(name = "AttachedTo", type_ = "string", json_path = ".status.associatedTo.name"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct IPAddressSpec {
    /// The class the address belongs to. Only claims that resolve to it are matched.
    #[schemars(length(min = 1))]
    pub class_name: String,

    /// The IP itself, IPv4 or IPv6, without prefix length, zone or port. Immutable.
    #[x_kube(validation = Rule::new("self == oldSelf").message("spec.address is immutable: create another IPAddress"))]
    #[schemars(length(min = 1))]
    pub address: String,

    /// What becomes of this object when its claim goes.
    #[serde(default)]
    pub reclaim_policy: ReclaimPolicy,

    /// The claim that the address is bound to or reserved for. The only record of a binding. Cleared by an administrator to recycle a Released address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_ref: Option<ClaimReference>,

    /// Where the address comes from. Exactly one member is set.
    pub source: AddressSource,
}

/// The claim that an address is bound to or reserved for.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct ClaimReference {
    /// The claim's namespace.
    #[schemars(length(min = 1))]
    pub namespace: String,
    /// The claim's name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The claim's uid. Empty in a reservation made before its claim exists; the controller completes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// Where an address comes from.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.fromClass) != has(self.providerRef)").message("exactly one of fromClass and providerRef must be set"))]
pub struct AddressSource {
    /// The address stands by itself in a pool of its class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_class: Option<FromClass>,
    /// The address stands for something at a provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<ProviderRef>,
}

/// A source that needs no details.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct FromClass {}

/// A thing at a provider.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct ProviderRef {
    /// The provider's own name for it.
    #[schemars(length(min = 1))]
    pub id: String,
}

/// Where an address stands.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressPhase {
    /// Not looked at yet, or its text is not one IP address.
    Pending,
    /// Anybody's: a claim of its class and family may be matched to it.
    Available,
    /// A live claim holds it.
    Bound,
    /// Its claim has gone and the policy is Retain: nobody's until an administrator clears the claimRef.
    Released,
    /// The driver found the IP in use by something else. Only drivers enter and leave this phase.
    Conflict,
    /// The driver no longer finds the IP. Only drivers enter and leave this phase.
    Lost,
}

impl AddressPhase {
    /// Whether the phase is a driver's, which the controller neither enters nor leaves.
    pub fn is_drivers(self) -> bool {
        matches!(self, Self::Conflict | Self::Lost)
    }

    /// The phase as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Available => "Available",
            Self::Bound => "Bound",
            Self::Released => "Released",
            Self::Conflict => "Conflict",
            Self::Lost => "Lost",
        }
    }
}

/// The state of an address.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct IPAddressStatus {
    /// Where the address stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<AddressPhase>,
    /// What the address is in use by. Written by drivers; absent means reserved and attached to nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub associated_to: Option<AssociatedTo>,
    /// Observations about the address, one for each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// The object that uses an address.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct AssociatedTo {
    /// The kind of the object, such as Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
