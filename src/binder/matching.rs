//! Which class serves a claim, and which address a missing family gets.
//!
//! This is the place where the matching rule is: [`choose`]. In which order free addresses come is
//! [`Index::candidate`]'s business.

use std::fmt;

use super::{
    holding::staying,
    index::{Index, Seen},
    selection::Selections,
    view::{AddressView, ClaimKey, ClaimView, ClassView, Name},
};
use crate::api::{AddressPhase, ClassResolvedReason, IpFamily};

/// The class that a claim resolves to, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution<'a> {
    /// It exists.
    Resolved(&'a ClassView),
    /// The class that is named does not exist.
    NotFound(Name),
    /// The class that is named exists, and this version cannot read it.
    Unreadable(Name),
    /// None is named, and none is the default.
    NoDefault,
    /// None is named, and these are all the default.
    MultipleDefaults(Vec<Name>),
}

impl<'a> Resolution<'a> {
    /// Resolves a claim's class: the one it names, else the one it resolved to before, else the
    /// one default.
    pub fn of(index: &'a Index, claim: &ClaimView) -> Self {
        if let Some(name) = claim.class.as_ref().or(claim.resolved_class.as_ref()) {
            return Self::named(index, name);
        }
        let defaults: Vec<Name> = index.default_classes().cloned().collect();
        match defaults.as_slice() {
            [] => Self::NoDefault,
            [only] => Self::named(index, only),
            [..] => Self::MultipleDefaults(defaults),
        }
    }

    fn named(index: &'a Index, name: &Name) -> Self {
        match index.class(name) {
            Seen::Known(class) => Self::Resolved(class),
            Seen::Strange(_) => Self::Unreadable(name.clone()),
            Seen::Absent => Self::NotFound(name.clone()),
        }
    }

    /// The class, when it is known.
    pub fn class(&self) -> Option<&'a ClassView> {
        match self {
            Self::Resolved(class) => Some(class),
            Self::NotFound(_)
            | Self::Unreadable(_)
            | Self::NoDefault
            | Self::MultipleDefaults(_) => None,
        }
    }

    /// The reason of the condition `ClassResolved`.
    pub fn reason(&self) -> ClassResolvedReason {
        match self {
            Self::Resolved(_) => ClassResolvedReason::Resolved,
            Self::NotFound(_) | Self::Unreadable(_) => ClassResolvedReason::ClassNotFound,
            Self::NoDefault => ClassResolvedReason::NoDefaultClass,
            Self::MultipleDefaults(_) => ClassResolvedReason::MultipleDefaultClasses,
        }
    }
}

impl fmt::Display for Resolution<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolved(class) => write!(f, "class {} is served by {}", class.name, class.provisioner),
            Self::NotFound(name) => write!(
                f,
                "IPAddressClass {name} does not exist: create it, or name another in spec.className"
            ),
            Self::Unreadable(name) => write!(
                f,
                "IPAddressClass {name} does not parse: it was written for another version of the API"
            ),
            Self::NoDefault => f.write_str(
                "spec.className is empty and no IPAddressClass is annotated as the default: name a class, or annotate one",
            ),
            Self::MultipleDefaults(names) => write!(
                f,
                "spec.className is empty and several IPAddressClasses are annotated as the default: {}; leave one",
                names.join(", ")
            ),
        }
    }
}

/// Why a certain address cannot be had by a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It does not exist.
    Absent,
    /// It does not parse.
    Unreadable,
    /// Its text is not one IP.
    Invalid,
    /// It is of another class.
    OtherClass(Name),
    /// It is of the other family.
    OtherFamily(IpFamily),
    /// It is being deleted.
    Deleting,
    /// Its driver reported a conflict.
    Conflict,
    /// Its driver reported it lost.
    Lost,
    /// It waits for an administrator to recycle it.
    Released,
    /// It names another claim, or an earlier one of the same name.
    Taken(ClaimKey),
    /// Another object records the same IP.
    Duplicate(Name),
    /// It is not `Available` yet.
    NotAvailable,
    /// Another claim is being bound to it.
    BeingBound(ClaimKey),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("does not exist"),
            Self::Unreadable => {
                f.write_str("does not parse: it was written for another version of the API")
            }
            Self::Invalid => f.write_str("has a spec.address that is not one IP address"),
            Self::OtherClass(class) => write!(f, "is of class {class}"),
            Self::OtherFamily(family) => write!(f, "is {family}"),
            Self::Deleting => f.write_str("is being deleted"),
            Self::Conflict => f.write_str("is in conflict"),
            Self::Lost => f.write_str("is lost"),
            Self::Released => f.write_str("is released, and its claimRef is not cleared"),
            Self::Taken(key) => write!(f, "is taken by claim {key}"),
            Self::Duplicate(other) => write!(f, "records the same IP as {other}"),
            Self::NotAvailable => f.write_str("is not available yet"),
            Self::BeingBound(key) => write!(f, "is being bound to claim {key}"),
        }
    }
}

