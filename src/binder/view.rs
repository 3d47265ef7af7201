//! The three kinds as decisions see them: what is decided on, and nothing else.
//!
//! A view is made from an object of the API and never written back: writes are patches of single
//! fields, so whatever a view leaves out survives them.

use std::{fmt, net::IpAddr, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use super::selection::Selections;
use crate::api::{
    AddressPhase, ClaimFamily, ClaimPhase, ClaimReference, ClaimedAddress, IPAddress,
    IPAddressClaim, IPAddressClass, IpFamily, ReclaimPolicy, is_object_name, parse_ip,
    well_known::{
        ADDRESS_FINALIZER, CLAIM_FINALIZER, PROVISIONER_ANNOTATION, SELECTED_ADDRESSES_ANNOTATION,
    },
};

/// A name, uid or resourceVersion, shared between the maps that hold it.
pub type Name = Arc<str>;

/// Where a claim is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimKey {
    /// The claim's namespace.
    pub namespace: Name,
    /// The claim's name.
    pub name: Name,
}

impl ClaimKey {
    /// A key from its two parts.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What every view has: who the object is and which state of it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `metadata.uid`.
    pub uid: Name,
    /// `metadata.resourceVersion` of the state that was seen.
    pub resource_version: Name,
    /// `metadata.creationTimestamp`; the epoch when the server left it out.
    pub created: Timestamp,
    /// Whether a deletion timestamp is set.
    pub deleting: bool,
    /// All finalizers, in the object's order.
    pub finalizers: Vec<Name>,
}

impl Identity {
    fn of(meta: &ObjectMeta) -> Self {
        Self {
            uid: meta.uid.as_deref().unwrap_or_default().into(),
            resource_version: meta.resource_version.as_deref().unwrap_or_default().into(),
            created: meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0),
            deleting: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.iter().flatten().map(|f| f.as_str().into()).collect(),
        }
    }

    fn carries(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|f| &**f == finalizer)
    }

    fn with(&self, finalizer: &str) -> Vec<Name> {
        let mut all = self.finalizers.clone();
        if !self.carries(finalizer) {
            all.push(finalizer.into());
        }
        all
    }

    fn without(&self, finalizer: &str) -> Vec<Name> {
        self.finalizers.iter().filter(|f| &***f != finalizer).cloned().collect()
    }
}

/// An address's `claimRef`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRef {
    /// The claim that is named.
    pub key: ClaimKey,
    /// Its uid; none in a reservation that is not completed yet.
    pub uid: Option<Name>,
}

impl ClaimRef {
    /// From the API's form, where an empty uid is the same as none.
    pub fn of(reference: &ClaimReference) -> Self {
        Self {
            key: ClaimKey::new(&reference.namespace, &reference.name),
            uid: reference.uid.as_deref().filter(|u| !u.is_empty()).map(Into::into),
        }
    }

    /// Whether it names this claim, and no earlier one of the same name.
    pub fn is_to(&self, claim: &ClaimView) -> bool {
        self.key == claim.key && self.uid.as_ref().is_none_or(|uid| *uid == claim.id.uid)
    }
}

/// An address as decisions see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressView {
    /// `metadata.name`.
    pub name: Name,
    /// Who it is.
    pub id: Identity,
    /// `spec.className`.
    pub class: Name,
    /// `spec.address` as written.
    pub text: Name,
    /// The IP in canonical form; none when the text is not one IP.
    pub ip: Option<IpAddr>,
    /// `spec.reclaimPolicy`.
    pub policy: ReclaimPolicy,
    /// `spec.claimRef`.
    pub claim_ref: Option<ClaimRef>,
    /// `status.phase`.
    pub phase: Option<AddressPhase>,
}

impl AddressView {
    /// The family of its IP.
    pub fn family(&self) -> Option<IpFamily> {
        self.ip.map(IpFamily::of)
    }

    /// Whether the protection finalizer is on.
    pub fn protected(&self) -> bool {
        self.id.carries(ADDRESS_FINALIZER)
    }

    /// The finalizers with ours among them.
    pub fn finalizers_with_ours(&self) -> Vec<Name> {
        self.id.with(ADDRESS_FINALIZER)
    }

    /// The finalizers of everybody else.
    pub fn finalizers_without_ours(&self) -> Vec<Name> {
        self.id.without(ADDRESS_FINALIZER)
    }

    /// Whether it names its claim without a uid.
    pub fn is_open(&self) -> bool {
        self.claim_ref.as_ref().is_some_and(|r| r.uid.is_none())
    }

    /// Whether nothing of ours holds up its deletion: it is as good as gone.
    pub fn going(&self) -> bool {
        self.id.deleting && (self.phase == Some(AddressPhase::Lost) || !self.protected())
    }

    /// Whether its own state allows a match. That no other object records the same IP, and that no
    /// other claim is being bound to it, only the index knows.
    pub fn matchable(&self) -> bool {
        self.phase == Some(AddressPhase::Available)
            && self.claim_ref.is_none()
            && !self.id.deleting
            && self.ip.is_some()
    }
}

