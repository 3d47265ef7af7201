//! Which addresses are read from the API server before a decision, and when none is.

use rstest::rstest;

use super::claim_world::{World, look};
use crate::binder::{
    plan::Decision,
    testing::{Object, claim, class, decide_claim, free, world},
};

fn own(name: &str, ip: &str) -> Object {
    free(name, ip).held_by("t1/web", Some("uid-web")).phase("Bound")
}

/// A bound claim that shows a1.
fn bound() -> Object {
    claim("t1/web").protected().phase("Bound").resolved("public").published(&[("a1", "192.0.2.1")])
}

fn waiting(selected: &str) -> Object {
    claim("t1/web").protected().phase("Pending").selected(selected)
}

/// What the cache says, and what has to be read before it is believed.
#[rstest]
// Nothing is at stake: nothing is read.
#[case::first_bind(claim("t1/web"), vec![free("a1", "192.0.2.1")], &[])]
#[case::nothing_free(claim("t1/web"), vec![], &[])]
// It would be completed: for this claim, if it is still there.
#[case::reservation(claim("t1/web"), vec![free("a1", "192.0.2.1").held_by("t1/web", None)], &["a1"])]
#[case::reservation_of_a_claim_that_goes(
    claim("t1/web").protected().deleting(),
    vec![free("a1", "192.0.2.1").held_by("t1/web", None)],
    &["a1"]
)]
#[case::reservation_that_goes(
    claim("t1/web"),
    vec![free("a1", "192.0.2.1").held_by("t1/web", None).deleting()],
    &[]
)]
#[case::bound_and_held(bound(), vec![own("a1", "192.0.2.1")], &[])]
#[case::bound_and_in_conflict(bound(), vec![own("a1", "192.0.2.1").phase("Conflict")], &[])]
#[case::bound_and_blocked(bound(), vec![own("a1", "192.0.2.1").deleting()], &[])]
// Held as the cache goes, and not published yet.
#[case::the_choice_is_held(waiting("IPv4=a1/1"), vec![own("a1", "192.0.2.1")], &["a1"])]
#[case::another_is_held(waiting("IPv4=a2/1"), vec![own("a1", "192.0.2.1")], &["a1"])]
#[case::a_pin_alone(claim("t1/web").pin("a1"), vec![free("a1", "192.0.2.1")], &[])]
// A published address would be withdrawn.
#[case::gone(bound(), vec![], &["a1"])]
#[case::taken(bound(), vec![free("a1", "192.0.2.1").held_by("t2/api", Some("u"))], &["a1"])]
#[case::freed(bound(), vec![free("a1", "192.0.2.1")], &["a1"])]
#[case::not_bound_yet(bound(), vec![free("a1", "192.0.2.1").version(9)], &["a1"])]
#[case::another_ip_under_its_name(bound(), vec![own("a1", "192.0.2.99")], &["a1"])]
#[case::one_of_two(
    bound().published(&[("a1", "192.0.2.1"), ("a2", "192.0.2.2")]),
    vec![own("a1", "192.0.2.1")],
    &["a2"]
)]
#[case::both_of_two(
    bound().published(&[("a1", "192.0.2.1"), ("a2", "192.0.2.2")]),
    vec![],
    &["a1", "a2"]
)]
// A bound claim would be called lost.
#[case::reported_lost(bound(), vec![own("a1", "192.0.2.1").phase("Lost")], &["a1"])]
#[case::known_to_be_lost(bound().phase("Lost"), vec![own("a1", "192.0.2.1").phase("Lost")], &[])]
// A known choice would be made again, or given up.
#[case::chosen_and_free(waiting("IPv4=a1/1"), vec![free("a1", "192.0.2.1")], &["a1"])]
#[case::chosen_and_gone(waiting("IPv4=a1/1"), vec![], &["a1"])]
#[case::chosen_and_pinned(waiting("IPv4=a1/1").pin("a2"), vec![free("a2", "192.0.2.2")], &["a1"])]
#[case::chosen_of_both(
    waiting("IPv4=a1/1,IPv6=b1/1").family("Dual"),
    vec![free("a1", "192.0.2.1")],
    &["a1", "b1"]
)]
#[case::chosen_of_the_family_not_asked_for(waiting("IPv6=b1/1"), vec![], &[])]
#[case::chosen_and_the_class_gone(waiting("IPv4=a1/1").class("gone"), vec![], &["a1"])]
// What was held is not chosen anew, so there is nothing to read for that; with a pin there is.
#[case::held_before(waiting("IPv4=a1/2/held").phase("Lost"), vec![], &[])]
#[case::held_before_and_pinned(waiting("IPv4=a1/2/held").phase("Lost").pin("a2"), vec![], &["a1"])]
// A claim that goes reads what it is known to hold.
#[case::unprotected_and_deleting(bound().set("/metadata/finalizers", Vec::<String>::new()).deleting(), vec![], &[])]
fn what_must_be_read(
    #[case] claim: Object,
    #[case] addresses: Vec<Object>,
    #[case] expected: &[&str],
) {
    let mut objects = vec![class("public"), claim];
    objects.extend(addresses);
    let reads = look(&world(&objects), "t1/web").reads;
    assert_eq!(reads, expected);
}

