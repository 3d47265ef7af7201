//! `IPAddressClass`: which driver serves a claim, and what becomes of its addresses afterwards.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::well_known::DEFAULT_CLASS_ANNOTATION;

/// What becomes of an address when its claim goes.
///
/// The policy that counts is the address's own; a driver copies the class's onto each address that
/// it creates. What is missing means `Retain`: nothing is deleted by omission.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReclaimPolicy {
    /// The address object stays, in phase `Released`, until an administrator recycles it.
    #[default]
    Retain,
    /// The address object is deleted; its driver's finalizer tears the backend down.
    Delete,
}

/// What an administrator offers to tenants under one name.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "local.sdn.cozystack.io",
    version = "v1alpha1",
    kind = "IPAddressClass",
    plural = "ipaddressclasses",
    singular = "ipaddressclass",
    category = "ipam",
    derive = "PartialEq",
    doc = "IPAddressClass names a driver for IP addresses and how it is to serve claims: what StorageClass is to volumes.",
    printcolumn(name = "Provisioner", type_ = "string", json_path = ".spec.provisioner"),
    printcolumn(name = "ReclaimPolicy", type_ = "string", json_path = ".spec.reclaimPolicy"),
    printcolumn(
        name = "Default",
        type_ = "string",
        json_path = r".metadata.annotations.ipaddressclass\.local\.sdn\.cozystack\.io/is-default-class"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct IPAddressClassSpec {
    /// The driver that serves claims of this class, by the name it goes by. Immutable.
    #[x_kube(validation = Rule::new("self == oldSelf").message("spec.provisioner is immutable: create another class"))]
    #[schemars(length(min = 1))]
    pub provisioner: String,

    /// What the driver writes as the reclaim policy of each address it creates for this class. Existing addresses keep their own.
    #[serde(default)]
    pub reclaim_policy: ReclaimPolicy,

    /// Settings for the driver, in whatever form it documents. Never read by the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub parameters: Option<serde_json::Value>,
}

impl IPAddressClass {
    /// Whether the class carries the default-class annotation with the value `"true"`.
    pub fn is_default(&self) -> bool {
        self.metadata
            .annotations
            .as_ref()
            .and_then(|a| a.get(DEFAULT_CLASS_ANNOTATION))
            .is_some_and(|v| v == "true")
    }
}

/// Any object, kept whole by the API server.
fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}
