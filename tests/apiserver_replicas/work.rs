//! Replicas that act on what is no longer so: stopped in the middle of a write, behind a watch that
//! lags, or on one claim with another.

use std::time::Duration;

use address_controller::api::{AddressPhase, ClaimPhase, IPAddressClaim};
use anyhow::ensure;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use testbed::{
    eventually,
    make::{self, MakeAddress},
    proxy::{Act, Freeze, Match, Verb},
};

use crate::fleet::{Fleet, PATIENCE};

/// The leader stands still in the middle of a write, others take over and go on, and then the write
/// arrives after all: it is refused, and the process does not go on where it stood.
#[tokio::test(flavor = "multi_thread")]
async fn h03_a_leader_that_stood_still_writes_nothing_old() {
    let fleet = Fleet::of("stalled", 3).await;
    fleet.class("public").await.unwrap();
    let place = fleet.leader().await;
    let stalled = &fleet.replicas[place];
    let write = Match::verb(Verb::Patch).resource("ipaddresses");
    let held = stalled.proxy.rule(write.clone().times(1), Act::Hold);
    fleet.address("a1", "public", "192.0.2.1").await.unwrap();
    held.reached(1, PATIENCE).await.unwrap();
    stalled.controller().sigstop();
    fleet.address_is("a1", AddressPhase::Available).await;
    fleet.claim("web", "public").await.unwrap();
    let claim = fleet.claims().get("web").await.unwrap();
    if Fleet::holder(&fleet.running(), &claim) != stalled.identity {
        fleet.claim_is("web", ClaimPhase::Bound).await;
    }
    held.release();
    stalled.controller().sigcont();
    fleet.settle().await;
    fleet.claim_is("web", ClaimPhase::Bound).await;
    let late: Vec<_> = stalled.proxy.matching(&write);
    assert!(late.iter().any(|r| r.status == Some(409)), "{late:#?}");
    fleet.check().await;
}

/// B01: for each address two claims of different namespaces, on three replicas whose writes are
/// delayed at random: one of the two has it, and the other waits without an error.
#[tokio::test(flavor = "multi_thread")]
async fn b01_of_two_claims_for_one_address_one_has_it() {
    const COUNT: usize = 200;
    let fleet = Fleet::of("b01", 3).await;
    fleet.class("public").await.unwrap();
    for (n, replica) in fleet.replicas.iter().enumerate() {
        for delay in 1..5 {
            let nth = move |r: &testbed::proxy::Request| {
                r.name.bytes().map(usize::from).sum::<usize>() % 5 == delay
            };
            let writes = Match::writes().resource("ipaddresses").when(nth);
            let delay = Duration::from_millis((delay * 7 + n * 3) as u64);
            replica.proxy.rule(writes, Act::Delay(delay));
        }
    }
    fleet.addresses_of(COUNT).await;
    fleet.claims_of("one-", COUNT).await;
    fleet.claims_of("two-", COUNT).await;
    fleet.bound(COUNT).await;
    for replica in &fleet.replicas {
        replica.proxy.clear_rules();
        let log = replica.controller().log();
        assert!(!log.contains("\"ERROR\""), "{log}");
    }
    fleet.check().await;
}

/// H05: two that both believe that a claim is theirs, one of them blind for the address that the
/// other has just bound. In the end the claim has exactly one.
#[tokio::test(flavor = "multi_thread")]
async fn h05_one_claim_on_two_replicas_gets_one_address() {
    let fleet = Fleet::without_leases("h05", 2).await;
    fleet.class("public").await.unwrap();
    for round in 0..10 {
        let address = |short: &str, n: u8| {
            let (short, ip) = (format!("r{round}-{short}"), format!("10.1.{round}.{n}"));
            let fleet = &fleet;
            async move { fleet.address(&short, "public", &ip).await.unwrap() }
        };
        address("b", 2).await;
        fleet.address_is(&format!("r{round}-b"), AddressPhase::Available).await;
        fleet.replicas[1].proxy.freeze_watches("ipaddresses", Freeze::OpenOnes);
        address("a", 1).await;
        fleet.claim(&format!("c{round}"), "public").await.unwrap();
        let claim = fleet.claim_is(&format!("c{round}"), ClaimPhase::Bound).await;
        fleet.replicas[1].proxy.thaw_watches("ipaddresses");
        assert_eq!(claim.status.unwrap().addresses.len(), 1);
    }
    let history = fleet.check().await;
    assert!(!history.changes.is_empty());
    for round in 0..10 {
        let claim = fleet.claims().get(&format!("c{round}")).await.unwrap();
        assert_eq!(claim.status.unwrap().addresses.len(), 1, "c{round}");
    }
}

