//! The kinds that are served, and what each does differently.

use address_controller::api::{crd, well_known::GROUP};
use serde_json::Value;

/// A kind, as the API server serves it.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Empty for the core group.
    pub group: &'static str,
    /// `v1` and the like.
    pub version: &'static str,
    /// As in paths.
    pub plural: &'static str,
    /// As in objects.
    pub kind: &'static str,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// The structural schema of a custom resource, whose status is a sub-resource.
    pub schema: Option<Value>,
}

impl Resource {
    /// `ipaddresses.local.sdn.cozystack.io`.
    pub fn qualified(&self) -> String {
        dotted(self.plural, self.group)
    }

    /// `IPAddress.local.sdn.cozystack.io`.
    pub fn qualified_kind(&self) -> String {
        dotted(self.kind, self.group)
    }

    /// `local.sdn.cozystack.io/v1alpha1`.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Custom resources count the changes of their spec, and have a status of their own.
    pub fn is_custom(&self) -> bool {
        self.schema.is_some()
    }
}

fn dotted(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

/// Ours by their definitions, and what else the controller and its surroundings use.
pub fn all() -> Vec<Resource> {
    let schema_of = |plural: &str| {
        let crd = crd::all().into_iter().find(|c| c.spec.names.plural == plural);
        let version = crd.and_then(|c| c.spec.versions.into_iter().next());
        let schema = version.and_then(|v| v.schema).and_then(|s| s.open_api_v3_schema);
        Some(serde_json::to_value(schema.expect("a definition has a schema")).expect("JSON"))
    };
    let ours = |plural, kind, namespaced| Resource {
        group: GROUP,
        version: "v1alpha1",
        plural,
        kind,
        namespaced,
        schema: schema_of(plural),
    };
    vec![
        ours("ipaddressclaims", "IPAddressClaim", true),
        ours("ipaddresses", "IPAddress", false),
        ours("ipaddressclasses", "IPAddressClass", false),
        Resource {
            group: "coordination.k8s.io",
            version: "v1",
            plural: "leases",
            kind: "Lease",
            namespaced: true,
            schema: None,
        },
        Resource {
            group: "",
            version: "v1",
            plural: "namespaces",
            kind: "Namespace",
            namespaced: false,
            schema: None,
        },
    ]
}
