//! Which request made which commit.
//!
//! A stored object is found by its revision. A deletion has none in the log: it is found by the
//! object's uid. A write that changed nothing answers with the revision of the write before it, so
//! of several the first to be received is taken. And a write that took effect although its answer
//! was an error is found by name, when nothing else fits: but not where it was conditional on another
//! version than the one before the commit, nor a creation where there was one.

use std::collections::{HashMap, HashSet};

use address_controller::binder::invariants::{Kind, Verb};

use super::audit::{Ask, Effect, Request, Target};

/// What is to be known of a commit to find its request.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub revision: u64,
    pub kind: Kind,
    pub namespace: Option<String>,
    pub name: String,
    pub uid: String,
    /// The revision of the object before; absent when it was created.
    pub before: Option<u64>,
    pub manner: Manner,
}

/// How the object changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// It was created or changed.
    Stored,
    /// It is being deleted since.
    Marked,
    /// It was being deleted, and is gone.
    Ended,
    /// It is gone at once.
    Removed,
}

/// For each commit the index of its request.
pub(super) fn join(wanted: &[Wanted], requests: &[Request]) -> Vec<Option<usize>> {
    let index = Index::new(requests);
    let mut found: Vec<_> = wanted.iter().map(|w| index.find(w)).collect();
    let mut taken: HashSet<_> = found.iter().flatten().copied().collect();
    for (found, wanted) in found.iter_mut().zip(wanted) {
        if found.is_none() {
            *found = index.find_unanswered(wanted, &taken);
            taken.extend(*found);
        }
    }
    found
}

struct Index<'a> {
    requests: &'a [Request],
    by_revision: HashMap<u64, Vec<usize>>,
    by_uid: HashMap<&'a str, Vec<usize>>,
    unanswered: Vec<usize>,
}

impl<'a> Index<'a> {
    fn new(requests: &'a [Request]) -> Self {
        let mut this = Self {
            requests,
            by_revision: HashMap::new(),
            by_uid: HashMap::new(),
            unanswered: Vec::new(),
        };
        let writes =
            |(_, r): &(usize, &Request)| r.is_write() && matches!(r.target, Target::Kind(_));
        for (i, request) in requests.iter().enumerate().filter(writes) {
            match &request.effect {
                Effect::Stored { revision } => {
                    this.by_revision.entry(*revision).or_default().push(i);
                }
                Effect::Ended { uid } => this.by_uid.entry(uid).or_default().push(i),
                Effect::Deleted { uids } => {
                    for uid in uids {
                        this.by_uid.entry(uid).or_default().push(i);
                    }
                }
                Effect::Unknown => this.unanswered.push(i),
                Effect::Refused => {}
            }
        }
        this
    }

    fn find(&self, wanted: &Wanted) -> Option<usize> {
        let by_revision = self.by_revision.get(&wanted.revision).into_iter().flatten();
        let by_uid = self.by_uid.get(wanted.uid.as_str()).into_iter().flatten();
        let first = |all: Vec<&usize>, fits: &dyn Fn(&Request) -> bool| {
            let fitting = all.into_iter().copied().filter(|i| fits(&self.requests[*i]));
            fitting.min_by_key(|i| &self.requests[*i].received)
        };
        let deletes =
            |r: &Request| matches!(r.ask, Ask::Write(Verb::Delete | Verb::DeleteCollection));
        match wanted.manner {
            Manner::Stored => first(by_revision.collect(), &|r| !deletes(r)),
            Manner::Marked => first(by_revision.chain(by_uid).collect(), &deletes),
            Manner::Ended => first(by_uid.collect(), &|r| matches!(r.effect, Effect::Ended { .. })),
            Manner::Removed => first(by_uid.collect(), &deletes),
        }
    }

    fn find_unanswered(&self, wanted: &Wanted, taken: &HashSet<usize>) -> Option<usize> {
        let deletion = matches!(wanted.manner, Manner::Marked | Manner::Removed);
        let fits = |i: &&usize| {
            let request = &self.requests[**i];
            let deletes = request.ask == Ask::Write(Verb::Delete);
            // Another version than it asked for: then this is not what it did.
            let refused = request.on_revision.is_some_and(|v| Some(v) != wanted.before);
            let creates = request.ask == Ask::Write(Verb::Create);
            !refused
                && creates == wanted.before.is_none()
                && !taken.contains(*i)
                && request.target == Target::Kind(wanted.kind)
                && request.namespace == wanted.namespace
                && request.name.as_deref() == Some(wanted.name.as_str())
                && deletes == deletion
        };
        self.unanswered.iter().filter(fits).min_by_key(|i| &self.requests[**i].received).copied()
    }
}
