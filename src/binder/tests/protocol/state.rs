//! A state of the model, in a few numbers, and what can happen in it. Must not know the rules.
//!
//! Of a resourceVersion only one thing matters: whether it is still the object's. So a cache's
//! entry and a plan's version are a number and that answer.

use std::hash::{Hash, Hasher};

use super::space::{Contents, Mask, Number, Past, SLOTS};

/// How often others do what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Budget {
    /// Another claim's binder takes a free address, or an administrator clears a claimRef or its
    /// uid.
    pub(super) others: u8,
    /// Somebody deletes an address or a claim.
    pub(super) deletions: u8,
    /// A claim is created again under its name.
    pub(super) creations: u8,
    /// A tenant pins a claim to an address, or widens it to both families.
    pub(super) edits: u8,
    /// A process ends, or an answer is lost.
    pub(super) crashes: u8,
    /// A driver makes an address for a claim, or enters or leaves a phase of its own.
    pub(super) drivers: u8,
}

impl Budget {
    fn packed(self) -> u64 {
        let all =
            [self.others, self.deletions, self.creations, self.edits, self.crashes, self.drivers];
        all.iter().fold(0, |sum, n| sum << 8 | u64::from(*n))
    }
}

/// An object as a cache has it: its state, and whether that is still the object's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seen {
    pub(super) number: Number,
    pub(super) current: bool,
}

impl Seen {
    fn packed(self) -> u64 {
        u64::from(self.number) << 1 | u64::from(self.current)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pass {
    Idle,
    /// It was decided that these must be read.
    Reading {
        slot: u8,
        began: Seen,
        todo: Mask,
        confirmed: Mask,
    },
    /// A plan is being carried out; of these objects it has the version.
    Writing {
        job: u16,
        at: u8,
        current: Mask,
    },
}

impl Pass {
    fn packed(self) -> u64 {
        match self {
            Self::Idle => 0,
            Self::Reading { slot, began, todo, confirmed } => {
                let masks = u64::from(slot) | u64::from(todo) << 8 | u64::from(confirmed) << 16;
                1 | masks << 8 | began.packed() << 32
            }
            Self::Writing { job, at, current } => {
                2 | u64::from(at) << 8 | u64::from(current) << 16 | u64::from(job) << 32
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Replica {
    pub(super) cache: [Seen; SLOTS],
    pub(super) pass: Pass,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) truth: Contents,
    pub(super) replicas: [Replica; 2],
    pub(super) left: Budget,
    pub(super) past: Past,
    /// The number of the rule that the last step broke; 0 is none.
    pub(super) broken: u8,
}

impl State {
    /// Two fresh caches of these objects.
    pub(super) fn new(truth: Contents, left: Budget, past: Past) -> Self {
        let cache = truth.map(|number| Seen { number, current: true });
        let replica = Replica { cache, pass: Pass::Idle };
        Self { truth, replicas: [replica; 2], left, past, broken: 0 }
    }

    /// Whether nobody is about to do anything, and every cache is as old as the objects.
    pub(super) fn is_quiet(&self) -> bool {
        let fresh = |r: &Replica| {
            r.pass == Pass::Idle
                && r.cache.iter().zip(&self.truth).all(|(s, n)| s.current && s.number == *n)
        };
        self.replicas.iter().all(fresh)
    }
}

// Field by field, as derived, would take a third of the whole time.
impl Hash for State {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let four = |c: [u64; SLOTS]| c[0] | c[1] << 16 | c[2] << 32 | c[3] << 48;
        to.write_u64(four(self.truth.map(u64::from)));
        for replica in &self.replicas {
            to.write_u64(four(replica.cache.map(Seen::packed)));
            to.write_u64(replica.pass.packed());
        }
        to.write_u64(self.left.packed() | u64::from(self.broken) << 48);
        let Past { matched, released, named } = self.past;
        to.write_u32(u32::from(matched) | u32::from(released) << 8 | u32::from(named) << 16);
    }
}

/// A kind of which a cache has a watch of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Claims,
    Addresses,
}

/// What somebody else does to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// Created: a claim under a name that was another's, an address by a driver for a claim.
    Create,
    Delete,
    /// Another claim's binder takes the free address.
    Take,
    /// An administrator clears the claimRef.
    Clear,
    /// An administrator clears the uid alone.
    ClearUid,
    /// The claim's owner pins it to the address in this slot.
    Pin(u8),
    /// The claim's owner asks for both families.
    Widen,
    /// The driver enters a phase of its own.
    Lost,
    Conflict,
    /// The driver leaves it.
    Mend,
}

impl Deed {
    /// How often that may still happen.
    pub(super) fn left(self, budget: &mut Budget, is_claim: bool) -> &mut u8 {
        match self {
            Self::Create if is_claim => &mut budget.creations,
            Self::Create | Self::Lost | Self::Conflict | Self::Mend => &mut budget.drivers,
            Self::Delete => &mut budget.deletions,
            Self::Take | Self::Clear | Self::ClearUid => &mut budget.others,
            Self::Pin(_) | Self::Widen => &mut budget.edits,
        }
    }
}

/// A step. Replicas are by their place in the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The watch of one kind catches up.
    See { who: u8, kind: Kind },
    /// A pass begins.
    Look { who: u8, slot: u8 },
    /// The next object is read; after the last of them it is decided again.
    Read { who: u8 },
    /// The next write is made, and its answer may be lost.
    Write { who: u8, lost: bool },
    /// The process ends in the middle of a pass, and starts again with a cache as old as before.
    End { who: u8 },
    /// Somebody else writes.
    Other { slot: u8, deed: Deed, to: Number },
}
