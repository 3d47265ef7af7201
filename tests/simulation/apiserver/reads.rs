//! Reads: one object, lists by pages, and watches.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    ask::Ask,
    kinds::Resource,
    refusal::Refusal,
    store::{Commit, Key, Store},
    writes::Answer,
};

pub fn get(store: &Store, resource: &Resource, ask: &Ask) -> Answer {
    let key = (resource.plural, ask.namespace.clone(), ask.name.clone());
    let found = store.get(&key).cloned();
    found.map(|object| (200, object)).ok_or_else(|| Refusal::not_found(resource, &ask.name))
}

/// A list as of the newest revision; the later pages of one as of its first, but for objects that are
/// gone or newer since: as of now.
pub fn list(store: &Store, resource: &Resource, ask: &Ask) -> Answer {
    let selector = Selector::of(ask)?;
    let (revision, after) = match ask.parameter("continue") {
        None => (store.revision(), None),
        Some(token) => {
            let (revision, key) = read_token(token)?;
            if revision < store.compacted() {
                return Err(Refusal::expired("The provided continue parameter is too old"));
            }
            (revision, Some(key))
        }
    };
    let limit = ask.parameter("limit").and_then(|n| n.parse().ok()).filter(|n| *n > 0);
    let past = past_of(store, resource.plural, revision);
    let all: Vec<(Key, Value)> = past
        .into_iter()
        .filter(|(key, object)| ask.concerns(key) && selector.selects(object))
        .filter(|(key, _)| {
            after.as_ref().is_none_or(|after| (&key.1, &key.2) > (&after.0, &after.1))
        })
        .collect();
    let page = limit.unwrap_or(usize::MAX).min(all.len());
    let mut metadata = json!({ "resourceVersion": revision.to_string() });
    if page < all.len() {
        let (_, namespace, name) = &all[page - 1].0;
        metadata["continue"] = token(revision, namespace, name).into();
        if selector.is_none() {
            metadata["remainingItemCount"] = (all.len() - page).into();
        }
    }
    let items: Vec<Value> = all.into_iter().take(page).map(|(_, object)| object).collect();
    let body = json!({
        "apiVersion": resource.api_version(),
        "kind": format!("{}List", resource.kind),
        "metadata": metadata,
        "items": items,
    });
    Ok((200, body))
}

/// The objects of a resource as they were at a revision.
fn past_of(store: &Store, plural: &'static str, revision: u64) -> Vec<(Key, Value)> {
    let mut objects: std::collections::BTreeMap<Key, Value> =
        store.of(plural).map(|(key, object)| (key.clone(), object.clone())).collect();
    for commit in store.since(revision).iter().rev().filter(|c| c.key.0 == plural) {
        match &commit.old {
            Some(old) => objects.insert(commit.key.clone(), old.clone()),
            None => objects.remove(&commit.key),
        };
    }
    objects.into_iter().collect()
}

fn token(revision: u64, namespace: &str, name: &str) -> String {
    STANDARD.encode(json!({ "rv": revision, "ns": namespace, "name": name }).to_string())
}

fn read_token(token: &str) -> Result<(u64, (String, String)), Refusal> {
    let value = STANDARD.decode(token).ok();
    let value: Option<Value> = value.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let read = value.and_then(|v| {
        let text = |field: &str| v[field].as_str().map(str::to_owned);
        Some((v["rv"].as_u64()?, (text("ns")?, text("name")?)))
    });
    read.ok_or_else(|| Refusal::bad_request("continue key is not valid"))
}

impl Ask {
    fn concerns(&self, key: &Key) -> bool {
        self.namespace.is_empty() || self.namespace == key.1
    }
}

/// A label selector: `key=value` and `key`, joined by commas.
#[derive(Clone, Debug, Default)]
struct Selector(Vec<(String, Option<String>)>);

impl Selector {
    fn of(ask: &Ask) -> Result<Self, Refusal> {
        if ask.parameter("fieldSelector").is_some() {
            return Err(Refusal::bad_request("this server knows no field selectors"));
        }
        let terms = ask.parameter("labelSelector").unwrap_or_default().split(',');
        let terms = terms.filter(|term| !term.is_empty()).map(|term| match term.split_once('=') {
            Some((key, value)) => (key.to_owned(), Some(value.trim_start_matches('=').to_owned())),
            None => (term.to_owned(), None),
        });
        Ok(Self(terms.collect()))
    }

    fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    fn selects(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.0.iter().all(|(key, wanted)| match wanted {
            Some(wanted) => labels[key] == *wanted,
            None => !labels[key].is_null(),
        })
    }
}

/// A watch: what it tells of, and up to where it has told.
#[derive(Clone, Debug)]
pub struct Follow {
    plural: &'static str,
    header: Value,
    namespace: String,
    selector: Selector,
    /// Told of up to here.
    pub told: u64,
    /// Told of first, where the watch asked for no certain version.
    pub first: Vec<Value>,
    /// Whether it may be told of revisions in which nothing of its own changed.
    pub bookmarks: bool,
    /// After which the server ends it.
    pub seconds: u64,
    /// It began before what is known of the past.
    pub expired: bool,
}

impl Follow {
    pub(super) fn new(store: &Store, resource: &Resource, ask: &Ask) -> Result<Self, Refusal> {
        let selector = Selector::of(ask)?;
        let from = ask.parameter("resourceVersion").unwrap_or("0");
        let from: u64 = from
            .parse()
            .map_err(|_| Refusal::bad_request(format!("invalid resource version {from:?}")))?;
        let mut first = Vec::new();
        if from == 0 {
            let there = store.of(resource.plural);
            let there = there.filter(|(key, object)| ask.concerns(key) && selector.selects(object));
            first.extend(there.map(|(_, object)| event("ADDED", object.clone())));
        }
        Ok(Self {
            plural: resource.plural,
            header: json!({ "apiVersion": resource.api_version(), "kind": resource.kind }),
            namespace: ask.namespace.clone(),
            selector,
            told: if from == 0 { store.revision() } else { from },
            first,
            bookmarks: ask.parameter("allowWatchBookmarks").is_some_and(|v| v == "true"),
            seconds: ask.parameter("timeoutSeconds").and_then(|s| s.parse().ok()).unwrap_or(1800),
            expired: from != 0 && from < store.compacted(),
        })
    }

    /// When the next change was made that it tells of; `told` is past all that it does not.
    pub fn peek(&mut self, store: &Store) -> Option<Duration> {
        for commit in store.since(self.told) {
            if self.concerns(commit) && self.tells_of(commit) {
                return Some(commit.at);
            }
            self.told = commit.revision;
        }
        None
    }

    /// The next change that it tells of, as an event.
    pub fn next(&mut self, store: &Store) -> Option<Value> {
        self.peek(store)?;
        let commit = store.since(self.told).first()?;
        self.told = commit.revision;
        self.event(commit)
    }

    fn concerns(&self, commit: &Commit) -> bool {
        commit.key.0 == self.plural && (self.namespace.is_empty() || self.namespace == commit.key.1)
    }

    fn tells_of(&self, commit: &Commit) -> bool {
        [&commit.old, &commit.new].into_iter().flatten().any(|object| self.selector.selects(object))
    }

    /// What a change is to whoever sees only what the selector selects.
    fn event(&self, commit: &Commit) -> Option<Value> {
        let seen =
            |object: &Option<Value>| object.clone().filter(|object| self.selector.selects(object));
        match (seen(&commit.old), seen(&commit.new)) {
            (None, None) => None,
            (None, Some(new)) => Some(event("ADDED", new)),
            (Some(_), Some(new)) => Some(event("MODIFIED", new)),
            (Some(mut old), None) => {
                old["metadata"]["resourceVersion"] = commit.revision.to_string().into();
                Some(event("DELETED", old))
            }
        }
    }

    pub fn plural(&self) -> &'static str {
        self.plural
    }

    /// A bookmark at what has been told.
    pub fn bookmark(&self) -> Value {
        let mut object = self.header.clone();
        object["metadata"] =
            json!({ "resourceVersion": self.told.to_string(), "creationTimestamp": null });
        event("BOOKMARK", object)
    }

    /// The last word of a watch from before what is known.
    pub fn too_old() -> Value {
        let mut status = Refusal::expired("too old resource version").status;
        status["code"] = 410.into();
        event("ERROR", status)
    }
}

fn event(kind: &str, object: Value) -> Value {
    let mut event = json!({ "type": kind });
    event["object"] = object;
    event
}
