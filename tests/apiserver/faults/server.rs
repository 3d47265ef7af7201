//! H04: the API server throttles, is gone, or has lost its store.

use std::time::Duration;

use address_controller::api::{AddressPhase, ClaimPhase};
use testbed::proxy::{Act, Match, Verb};

use crate::support::{Bench, PATIENCE, ours};

/// H04: 429 ten times in a row: pauses that grow, and then the claim is bound.
#[tokio::test]
async fn h04_a_throttled_write_is_tried_again_after_growing_pauses() {
    let bench = Bench::running("h04-429", &["--queue-backoff-max=2s"]).await;
    bench.class("public").await.unwrap();
    bench.address("a1", "public", "192.0.2.1").await.unwrap();
    bench.address_is("a1", AddressPhase::Available).await;
    let of_claims = ours(Match::writes()).resource("ipaddressclaims");
    let busy = Act::Answer { status: 429, retry_after: Some(1) };
    let throttled = bench.proxy.rule(of_claims.clone().times(10), busy);
    bench.claim("web", "public").await.unwrap();
    throttled.reached(10, PATIENCE).await.unwrap();
    bench.claim_is("web", ClaimPhase::Bound).await;
    let tries: Vec<_> = bench.proxy.matching(&of_claims).iter().map(|r| r.at).take(10).collect();
    let pauses: Vec<_> = tries.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(pauses[8] > 3 * pauses[0], "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause < Duration::from_secs(4)), "{pauses:?}");
    bench.history().await.assert_clean();
}

/// H04: the API server is gone: the process stays, says so, asks less and less often, and goes on
/// when it comes back, with what changed meanwhile.
#[tokio::test]
async fn h04_without_an_api_server_it_waits_says_so_and_recovers() {
    let mut bench = Bench::running("h04-gone", &[]).await;
    bench.bound().await;
    bench.at_rest().await;
    bench.proxy.forget_requests();
    bench.controlplane().stop_apiserver();
    let why = bench.readiness(503).await;
    assert!(why.contains("watch"), "{why}");
    // The fifth try of a watch comes 12 to 24 seconds after the first.
    let watches = ours(Match::verb(Verb::Watch)).resource("ipaddressclaims");
    bench.proxy.wait_for(&watches, 5, PATIENCE).await.unwrap();
    assert_eq!(bench.controller_mut().exit_status(), None);
    assert_eq!(bench.controller().probe("/livez").await.unwrap().0, 200);
    let asked = bench.proxy.count(&Match::any());
    assert!(asked < 30, "{asked} requests to a server that is gone");
    bench.controlplane().restart_apiserver().await.unwrap();
    bench.delete_claim("web").await;
    bench.readiness(200).await;
    bench.address_is("a1", AddressPhase::Released).await;
    bench.claim_goes("web").await;
    let told = bench.controller().log().matches("cannot watch").count();
    assert!((1..=9).contains(&told), "told {told} times:\n{}", bench.controller().log());
    // A server that is killed does not log what it was at.
    bench.history().await.assert_clean_but_for(2);
}

/// H04: the store stands still in the middle of a bind. Writes are given up after their time-out, and
/// may or may not have taken effect.
#[tokio::test]
async fn h04_a_store_that_stands_still_is_waited_for() {
    let mut bench = Bench::running("h04-etcd", &["--request-timeout=1s"]).await;
    bench.class("public").await.unwrap();
    for (short, ip) in [("a1", "192.0.2.1"), ("a2", "192.0.2.2")] {
        bench.address(short, "public", ip).await.unwrap();
        bench.address_is(short, AddressPhase::Available).await;
    }
    let binds = ours(Match::verb(Verb::Patch)).resource("ipaddresses");
    let held = bench.proxy.rule(binds.times(1), Act::Hold);
    bench.claim("web", "public").await.unwrap();
    held.reached(1, PATIENCE).await.unwrap();
    bench.controlplane().pause_etcd();
    held.release();
    let tries = ours(Match::verb(Verb::Get).or_verb(Verb::Patch));
    let before = bench.proxy.count(&tries);
    bench.proxy.wait_for(&tries, before + 2, PATIENCE).await.unwrap();
    assert_eq!(bench.controller_mut().exit_status(), None);
    assert_eq!(bench.controller().probe("/livez").await.unwrap().0, 200);
    bench.controlplane().resume_etcd();
    let claim = bench.claim_is("web", ClaimPhase::Bound).await;
    assert_eq!(crate::support::shown(&claim), [bench.name("a1")]);
    bench.address_is("a2", AddressPhase::Available).await;
    bench.history().await.assert_clean();
}
