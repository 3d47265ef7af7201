//! What is seen of a binding: status, columns and events; and that nothing is written twice.

use std::collections::BTreeMap;

use address_controller::api::{AddressPhase, ClaimPhase, ConditionType};
use kube::ResourceExt;
use serde_json::{Value, json};
use testbed::make::MakeAddress;

use crate::support::{Corner, condition, uid};

/// Phase, class, addresses, and conditions that say which edit they speak of.
#[tokio::test]
async fn a_claims_status_says_all_of_it() {
    let corner = Corner::new("status").await;
    let (_, claim) = corner.bound().await;
    let status = claim.status.clone().unwrap();
    assert_eq!(status.class_name, Some(corner.name("public")));
    let [shown] = &status.addresses[..] else { panic!("{:?}", status.addresses) };
    assert_eq!((&shown.name, &shown.address), (&corner.name("a1"), &corner.v4(1)));
    for (kind, reason) in
        [(ConditionType::ClassResolved, "Resolved"), (ConditionType::Bound, "Bound")]
    {
        let condition = condition(&claim, kind);
        assert_eq!((&*condition.status, &*condition.reason), ("True", reason));
        assert_eq!(condition.observed_generation, Some(1));
    }
    assert!(condition(&claim, ConditionType::Bound).message.contains(&corner.v4(1)));

    let since = condition(&claim, ConditionType::Bound).last_transition_time;
    corner.edit_claim("web", json!({ "spec": { "className": "gone" } })).await;
    let observed = |c: &_| condition(c, ConditionType::Bound).observed_generation == Some(2);
    let edited = corner.claim_when("web", "observed", observed).await;
    assert_eq!(condition(&edited, ConditionType::Bound).last_transition_time, since);
    corner.end().await;
}

/// The answer that `kubectl get` asks for, as one row of cells by column.
async fn row(corner: &Corner, path: &str) -> BTreeMap<String, Value> {
    let request = http::Request::get(format!("/apis/local.sdn.cozystack.io/v1alpha1/{path}"))
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
    let table: Value = corner.client().request(request).await.unwrap();
    let names = table["columnDefinitions"].as_array().unwrap().iter();
    let names = names.map(|c| c["name"].as_str().unwrap().to_owned());
    names.zip(table["rows"][0]["cells"].as_array().unwrap().iter().cloned()).collect()
}

#[tokio::test]
async fn kubectl_shows_who_has_what() {
    let corner = Corner::new("columns").await;
    corner.bound().await;
    let user = json!({ "associatedTo": { "kind": "Service", "namespace": "x", "name": "front" } });
    corner.driver_says("a1", user).await;
    let claims = format!("namespaces/{}/ipaddressclaims/web", corner.namespace());
    let claim = row(&corner, &claims).await;
    assert_eq!(claim["Phase"], "Bound");
    assert_eq!(claim["Class"], json!(corner.name("public")));
    assert!(claim["Addresses"].to_string().contains(&corner.v4(1)), "{claim:?}");
    let address = row(&corner, &format!("ipaddresses/{}", corner.name("a1"))).await;
    let cells = ["Address", "Phase", "ClaimNamespace", "Claim", "AttachedTo"].map(|c| &address[c]);
    assert_eq!(cells, [&corner.v4(1), "Bound", corner.namespace(), "web", "front"]);
    corner.end().await;
}

/// O01: one event for each thing that happened, on the object that it happened to.
#[tokio::test]
async fn o01_a_life_is_told_once() {
    let corner = Corner::new("o01").await;
    let claim = corner.claim("web", "public").await.unwrap();
    corner.waits_because("web", &["is asked to provision"]).await;
    corner.address("a1", "public", &corner.v4(1)).await.unwrap();
    let (address, _) = corner.bound_to("web", "a1").await;
    for n in 0..5 {
        let touched = json!({ "metadata": { "annotations": { "n": n.to_string() } } });
        corner.edit_claim("web", touched.clone()).await;
        corner.edit_address("a1", touched).await;
        corner.seen_to().await;
    }
    corner.delete_claim("web").await;
    corner.claim_gone("web").await;
    corner.address_is("a1", AddressPhase::Released).await;
    corner.events_are_out().await;

    let told = |events: &[k8s_openapi::api::core::v1::Event]| {
        let mut reasons: Vec<_> = events.iter().filter_map(|e| e.reason.clone()).collect();
        reasons.sort();
        reasons
    };
    let of_claim = corner.events(&claim).await;
    assert_eq!(told(&of_claim), ["Matched", "Pending"]);
    let matched = of_claim.iter().find(|e| e.reason.as_deref() == Some("Matched")).unwrap();
    let related = matched.related.as_ref().expect("the address that it was matched to");
    assert_eq!((&related.uid, &related.name), (&address.uid(), &Some(corner.name("a1"))));
    assert!(matched.message.as_ref().unwrap().contains(&corner.v4(1)));
    let of_address = corner.events(&address).await;
    assert_eq!(told(&of_address), ["AddressReleased"]);
    assert_eq!(of_address[0].related.as_ref().unwrap().uid, uid(&claim));
    corner.end().await;
}

/// O02: objects in every phase, looked at again and again: not one write.
#[tokio::test]
async fn o02_a_settled_object_costs_nothing() {
    let corner = Corner::new("o02").await;
    corner.bound().await;
    for (n, short) in [(2, "conflict"), (3, "lost"), (4, "released"), (5, "reserved"), (7, "kept")]
    {
        let made = corner.new_address(short, &corner.v4(n));
        corner.create(&made.reserved_for(corner.namespace(), short)).await.unwrap();
    }
    for claim in ["conflict", "lost", "released", "kept"] {
        corner.claim(claim, "public").await.unwrap();
        corner.bound_to(claim, claim).await;
    }
    corner.claim("waiting", "public").await.unwrap();
    corner.claim("classless", "missing").await.unwrap();
    corner.waits_because("waiting", &["is asked to provision"]).await;
    corner.waits_because("classless", &["the class is not resolved"]).await;
    corner.address("invalid", "public", "203.0.113.7/32").await.unwrap();
    corner.address("free", "elsewhere", &corner.v4(6)).await.unwrap();
    corner.driver_says("conflict", json!({ "phase": "Conflict" })).await;
    corner.driver_says("lost", json!({ "phase": "Lost" })).await;
    corner.claim_is("lost", ClaimPhase::Lost).await;
    corner.delete_claim("released").await;
    corner.claim_gone("released").await;
    corner.delete_address("kept").await;
    corner.address_is("released", AddressPhase::Released).await;
    corner.address_is("reserved", AddressPhase::Pending).await;
    corner.address_is("free", AddressPhase::Available).await;
    for _ in 0..2 {
        corner.seen_to().await;
    }

    let before = corner.writes().await;
    for n in 0..5 {
        let touched = json!({ "metadata": { "annotations": { "n": n.to_string() } } });
        for claim in ["web", "conflict", "lost", "waiting", "classless", "kept"] {
            corner.edit_claim(claim, touched.clone()).await;
        }
        for short in ["a1", "conflict", "lost", "released", "reserved", "invalid", "free", "kept"] {
            corner.edit_address(short, touched.clone()).await;
        }
    }
    corner.seen_to().await;
    let after = corner.writes().await;
    assert_eq!(after[before.len()..], [] as [String; 0]);
    corner.end().await;
}
