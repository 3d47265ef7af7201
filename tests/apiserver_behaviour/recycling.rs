//! What becomes of an address that was released, and who may have it.

use address_controller::api::{AddressPhase, ClaimPhase};
use kube::ResourceExt;
use serde_json::json;

use crate::support::{Corner, held_by, phase_of, uid};

impl Corner {
    /// `a1`, released by the claim `web`, which is gone. Gives that claim's uid.
    async fn released(&self) -> Option<String> {
        let (_, claim) = self.bound().await;
        self.delete_claim("web").await;
        self.claim_gone("web").await;
        self.address_is("a1", AddressPhase::Released).await;
        self.seen_to().await;
        uid(&claim)
    }
}

#[tokio::test]
async fn clearing_the_claim_ref_makes_a_released_address_available() {
    let corner = Corner::new("recycle").await;
    corner.released().await;
    corner.edit_address("a1", json!({ "spec": { "claimRef": null } })).await;
    corner.address_is("a1", AddressPhase::Available).await;
    corner.claim("api", "public").await.unwrap();
    corner.bound_to("api", "a1").await;
    corner.end().await;
}

/// B03, the whole claimRef: nobody takes it, not the next claim of that name either, and nobody
/// writes to it.
#[tokio::test]
async fn b03_a_released_address_is_nobodys() {
    let corner = Corner::new("b03-full").await;
    let first = corner.released().await;
    let before = corner.see_address("a1").await;
    for claim in ["web", "api"] {
        corner.claim(claim, "public").await.unwrap();
        corner.waits_because(claim, &["IPv4 is missing", "is free"]).await;
    }
    corner.seen_to().await;
    let after = corner.see_address("a1").await;
    assert_eq!(after.resource_version(), before.resource_version());
    assert_eq!(held_by(&after), first);
    corner.end().await;
}

/// B03, only the uid removed: the claim of that name may have it, and nobody else.
#[tokio::test]
async fn b03_without_its_uid_it_is_for_the_next_claim_of_that_name() {
    let corner = Corner::new("b03-no-uid").await;
    let first = corner.released().await;
    corner.claim("api", "public").await.unwrap();
    corner.waits_because("api", &["is free"]).await;
    corner.edit_address("a1", json!({ "spec": { "claimRef": { "uid": null } } })).await;
    corner.seen_to().await;
    assert_eq!(phase_of(&corner.see_address("a1").await), Some(AddressPhase::Released));
    corner.claim("web", "public").await.unwrap();
    let (address, claim) = corner.bound_to("web", "a1").await;
    assert_eq!(held_by(&address), uid(&claim));
    assert_ne!(held_by(&address), first);
    assert_eq!(corner.see_claim("api").await.status.unwrap().phase, Some(ClaimPhase::Pending));
    corner.end().await;
}

/// B03, the claimRef removed: exactly one of two that wait.
#[tokio::test]
async fn b03_without_its_claim_ref_it_is_for_one_of_those_who_wait() {
    let corner = Corner::new("b03-none").await;
    corner.released().await;
    for claim in ["one", "two"] {
        corner.claim(claim, "public").await.unwrap();
        corner.waits_because(claim, &["is free"]).await;
    }
    corner.edit_address("a1", json!({ "spec": { "claimRef": null } })).await;
    let address = corner.address_is("a1", AddressPhase::Bound).await;
    let winner = address.spec.claim_ref.unwrap().name;
    let loser = if winner == "one" { "two" } else { "one" };
    corner.bound_to(&winner, "a1").await;
    corner.seen_to().await;
    corner.waits_because(loser, &["is free"]).await;
    corner.end().await;
}

/// Deleted and created again with the same name: the new claim is another one, and what the old one
/// held is not its own.
#[tokio::test]
async fn a_namesake_is_another_claim() {
    let corner = Corner::new("namesake").await;
    corner.bound().await;
    corner.address("a2", "public", &corner.v4(2)).await.unwrap();
    corner.address_is("a2", AddressPhase::Available).await;
    corner.delete_claim("web").await;
    corner.claim_gone("web").await;
    corner.claim("web", "public").await.unwrap();
    corner.bound_to("web", "a2").await;
    let released = corner.address_is("a1", AddressPhase::Released).await;
    assert_ne!(held_by(&released), uid(&corner.see_claim("web").await));
    corner.end().await;
}
