//! Claims and addresses find each other.

use address_controller::{
    api::{
        AddressPhase, ClaimFamily, ClaimPhase, IPAddress, IPAddressClaim,
        well_known::CLAIM_FINALIZER,
    },
    binder::invariants::Object,
};
use kube::ResourceExt;
use rstest::rstest;
use testbed::make::{MakeClaim, PROVISIONER};

use crate::support::{Corner, bound_because, phase_of, shown, stamp};

/// A free address of the class: bound, with both sides saying so, and both protected.
#[tokio::test]
async fn a_claim_is_bound_to_a_free_address() {
    let corner = Corner::new("static").await;
    let (address, claim) = corner.bound().await;
    assert_eq!(shown(&claim), [corner.name("a1")]);
    let reference = address.spec.claim_ref.clone().unwrap();
    assert_eq!((&*reference.namespace, &*reference.name), (corner.namespace(), "web"));
    assert!(address.finalizers().iter().any(|f| f.ends_with("/address-protection")));
    assert!(claim.finalizers().iter().any(|f| f.ends_with("/claim-protection")));
    corner.end().await;
}

/// No driver must think that it is asked for an address while a static one is being bound: the
/// stamp comes after the claim says `Bound`.
#[tokio::test]
async fn a_claim_that_a_static_address_satisfies_is_stamped_afterwards() {
    let corner = Corner::new("stamped-after").await;
    corner.bound().await;
    corner.claim_when("web", "stamped", |c| stamp(c) == Some(PROVISIONER)).await;
    for version in corner.versions_of_claim("web").await {
        let phase = version.status.as_ref().and_then(|s| s.phase);
        assert!(stamp(&version).is_none() || phase == Some(ClaimPhase::Bound));
    }
    corner.end().await;
}

/// I5: the claim's finalizer is on before an address names the claim.
#[tokio::test]
async fn a_claim_is_protected_before_an_address_names_it() {
    let corner = Corner::new("protected-first").await;
    corner.bound().await;
    let history = corner.history().await;
    let (space, name) = (corner.namespace(), corner.name("a1"));
    let is_protected = |c: &IPAddressClaim| c.finalizers().iter().any(|f| f == CLAIM_FINALIZER);
    let protected = history.changes.iter().position(|c| match &c.object {
        Object::Claim(v) => v
            .new
            .as_ref()
            .is_some_and(|c| c.namespace().as_deref() == Some(space) && is_protected(c)),
        _ => false,
    });
    let named = history.changes.iter().position(|c| match &c.object {
        Object::Address(v) => {
            v.new.as_ref().is_some_and(|a| a.name_any() == name && a.spec.claim_ref.is_some())
        }
        _ => false,
    });
    assert!(protected.unwrap() < named.unwrap());
    corner.end().await;
}

#[tokio::test]
async fn the_smallest_name_comes_first() {
    let corner = Corner::new("smallest").await;
    for (n, short) in [(1, "a2"), (2, "a10"), (3, "a1")] {
        corner.address(short, "public", &corner.v4(n)).await.unwrap();
        corner.address_is(short, AddressPhase::Available).await;
    }
    corner.seen_to().await;
    corner.claim("first", "public").await.unwrap();
    corner.bound_to("first", "a1").await;
    corner.claim("second", "public").await.unwrap();
    corner.bound_to("second", "a10").await;
    let last = corner.see_address("a2").await;
    assert_eq!((phase_of(&last), last.spec.claim_ref), (Some(AddressPhase::Available), None));
    corner.end().await;
}

/// Nothing but the class counts, and the claim is bound without an edit once there is one.
#[tokio::test]
async fn an_address_of_another_class_is_not_taken() {
    let corner = Corner::new("other-class").await;
    corner.class("other").await.unwrap();
    corner.address("a1", "other", &corner.v4(1)).await.unwrap();
    corner.address_is("a1", AddressPhase::Available).await;
    corner.claim("web", "public").await.unwrap();
    corner.waits_because("web", &["IPv4 is missing", "no address of class", "is free"]).await;
    corner.address("a2", "public", &corner.v4(2)).await.unwrap();
    let (_, claim) = corner.bound_to("web", "a2").await;
    assert_eq!(shown(&claim), [corner.name("a2")]);
    corner.address_is("a1", AddressPhase::Available).await;
    corner.end().await;
}

