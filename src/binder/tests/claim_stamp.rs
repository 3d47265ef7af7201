//! The stamp: when a driver is asked to provision.

use rstest::rstest;

use super::claim_world::{DRIVER, World, why};
use crate::{
    api::ClaimPhase,
    binder::testing::{Object, address, claim, class, free},
};

const STAMP: &str = "mark stamp=fake.example.org";

fn lab() -> Object {
    class("lab").set("/spec/provisioner", "lab.example.org")
}

/// Nothing can be matched: the driver is asked in the same write that protects the claim, and the
/// status says who was asked.
#[test]
fn a_claim_that_waits_is_stamped_with_its_protection() {
    let mut world = World::of(&[class("public"), claim("t1/web")]);
    let pass = world.pass("t1/web");
    assert_eq!(pass.steps(), ["mark finalizer stamp=fake.example.org", "status Pending"]);
    assert!(why(&world.claim("t1/web")).contains("fake.example.org is asked to provision"));
}

/// A match comes first, then the status, then the stamp: no driver provisions a second address.
#[test]
fn a_matched_claim_is_stamped_after_it_is_bound() {
    let mut world = World::of(&[class("public"), claim("t1/web"), free("a1", "192.0.2.1")]);
    let steps = world.pass("t1/web").steps();
    assert_eq!(steps[1..], ["bind a1 IPv4", "status Bound a1", STAMP]);
}

/// While a family is missing the stamp is the resolved class's, and follows it.
#[rstest]
#[case::class_edited(|w: &mut World| w.edit("t1/web", |o| o.class("lab")), Some("lab.example.org"))]
#[case::removed_by_hand(|w: &mut World| w.edit("t1/web", |o| o.stamp("")), Some(DRIVER))]
#[case::edited_by_hand(|w: &mut World| w.edit("t1/web", |o| o.stamp("x")), Some(DRIVER))]
#[case::driver_of_the_class_replaced(
    |w: &mut World| w.put(class("public").set("/spec/provisioner", "new.example.org")),
    Some("new.example.org")
)]
#[case::class_deleted(|w: &mut World| w.remove("class public"), Some(DRIVER))]
#[case::edited_to_a_class_that_is_not_there(
    |w: &mut World| w.edit("t1/web", |o| o.class("gone")),
    Some(DRIVER)
)]
fn the_stamp_follows_the_resolved_class_while_something_is_missing(
    #[case] change: fn(&mut World),
    #[case] expected: Option<&str>,
) {
    let mut world = World::of(&[class("public"), lab(), claim("t1/web")]);
    world.pass("t1/web");
    change(&mut world);
    world.pass("t1/web");
    let claim = world.claim("t1/web");
    assert_eq!(claim.stamp.as_deref(), expected);
    assert_eq!(claim.phase, Some(ClaimPhase::Pending));
}

/// After binding it is left alone, whatever is edited.
#[rstest]
#[case::class_edited(|w: &mut World| w.edit("t1/web", |o| o.class("lab")))]
#[case::edited_by_hand(|w: &mut World| w.edit("t1/web", |o| o.stamp("x")))]
#[case::class_deleted(|w: &mut World| w.remove("class public"))]
fn the_stamp_of_a_bound_claim_is_left_alone(#[case] change: fn(&mut World)) {
    let mut world = World::of(&[class("public"), lab(), claim("t1/web"), free("a1", "192.0.2.1")]);
    world.settle("t1/web");
    change(&mut world);
    assert_eq!(world.pass("t1/web").steps(), [""; 0]);
}

/// A class that is edited and an address of the new class that is free: bound first, and then the
/// stamp follows.
#[test]
fn the_stamp_follows_after_a_match_of_the_new_class() {
    let mut world = World::of(&[class("public"), lab(), claim("t1/web")]);
    world.pass("t1/web");
    world.put(free("l1", "192.0.2.1").class("lab"));
    world.edit("t1/web", |o| o.class("lab"));
    assert_eq!(
        world.pass("t1/web").steps(),
        ["mark IPv4=l1/1", "bind l1 IPv4", "status Bound l1", "mark stamp=lab.example.org"]
    );
}

/// The pass that bound the claim ended before the status, or before the stamp: the next one makes
/// up for both, once.
#[rstest]
#[case::before_the_status(2, &["status Bound a1", STAMP])]
#[case::before_the_stamp(3, &[STAMP])]
fn a_crash_after_the_bind_leaves_no_claim_unstamped(#[case] done: usize, #[case] rest: &[&str]) {
    let mut world = World::of(&[class("public"), claim("t1/web"), free("a1", "192.0.2.1")]);
    let plan = world.look("t1/web").plan;
    world.carry_out(&plan, done);
    assert_eq!(world.pass("t1/web").steps(), rest);
    assert_eq!(world.claim("t1/web").resolved_class.as_deref(), Some("public"));
}

/// The same when the class has gone in between: nobody is stamped, nothing fails.
#[test]
fn a_crash_after_the_bind_and_a_class_that_is_gone_stamps_nobody() {
    let mut world = World::of(&[class("public"), claim("t1/web"), free("a1", "192.0.2.1")]);
    let plan = world.look("t1/web").plan;
    world.carry_out(&plan, 3);
    world.remove("class public");
    assert_eq!(world.pass("t1/web").steps(), [""; 0]);
    assert_eq!(world.claim("t1/web").stamp, None);
}

/// What a driver or an administrator gave the claim was never asked for: it is not stamped.
#[rstest]
#[case::reservation(free("a1", "192.0.2.1").held_by("t1/web", None))]
#[case::with_its_uid(address("a1", "192.0.2.1").held_by("t1/web", Some("uid-web")))]
fn a_claim_that_was_given_its_address_is_not_stamped(#[case] given: Object) {
    let mut world = World::of(&[class("public"), claim("t1/web"), given]);
    world.pass("t1/web");
    let claim = world.claim("t1/web");
    assert_eq!((claim.phase, claim.stamp), (Some(ClaimPhase::Bound), None));
}

/// A driver that was asked and provided: the stamp stays what it was.
#[test]
fn the_stamp_stays_when_the_driver_has_provided() {
    let mut world = World::of(&[class("public"), claim("t1/web")]);
    world.pass("t1/web");
    world.put(address("p1", "192.0.2.1").held_by("t1/web", None));
    assert_eq!(world.pass("t1/web").steps(), ["complete p1", "status Bound p1"]);
    assert_eq!(world.claim("t1/web").stamp.as_deref(), Some(DRIVER));
}