/// A claim for class `public`, as soon as an earlier one of its name is gone.
async fn again(fleet: &Fleet, name: &str) -> IPAddressClaim {
    eventually(PATIENCE, "the name to be free", || fleet.claim(name, "public")).await
}

/// H01: the leader's watch of claims is dead. A claim was deleted and made again under the same name,
/// and an address of policy `Delete` names the new one: it is neither deleted nor released.
#[tokio::test(flavor = "multi_thread")]
async fn h01_a_leader_behind_reads_before_it_destroys() {
    let fleet = Fleet::of("h01", 3).await;
    fleet.class("public").await.unwrap();
    let leader = fleet.leader().await;
    // Another replica's claim: its own the leader would not let go while it is blind.
    let first = loop {
        let claim = again(&fleet, "web").await;
        if Fleet::holder(&fleet.running(), &claim) != fleet.replicas[leader].identity {
            break claim;
        }
        fleet.claims().delete("web", &DeleteParams::default()).await.unwrap();
    };
    fleet.claim_is("web", ClaimPhase::Pending).await;
    fleet.replicas[leader].proxy.freeze_watches("ipaddressclaims", Freeze::NewOnesToo);
    fleet.claims().delete("web", &DeleteParams::default()).await.unwrap();
    let second = again(&fleet, "web").await;
    assert_ne!(first.metadata.uid, second.metadata.uid);
    let uid = second.metadata.uid.clone().unwrap();
    let address = make::address(&fleet.name("a1"), &fleet.name("public"), "192.0.2.1")
        .delete_policy()
        .bound_to(fleet.namespace(), "web", &uid);
    fleet.create(&address).await.unwrap();
    fleet.address_is("a1", AddressPhase::Bound).await;
    fleet.replicas[leader].proxy.thaw_watches("ipaddressclaims");
    fleet.claim_is("web", ClaimPhase::Bound).await;
    let deletes = Match::verb(Verb::Delete).resource("ipaddresses");
    let sent: usize = fleet.replicas.iter().map(|r| r.proxy.count(&deletes)).sum();
    assert_eq!(sent, 0);
    fleet.check().await;
}

/// B11: a driver reports a conflict while the leader is about to write its own phase, and the leader
/// dies over it: the driver's phase stays, whoever leads, until the driver clears it.
#[tokio::test(flavor = "multi_thread")]
async fn b11_a_drivers_phase_outlives_a_change_of_leaders() {
    let mut fleet = Fleet::of("b11", 3).await;
    fleet.class("public").await.unwrap();
    let leader = fleet.leader().await;
    let write = Match::verb(Verb::Patch).resource("ipaddresses/status");
    let held = fleet.replicas[leader].proxy.rule(write, Act::Hold);
    fleet.address("a1", "public", "192.0.2.1").await.unwrap();
    held.reached(1, PATIENCE).await.unwrap();
    let (addresses, name) = (fleet.addresses(), fleet.name("a1"));
    let drive = |phase: Option<AddressPhase>| {
        let (addresses, name) = (addresses.clone(), name.clone());
        let status = json!({ "status": {
            "phase": phase, "associatedTo": { "kind": "Service", "namespace": "t1", "name": "lb" },
        }});
        async move {
            let patch = Patch::Merge(status);
            addresses.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
        }
    };
    drive(Some(AddressPhase::Conflict)).await;
    held.release();
    fleet.replicas[leader].kill();
    fleet.settle().await;
    fleet.check().await;
    let address = fleet.address_is("a1", AddressPhase::Conflict).await;
    assert!(address.status.unwrap().associated_to.is_some());
    drive(None).await;
    fleet.address_is("a1", AddressPhase::Available).await;
    fleet.check().await;
}

/// H04: the API server itself goes and comes back under three replicas with work in hand.
#[tokio::test(flavor = "multi_thread")]
async fn h04_an_api_server_that_restarts_is_waited_for_by_all() {
    let fleet = Fleet::of("h04", 3).await;
    fleet.class("public").await.unwrap();
    fleet.addresses_of(60).await;
    fleet.claims_of("c", 30).await;
    fleet.controlplane().stop_apiserver();
    eventually(PATIENCE, "all to be without membership", || async {
        for replica in &fleet.replicas {
            let shard = replica.shard().await?;
            ensure!(shard["memberSecondsLeft"] == 0.0 && shard["leads"] == false, "{shard:#}");
        }
        anyhow::Ok(())
    })
    .await;
    fleet.controlplane().restart_apiserver().await.unwrap();
    fleet.settle().await;
    fleet.claims_of("d", 30).await;
    fleet.bound(60).await;
    fleet.check().await;
}
