//! H01: nothing is destroyed on a cache's word.

use std::time::Duration;

use address_controller::api::AddressPhase;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use rstest::rstest;
use testbed::{
    make::{self, MakeAddress},
    proxy::{Act, Freeze, Match, Verb},
};

use crate::support::{Bench, PATIENCE, force_delete, ours};

/// A request that is held is given up after a second.
const FLAGS: [&str; 2] = ["--request-timeout=1s", "--queue-backoff-max=1s"];

fn reads_of_claims() -> Match {
    ours(Match::verb(Verb::Get)).resource("ipaddressclaims")
}

/// What would destroy an address or release it.
fn destroys(bench: &Bench) -> usize {
    let released = |r: &testbed::proxy::Request| {
        r.body.as_ref().is_some_and(|b| b["status"]["phase"] == "Released")
    };
    bench.writes().iter().filter(|r| r.verb == Verb::Delete || released(r)).count()
}

/// Removes a claim that is being deleted already.
async fn force_delete_marked(bench: &Bench, name: &str) {
    let free = Patch::Merge(serde_json::json!({ "metadata": { "finalizers": null } }));
    bench.claims().patch(name, &PatchParams::default(), &free).await.unwrap();
    assert!(bench.claims().get_opt(name).await.unwrap().is_none(), "{name} is still there");
}

impl Bench {
    /// A claim that the controller does not hear of, and an address with the policy `Delete` that
    /// names it.
    async fn held_by_an_unseen_claim(&self) {
        self.proxy.freeze_watches("ipaddressclaims", Freeze::OpenOnes);
        let claim = self.claim("web", "public").await.unwrap();
        self.hold_a1(&claim.uid().unwrap()).await;
    }

    async fn hold_a1(&self, uid: &str) {
        let address = make::address(&self.name("a1"), &self.name("public"), "192.0.2.1");
        let address = address.delete_policy().bound_to(self.namespace(), "web", uid);
        self.create(&address).await.unwrap();
    }
}

/// H01: the address names a claim that exists and that the cache lacks: it is bound.
#[tokio::test]
async fn h01_a_claim_that_the_cache_lacks_is_read() {
    let bench = Bench::running("h01-lacks", &[]).await;
    bench.class("public").await.unwrap();
    bench.held_by_an_unseen_claim().await;
    bench.address_is("a1", AddressPhase::Bound).await;
    assert!(bench.proxy.count(&reads_of_claims()) >= 1);
    assert_eq!(destroys(&bench), 0);
    bench.history().await.assert_clean();
}

/// H01: the cache has an earlier claim of that name.
#[tokio::test]
async fn h01_a_claim_that_replaced_the_one_in_the_cache_is_read() {
    let bench = Bench::running("h01-earlier", &[]).await;
    let earlier = bench.claim("web", "public").await.unwrap();
    bench.claim_is("web", address_controller::api::ClaimPhase::Pending).await;
    bench.proxy.freeze_watches("ipaddressclaims", Freeze::OpenOnes);
    force_delete(&bench.claims(), "web").await;
    let claim = bench.claim("web", "public").await.unwrap();
    assert_ne!(earlier.uid(), claim.uid());
    bench.class("public").await.unwrap();
    bench.hold_a1(&claim.uid().unwrap()).await;
    bench.address_is("a1", AddressPhase::Bound).await;
    assert_eq!(destroys(&bench), 0);
    bench.history().await.assert_clean();
}

/// H01: a driver makes an address for a claim, by its name alone, and the cache still has the claim
/// that had the name before. Completed with that one's uid, the address would be taken from the
/// claim that waits for it, and deleted.
#[rstest]
#[case::alive_in_the_cache(false)]
#[case::on_its_way_out_in_the_cache(true)]
#[tokio::test]
async fn h01_a_reservation_is_not_completed_for_an_earlier_claim_of_the_name(#[case] going: bool) {
    let bench = Bench::running("h01-reserved", &[]).await;
    bench.class("public").await.unwrap();
    let earlier = bench.claim("web", "public").await.unwrap();
    bench.claim_is("web", address_controller::api::ClaimPhase::Pending).await;
    if going {
        // Its last write is refused for as long as the cache needs to hear of the deletion.
        let unprotect = bench
            .proxy
            .rule(ours(Match::verb(Verb::Patch)).resource("ipaddressclaims"), Act::answer(500));
        bench.delete_claim("web").await;
        unprotect.reached(1, PATIENCE).await.unwrap();
        bench.proxy.freeze_watches("ipaddressclaims", Freeze::NewOnesToo);
        force_delete_marked(&bench, "web").await;
        unprotect.remove();
    } else {
        bench.proxy.freeze_watches("ipaddressclaims", Freeze::NewOnesToo);
        force_delete(&bench.claims(), "web").await;
    }
    let claim = bench.claim("web", "public").await.unwrap();
    assert_ne!(earlier.uid(), claim.uid());
    let address = make::address(&bench.name("a1"), &bench.name("public"), "192.0.2.1");
    let address = address.delete_policy().reserved_for(bench.namespace(), "web");
    bench.create(&address).await.unwrap();
    bench.address_is("a1", AddressPhase::Bound).await;
    let stored = bench.addresses().get(&bench.name("a1")).await.unwrap();
    assert_eq!(crate::support::held_by(&stored), claim.uid());
    assert_eq!(destroys(&bench), 0);
    bench.proxy.thaw_watches("ipaddressclaims");
    bench.claim_is("web", address_controller::api::ClaimPhase::Bound).await;
    bench.history().await.assert_clean();
}

/// H01: no answer is not "gone", whatever form it has.
#[rstest]
#[case::an_error(Act::answer(500))]
#[case::a_refusal(Act::answer(403))]
#[case::a_closed_connection(Act::Drop)]
#[case::silence(Act::Hold)]
#[tokio::test]
async fn h01_a_read_that_fails_is_not_a_claim_that_is_gone(#[case] act: Act) {
    let bench = Bench::running("h01-fails", &FLAGS).await;
    bench.class("public").await.unwrap();
    let failing = bench.proxy.rule(reads_of_claims(), act);
    bench.held_by_an_unseen_claim().await;
    failing.reached(3, PATIENCE).await.unwrap();
    let address = bench.addresses().get(&bench.name("a1")).await.unwrap();
    assert_eq!(address.metadata.deletion_timestamp, None);
    assert_eq!(destroys(&bench), 0);
    failing.remove();
    bench.address_is("a1", AddressPhase::Bound).await;
    assert_eq!(destroys(&bench), 0);
}

/// H01: and once the API server itself says that the claim is gone, the address is reclaimed.
#[tokio::test]
async fn h01_a_claim_that_is_gone_is_found_gone_when_the_server_says_so() {
    let bench = Bench::running("h01-gone", &FLAGS).await;
    bench.class("public").await.unwrap();
    let failing = bench.proxy.rule(reads_of_claims(), Act::answer(500));
    bench.hold_a1("a-uid-that-nobody-has").await;
    failing.reached(2, PATIENCE).await.unwrap();
    assert_eq!(destroys(&bench), 0);
    failing.remove();
    tokio::time::timeout(Duration::from_secs(30), bench.address_goes("a1")).await.unwrap();
    bench.history().await.assert_clean();
}
