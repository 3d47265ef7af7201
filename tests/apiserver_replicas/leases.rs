//! What goes wrong with Leases, and what it does not do to the work.

use std::time::Duration;

use address_controller::{
    api::{AddressPhase, ClaimPhase},
    rights::{self, CLUSTER},
};
use anyhow::ensure;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use testbed::{
    controlplane::{ADMIN_TOKEN, rule},
    eventually,
    proxy::{Act, Freeze, Match, Verb},
};

use crate::fleet::{Fleet, PATIENCE, names};

const LEADER: &str = "address-controller-leader";

fn member(identity: &str) -> String {
    format!("address-controller-member-{identity}")
}

fn left(shard: &Value) -> f64 {
    shard["memberSecondsLeft"].as_f64().unwrap_or_default()
}

/// A watch of Leases that passes nothing makes everybody else look dead. It is noticed by one's own
/// renewals, which do not come back, and nobody's buckets are seized meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_leases_that_is_silently_dead_seizes_nothing() {
    let fleet = Fleet::of("dead-watch", 3).await;
    let deaf = &fleet.replicas[0];
    deaf.proxy.forget_requests();
    deaf.proxy.freeze_watches("leases", Freeze::NewOnesToo);
    let lists = Match::verb(Verb::List).resource("leases");
    eventually(PATIENCE, "it to list again and again", || async {
        let shard = deaf.shard().await?;
        assert_eq!(names(&shard), fleet.running(), "{shard:#}");
        assert!(left(&shard) > 0.0, "its own renewals go on: {shard:#}");
        ensure!(deaf.proxy.count(&lists) >= 4, "{} lists", deaf.proxy.count(&lists));
        anyhow::Ok(())
    })
    .await;
    deaf.proxy.thaw_watches("leases");
    fleet.settle().await;
    assert!(deaf.controller().log().contains("does not show our own"));
    fleet.check().await;
}

/// Each renewal takes nearly as long as an attempt may: nothing is lost by it.
#[tokio::test(flavor = "multi_thread")]
async fn renewals_that_are_slow_and_within_their_budget_lose_nothing() {
    let fleet = Fleet::of("slow", 2).await;
    let slow = &fleet.replicas[0];
    slow.proxy.forget_requests();
    let renewals = Match::verb(Verb::Update).resource("leases");
    slow.proxy.rule(renewals.clone(), Act::Delay(Duration::from_millis(800)));
    eventually(PATIENCE, "ten slow renewals", || async {
        let shard = slow.shard().await?;
        assert!(left(&shard) > 0.0, "{shard:#}");
        ensure!(slow.proxy.count(&renewals) >= 10);
        anyhow::Ok(())
    })
    .await;
    slow.proxy.clear_rules();
    assert!(!slow.controller().log().contains("not a member"), "{}", slow.controller().log());
    fleet.check().await;
}

/// The API server answers nothing and keeps the connections open. The leader stops leading before
/// anybody follows it, its process stays, and it comes back.
#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_answers_nothing_costs_leadership_and_not_the_process() {
    let mut fleet = Fleet::of("silent", 3).await;
    let place = fleet.leader().await;
    let held = fleet.replicas[place].proxy.rule(Match::any(), Act::Hold);
    eventually(PATIENCE, "another to lead", || async {
        let mut leaders = Vec::new();
        for replica in &fleet.replicas {
            if replica.shard().await?["leads"] == true {
                leaders.push(replica.identity.clone());
            }
        }
        assert!(leaders.len() < 2, "two lead: {leaders:?}");
        let former = &fleet.replicas[place].identity;
        ensure!(leaders.len() == 1 && leaders[0] != *former, "{leaders:?}");
        anyhow::Ok(())
    })
    .await;
    held.remove();
    fleet.settle().await;
    assert!(fleet.replicas[place].controller_mut().exit_status().is_none());
    fleet.check().await;
}

/// Renewals of the leader's Lease alone are refused: it stops leading in time, and another leads
/// when the Lease has run out, though the first is a member all the while.
#[tokio::test(flavor = "multi_thread")]
async fn h03_a_leader_whose_renewals_are_refused_stops_and_is_followed() {
    let fleet = Fleet::of("refused", 3).await;
    let place = fleet.leader().await;
    let refused = Match::writes().resource("leases").name(LEADER);
    fleet.replicas[place].proxy.rule(refused, Act::answer(403));
    eventually(PATIENCE, "another to lead", || async {
        let leader = fleet.leader().await;
        ensure!(leader != place);
        anyhow::Ok(())
    })
    .await;
    assert_eq!(names(&fleet.replicas[place].shard().await.unwrap()), fleet.running());
    let log = fleet.replicas[place].controller().log();
    assert_eq!(log.matches("leader's Lease cannot be had or kept").count(), 1, "{log}");
    fleet.check().await;
}