#[tokio::test]
async fn a_claim_for_ipv6_takes_no_ipv4() {
    let corner = Corner::new("ipv6").await;
    corner.free(1).await;
    corner.address("b1", "public", &corner.v6(1)).await.unwrap();
    corner.create(&corner.new_claim("web").family(ClaimFamily::IPv6)).await.unwrap();
    let (_, claim) = corner.bound_to("web", "b1").await;
    assert_eq!(shown(&claim), [corner.name("b1")]);
    corner.address_is("a1", AddressPhase::Available).await;
    corner.end().await;
}

/// A01: an IPv4 address in IPv6's spelling serves IPv4 and not IPv6.
#[tokio::test]
async fn a01_a_mapped_address_is_never_both_halves_of_a_dual_claim() {
    let corner = Corner::new("a01").await;
    let mapped = format!("::ffff:{}", corner.v4(1));
    corner.address("a1", "public", &mapped).await.unwrap();
    corner.create(&corner.new_claim("web").family(ClaimFamily::Dual)).await.unwrap();
    let half = |c: &IPAddressClaim| shown(c) == [corner.name("a1")];
    let claim = corner.claim_when("web", "half bound", half).await;
    let why = bound_because(&claim);
    assert!(why.contains("IPv6 is missing") && !why.contains("IPv4 is missing"), "{why}");
    corner.address("a2", "public", &corner.v6(1)).await.unwrap();
    let (_, claim) = corner.bound_to("web", "a2").await;
    assert_eq!(shown(&claim), [corner.name("a1"), corner.name("a2")]);
    corner.end().await;
}

#[tokio::test]
async fn a_dual_claim_takes_one_of_each() {
    let corner = Corner::new("dual").await;
    corner.free(2).await;
    for n in 1..=2 {
        corner.address(&format!("b{n}"), "public", &corner.v6(n)).await.unwrap();
        corner.address_is(&format!("b{n}"), AddressPhase::Available).await;
    }
    corner.seen_to().await;
    corner.create(&corner.new_claim("web").family(ClaimFamily::Dual)).await.unwrap();
    let (_, claim) = corner.bound_to("web", "a1").await;
    corner.bound_to("web", "b1").await;
    assert_eq!(shown(&claim), [corner.name("a1"), corner.name("b1")]);
    for free in ["a2", "b2"] {
        corner.address_is(free, AddressPhase::Available).await;
    }
    corner.end().await;
}

/// The half that is there is bound and shown, the claim says which is missing, and is asked for.
#[rstest]
#[case::ipv4_first("dual-4-6", true)]
#[case::ipv6_first("dual-6-4", false)]
#[tokio::test]
async fn a_dual_claim_takes_one_half_and_then_the_other(#[case] test: &str, #[case] v4: bool) {
    let corner = Corner::new(test).await;
    let (first, second) =
        if v4 { (corner.v4(1), corner.v6(1)) } else { (corner.v6(1), corner.v4(1)) };
    corner.create(&corner.new_claim("web").family(ClaimFamily::Dual)).await.unwrap();
    corner.waits_because("web", &["IPv4 is missing", "IPv6 is missing"]).await;
    corner.address("h1", "public", &first).await.unwrap();
    let half = |c: &_| shown(c) == [corner.name("h1")];
    let claim = corner.claim_when("web", "half bound", half).await;
    assert_eq!(claim.status.as_ref().unwrap().phase, Some(ClaimPhase::Pending));
    let missing = if v4 { "IPv6 is missing" } else { "IPv4 is missing" };
    corner.waits_because("web", &[missing]).await;
    assert_eq!(stamp(&claim), Some(PROVISIONER));
    corner.address("h2", "public", &second).await.unwrap();
    let (_, claim) = corner.bound_to("web", "h2").await;
    assert_eq!(shown(&claim), [corner.name("h1"), corner.name("h2")]);
    corner.end().await;
}

/// B01, for one replica: the second of two claims waits without an error, and gets the next.
#[tokio::test]
async fn b01_two_claims_and_one_address() {
    let corner = Corner::new("b01").await;
    corner.free(1).await;
    let (web, api) = (corner.new_claim("web"), corner.new_claim("api"));
    let (web, api) = tokio::join!(corner.create(&web), corner.create(&api));
    web.and(api).unwrap();
    let held = |a: &IPAddress| phase_of(a) == Some(AddressPhase::Bound);
    let winner = corner.address_when("a1", "taken", held).await.spec.claim_ref.unwrap().name;
    let loser = if winner == "web" { "api" } else { "web" };
    corner.bound_to(&winner, "a1").await;
    corner.waits_because(loser, &["IPv4 is missing", "is free"]).await;
    corner.address("a2", "public", &corner.v4(2)).await.unwrap();
    corner.bound_to(loser, "a2").await;
    corner.end().await;
}
