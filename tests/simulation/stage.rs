//! What everybody acts on: the API server and the oracle that sees each commit.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    apiserver::{ApiServer, Reply, ask::Ask, ask::Verb},
    link::{Link, Sent},
    oracle::{ADMINISTRATOR, Oracle},
    people::NAMESPACES,
    replica::NAMESPACE,
};

/// The stage.
pub struct Stage {
    pub api: ApiServer,
    pub oracle: Arc<Mutex<Oracle>>,
}

impl Stage {
    pub fn new(seed: u64, trace: bool) -> Self {
        // Any moment would do; a certain one makes runs alike.
        let epoch = Timestamp::from_second(1_767_225_600).expect("a moment");
        let api = ApiServer::new(seed, epoch);
        let stage = Self { api, oracle: Arc::new(Mutex::new(Oracle::new(trace))) };
        for namespace in NAMESPACES.iter().chain(&[NAMESPACE]) {
            let body = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
            });
            stage.ask(ADMINISTRATOR, Verb::Create, "namespaces", "", "", body);
        }
        stage
    }

    /// A replica's way to it.
    pub fn link(&self, name: &str, seed: u64) -> Link {
        let (oracle, api) = (Arc::clone(&self.oracle), self.api.clone());
        let told = move |sent: &Sent| {
            let (at, mut oracle) = (api.elapsed(), oracle.lock());
            let plural = api.served()[sent.ask.resource].plural;
            oracle.quiet.asked(&sent.by, &sent.ask, plural, at);
            oracle.told(sent, &api.store(), at);
        };
        let by = format!("address-controller/{name}");
        Link::new(self.api.clone(), &by, seed, Arc::new(told))
    }

    /// Asks without delay or fault; what is refused is refused.
    pub fn ask(
        &self,
        by: &'static str,
        verb: Verb,
        plural: &str,
        namespace: &str,
        name: &str,
        body: Value,
    ) {
        self.send(by, self.of(verb, plural, namespace, name, body));
    }

    /// The same of the status sub-resource.
    pub fn ask_status(&self, by: &'static str, plural: &str, name: &str, body: Value) {
        let ask = self.of(Verb::Patch, plural, "", name, body);
        self.send(by, Ask { status: true, ..ask });
    }

    /// Puts an object in its place as it is, status and uid included.
    pub fn put(&self, plural: &'static str, object: Value) {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let ask = self.of(Verb::Create, plural, &namespace, &name, object.clone());
        let at = self.api.elapsed();
        self.api.store().commit((plural, namespace, name), Some(object), at, ADMINISTRATOR);
        let sent = Sent { by: ADMINISTRATOR.to_owned(), ask, code: Some(201) };
        self.oracle.lock().told(&sent, &self.api.store(), at);
    }

    fn of(&self, verb: Verb, plural: &str, namespace: &str, name: &str, body: Value) -> Ask {
        let resource = self.api.served().iter().position(|r| r.plural == plural);
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let resource = resource.expect("a kind that is served");
        Ask { verb, resource, namespace, name, status: false, query: Vec::new(), body }
    }

    fn send(&self, by: &'static str, ask: Ask) {
        let Reply::Answer(answer) = self.api.handle(&ask, by) else { return };
        let code = Some(answer.map_or_else(|refusal| refusal.code, |(code, _)| code));
        let sent = Sent { by: by.to_owned(), ask, code };
        self.oracle.lock().told(&sent, &self.api.store(), self.api.elapsed());
    }

    pub fn get(&self, plural: &'static str, namespace: &str, name: &str) -> Option<Value> {
        self.api.store().get(&(plural, namespace.to_owned(), name.to_owned())).cloned()
    }

    pub fn all(&self, plural: &'static str) -> Vec<Value> {
        self.api.store().of(plural).map(|(_, object)| object.clone()).collect()
    }
}
