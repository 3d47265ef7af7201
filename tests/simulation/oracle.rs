//! What judges every commit: the binder's invariants, and a hash of all that happened.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    sync::Arc,
};

use address_controller::binder::invariants::{
    Actor, Change, Checker, Kind, Object, Precondition, Unreadable, Verb as WriteVerb, Versions,
    Violation, WriteFacts,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use siphasher::sip::SipHasher13;

use crate::{
    apiserver::{
        ask::{Ask, Verb},
        store::{Commit, Key, Store},
    },
    checks::quiet::Quiet,
    link::Sent,
};

/// The user agents of those who are not the controller.
pub const TENANT: &str = "tenant";
pub const ADMINISTRATOR: &str = "administrator";
pub const DRIVER: &str = "driver";

/// Judges as things happen.
pub struct Oracle {
    checker: Checker,
    judged: u64,
    typed: BTreeMap<Key, Object>,
    hash: SipHasher13,
    pub violations: Vec<Violation>,
    /// What happened, in words; kept where it is to be shown.
    pub trace: Option<Vec<String>>,
    /// Commits to our kinds.
    pub commits: u64,
    /// Requests of replicas.
    pub requests: u64,
    pub conflicts: u64,
    pub quiet: Quiet,
    /// The revision of the last commit to one of our kinds.
    pub last: u64,
}

impl Oracle {
    pub fn new(trace: bool) -> Self {
        Self {
            checker: Checker::new(),
            judged: 0,
            typed: BTreeMap::new(),
            hash: SipHasher13::new(),
            violations: Vec::new(),
            trace: trace.then(Vec::new),
            commits: 0,
            requests: 0,
            conflicts: 0,
            quiet: Quiet::default(),
            last: 0,
        }
    }

    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    pub fn checker(&self) -> &Checker {
        &self.checker
    }

    /// A request was carried out, and the store is as it left it.
    pub fn told(&mut self, sent: &Sent, store: &Store, at: std::time::Duration) {
        let Sent { by, ask, code } = sent;
        (by, ask.resource, &ask.name, ask.status, code, at).hash(&mut self.hash);
        ask.body.to_string().hash(&mut self.hash);
        if by.starts_with("address-controller") {
            self.requests += 1;
            self.conflicts += u64::from(*code == Some(409));
        }
        if let Some(trace) = &mut self.trace
            && ask.is_write()
        {
            trace.push(format!(
                "{:10.4} {by} {:?} {}/{} {}{} -> {code:?}",
                at.as_secs_f64(),
                ask.verb,
                ask.namespace,
                ask.name,
                if ask.status { "status " } else { "" },
                ask.body,
            ));
        }
        for commit in store.since(self.judged) {
            self.judge(commit, Some(ask));
        }
        self.judged = store.revision();
    }

    fn judge(&mut self, commit: &Commit, ask: Option<&Ask>) {
        (commit.revision, commit.new.as_ref().map(Value::to_string)).hash(&mut self.hash);
        let kind = match commit.key.0 {
            "ipaddresses" => Kind::Address,
            "ipaddressclaims" => Kind::Claim,
            "ipaddressclasses" => Kind::Class,
            _ => return,
        };
        self.commits += 1;
        self.last = commit.revision;
        let object = self.object(kind, commit);
        let change = Change {
            revision: commit.revision,
            object,
            actor: Some(actor(&commit.by)),
            write: ask.map(facts),
        };
        let found = self.checker.apply(&change);
        if let Some(trace) = &mut self.trace {
            trace.extend(found.iter().map(|violation| format!("           BROKEN: {violation:?}")));
        }
        self.violations.extend(found);
    }

    fn object(&mut self, kind: Kind, commit: &Commit) -> Object {
        let before = self.typed.remove(&commit.key);
        let object = match kind {
            Kind::Address => versions(
                commit,
                before.and_then(|o| match o {
                    Object::Address(v) => v.new,
                    _ => None,
                }),
            )
            .map(Object::Address),
            Kind::Claim => versions(
                commit,
                before.and_then(|o| match o {
                    Object::Claim(v) => v.new,
                    _ => None,
                }),
            )
            .map(Object::Claim),
            Kind::Class => versions(
                commit,
                before.and_then(|o| match o {
                    Object::Class(v) => v.new,
                    _ => None,
                }),
            )
            .map(Object::Class),
        };
        let object = object.unwrap_or_else(|| {
            let namespace = (!commit.key.1.is_empty()).then(|| commit.key.1.clone());
            let (name, exists) = (commit.key.2.clone(), commit.new.is_some());
            Object::Unreadable(Unreadable { kind, namespace, name, exists })
        });
        if commit.new.is_some() {
            self.typed.insert(commit.key.clone(), object.clone());
        }
        object
    }
}

/// Both versions of an object, if they can be read. The older one was read as the newer one of the
/// commit before.
fn versions<K: DeserializeOwned>(commit: &Commit, before: Option<Arc<K>>) -> Option<Versions<K>> {
    let read = |value: &Value| K::deserialize(value).ok().map(Arc::new);
    let new = match &commit.new {
        Some(value) => Some(read(value)?),
        None => None,
    };
    Some(Versions { old: commit.old.as_ref().and(before), new })
}

fn actor(by: &str) -> Actor {
    match by {
        TENANT => Actor::Tenant,
        ADMINISTRATOR => Actor::Administrator,
        DRIVER => Actor::Driver,
        replica => Actor::Controller(replica.to_owned()),
    }
}

fn facts(ask: &Ask) -> WriteFacts {
    let verb = match ask.verb {
        Verb::Create => WriteVerb::Create,
        Verb::Update => WriteVerb::Update,
        Verb::Delete => WriteVerb::Delete,
        Verb::Patch | Verb::Get | Verb::List | Verb::Watch => WriteVerb::Patch,
    };
    let given = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let of = |field: &str| {
        given(&ask.body["metadata"][field]) || given(&ask.body["preconditions"][field])
    };
    WriteFacts {
        verb,
        precondition: Precondition { resource_version: of("resourceVersion"), uid: of("uid") },
        subresource: ask.status.then(|| "status".to_owned()),
    }
}
