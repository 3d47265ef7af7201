//! An address that a live claim holds cannot be deleted from under it.

use address_controller::api::{AddressPhase, ClaimPhase, IPAddress, well_known::ADDRESS_FINALIZER};
use kube::ResourceExt;
use serde_json::json;
use testbed::make::{Make, MakeAddress};

use crate::support::{Corner, held_by, phase_of, shown, uid};

const DRIVERS: &str = "driver.example.org/teardown";

fn protected(address: &IPAddress) -> bool {
    address.finalizers().iter().any(|f| f == ADDRESS_FINALIZER)
}

impl Corner {
    /// Wakes an address and its claim a few times by edits that mean nothing.
    async fn wake(&self, short: &str, claim: &str) {
        for n in 0..3 {
            let touched =
                json!({ "metadata": { "annotations": { "example.org/n": n.to_string() } } });
            self.edit_address(short, touched.clone()).await;
            self.edit_claim(claim, touched).await;
            self.seen_to().await;
        }
    }
}

/// B09, and O01 of it: it stays, the claim stays `Bound` and is given nothing else, one event over
/// many looks; and both go when the claim is deleted, but for what the driver holds.
#[tokio::test]
async fn b09_an_address_deleted_before_its_claim_stays_until_the_claim_goes() {
    let corner = Corner::new("b09").await;
    let made = corner.new_address("a1", &corner.v4(1)).finalizer(DRIVERS);
    corner.create(&made).await.unwrap();
    corner.claim("web", "public").await.unwrap();
    let (address, _) = corner.bound_to("web", "a1").await;
    corner.address("a2", "public", &corner.v4(2)).await.unwrap();
    corner.address_is("a2", AddressPhase::Available).await;

    corner.delete_address("a1").await;
    corner.events_of(&address, "DeletionBlocked").await;
    corner.wake("a1", "web").await;
    let claim = corner.see_claim("web").await;
    assert_eq!(claim.status.as_ref().unwrap().phase, Some(ClaimPhase::Bound));
    assert_eq!(shown(&claim), [corner.name("a1")]);
    assert!(protected(&corner.see_address("a1").await));
    let free = corner.see_address("a2").await;
    assert_eq!((phase_of(&free), free.spec.claim_ref), (Some(AddressPhase::Available), None));
    corner.events_are_out().await;
    assert_eq!(corner.events_of(&address, "DeletionBlocked").await.len(), 1);

    corner.delete_claim("web").await;
    corner.claim_gone("web").await;
    let left = |a: &IPAddress| a.finalizers().iter().eq([DRIVERS]);
    corner.address_when("a1", "left to its driver", left).await;
    corner.edit_address("a1", json!({ "metadata": { "finalizers": null } })).await;
    corner.address_gone("a1").await;
    corner.end().await;
}

/// X3: `claimRef` and uid are there and the phase is not `Bound` yet, here for good, because a
/// driver says `Conflict`. What counts is who holds the address.
#[tokio::test]
async fn x3_an_address_that_is_held_and_not_yet_bound_is_not_deleted() {
    let corner = Corner::new("x3").await;
    corner.claim("web", "public").await.unwrap();
    let claim = corner.waits_because("web", &["IPv4 is missing"]).await;
    let made = corner.new_address("a1", &corner.v4(1)).finalizer(ADDRESS_FINALIZER);
    let made = made.bound_to(corner.namespace(), "web", &uid(&claim).unwrap());
    // Created and deleted at once: whatever the controller has come to by then, it is held.
    corner.create(&made).await.unwrap();
    corner.delete_address("a1").await;
    let address = corner.see_address("a1").await;
    corner.events_of(&address, "DeletionBlocked").await;
    corner.driver_says("a1", json!({ "phase": "Conflict" })).await;
    corner.wake("a1", "web").await;
    let address = corner.see_address("a1").await;
    assert!(protected(&address));
    assert_eq!(held_by(&address), uid(&claim));
    let claim = corner.claim_is("web", ClaimPhase::Bound).await;
    assert_eq!(shown(&claim), [corner.name("a1")]);
    corner.delete_claim("web").await;
    corner.address_gone("a1").await;
    corner.claim_gone("web").await;
    corner.end().await;
}

/// What nobody holds goes at once: free, released, or lost according to its driver.
#[tokio::test]
async fn an_address_that_nobody_holds_goes() {
    let corner = Corner::new("unheld").await;
    corner.free(2).await;
    corner.claim("web", "public").await.unwrap();
    corner.bound_to("web", "a1").await;
    corner.delete_claim("web").await;
    corner.address_is("a1", AddressPhase::Released).await;
    for short in ["a1", "a2"] {
        assert!(protected(&corner.see_address(short).await));
        corner.delete_address(short).await;
        corner.address_gone(short).await;
    }
    corner.end().await;
}

/// A driver that has lost an IP may take its object away: the claim has lost it already.
#[tokio::test]
async fn a_lost_address_may_be_deleted_though_its_claim_lives() {
    let corner = Corner::new("lost-deleted").await;
    corner.bound().await;
    corner.driver_says("a1", json!({ "phase": "Lost" })).await;
    corner.claim_is("web", ClaimPhase::Lost).await;
    corner.delete_address("a1").await;
    corner.address_gone("a1").await;
    corner.claim_when("web", "showing nothing", |c| shown(c).is_empty()).await;
    corner.claim_is("web", ClaimPhase::Lost).await;
    corner.end().await;
}
