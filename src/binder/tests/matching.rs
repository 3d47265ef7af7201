//! Which address a missing family gets: who is a candidate, and which of them is taken.

use rstest::rstest;

use super::claim_world::{World, being_bound, look, why};
use crate::{
    api::IpFamily,
    binder::{
        matching::{Missing, Obstacle, Resolution, choose},
        plan::Waiting,
        testing::{Object, address, claim, class, free, key, world},
    },
};

/// The smallest name as text, whatever the order in which addresses came or their IPs.
#[rstest]
#[case(&["a1", "a2"], "a1")]
#[case(&["b", "a", "c"], "a")]
#[case(&["a10", "a9"], "a10")]
#[case(&["a-1", "a.1", "a1"], "a-1")]
#[case(&["9", "a"], "9")]
fn the_smallest_name_is_taken(#[case] names: &[&str], #[case] expected: &str) {
    let mut world = World::of(&[class("public"), claim("t1/web")]);
    for (i, name) in names.iter().enumerate() {
        world.put(free(name, &format!("192.0.2.{}", 100 - i)));
    }
    assert_eq!(world.pass("t1/web").chosen(), [expected]);
}

/// One arm for each state of an address: only `Available`, claimless, staying, of the class and
/// the family is a candidate.
#[rstest]
#[case::available(free("a1", "192.0.2.1"), true)]
#[case::unprotected(address("a1", "192.0.2.1").phase("Available"), true)]
#[case::not_looked_at(address("a1", "192.0.2.1"), false)]
#[case::pending(free("a1", "192.0.2.1").phase("Pending"), false)]
#[case::bound_without_reference(free("a1", "192.0.2.1").phase("Bound"), false)]
#[case::released_and_cleared(free("a1", "192.0.2.1").phase("Released"), false)]
#[case::conflict(free("a1", "192.0.2.1").phase("Conflict"), false)]
#[case::lost(free("a1", "192.0.2.1").phase("Lost"), false)]
#[case::taken(free("a1", "192.0.2.1").held_by("t2/api", Some("u")), false)]
#[case::reserved_for_another(free("a1", "192.0.2.1").held_by("t2/api", None), false)]
#[case::of_an_earlier_claim(free("a1", "192.0.2.1").held_by("t1/web", Some("old")), false)]
#[case::released(free("a1", "192.0.2.1").phase("Released").held_by("t1/web", Some("old")), false)]
#[case::deleting(free("a1", "192.0.2.1").deleting(), false)]
#[case::other_class(free("a1", "192.0.2.1").class("lab"), false)]
#[case::other_family(free("a1", "2001:db8::1"), false)]
#[case::invalid(free("a1", "192.0.2.1/32"), false)]
fn only_a_free_address_of_class_and_family_is_a_candidate(
    #[case] object: Object,
    #[case] candidate: bool,
) {
    let mut world = World::of(&[class("public"), class("lab"), claim("t1/web"), object]);
    let before = world.json("a1").clone();
    let pass = world.pass("t1/web");
    assert_eq!(pass.chosen(), if candidate { vec!["a1"] } else { vec![] });
    if !candidate {
        assert_eq!(*world.json("a1"), before, "not touched");
        assert!(why(&world.claim("t1/web")).contains("no address of class public is free"));
        let line = Waiting::Candidate("public".into(), IpFamily::IPv4);
        assert!(pass.plan.waiting.contains(&line));
    }
}

/// A candidate that another claim is being bound to at this moment is passed over; with nothing
/// else to have, the claim waits; one that this claim itself goes for is taken.
#[test]
fn an_address_that_another_claim_goes_for_is_passed_over() {
    let mut world = World::of(&[class("public"), claim("t1/web"), free("a1", "192.0.2.1")]);
    let theirs = being_bound(&world, "a1", "t2/api");
    assert_eq!(look(&theirs, "t1/web").chosen(), [""; 0]);
    let own = being_bound(&world, "a1", "t1/web");
    assert_eq!(look(&own, "t1/web").chosen(), ["a1"]);
    world.put(free("a2", "192.0.2.2"));
    let theirs = being_bound(&world, "a1", "t2/api");
    assert_eq!(look(&theirs, "t1/web").chosen(), ["a2"]);
}

