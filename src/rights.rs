//! What the controller may do: each right beside the reason for it.
//!
//! The chart's roles are generated from these tables, and the check at start asks for them. What is
//! not here is refused by the API server; notably nothing here creates an address.

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::api::well_known::GROUP;

/// A right, and what needs it.
#[derive(Clone, Copy, Debug)]
pub struct Right {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The plural name, with a sub-resource after a slash.
    pub resource: &'static str,
    /// The objects it is limited to; none for all of them.
    pub names: &'static [&'static str],
    /// The verbs.
    pub verbs: &'static [&'static str],
    /// What is done with it.
    pub because: &'static str,
    /// Whether the controller cannot do its work without it.
    pub needed: bool,
}

/// A right that the controller's work stands on.
const fn needed(
    group: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
    because: &'static str,
) -> Right {
    Right { group, resource, names: &[], verbs, because, needed: true }
}

/// A right without which the controller does its work, and says less about it.
const fn wanted(
    group: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
    because: &'static str,
) -> Right {
    Right { needed: false, ..needed(group, resource, verbs, because) }
}

/// The rights in the whole cluster.
pub const CLUSTER: &[Right] = &[
    needed(
        GROUP,
        "ipaddressclasses",
        &["list", "watch"],
        "a claim is resolved to a class; classes are never written",
    ),
    needed(
        GROUP,
        "ipaddresses",
        &["get", "list", "watch", "patch", "delete"],
        "claimRef and the protection finalizer are patched, an address whose policy is Delete is deleted at reclaim; addresses are never created",
    ),
    needed(GROUP, "ipaddresses/status", &["patch"], "the phases that are not a driver's"),
    needed(
        GROUP,
        "ipaddressclaims",
        &["get", "list", "watch", "patch"],
        "stamp, selection and protection finalizer are patched, the spec never is",
    ),
    needed(GROUP, "ipaddressclaims/status", &["patch"], "phase, class, addresses and conditions"),
    wanted(
        "events.k8s.io",
        "events",
        &["create"],
        "what happened to an object, in its own namespace",
    ),
    wanted("", "events", &["create"], "the same, where events.k8s.io is refused"),
    Right {
        names: &[
            "ipaddressclaims.local.sdn.cozystack.io",
            "ipaddressclasses.local.sdn.cozystack.io",
            "ipaddresses.local.sdn.cozystack.io",
        ],
        ..wanted(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            &["get"],
            "at start, fields that older definitions lack are named",
        )
    },
];

/// The rights in the release's own namespace.
pub const RELEASE: &[Right] = &[wanted(
    "coordination.k8s.io",
    "leases",
    &["get", "list", "watch", "create", "update", "delete"],
    "replicas know each other, and which one leads, by Leases",
)];

impl From<&Right> for PolicyRule {
    fn from(right: &Right) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        Self {
            api_groups: Some(owned(&[right.group])),
            resources: Some(owned(&[right.resource])),
            resource_names: Some(owned(right.names)).filter(|names| !names.is_empty()),
            verbs: owned(right.verbs),
            ..Self::default()
        }
    }
}

/// The rules of a role that gives these rights.
pub fn rules(rights: &[Right]) -> Vec<PolicyRule> {
    rights.iter().map(PolicyRule::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::crd;
    use kube::ResourceExt;

    #[test]
    fn no_address_is_created_and_no_class_is_written() {
        for right in CLUSTER.iter().filter(|right| right.group == GROUP) {
            for verb in ["create", "update", "deletecollection", "*"] {
                assert!(!right.verbs.contains(&verb), "{verb} {}", right.resource);
            }
            if right.resource == "ipaddressclasses" {
                assert_eq!(right.verbs, ["list", "watch"]);
            }
        }
    }

    #[test]
    fn nothing_of_others_is_read() {
        for right in CLUSTER.iter().chain(RELEASE) {
            assert!(!["secrets", "services", "pods", "*"].contains(&right.resource));
            assert_ne!(right.group, "*");
        }
    }

    #[test]
    fn the_definitions_that_are_read_are_ours() {
        let ours: Vec<_> = crd::all().iter().map(ResourceExt::name_any).collect();
        let read = CLUSTER.iter().find(|right| !right.names.is_empty()).unwrap();
        assert_eq!(read.names, ours);
    }
}
