//! A process that stops between any two writes of a claim's pass. The next look, by whoever, comes to
//! the same end, and never to two addresses.

use rstest::rstest;

use super::claim_world::{World, published, steps};
use crate::{
    api::IpFamily,
    binder::testing::{Object, address, claim, class, free, key},
};

fn base(more: &[Object]) -> World {
    let mut world = World::of(&[
        class("public"),
        class("lab").set("/spec/provisioner", "lab.example.org"),
        free("a1", "192.0.2.1"),
        free("a2", "192.0.2.2"),
    ]);
    for object in more {
        world.put(object.clone());
    }
    world
}

/// What a claim and its addresses have come to, without what counts attempts.
fn outcome(world: &World) -> String {
    let claim = world.claim("t1/web");
    let held: Vec<_> = holders(world);
    format!(
        "{:?} {:?} class {:?} stamp {:?} holds {held:?}, {:?}",
        claim.phase.unwrap(),
        published(&claim),
        claim.resolved_class,
        claim.stamp,
        claim.conditions.iter().map(|c| (&c.type_, &c.status, &c.message)).collect::<Vec<_>>(),
    )
}

/// The addresses that name the claim, with their family.
fn holders(world: &World) -> Vec<(String, Option<IpFamily>)> {
    let index = world.index();
    index.claimed_by(&key("t1/web")).map(|a| (a.name.to_string(), a.family())).collect()
}

/// Stops after each write in turn, and once before the first; a smaller name comes free meanwhile.
#[rstest]
#[case::single(base(&[claim("t1/web")]))]
#[case::pinned(base(&[claim("t1/web").pin("a2")]))]
#[case::dual(base(&[claim("t1/web").family("Dual"), free("a6", "2001:db8::6")]))]
#[case::dual_half(base(&[claim("t1/web").family("Dual")]))]
#[case::given(base(&[claim("t1/web"), address("p1", "192.0.2.3").held_by("t1/web", None)]))]
#[case::given_twice(base(&[
    claim("t1/web"),
    address("p1", "192.0.2.3").held_by("t1/web", None),
    address("p2", "192.0.2.4").held_by("t1/web", None),
]))]
#[case::dual_given_and_matched(base(&[
    claim("t1/web").family("Dual"),
    address("p6", "2001:db8::7").held_by("t1/web", None),
]))]
#[case::waiting(base(&[claim("t1/web").class("lab")]))]
#[case::without_class(base(&[claim("t1/web").class("gone")]))]
#[case::known_choice(base(&[claim("t1/web").protected().selected("IPv4=a2/4")]))]
#[case::lost_and_pinned(base(&[claim("t1/web").protected().phase("Lost").resolved("public")
    .selected("IPv4=a9/2/held").pin("a1")]))]
fn stopping_between_any_two_writes_changes_nothing_in_the_end(#[case] world: World) {
    let plan = world.look("t1/web").plan;
    let mut whole = world.clone();
    whole.settle("t1/web");
    for done in 0..=plan.steps.len() {
        let mut stopped = world.clone();
        stopped.carry_out(&plan, done);
        stopped.settle("t1/web");
        assert_eq!(
            outcome(&stopped),
            outcome(&whole),
            "stopped after {done} of {:?}",
            steps(&plan)
        );
    }
}

/// After the choice is recorded, a smaller name comes free: the choice stands.
#[test]
fn a_smaller_name_that_comes_after_the_selection_is_not_taken_beside_it() {
    for done in 1..=4 {
        let mut world = base(&[claim("t1/web")]);
        let plan = world.look("t1/web").plan;
        world.carry_out(&plan, done);
        world.put(free("a0", "192.0.2.10"));
        world.settle("t1/web");
        assert_eq!(holders(&world), [("a1".to_owned(), Some(IpFamily::IPv4))], "after {done}");
    }
}

/// The same while another claim takes the chosen address before the bind is sent: one each.
#[test]
fn a_choice_that_is_taken_after_the_selection_is_given_up_for_another() {
    let mut world = base(&[claim("t1/web")]);
    let plan = world.look("t1/web").plan;
    world.carry_out(&plan, 1);
    world.edit("a1", |o| o.held_by("t2/api", Some("u")).phase("Bound"));
    world.settle("t1/web");
    assert_eq!(holders(&world), [("a2".to_owned(), Some(IpFamily::IPv4))]);
    assert_eq!(world.claim("t1/web").selections.to_string(), "IPv4=a2/2");
}

/// A class that failed to resolve until now: the pass that bound the claim to it stopped before the
/// status, and the next one does not leave the failure standing, nor an older class.
#[rstest]
#[case::never_resolved("")]
#[case::resolved_to_another_before("public")]
fn the_class_that_a_claim_was_bound_by_is_told_though_the_pass_stopped(#[case] before: &str) {
    let mut world =
        base(&[claim("t1/web").class("gone").resolved(before), free("l1", "192.0.2.8")]);
    world.pass("t1/web");
    world.edit("l1", |o| o.class("lab"));
    world.edit("t1/web", |o| o.class("lab"));
    let plan = world.look("t1/web").plan;
    world.carry_out(&plan, 2);
    world.settle("t1/web");
    let claim = world.claim("t1/web");
    assert_eq!(claim.resolved_class.as_deref(), Some("lab"));
    let class = claim.conditions.iter().find(|c| c.type_ == "ClassResolved").unwrap();
    assert_eq!((class.status.as_str(), class.reason.as_str()), ("True", "Resolved"));
}

/// The same for the second half of a Dual claim: what is not published yet tells of the class, and
/// not the half that was bound before the class was edited.
#[test]
fn the_half_that_is_not_published_yet_tells_of_the_class() {
    let mut world = base(&[claim("t1/web").family("Dual")]);
    world.settle("t1/web");
    world.put(free("l6", "2001:db8::6").class("lab"));
    world.edit("t1/web", |o| o.class("lab"));
    let plan = world.look("t1/web").plan;
    world.carry_out(&plan, 2);
    world.settle("t1/web");
    let claim = world.claim("t1/web");
    assert_eq!(published(&claim), [("a1", "192.0.2.1"), ("l6", "2001:db8::6")]);
    assert_eq!(claim.resolved_class.as_deref(), Some("lab"));
}
