//! What a bind costs, by the API server's own counters, and that it costs no more among many
//! addresses. Counts are asserted; times are printed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    ops::Sub,
    time::{Duration, Instant},
};

use address_controller::api::{
    AddressPhase, ClaimPhase, IPAddress, IPAddressClaim,
    well_known::{
        ADDRESS_FINALIZER, CLAIM_FINALIZER, GROUP, PROVISIONER_ANNOTATION,
        SELECTED_ADDRESSES_ANNOTATION,
    },
};
use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testbed::{
    ControlPlane, Controller, ControllerOptions, Options, Sandbox, eventually, make,
    sandbox::create,
};

use crate::support::BINARY;

/// How long a thousand of anything may take on a busy machine.
const LONG: Duration = Duration::from_mins(10);

/// How many objects are created at a time.
const AT_ONCE: usize = 32;

/// What the API server has been asked, by verb, resource and code: `PATCH ipaddresses/status 200`.
#[derive(Clone, Debug, PartialEq)]
struct Requests(BTreeMap<String, u64>);

impl Requests {
    /// The API server's own counters, of our group and of events.
    async fn now(client: &Client) -> Self {
        let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
        let text = client.request_text(request).await.unwrap();
        let mut counts = BTreeMap::new();
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("apiserver_request_total{") else { continue };
            let Some((labels, value)) = rest.rsplit_once("} ") else { continue };
            let label = |name: &str| {
                let from = labels.find(&format!("{name}=\""))? + name.len() + 2;
                labels[from..].split('"').next()
            };
            let (resource, group) = (label("resource").unwrap_or(""), label("group").unwrap_or(""));
            if group == GROUP || resource == "events" {
                let verb = label("verb").unwrap_or("");
                let sub = label("subresource").filter(|s| !s.is_empty());
                let sub = sub.map_or(String::new(), |s| format!("/{s}"));
                let code = label("code").unwrap_or("");
                let key = format!("{verb} {resource}{sub} {code}");
                *counts.entry(key).or_default() += value.parse::<u64>().unwrap();
            }
        }
        Self(counts)
    }

    /// How many of those that begin like this.
    fn of(&self, prefix: &str) -> u64 {
        self.0.iter().filter(|(key, _)| key.starts_with(prefix)).map(|(_, count)| count).sum()
    }

    /// What the controller asked for: nobody else patches, reads single objects, or deletes here.
    fn of_controller(&self) -> BTreeMap<&str, u64> {
        let asked = |key: &str| ["PATCH ", "GET ", "DELETE "].iter().any(|v| key.starts_with(v));
        self.0.iter().filter(|(k, n)| asked(k) && **n > 0).map(|(k, n)| (&**k, *n)).collect()
    }
}

impl Sub<&Requests> for &Requests {
    type Output = Requests;

    fn sub(self, earlier: &Requests) -> Requests {
        let since = |(key, count): (&String, &u64)| {
            (key.clone(), count - earlier.0.get(key).copied().unwrap_or_default())
        };
        Requests(self.0.iter().map(since).filter(|(_, count)| *count > 0).collect())
    }
}

