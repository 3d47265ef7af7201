//! What decisions see of an object: what empty and absent fields mean, and what is derived.

use rstest::rstest;
use serde_json::{Value, json};

use crate::{
    api::{
        AddressPhase, ClaimFamily, IpFamily, ReclaimPolicy,
        well_known::{ADDRESS_FINALIZER, CLAIM_FINALIZER},
    },
    binder::{
        testing::{Object, address, claim, class, free, key},
        view::Name,
    },
};

fn texts(names: &[Name]) -> Vec<&str> {
    names.iter().map(|n| &**n).collect()
}

/// Absent and empty are one: no class, no pin, no resolved class, no uid.
#[rstest]
#[case(Value::Null)]
#[case(json!(""))]
fn an_empty_text_is_none(#[case] empty: Value) {
    let view = claim("t1/web")
        .set("/spec/className", empty.clone())
        .set("/spec/addressName", empty.clone())
        .set("/status/className", empty.clone())
        .claim();
    assert_eq!((view.class, view.pin, view.resolved_class), (None, None, None));
    let reference = json!({"namespace": "t1", "name": "web", "uid": empty});
    let view = address("a1", "192.0.2.1").set("/spec/claimRef", reference).address();
    assert_eq!(view.claim_ref.unwrap().uid, None);
}

/// A claim that nobody has looked at: every default.
#[test]
fn a_new_claim_has_nothing() {
    let object =
        claim("t1/web").set("/status", Value::Null).set("/metadata/annotations", Value::Null);
    let view = object.set("/metadata/finalizers", Value::Null).claim();
    assert_eq!(view.key, key("t1/web"));
    assert_eq!(view.key.to_string(), "t1/web");
    assert_eq!(view.family, ClaimFamily::IPv4);
    assert_eq!((view.stamp.is_none(), view.selections.is_empty()), (true, true));
    assert_eq!((view.phase, view.published.len(), view.conditions.len()), (None, 0, 0));
    assert!(!view.protected() && !view.id.deleting);
}

/// Each field is taken from where it is.
#[test]
fn a_claim_is_seen_whole() {
    let view = claim("t1/web")
        .uid("u1")
        .version(9)
        .family("Dual")
        .pin("a9")
        .stamp("d.example.org")
        .selected("IPv4=a1/1")
        .phase("Bound")
        .resolved("public")
        .published(&[("a1", "192.0.2.1")])
        .protected()
        .deleting()
        .claim();
    assert_eq!((&*view.id.uid, &*view.id.resource_version, view.generation), ("u1", "9", 1));
    assert_eq!(view.class.as_deref(), Some("public"));
    assert_eq!(view.pin.as_deref(), Some("a9"));
    assert_eq!(view.stamp.as_deref(), Some("d.example.org"));
    assert_eq!(view.selections.to_string(), "IPv4=a1/1");
    assert_eq!(view.resolved_class.as_deref(), Some("public"));
    assert_eq!(view.published[0].name, "a1");
    assert!(view.protected() && view.id.deleting);
    assert_eq!(view.id.created, "2026-01-01T11:00:00Z".parse().unwrap());
}

/// What a server leaves out is the smallest there is, not an error.
#[test]
fn an_object_without_metadata_is_still_seen() {
    let bare = json!({"apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress",
        "metadata": {}, "spec": {"className": "c", "address": "192.0.2.1", "source": {}}});
    let view = Object(bare).address();
    assert_eq!((&*view.name, &*view.id.uid, &*view.id.resource_version), ("", "", ""));
    assert_eq!(view.id.created, jiff::Timestamp::UNIX_EPOCH);
    assert_eq!((view.phase, view.claim_ref, view.policy), (None, None, ReclaimPolicy::Retain));
}

/// Our finalizer is added at the end, once; taken out wherever it is; the others keep their order.
#[rstest]
#[case(&[], &["ours"], &[])]
#[case(&["x"], &["x", "ours"], &["x"])]
#[case(&["ours"], &["ours"], &[])]
#[case(&["x", "ours", "y"], &["x", "ours", "y"], &["x", "y"])]
#[case(&["ours", "x", "ours"], &["ours", "x", "ours"], &["x"])]
fn finalizers_of_others_keep_their_order(
    #[case] there: &[&str],
    #[case] with: &[&str],
    #[case] without: &[&str],
) {
    let named = |names: &[&str], ours: &str| -> Vec<String> {
        names.iter().map(|n| if *n == "ours" { ours.to_owned() } else { (*n).to_owned() }).collect()
    };
    let put = |object: Object, ours| {
        named(there, ours).iter().fold(object, |o, finalizer| o.finalizer(finalizer))
    };
    let view = put(claim("t1/web"), CLAIM_FINALIZER).claim();
    assert_eq!(texts(&view.finalizers_with_ours()), named(with, CLAIM_FINALIZER));
    assert_eq!(texts(&view.finalizers_without_ours()), named(without, CLAIM_FINALIZER));
    assert_eq!(view.protected(), there.contains(&"ours"));
    let view = put(address("a1", "192.0.2.1"), ADDRESS_FINALIZER).address();
    assert_eq!(texts(&view.finalizers_with_ours()), named(with, ADDRESS_FINALIZER));
    assert_eq!(texts(&view.finalizers_without_ours()), named(without, ADDRESS_FINALIZER));
    assert_eq!(view.protected(), there.contains(&"ours"));
}

