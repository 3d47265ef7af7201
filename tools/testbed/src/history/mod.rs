//! What really happened on a control plane, and whether it was right.
//!
//! [`Source::read`] joins etcd's history of the three kinds with the API server's audit log into a
//! [`History`]: every change in one total order, with who made it and on which condition, and every
//! request beside. [`check`] and [`check_at_rest`] hold it against the contract's invariants; the
//! counters say what the controller asked for. It must not know how the controller works.

mod actors;
mod audit;
mod etcd;
#[cfg(test)]
mod every_rule;
mod join;
mod objects;
mod report;
#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use address_controller::binder::invariants::{Actor, Change, Object, Unreadable};
use anyhow::Result;

use crate::controlplane::ControlPlane;

pub use actors::Actors;
pub use audit::{Ask, Effect, Request, Target};
pub use report::{Counts, Report, check, check_at_rest};

/// How often, and how many times, the log is looked at again for the authors of the last commits:
/// a commit is in etcd a moment before its request is in the log.
const AGAIN: (Duration, u32) = (Duration::from_millis(50), 20);

/// After so many looks, one at which nothing new was there is the last.
const ENOUGH: u32 = 5;

/// Where a control plane's history is to be read, and who is who in it.
#[derive(Clone, Debug)]
pub struct Source {
    etcd_url: String,
    audit_log: PathBuf,
    actors: Actors,
}

/// A moment in the history, and what existed then.
#[derive(Clone, Debug)]
pub struct Bookmark {
    revision: u64,
    audit_offset: u64,
    existing: Vec<etcd::Commit>,
}

impl Bookmark {
    /// The store's revision at that moment.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How many objects existed at that moment: so many changes a history begins with.
    pub fn existing(&self) -> usize {
        self.existing.len()
    }
}

impl Source {
    /// etcd's client URL and the audit log of the API server over it.
    pub fn new(etcd_url: impl Into<String>, audit_log: impl Into<PathBuf>) -> Self {
        let (etcd_url, audit_log) = (etcd_url.into(), audit_log.into());
        Self { etcd_url, audit_log, actors: Actors::default() }
    }

    /// The history of a control plane.
    pub fn of(controlplane: &ControlPlane) -> Self {
        Self::new(controlplane.etcd_url(), controlplane.audit_log())
    }

    /// With others told apart too.
    #[must_use]
    pub fn with(mut self, actors: Actors) -> Self {
        self.actors = actors;
        self
    }

    /// This moment: [`Self::read_since`] begins here.
    ///
    /// # Errors
    /// When etcd does not answer, or there is no log.
    pub async fn bookmark(&self) -> Result<Bookmark> {
        // The log first: what is committed after the revision is then logged after the offset.
        let audit_offset = audit::end_of_last_line(&self.audit_log)?;
        let (revision, existing) = etcd::now(&self.etcd_url).await?;
        Ok(Bookmark { revision, audit_offset, existing })
    }

    /// The whole history up to now.
    ///
    /// # Errors
    /// When etcd does not answer or has compacted, or the log cannot be read.
    pub async fn read(&self) -> Result<History> {
        let beginning = Bookmark { revision: 0, audit_offset: 0, existing: Vec::new() };
        self.read_since(&beginning).await
    }

    /// The history from a moment up to now. What existed then comes first, as created by nobody known.
    ///
    /// # Errors
    /// When etcd does not answer or has compacted, or the log cannot be read.
    pub async fn read_since(&self, bookmark: &Bookmark) -> Result<History> {
        let commits = etcd::since(&self.etcd_url, bookmark.revision + 1).await?;
        let happened = Happened::read(bookmark, commits);
        let (pause, times) = AGAIN;
        let (mut requests, mut offset) = (Vec::new(), bookmark.audit_offset);
        let mut look = 0;
        loop {
            let (more, next) = audit::read(&self.audit_log, offset, &self.actors)?;
            let nothing_new = more.is_empty() && look > 0;
            requests.extend(more);
            offset = next;
            let made_by = happened.join(&requests);
            let all_known = made_by.iter().skip(happened.beginning).all(Option::is_some);
            // A server that was killed logs no more, however often one looks.
            if all_known || look == times || (nothing_new && look > ENOUGH) {
                return Ok(History::new(happened, requests, made_by));
            }
            look += 1;
            tokio::time::sleep(pause).await;
        }
    }
}

/// Every change, in order, and every request.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// What existed at the beginning, then each change of the three kinds, by revision.
    pub changes: Vec<Change>,
    /// The requests that were answered, in the order of the answers.
    pub requests: Vec<Request>,
    /// For each change the index of its request.
    made_by: Vec<Option<usize>>,
    /// How many of the changes are what existed at the beginning.
    beginning: usize,
}

/// A write that was asked for, and the change that it made, if it made one.
#[derive(Clone, Copy, Debug)]
pub struct WriteRecord<'a> {
    /// The request.
    pub request: &'a Request,
    /// The change: absent when it was refused or changed nothing, and for what is not of the three kinds.
    pub change: Option<&'a Change>,
}

/// What is counted: everything, or what belongs to one namespace or class. What belongs to neither
/// of those asked for is left out.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    namespace: Option<String>,
    class: Option<String>,
}

