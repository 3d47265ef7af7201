//! What a claim held is gone, taken or reported by its driver: the claim says so, is given nothing
//! in its place, and is bound again when it comes back or when its owner asks for another.

use address_controller::api::{AddressPhase, BoundReason, ClaimPhase, ConditionType};
use serde_json::json;
use testbed::make::MakeAddress;

use crate::support::{Corner, bound_because, condition, held_by, phase_of, shown, uid};

impl Corner {
    /// Waits until a claim is `Lost`, and says which family is missing and what became of `a1`.
    async fn lost(&self, claim: &str, why: &str) {
        let lost = self.claim_is(claim, ClaimPhase::Lost).await;
        let bound = condition(&lost, ConditionType::Bound);
        assert_eq!(&*bound.status, "False");
        assert_eq!(bound.reason, BoundReason::AddressLost.as_str());
        let parts = [&*self.name("a1"), why];
        self.claim_when(claim, &format!("saying {parts:?}"), |c| {
            parts.iter().all(|p| bound_because(c).contains(p))
        })
        .await;
    }

    /// That an address is free and was never anything else since it was made.
    async fn still_free(&self, short: &str) {
        self.seen_to().await;
        let address = self.see_address(short).await;
        assert_eq!(
            (phase_of(&address), &address.spec.claim_ref),
            (Some(AddressPhase::Available), &None)
        );
    }
}

/// Somebody took the finalizers off and the object away. Another free address of the class is no
/// replacement: the old IP is in somebody's DNS.
#[tokio::test]
async fn an_address_that_vanished_is_not_replaced_and_may_come_back() {
    let corner = Corner::new("vanished").await;
    let (_, claim) = corner.bound().await;
    corner.address("a2", "public", &corner.v4(2)).await.unwrap();
    corner.address_is("a2", AddressPhase::Available).await;
    corner.destroy_address("a1").await;
    corner.lost("web", "is gone").await;
    corner.claim_when("web", "showing nothing", |c| shown(c).is_empty()).await;
    corner.still_free("a2").await;
    corner.events_of(&claim, "Lost").await;

    let again = corner.new_address("a1", &corner.v4(1));
    corner.create(&again.reserved_for(corner.namespace(), "web")).await.unwrap();
    let (_, after) = corner.bound_to("web", "a1").await;
    assert_eq!(shown(&after), [corner.name("a1")]);
    corner.still_free("a2").await;
    corner.end().await;
}

#[tokio::test]
async fn the_owner_of_a_lost_claim_asks_for_another_by_name() {
    let corner = Corner::new("asks").await;
    corner.bound().await;
    for n in 2..=3 {
        corner.address(&format!("a{n}"), "public", &corner.v4(n)).await.unwrap();
    }
    corner.destroy_address("a1").await;
    corner.lost("web", "is gone").await;
    corner.edit_claim("web", json!({ "spec": { "addressName": corner.name("a3") } })).await;
    let (_, claim) = corner.bound_to("web", "a3").await;
    assert_eq!(shown(&claim), [corner.name("a3")]);
    corner.still_free("a2").await;
    corner.end().await;
}

/// The driver no longer finds the IP, and finds it again.
#[tokio::test]
async fn a_driver_reports_an_address_lost_and_found() {
    let corner = Corner::new("lost").await;
    let (address, claim) = corner.bound().await;
    corner.address("a2", "public", &corner.v4(2)).await.unwrap();
    corner.driver_says("a1", json!({ "phase": "Lost" })).await;
    corner.lost("web", "is lost").await;
    corner.still_free("a2").await;
    let reported = corner.see_address("a1").await;
    assert_eq!(phase_of(&reported), Some(AddressPhase::Lost), "the driver's word stands");
    assert_eq!(held_by(&reported), uid(&claim), "and the binding");
    corner.driver_says("a1", json!({ "phase": null })).await;
    let (after, claim) = corner.bound_to("web", "a1").await;
    assert_eq!(after.spec, address.spec);
    assert_eq!(claim.metadata.generation, Some(1), "nobody edited the claim");
    corner.still_free("a2").await;
    corner.end().await;
}

/// B11, what is seen of it: a conflict does not unbind, is left alone with what the driver says
/// about it, and is over when the driver says so.
#[tokio::test]
async fn b11_a_drivers_conflict_stands_and_the_claim_stays_bound() {
    let corner = Corner::new("b11").await;
    corner.bound().await;
    let user = json!({ "kind": "Service", "namespace": "else", "name": "where" });
    let said = corner.driver_says("a1", json!({ "phase": "Conflict", "associatedTo": user })).await;
    corner.seen_to().await;
    let touched = json!({ "metadata": { "annotations": { "example.org/touched": "1" } } });
    corner.edit_address("a1", touched.clone()).await;
    corner.edit_claim("web", touched).await;
    corner.seen_to().await;
    assert_eq!(corner.see_address("a1").await.status, said.status);
    let claim = corner.see_claim("web").await;
    assert_eq!(claim.status.as_ref().unwrap().phase, Some(ClaimPhase::Bound));
    assert_eq!(shown(&claim), [corner.name("a1")]);

    corner.driver_says("a1", json!({ "phase": null })).await;
    let (address, claim) = corner.bound_to("web", "a1").await;
    assert_eq!(address.status.unwrap().associated_to, said.status.unwrap().associated_to);
    let was = corner.versions_of_claim("web").await;
    let phases = was.iter().filter_map(|v| v.status.as_ref().and_then(|s| s.phase));
    assert!(phases.into_iter().all(|p| p == ClaimPhase::Bound), "it never was anything else");
    assert_eq!(claim.metadata.generation, Some(1));
    corner.end().await;
}

/// B04: the claimRef is moved to another live claim. Both notice, the one that is named no more too.
#[tokio::test]
async fn b04_an_address_moved_to_another_claim() {
    let corner = Corner::new("b04-moved").await;
    corner.bound().await;
    corner.claim("api", "public").await.unwrap();
    corner.waits_because("api", &["is free"]).await;
    let moved = json!({ "spec": { "claimRef": { "name": "api", "uid": null } } });
    corner.edit_address("a1", moved).await;
    corner.bound_to("api", "a1").await;
    corner.lost("web", "belongs to another claim").await;
    corner.claim_when("web", "showing nothing", |c| shown(c).is_empty()).await;
    corner.end().await;
}

/// B04: the claimRef is removed. The address is anybody's, but not its old claim's by itself.
#[tokio::test]
async fn b04_a_claim_ref_removed_from_under_a_live_claim() {
    let corner = Corner::new("b04-removed").await;
    corner.bound().await;
    corner.edit_address("a1", json!({ "spec": { "claimRef": null } })).await;
    corner.lost("web", "was taken from this claim").await;
    corner.address_is("a1", AddressPhase::Available).await;
    corner.still_free("a1").await;
    corner.edit_claim("web", json!({ "spec": { "addressName": corner.name("a1") } })).await;
    corner.bound_to("web", "a1").await;
    corner.end().await;
}
