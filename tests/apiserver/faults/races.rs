//! Others act between the controller's read and its write.

use address_controller::api::{AddressPhase, ClaimFamily, ClaimPhase, well_known::CLAIM_FINALIZER};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use testbed::{
    eventually,
    make::{self, Make, MakeAddress, MakeClaim},
    proxy::{Act, Freeze, Match, RuleHandle, Verb},
};

use crate::{
    scenarios::DRIVERS,
    support::{Bench, PATIENCE, force_delete, held_by, ours, uid},
};

fn patches(resource: &str) -> Match {
    ours(Match::verb(Verb::Patch)).resource(resource)
}

impl Bench {
    /// A class `public` and a free address `a1` of it.
    async fn free_address(&self) {
        self.class("public").await.unwrap();
        self.address("a1", "public", "192.0.2.1").await.unwrap();
        self.address_is("a1", AddressPhase::Available).await;
        self.at_rest().await;
    }

    /// A claim `web`, with the first write to this resource that follows from it stopped.
    async fn claim_stopped_at(&self, resource: &str, act: Act) -> RuleHandle {
        let held = self.proxy.rule(patches(resource).times(1), act);
        self.claim("web", "public").await.unwrap();
        held.reached(1, PATIENCE).await.unwrap();
        held
    }

    /// What a driver does when its backend is torn down: its own finalizer goes from an address.
    async fn tear_down(&self, short: &str) {
        let (addresses, name) = (self.addresses(), self.name(short));
        // On the version that it read: the controller may take its own finalizer off meanwhile.
        eventually(PATIENCE, "the driver's finalizer to go", || async {
            let address = addresses.get(&name).await?;
            let mut finalizers = address.finalizers().to_vec();
            finalizers.retain(|f| f != DRIVERS);
            let version = address.resource_version();
            let metadata = json!({ "finalizers": finalizers, "resourceVersion": version });
            let without = Patch::Merge(json!({ "metadata": metadata }));
            addresses.patch(&name, &PatchParams::default(), &without).await
        })
        .await;
    }

    /// Waits until a patch of ours has been answered like this.
    async fn answered(&self, resource: &str, status: u16) {
        let patches = patches(resource);
        eventually(PATIENCE, &format!("{resource}: {status}"), || async {
            self.proxy.matching(&patches).iter().any(|r| r.status == Some(status))
        })
        .await;
    }
}

/// B06: the claim is gone before its finalizer is written: nothing is bound for it.
#[tokio::test]
async fn b06_a_claim_that_goes_before_it_is_protected_gets_no_address() {
    let bench = Bench::running("b06-before", &[]).await;
    bench.free_address().await;
    let held = bench.claim_stopped_at("ipaddressclaims", Act::Hold).await;
    bench.delete_claim("web").await;
    bench.claim_goes("web").await;
    let first = bench.writes().len();
    held.release();
    bench.answered("ipaddressclaims", 404).await;
    bench.at_rest().await;
    assert_eq!(bench.writes().len(), first, "{:#?}", bench.writes());
    let address = bench.address_is("a1", AddressPhase::Available).await;
    assert!(address.spec.claim_ref.is_none());
    bench.history().await.assert_clean();
}

/// B06: the claim is deleted while the write that binds its address is under way, and neither the
/// answer to it nor the address's watch is heard: what was selected is read before the claim goes.
#[tokio::test]
async fn b06_a_claim_deleted_during_its_bind_gives_the_address_back() {
    let bench = Bench::running("b06-during", &["--request-timeout=1s"]).await;
    bench.free_address().await;
    bench.proxy.freeze_watches("ipaddresses", Freeze::NewOnesToo);
    let _held = bench.claim_stopped_at("ipaddresses", Act::HoldAnswer).await;
    let claim = bench.claims().get("web").await.unwrap();
    assert!(claim.finalizers().iter().any(|f| f == CLAIM_FINALIZER));
    bench.delete_claim("web").await;
    bench.claim_goes("web").await;
    let address = bench.address_is("a1", AddressPhase::Released).await;
    assert_eq!(held_by(&address), uid(&claim));
    assert!(bench.proxy.count(&ours(Match::verb(Verb::Get)).resource("ipaddresses")) >= 1);
    bench.history().await.assert_clean();
}

