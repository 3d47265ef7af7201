//! The invariants of binding, checked as a fold over everything that happened, in one total order.
//!
//! A [`Checker`] is fed each [`Change`] of the three kinds and answers with what the change broke.
//! It judges the controller alone: tenants, administrators and drivers may do what they like, and
//! what they did is only the world that the controller's next write is judged in. After the writes
//! have stopped, [`World::at_rest`] says what should still have been done.
//!
//! The same checks look at a simulated world and at the history of a real API server, so nothing
//! here knows where changes come from. And nothing here shares code with the decisions: what is
//! collected, resolved and matched is worked out a second time, or a mistake would judge itself.
//!
//! A write is judged by what its author *could* have known. Where it is fenced (it carries the
//! version of the object that the rule is about) the check is exact; where it is not, a change made
//! by others since is no violation. Each rule says which it is.

mod address;
mod claim;
mod delta;
mod rest;
mod world;

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt, sync::Arc};

use crate::api::{IPAddress, IPAddressClaim, IPAddressClass};

pub use world::{ClaimKey, World};

/// One commit of the API server: an object before and after it, and who made it.
#[derive(Clone, Debug)]
pub struct Change {
    /// The revision of the whole store that the change made: the total order.
    pub revision: u64,
    /// What changed.
    pub object: Object,
    /// Who did it, when that is known. Nothing is held against an unknown author.
    pub actor: Option<Actor>,
    /// How it was asked for, when that is known.
    pub write: Option<WriteFacts>,
}

/// The object of a change.
#[derive(Clone, Debug)]
pub enum Object {
    /// An `IPAddressClass`.
    Class(Versions<IPAddressClass>),
    /// An `IPAddress`.
    Address(Versions<IPAddress>),
    /// An `IPAddressClaim`.
    Claim(Versions<IPAddressClaim>),
    /// An object that this version cannot read: that it exists is all that is known of it.
    Unreadable(Unreadable),
}

/// An object before and after a change: absent before is a creation, absent after a deletion.
#[derive(Clone, Debug)]
pub struct Versions<K> {
    /// As it was before.
    pub old: Option<Arc<K>>,
    /// As it is now.
    pub new: Option<Arc<K>>,
}

impl<K> Versions<K> {
    /// The two versions, each absent where the object was.
    pub fn new(old: Option<K>, new: Option<K>) -> Self {
        Self { old: old.map(Arc::new), new: new.map(Arc::new) }
    }

    /// Either version: the newer one where there are two.
    fn any(&self) -> Option<&K> {
        self.new.as_deref().or(self.old.as_deref())
    }
}

/// The existence of an object that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace, for a claim.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Whether it exists after the change.
    pub exists: bool,
}

/// The three kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `IPAddressClass`.
    Class,
    /// `IPAddress`.
    Address,
    /// `IPAddressClaim`.
    Claim,
}

impl Kind {
    /// The kind as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Class => "IPAddressClass",
            Self::Address => "IPAddress",
            Self::Claim => "IPAddressClaim",
        }
    }
}

impl Object {
    /// The kind of the object.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Class(_) => Kind::Class,
            Self::Address(_) => Kind::Address,
            Self::Claim(_) => Kind::Claim,
            Self::Unreadable(u) => u.kind,
        }
    }

    /// The object's namespace, for a claim.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Class(_) | Self::Address(_) => None,
            Self::Claim(v) => v.any().and_then(|o| o.metadata.namespace.as_deref()),
            Self::Unreadable(u) => u.namespace.as_deref(),
        }
    }

    /// The object's name; empty for an object that nobody named.
    pub fn name(&self) -> &str {
        match self {
            Self::Class(v) => v.any().and_then(|o| o.metadata.name.as_deref()),
            Self::Address(v) => v.any().and_then(|o| o.metadata.name.as_deref()),
            Self::Claim(v) => v.any().and_then(|o| o.metadata.name.as_deref()),
            Self::Unreadable(u) => Some(u.name.as_str()),
        }
        .unwrap_or_default()
    }
}