/// A03: one IP in two objects, however it is spelled: neither is matched, the next candidate is.
#[rstest]
#[case("2001:DB8::7", "2001:0db8:0:0:0:0:0:7", "IPv6")]
#[case("192.0.2.7", "::ffff:192.0.2.7", "IPv4")]
#[case("192.0.2.7", "192.0.2.7", "IPv4")]
fn a03_an_ip_that_two_objects_record_is_not_matched(
    #[case] one: &str,
    #[case] two: &str,
    #[case] family: &str,
) {
    let other = if family == "IPv4" { "192.0.2.200" } else { "2001:db8::200" };
    let mut world = World::of(&[class("public"), claim("t1/web").family(family)]);
    world.put(free("a1", one));
    world.put(free("a2", two));
    assert_eq!(world.look("t1/web").chosen(), [""; 0]);
    world.put(free("a3", other));
    assert_eq!(world.look("t1/web").chosen(), ["a3"], "the next candidate");
    world.remove("a1");
    assert_eq!(world.look("t1/web").chosen(), ["a2"], "and what is no longer disputed");
}

/// A03: the dispute counts across classes and states, and with objects that are being deleted.
#[rstest]
#[case::other_class(free("b1", "192.0.2.1").class("lab"))]
#[case::bound_to_another(free("b1", "192.0.2.1").held_by("t2/api", Some("u")).phase("Bound"))]
#[case::deleting(free("b1", "192.0.2.1").deleting())]
#[case::not_looked_at(address("b1", "192.0.2.1"))]
#[case::lost(free("b1", "192.0.2.1").phase("Lost"))]
fn a03_any_other_object_with_the_ip_disputes_it(#[case] other: Object) {
    let world = World::of(&[class("public"), claim("t1/web"), free("a1", "192.0.2.1"), other]);
    assert_eq!(world.look("t1/web").chosen(), [""; 0]);
}

/// A03: an object that does not parse disputes an IP as long as that much of it can be read.
#[test]
fn a03_an_unreadable_object_disputes_its_ip() {
    let mut world = World::of(&[class("public"), claim("t1/web"), free("a1", "192.0.2.1")]);
    world.put(free("a2", "192.0.2.1"));
    world.make_strange("a2");
    assert_eq!(world.look("t1/web").chosen(), [""; 0]);
}

/// A03: two claims, one IP in two objects: at most one claim ever gets it.
#[test]
fn a03_two_claims_never_get_one_ip() {
    let mut world = World::of(&[class("public"), claim("t1/web"), claim("t2/api")]);
    world.put(free("a1", "2001:DB8::7"));
    world.put(free("a2", "2001:db8:0:0::7"));
    world.edit("t1/web", |o| o.family("IPv6"));
    world.edit("t2/api", |o| o.family("IPv6"));
    world.settle("t1/web");
    world.settle("t2/api");
    let holders = ["a1", "a2"].map(|n| world.address(n).claim_ref.is_some());
    assert_eq!(holders, [false, false]);
    world.remove("a2");
    world.settle("t1/web");
    world.settle("t2/api");
    assert_eq!(world.address("a1").claim_ref.unwrap().key, key("t1/web"));
}

/// A choice that was made and not carried out is made again, though a smaller name came since.
#[test]
fn a_known_choice_is_made_again_while_it_can_be_had() {
    let mut world = World::of(&[class("public"), free("a5", "192.0.2.5")]);
    world.put(claim("t1/web").protected().selected("IPv4=a5/3"));
    world.put(free("a1", "192.0.2.1"));
    let pass = world.pass("t1/web");
    assert_eq!(pass.reads, ["a5"], "read before the choice is made again");
    assert_eq!(pass.steps()[..2], ["mark IPv4=a5/4", "bind a5 IPv4"], "and counted");
}

/// A choice that cannot be had is given up for the smallest name; the counter goes on.
#[rstest]
#[case::taken(free("a5", "192.0.2.5").held_by("t2/api", Some("u")))]
#[case::other_class(free("a5", "192.0.2.5").class("lab"))]
#[case::other_family(free("a5", "2001:db8::5"))]
#[case::deleting(free("a5", "192.0.2.5").deleting())]
#[case::conflict(free("a5", "192.0.2.5").phase("Conflict"))]
#[case::lost(free("a5", "192.0.2.5").phase("Lost"))]
#[case::pending(free("a5", "192.0.2.5").phase("Pending"))]
#[case::gone(free("b5", "192.0.2.5"))]
fn a_choice_that_cannot_be_had_is_given_up(#[case] object: Object) {
    let still_free = object.0["metadata"]["name"] == "a5" && object.address().matchable();
    let mut world = World::of(&[class("public"), class("lab"), object, free("a7", "192.0.2.7")]);
    world.put(claim("t1/web").protected().selected("IPv4=a5/3"));
    let pass = world.pass("t1/web");
    assert_eq!(pass.reads, ["a5"], "on the API server's word only");
    // Free for others, it is written to first: an older attempt may still be on its way to it.
    let mut steps = pass.steps();
    if still_free {
        assert_eq!(steps.remove(0), "give-up a5");
    }
    assert_eq!(steps[..2], ["mark IPv4=a7/4", "bind a7 IPv4"]);
}

