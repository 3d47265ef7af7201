//! An API server that knows Leases only, for tests: conditional writes, and a switch for each way to
//! fail.

use std::{collections::BTreeMap, sync::Arc};

use http::{Method, Request, Response};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::service_fn;

use super::{LeaseObject, Record};

/// How requests are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    /// As they should be.
    #[default]
    Well,
    /// 403 to every write.
    NoWrites,
    /// No answer, ever, and nothing done.
    Silent,
    /// Writes are done, and not answered.
    Deaf,
}

#[derive(Debug, Default)]
struct State {
    leases: BTreeMap<String, Value>,
    version: u64,
    mood: Mood,
    asked: Vec<String>,
}

/// The API server; clones are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeLeases(Arc<Mutex<State>>);

impl FakeLeases {
    pub(crate) fn client(&self) -> Client {
        let this = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let this = this.clone();
            async move { this.answer(request).await }
        });
        Client::new(service, "default")
    }

    pub(crate) fn set_mood(&self, mood: Mood) {
        self.0.lock().mood = mood;
    }

    /// What was asked since this was asked last, as `GET name` and the like.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().asked)
    }

    pub(crate) fn get(&self, name: &str) -> Option<Record> {
        let lease = self.0.lock().leases.get(name)?.clone();
        Some(Record::new(serde_json::from_value(lease).unwrap()))
    }

    pub(crate) fn holder(&self, name: &str) -> Option<String> {
        self.get(name)?.holder().map(str::to_owned)
    }

    /// Every Lease that there is, in the order of their names.
    pub(crate) fn all(&self) -> Vec<Record> {
        let names: Vec<_> = self.0.lock().leases.keys().cloned().collect();
        names.iter().filter_map(|name| self.get(name)).collect()
    }

    /// Somebody else writes, unconditionally.
    pub(crate) fn put(&self, name: &str, spec: &Value) {
        let uid = format!("uid-of-{name}");
        self.0.lock().store(json!({ "metadata": { "name": name, "uid": uid }, "spec": spec }));
    }

    pub(crate) fn delete(&self, name: &str) {
        self.0.lock().leases.remove(name);
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        let (head, body) = request.into_parts();
        let bytes = body.collect_bytes().await.unwrap_or_default();
        let name = head.uri.path().rsplit('/').next().unwrap_or_default().to_owned();
        let (code, answer, mood) = {
            let mut state = self.0.lock();
            let object = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            let name = if head.method == Method::POST { named(&object) } else { name };
            state.asked.push(format!("{} {name}", head.method));
            let (code, answer) = state.serve(&head.method, &name, object);
            (code, answer, state.mood)
        };
        if mood == Mood::Silent || mood == Mood::Deaf && head.method != Method::GET {
            std::future::pending::<()>().await;
        }
        let body = Body::from(serde_json::to_vec(&answer).unwrap());
        Ok(Response::builder().status(code).body(body).unwrap())
    }
}

fn named(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

impl State {
    fn serve(&mut self, method: &Method, name: &str, object: Value) -> (u16, Value) {
        let known = self.leases.get(name).cloned();
        let version = |o: &Value| o["metadata"]["resourceVersion"].clone();
        match (method.as_str(), known) {
            _ if self.mood == Mood::Silent => (200, Value::Null),
            ("GET", Some(known)) => (200, known),
            ("GET" | "PUT" | "DELETE", None) => status(404),
            _ if self.mood == Mood::NoWrites => status(403),
            ("POST", Some(_)) => status(409),
            ("POST", None) => (201, self.store(object)),
            ("PUT", Some(known)) if version(&known) != version(&object) => status(409),
            ("PUT", Some(_)) => (200, self.store(object)),
            ("DELETE", Some(known))
                if version(&known) != object["preconditions"]["resourceVersion"] =>
            {
                status(409)
            }
            ("DELETE", Some(known)) => {
                self.leases.remove(name);
                (200, known)
            }
            _ => status(405),
        }
    }

    fn store(&mut self, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{}", self.version));
        }
        self.leases.insert(named(&object), object.clone());
        object
    }
}

fn status(code: u16) -> (u16, Value) {
    let reason = if code == 409 { "Conflict" } else { "Other" };
    let message = format!("the answer is {code}");
    (
        code,
        json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message }),
    )
}

/// A Lease as somebody wrote it.
pub(crate) fn lease(name: &str, version: u64, spec: &Value) -> Record {
    let object: LeaseObject = serde_json::from_value(json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": name, "uid": format!("uid-of-{name}"), "resourceVersion": version.to_string() },
        "spec": spec,
    }))
    .unwrap();
    Record::new(object)
}
