//! A scripted API server for one kind: each list and each watch gets the next answer in its row.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures::{StreamExt, stream};
use http::{Request, Response};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::{BoxError, service_fn};

/// What a request gets.
pub enum Answer {
    /// A body at once.
    Whole(u16, Value),
    /// Events in small pieces, and what comes after them.
    Events(Vec<Value>, End),
    /// No connection.
    Unreachable,
}

/// How a watch ends.
#[derive(Clone, Copy)]
pub enum End {
    /// The API server closes it.
    Closed,
    /// The connection breaks.
    Cut,
    /// In the middle of a line, the connection breaks.
    CutInALine,
    /// It stays open and passes nothing more.
    Silent,
}

/// A request that was made.
pub struct Asked {
    pub watch: bool,
    pub query: HashMap<String, String>,
    pub at: Instant,
}

#[derive(Default)]
struct Script {
    lists: VecDeque<Answer>,
    watches: VecDeque<Answer>,
    asked: Vec<Asked>,
}

/// The server. Lists that the script does not foresee fail; watches stay silent.
#[derive(Clone, Default)]
pub struct Fake {
    script: Arc<Mutex<Script>>,
}

impl Fake {
    pub fn list(self, answer: Answer) -> Self {
        self.script.lock().lists.push_back(answer);
        self
    }

    pub fn watch(self, answer: Answer) -> Self {
        self.script.lock().watches.push_back(answer);
        self
    }

    pub fn client(&self) -> Client {
        let fake = self.clone();
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let answer = fake.next(&request);
            async move { respond(answer) }
        });
        Client::new(service, "default")
    }

    /// When lists (or watches) were asked for.
    pub fn times(&self, watch: bool) -> Vec<Instant> {
        self.script.lock().asked.iter().filter(|a| a.watch == watch).map(|a| a.at).collect()
    }

    /// A parameter of all lists (or watches); empty where there was none.
    pub fn parameter(&self, watch: bool, name: &str) -> Vec<String> {
        let script = self.script.lock();
        let asked = script.asked.iter().filter(|a| a.watch == watch);
        asked.map(|a| a.query.get(name).cloned().unwrap_or_default()).collect()
    }

    fn next(&self, request: &Request<kube::client::Body>) -> Answer {
        let query: HashMap<String, String> = request
            .uri()
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let watch = query.contains_key("watch");
        let mut script = self.script.lock();
        script.asked.push(Asked { watch, query, at: Instant::now() });
        if watch {
            script.watches.pop_front().unwrap_or(Answer::Events(vec![], End::Silent))
        } else {
            script.lists.pop_front().unwrap_or_else(|| status(500, "InternalError"))
        }
    }
}

fn respond(answer: Answer) -> Result<Response<Body>, BoxError> {
    let (code, body) = match answer {
        Answer::Unreachable => return Err("nobody listens".into()),
        Answer::Whole(code, value) => (code, Body::from(value.to_string())),
        Answer::Events(events, end) => (200, events_body(&events, end)),
    };
    Ok(Response::builder().status(code).body(body)?)
}

/// The events' lines in pieces of seven bytes, as a network may cut them.
fn events_body(events: &[Value], end: End) -> Body {
    let mut text =
        events.iter().fold(String::new(), |text, event| text + &event.to_string() + "\n");
    if matches!(end, End::CutInALine) {
        text.push_str(r#"{"type":"ADDED","object":{"metadata":{"na"#);
    }
    let pieces: Vec<_> = text.as_bytes().chunks(7).map(Bytes::copy_from_slice).map(Ok).collect();
    let cut = || Err(std::io::Error::new(std::io::ErrorKind::ConnectionReset, "reset by peer"));
    let pieces = stream::iter(pieces);
    match end {
        End::Closed => Body::from_stream(pieces),
        End::Cut | End::CutInALine => Body::from_stream(pieces.chain(stream::iter([cut()]))),
        End::Silent => Body::from_stream(pieces.chain(stream::pending())),
    }
}

/// An answer that says no.
pub fn status(code: u16, reason: &str) -> Answer {
    Answer::Whole(code, failure(code, reason))
}

/// A page of a list.
pub fn page(items: &[Value], version: u32, more: &str) -> Answer {
    let metadata = json!({"resourceVersion": version.to_string(), "continue": more});
    let list = json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressList",
        "metadata": metadata, "items": items,
    });
    Answer::Whole(200, list)
}

/// An address object.
pub fn address(name: &str, version: u32) -> Value {
    json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress",
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "managedFields": [{"manager": "kubectl", "operation": "Update"}],
        },
        "spec": {"className": "public", "address": "192.0.2.1", "source": {"fromClass": {}}},
    })
}

/// An address object of another version, which does not parse.
pub fn strange(name: &str, version: u32) -> Value {
    let mut address = address(name, version);
    address["status"] = json!({"phase": "Quarantined"});
    address["spec"]["claimRef"] = json!({"namespace": "t1", "name": "web"});
    address
}

/// A line of a watch.
pub fn event(kind: &str, object: &Value) -> Value {
    json!({"type": kind, "object": object})
}

/// A line of a watch that says that it cannot go on.
pub fn error(code: u16, reason: &str) -> Value {
    event("ERROR", &failure(code, reason))
}

/// A line of a watch that only says how far it is.
pub fn bookmark(version: u32) -> Value {
    let metadata = json!({"resourceVersion": version.to_string()});
    event(
        "BOOKMARK",
        &json!({
            "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress",
            "metadata": metadata,
        }),
    )
}

fn failure(code: u16, reason: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("the server said {reason}"), "reason": reason, "code": code,
    })
}
