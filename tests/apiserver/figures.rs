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
    process::cpu_time, sandbox::create,
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
        let (client, namespace) = (sandbox.client(), sandbox.namespace());
        let begin = Instant::now();
        stream::iter(0..PLAIN)
            .map(|n| plain_bind(&client, namespace, format!("{class}-{n:05}")))
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
async fn plain_bind(client: &Client, namespace: &str, name: String) -> Result<()> {
    let claims: Api<IPAddressClaim> = Api::namespaced(client.clone(), namespace);
    let addresses: Api<IPAddress> = Api::all(client.clone());
    let params = PatchParams::default();
    let merge = |body: Value| Patch::Merge(body);
    let mark = json!({ "metadata": {
        "finalizers": [CLAIM_FINALIZER],
        "annotations": { SELECTED_ADDRESSES_ANNOTATION: format!("IPv4={name}/1") },
    }});
    let claim = claims.patch(&name, &params, &merge(mark)).await?;
    let bind = json!({
        "metadata": { "finalizers": [ADDRESS_FINALIZER] },
        "spec": { "claimRef": {
            "namespace": namespace, "name": name, "uid": claim.metadata.uid,
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
        "metadata": { "generateName": format!("{name}."), "namespace": namespace },
        "involvedObject": { "kind": "IPAddressClaim", "name": name, "namespace": namespace },
        "reason": "Bound", "type": "Normal", "message": "as a plain loop says it",
    }))?;
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    events.create(&PostParams::default(), &event).await?;
    Ok(())
}

/// 200 claims on 200 free addresses, then on 20,000, nine times each: the same requests. Printed are
/// the medians of the times, and those of a plain loop that makes the same writes in the same two
/// worlds: what the API server itself takes longer among many. `cargo xtask test figures` runs it.
#[ignore = "creates 20,000 addresses, which takes minutes: cargo xtask test figures"]
#[tokio::test(flavor = "multi_thread")]
async fn a_bind_among_20_000_addresses_costs_what_it_costs_among_200() {
    // Of its own: others' tests would have to remove all that.
    let controlplane = ControlPlane::start(Options::default()).await.unwrap();
    controlplane.install_crds().await.unwrap();
    let mut rounds = Rounds { controlplane, number: 0 };
    let mut controller = rounds.controller().await;
    let mut few = Vec::new();
    for _ in 0..=ROUNDS {
        let class = format!("few-{}", rounds.number);
        rounds.addresses(&controller, &class, CLAIMS).await;
        few.push(rounds.bind(&controller, &class).await);
    }
    assert!(controller.sigterm(LONG).unwrap().success());
    let few_plain = rounds.plain().await;

    let mut controller = rounds.controller().await;
    rounds.addresses(&controller, "many", 20_000).await;
    let mut many = Vec::new();
    for _ in 0..=ROUNDS {
        many.push(rounds.bind(&controller, "many").await);
    }
    assert!(controller.sigterm(LONG).unwrap().success());
    let many_plain = rounds.plain().await;

    drop((few.remove(0), many.remove(0)));
    let asked_first = few[0].asked.clone();
    let asked: Vec<_> = few.iter().chain(&many).map(|round| round.asked.clone()).collect();
    for process in few[0].cpu.keys() {
        let cpu = |rounds: &[Round]| median(rounds.iter().map(|round| round.cpu[process]));
        println!("processor time of {process}: {:.2?}, {:.2?}", cpu(&few), cpu(&many));
    }
    println!("for each {CLAIMS} binds: {asked_first:?}");
    let (few, many) = (median(few.iter().map(|r| r.took)), median(many.iter().map(|r| r.took)));
    let ratio = |many: Duration, few: Duration| many.as_secs_f64() / few.as_secs_f64();
    println!("{CLAIMS} binds among few: {few:.2?}, by a plain loop {few_plain:.2?}");
    println!("{CLAIMS} binds among many: {many:.2?}, by a plain loop {many_plain:.2?}");
    println!(
        "many to few: {:.2}; the plain loop's: {:.2}",
        ratio(many, few),
        ratio(many_plain, few_plain)
    );
    for asked in &asked {
        assert_eq!(asked, &asked_first);
    }
}

/// How many rounds count, after one that warms everything up.
const ROUNDS: usize = 9;

/// How many claims a round binds.
const CLAIMS: usize = 200;

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<_> = times.collect();
    times.sort();
    times[times.len() / 2]
}

/// What so many binds took.
struct Round {
    took: Duration,
    asked: BTreeMap<String, u64>,
    cpu: BTreeMap<&'static str, Duration>,
}

/// Rounds of binds on one control plane, each in a namespace and with names of its own.
struct Rounds {
    controlplane: ControlPlane,
    number: u8,
}

impl Rounds {
    async fn controller(&self) -> Controller {
        Controller::start_ready(&options(&self.controlplane)).await.unwrap()
    }

    fn client(&self) -> Client {
        self.controlplane.admin().unwrap()
    }

    async fn addresses(&mut self, controller: &Controller, class: &str, count: usize) {
        self.number += 1;
        create_addresses(&self.client(), class, self.number, count).await;
        all_available(&self.client(), controller, class, count).await;
    }

    async fn namespace(&mut self) -> String {
        self.number += 1;
        let name = format!("t{}", self.number);
        let namespace = json!({ "metadata": { "name": name } });
        let namespace: Namespace = serde_json::from_value(namespace).unwrap();
        Api::all(self.client()).create(&PostParams::default(), &namespace).await.unwrap();
        name
    }

    /// How long the controller took to bind, what it asked for, and the processor time of each.
    async fn bind(&mut self, controller: &Controller, class: &str) -> Round {
        let (client, namespace) = (self.client(), self.namespace().await);
        let before = Requests::now(&client).await;
        let cpu = || {
            let ours = ("the controller", controller.pid());
            let all = self.controlplane.pids().into_iter().chain([ours]);
            all.map(|(name, pid)| (name, cpu_time(pid).unwrap())).collect::<BTreeMap<_, _>>()
        };
        let cpu_before = cpu();
        let begin = Instant::now();
        create_claims(&client, &namespace, class, CLAIMS).await;
        all_bound(&Api::namespaced(client.clone(), &namespace), class, CLAIMS).await;
        let took = begin.elapsed();
        let asked = eventually(LONG, "the last writes", || async {
            let since = &Requests::now(&client).await - &before;
            let writes = since.of("PATCH ip");
            ensure!(usize::try_from(writes)? >= 5 * CLAIMS, "{writes} writes");
            let asked = since.of_controller();
            anyhow::Ok(asked.into_iter().map(|(k, n)| (k.to_owned(), n)).collect())
        })
        .await;
        let cpu = cpu()
            .into_iter()
            .map(|(name, at)| (name, at.saturating_sub(cpu_before[name])))
            .collect();
        Round { took, asked, cpu }
    }

    /// How long a plain loop takes for the same, the claims' creation included; no controller runs.
    async fn plain(&mut self) -> Duration {
        let client = self.client();
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let namespace = self.namespace().await;
            let class = format!("plain-{}", self.number);
            create_addresses(&client, &class, self.number, CLAIMS).await;
            let begin = Instant::now();
            create_claims(&client, &namespace, &class, CLAIMS).await;
            stream::iter(0..CLAIMS)
                .map(|n| plain_bind(&client, &namespace, format!("{class}-{n:05}")))
                .buffer_unordered(16)
                .try_for_each(|()| async { Ok(()) })
                .await
                .unwrap();
            times.push(begin.elapsed());
        }
        median(times.into_iter())
    }
}