impl From<&IPAddress> for AddressView {
    fn from(o: &IPAddress) -> Self {
        Self {
            name: o.metadata.name.as_deref().unwrap_or_default().into(),
            id: Identity::of(&o.metadata),
            class: o.spec.class_name.as_str().into(),
            text: o.spec.address.as_str().into(),
            ip: parse_ip(&o.spec.address).ok(),
            policy: o.spec.reclaim_policy,
            claim_ref: o.spec.claim_ref.as_ref().map(ClaimRef::of),
            phase: o.status.as_ref().and_then(|s| s.phase),
        }
    }
}

/// A claim as decisions see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimView {
    /// Where it is.
    pub key: ClaimKey,
    /// Who it is.
    pub id: Identity,
    /// `metadata.generation`.
    pub generation: i64,
    /// `spec.className`, unless empty.
    pub class: Option<Name>,
    /// `spec.family`.
    pub family: ClaimFamily,
    /// `spec.addressName`, unless empty.
    pub pin: Option<Name>,
    /// The stamp.
    pub stamp: Option<Name>,
    /// The selection.
    pub selections: Selections,
    /// `status.phase`.
    pub phase: Option<ClaimPhase>,
    /// `status.className`, unless empty.
    pub resolved_class: Option<Name>,
    /// `status.addresses`.
    pub published: Vec<ClaimedAddress>,
    /// `status.conditions`.
    pub conditions: Vec<Condition>,
}

impl ClaimView {
    /// Whether the protection finalizer is on.
    pub fn protected(&self) -> bool {
        self.id.carries(CLAIM_FINALIZER)
    }

    /// Whether it is bound and stays: most of those have no work left.
    pub fn is_settled(&self) -> bool {
        self.phase == Some(ClaimPhase::Bound) && !self.id.deleting
    }

    /// The finalizers with ours among them.
    pub fn finalizers_with_ours(&self) -> Vec<Name> {
        self.id.with(CLAIM_FINALIZER)
    }

    /// The finalizers of everybody else.
    pub fn finalizers_without_ours(&self) -> Vec<Name> {
        self.id.without(CLAIM_FINALIZER)
    }

    /// Published addresses of one family, by what their text says. What no object can be called was
    /// never published here, and promises nothing.
    pub fn published_of(&self, family: IpFamily) -> impl Iterator<Item = &ClaimedAddress> {
        self.published
            .iter()
            .filter(|a| is_object_name(&a.name))
            .filter(move |a| parse_ip(&a.address).is_ok_and(|ip| IpFamily::of(ip) == family))
    }

    /// Whether an address of this name is published.
    pub fn publishes(&self, name: &str) -> bool {
        self.published.iter().any(|p| p.name == name)
    }

    /// Whether the claim has ever shown an address of the family to its tenant.
    ///
    /// Such a family is never matched again by itself: somebody's DNS holds the old IP.
    pub fn has_held(&self, family: IpFamily) -> bool {
        self.selections.get(family).is_some_and(|s| s.held)
            || self.published_of(family).next().is_some()
    }
}

impl From<&IPAddressClaim> for ClaimView {
    fn from(o: &IPAddressClaim) -> Self {
        let annotation = |key: &str| {
            o.metadata.annotations.as_ref().and_then(|a| a.get(key)).map(String::as_str)
        };
        let status = o.status.clone().unwrap_or_default();
        let present =
            |text: &Option<String>| text.as_deref().filter(|t| !t.is_empty()).map(Name::from);
        Self {
            key: ClaimKey::new(
                o.metadata.namespace.as_deref().unwrap_or_default(),
                o.metadata.name.as_deref().unwrap_or_default(),
            ),
            id: Identity::of(&o.metadata),
            generation: o.metadata.generation.unwrap_or_default(),
            class: present(&o.spec.class_name),
            family: o.spec.family,
            pin: present(&o.spec.address_name),
            stamp: annotation(PROVISIONER_ANNOTATION).map(Name::from),
            selections: annotation(SELECTED_ADDRESSES_ANNOTATION)
                .map(Selections::parse)
                .unwrap_or_default(),
            phase: status.phase,
            resolved_class: present(&status.class_name),
            published: status.addresses,
            conditions: status.conditions,
        }
    }
}

/// A class as decisions see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassView {
    /// `metadata.name`.
    pub name: Name,
    /// Who it is.
    pub id: Identity,
    /// `spec.provisioner`.
    pub provisioner: Name,
    /// Whether it is annotated as the default.
    pub default: bool,
}

impl From<&IPAddressClass> for ClassView {
    fn from(o: &IPAddressClass) -> Self {
        Self {
            name: o.metadata.name.as_deref().unwrap_or_default().into(),
            id: Identity::of(&o.metadata),
            provisioner: o.spec.provisioner.as_str().into(),
            default: o.is_default(),
        }
    }
}
