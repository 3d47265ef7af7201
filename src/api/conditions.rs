//! The condition types of a claim and their reasons: closed sets.

/// A condition of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionType {
    /// Whether the class that serves the claim is known.
    ClassResolved,
    /// Whether every family asked for is held.
    Bound,
}

impl ConditionType {
    /// The type as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClassResolved => "ClassResolved",
            Self::Bound => "Bound",
        }
    }
}

/// Why `ClassResolved` is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClassResolvedReason {
    /// The class exists.
    Resolved,
    /// The class that the claim names does not exist.
    ClassNotFound,
    /// The claim names no class and none is annotated as the default.
    NoDefaultClass,
    /// The claim names no class and several are annotated as the default.
    MultipleDefaultClasses,
}

impl ClassResolvedReason {
    /// The reason as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resolved => "Resolved",
            Self::ClassNotFound => "ClassNotFound",
            Self::NoDefaultClass => "NoDefaultClass",
            Self::MultipleDefaultClasses => "MultipleDefaultClasses",
        }
    }
}

/// Why `Bound` is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BoundReason {
    /// Every family is held.
    Bound,
    /// A family is missing, and has not been held before.
    WaitingForProvisioning,
    /// A family is missing that the claim was bound with.
    AddressLost,
}

impl BoundReason {
    /// The reason as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bound => "Bound",
            Self::WaitingForProvisioning => "WaitingForProvisioning",
            Self::AddressLost => "AddressLost",
        }
    }
}
