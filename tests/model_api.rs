//! The model API server of the simulation beside a real one: random requests go to both, and what they
//! answer is compared, with what their watches tell. A difference is a bug of the model.
//!
//! `SEQUENCES=10000 cargo test --test apiserver_model -- --nocapture` compares as many.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test: what is not there fails it")]

#[expect(dead_code, reason = "a simulation asks more of it")]
#[path = "simulation/apiserver/mod.rs"]
mod apiserver;

use std::collections::BTreeMap;

use address_controller::api::well_known::{CLAIM_FINALIZER, GROUP};
use futures::{StreamExt, TryStreamExt, stream};
use http::{Method, Request};
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use testbed::Sandbox;

use self::apiserver::{ApiServer, Reply, refusal::Refusal};

/// How many sequences are compared at a time.
const AT_ONCE: usize = 8;

/// Of so many sequences one is also watched, which takes seconds.
const WATCHED: u64 = 10;

/// How many requests a sequence has.
const LENGTH: usize = 14;

/// One request, with what stands for the uid and the versions of its object.
#[derive(Clone, Debug)]
struct Step {
    method: Method,
    kind: Kind,
    status: bool,
    body: Value,
    /// The version that it is conditional on: so many before the newest.
    on: Option<usize>,
    /// Whether it names the object's uid: the right one, or a wrong one.
    uid: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Address,
    Claim,
    Class,
    Lease,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Address, Self::Claim, Self::Class, Self::Lease];

    fn collection(self, namespace: &str) -> String {
        match self {
            Self::Address => format!("/apis/{GROUP}/v1alpha1/ipaddresses"),
            Self::Claim => format!("/apis/{GROUP}/v1alpha1/namespaces/{namespace}/ipaddressclaims"),
            Self::Class => format!("/apis/{GROUP}/v1alpha1/ipaddressclasses"),
            Self::Lease => format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"),
        }
    }

    fn head(self) -> Value {
        let (version, kind) = match self {
            Self::Address => (format!("{GROUP}/v1alpha1"), "IPAddress"),
            Self::Claim => (format!("{GROUP}/v1alpha1"), "IPAddressClaim"),
            Self::Class => (format!("{GROUP}/v1alpha1"), "IPAddressClass"),
            Self::Lease => ("coordination.k8s.io/v1".to_owned(), "Lease"),
        };
        json!({ "apiVersion": version, "kind": kind })
    }
}

fn any<T: Clone>(random: &mut fastrand::Rng, of: &[T]) -> T {
    of[random.usize(..of.len())].clone()
}

/// A spec, now and then one that is not allowed.
fn spec(kind: Kind, random: &mut fastrand::Rng) -> Value {
    match kind {
        Kind::Address => {
            let mut spec = json!({
                "className": any(random, &["public", "public", ""]),
                "address": any(random, &["192.0.2.1", "192.0.2.1", "2001:db8::1"]),
                "source": any(random, &[
                    json!({ "fromClass": {} }), json!({ "fromClass": {} }),
                    json!({ "providerRef": { "id": "x" } }),
                    json!({ "fromClass": {}, "providerRef": { "id": "x" } }), json!({}),
                ]),
            });
            if random.bool() {
                spec["claimRef"] = any(
                    random,
                    &[
                        json!({ "namespace": "t1", "name": "web" }),
                        json!({ "namespace": "t1", "name": "web", "uid": "" }),
                        json!({ "namespace": "t1" }),
                        json!(null),
                    ],
                );
            }
            if random.bool() {
                spec["reclaimPolicy"] = any(random, &["Retain", "Delete", "Recycle"]).into();
            }
            spec
        }
        Kind::Claim => any(
            random,
            &[
                json!({}),
                json!({ "family": "Dual", "className": "public" }),
                json!({ "family": "IPv4", "addressName": "a1", "unknown": 1 }),
                json!({ "family": "ipv4" }),
                json!({ "className": 7 }),
                json!({ "className": null }),
            ],
        ),
        Kind::Class => any(
            random,
            &[
                json!({ "provisioner": "x", "parameters": { "any": ["thing"] } }),
                json!({ "provisioner": "x", "reclaimPolicy": "Delete" }),
                json!({ "provisioner": "y" }),
                json!({ "provisioner": "" }),
            ],
        ),
        Kind::Lease => any(
            random,
            &[
                json!({ "holderIdentity": "a", "leaseDurationSeconds": 5 }),
                json!({ "holderIdentity": "", "leaseTransitions": 3 }),
                json!({}),
            ],
        ),
    }
}

