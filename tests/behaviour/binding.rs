//! Claims and addresses find each other.

use address_controller::api::{AddressPhase, ClaimPhase};
use kube::ResourceExt;

use crate::support::{Corner, held_by, shown, uid};

/// A free address of the class: bound, with both sides saying so, protected, and then stamped.
#[tokio::test]
async fn a_claim_is_bound_to_a_free_address() {
    let corner = Corner::new("static").await;
    corner.class("public").await.unwrap();
    corner.address("a1", "public", "192.0.2.1").await.unwrap();
    corner.address_is("a1", AddressPhase::Available).await;
    corner.claim("web", "public").await.unwrap();
    let claim = corner.claim_is("web", ClaimPhase::Bound).await;
    assert_eq!(shown(&claim), [corner.name("a1")]);
    let address = corner.address_is("a1", AddressPhase::Bound).await;
    assert_eq!(held_by(&address), uid(&claim));
    assert!(address.finalizers().iter().any(|f| f.ends_with("address-protection")));
    assert!(claim.finalizers().iter().any(|f| f.ends_with("claim-protection")));
}