/// Somebody empties a Lease, or deletes it, while it is held.
#[tokio::test(flavor = "multi_thread")]
async fn leases_that_are_emptied_or_deleted_while_held_are_written_anew() {
    let fleet = Fleet::of("emptied", 2).await;
    let leases = fleet.leases();
    let held = |name: &str| {
        let (leases, name) = (leases.clone(), name.to_owned());
        async move {
            eventually(PATIENCE, &format!("{name} to be held"), || async {
                let lease = leases.get(&name).await?;
                let holder = lease.spec.and_then(|s| s.holder_identity).unwrap_or_default();
                ensure!(!holder.is_empty());
                anyhow::Ok(())
            })
            .await;
        }
    };
    for name in [LEADER.to_owned(), member("replica-0")] {
        let nulls = json!({ "spec": {
            "holderIdentity": null, "leaseDurationSeconds": null, "renewTime": null,
            "acquireTime": null, "leaseTransitions": null,
        }});
        leases.patch(&name, &PatchParams::default(), &Patch::Merge(nulls)).await.unwrap();
        held(&name).await;
        leases.delete(&name, &DeleteParams::default()).await.unwrap();
        held(&name).await;
        fleet.settle().await;
    }
    fleet.check().await;
}

/// Two processes that go by one name: the later one waits and says so, and follows the first.
#[tokio::test(flavor = "multi_thread")]
async fn two_processes_with_one_identity_do_not_take_turns() {
    let mut fleet = Fleet::of("namesakes", 1).await;
    fleet.add_as("replica-0", ADMIN_TOKEN).in_pod("uid-other").start();
    eventually(PATIENCE, "the second to say what it waits for", || async {
        let (code, text) = fleet.replicas[1].controller().probe("/readyz").await?;
        ensure!(code == 503 && text.contains("another process"), "{code} {text}");
        anyhow::Ok(())
    })
    .await;
    assert!(left(&fleet.replicas[0].shard().await.unwrap()) > 0.0);
    assert!(fleet.replicas[1].shard().await.unwrap()["leads"] == false);
    fleet.replicas[0].kill();
    fleet.settle().await;
    fleet.check().await;
}

/// The rights that all replicas need, with these for Leases.
fn with_leases(leases: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut rules = rights::rules(CLUSTER);
    rules.extend(leases);
    rules
}

/// Without rights to Leases a replica holds nothing, says so, and stays; it joins when it is given
/// them.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_without_rights_to_leases_waits_for_them() {
    let mut fleet = Fleet::of("rightless", 2).await;
    let controlplane = fleet.controlplane();
    let token =
        controlplane.service_account_token("rightless", with_leases(Vec::new())).await.unwrap();
    fleet.add(&token).start();
    eventually(PATIENCE, "it to say what it lacks", || async {
        let (code, text) = fleet.replicas[2].controller().probe("/readyz").await?;
        ensure!(code == 503 && text.contains("leases"), "{code} {text}");
        anyhow::Ok(())
    })
    .await;
    fleet.class("public").await.unwrap();
    fleet.addresses_of(10).await;
    fleet.claims_of("c", 10).await;
    fleet.bound(10).await;
    let leases = rule("coordination.k8s.io", &["leases"], &["*"]);
    controlplane.service_account_token("rightless", with_leases(vec![leases])).await.unwrap();
    fleet.settle().await;
    fleet.check().await;
}

/// Nobody may hold the leader's Lease: what is `Available` is bound all the same.
#[tokio::test(flavor = "multi_thread")]
async fn claims_are_bound_while_nobody_can_lead() {
    let mut fleet = Fleet::idle("leaderless").await;
    let names: Vec<_> = (0..3).map(|n| member(&format!("replica-{n}"))).collect();
    let see = rule("coordination.k8s.io", &["leases"], &["get", "list", "watch", "create"]);
    let keep = PolicyRule {
        resource_names: Some(names),
        ..rule("coordination.k8s.io", &["leases"], &["update"])
    };
    let rules = with_leases(vec![see, keep]);
    let token = fleet.controlplane().service_account_token("leaderless", rules).await.unwrap();
    // There already, and nobody's: the right to create it is of no use.
    let lease = json!({ "metadata": { "name": LEADER, "namespace": fleet.namespace() } });
    let lease = serde_json::from_value::<k8s_openapi::api::coordination::v1::Lease>(lease).unwrap();
    fleet.create(&lease).await.unwrap();
    for _ in 0..3 {
        fleet.add(&token).start();
    }
    for replica in &mut fleet.replicas {
        replica.controller_mut().wait_ready().await.unwrap();
    }
    fleet.class("public").await.unwrap();
    fleet.addresses_of(10).await;
    for n in 0..10 {
        let available = json!({ "status": { "phase": AddressPhase::Available } });
        let name = fleet.name(&format!("a{n:04}"));
        let params = PatchParams::default();
        fleet.addresses().patch_status(&name, &params, &Patch::Merge(available)).await.unwrap();
    }
    fleet.claims_of("c", 10).await;
    fleet.bound(10).await;
    fleet.claim_is("c0000", ClaimPhase::Bound).await;
    for replica in &fleet.replicas {
        assert_eq!(replica.shard().await.unwrap()["leads"], false);
    }
}
