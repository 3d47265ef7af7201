//! The vocabulary of decisions: what is to be written, told and waited for.
//!
//! A plan is complete data. Whoever carries it out chooses nothing: it writes the steps in order,
//! each on the state that it was decided on, and stops at the first that is refused.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{
    selection::Selections,
    view::{AddressView, ClaimKey, Name},
};
use crate::api::{AddressPhase, ClaimPhase, ClaimedAddress, IpFamily};

/// A decision, or what must be read from the API server before it can be made.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision<P, R> {
    /// A cache's word is not enough: read these, bring the answers in, and decide again.
    Read(Vec<R>),
    /// What is to be done.
    Act(P),
}

/// What a waiting claim can be helped by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// A change of the class of this name.
    Class(Name),
    /// A change of which class is the default.
    DefaultClass,
    /// A change of the address of this name.
    Address(Name),
    /// Any free address of a class and family.
    Candidate(Name, IpFamily),
}

/// An address and the state of it that a step was decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: Name,
    /// Its uid.
    pub uid: Name,
    /// Its resourceVersion.
    pub version: Name,
}

impl Target {
    /// An address as it is known.
    pub fn of(address: &AddressView) -> Self {
        Self {
            name: address.name.clone(),
            uid: address.id.uid.clone(),
            version: address.id.resource_version.clone(),
        }
    }
}

/// One write of a claim's pass. Each is conditional on the resourceVersion that was decided on, or
/// on the one that an earlier step of the same plan made of it.
#[derive(Clone, Debug, PartialEq)]
pub enum ClaimStep {
    /// Write what the claim carries of ours: finalizer, selection, stamp. What is `None` stays.
    Mark {
        /// All finalizers, ours among them.
        finalizers: Option<Vec<Name>>,
        /// The selection.
        selections: Option<Selections>,
        /// The stamp.
        stamp: Option<Name>,
    },
    /// Turn away from a choice that is still free: phase `Pending`, until the address's own pass
    /// finds it free again. Whoever still goes for it by the choice that is given up is refused.
    GiveUp {
        /// The address, as it was read from the API server.
        address: Target,
    },
    /// Bind a free address: `claimRef` with the uid, and the protection finalizer.
    Bind {
        /// The address, as it was before the selection was written.
        address: Target,
        /// All finalizers, ours among them.
        finalizers: Vec<Name>,
        /// The family it serves.
        family: IpFamily,
    },
    /// Complete a reservation: the claim's uid into `claimRef`, and the protection finalizer.
    Complete {
        /// The address that names the claim without a uid.
        address: Target,
        /// All finalizers, ours among them unless the address is being deleted.
        finalizers: Vec<Name>,
    },
    /// Write the claim's status.
    Status(ClaimStatus),
    /// Reclaim by `Retain`: phase `Released`.
    Release {
        /// The address.
        address: Target,
    },
    /// Reclaim by `Delete`.
    Delete {
        /// The address.
        address: Target,
    },
    /// Let the claim go.
    Unprotect {
        /// The finalizers of others.
        finalizers: Vec<Name>,
    },
}

impl ClaimStep {
    /// Turns away from a free address.
    pub fn give_up(address: &AddressView) -> Self {
        Self::GiveUp { address: Target::of(address) }
    }

    /// Binds a free address.
    pub fn bind(family: IpFamily, address: &AddressView) -> Self {
        let finalizers = address.finalizers_with_ours();
        Self::Bind { address: Target::of(address), finalizers, family }
    }

    /// Completes an open address. One that is being deleted is left to go.
    pub fn complete(address: &AddressView) -> Option<Self> {
        (address.is_open() && !address.id.deleting).then(|| Self::Complete {
            address: Target::of(address),
            finalizers: address.finalizers_with_ours(),
        })
    }

    /// The address that is written to; none where it is the claim.
    pub fn address(&self) -> Option<&Target> {
        match self {
            Self::GiveUp { address }
            | Self::Bind { address, .. }
            | Self::Complete { address, .. }
            | Self::Release { address }
            | Self::Delete { address } => Some(address),
            Self::Mark { .. } | Self::Status(_) | Self::Unprotect { .. } => None,
        }
    }

    /// The step's name in logs, traces and tests.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Mark { .. } => "mark",
            Self::GiveUp { .. } => "give-up",
            Self::Bind { .. } => "bind",
            Self::Complete { .. } => "complete",
            Self::Status(_) => "status",
            Self::Release { .. } => "release",
            Self::Delete { .. } => "delete",
            Self::Unprotect { .. } => "unprotect",
        }
    }
}

/// A claim's status as it is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimStatus {
    /// `status.phase`.
    pub phase: ClaimPhase,
    /// `status.className`, when it was resolved in this pass.
    pub class: Option<Name>,
    /// `status.addresses`.
    pub addresses: Vec<ClaimedAddress>,
    /// `status.conditions`, those of others included.
    pub conditions: Vec<Condition>,
}

/// One write of an address's pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressStep {
    /// Put the protection finalizer on.
    Protect {
        /// All finalizers, ours among them.
        finalizers: Vec<Name>,
    },
    /// Write the phase.
    Phase(AddressPhase),
    /// Delete the object.
    Delete,
    /// Let it go.
    Unprotect {
        /// The finalizers of others.
        finalizers: Vec<Name>,
    },
}

