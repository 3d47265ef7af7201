//! H04: watches that break, lag, lie still, or are refused.

use std::time::{Duration, Instant};

use address_controller::api::{AddressPhase, ClaimPhase};
use rstest::rstest;
use testbed::{
    make::{self, MakeAddress},
    proxy::{Act, Freeze, Match, Verb},
};

use crate::support::{Bench, PATIENCE, force_delete, ours};

/// How often everything of a kind was listed. What is asked before the start lists one object.
fn lists(bench: &Bench, resource: &str) -> usize {
    let all = |r: &testbed::proxy::Request| r.query.contains("limit=500");
    bench
        .proxy
        .matching(&ours(Match::verb(Verb::List)).resource(resource))
        .iter()
        .filter(|r| all(r))
        .count()
}

impl Bench {
    /// What happens to a kind during `meanwhile` is never told: its watch stands still, is cut, and
    /// cannot be taken up where it was.
    async fn missed(&self, resource: &str, meanwhile: impl Future<Output = ()>) {
        self.proxy.freeze_watches(resource, Freeze::OpenOnes);
        meanwhile.await;
        let watches = Match::verb(Verb::Watch).resource(resource);
        let expired = self.proxy.rule(watches.times(1), Act::answer(410));
        assert_eq!(self.proxy.cut_watches(resource), 1);
        expired.reached(1, PATIENCE).await.unwrap();
    }
}

/// H04: what vanished from a list is a deletion: the claim says that it lost its address.
#[tokio::test]
async fn h04_an_address_that_vanished_unseen_is_lost() {
    let bench = Bench::running("h04-address", &[]).await;
    bench.bound().await;
    bench.missed("ipaddresses", force_delete(&bench.addresses(), &bench.name("a1"))).await;
    bench.claim_is("web", ClaimPhase::Lost).await;
    assert_eq!(lists(&bench, "ipaddresses"), 2);
    assert_eq!(lists(&bench, "ipaddressclaims"), 1);
    bench.readiness(200).await;
}

/// H04: and the address of a claim that vanished is reclaimed by its own policy.
#[rstest]
#[case::retained(false)]
#[case::deleted(true)]
#[tokio::test]
async fn h04_the_address_of_a_claim_that_vanished_unseen_is_reclaimed(#[case] delete: bool) {
    let bench = Bench::running("h04-claim", &[]).await;
    bench.class("public").await.unwrap();
    let address = make::address(&bench.name("a1"), &bench.name("public"), "192.0.2.1");
    let address = if delete { address.delete_policy() } else { address };
    bench.create(&address).await.unwrap();
    bench.address_is("a1", AddressPhase::Available).await;
    bench.claim("web", "public").await.unwrap();
    bench.address_is("a1", AddressPhase::Bound).await;
    bench.at_rest().await;
    bench.missed("ipaddressclaims", force_delete(&bench.claims(), "web")).await;
    if delete {
        bench.address_goes("a1").await;
    } else {
        bench.address_is("a1", AddressPhase::Released).await;
    }
    assert_eq!(lists(&bench, "ipaddressclaims"), 2);
}

/// H04: a connection that stays open and passes nothing is noticed within the watch's time-out and
/// the five seconds after it.
#[tokio::test]
async fn h04_a_half_open_watch_is_noticed_within_its_time_out() {
    let bench = Bench::running("h04-half-open", &["--watch-timeout=30s"]).await;
    bench.class("public").await.unwrap();
    bench.address("a1", "public", "192.0.2.1").await.unwrap();
    bench.address_is("a1", AddressPhase::Available).await;
    for resource in ["ipaddresses", "ipaddressclaims", "ipaddressclasses"] {
        bench.proxy.freeze_watches(resource, Freeze::OpenOnes);
    }
    let begin = Instant::now();
    bench.claim("web", "public").await.unwrap();
    bench.claim_is("web", ClaimPhase::Bound).await;
    let took = begin.elapsed();
    println!("noticed after {took:.1?}");
    assert!(took < Duration::from_secs(45), "{took:?}");
    assert_eq!(lists(&bench, "ipaddressclaims"), 1, "the watch is taken up where it was");
    bench.history().await.assert_clean();
}

/// H04: a watch that the API server throttles is told of by readiness, asked for again after pauses
/// that grow, and taken up where it was.
#[tokio::test]
async fn h04_a_throttled_watch_is_asked_for_after_growing_pauses() {
    let bench = Bench::running("h04-throttled", &[]).await;
    bench.bound().await;
    let watches = Match::verb(Verb::Watch).resource("ipaddressclaims");
    bench.proxy.forget_requests();
    let busy = Act::Answer { status: 429, retry_after: Some(1) };
    let throttled = bench.proxy.rule(watches.clone().times(4), busy);
    bench.proxy.cut_watches("ipaddressclaims");
    throttled.reached(2, PATIENCE).await.unwrap();
    let why = bench.readiness(503).await;
    assert!(why.contains("ipaddressclaims"), "{why}");
    assert_eq!(bench.controller().probe("/livez").await.unwrap().0, 200);
    throttled.reached(4, PATIENCE).await.unwrap();
    bench.readiness(200).await;
    let tries: Vec<_> = bench.proxy.matching(&watches).iter().map(|r| r.at).collect();
    let pauses: Vec<_> = tries.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(pauses[3] > 2 * pauses[0], "{pauses:?}");
    bench.delete_claim("web").await;
    bench.claim_goes("web").await;
    assert_eq!(lists(&bench, "ipaddressclaims"), 0);
}
