//! What this replica and its Leases are called.

use std::{collections::BTreeMap, hash::Hasher};

use fnv::FnvHasher;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::{
    api::{is_object_name, names::OBJECT_NAME_LIMIT},
    lease::{Record, Terms, Times},
};

/// The label that says which installation a Lease is of.
const INSTANCE: &str = "app.kubernetes.io/instance";
/// The label that says what it belongs to.
const NAME: (&str, &str) = ("app.kubernetes.io/name", "address-controller");
/// The label that says what a Lease is for.
const ROLE: &str = "local.sdn.cozystack.io/lease";

/// The pod that the process runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its name, where it is known for certain.
    pub name: Option<String>,
    /// Its uid.
    pub uid: String,
}

/// The names of an installation and of one replica in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    release: String,
    identity: String,
    holder: String,
    pod: Option<Pod>,
}

impl Names {
    /// For a replica by its identity. `process` tells this process from every other one, also from
    /// one that goes by the same identity.
    pub fn new(release: &str, identity: &str, process: &str, pod: Option<Pod>) -> Self {
        let holder = format!("{identity}_{process}");
        Self { release: release.to_owned(), identity: identity.to_owned(), holder, pod }
    }

    /// Who holds this replica's Leases: the identity and what tells the process from others, as
    /// client-go's users write it.
    pub fn holder(&self) -> &str {
        &self.holder
    }

    /// The pod's uid, where it is known.
    pub fn pod_uid(&self) -> Option<&str> {
        self.pod.as_ref().map(|pod| pod.uid.as_str())
    }

    /// The name of the Lease by which this replica is a member.
    pub fn member_lease(&self) -> String {
        self.lease_of(&self.identity)
    }

    /// The name of the Lease by which a process is a member that holds a Lease under this name.
    pub fn member_lease_of(&self, holder: &str) -> String {
        self.lease_of(holder.rsplit_once('_').map_or(holder, |(identity, _)| identity))
    }

    fn lease_of(&self, identity: &str) -> String {
        let prefix = self.member_prefix();
        let plain = format!("{prefix}{identity}");
        if is_object_name(&plain) {
            return plain;
        }
        // Whatever else an identity is made of: what fits of it, and a hash of all of it.
        let mut hasher = FnvHasher::default();
        hasher.write(identity.as_bytes());
        let hash = format!("{:016x}", hasher.finish());
        let room = OBJECT_NAME_LIMIT.saturating_sub(prefix.len() + hash.len() + 1);
        let fitting =
            |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let text: String = identity.chars().map(fitting).take(room).collect();
        let text = text.trim_matches('-');
        if text.is_empty() { format!("{prefix}{hash}") } else { format!("{prefix}{text}-{hash}") }
    }

    /// The name of the Lease of the one who leads.
    pub fn leader_lease(&self) -> String {
        format!("{}-leader", self.release)
    }

    /// What all members' Leases are called by, before the member's own name.
    pub fn member_prefix(&self) -> String {
        format!("{}-member-", self.release)
    }

    /// The member that a Lease is of, if it is one's.
    pub fn member_of<'a>(&self, lease: &'a str) -> Option<&'a str> {
        lease.strip_prefix(&*self.member_prefix()).filter(|member| !member.is_empty())
    }

    /// This replica's own name among the members.
    pub fn member(&self) -> String {
        let lease = self.member_lease();
        self.member_of(&lease).unwrap_or(&lease).to_owned()
    }

    /// Selects the Leases of this installation.
    pub fn selector(&self) -> String {
        format!("{}={},{INSTANCE}={},{ROLE}", NAME.0, NAME.1, self.release)
    }

    /// What is written into the member's Lease.
    pub fn member_terms(&self, times: &Times) -> Terms {
        let owner = self.pod.as_ref().and_then(|pod| {
            Some(OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                name: pod.name.clone()?,
                uid: pod.uid.clone(),
                ..OwnerReference::default()
            })
        });
        Terms { owner, ..self.terms(self.member_lease(), "member", times) }
    }

    /// What is written into the leader's Lease, which outlives every pod.
    pub fn leader_terms(&self, times: &Times) -> Terms {
        self.terms(self.leader_lease(), "leader", times)
    }

    /// Whether a Lease was written by a process of this very pod: the kubelet has ended it before it
    /// started this one.
    pub fn is_of_this_pod(&self, record: &Record) -> bool {
        self.pod_uid().is_some_and(|uid| record.pod_uid() == Some(uid))
    }

    fn terms(&self, name: String, role: &str, times: &Times) -> Terms {
        let labels = [(NAME.0, NAME.1), (INSTANCE, &*self.release), (ROLE, role)];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Terms {
            name,
            holder: self.holder.clone(),
            duration: times.duration,
            labels: BTreeMap::from(labels),
            pod_uid: self.pod_uid().map(str::to_owned),
            owner: None,
        }
    }
}

/// RFC 1123: labels of lower-case letters, digits and `-`, with dots between.
#[cfg(test)]
mod tests {
    use super::*;

    fn names(identity: &str) -> Names {
        Names::new("address-controller", identity, "p1", None)
    }

    #[test]
    fn a_pods_name_is_the_members_name() {
        let names = names("address-controller-7d9c5b6f4-x2x8z");
        assert_eq!(
            names.member_lease(),
            "address-controller-member-address-controller-7d9c5b6f4-x2x8z"
        );
        assert_eq!(names.member(), "address-controller-7d9c5b6f4-x2x8z");
        assert_eq!(names.holder(), "address-controller-7d9c5b6f4-x2x8z_p1");
        assert_eq!(names.leader_lease(), "address-controller-leader");
        assert_eq!(names.member_of("address-controller-leader"), None);
    }

    /// Whatever a host is called, its Lease has a name that the API server takes, and no other
    /// host's.
    #[test]
    fn every_identity_has_a_name_of_its_own() {
        let long = "a".repeat(253);
        let longer = format!("{}b", "a".repeat(252));
        let strange =
            ["Host_1", "host-1", "host_1", "HOST_1", ".", "_", "a..b", "a-", &long, &longer];
        let mut leases: Vec<_> = strange.map(|i| names(i).member_lease()).into();
        for lease in &leases {
            assert!(is_object_name(lease), "{lease}");
        }
        leases.sort();
        leases.dedup();
        assert_eq!(leases.len(), strange.len());
    }

    #[test]
    fn only_a_pod_that_is_known_by_name_owns_its_lease() {
        let owner = |pod| {
            let names = Names::new("r", "web-0", "p1", pod);
            names.member_terms(&Times::default()).owner.map(|owner| owner.name)
        };
        let pod =
            |name: Option<&str>| Some(Pod { name: name.map(str::to_owned), uid: "u1".into() });
        assert_eq!(owner(pod(Some("web-0"))), Some("web-0".to_owned()));
        assert_eq!(owner(pod(None)), None);
        assert_eq!(owner(None), None);
    }
}
