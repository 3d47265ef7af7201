//! Families: what is missing, and what a claim for both is given.

use rstest::rstest;

use super::claim_world::{World, published, why};
use crate::{
    api::{ClaimPhase, ConditionType},
    binder::{
        plan::{EventReason, Waiting},
        testing::{Object, claim, class, free},
    },
};

const V4: &str = "192.0.2.1";
const V6: &str = "2001:db8::1";

fn dual(objects: &[Object]) -> World {
    let mut world = World::of(&[class("public"), claim("t1/web").family("Dual")]);
    for object in objects {
        world.put(object.clone());
    }
    world
}

/// Each family is matched to an address of that family, whatever else is free.
#[rstest]
#[case("IPv4", &["a4"])]
#[case("IPv6", &["a6"])]
#[case("Dual", &["a4", "a6"])]
fn a_family_gets_an_address_of_that_family(#[case] family: &str, #[case] expected: &[&str]) {
    let mut world = World::of(&[class("public"), claim("t1/web").family(family)]);
    world.put(free("a6", V6));
    world.put(free("a4", V4));
    let pass = world.pass("t1/web");
    assert_eq!(pass.chosen(), expected);
    assert_eq!(world.claim("t1/web").phase, Some(ClaimPhase::Bound));
    assert_eq!(pass.events(), [EventReason::Matched], "one event, whatever was matched");
}

/// An absent family is IPv4.
#[test]
fn a_claim_that_names_no_family_gets_ipv4() {
    let mut world = World::of(&[class("public"), claim("t1/web"), free("a6", V6)]);
    assert_eq!(world.pass("t1/web").chosen(), [""; 0]);
    world.put(free("a4", V4));
    assert_eq!(world.pass("t1/web").chosen(), ["a4"]);
}

/// Both halves at once are one pass: one selection for both, then a bind for each.
#[test]
fn both_halves_are_selected_in_one_write() {
    let mut world = dual(&[free("a6", V6), free("a4", V4)]);
    assert_eq!(
        world.pass("t1/web").steps(),
        [
            "mark finalizer IPv4=a4/1,IPv6=a6/1",
            "bind a4 IPv4",
            "bind a6 IPv6",
            "status Bound a4 a6",
            "mark stamp=fake.example.org",
        ]
    );
}

/// One half comes first, in either order: it is bound at once and shown, the claim stays Pending
/// for the other, and is Bound when that comes.
#[rstest]
#[case::v4_first(free("a4", V4), free("a6", V6), "IPv6")]
#[case::v6_first(free("a6", V6), free("a4", V4), "IPv4")]
fn a_half_is_bound_at_once_and_the_other_waited_for(
    #[case] first: Object,
    #[case] second: Object,
    #[case] missing: &str,
) {
    let (one, two) = (first.address().name, second.address().name);
    let mut world = dual(&[first]);
    let half = world.pass("t1/web");
    assert_eq!(half.chosen(), [&*one]);
    assert_eq!(
        half.steps()[2..],
        ["mark stamp=fake.example.org".to_owned(), format!("status Pending {one}")],
        "the driver is asked for the other half, after the first is bound"
    );
    let claim = world.claim("t1/web");
    assert_eq!(published(&claim).len(), 1);
    assert!(why(&claim).starts_with(&format!("{missing} is missing")), "{}", why(&claim));
    assert_eq!(half.events(), [EventReason::Matched, EventReason::Pending]);

    world.addresses_pass();
    world.put(second);
    let rest = world.pass("t1/web");
    assert_eq!(rest.chosen(), [&*two]);
    assert_eq!(rest.events(), [EventReason::Matched]);
    let claim = world.claim("t1/web");
    assert_eq!(claim.phase, Some(ClaimPhase::Bound));
    assert_eq!(published(&claim), [("a4", V4), ("a6", V6)], "sorted by name");
}

/// One half is a driver's, created with the claim's name; the other is matched.
#[test]
fn one_half_can_be_completed_and_the_other_matched() {
    let mut world = dual(&[free("a6", V6).held_by("t1/web", None), free("a4", V4)]);
    assert_eq!(
        world.pass("t1/web").steps(),
        [
            "mark finalizer IPv4=a4/1",
            "complete a6",
            "bind a4 IPv4",
            "status Bound a4 a6",
            "mark stamp=fake.example.org",
        ]
    );
}

/// A half that is reported lost: the claim is Lost, both stay published, the other is not touched,
/// and a free address of that family stays free.
#[rstest]
#[case("a4", "IPv4")]
#[case("a6", "IPv6")]
fn a_lost_half_makes_the_claim_lost_and_nothing_else(#[case] lost: &str, #[case] family: &str) {
    let mut world = dual(&[free("a4", V4), free("a6", V6)]);
    world.settle("t1/web");
    world.put(free("b4", "192.0.2.2"));
    world.put(free("b6", "2001:db8::2"));
    world.edit(lost, |o| o.phase("Lost"));
    let pass = world.pass("t1/web");
    assert_eq!(pass.reads, [lost]);
    assert_eq!(pass.steps(), ["status Lost a4 a6"]);
    assert!(why(&world.claim("t1/web")).starts_with(&format!("{family} is missing")));
    world.edit(lost, |o| o.phase("Bound"));
    assert_eq!(world.pass("t1/web").steps(), ["status Bound a4 a6"]);
}

