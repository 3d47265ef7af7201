//! What a change did to an object's metadata, and what of that is the controller's business.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Findings, Rule, Verb, WriteFacts};

/// Finalizers that the API server itself adds for a deletion's propagation policy.
const PROPAGATION: [&str; 2] = ["orphan", "foregroundDeletion"];

/// What a change was, in the life of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It was created.
    Created,
    /// A deletion was asked for: it is gone, or is from now on being deleted.
    DeletionAsked,
    /// It was being deleted, and whoever took off the last finalizer ended it.
    Ended,
    /// Anything else.
    Edited,
}

pub(super) fn step(old: Option<&ObjectMeta>, new: Option<&ObjectMeta>) -> Step {
    let Some(old) = old else { return Step::Created };
    match (old.deletion_timestamp.is_some(), new) {
        (true, None) => Step::Ended,
        (false, None) => Step::DeletionAsked,
        (false, Some(new)) if new.deletion_timestamp.is_some() => Step::DeletionAsked,
        (_, Some(_)) => Step::Edited,
    }
}

pub(super) fn is_deleting(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}

pub(super) fn has_finalizer(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|f| f == finalizer)
}

/// Whether the change took the finalizer off. The API server commits the removal of the last
/// finalizer as the deletion itself, with the finalizer still on the version before.
pub(super) fn took_off(old: &ObjectMeta, new: Option<&ObjectMeta>, finalizer: &str) -> bool {
    has_finalizer(old, finalizer) && new.is_none_or(|new| !has_finalizer(new, finalizer))
}

/// Metadata that is not the controller's: its own finalizer, and on claims its two annotations, are
/// all that it touches.
pub(super) fn judge_metadata(
    old: &ObjectMeta,
    new: Option<&ObjectMeta>,
    own_finalizer: &str,
    own_annotations: &[&str],
    findings: &mut Findings,
) {
    let foreign = |meta: &ObjectMeta| -> BTreeSet<String> {
        let theirs = |f: &&String| *f != own_finalizer && !PROPAGATION.contains(&f.as_str());
        meta.finalizers.iter().flatten().filter(theirs).cloned().collect()
    };
    let (before, after) = (foreign(old), new.map(foreign).unwrap_or_default());
    if before != after {
        findings.add(
            Rule::WhoWritesWhat,
            format!("the controller changed others' finalizers from {before:?} to {after:?}"),
        );
    }
    let Some(new) = new else { return };
    let annotations = |meta: &ObjectMeta| {
        let mut all = meta.annotations.clone().unwrap_or_default();
        all.retain(|key, _| !own_annotations.contains(&key.as_str()));
        all
    };
    if annotations(old) != annotations(new) {
        findings.add(Rule::WhoWritesWhat, "the controller changed others' annotations".to_owned());
    }
    if old.labels.clone().unwrap_or_default() != new.labels.clone().unwrap_or_default() {
        findings.add(Rule::WhoWritesWhat, "the controller changed labels".to_owned());
    }
    if old.owner_references.clone().unwrap_or_default()
        != new.owner_references.clone().unwrap_or_default()
    {
        findings.add(Rule::WhoWritesWhat, "the controller changed owner references".to_owned());
    }
}

/// I8 for a DELETE: both preconditions, so that neither a namesake nor a changed object is deleted.
pub(super) fn judge_delete(write: Option<&WriteFacts>, findings: &mut Findings) {
    let Some(write) = write else { return };
    let both = write.precondition.uid && write.precondition.resource_version;
    if !both || write.verb == Verb::DeleteCollection {
        findings.add(Rule::I8, format!("a DELETE without both preconditions: {write:?}"));
    }
}
