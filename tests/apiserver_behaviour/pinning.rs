//! B05: a pin is a pin. What stands in its way is said, another address is never taken in its
//! place, and when the obstacle goes the claim is bound without an edit.

use address_controller::api::{AddressPhase, ClaimFamily};
use serde_json::json;
use testbed::make::{MakeAddress, MakeClaim};

use crate::support::{Corner, phase_of};

/// A corner with the free address `a1`, which nobody may take.
async fn beside_a_free_one(test: &str) -> Corner {
    let corner = Corner::new(test).await;
    corner.free(1).await;
    corner
}

impl Corner {
    /// The claim `web`, pinned to `a9`: waits, naming it and what is wrong with it.
    async fn pinned_and_waiting(&self, why: &str) {
        let pin = self.name("a9");
        self.create(&self.new_claim("web").pinned_to(&pin)).await.unwrap();
        self.waits_because("web", &[&pin, why]).await;
    }

    /// The end of each: `a9` is had, `a1` never was.
    async fn had_after_all(self) {
        let (_, claim) = self.bound_to("web", "a9").await;
        assert_eq!(claim.metadata.generation, Some(1), "nobody edited the claim");
        let versions = self.versions_of_address("a1").await;
        assert!(versions.iter().all(|v| v.spec.claim_ref.is_none()));
        assert_eq!(phase_of(&self.see_address("a1").await), Some(AddressPhase::Available));
        self.end().await;
    }
}

#[tokio::test]
async fn b05_a_pin_takes_that_address_and_no_smaller_name() {
    let corner = beside_a_free_one("b05-free").await;
    corner.address("a9", "public", &corner.v4(9)).await.unwrap();
    corner.address_is("a9", AddressPhase::Available).await;
    corner.create(&corner.new_claim("web").pinned_to(&corner.name("a9"))).await.unwrap();
    corner.had_after_all().await;
}

#[tokio::test]
async fn b05_pinned_to_what_does_not_exist() {
    let corner = beside_a_free_one("b05-absent").await;
    corner.pinned_and_waiting("does not exist").await;
    corner.address("a9", "public", &corner.v4(9)).await.unwrap();
    corner.had_after_all().await;
}

#[tokio::test]
async fn b05_pinned_to_another_class() {
    let corner = beside_a_free_one("b05-class").await;
    corner.address("a9", "other", &corner.v4(9)).await.unwrap();
    corner.pinned_and_waiting(&format!("is of class {}", corner.name("other"))).await;
    corner.edit_address("a9", json!({ "spec": { "className": corner.name("public") } })).await;
    corner.had_after_all().await;
}

/// Every address has one IP for good: the obstacle goes with the object.
#[tokio::test]
async fn b05_pinned_to_the_other_family() {
    let corner = beside_a_free_one("b05-family").await;
    corner.address("a9", "public", &corner.v6(9)).await.unwrap();
    corner.pinned_and_waiting("is IPv6").await;
    corner.delete_address("a9").await;
    corner.address_gone("a9").await;
    corner.address("a9", "public", &corner.v4(9)).await.unwrap();
    corner.had_after_all().await;
}

/// Taken, then released, then recycled: each is said.
#[tokio::test]
async fn b05_pinned_to_what_is_taken_and_then_released() {
    let corner = beside_a_free_one("b05-taken").await;
    let taken = corner.new_address("a9", &corner.v4(9));
    corner.create(&taken.reserved_for(corner.namespace(), "holder")).await.unwrap();
    corner.claim("holder", "public").await.unwrap();
    corner.bound_to("holder", "a9").await;
    corner.pinned_and_waiting(&format!("is taken by claim {}/holder", corner.namespace())).await;
    corner.delete_claim("holder").await;
    corner.waits_because("web", &[&corner.name("a9"), "is released"]).await;
    corner.edit_address("a9", json!({ "spec": { "claimRef": null } })).await;
    corner.had_after_all().await;
}

#[tokio::test]
async fn b05_pinned_to_what_is_being_deleted() {
    let corner = beside_a_free_one("b05-deleting").await;
    let finalizers = json!({ "metadata": { "finalizers": ["example.org/slow"] } });
    corner.address("a9", "public", &corner.v4(9)).await.unwrap();
    corner.edit_address("a9", finalizers).await;
    corner.delete_address("a9").await;
    corner.pinned_and_waiting("is being deleted").await;
    corner.edit_address("a9", json!({ "metadata": { "finalizers": null } })).await;
    corner.waits_because("web", &[&corner.name("a9"), "does not exist"]).await;
    corner.address("a9", "public", &corner.v4(9)).await.unwrap();
    corner.had_after_all().await;
}

#[tokio::test]
async fn b05_pinned_to_what_is_in_conflict() {
    let corner = beside_a_free_one("b05-conflict").await;
    corner.address("a9", "public", &corner.v4(9)).await.unwrap();
    corner.address_is("a9", AddressPhase::Available).await;
    corner.driver_says("a9", json!({ "phase": "Conflict" })).await;
    corner.pinned_and_waiting("is in conflict").await;
    corner.driver_says("a9", json!({ "phase": null })).await;
    corner.had_after_all().await;
}

/// Neither of two addresses with one IP is matched, the pinned one neither.
#[tokio::test]
async fn b05_pinned_to_a_disputed_ip() {
    let corner = beside_a_free_one("b05-disputed").await;
    corner.address("a9", "public", &corner.v4(9)).await.unwrap();
    corner.address("other", "public", &corner.v4(9)).await.unwrap();
    corner.pinned_and_waiting(&format!("the same IP as {}", corner.name("other"))).await;
    corner.delete_address("other").await;
    corner.had_after_all().await;
}

/// A pin is for one family: the other half of a `Dual` claim waits, and is not taken elsewhere.
#[tokio::test]
async fn b05_a_pin_on_a_dual_claim_is_no_licence_for_the_other_half() {
    let corner = Corner::new("b05-dual").await;
    corner.address("a9", "public", &corner.v4(9)).await.unwrap();
    corner.address("b1", "public", &corner.v6(1)).await.unwrap();
    corner.address_is("b1", AddressPhase::Available).await;
    let pin = corner.name("a9");
    let claim = corner.new_claim("web").family(ClaimFamily::Dual).pinned_to(&pin);
    corner.create(&claim).await.unwrap();
    corner.waits_because("web", &["IPv6 is missing", &pin, "is IPv4"]).await;
    corner.address_is("a9", AddressPhase::Bound).await;
    corner.address_is("b1", AddressPhase::Available).await;
    corner.end().await;
}