impl AddressStep {
    /// The step's name in logs, traces and tests.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Protect { .. } => "protect",
            Self::Phase(_) => "phase",
            Self::Delete => "delete",
            Self::Unprotect { .. } => "unprotect",
        }
    }
}

/// A step and the events that tell of it once it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned<S> {
    /// What is written.
    pub step: S,
    /// What is told when it is.
    pub events: Vec<Event>,
}

impl<S> Planned<S> {
    /// A step that nobody is told of.
    pub fn silent(step: S) -> Self {
        Self { step, events: Vec::new() }
    }

    /// A step with one event.
    pub fn told(step: S, event: Event) -> Self {
        Self { step, events: vec![event] }
    }
}

/// What a claim's pass does.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimPlan {
    /// The claim.
    pub claim: ClaimKey,
    /// Its uid.
    pub uid: Name,
    /// The resourceVersion that was decided on.
    pub version: Name,
    /// When it was created.
    pub created: Timestamp,
    /// The writes, in order.
    pub steps: Vec<Planned<ClaimStep>>,
    /// What can help it.
    pub waiting: Vec<Waiting>,
}

impl ClaimPlan {
    /// The addresses that the plan goes for, by family.
    pub fn chosen(&self) -> impl Iterator<Item = (&Name, IpFamily)> {
        self.steps.iter().filter_map(|p| match &p.step {
            ClaimStep::Bind { address, family, .. } => Some((&address.name, *family)),
            _ => None,
        })
    }
}

/// What an address's pass does.
#[derive(Clone, Debug, PartialEq)]
pub struct AddressPlan {
    /// The address, as it was decided on.
    pub address: Target,
    /// The writes, in order.
    pub steps: Vec<Planned<AddressStep>>,
    /// What is told without a write, once for each state.
    pub notices: Vec<Event>,
    /// When to look again though nothing changes.
    pub look_again: Option<std::time::Duration>,
}

/// Why somebody is told. The reasons of Kubernetes events: a closed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventReason {
    /// A claim was matched to a free address.
    Matched,
    /// An address was deleted because its claim went.
    AddressDeleted,
    /// An address was released because its claim went.
    AddressReleased,
    /// An address whose claim had gone unseen was reclaimed afterwards.
    Reclaimed,
    /// An address is to be deleted, and a live claim holds it.
    DeletionBlocked,
    /// An address's text is not one IP.
    InvalidAddress,
    /// Another object records the same IP.
    DuplicateAddress,
    /// The class that a claim names does not exist.
    ClassNotFound,
    /// A claim names no class and there is no default.
    NoDefaultClass,
    /// A claim names no class and there are several defaults.
    MultipleDefaultClasses,
    /// A claim began to wait.
    Pending,
    /// A claim became bound.
    Bound,
    /// A claim lost an address.
    Lost,
}

impl EventReason {
    /// All reasons.
    pub const ALL: [Self; 13] = [
        Self::Matched,
        Self::AddressDeleted,
        Self::AddressReleased,
        Self::Reclaimed,
        Self::DeletionBlocked,
        Self::InvalidAddress,
        Self::DuplicateAddress,
        Self::ClassNotFound,
        Self::NoDefaultClass,
        Self::MultipleDefaultClasses,
        Self::Pending,
        Self::Bound,
        Self::Lost,
    ];

    /// The reason as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Matched => "Matched",
            Self::AddressDeleted => "AddressDeleted",
            Self::AddressReleased => "AddressReleased",
            Self::Reclaimed => "Reclaimed",
            Self::DeletionBlocked => "DeletionBlocked",
            Self::InvalidAddress => "InvalidAddress",
            Self::DuplicateAddress => "DuplicateAddress",
            Self::ClassNotFound => "ClassNotFound",
            Self::NoDefaultClass => "NoDefaultClass",
            Self::MultipleDefaultClasses => "MultipleDefaultClasses",
            Self::Pending => "Pending",
            Self::Bound => "Bound",
            Self::Lost => "Lost",
        }
    }

    /// Whether somebody has to act.
    pub fn is_warning(self) -> bool {
        match self {
            Self::Matched
            | Self::AddressDeleted
            | Self::AddressReleased
            | Self::Reclaimed
            | Self::Pending
            | Self::Bound => false,
            Self::DeletionBlocked
            | Self::InvalidAddress
            | Self::DuplicateAddress
            | Self::ClassNotFound
            | Self::NoDefaultClass
            | Self::MultipleDefaultClasses
            | Self::Lost => true,
        }
    }
}

/// The object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A claim.
    Claim {
        /// Where it is.
        key: ClaimKey,
        /// Its uid.
        uid: Name,
    },
    /// An address.
    Address {
        /// Its name.
        name: Name,
        /// Its uid.
        uid: Name,
    },
}

impl Subject {
    /// The uid of the object.
    pub fn uid(&self) -> &Name {
        match self {
            Self::Claim { uid, .. } | Self::Address { uid, .. } => uid,
        }
    }
}

/// Something worth telling whoever describes an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The object it is about.
    pub about: Subject,
    /// The other object that had part in it.
    pub related: Option<Subject>,
    /// Why.
    pub reason: EventReason,
    /// In words.
    pub note: String,
}