/// The two protections are not mistaken for each other.
#[test]
fn the_other_kinds_protection_does_not_protect() {
    assert!(!claim("t1/web").finalizer(ADDRESS_FINALIZER).claim().protected());
    assert!(!address("a1", "192.0.2.1").finalizer(CLAIM_FINALIZER).address().protected());
}

/// The family of an address is its IP's; text that is no IP has none.
#[rstest]
#[case("192.0.2.1", Some(IpFamily::IPv4))]
#[case("::ffff:192.0.2.1", Some(IpFamily::IPv4))]
#[case("2001:db8::1", Some(IpFamily::IPv6))]
#[case("192.0.2.1/32", None)]
fn an_address_has_the_family_of_its_ip(#[case] text: &str, #[case] family: Option<IpFamily>) {
    let view = address("a1", text).address();
    assert_eq!(view.family(), family);
    assert_eq!(&*view.text, text, "and keeps its spelling");
}

/// When nothing of ours holds up a deletion.
#[rstest]
#[case::stays(free("a1", "192.0.2.1"), false)]
#[case::lost_and_stays(free("a1", "192.0.2.1").phase("Lost"), false)]
#[case::protected(free("a1", "192.0.2.1").deleting(), false)]
#[case::protected_in_conflict(free("a1", "192.0.2.1").phase("Conflict").deleting(), false)]
#[case::lost(free("a1", "192.0.2.1").phase("Lost").deleting(), true)]
#[case::unprotected(address("a1", "192.0.2.1").deleting(), true)]
#[case::only_a_drivers(address("a1", "192.0.2.1").finalizer("d/x").deleting(), true)]
fn an_address_that_nothing_of_ours_keeps_is_going(#[case] object: Object, #[case] going: bool) {
    assert_eq!(object.address().going(), going);
}

/// Each condition for a match, one missing at a time.
#[rstest]
#[case::free(free("a1", "192.0.2.1"), true)]
#[case::claimed(free("a1", "192.0.2.1").held_by("t1/web", None), false)]
#[case::deleting(free("a1", "192.0.2.1").deleting(), false)]
#[case::invalid(free("a1", "x"), false)]
#[case::no_phase(address("a1", "192.0.2.1"), false)]
#[case::pending(free("a1", "192.0.2.1").phase("Pending"), false)]
#[case::bound(free("a1", "192.0.2.1").phase("Bound"), false)]
#[case::released(free("a1", "192.0.2.1").phase("Released"), false)]
#[case::conflict(free("a1", "192.0.2.1").phase("Conflict"), false)]
#[case::lost(free("a1", "192.0.2.1").phase("Lost"), false)]
fn an_address_is_matchable_when_nothing_speaks_against_it(
    #[case] object: Object,
    #[case] matchable: bool,
) {
    assert_eq!(object.address().matchable(), matchable);
}

/// A family was held when an address of it is published, or the selection says so.
#[rstest]
#[case::new(claim("t/c"), false, false)]
#[case::chosen(claim("t/c").selected("IPv4=a/1"), false, false)]
#[case::held(claim("t/c").selected("IPv4=a/1/held"), true, false)]
#[case::published(claim("t/c").published(&[("a", "192.0.2.1")]), true, false)]
#[case::published_v6(claim("t/c").published(&[("a", "2001:db8::1")]), false, true)]
#[case::mapped(claim("t/c").published(&[("a", "::ffff:192.0.2.1")]), true, false)]
#[case::either(claim("t/c").published(&[("a", "192.0.2.1")]).selected("IPv6=b/2/held"), true, true)]
#[case::nonsense(claim("t/c").published(&[("a", "x")]), false, false)]
fn a_family_was_held_when_it_was_shown(#[case] object: Object, #[case] v4: bool, #[case] v6: bool) {
    let view = object.claim();
    assert_eq!((view.has_held(IpFamily::IPv4), view.has_held(IpFamily::IPv6)), (v4, v6));
}

/// A class: its driver, and whether it is the default.
#[test]
fn a_class_is_seen_with_its_driver() {
    let view = class("public").class_view();
    assert_eq!(
        (&*view.name, &*view.provisioner, view.default),
        ("public", "fake.example.org", false)
    );
    assert!(class("public").default_class().class_view().default);
}

/// Every phase of the API is seen as it is.
#[rstest]
#[case("Pending", AddressPhase::Pending)]
#[case("Available", AddressPhase::Available)]
#[case("Bound", AddressPhase::Bound)]
#[case("Released", AddressPhase::Released)]
#[case("Conflict", AddressPhase::Conflict)]
#[case("Lost", AddressPhase::Lost)]
fn each_phase_is_seen(#[case] text: &str, #[case] phase: AddressPhase) {
    assert_eq!(address("a1", "192.0.2.1").phase(text).address().phase, Some(phase));
    assert_eq!(phase.as_str(), text);
}