/// What was read is not asked for again; the rest still is.
#[test]
fn each_read_is_asked_for_until_it_is_confirmed() {
    let index =
        world(&[bound().published(&[("a1", "192.0.2.1"), ("a2", "192.0.2.2")]), class("public")]);
    let asks = |confirmed: &[&str]| match decide_claim(&index, "t1/web", confirmed) {
        Decision::Read(names) => names.iter().map(ToString::to_string).collect(),
        Decision::Act(_) => Vec::new(),
    };
    assert_eq!(asks(&[]), ["a1", "a2"]);
    assert_eq!(asks(&["a2"]), ["a1"]);
    assert_eq!(asks(&["a1", "a2"]), [""; 0]);
}

/// An old cache never makes a claim flap: the read brings the address back, and nothing is written.
#[test]
fn a_lagging_cache_is_corrected_by_the_read() {
    let mut fresh = World::of(&[class("public"), claim("t1/web"), free("a1", "192.0.2.1")]);
    let before = fresh.clone();
    fresh.settle("t1/web");

    // The claim's own state is seen, the address's is still the free one.
    let mut lagging = before.index();
    lagging.apply_claim(fresh.claim("t1/web"));
    let Decision::Read(names) = decide_claim(&lagging, "t1/web", &[]) else {
        panic!("acts on an old cache")
    };
    assert_eq!(names, ["a1".into()]);
    lagging.apply_address(fresh.address("a1"), std::time::Duration::from_hours(1));
    let Decision::Act(plan) = decide_claim(&lagging, "t1/web", &["a1"]) else {
        panic!("asks again")
    };
    assert_eq!(plan.steps, []);
}

/// The bind is conditional on the address as it was before the selection was written.
#[test]
fn a_bind_carries_the_state_that_was_chosen_on() {
    let index = world(&[class("public"), claim("t1/web"), free("a1", "192.0.2.1").version(41)]);
    let pass = look(&index, "t1/web");
    let bind = pass.plan.steps.iter().find_map(|p| match &p.step {
        crate::binder::plan::ClaimStep::Bind { address, .. } => Some(address),
        _ => None,
    });
    let bind = bind.unwrap();
    assert_eq!((&*bind.uid, &*bind.version), ("uid-a1", "41"));
    assert_eq!(&*pass.plan.version, "1", "and the selection on the claim's");
}

/// What does not parse is not asked for: a read would say the same.
#[test]
fn what_does_not_parse_is_not_read() {
    let mut world = World::of(&[class("public"), free("a1", "192.0.2.1"), free("a2", "192.0.2.2")]);
    world.put(waiting("IPv4=a2/1"));
    world.make_strange("a2");
    assert_eq!(world.look("t1/web").reads, [""; 0]);
}