/// Kind, namespace and name, as in `IPAddressClaim t1/web`.
impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind().as_str())?;
        if let Some(namespace) = self.namespace() {
            write!(f, "{namespace}/")?;
        }
        f.write_str(self.name())
    }
}

/// Who made a change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// A replica of the controller, by its user agent or identity.
    Controller(String),
    /// Who provisions addresses and says what became of them.
    Driver,
    /// Who owns claims.
    Tenant,
    /// Who owns classes and static addresses.
    Administrator,
    /// Anybody else: the garbage collector, the namespace controller.
    Other,
}

/// How a write was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFacts {
    /// What was asked.
    pub verb: Verb,
    /// What had to be so for the API server to do it.
    pub precondition: Precondition,
    /// The subresource, such as `status`.
    pub subresource: Option<String>,
}

/// The verb of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE of one object.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
}

/// What a write was conditional on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Precondition {
    /// On the object's resourceVersion.
    pub resource_version: bool,
    /// On the object's uid.
    pub uid: bool,
}

/// The rules, by the names that the contract gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// An address has at most one claim: what names one claim is never made to name another.
    I1,
    /// A claim gets at most one address per family through a match, and the choice is on record first.
    I2,
    /// A live claim's address is not released, deleted, unprotected or handed on.
    I3,
    /// A retained address is not matched before its `claimRef` is cleared.
    I4,
    /// The claim's finalizer is on before a `claimRef` names it, and off after all is reclaimed.
    I5,
    /// `Conflict` and `Lost` are the driver's to enter and to leave.
    I6,
    /// What a claim publishes is its own, and is not withdrawn while it is.
    I7,
    /// A DELETE, and a write of `claimRef`, carries a precondition.
    I8,
    /// What can be done is done when the writes stop.
    I9,
    /// Two live claims do not hold one IP by matches.
    OneIpOneClaim,
    /// The controller writes only what is its own.
    WhoWritesWhat,
}

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// By the change with this revision; at rest, the last revision seen.
    pub revision: u64,
    /// The object that is wrong: kind, namespace and name.
    pub object: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} at revision {}: {}: {}",
            self.rule, self.revision, self.object, self.message
        )
    }
}

/// The fold: the world so far, and the judgement of what comes next.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    world: World,
}

impl Checker {
    /// A checker of an empty world.
    pub fn new() -> Self {
        Self::default()
    }

    /// The world after all changes so far.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Takes note of the addresses that the API server refused to have written by the author of the
    /// next changes, and would refuse again: not for a conflict, but for rights that are missing or a
    /// rule that is broken. A claim may go without having reclaimed them.
    pub fn refused(&mut self, addresses: BTreeSet<String>) {
        self.world.refused = addresses;
    }

    /// Takes the next change, in the order of revisions, and says what it broke.
    pub fn apply(&mut self, change: &Change) -> Vec<Violation> {
        let mut findings = Findings::new(change.revision, change.object.to_string());
        if let Some(replica @ Actor::Controller(_)) = &change.actor {
            match &change.object {
                Object::Class(_) => {
                    findings.add(Rule::WhoWritesWhat, "the controller wrote a class".to_owned());
                }
                Object::Address(v) => {
                    address::judge(&self.world, v, change.write.as_ref(), &mut findings);
                }
                Object::Claim(v) => {
                    let author = (replica, change.write.as_ref());
                    claim::judge(&self.world, v, author, &mut findings);
                }
                Object::Unreadable(_) => findings.add(
                    Rule::WhoWritesWhat,
                    "the controller wrote an object that it cannot read".to_owned(),
                ),
            }
        }
        self.world.apply(change);
        findings.violations
    }
}

/// Where the rules put what they find about one object.
struct Findings {
    revision: u64,
    object: String,
    violations: Vec<Violation>,
}

impl Findings {
    fn new(revision: u64, object: String) -> Self {
        Self { revision, object, violations: Vec::new() }
    }

    fn add(&mut self, rule: Rule, message: String) {
        self.violations.push(Violation {
            rule,
            revision: self.revision,
            object: self.object.clone(),
            message,
        });
    }
}