impl Scope {
    /// Everything.
    pub fn everything() -> Self {
        Self::default()
    }

    /// What is in a namespace.
    #[must_use]
    pub fn namespace(mut self, name: &str) -> Self {
        self.namespace = Some(name.to_owned());
        self
    }

    /// The addresses of a class.
    #[must_use]
    pub fn class(mut self, name: &str) -> Self {
        self.class = Some(name.to_owned());
        self
    }

    fn has(&self, namespace: Option<&str>, class: Option<&str>) -> bool {
        let all = self.namespace.is_none() && self.class.is_none();
        let by_namespace = self.namespace.is_some() && self.namespace.as_deref() == namespace;
        let by_class = self.class.is_some() && self.class.as_deref() == class;
        all || by_namespace || by_class
    }
}

/// The changes, before it is known who made them.
struct Happened {
    changes: Vec<Change>,
    wanted: Vec<join::Wanted>,
    beginning: usize,
}

impl Happened {
    fn read(bookmark: &Bookmark, commits: Vec<etcd::Commit>) -> Self {
        let mut reader = objects::Reader::default();
        let mut all: Vec<_> = bookmark.existing.iter().filter_map(|c| reader.take(c)).collect();
        let beginning = all.len();
        // Each commit's text is let go when it is read: there are hundreds of megabytes of it.
        all.extend(commits.into_iter().filter_map(|c| reader.take(&c)));
        let (changes, wanted) = all.into_iter().unzip();
        Self { changes, wanted, beginning }
    }

    /// For each change the index of its request.
    fn join(&self, requests: &[Request]) -> Vec<Option<usize>> {
        let mut made_by = join::join(&self.wanted[self.beginning..], requests);
        made_by.splice(0..0, std::iter::repeat_n(None, self.beginning));
        made_by
    }
}

impl History {
    /// The whole history of a control plane, with the controller told apart from all others.
    ///
    /// # Errors
    /// As [`Source::read`].
    pub async fn read(etcd_url: &str, audit_log: &Path) -> Result<Self> {
        Source::new(etcd_url, audit_log).read().await
    }

    fn new(happened: Happened, requests: Vec<Request>, made_by: Vec<Option<usize>>) -> Self {
        let Happened { mut changes, beginning, .. } = happened;
        for (change, request) in changes.iter_mut().zip(&made_by) {
            let request = request.map(|i| &requests[i]);
            change.actor = request.map(|r| r.actor.clone());
            change.write = request.and_then(Request::write_facts);
        }
        Self { changes, requests, made_by, beginning }
    }

    /// The request that made the change with this index.
    pub fn request_of(&self, change: usize) -> Option<&Request> {
        self.made_by.get(change).copied().flatten().map(|i| &self.requests[i])
    }

    /// The changes whose author is not known, beside what existed at the beginning.
    pub fn unattributed(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().skip(self.beginning).filter(|c| c.actor.is_none())
    }

    /// The objects that could not be read when they were written.
    pub fn unreadable(&self) -> impl Iterator<Item = &Unreadable> {
        self.changes.iter().filter_map(|c| match &c.object {
            Object::Unreadable(unreadable) if unreadable.exists => Some(unreadable),
            _ => None,
        })
    }

    /// Every write that the controller asked for: refused ones and those that changed nothing too,
    /// and those of Leases and Events as far as the audit policy has them.
    pub fn writes_by_controller(&self, scope: &Scope) -> Vec<WriteRecord<'_>> {
        let mut change_of = vec![None; self.requests.len()];
        for (change, request) in self.changes.iter().zip(&self.made_by) {
            if let Some(request) = request {
                change_of[*request] = Some(change);
            }
        }
        let all = self.requests.iter().zip(change_of);
        all.filter(|(request, _)| request.is_write() && is_controller(request))
            .map(|(request, change)| WriteRecord { request, change })
            .filter(|w| scope.has(w.request.namespace.as_deref(), self.class_of(w)))
            .collect()
    }

    /// Every read that the controller asked for, watches included. A read has no class: with
    /// [`Scope::class`], none is of it.
    pub fn reads_by_controller(&self, scope: &Scope) -> Vec<&Request> {
        let all = self.requests.iter().filter(|r| !r.is_write() && is_controller(r));
        all.filter(|r| scope.has(r.namespace.as_deref(), None)).collect()
    }

    /// The class of the address that a write is about, by the change it made or the last one seen.
    fn class_of<'a>(&'a self, write: &WriteRecord<'a>) -> Option<&'a str> {
        if let Some(change) = write.change {
            return class_in(change);
        }
        let name = write.request.name.as_deref()?;
        let is_address = write.request.target
            == Target::Kind(address_controller::binder::invariants::Kind::Address);
        let mut same = self.changes.iter().rev().filter(|c| c.object.name() == name);
        if is_address { same.find_map(class_in) } else { None }
    }
}

fn class_in(change: &Change) -> Option<&str> {
    let Object::Address(v) = &change.object else { return None };
    v.new.as_deref().or(v.old.as_deref()).map(|a| a.spec.class_name.as_str())
}

fn is_controller(request: &Request) -> bool {
    matches!(request.actor, Actor::Controller(_))
}