/// B06: the claim vanishes although it was protected; the address that was bound to it meanwhile is
/// reclaimed by its own pass. No finalizer is offered to what is being deleted.
#[tokio::test]
async fn b06_a_claim_that_vanishes_during_its_bind_leaves_nothing_behind() {
    let bench = Bench::running("b06-vanished", &[]).await;
    bench.free_address().await;
    let held = bench.claim_stopped_at("ipaddresses", Act::Hold).await;
    let claim = bench.claims().get("web").await.unwrap();
    force_delete(&bench.claims(), "web").await;
    held.release();
    let address = bench.address_is("a1", AddressPhase::Released).await;
    assert_eq!(held_by(&address), uid(&claim));
    let refused: Vec<_> = bench.writes().into_iter().filter(|r| r.status == Some(422)).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

/// B07: of two addresses one is deleted and has a driver's finalizer, the other is released, and that
/// write fails once: the claim stays until both are done, and each is told of once.
#[tokio::test]
async fn b07_a_reclaim_that_fails_half_way_is_finished_by_the_next_pass() {
    let bench = Bench::running("b07", &[]).await;
    let class = bench.class("public").await.unwrap().name_any();
    let a4 = make::address(&bench.name("a4"), &class, "192.0.2.4");
    bench.create(&a4.delete_policy().finalizer(DRIVERS)).await.unwrap();
    bench.address("a6", "public", "2001:db8::6").await.unwrap();
    for short in ["a4", "a6"] {
        bench.address_is(short, AddressPhase::Available).await;
    }
    let claim = make::claim(bench.namespace(), "web", &class).family(ClaimFamily::Dual);
    bench.create(&claim).await.unwrap();
    for short in ["a4", "a6"] {
        bench.address_is(short, AddressPhase::Bound).await;
    }
    bench.at_rest().await;
    let releases = patches("ipaddresses/status").name(&bench.name("a6"));
    let failing = bench.proxy.rule(releases.clone().times(1), Act::answer(500));
    let second = bench.proxy.rule(releases, Act::Hold);
    bench.delete_claim("web").await;
    failing.reached(1, PATIENCE).await.unwrap();
    bench.tear_down("a4").await;
    let claim = bench.claims().get("web").await.unwrap();
    assert!(claim.finalizers().iter().any(|f| f == CLAIM_FINALIZER), "it went after the first try");
    second.reached(1, PATIENCE).await.unwrap();
    second.release();
    bench.claim_goes("web").await;
    bench.address_goes("a4").await;
    bench.address_is("a6", AddressPhase::Released).await;
    bench.history().await.assert_clean();
    for (short, reason) in [("a4", "AddressDeleted"), ("a6", "AddressReleased")] {
        let told = bench.events("default", &bench.name(short)).await;
        let count = told.iter().filter(|told| *told == reason).count();
        assert_eq!(count, 1, "{short}: {told:?}");
    }
}

/// B11: a driver calls a conflict and attaches the address between our read and our write: our write
/// is refused, and both are left alone; when the driver takes it back, all is bound again.
#[tokio::test]
async fn b11_a_drivers_phase_stands_against_ours() {
    let bench = Bench::running("b11", &[]).await;
    bench.free_address().await;
    let held = bench.claim_stopped_at("ipaddresses/status", Act::Hold).await;
    let attached = json!({ "kind": "Service", "namespace": "t1", "name": "web" });
    bench.drive("a1", json!({ "phase": "Conflict", "associatedTo": attached })).await;
    held.release();
    bench.answered("ipaddresses/status", 409).await;
    bench.at_rest().await;
    let address = bench.address_is("a1", AddressPhase::Conflict).await;
    let status = serde_json::to_value(&address.status).unwrap();
    assert_eq!(status["associatedTo"], attached);
    // Conflict satisfies the family, Lost does not.
    bench.claim_is("web", ClaimPhase::Bound).await;
    bench.drive("a1", json!({ "phase": "Lost" })).await;
    bench.claim_is("web", ClaimPhase::Lost).await;
    bench.drive("a1", json!({ "phase": null })).await;
    bench.claim_is("web", ClaimPhase::Bound).await;
    let address = bench.address_is("a1", AddressPhase::Bound).await;
    let status = serde_json::to_value(&address.status).unwrap();
    assert_eq!(status["associatedTo"], attached);
    bench.history().await.assert_clean();
}

/// B08: in a namespace that terminates, events about claims are refused; binding and reclaim are not
/// disturbed, with the class missing and with the class deleted since.
#[tokio::test]
async fn b08_refused_events_keep_no_claim_from_going() {
    let bench = Bench::running("b08", &[]).await;
    bench.bound().await;
    for (claim, class) in [("waits", "late"), ("never", "absent")] {
        bench.claim(claim, class).await.unwrap();
        bench.claim_is(claim, ClaimPhase::Pending).await;
    }
    bench.classes().delete(&bench.name("public"), &DeleteParams::default()).await.unwrap();
    // No namespace controller runs here: it stays as it is then.
    let namespaces: Api<Namespace> = Api::all(bench.client());
    namespaces.delete(bench.namespace(), &DeleteParams::default()).await.unwrap();

    bench.class("late").await.unwrap();
    bench.address("a2", "late", "192.0.2.2").await.unwrap();
    bench.claim_is("waits", ClaimPhase::Bound).await;
    let namespace = bench.namespace().to_owned();
    let refused = Match::verb(Verb::Create)
        .resource("events")
        .when(move |r| r.namespace == namespace && r.status == Some(403));
    bench.proxy.wait_for(&refused, 1, PATIENCE).await.unwrap();
    for claim in ["web", "waits", "never"] {
        bench.delete_claim(claim).await;
    }
    for claim in ["web", "waits", "never"] {
        bench.claim_goes(claim).await;
    }
    for short in ["a1", "a2"] {
        bench.address_is(short, AddressPhase::Released).await;
        // Elsewhere events are still taken.
        let (bench, name) = (&bench, &bench.name(short));
        eventually(PATIENCE, "the event of the release", || async {
            bench.events("default", name).await.iter().any(|reason| reason == "AddressReleased")
        })
        .await;
    }
    let classes = ours(Match::verb(Verb::Get)).resource("ipaddressclasses");
    assert_eq!(bench.proxy.count(&classes), 0);
    bench.history().await.assert_clean();
}
