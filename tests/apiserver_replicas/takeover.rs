//! How soon another does a replica's work. Each row is measured `ROUNDS` times (once, unless the
//! environment says otherwise) and printed; the bounds here are generous, the figures are in the docs.

use std::{
    collections::BTreeMap,
    fmt::Display,
    sync::Arc,
    time::{Duration, Instant},
};

use address_controller::api::{AddressPhase, IPAddress, IPAddressClaim};
use futures::{StreamExt, TryStreamExt, future::join_all};
use kube::{
    ResourceExt,
    api::{WatchEvent, WatchParams},
};
use parking_lot::Mutex;
use testbed::{
    Sandbox, eventually,
    proxy::{Match, Verb},
};

use crate::fleet::{Fleet, PATIENCE};

/// How many claims are made in a round: enough for each replica to hold some.
const CLAIMS: usize = 24;

fn rounds() -> usize {
    std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// When each claim first had a status, by the API server's watch.
#[derive(Clone, Default)]
struct Served(Arc<Mutex<BTreeMap<String, Instant>>>);

impl Served {
    async fn listen(fleet: &Fleet) -> Self {
        // The first requests for a resource take the API server longer.
        make_claims(fleet, "warm").await;
        let claims = &fleet.claims();
        let this = Self::default();
        let (seen, claims) = (this.clone(), claims.clone());
        let begin = claims.list(&kube::api::ListParams::default()).await.unwrap();
        let mut version = begin.metadata.resource_version.unwrap_or_default();
        tokio::spawn(async move {
            loop {
                let params = WatchParams::default().timeout(290);
                let Ok(events) = claims.watch(&params, &version).await else { return };
                let mut events = events.boxed();
                while let Ok(Some(event)) = events.try_next().await {
                    if let WatchEvent::Modified(claim) = event {
                        version = claim.resource_version().unwrap_or_default();
                        if claim.status.is_some() {
                            seen.0.lock().entry(claim.name_any()).or_insert_with(Instant::now);
                        }
                    }
                }
            }
        });
        this
    }

    /// When the last of these was served.
    async fn last(&self, names: &[String]) -> Instant {
        eventually(PATIENCE, "the claims to be served", || async {
            let seen = self.0.lock();
            let times: Vec<_> = names.iter().filter_map(|name| seen.get(name).copied()).collect();
            anyhow::ensure!(times.len() == names.len(), "{} of {}", times.len(), names.len());
            Ok(times.into_iter().max())
        })
        .await
        .expect("there are claims")
    }
}

/// Claims of a class that does not exist: whoever serves one says so in its status.
async fn make_claims(sandbox: &Sandbox, round: impl Display + Copy) -> Vec<IPAddressClaim> {
    let one =
        |n: usize| async move { sandbox.claim(&format!("c-{round}-{n}"), "none").await.unwrap() };
    join_all((0..CLAIMS).map(one)).await
}

/// Those that one of the members holds.
fn held_by(members: &[String], who: &str, claims: &[IPAddressClaim]) -> Vec<String> {
    let held: Vec<_> = claims
        .iter()
        .filter(|claim| Fleet::holder(members, claim) == who)
        .map(ResourceExt::name_any)
        .collect();
    assert!(!held.is_empty(), "{CLAIMS} claims, and none of {who}");
    held
}

fn tell(what: &str, mut times: Vec<Duration>, bound: Duration) {
    times.sort();
    let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
    println!("{what}: median {median:.2?}, worst {worst:.2?} of {}", times.len());
    assert!(worst < bound, "{what}: {times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_told_to_stop_hands_its_claims_over() {
    let mut fleet = Fleet::of("sigterm", 3).await;
    let served = Served::listen(&fleet).await;
    let mut times = Vec::new();
    for round in 0..rounds() {
        let members = fleet.running();
        let victim = round % 3;
        let begin = Instant::now();
        fleet.replicas[victim].controller().ask_to_stop();
        let claims = make_claims(&fleet, round).await;
        let held = held_by(&members, &fleet.replicas[victim].identity, &claims);
        times.push(served.last(&held).await.duration_since(begin));
        fleet.replicas[victim].join();
        fleet.replicas[victim].start();
        fleet.settle().await;
    }
    tell("SIGTERM until its claims are served by another", times, Duration::from_secs(3));
    fleet.check().await;
}

/// An address that was made at some moment: when it was `Available`.
async fn available(fleet: &Fleet, short: &str) -> Instant {
    let (addresses, name) = (fleet.addresses(), fleet.name(short));
    eventually(PATIENCE, "the address to be Available", || async {
        let address: IPAddress = addresses.get(&name).await?;
        let phase = address.status.and_then(|s| s.phase);
        anyhow::ensure!(phase == Some(AddressPhase::Available), "{phase:?}");
        anyhow::Ok(Instant::now())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_work_of_a_leader_that_is_killed_is_done_by_others() {
    let mut fleet = Fleet::of("sigkill", 3).await;
    fleet.class("public").await.unwrap();
    let served = Served::listen(&fleet).await;
    let (mut claims_after, mut addresses_after) = (Vec::new(), Vec::new());
    for round in 0..rounds() {
        let members = fleet.running();
        let victim = fleet.leader().await;
        let begin = Instant::now();
        fleet.replicas[victim].kill();
        let claims = make_claims(&fleet, round).await;
        let short = format!("a{round}");
        fleet.address(&short, "public", &format!("192.0.2.{}", round + 1)).await.unwrap();
        let held = held_by(&members, &fleet.replicas[victim].identity, &claims);
        let (address, claim) = tokio::join!(available(&fleet, &short), served.last(&held));
        addresses_after.push(address.duration_since(begin));
        claims_after.push(claim.duration_since(begin));
        fleet.replicas[victim].start();
        fleet.settle().await;
    }
    let bound = Duration::from_secs(8);
    tell("SIGKILL of the leader until addresses are served by another", addresses_after, bound);
    tell("SIGKILL of it until its claims are served by others", claims_after, bound);
    fleet.check().await;
}

/// The same pod: the kubelet has ended the process before, so nobody needs to be waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_is_restarted_in_place_goes_on_at_once() {
    let mut fleet = Fleet::of("in-place", 3).await;
    let served = Served::listen(&fleet).await;
    let mut times = Vec::new();
    for round in 0..rounds() {
        let members = fleet.running();
        let victim = round % 3;
        fleet.replicas[victim].kill();
        let begin = Instant::now();
        fleet.replicas[victim].start();
        let claims = make_claims(&fleet, round).await;
        let held = held_by(&members, &fleet.replicas[victim].identity, &claims);
        times.push(served.last(&held).await.duration_since(begin));
        fleet.settle().await;
    }
    tell("start in place until its own claims are served", times, Duration::from_secs(4));
    fleet.check().await;
}

/// One class, three replicas, many claims at once: few writes are refused, and a bind asks for about
/// as much as with one replica. A thousand claims where figures are wanted.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_match_on_one_class_keep_out_of_each_others_way() {
    let count = if rounds() > 1 { 1_000 } else { 300 };
    let mut asked = Vec::new();
    for replicas in [1, 3] {
        let fleet = Fleet::of("one-class", replicas).await;
        fleet.class("public").await.unwrap();
        fleet.addresses_of(count).await;
        for n in 0..count {
            available(&fleet, &format!("a{n:04}")).await;
        }
        fleet.replicas.iter().for_each(|r| r.proxy.forget_requests());
        fleet.claims_of("c", count).await;
        fleet.bound(count).await;
        fleet.check().await;
        let all = || fleet.replicas.iter().flat_map(|r| r.proxy.requests());
        let ours =
            || all().filter(|r| r.resource.starts_with("ipaddress") && r.verb != Verb::Watch);
        let conflicts = ours().filter(|r| r.status == Some(409)).count();
        let each = |n: usize| n as f64 / count as f64;
        println!(
            "{replicas} replicas, {count} binds: {:.2} conflicts and {:.2} requests for each",
            each(conflicts),
            each(ours().count())
        );
        assert!(conflicts * 5 <= count, "{conflicts} conflicts for {count} binds");
        asked.push(each(ours().count()));
    }
    assert!(asked[1] <= asked[0] * 1.25, "{asked:?}");
}

/// What a replica costs while nothing happens: one write a second to its Lease, and one more for the
/// leader's.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_replica_renews_its_lease_and_asks_for_nothing_else() {
    const RENEWALS: usize = 10;
    let fleet = Fleet::of("idle", 3).await;
    fleet.check().await;
    let leader = fleet.leader().await;
    for (place, replica) in fleet.replicas.iter().enumerate() {
        replica.proxy.forget_requests();
        let begin = Instant::now();
        let renewals = Match::verb(Verb::Update).resource("leases");
        let expected = if leader == place { 2 * RENEWALS } else { RENEWALS };
        replica.proxy.wait_for(&renewals, expected, PATIENCE).await.unwrap();
        let took = begin.elapsed();
        let others: Vec<_> = replica
            .proxy
            .requests()
            .into_iter()
            .filter(|r| !renewals.matches(r) && r.verb != Verb::Watch)
            .map(|r| (r.verb, r.path))
            .collect();
        assert_eq!(others, [], "{}", replica.identity);
        assert!(took >= Duration::from_secs(8), "{expected} renewals in {took:?}");
        println!("{}: {expected} lease writes in {took:.1?} and nothing else", replica.identity);
    }
}