/// Why a family stays missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The class is not resolved.
    NoClass,
    /// No free address of the class and family.
    NoneFree(Name),
    /// The pinned address cannot be had.
    Pinned(Name, Obstacle),
    /// The family was held before, by this address as far as is known: it is not replaced unasked.
    HeldBefore(Name),
    /// The chosen address cannot be read, and may be this claim's.
    Unreadable(Name),
}

/// The address that a missing family gets.
///
/// `class` is the resolved class, `known` the claim's selection with every loss recorded. A known
/// choice is made again while it can be had; then comes the lexicographically smallest free name (or,
/// where replicas have got into each other's way, one of the smallest: [`Index::candidate`]). A pin
/// allows that one address only. A family that was held before, or that the claim still holds a lost
/// address of, gets nothing but a pinned address.
///
/// # Errors
/// [`Missing`]: why there is none.
pub fn choose<'a>(
    index: &'a Index,
    claim: &ClaimView,
    known: &Selections,
    class: &ClassView,
    family: IpFamily,
) -> Result<&'a AddressView, Missing> {
    let known_one = known.get(family).map(|s| &s.name);
    let unread = known_one.filter(|n| claim.pin.as_ref() != Some(n) && may_be_own(index, claim, n));
    if let Some(pin) = &claim.pin {
        // What cannot be read may be this claim's already: it is not given up for another.
        if let Some(name) = unread {
            return Err(Missing::Unreadable(name.clone()));
        }
        return can_be_had(index, claim, class, family, pin)
            .map_err(|obstacle| Missing::Pinned(pin.clone(), obstacle));
    }
    let held = staying(index, claim).find(|a| a.family() == Some(family)).map(|a| &a.name);
    let was_held = claim.has_held(family) || known.get(family).is_some_and(|s| s.held);
    if was_held || held.is_some() {
        return Err(Missing::HeldBefore(held.or(known_one).cloned().unwrap_or_else(|| "".into())));
    }
    if let Some(name) = unread {
        return Err(Missing::Unreadable(name.clone()));
    }
    if let Some(address) =
        known_one.and_then(|name| can_be_had(index, claim, class, family, name).ok())
    {
        return Ok(address);
    }
    index
        .candidate(&class.name, family, &claim.key)
        .ok_or_else(|| Missing::NoneFree(class.name.clone()))
}

/// Whether an address that does not parse may name this claim.
fn may_be_own(index: &Index, claim: &ClaimView, name: &Name) -> bool {
    match index.address(name) {
        Seen::Strange(strange) => strange.claim.as_ref().is_none_or(|key| *key == claim.key),
        Seen::Absent | Seen::Known(_) => false,
    }
}

/// Whether a claim can have the address of this name for a family: one that is pinned, or chosen
/// before. What is free for everybody is the index's to say ([`AddressView::matchable`], and no other
/// object with its IP): whoever changes what is free here changes it there.
fn can_be_had<'a>(
    index: &'a Index,
    claim: &ClaimView,
    class: &ClassView,
    family: IpFamily,
    name: &Name,
) -> Result<&'a AddressView, Obstacle> {
    let address = match index.address(name) {
        Seen::Absent => return Err(Obstacle::Absent),
        Seen::Strange(_) => return Err(Obstacle::Unreadable),
        Seen::Known(address) => address,
    };
    let Some(its_family) = address.family() else { return Err(Obstacle::Invalid) };
    if address.class != class.name {
        return Err(Obstacle::OtherClass(address.class.clone()));
    }
    if its_family != family {
        return Err(Obstacle::OtherFamily(its_family));
    }
    if address.id.deleting {
        return Err(Obstacle::Deleting);
    }
    match (address.phase, &address.claim_ref) {
        (Some(AddressPhase::Conflict), _) => Err(Obstacle::Conflict),
        (Some(AddressPhase::Lost), _) => Err(Obstacle::Lost),
        (Some(AddressPhase::Released), Some(_)) => Err(Obstacle::Released),
        (_, Some(reference)) => Err(Obstacle::Taken(reference.key.clone())),
        (
            None | Some(AddressPhase::Pending | AddressPhase::Bound | AddressPhase::Released),
            None,
        ) => Err(Obstacle::NotAvailable),
        (Some(AddressPhase::Available), None) => Ok(()),
    }?;
    if let Some(other) = index.duplicates_of(address).next() {
        return Err(Obstacle::Duplicate(other.clone()));
    }
    match index.reserved_for(name) {
        Some(key) if *key != claim.key => Err(Obstacle::BeingBound(key.clone())),
        _ => Ok(address),
    }
}
