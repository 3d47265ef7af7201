//! Addresses that a driver makes for a claim, and reservations made by hand.

use address_controller::api::{AddressPhase, ClaimFamily, ClaimPhase, IPAddressClaim};
use kube::ResourceExt;
use testbed::make::{MakeAddress, MakeClaim, PROVISIONER};

use crate::support::{Corner, bound_because, held_by, phase_of, shown, stamp, uid};

impl Corner {
    /// Waits, as a driver does, until a claim is stamped.
    async fn stamped(&self, claim: &str) -> IPAddressClaim {
        self.claim_when(claim, "stamped", |c| stamp(c) == Some(PROVISIONER)).await
    }
}

/// The driver reads the stamp and names the claim; the controller completes what it made.
#[tokio::test]
async fn what_a_driver_makes_for_a_claim_is_completed_and_bound() {
    let corner = Corner::new("driver").await;
    corner.claim("web", "public").await.unwrap();
    let claim = corner.stamped("web").await;
    corner.waits_because("web", &[PROVISIONER]).await;
    assert!(!claim.finalizers().is_empty(), "protected while it waits");
    let made = corner.new_address("p1", &corner.v4(1)).provider_ref("eip-1");
    corner.create(&made.reserved_for(corner.namespace(), "web")).await.unwrap();
    let (address, claim) = corner.bound_to("web", "p1").await;
    assert_eq!(held_by(&address), uid(&claim));
    assert_eq!(shown(&claim), [corner.name("p1")]);
    assert_eq!(address.spec.source.provider_ref.unwrap().id, "eip-1");
    corner.end().await;
}

#[tokio::test]
async fn a_driver_may_name_the_uid_itself() {
    let corner = Corner::new("driver-uid").await;
    corner.claim("web", "public").await.unwrap();
    let claim = corner.stamped("web").await;
    let made = corner.new_address("p1", &corner.v4(1));
    let made = made.bound_to(corner.namespace(), "web", &uid(&claim).unwrap());
    corner.create(&made).await.unwrap();
    let (_, claim) = corner.bound_to("web", "p1").await;
    assert_eq!(shown(&claim), [corner.name("p1")]);
    corner.end().await;
}

/// One half is static, the other is made: the driver is asked while that one is missing.
#[tokio::test]
async fn a_dual_claim_takes_one_static_and_one_made() {
    let corner = Corner::new("dual-driver").await;
    corner.free(1).await;
    corner.create(&corner.new_claim("web").family(ClaimFamily::Dual)).await.unwrap();
    corner.stamped("web").await;
    corner.waits_because("web", &["IPv6 is missing", PROVISIONER]).await;
    let made = corner.new_address("p6", &corner.v6(1));
    corner.create(&made.reserved_for(corner.namespace(), "web")).await.unwrap();
    corner.bound_to("web", "a1").await;
    let (_, claim) = corner.bound_to("web", "p6").await;
    assert_eq!(shown(&claim), [corner.name("a1"), corner.name("p6")]);
    corner.end().await;
}

/// A driver that answers twice: nothing is thrown away, and the claim says so.
#[tokio::test]
async fn more_than_was_asked_for_is_kept_and_said() {
    let corner = Corner::new("more").await;
    corner.claim("web", "public").await.unwrap();
    corner.stamped("web").await;
    for n in 1..=2 {
        let made = corner.new_address(&format!("p{n}"), &corner.v4(n));
        corner.create(&made.reserved_for(corner.namespace(), "web")).await.unwrap();
    }
    corner.bound_to("web", "p1").await;
    let (_, claim) = corner.bound_to("web", "p2").await;
    assert_eq!(shown(&claim), [corner.name("p1"), corner.name("p2")]);
    let said = bound_because(&claim);
    assert!(said.contains("asked for 1") && said.contains("more"), "{said}");
    corner.end().await;
}

/// One `kubectl apply` of an address and its claim, in this order: it waits, untouched by other
/// claims and undestroyed, though its policy is `Delete`.
#[tokio::test]
async fn a_reservation_made_before_its_claim_waits_for_it() {
    let corner = Corner::new("reserved-first").await;
    let reserved = corner.new_address("r1", &corner.v4(1)).delete_policy();
    corner.create(&reserved.reserved_for(corner.namespace(), "web")).await.unwrap();
    corner.address_is("r1", AddressPhase::Pending).await;
    corner.claim("other", "public").await.unwrap();
    corner.waits_because("other", &["is free"]).await;
    corner.claim("web", "public").await.unwrap();
    let (_, claim) = corner.bound_to("web", "r1").await;
    assert_eq!(shown(&claim), [corner.name("r1")]);
    assert_eq!(corner.see_claim("other").await.status.unwrap().phase, Some(ClaimPhase::Pending));
    corner.end().await;
}

/// The other order: the claim waits and is then given what names it, before anything free.
#[tokio::test]
async fn a_reservation_made_after_its_claim_serves_it() {
    let corner = Corner::new("reserved-last").await;
    corner.claim("web", "public").await.unwrap();
    corner.waits_because("web", &["IPv4 is missing"]).await;
    let reserved = corner.new_address("r1", &corner.v4(1)).delete_policy();
    corner.create(&reserved.reserved_for(corner.namespace(), "web")).await.unwrap();
    corner.bound_to("web", "r1").await;
    corner.free(1).await;
    corner.seen_to().await;
    let free = corner.see_address("a1").await;
    assert_eq!((phase_of(&free), free.spec.claim_ref), (Some(AddressPhase::Available), None));
    corner.end().await;
}
