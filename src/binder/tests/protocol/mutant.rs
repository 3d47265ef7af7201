//! The protocol with one of its guards left out, to see that the check finds it.

use serde_json::json;

use super::super::store::{Id, What, Write};
use crate::{
    api::{AddressPhase, well_known::SELECTED_ADDRESSES_ANNOTATION},
    binder::{
        selection::Selections,
        view::{AddressView, ClaimView},
    },
};

/// What is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// Nothing: the protocol.
    None,
    /// The selection: an address is bound, and the claim does not say which was chosen.
    Selection,
    /// The counter: the selection is not written when the same name is chosen again.
    Counter,
    /// A claim's pass takes its cache's word for what should be read.
    ReadOfTheAddress,
    /// An address's pass does.
    ReadOfTheClaim,
    /// A claim's pass does not read the claim before it completes an address.
    ReadOfItself,
    /// The address is bound on the version that it has after the selection.
    OldVersion,
    /// After a read, the newest state of the claim is decided on, and the read still counts.
    OldClaim,
    /// The same for addresses.
    OldAddress,
    /// A choice that is still free is given up without a write to it.
    GivingUp,
    /// A claim that goes loses its finalizer before its addresses are dealt with.
    FinalizerUntilReclaimed,
    /// A claim that goes keeps its finalizer for ever.
    End,
    /// What a claim leaves behind is anybody's at once.
    Retaining,
}

impl Mutant {
    /// A name for files, and what it means.
    pub(super) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::None => ("nothing", "The whole protocol."),
            Self::Selection => (
                "the-selection",
                "An address is bound, and the claim does not say which one was chosen.",
            ),
            Self::Counter => (
                "the-counter",
                "The selection is not written when the name that it has already is chosen again.",
            ),
            Self::ReadOfTheAddress => {
                ("the-read-of-the-address", "A known choice is given up on the word of the cache.")
            }
            Self::ReadOfTheClaim => (
                "the-read-of-the-claim",
                "An address is reclaimed because the cache has no such claim.",
            ),
            Self::ReadOfItself => (
                "the-read-of-itself",
                "An address is completed for a claim that only the cache still has.",
            ),
            Self::OldVersion => (
                "the-older-version",
                "The address is bound on the version that it has when it is bound.",
            ),
            Self::OldClaim => (
                "the-older-claim",
                "After a read, a newer state of the claim is decided on, and the read still counts.",
            ),
            Self::OldAddress => (
                "the-older-address",
                "After a read, a newer state of the address is decided on, and the read still counts.",
            ),
            Self::GivingUp => (
                "giving-up",
                "A choice that could still be bound is given up without a write to its address.",
            ),
            Self::End => ("the-end", "A claim that goes keeps its finalizer."),
            Self::Retaining => ("retaining", "A released address is called Available."),
            Self::FinalizerUntilReclaimed => (
                "the-finalizer-until-reclaimed",
                "A claim that goes loses its finalizer before its addresses are dealt with.",
            ),
        }
    }

    /// A claim's plan without what is left out.
    pub(super) fn weakened(self, claim: &ClaimView, mut writes: Vec<Write>) -> Vec<Write> {
        match self {
            Self::Counter => writes.retain(|w| w.step != "mark" || !keeps_the_names(w, claim)),
            Self::End => writes.retain(|w| w.step != "unprotect"),
            Self::GivingUp => writes.retain(|w| w.step != "give-up"),
            Self::Selection => {
                writes.iter_mut().for_each(forget_the_choice);
                writes.retain(|w| w.step != "mark" || !is_empty(w));
            }
            Self::FinalizerUntilReclaimed => writes.sort_by_key(|w| w.step != "unprotect"),
            _ => {}
        }
        writes
    }
}

impl Mutant {
    /// The same for an address's plan.
    pub(super) fn recycled(self, address: &AddressView, mut writes: Vec<Write>) -> Vec<Write> {
        if self == Self::Retaining
            && address.phase == Some(AddressPhase::Released)
            && writes.is_empty()
        {
            writes.push(Write {
                step: "phase",
                id: Id::Address(address.name.clone()),
                uid: address.id.uid.clone(),
                version: address.id.resource_version.clone(),
                what: What::Status(json!({"phase": "Available"})),
            });
        }
        writes
    }
}

/// Whether a mark writes a selection alone, with the names that the claim has already.
fn keeps_the_names(write: &Write, claim: &ClaimView) -> bool {
    let What::Patch(patch) = &write.what else { return false };
    let annotations = patch["metadata"]["annotations"].as_object();
    let names = |all: &Selections| all.names().cloned().collect::<Vec<_>>();
    let same = |text: &str| names(&Selections::parse(text)) == names(&claim.selections);
    patch["metadata"]["finalizers"].is_null()
        && annotations.is_some_and(|all| {
            all.len() == 1 && all.values().all(|t| same(t.as_str().unwrap_or_default()))
        })
}

fn forget_the_choice(write: &mut Write) {
    if let ("mark", What::Patch(patch)) = (write.step, &mut write.what)
        && let Some(annotations) = patch["metadata"]["annotations"].as_object_mut()
    {
        annotations.remove(SELECTED_ADDRESSES_ANNOTATION);
    }
}

fn is_empty(write: &Write) -> bool {
    let What::Patch(patch) = &write.what else { return false };
    let annotations = patch["metadata"]["annotations"].as_object();
    patch["metadata"]["finalizers"].is_null() && annotations.is_none_or(serde_json::Map::is_empty)
}
