//! From what is stored to typed objects.

use std::{collections::HashMap, sync::Arc};

use address_controller::{
    api::{IPAddress, IPAddressClaim, IPAddressClass},
    binder::invariants::{Change, Kind, Object, Unreadable, Versions},
};
use kube::Resource;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    audit,
    etcd::Commit,
    join::{Manner, Wanted},
};

/// Reads one commit after the other. Each object's last version is the old one of its next commit.
#[derive(Default)]
pub(super) struct Reader {
    last: HashMap<(Kind, Option<String>, String), Stored>,
}

#[derive(Clone)]
struct Stored {
    read: Read,
    uid: String,
    revision: u64,
    deleting: bool,
}

#[derive(Clone)]
enum Read {
    Class(Arc<IPAddressClass>),
    Address(Arc<IPAddress>),
    Claim(Arc<IPAddressClaim>),
    /// It does not parse.
    Strange,
}

impl Reader {
    /// The change that a commit is, and how to find its author. Absent: a kind that is not ours.
    pub(super) fn take(&mut self, commit: &Commit) -> Option<(Change, Wanted)> {
        let kind = audit::kind(&commit.resource)?;
        let key = (kind, commit.namespace.clone(), commit.name.clone());
        let new = commit.value.as_deref().map(|bytes| stored(kind, bytes, commit.revision));
        let old = match &new {
            Some(new) => self.last.insert(key, new.clone()),
            None => self.last.remove(&key),
        };
        let was_deleting = old.as_ref().is_some_and(|o| o.deleting);
        let manner = match &new {
            Some(new) if new.deleting && !was_deleting && old.is_some() => Manner::Marked,
            Some(_) => Manner::Stored,
            None if was_deleting => Manner::Ended,
            None => Manner::Removed,
        };
        let uid = new.as_ref().or(old.as_ref()).map(|s| s.uid.clone()).unwrap_or_default();
        let wanted = Wanted {
            revision: commit.revision,
            kind,
            namespace: commit.namespace.clone(),
            name: commit.name.clone(),
            uid,
            before: old.as_ref().map(|o| o.revision),
            manner,
        };
        let object = object(commit, kind, old.map(|s| s.read), new.map(|s| s.read));
        let change = Change { revision: commit.revision, object, actor: None, write: None };
        Some((change, wanted))
    }
}

fn object(commit: &Commit, kind: Kind, old: Option<Read>, new: Option<Read>) -> Object {
    let exists = new.is_some();
    let read = match kind {
        Kind::Class => versions(old, new, |read| match read {
            Read::Class(class) => Some(class),
            Read::Address(_) | Read::Claim(_) | Read::Strange => None,
        })
        .map(Object::Class),
        Kind::Address => versions(old, new, |read| match read {
            Read::Address(address) => Some(address),
            Read::Class(_) | Read::Claim(_) | Read::Strange => None,
        })
        .map(Object::Address),
        Kind::Claim => versions(old, new, |read| match read {
            Read::Claim(claim) => Some(claim),
            Read::Class(_) | Read::Address(_) | Read::Strange => None,
        })
        .map(Object::Claim),
    };
    read.unwrap_or_else(|| {
        let (namespace, name) = (commit.namespace.clone(), commit.name.clone());
        Object::Unreadable(Unreadable { kind, namespace, name, exists })
    })
}

/// The typed versions, if what is there now can be read, or what was there last. An old version that
/// cannot be read counts as none.
fn versions<K>(
    old: Option<Read>,
    new: Option<Read>,
    pick: fn(Read) -> Option<Arc<K>>,
) -> Option<Versions<K>> {
    let exists = new.is_some();
    let versions = Versions { old: old.and_then(pick), new: new.and_then(pick) };
    let last = if exists { &versions.new } else { &versions.old };
    last.is_some().then_some(versions)
}

fn stored(kind: Kind, bytes: &[u8], revision: u64) -> Stored {
    let partial: Partial = serde_json::from_slice(bytes).unwrap_or_default();
    let read = match kind {
        Kind::Class => typed(bytes, revision).map(Read::Class),
        Kind::Address => typed(bytes, revision).map(Read::Address),
        Kind::Claim => typed(bytes, revision).map(Read::Claim),
    };
    Stored {
        read: read.unwrap_or(Read::Strange),
        uid: partial.metadata.uid,
        revision,
        deleting: partial.metadata.deletion_timestamp.is_some(),
    }
}

/// The object, with the resourceVersion that it has outside etcd, and without managed fields.
fn typed<K: DeserializeOwned + Resource>(bytes: &[u8], revision: u64) -> Option<Arc<K>> {
    let mut object: K = serde_json::from_slice(bytes).ok()?;
    object.meta_mut().resource_version = Some(revision.to_string());
    object.meta_mut().managed_fields = None;
    Some(Arc::new(object))
}

/// What is known even of an object that does not parse.
#[derive(Default, Deserialize)]
struct Partial {
    metadata: PartialMeta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PartialMeta {
    uid: String,
    deletion_timestamp: Option<Value>,
}