/// Both halves missing: the message names both, and both lines are stood in.
#[test]
fn both_missing_families_are_named_and_waited_for() {
    let mut world = dual(&[]);
    let pass = world.pass("t1/web");
    let claim = world.claim("t1/web");
    assert!(why(&claim).contains("IPv4 is missing") && why(&claim).contains("IPv6 is missing"));
    let families: Vec<_> = pass
        .plan
        .waiting
        .iter()
        .filter_map(|w| match w {
            Waiting::Candidate(class, family) => Some((&**class, family.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(families, [("public", "IPv4"), ("public", "IPv6")]);
}

/// A01: an IPv4-mapped IPv6 address is IPv4: it serves one half of a Dual claim, never both.
#[test]
fn a01_a_mapped_address_is_never_both_halves() {
    let mut world = dual(&[free("mapped", "::ffff:192.0.2.7")]);
    let pass = world.pass("t1/web");
    assert_eq!(pass.chosen(), ["mapped"]);
    assert_eq!(pass.plan.chosen().next().unwrap().1.as_str(), "IPv4");
    let claim = world.claim("t1/web");
    assert_eq!(claim.phase, Some(ClaimPhase::Pending));
    assert!(why(&claim).starts_with("IPv6 is missing"), "{}", why(&claim));
    assert_eq!(published(&claim), [("mapped", "::ffff:192.0.2.7")], "spelled as it is written");
}

/// A01: which family a text is of decides which claim it serves.
#[rstest]
#[case("::ffff:192.0.2.7", "IPv4", true)]
#[case("::ffff:192.0.2.7", "IPv6", false)]
#[case("::FFFF:c000:207", "IPv4", true)]
#[case("::192.0.2.7", "IPv6", true)]
#[case("::192.0.2.7", "IPv4", false)]
fn a01_the_family_is_that_of_the_ip_and_not_of_its_spelling(
    #[case] text: &str,
    #[case] family: &str,
    #[case] matched: bool,
) {
    let world = World::of(&[class("public"), claim("t1/web").family(family), free("a1", text)]);
    assert_eq!(!world.look("t1/web").chosen().is_empty(), matched);
}

/// Widening to Dual matches the new family as usual; the address that is held stays.
#[test]
fn widening_to_dual_matches_the_new_family() {
    let mut world = World::of(&[class("public"), claim("t1/web"), free("a4", V4)]);
    world.settle("t1/web");
    world.put(free("a6", V6));
    world.put(free("a0", "192.0.2.9"));
    world.edit("t1/web", |o| o.family("Dual").set("/metadata/generation", 2));
    let pass = world.pass("t1/web");
    assert_eq!(
        pass.steps(),
        ["mark IPv4=a4/1,IPv6=a6/1", "bind a6 IPv6", "status Bound a4 a6"],
        "the driver is known already"
    );
    assert_eq!(pass.reads, [""; 0], "nothing is known of the new family yet");
}

/// Widened with no address of the new family: the claim was Bound and lacks something, so it is
/// Lost, and the driver is asked; the new family was never held, so it is matched when it comes.
#[test]
fn widening_without_a_candidate_waits_for_one() {
    let mut world = World::of(&[class("public"), claim("t1/web"), free("a4", V4)]);
    world.settle("t1/web");
    world.edit("t1/web", |o| o.family("Dual"));
    let pass = world.pass("t1/web");
    assert_eq!(pass.steps(), ["status Lost a4"]);
    assert!(
        pass.plan
            .waiting
            .iter()
            .any(|w| matches!(w, Waiting::Candidate(_, f) if f.as_str() == "IPv6"))
    );
    world.put(free("a6", V6));
    assert_eq!(world.pass("t1/web").chosen(), ["a6"]);
    assert_eq!(world.claim("t1/web").phase, Some(ClaimPhase::Bound));
}

/// IPv4 edited to IPv6 after binding: an IPv6 address is matched, the IPv4 one stays the claim's.
#[test]
fn another_family_is_matched_and_the_first_address_kept() {
    let mut world = World::of(&[class("public"), claim("t1/web"), free("a4", V4), free("a6", V6)]);
    world.settle("t1/web");
    world.edit("t1/web", |o| o.family("IPv6"));
    world.pass("t1/web");
    let claim = world.claim("t1/web");
    assert_eq!(published(&claim), [("a4", V4), ("a6", V6)]);
    assert_eq!(claim.phase, Some(ClaimPhase::Bound));
    assert!(world.address("a4").claim_ref.is_some(), "nothing is given back");
    assert!(why(&claim).contains("asked for 1 and holds more"), "{}", why(&claim));
}

/// Narrowed from Dual: nothing is missing and nothing is given back.
#[test]
fn narrowing_keeps_what_is_held() {
    let mut world = dual(&[free("a4", V4), free("a6", V6)]);
    world.settle("t1/web");
    world.edit("t1/web", |o| o.family("IPv6"));
    world.pass("t1/web");
    let claim = world.claim("t1/web");
    assert_eq!(published(&claim), [("a4", V4), ("a6", V6)]);
    let bound = claim.conditions.iter().find(|c| c.type_ == ConditionType::Bound.as_str());
    assert!(bound.unwrap().message.contains("holds more than that"));
}

/// Dual with one class change between the halves: the second half is of the new class, the first
/// stays.
#[test]
fn an_edited_class_counts_for_the_half_that_is_missing() {
    let mut world = dual(&[free("a4", V4), class("lab"), free("l6", V6).class("lab")]);
    world.pass("t1/web");
    world.edit("t1/web", |o| o.class("lab"));
    let pass = world.pass("t1/web");
    assert_eq!(pass.chosen(), ["l6"]);
    let claim = world.claim("t1/web");
    assert_eq!(published(&claim), [("a4", V4), ("l6", V6)]);
    assert_eq!(claim.resolved_class.as_deref(), Some("lab"));
}