fn metadata(random: &mut fastrand::Rng) -> Value {
    any(
        random,
        &[
            json!({}),
            json!({ "finalizers": [CLAIM_FINALIZER] }),
            json!({ "finalizers": [CLAIM_FINALIZER, "example.org/other"] }),
            json!({ "finalizers": [] }),
            json!({ "finalizers": null }),
            json!({ "annotations": { "note": "a" } }),
            json!({ "annotations": { "note": null } }),
            json!({ "labels": { "role": "x" } }),
        ],
    )
}

fn status(kind: Kind, random: &mut fastrand::Rng) -> Value {
    match kind {
        Kind::Address => any(
            random,
            &[
                json!({ "phase": "Available" }),
                json!({ "phase": "Bound" }),
                json!({ "phase": null }),
                json!({ "phase": "Lent" }),
            ],
        ),
        _ => any(
            random,
            &[
                json!({ "phase": "Bound", "addresses": [{ "name": "a", "address": "192.0.2.1" }] }),
                json!({ "phase": "Pending", "addresses": [] }),
                json!({ "addresses": [{ "name": "a" }] }),
                json!({ "addresses": [
                { "name": "a", "address": "192.0.2.1" }, { "name": "a", "address": "192.0.2.2" },
            ] }),
            ],
        ),
    }
}

fn step(random: &mut fastrand::Rng) -> Step {
    let kind = any(random, &Kind::ALL);
    let mut on = (random.u8(0..3) == 0).then(|| random.usize(0..3));
    let uid = (random.u8(0..5) == 0).then(|| random.u8(0..4) > 0);
    let whole = |random: &mut fastrand::Rng| {
        let mut object = kind.head();
        object["metadata"] = metadata(random);
        object["spec"] = spec(kind, random);
        if random.u8(0..4) == 0 && kind != Kind::Lease {
            object["status"] = status(kind, random);
        }
        object
    };
    let sub = matches!(kind, Kind::Address | Kind::Claim);
    let (method, is_status, body) = match random.u8(0..12) {
        0..4 => (Method::POST, false, whole(random)),
        4..6 => (Method::PATCH, false, json!({ "metadata": metadata(random) })),
        6 => (Method::PATCH, false, json!({ "spec": spec(kind, random) })),
        7..9 if sub => (Method::PATCH, true, json!({ "status": status(kind, random) })),
        9 => {
            on = on.or(Some(0));
            (Method::PUT, false, whole(random))
        }
        10 => (Method::GET, false, Value::Null),
        _ => (Method::DELETE, false, json!({})),
    };
    if method == Method::POST {
        on = None;
    }
    let uid = uid.filter(|_| method != Method::POST);
    Step { method, kind, status: is_status, body, on, uid }
}

/// One server's side of a sequence: what it has called the objects' versions and uids.
#[derive(Default)]
struct Names {
    versions: BTreeMap<(Kind, usize), Vec<String>>,
    uids: BTreeMap<Kind, Vec<String>>,
}