/// A class, with as many free addresses.
async fn create_addresses(client: &Client, class: &str, range: u8, count: usize) {
    create(client, &make::class(class)).await.unwrap();
    stream::iter(0..count)
        .map(|n| {
            let ip = format!("10.{range}.{}.{}", n / 250, n % 250);
            let address = make::address(&format!("{class}-{n:05}"), class, &ip);
            let client = client.clone();
            async move { create(&client, &address).await }
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| async { Ok(()) })
        .await
        .unwrap();
}

async fn create_claims(client: &Client, namespace: &str, class: &str, count: usize) {
    stream::iter(0..count)
        .map(|n| {
            let claim = make::claim(namespace, &format!("{class}-{n:05}"), class);
            let client = client.clone();
            async move { create(&client, &claim).await }
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| async { Ok(()) })
        .await
        .unwrap();
}

/// Waits until so many claims of a class are bound.
async fn all_bound(claims: &Api<IPAddressClaim>, class: &str, count: usize) {
    let bound = |claim: &IPAddressClaim| {
        claim.status.as_ref().and_then(|s| s.phase) == Some(ClaimPhase::Bound)
    };
    all_are(claims, class, bound, count).await;
}

/// Waits until so many addresses of a class are available, and the controller is at rest.
async fn all_available(client: &Client, controller: &Controller, class: &str, count: usize) {
    let available = |address: &IPAddress| {
        address.status.as_ref().and_then(|s| s.phase) == Some(AddressPhase::Available)
    };
    all_are(&Api::all(client.clone()), class, available, count).await;
    addresses_are(controller, class, AddressPhase::Available, count).await;
}

/// Waits by a watch, which costs the API server and the controller next to nothing.
async fn all_are<K>(api: &Api<K>, class: &str, is: impl Fn(&K) -> bool, count: usize)
where
    K: Resource + Clone + Debug + DeserializeOwned + 'static,
{
    let mut seen = BTreeSet::new();
    let params = WatchParams::default().timeout(290);
    let watching = async {
        while seen.len() < count {
            let mut events = api.watch(&params, "0").await.unwrap().boxed();
            // It ends when its time is up, and when definitions change.
            while seen.len() < count
                && let Some(event) = events.try_next().await.unwrap()
            {
                let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else {
                    continue;
                };
                if is(&object) && object.name_any().starts_with(class) {
                    seen.insert(object.name_any());
                }
            }
        }
    };
    tokio::time::timeout(LONG, watching).await.expect("all of them");
}

/// Waits until the controller counts so many addresses of a class in a phase, and is at rest.
async fn addresses_are(controller: &Controller, class: &str, phase: AddressPhase, count: usize) {
    let labels = [format!("phase=\"{}\"", phase.as_str()), format!("class=\"{class}\"")];
    let labels = labels.each_ref().map(String::as_str);
    eventually(LONG, &format!("{count} addresses to be {}", phase.as_str()), || async {
        let seen = controller.metric("address_controller_addresses", &labels).await?;
        let depth = controller.metric("address_controller_queue_depth", &[]).await?;
        let expected = u32::try_from(count).map(f64::from)?;
        ensure!(seen == Some(expected) && depth == Some(0.0), "{seen:?}, {depth:?} in the queue");
        anyhow::Ok(())
    })
    .await;
}

fn options(controlplane: &ControlPlane) -> ControllerOptions {
    ControllerOptions::new(BINARY, controlplane.admin_kubeconfig().unwrap())
}

fn per_second(count: usize, took: Duration) -> f64 {
    u32::try_from(count).map_or(0.0, f64::from) / took.as_secs_f64()
}

/// A thousand claims on a thousand addresses: five writes a bind, at most one event, no read. And
/// none of either when the controller is started over them.
#[tokio::test(flavor = "multi_thread")]
async fn a_bind_costs_five_writes_and_no_read() {
    const COUNT: usize = 1000;
    let sandbox = Sandbox::alone("figures").await.unwrap();
    let (client, controlplane) = (sandbox.client(), sandbox.controlplane());
    let class = sandbox.name("public");
    let mut controller = Controller::start_ready(&options(controlplane)).await.unwrap();
    create_addresses(&client, &class, 1, COUNT).await;
    all_available(&client, &controller, &class, COUNT).await;
    assert!(controller.sigterm(LONG).unwrap().success());
    create_claims(&client, sandbox.namespace(), &class, COUNT).await;

    let before = Requests::now(&client).await;
    let controller = Controller::start_ready(&options(controlplane)).await.unwrap();
    let begin = Instant::now();
    all_bound(&sandbox.claims(), &class, COUNT).await;
    let took = begin.elapsed();
    addresses_are(&controller, &class, AddressPhase::Bound, COUNT).await;
    events_are_sent(&controller, COUNT).await;
    let asked = &Requests::now(&client).await - &before;
    println!("{COUNT} binds: {:.0} a second; {:?}", per_second(COUNT, took), asked.0);
    let (writes, events) = (asked.of("PATCH ip"), asked.of("POST events"));
    assert!(writes <= 5000, "{writes} writes: {asked:?}");
    assert!(events <= 1000, "{events} events: {asked:?}");
    assert_eq!(asked.of("GET ip") + asked.of("DELETE "), 0, "{asked:?}");

    drop(controller);
    let before = Requests::now(&client).await;
    let controller = Controller::start_ready(&options(controlplane)).await.unwrap();
    addresses_are(&controller, &class, AddressPhase::Bound, COUNT).await;
    eventually(LONG, "a pass over each object", || async {
        let passes = controller.metric("address_controller_passes_total", &[]).await?;
        ensure!(passes >= Some(2000.0), "{passes:?}");
        anyhow::Ok(())
    })
    .await;
    let asked = &Requests::now(&client).await - &before;
    assert_eq!(asked.of_controller(), BTreeMap::new());
    assert_eq!(asked.of("POST events"), 0);
    drop(controller);
    compare(&sandbox, took, COUNT).await;
}

/// Waits until what was said of so many binds has been sent.
async fn events_are_sent(controller: &Controller, count: usize) {
    eventually(LONG, "the events to be sent", || async {
        let sent = controller.metric("address_controller_events_total", &[]).await?;
        let expected = u32::try_from(count).map(f64::from)?;
        ensure!(sent >= Some(expected), "{sent:?}");
        anyhow::Ok(())
    })
    .await;
}

/// The same writes at the same server by a plain loop, at the concurrency that suits it best.
async fn compare(sandbox: &Sandbox, took: Duration, count: usize) {
    const PLAIN: usize = 200;
    let mut best: f64 = 0.0;
    for (number, at_once) in [(2_u8, 1), (3, 4), (4, 16)] {
        let class = format!("{}-{at_once}", sandbox.name("plain"));
        create_addresses(&sandbox.client(), &class, number, PLAIN).await;
        create_claims(&sandbox.client(), sandbox.namespace(), &class, PLAIN).await;
        let begin = Instant::now();
        stream::iter(0..PLAIN)
            .map(|n| plain_bind(sandbox, format!("{class}-{n:05}")))
            .buffer_unordered(at_once)
            .try_for_each(|()| async { Ok(()) })
            .await
            .unwrap();
        let plain = per_second(PLAIN, begin.elapsed());
        println!("a plain loop, {at_once} at a time: {plain:.0} binds a second");
        best = best.max(plain);
    }
    let ours = per_second(count, took);
    println!("the controller: {ours:.0} binds a second; the best plain loop: {best:.0}");
}

/// The five writes and the event of a bind, with nothing decided.
async fn plain_bind(sandbox: &Sandbox, name: String) -> Result<()> {
    let (claims, addresses, params) =
        (sandbox.claims(), sandbox.addresses(), PatchParams::default());
    let merge = |body: Value| Patch::Merge(body);
    let mark = json!({ "metadata": {
        "finalizers": [CLAIM_FINALIZER],
        "annotations": { SELECTED_ADDRESSES_ANNOTATION: format!("IPv4={name}/1") },
    }});
    let claim = claims.patch(&name, &params, &merge(mark)).await?;
    let bind = json!({
        "metadata": { "finalizers": [ADDRESS_FINALIZER] },
        "spec": { "claimRef": {
            "namespace": sandbox.namespace(), "name": name, "uid": claim.metadata.uid,
        }},
    });
    let address: IPAddress = addresses.patch(&name, &params, &merge(bind)).await?;
    let condition = |type_: &str| {
        json!({
            "type": type_, "status": "True", "reason": type_, "observedGeneration": 1,
            "message": "as a plain loop says it", "lastTransitionTime": "2025-01-01T00:00:00Z",
        })
    };
    let status = json!({ "status": {
        "phase": "Bound",
        "className": claim.spec.class_name,
        "addresses": [{ "name": name, "address": address.spec.address }],
        "conditions": [condition("ClassResolved"), condition("Bound")],
    }});
    claims.patch_status(&name, &params, &merge(status)).await?;
    let stamp = json!({ "metadata": { "annotations": { PROVISIONER_ANNOTATION: "plain" } } });
    claims.patch(&name, &params, &merge(stamp)).await?;
    let phase = json!({ "status": { "phase": "Bound" } });
    addresses.patch_status(&name, &params, &merge(phase)).await?;
    let event: Event = serde_json::from_value(json!({
        "metadata": { "generateName": format!("{name}."), "namespace": sandbox.namespace() },
        "involvedObject": { "kind": "IPAddressClaim", "name": name, "namespace": sandbox.namespace() },
        "reason": "Bound", "type": "Normal", "message": "as a plain loop says it",
    }))?;
    let events: Api<Event> = Api::namespaced(sandbox.client(), sandbox.namespace());
    events.create(&PostParams::default(), &event).await?;
    Ok(())
}

/// 200 claims on a class with 200 free addresses, then on one with 20,000: the same requests.
/// `cargo xtask test figures` runs it.
#[ignore = "creates 20,000 addresses, which takes minutes: cargo xtask test figures"]
#[tokio::test(flavor = "multi_thread")]
async fn a_bind_among_20_000_addresses_costs_what_it_costs_among_200() {
    const CLAIMS: usize = 200;
    // Of its own: others' tests would have to remove all that.
    let controlplane = ControlPlane::start(Options::default()).await.unwrap();
    controlplane.install_crds().await.unwrap();
    let client = controlplane.admin().unwrap();
    let namespace: Namespace =
        serde_json::from_value(json!({ "metadata": { "name": "t1" } })).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    let claims: Api<IPAddressClaim> = Api::namespaced(client.clone(), "t1");
    let controller = Controller::start_ready(&options(&controlplane)).await.unwrap();

    let mut asked = Vec::new();
    let mut times = Vec::new();
    for (class, range, count) in [("few", 1, CLAIMS), ("many", 2, 20_000)] {
        let begin = Instant::now();
        create_addresses(&client, class, range, count).await;
        let created = begin.elapsed();
        all_available(&client, &controller, class, count).await;
        println!(
            "{class}: {count} created in {created:.1?}, Available after {:.1?}",
            begin.elapsed()
        );
        let before = Requests::now(&client).await;
        let begin = Instant::now();
        create_claims(&client, "t1", class, CLAIMS).await;
        all_bound(&claims, class, CLAIMS).await;
        let took = begin.elapsed();
        addresses_are(&controller, class, AddressPhase::Bound, CLAIMS).await;
        let since = &Requests::now(&client).await - &before;
        println!("{class}: {CLAIMS} binds in {took:.2?}; {:?}", since.of_controller());
        asked.push(since);
        times.push(took);
    }
    assert_eq!(asked[0].of_controller(), asked[1].of_controller());
    println!("time for each, many to few: {:.2}", times[1].as_secs_f64() / times[0].as_secs_f64());
}
