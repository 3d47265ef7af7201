//! A claim edited after it was bound: what it holds stays, and what it asks for more is matched.

use address_controller::api::{AddressPhase, ClaimPhase, IPAddressClaim};
use serde_json::json;

use crate::support::{Corner, phase_of, shown};

#[tokio::test]
async fn a_bound_claim_widened_to_dual_keeps_its_half_and_gets_the_other() {
    let corner = Corner::new("widened").await;
    let (before, _) = corner.bound().await;
    corner.edit_claim("web", json!({ "spec": { "family": "Dual" } })).await;
    corner.claim_is("web", ClaimPhase::Lost).await;
    corner.address("b1", "public", &corner.v6(1)).await.unwrap();
    let (_, claim) = corner.bound_to("web", "b1").await;
    assert_eq!(shown(&claim), [corner.name("a1"), corner.name("b1")]);
    assert_eq!(
        corner.see_address("a1").await.metadata.resource_version,
        before.metadata.resource_version
    );
    corner.end().await;
}

#[tokio::test]
async fn a_claim_that_changes_its_family_gets_the_other_and_keeps_the_one() {
    let corner = Corner::new("family").await;
    corner.bound().await;
    corner.address("b1", "public", &corner.v6(1)).await.unwrap();
    corner.edit_claim("web", json!({ "spec": { "family": "IPv6" } })).await;
    let (_, claim) = corner.bound_to("web", "b1").await;
    assert_eq!(shown(&claim), [corner.name("a1"), corner.name("b1")]);
    corner.address_is("a1", AddressPhase::Bound).await;
    corner.end().await;
}

/// Class and pin count for what is missing, and nothing is.
#[tokio::test]
async fn a_bound_claim_does_not_move_when_class_or_pin_change() {
    let corner = Corner::new("edited").await;
    corner.class("other").await.unwrap();
    corner.bound().await;
    for (short, class, n) in [("a2", "public", 2), ("o1", "other", 3)] {
        corner.address(short, class, &corner.v4(n)).await.unwrap();
        corner.address_is(short, AddressPhase::Available).await;
    }
    let spec = json!({ "className": corner.name("other"), "addressName": corner.name("a2") });
    let edited = corner.edit_claim("web", json!({ "spec": spec })).await;
    let generation = edited.metadata.generation;
    let observed = |c: &IPAddressClaim| {
        c.status.iter().flat_map(|s| &s.conditions).any(|o| o.observed_generation == generation)
    };
    corner.claim_when("web", "observed", observed).await;
    let (_, claim) = corner.bound_to("web", "a1").await;
    assert_eq!(shown(&claim), [corner.name("a1")]);
    let class = claim.status.and_then(|s| s.class_name);
    assert_eq!(class, Some(corner.name("public")), "the class that it resolved to");
    for free in ["a2", "o1"] {
        assert_eq!(phase_of(&corner.see_address(free).await), Some(AddressPhase::Available));
    }
    corner.end().await;
}
