//! What is stored: objects in their newest version, and every change in one order.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

/// An object's place: its resource's plural, its namespace (empty where there is none), its name.
pub type Key = (&'static str, String, String);

/// One change.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Its revision.
    pub revision: u64,
    /// When it was made, in the time of the simulation's runtime.
    pub at: std::time::Duration,
    /// Of what.
    pub key: Key,
    /// As it was before; nothing when it was created.
    pub old: Option<Value>,
    /// As it is now; nothing when it is gone.
    pub new: Option<Value>,
    /// By whom: the user agent of the request.
    pub by: String,
}

/// The store.
#[derive(Debug)]
pub struct Store {
    revision: u64,
    objects: BTreeMap<Key, Value>,
    commits: Vec<Commit>,
    /// Up to this revision nothing is known of the past.
    compacted: u64,
    random: fastrand::Rng,
}

impl Store {
    pub fn new(seed: u64) -> Self {
        Self {
            revision: 1,
            objects: BTreeMap::new(),
            commits: Vec::new(),
            compacted: 0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Forgets the past: a watch from before now meets 410.
    pub fn compact(&mut self) {
        self.compacted = self.revision;
    }

    pub fn get(&self, key: &Key) -> Option<&Value> {
        self.objects.get(key)
    }

    /// The objects of a resource in the order of their keys.
    pub fn of<'a>(&'a self, plural: &'static str) -> impl Iterator<Item = (&'a Key, &'a Value)> {
        let from: Key = (plural, String::new(), String::new());
        self.objects.range(from..).take_while(move |(key, _)| key.0 == plural)
    }

    /// Every change after a revision, oldest first.
    pub fn since(&self, revision: u64) -> &[Commit] {
        let from = self.commits.partition_point(|commit| commit.revision <= revision);
        &self.commits[from..]
    }

    /// Stores an object, or takes it off; the object gets the new revision.
    pub fn commit(
        &mut self,
        key: Key,
        new: Option<Value>,
        at: std::time::Duration,
        by: &str,
    ) -> u64 {
        self.revision += 1;
        let revision = self.revision;
        let new = new.map(|mut object| {
            object["metadata"]["resourceVersion"] = revision.to_string().into();
            object
        });
        let old = match &new {
            Some(object) => self.objects.insert(key.clone(), object.clone()),
            None => self.objects.remove(&key),
        };
        self.commits.push(Commit { revision, at, key, old, new, by: by.to_owned() });
        revision
    }

    /// A uid that no object has had.
    pub fn uid(&mut self) -> String {
        let mut n = self.random.u128(..);
        n = (n & !(0xf << 76)) | (0x4 << 76);
        n = (n & !(0x3 << 62)) | (0x2 << 62);
        let hex = format!("{n:032x}");
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        parts.join("-")
    }
}

/// A time as objects have it: whole seconds.
pub fn written(time: Timestamp) -> Value {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}
