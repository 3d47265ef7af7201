//! A claim goes, and what it held goes by each address's own policy.

use address_controller::api::{
    AddressPhase, ClaimFamily, IPAddress, IPAddressClaim, well_known::ADDRESS_FINALIZER,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt, api::DeleteParams};
use serde_json::json;
use testbed::make::{Make, MakeAddress, MakeClaim};

use crate::support::{Corner, bound_because, held_by, shown, stamp, uid};

const DRIVERS: &str = "driver.example.org/teardown";

/// The binding survives on the address, and who reads the event knows what to do next.
#[tokio::test]
async fn a_retained_address_is_released_and_keeps_its_claim_ref() {
    let corner = Corner::new("retain").await;
    let (before, claim) = corner.bound().await;
    corner.delete_claim("web").await;
    corner.claim_gone("web").await;
    let address = corner.address_is("a1", AddressPhase::Released).await;
    assert_eq!(held_by(&address), uid(&claim));
    assert_eq!(address.spec, before.spec);
    let events = corner.events_of(&address, "AddressReleased").await;
    let note = events[0].message.clone().unwrap();
    assert!(note.contains("clear spec.claimRef") && note.contains("web"), "{note}");
    assert_eq!(events[0].related.as_ref().and_then(|r| r.uid.clone()), uid(&claim));
    corner.end().await;
}

/// Our finalizer goes and the driver's stays, until what is behind the address is torn down.
#[tokio::test]
async fn an_address_with_delete_goes_once_its_driver_is_done() {
    let corner = Corner::new("delete").await;
    let made = corner.new_address("a1", &corner.v4(1)).delete_policy().finalizer(DRIVERS);
    corner.create(&made).await.unwrap();
    corner.claim("web", "public").await.unwrap();
    let (address, _) = corner.bound_to("web", "a1").await;
    corner.delete_claim("web").await;
    corner.claim_gone("web").await;
    let only_drivers = |a: &IPAddress| a.finalizers().iter().eq([DRIVERS]);
    let going = corner.address_when("a1", "left to its driver", only_drivers).await;
    assert!(going.metadata.deletion_timestamp.is_some());
    corner.events_of(&address, "AddressDeleted").await;
    corner.edit_address("a1", json!({ "metadata": { "finalizers": null } })).await;
    corner.address_gone("a1").await;
    corner.end().await;
}

/// Somebody else's finalizer keeps a claim for long: it shows nothing any more, and its address can
/// be another's.
#[tokio::test]
async fn a_claim_that_others_keep_shows_nothing_that_was_reclaimed() {
    let corner = Corner::new("kept").await;
    corner.free(1).await;
    let mut made = corner.new_claim("web");
    made.finalizers_mut().push("example.org/dns".to_owned());
    corner.create(&made).await.unwrap();
    corner.bound_to("web", "a1").await;
    corner.delete_claim("web").await;
    let let_go = |c: &IPAddressClaim| c.finalizers().iter().eq(["example.org/dns"]);
    let left = corner.claim_when("web", "let go", let_go).await;
    assert_eq!(shown(&left), <[String; 0]>::default());
    assert!(bound_because(&left).contains("being deleted"), "{}", bound_because(&left));
    corner.address_is("a1", AddressPhase::Released).await;
    corner.edit_address("a1", json!({ "spec": { "claimRef": null } })).await;
    corner.claim("next", "public").await.unwrap();
    corner.bound_to("next", "a1").await;
    corner.edit_claim("web", json!({ "metadata": { "finalizers": null } })).await;
    corner.claim_gone("web").await;
    corner.end().await;
}

/// B07, without the fault: each half by its own policy, whatever the class says.
#[tokio::test]
async fn b07_a_dual_claim_with_two_policies() {
    let corner = Corner::new("mixed").await;
    corner.create(&corner.new_address("a4", &corner.v4(1)).delete_policy()).await.unwrap();
    corner.address("a6", "public", &corner.v6(1)).await.unwrap();
    corner.create(&corner.new_claim("web").family(ClaimFamily::Dual)).await.unwrap();
    corner.bound_to("web", "a4").await;
    let (kept, claim) = corner.bound_to("web", "a6").await;
    corner.delete_claim("web").await;
    corner.claim_gone("web").await;
    corner.address_gone("a4").await;
    let kept = corner.address_when("a6", "released", |a| a.spec == kept.spec).await;
    assert_eq!(held_by(&kept), uid(&claim));
    corner.address_is("a6", AddressPhase::Released).await;
    corner.end().await;
}

