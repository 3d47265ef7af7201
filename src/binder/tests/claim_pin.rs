//! B05: a pin is a pin. The claim gets the address that it names, or none and the reason why.

use rstest::rstest;

use super::claim_world::{World, assert_phase, being_bound, look, published, why};
use crate::{
    api::{ClaimPhase, IpFamily},
    binder::{
        plan::Waiting,
        testing::{Object, address, claim, class, free},
    },
};

fn a9() -> Object {
    free("a9", "192.0.2.9")
}

/// A claim for IPv4 of class public that pins a9, and a1 free throughout.
fn pinned() -> World {
    World::of(&[class("public"), class("lab"), free("a1", "192.0.2.1"), claim("t1/web").pin("a9")])
}

/// B05: the obstacles, each with the words that name it. The claim is Pending, the free address is
/// not touched, and what is waited for is a9. Then the obstacle goes, and a9 is bound with no edit
/// of the claim.
#[rstest]
#[case::absent(None, "does not exist")]
#[case::other_class(Some(a9().class("lab")), "is of class lab")]
#[case::other_family(Some(free("a9", "2001:db8::9")), "is IPv6")]
#[case::taken(Some(a9().held_by("t2/api", Some("u")).phase("Bound")), "is taken by claim t2/api")]
#[case::reserved(Some(a9().held_by("t2/api", None)), "is taken by claim t2/api")]
#[case::released(
    Some(a9().held_by("t2/old", Some("u")).phase("Released")),
    "is released, and its claimRef is not cleared"
)]
#[case::released_by_this_name(
    Some(a9().held_by("t1/web", Some("earlier")).phase("Released")),
    "is released, and its claimRef is not cleared"
)]
#[case::deleting(Some(a9().deleting()), "is being deleted")]
#[case::deleting_and_taken(
    Some(a9().held_by("t2/api", Some("u")).phase("Bound").deleting()),
    "is being deleted"
)]
#[case::conflict(Some(a9().phase("Conflict")), "is in conflict")]
#[case::lost(Some(a9().phase("Lost")), "is lost")]
#[case::not_looked_at(Some(address("a9", "192.0.2.9")), "is not available yet")]
#[case::pending(Some(a9().phase("Pending")), "is not available yet")]
#[case::invalid(Some(free("a9", "192.0.2.9/32")), "has a spec.address that is not one IP address")]
fn b05_an_obstacle_is_named_and_waited_out(#[case] obstacle: Option<Object>, #[case] reason: &str) {
    let mut world = pinned();
    let there = obstacle.is_some();
    if let Some(obstacle) = obstacle {
        world.put(obstacle);
    }
    let a1 = world.json("a1").clone();
    let before = there.then(|| world.json("a9").clone());

    let pass = world.pass("t1/web");
    assert_eq!(pass.chosen(), [""; 0]);
    assert_phase(&world, "t1/web", ClaimPhase::Pending);
    let message = why(&world.claim("t1/web")).to_owned();
    assert!(message.contains(&format!("the pinned address a9 {reason}")), "{message}");
    assert!(pass.plan.waiting.contains(&Waiting::Address("a9".into())));
    let line = Waiting::Candidate("public".into(), IpFamily::IPv4);
    assert!(!pass.plan.waiting.contains(&line), "no free address can help");

    assert_eq!(*world.json("a1"), a1, "a1 is not touched");
    assert_eq!(there.then(|| world.json("a9").clone()), before, "nor is a9");

    if there {
        world.remove("a9");
    }
    world.put(a9());
    assert_eq!(world.pass("t1/web").chosen(), ["a9"]);
    assert_phase(&world, "t1/web", ClaimPhase::Bound);
    assert_eq!(*world.json("a1"), a1);
}

/// B05: the same where the obstacle lies outside of the address: another object with its IP.
#[test]
fn b05_a_pinned_ip_that_another_object_records_is_not_bound() {
    let mut world = pinned();
    world.put(a9());
    world.put(free("b9", "::ffff:192.0.2.9"));
    world.pass("t1/web");
    let message = why(&world.claim("t1/web")).to_owned();
    assert!(message.contains("the pinned address a9 records the same IP as b9"), "{message}");
    world.remove("b9");
    assert_eq!(world.pass("t1/web").chosen(), ["a9"]);
}