impl Names {
    /// The request as this server is asked.
    fn request(&self, step: &Step, namespace: &str, name: &str) -> Request<Vec<u8>> {
        let mut path = step.kind.collection(namespace);
        let mut body = step.body.clone();
        let uid = self.uids.get(&step.kind).and_then(|all| all.last());
        let place = self.uids.get(&step.kind).map_or(0, Vec::len);
        let version = step.on.map(|back| {
            let all = self.versions.get(&(step.kind, place)).map(Vec::as_slice).unwrap_or_default();
            let at = all.len().checked_sub(back + 1);
            at.map_or_else(|| "1".to_owned(), |at| all[at].clone())
        });
        let uid = step.uid.map(|right| {
            uid.filter(|_| right).cloned().unwrap_or_else(|| "not-this-one".to_owned())
        });
        let fields = if step.method == Method::DELETE { "preconditions" } else { "metadata" };
        if step.method != Method::GET {
            for (field, value) in [("resourceVersion", version), ("uid", uid)] {
                if let Some(value) = value {
                    body[fields][field] = value.into();
                }
            }
        }
        if step.method == Method::POST || step.method == Method::PUT {
            body["metadata"]["name"] = name.into();
        }
        if step.method != Method::POST {
            path = format!("{path}/{name}{}", if step.status { "/status" } else { "" });
        }
        let media = match step.method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        Request::builder()
            .method(step.method.clone())
            .uri(path)
            .header("content-type", media)
            .body(bytes)
            .unwrap()
    }

    /// An answer, with what is this server's own replaced by what it stands for.
    fn plain(&mut self, kind: Kind, mut answer: Value) -> Value {
        if answer["kind"] == "Status" {
            return plain_status(&answer);
        }
        let uid = answer["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let all = self.uids.entry(kind).or_default();
        let place = all.iter().position(|known| *known == uid).unwrap_or_else(|| {
            all.push(uid);
            all.len() - 1
        });
        let versions = self.versions.entry((kind, place + 1)).or_default();
        let version = answer["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let number = versions.iter().position(|known| *known == version).unwrap_or_else(|| {
            versions.push(version);
            versions.len() - 1
        });
        let metadata = answer["metadata"].as_object_mut().unwrap();
        metadata.remove("managedFields");
        for field in ["creationTimestamp", "deletionTimestamp"] {
            if metadata.contains_key(field) {
                metadata.insert(field.to_owned(), "some time".into());
            }
        }
        metadata.insert("uid".to_owned(), place.into());
        metadata.insert("resourceVersion".to_owned(), number.into());
        answer
    }
}