/// A choice that cannot be read may be this claim's: no other is made until it can.
#[test]
fn a_choice_that_does_not_parse_is_not_given_up() {
    let mut world = World::of(&[class("public"), free("a5", "192.0.2.5"), free("a7", "192.0.2.7")]);
    world.put(claim("t1/web").protected().selected("IPv4=a5/3"));
    world.make_strange("a5");
    let pass = world.pass("t1/web");
    assert_eq!(pass.chosen(), [""; 0]);
    assert!(why(&world.claim("t1/web")).contains("the chosen address a5 does not parse"));
    assert!(pass.plan.waiting.contains(&Waiting::Address("a5".into())));
    world.make_readable("a5");
    assert_eq!(world.pass("t1/web").chosen(), ["a5"]);
}

/// The same holds when the owner pins another meanwhile: a second address for one family would be
/// this controller's doing.
#[test]
fn a_choice_that_does_not_parse_is_not_given_up_for_a_pin_either() {
    let mut world = World::of(&[class("public"), free("a5", "192.0.2.5"), free("a7", "192.0.2.7")]);
    world.put(claim("t1/web").protected().selected("IPv4=a5/3").pin("a7"));
    world.edit("a5", |o| o.held_by("t1/web", Some("uid-web")).phase("Bound"));
    world.make_strange("a5");
    let pass = world.pass("t1/web");
    assert_eq!(pass.chosen(), [""; 0]);
    assert!(pass.plan.waiting.contains(&Waiting::Address("a5".into())));
    world.make_readable("a5");
    world.settle("t1/web");
    assert!(world.address("a7").claim_ref.is_none(), "a5 was its own all along");
}

/// I2: what a claim's own match got it, before it could be published, is lost: still the claim's,
/// so no second address is matched beside it.
#[test]
fn an_unpublished_match_that_is_lost_is_not_replaced() {
    let mut world = World::of(&[class("public"), free("a1", "192.0.2.1"), free("a2", "192.0.2.2")]);
    world.put(claim("t1/web"));
    let plan = world.look("t1/web").plan;
    world.carry_out(&plan, 2);
    world.edit("a1", |o| o.phase("Lost"));
    let pass = world.pass("t1/web");
    assert_eq!(pass.chosen(), [""; 0]);
    assert!(why(&world.claim("t1/web")).contains("address a1 is lost"));
    world.edit("a1", |o| o.phase("Bound"));
    assert_eq!(world.pass("t1/web").steps()[0], "status Bound a1");
}

/// `choose` by itself: each answer that it can give.
#[test]
fn choose_answers_with_an_address_or_with_why_there_is_none() {
    let index = world(&[
        class("public"),
        free("a1", "192.0.2.1"),
        claim("t/any"),
        claim("t/pinned").pin("a9"),
        claim("t/held").selected("IPv4=a4/2/held"),
        claim("t/lost"),
        free("a3", "192.0.2.3").held_by("t/lost", Some("uid-lost")).phase("Lost"),
        claim("t/six").family("IPv6"),
    ]);
    let public = index.class(&"public".into()).known().unwrap();
    let ask = |id: &str, family| {
        let claim = index.claim(&key(id)).known().unwrap();
        choose(&index, claim, &claim.selections, public, family).map(|a| a.name.to_string())
    };
    let v4 = IpFamily::IPv4;
    assert_eq!(ask("t/any", v4), Ok("a1".to_owned()));
    assert_eq!(ask("t/pinned", v4), Err(Missing::Pinned("a9".into(), Obstacle::Absent)));
    assert_eq!(ask("t/held", v4), Err(Missing::HeldBefore("a4".into())));
    assert_eq!(ask("t/lost", v4), Err(Missing::HeldBefore("a3".into())), "it is still there");
    assert_eq!(ask("t/six", IpFamily::IPv6), Err(Missing::NoneFree("public".into())));
}

/// Each resolution's class, reason and text agree.
#[test]
fn only_a_resolved_class_is_one() {
    let index = world(&[class("public"), claim("t/c"), claim("t/d").class("gone")]);
    let of = |id: &str| Resolution::of(&index, index.claim(&key(id)).known().unwrap());
    assert_eq!(of("t/c").class().unwrap().name, "public".into());
    assert_eq!(of("t/c").reason().as_str(), "Resolved");
    assert!(of("t/c").to_string().contains("class public is served by fake.example.org"));
    for (failed, reason) in [
        (of("t/d"), "ClassNotFound"),
        (Resolution::Unreadable("x".into()), "ClassNotFound"),
        (Resolution::NoDefault, "NoDefaultClass"),
        (Resolution::MultipleDefaults(vec!["a".into(), "b".into()]), "MultipleDefaultClasses"),
    ] {
        assert_eq!(failed.class(), None);
        assert_eq!(failed.reason().as_str(), reason);
    }
}
