//! `IPAddressClaim`: what a tenant asks for, and what they got.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::family::ClaimFamily;

/// A tenant's request for an address, or one of each family.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "local.sdn.cozystack.io",
    version = "v1alpha1",
    kind = "IPAddressClaim",
    plural = "ipaddressclaims",
    singular = "ipaddressclaim",
    namespaced,
    category = "ipam",
    status = "IPAddressClaimStatus",
    derive = "PartialEq",
    doc = "IPAddressClaim asks for an IP address and shows the one it got in status.addresses: what PersistentVolumeClaim is to volumes.",
    selectable = ".status.phase",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Class", type_ = "string", json_path = ".status.className"),
    printcolumn(name = "Addresses", type_ = "string", json_path = ".status.addresses[*].address"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct IPAddressClaimSpec {
    /// The class to be served by. Absent or empty: the one class that is annotated as the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_name: Option<String>,

    /// The family asked for. Dual asks for one address of each.
    #[serde(default)]
    pub family: ClaimFamily,

    /// The one IPAddress to be bound to, by name. For claims of a single family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_name: Option<String>,
}

/// Where a claim stands.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClaimPhase {
    /// Waiting for an address; the Bound condition says for what.
    Pending,
    /// Every family asked for is held.
    Bound,
    /// Was bound, and an address it held is gone or lost.
    Lost,
}

impl ClaimPhase {
    /// The phase as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Bound => "Bound",
            Self::Lost => "Lost",
        }
    }
}

/// The state of a claim. Written by the controller only.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct IPAddressClaimStatus {
    /// Where the claim stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ClaimPhase>,
    /// The class that the claim resolved to. Kept when the default changes afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_name: Option<String>,
    /// Every address the claim holds, sorted by name: what belongs in DNS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub addresses: Vec<ClaimedAddress>,
    /// Whether the class is resolved and whether the claim is bound, each with the generation of the claim that it was decided on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// One address that a claim holds.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimedAddress {
    /// The name of the IPAddress.
    pub name: String,
    /// The IP, as its IPAddress spells it.
    pub address: String,
}