/// Of a `Status` what a client goes by; words are the server's own.
fn plain_status(status: &Value) -> Value {
    let mut fields: Vec<_> = status["details"]["causes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|cause| json!([cause["field"], cause["reason"]]))
        .map(|cause| cause.to_string())
        .collect();
    fields.sort();
    fields.dedup();
    let details = &status["details"];
    json!({
        "status": status["status"], "reason": status["reason"], "code": status["code"],
        "name": details["name"], "kind": details["kind"], "group": details["group"],
        "causes": fields,
    })
}

async fn ask_real(client: &Client, request: Request<Vec<u8>>) -> Value {
    let (parts, body) = request.into_parts();
    let request = Request::from_parts(parts, body.into());
    let answer = client.send(request).await.unwrap();
    let bytes = answer.into_body().collect_bytes().await.unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn ask_model(model: &ApiServer, request: Request<Vec<u8>>) -> Value {
    let (parts, body) = request.into_parts();
    let answer = match model.understand(&parts, &body) {
        Ok(ask) => match model.handle(&ask, "a test") {
            Reply::Answer(answer) => answer,
            Reply::Follow(_) => panic!("no watch was asked for"),
        },
        Err(refusal) => Err(refusal),
    };
    match answer {
        Ok((_, body)) => body,
        Err(Refusal { status, .. }) => status,
    }
}

/// All that a watch tells of an object within a second.
async fn watch_real(client: &Client, path: &str, name: &str) -> Vec<Value> {
    let path = format!("{path}&fieldSelector=metadata.name%3D{name}&timeoutSeconds=1");
    let request = Request::get(path).body(Vec::new().into()).unwrap();
    let answer = client.send(request).await.unwrap();
    let bytes = answer.into_body().collect_bytes().await.unwrap();
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

fn watch_model(model: &ApiServer, path: &str) -> Vec<Value> {
    let (parts, ()) = Request::get(path).body(()).unwrap().into_parts();
    let ask = model.understand(&parts, &[]).unwrap();
    let Reply::Follow(mut follow) = model.handle(&ask, "a test") else {
        panic!("a watch was asked for")
    };
    let store = model.store();
    std::iter::from_fn(|| follow.next(&store)).collect()
}

/// One sequence; what differed, in words.
async fn compare(client: &Client, namespace: &str, seed: u64) -> Result<usize, String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let model = ApiServer::new(seed, Timestamp::UNIX_EPOCH);
    let body = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
    });
    let create = Request::post("/api/v1/namespaces").body(body.to_string().into_bytes()).unwrap();
    ask_model(&model, create);
    let before = Request::get(Kind::Lease.collection(namespace)).body(Vec::new()).unwrap();
    let before = ask_real(client, before).await;
    let since = before["metadata"]["resourceVersion"].as_str().map(str::to_owned);
    let (mut real_names, mut model_names) = (Names::default(), Names::default());
    let name = format!("m{seed}");
    let mut asked = Vec::new();
    for _ in 0..LENGTH {
        let step = step(&mut random);
        let real = ask_real(client, real_names.request(&step, namespace, &name)).await;
        let ours = ask_model(&model, model_names.request(&step, namespace, &name));
        let (real, ours) =
            (real_names.plain(step.kind, real.clone()), model_names.plain(step.kind, ours));
        asked.push(format!(
            "{} {:?} status={} on={:?} uid={:?} {}",
            step.method, step.kind, step.status, step.on, step.uid, step.body
        ));
        if real != ours {
            let asked = asked.join("\n    ");
            return Err(format!("seed {seed}:\n    {asked}\n  real:  {real}\n  model: {ours}"));
        }
    }
    if seed.is_multiple_of(WATCHED) {
        let since = since.ok_or("no version to watch from")?;
        for kind in Kind::ALL {
            let path = format!("{}?watch=true&resourceVersion=", kind.collection(namespace));
            let real = watch_real(client, &format!("{path}{since}"), &name).await;
            let ours = watch_model(&model, &format!("{path}1"));
            let plain = |names: &mut Names, events: Vec<Value>| -> Vec<Value> {
                let all = events.into_iter();
                all.map(|e| json!([e["type"], names.plain(kind, e["object"].clone())])).collect()
            };
            let (real, ours) = (plain(&mut real_names, real), plain(&mut model_names, ours));
            if real != ours {
                let asked = asked.join("\n    ");
                let (real, ours) = (json!(real), json!(ours));
                return Err(format!(
                    "seed {seed}, watch of {kind:?}:\n    {asked}\n  real:  {real}\n  model: {ours}"
                ));
            }
        }
    }
    // Of all that it made nothing may be left to the next.
    for kind in Kind::ALL {
        let path = format!("{}/{name}", kind.collection(namespace));
        let freed = Request::patch(&path)
            .header("content-type", "application/merge-patch+json")
            .body(json!({ "metadata": { "finalizers": null } }).to_string().into_bytes());
        ask_real(client, freed.unwrap()).await;
        ask_real(client, Request::delete(&path).body(Vec::new()).unwrap()).await;
    }
    Ok(LENGTH)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_answers_as_a_real_one_does() {
    let count = std::env::var("SEQUENCES").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let sandbox = Sandbox::alone("model").await.unwrap();
    let (client, namespace) = (sandbox.client(), sandbox.namespace().to_owned());
    let compared = stream::iter(0..count)
        .map(|seed| compare(&client, &namespace, seed))
        .buffer_unordered(AT_ONCE)
        .map_err(|difference| println!("{difference}"))
        .collect::<Vec<_>>()
        .await;
    let differ = compared.iter().filter(|one| one.is_err()).count();
    let requests: usize = compared.iter().flatten().sum();
    println!("{count} sequences, {requests} requests: {differ} sequences differ");
    assert_eq!(differ, 0, "see above");
}