/// B10: an address has the policy that it was created with, whatever becomes of its class. And a
/// `Released` one that is edited to `Delete` is deleted by the safety net.
#[tokio::test]
async fn b10_the_addresss_own_policy_counts_and_may_be_edited() {
    let corner = Corner::new("b10").await;
    corner.bound().await;
    corner.edit_class("public", json!({ "spec": { "reclaimPolicy": "Delete" } })).await;
    corner.delete_claim("web").await;
    corner.claim_gone("web").await;
    let address = corner.address_is("a1", AddressPhase::Released).await;
    corner.seen_to().await;
    assert_eq!(corner.see_address("a1").await.resource_version(), address.resource_version());
    corner.edit_address("a1", json!({ "spec": { "reclaimPolicy": "Delete" } })).await;
    corner.address_gone("a1").await;
    corner.events_of(&address, "Reclaimed").await;
    corner.end().await;
}

/// An address keeps its driver's phase through its claim's end, and is released when it is cleared.
#[tokio::test]
async fn a_conflict_outlives_the_claim_and_is_then_released() {
    let corner = Corner::new("conflict-kept").await;
    corner.bound().await;
    corner.driver_says("a1", json!({ "phase": "Conflict" })).await;
    corner.delete_claim("web").await;
    corner.claim_gone("web").await;
    corner.seen_to().await;
    corner.address_is("a1", AddressPhase::Conflict).await;
    corner.driver_says("a1", json!({ "phase": null })).await;
    corner.address_is("a1", AddressPhase::Released).await;
    corner.end().await;
}

/// B08: a claim that was never bound, and whose class does not exist.
#[tokio::test]
async fn b08_a_claim_that_was_never_bound_goes_without_its_class() {
    let corner = Corner::bare("b08-never").await;
    corner.claim("web", "public").await.unwrap();
    corner.waits_because("web", &["the class is not resolved"]).await;
    corner.delete_claim("web").await;
    corner.claim_gone("web").await;
    corner.end().await;
}

/// B08: a claim that waits for a driver, protected and stamped.
#[tokio::test]
async fn b08_a_claim_that_waits_for_its_driver_goes() {
    let corner = Corner::new("b08-waiting").await;
    corner.claim("web", "public").await.unwrap();
    corner.claim_when("web", "stamped", |c| stamp(c).is_some()).await;
    corner.classes().delete(&corner.name("public"), &DeleteParams::default()).await.unwrap();
    corner.delete_claim("web").await;
    corner.claim_gone("web").await;
    corner.end().await;
}

/// B08: a bound claim whose class has been deleted since.
#[tokio::test]
async fn b08_a_bound_claim_goes_without_its_class() {
    let corner = Corner::new("b08-bound").await;
    corner.bound().await;
    corner.classes().delete(&corner.name("public"), &DeleteParams::default()).await.unwrap();
    corner.delete_claim("web").await;
    corner.claim_gone("web").await;
    corner.address_is("a1", AddressPhase::Released).await;
    corner.end().await;
}

/// B08: in a namespace that terminates, where nothing can be created and so no event either. The
/// test does what the namespace controller does.
#[tokio::test]
async fn b08_claims_go_with_their_namespace() {
    let corner = Corner::new("b08-namespace").await;
    corner.bound().await;
    corner.create(&corner.new_address("a2", &corner.v4(2)).delete_policy()).await.unwrap();
    corner.claim("api", "public").await.unwrap();
    corner.bound_to("api", "a2").await;
    corner.claim("never", "missing").await.unwrap();
    corner.waits_because("never", &["the class is not resolved"]).await;

    let namespaces: Api<Namespace> = Api::all(corner.client());
    namespaces.delete(corner.namespace(), &DeleteParams::default()).await.unwrap();
    let refused = corner.claim("late", "public").await.unwrap_err().to_string();
    assert!(refused.contains("being terminated"), "{refused}");
    for claim in ["web", "api", "never"] {
        corner.delete_claim(claim).await;
        corner.claim_gone(claim).await;
    }
    corner.address_is("a1", AddressPhase::Released).await;
    corner.address_gone("a2").await;
    corner.end().await;
}

/// The finalizer is all that holds a claim, and foreign ones are not ours to take.
#[tokio::test]
async fn a_foreign_finalizer_on_a_claim_stays_and_its_address_is_released_all_the_same() {
    let corner = Corner::new("foreign-claim").await;
    corner.free(1).await;
    let claim = corner.new_claim("web").finalizer("example.org/slow");
    corner.create(&claim).await.unwrap();
    corner.bound_to("web", "a1").await;
    corner.delete_claim("web").await;
    corner.address_is("a1", AddressPhase::Released).await;
    let foreign = |c: &IPAddressClaim| c.finalizers().iter().eq(["example.org/slow"]);
    corner.claim_when("web", "left to others", foreign).await;
    corner.seen_to().await;
    corner.claim_when("web", "still left to others", foreign).await;
    corner.edit_claim("web", json!({ "metadata": { "finalizers": null } })).await;
    corner.claim_gone("web").await;
    let kept = corner.address_is("a1", AddressPhase::Released).await;
    assert!(kept.finalizers().iter().any(|f| f == ADDRESS_FINALIZER));
    corner.end().await;
}