/// B05: another claim is being bound to it at this moment.
#[test]
fn b05_a_pin_that_another_claim_goes_for_waits() {
    let mut world = pinned();
    world.put(a9());
    let pass = look(&being_bound(&world, "a9", "t2/api"), "t1/web");
    assert_eq!(pass.chosen(), [""; 0]);
    let bound = pass.status().conditions.iter().find(|c| c.type_ == "Bound").unwrap();
    assert!(bound.message.contains("a9 is being bound to claim t2/api"), "{}", bound.message);
}

/// B05: it does not parse.
#[test]
fn b05_a_pin_that_does_not_parse_waits() {
    let mut world = pinned();
    world.put(a9());
    world.make_strange("a9");
    world.pass("t1/web");
    let message = why(&world.claim("t1/web")).to_owned();
    assert!(message.contains("the pinned address a9 does not parse"), "{message}");
    world.make_readable("a9");
    assert_eq!(world.pass("t1/web").chosen(), ["a9"]);
}

/// A pin is no shortcut around the class: without one nothing is matched, pinned or not.
#[test]
fn a_pin_needs_the_class_too() {
    let mut world = World::of(&[a9(), claim("t1/web").pin("a9").class("gone")]);
    let pass = world.pass("t1/web");
    assert_eq!(pass.chosen(), [""; 0]);
    assert_eq!(pass.plan.waiting, [Waiting::Class("gone".into())]);
}

/// A pin that can be had is taken although a smaller name is free.
#[test]
fn a_pin_comes_before_the_smallest_name() {
    let mut world = pinned();
    world.put(a9());
    let pass = world.pass("t1/web");
    assert_eq!(pass.chosen(), ["a9"]);
    assert_eq!(pass.steps()[0], "mark finalizer IPv4=a9/1");
    assert_eq!(pass.reads, [""; 0], "nothing is known that would be given up");
}

/// An empty pin is none.
#[test]
fn an_empty_pin_is_none() {
    let mut world = World::of(&[class("public"), free("a1", "192.0.2.1"), claim("t1/web").pin("")]);
    assert_eq!(world.pass("t1/web").chosen(), ["a1"]);
}

/// A pin set after binding has no effect while the family is satisfied.
#[test]
fn a_pin_after_binding_changes_nothing() {
    let mut world = World::of(&[class("public"), free("a1", "192.0.2.1"), claim("t1/web"), a9()]);
    world.settle("t1/web");
    world.edit("t1/web", |o| o.pin("a9"));
    assert_eq!(world.pass("t1/web").steps(), [""; 0]);
    assert_eq!(published(&world.claim("t1/web")), [("a1", "192.0.2.1")]);
}

/// The choice of an earlier pass is given up for a pin only after it was read: it may be this
/// claim's already, and then the family is satisfied.
#[test]
fn a_pin_replaces_a_known_choice_only_after_that_was_read() {
    let mut world = pinned();
    world.put(a9());
    world.edit("t1/web", |o| o.protected().selected("IPv4=a1/1"));
    let pass = world.look("t1/web");
    assert_eq!((pass.reads, pass.plan.chosen().count()), (vec!["a1".to_owned()], 1));

    world.edit("a1", |o| o.held_by("t1/web", Some("uid-web")));
    let pass = world.pass("t1/web");
    assert_eq!(pass.chosen(), [""; 0], "it was bound all along");
    assert_eq!(published(&world.claim("t1/web")), [("a1", "192.0.2.1")]);
}

/// A pin of a Dual claim serves the family that it is of; the other family is told that it cannot.
#[test]
fn a_pin_of_a_dual_claim_serves_one_family() {
    let mut world = pinned();
    world.put(a9());
    world.put(free("a6", "2001:db8::6"));
    world.edit("t1/web", |o| o.family("Dual"));
    world.pass("t1/web");
    let claim = world.claim("t1/web");
    assert_eq!(published(&claim), [("a9", "192.0.2.9")]);
    assert!(why(&claim).contains("IPv6 is missing, and the pinned address a9 is IPv4"));
}

/// A claim for one family and a pin of the other: never bound, never both.
#[test]
fn a_pin_of_the_other_family_is_never_bound() {
    let mut world = pinned();
    world.put(a9());
    world.edit("t1/web", |o| o.family("IPv6"));
    world.pass("t1/web");
    assert!(why(&world.claim("t1/web")).contains("the pinned address a9 is IPv4"));
    assert!(world.address("a9").claim_ref.is_none());
}
