//! What was held before: a claim that showed an IP to its tenant is never given a different one by
//! itself. B04 and B11 are here too: how a claim loses what it holds, and gets it back.

use rstest::rstest;

use super::claim_world::{World, assert_phase, published, why};
use crate::{
    api::ClaimPhase,
    binder::{
        plan::{EventReason, Waiting},
        testing::{Object, address, claim, class, free},
    },
};

const IP: &str = "192.0.2.1";

/// t1/web bound to a1; a2 free.
fn bound() -> World {
    let mut world = World::of(&[class("public"), claim("t1/web"), free("a1", IP)]);
    world.settle("t1/web");
    assert_phase(&world, "t1/web", ClaimPhase::Bound);
    world.put(free("a2", "192.0.2.2"));
    world
}

fn unclaimed(object: Object) -> Object {
    object.set("/spec/claimRef", serde_json::Value::Null)
}

/// Everything that takes a1 from the claim: each makes it Lost, withdraws a1, leaves a2 alone, and
/// says what became of a1.
#[rstest]
#[case::gone(None, "address a1 is gone")]
#[case::b04_another_claims(
    Some(free("a1", IP).held_by("t2/api", Some("uid-api")).phase("Bound")),
    "address a1 belongs to another claim"
)]
#[case::b04_reserved_for_another(
    Some(free("a1", IP).held_by("t2/api", None).phase("Bound")),
    "address a1 belongs to another claim"
)]
#[case::b04_reference_removed(
    Some(free("a1", IP).phase("Bound")),
    "address a1 was taken from this claim"
)]
#[case::b04_reference_removed_and_seen(
    Some(free("a1", IP)),
    "address a1 was taken from this claim"
)]
#[case::created_again(Some(free("a1", IP).uid("again")), "address a1 was taken from this claim")]
#[case::uid_of_another(
    Some(free("a1", IP).held_by("t1/web", Some("other")).phase("Bound")),
    "address a1 belongs to another claim"
)]
#[case::let_go(
    Some(address("a1", IP).held_by("t1/web", Some("uid-web")).phase("Bound").deleting()),
    "address a1 is being deleted"
)]
fn what_was_held_is_not_replaced(#[case] now: Option<Object>, #[case] whereabouts: &str) {
    let mut world = bound();
    let a2 = world.json("a2").clone();
    world.remove("a1");
    let matchable = now.as_ref().is_some_and(|now| now.address().matchable());
    if let Some(now) = now {
        world.put(now);
    }

    let pass = world.pass("t1/web");
    assert_eq!(pass.reads, ["a1"], "only on the API server's word");
    // Free, it is written to first: an older attempt to bind it may still be on its way.
    let mut steps = pass.steps();
    if matchable {
        assert_eq!(steps.remove(0), "give-up a1");
    }
    assert_eq!(steps, ["mark IPv4=a1/2/held", "status Lost"]);
    assert_eq!(pass.events(), [EventReason::Lost]);
    assert_eq!(*world.json("a2"), a2, "a2 stays free");
    let claim = world.claim("t1/web");
    assert!(why(&claim).contains(whereabouts), "{}", why(&claim));
    assert!(why(&claim).contains("not replaced unasked"));
    assert_eq!(claim.conditions[1].reason, "AddressLost");
    assert!(pass.plan.waiting.contains(&Waiting::Address("a1".into())));
    let more = world.look("t1/web");
    assert_eq!((more.reads, more.plan.steps.len()), (vec![], 0), "settled, and nothing to read");
}

/// It stays that way: whatever comes free later, a1 itself included, is not matched again.
#[test]
fn neither_another_address_nor_the_same_one_is_matched_again_by_itself() {
    let mut world = bound();
    world.edit("a1", unclaimed);
    world.settle("t1/web");
    assert_phase(&world, "t1/web", ClaimPhase::Lost);
    world.put(free("a0", "192.0.2.10"));
    assert_eq!(world.address("a1").phase.unwrap().as_str(), "Available", "anybody's now");
    let pass = world.pass("t1/web");
    assert_eq!((pass.chosen(), pass.steps()), (vec![], vec![]));
}

/// Another claim gets what was taken from this one.
#[test]
fn b04_the_other_claim_is_completed_and_bound() {
    let mut world = bound();
    world.put(claim("t2/api"));
    world.edit("a1", |o| o.held_by("t2/api", None));
    let other = world.pass("t2/api");
    assert_eq!(other.steps(), ["mark finalizer", "complete a1", "status Bound a1"]);
    world.pass("t1/web");
    assert_phase(&world, "t1/web", ClaimPhase::Lost);
    assert_eq!(published(&world.claim("t1/web")), []);
    assert_eq!(published(&world.claim("t2/api")), [("a1", IP)]);
}

/// The ways back without a word of the owner's: the object comes again with a claimRef to the
/// claim, with or without its uid, under the same name or another.
#[rstest]
#[case::reserved(address("a1", IP).uid("again").held_by("t1/web", None))]
#[case::with_uid(address("a1", IP).uid("again").held_by("t1/web", Some("uid-web")))]
#[case::another_name(address("b1", IP).held_by("t1/web", None))]
#[case::another_ip(address("b1", "192.0.2.77").held_by("t1/web", None))]
fn an_address_that_names_the_claim_brings_it_back(#[case] again: Object) {
    let mut world = bound();
    world.remove("a1");
    world.settle("t1/web");
    assert_phase(&world, "t1/web", ClaimPhase::Lost);
    let view = again.address();
    world.put(again);
    let pass = world.pass("t1/web");
    assert_eq!(pass.chosen(), [""; 0]);
    assert_eq!(pass.events(), [EventReason::Bound]);
    assert_eq!(published(&world.claim("t1/web")), [(&*view.name, &*view.text)]);
}

/// The owner asks for another by pinning it: that one is bound, and nothing else.
#[test]
fn a_pin_frees_the_claim() {
    let mut world = bound();
    world.remove("a1");
    world.settle("t1/web");
    world.edit("t1/web", |o| o.pin("a2"));
    let pass = world.pass("t1/web");
    assert_eq!(pass.reads, ["a1"], "what was held is looked at once more before it is given up");
    assert_eq!(pass.steps(), ["mark IPv4=a2/3/held", "bind a2 IPv4", "status Bound a2"]);
    assert_eq!(pass.events(), [EventReason::Matched]);
    world.edit("t1/web", |o| o.pin(""));
    assert_eq!(world.pass("t1/web").steps(), [""; 0], "the pin is not needed any more");
}

/// A pin to the very address that was taken away and freed: the owner asked for it.
#[test]
fn a_pin_can_ask_for_the_same_address_again() {
    let mut world = bound();
    world.edit("a1", unclaimed);
    world.settle("t1/web");
    world.edit("t1/web", |o| o.pin("a1"));
    assert_eq!(world.pass("t1/web").chosen(), ["a1"]);
}

/// A pin that cannot be had leaves the claim Lost, and the message is the pin's.
#[test]
fn a_pin_that_cannot_be_had_leaves_the_claim_lost() {
    let mut world = bound();
    world.remove("a1");
    world.settle("t1/web");
    world.edit("t1/web", |o| o.pin("a9"));
    assert_eq!(world.pass("t1/web").chosen(), [""; 0]);
    assert_phase(&world, "t1/web", ClaimPhase::Lost);
    let claim = world.claim("t1/web");
    assert!(why(&claim).contains("the pinned address a9 does not exist"), "{}", why(&claim));
}

/// What was held stays known after a second loss: held is never forgotten.
#[test]
fn held_stays_through_a_second_address_and_its_loss() {
    let mut world = bound();
    world.remove("a1");
    world.settle("t1/web");
    world.edit("t1/web", |o| o.pin("a2"));
    world.settle("t1/web");
    world.edit("t1/web", |o| o.pin(""));
    world.remove("a2");
    world.put(free("a3", "192.0.2.3"));
    world.settle("t1/web");
    assert_phase(&world, "t1/web", ClaimPhase::Lost);
    let claim = world.claim("t1/web");
    assert!(why(&claim).contains("address a2 is gone"), "{}", why(&claim));
    assert!(world.address("a3").claim_ref.is_none());
}

/// One family held and lost does not touch the other: a claim for the other family is matched.
#[test]
fn a_lost_family_leaves_the_other_free_to_match() {
    let mut world = bound();
    world.remove("a1");
    world.put(free("a6", "2001:db8::6"));
    world.settle("t1/web");
    world.edit("t1/web", |o| o.family("IPv6"));
    assert_eq!(world.pass("t1/web").chosen(), ["a6"]);
    assert_phase(&world, "t1/web", ClaimPhase::Bound);
    world.edit("t1/web", |o| o.family("Dual"));
    world.settle("t1/web");
    assert_phase(&world, "t1/web", ClaimPhase::Lost);
    assert!(world.address("a2").claim_ref.is_none(), "IPv4 was held before");
}

/// A half that was published while the claim waited for the other counts as held.
#[test]
fn a_published_half_of_a_pending_claim_is_not_replaced() {
    let mut world = World::of(&[class("public"), claim("t1/web").family("Dual"), free("a1", IP)]);
    world.settle("t1/web");
    assert_phase(&world, "t1/web", ClaimPhase::Pending);
    world.remove("a1");
    world.put(free("a2", "192.0.2.2"));
    let pass = world.pass("t1/web");
    assert_eq!(pass.chosen(), [""; 0]);
    assert_phase(&world, "t1/web", ClaimPhase::Pending);
    assert!(why(&world.claim("t1/web")).contains("address a1 is gone"));
}

/// A loss that was recorded and not yet written to the status is not recorded twice.
#[test]
fn a_loss_is_counted_once_though_the_status_fails() {
    let mut world = bound();
    world.remove("a1");
    let plan = world.look("t1/web").plan;
    world.carry_out(&plan, 1);
    assert_eq!(world.look("t1/web").steps(), ["status Lost"]);
}

/// B11: Conflict satisfies the family: the claim stays as it is, and the driver's phase too.
#[test]
fn b11_conflict_satisfies_the_family() {
    let mut world = bound();
    world.edit("a1", |o| o.phase("Conflict"));
    let pass = world.pass("t1/web");
    assert_eq!((pass.reads, pass.plan.steps.len()), (vec![], 0));
    world.addresses_pass();
    assert_eq!(world.address("a1").phase.unwrap().as_str(), "Conflict");
}

/// B11: Lost does not: the claim is Lost, keeps the address and goes on showing it; nothing is
/// written to the address; when the driver clears it the claim is back with no edit.
#[rstest]
#[case::to_bound("Bound")]
#[case::to_conflict("Conflict")]
#[case::to_nothing("")]
fn b11_lost_does_not_satisfy_and_comes_back_when_cleared(#[case] cleared: &str) {
    let mut world = bound();
    world.edit("a1", |o| o.phase("Lost"));
    let a1 = world.json("a1").clone();
    let pass = world.pass("t1/web");
    assert_eq!(pass.reads, ["a1"]);
    assert_eq!(pass.steps(), ["status Lost a1"]);
    assert!(why(&world.claim("t1/web")).contains("address a1 is lost"));
    world.settle("t1/web");
    assert_eq!(*world.json("a1"), a1);

    world.edit("a1", |o| match cleared {
        "" => o.set("/status/phase", serde_json::Value::Null),
        phase => o.phase(phase),
    });
    let back = world.pass("t1/web");
    assert_eq!(back.steps(), ["status Bound a1"]);
    assert_eq!(back.events(), [EventReason::Bound]);
}

/// A lost address and a pin to another: the owner has asked, so both are the claim's, and it says so.
#[test]
fn a_pin_beside_a_lost_address_binds_the_pinned_one() {
    let mut world = bound();
    world.edit("a1", |o| o.phase("Lost"));
    world.settle("t1/web");
    world.edit("t1/web", |o| o.pin("a2"));
    world.settle("t1/web");
    let claim = world.claim("t1/web");
    assert_eq!(published(&claim), [("a1", IP), ("a2", "192.0.2.2")]);
    assert_phase(&world, "t1/web", ClaimPhase::Bound);
    assert!(why(&claim).contains("holds more than that"));
}

/// A lost address that is deleted is let go at once: it leaves the status, and the claim stays Lost.
#[test]
fn a_lost_address_that_is_deleted_leaves() {
    let mut world = bound();
    world.edit("a1", |o| o.phase("Lost"));
    world.settle("t1/web");
    world.edit("a1", Object::deleting);
    let pass = world.pass("t1/web");
    assert_eq!(pass.reads, ["a1"]);
    assert_eq!(pass.steps(), ["mark IPv4=a1/2/held", "status Lost"]);
    assert_eq!(pass.events(), [], "it was Lost before");
}

/// A published address that no longer parses is kept as it is: the claim stays Bound on it, it stays
/// in the status, nothing is read, nothing is matched.
#[test]
fn a_published_address_that_does_not_parse_is_kept() {
    let mut world = bound();
    world.make_strange("a1");
    let pass = world.pass("t1/web");
    assert_eq!((pass.reads, pass.plan.steps.len()), (vec![], 0));
    assert_eq!(published(&world.claim("t1/web")), [("a1", IP)]);
    world.edit("t1/web", |o| o.set("/metadata/generation", 2));
    assert_eq!(world.pass("t1/web").steps(), ["status Bound a1"], "also when a write is due");
    world.make_readable("a1");
    assert_eq!(world.pass("t1/web").steps(), [""; 0]);
}

/// One half does not parse: the other is matched as usual.
#[test]
fn an_unreadable_half_stands_for_its_own_family_only() {
    let mut world = bound();
    world.make_strange("a1");
    world.put(free("a6", "2001:db8::6"));
    world.edit("t1/web", |o| o.family("Dual"));
    let pass = world.pass("t1/web");
    assert_eq!(pass.chosen(), ["a6"]);
    assert_eq!(published(&world.claim("t1/web")), [("a1", IP), ("a6", "2001:db8::6")]);
}

/// A race that was lost, then a driver's address, then that one lost: what is named is the address
/// that the tenant was shown, and not the one that was merely chosen once.
#[test]
fn the_loss_names_what_was_shown_and_not_what_was_only_chosen() {
    let mut world = World::of(&[class("public"), claim("t1/web"), free("a1", IP)]);
    let plan = world.look("t1/web").plan;
    world.carry_out(&plan, 1);
    world.edit("a1", |o| o.held_by("t2/api", Some("u")).phase("Bound"));
    world.put(address("p1", "192.0.2.3").held_by("t1/web", None));
    world.settle("t1/web");
    assert_eq!(published(&world.claim("t1/web")), [("p1", "192.0.2.3")]);
    world.remove("p1");
    let pass = world.pass("t1/web");
    assert_eq!(pass.reads, ["a1", "p1"], "the choice gives way only when it cannot be had");
    assert_eq!(pass.steps(), ["mark IPv4=p1/0/held stamp=fake.example.org", "status Lost"]);
    assert!(why(&world.claim("t1/web")).contains("address p1 is gone"));
}

/// A choice that may still become this claim's is not forgotten over a loss: the family is held, and
/// the name that is known stays known.
#[test]
fn a_loss_does_not_forget_a_choice_that_can_be_had() {
    let mut world = World::of(&[class("public"), free("a1", IP)]);
    world.put(
        claim("t1/web")
            .protected()
            .selected("IPv4=a1/1")
            .phase("Bound")
            .published(&[("p1", "192.0.2.3")]),
    );
    let pass = world.pass("t1/web");
    assert_eq!(pass.reads, ["a1", "p1"]);
    assert_eq!(pass.steps()[..2], ["give-up a1", "mark IPv4=a1/2/held stamp=fake.example.org"]);
    assert_eq!(pass.chosen(), [""; 0]);
}

/// Nor is one that does not parse: it may be this claim's.
#[test]
fn a_loss_does_not_forget_a_choice_that_does_not_parse() {
    let mut world = World::of(&[class("public"), free("a1", IP)]);
    let shown = [("p1", "192.0.2.3")];
    world.put(claim("t1/web").protected().selected("IPv4=a1/1").phase("Bound").published(&shown));
    world.make_strange("a1");
    assert_eq!(world.pass("t1/web").steps()[0], "mark IPv4=a1/2/held stamp=fake.example.org");
}

/// An address that a driver gave, took back and gave again: the claim is bound to it, and still was
/// never matched, so nobody is asked to provision for it.
#[test]
fn what_was_given_twice_is_not_taken_for_a_match() {
    let mut world = World::of(&[class("public"), claim("t1/web").class("gone")]);
    world.put(address("p1", IP).held_by("t1/web", None));
    world.settle("t1/web");
    world.remove("p1");
    world.settle("t1/web");
    world.put(address("p1", IP).uid("again").held_by("t1/web", None));
    world.put(class("gone"));
    assert_eq!(world.pass("t1/web").steps(), ["complete p1", "status Bound p1"]);
}

/// An object that comes again under its name with an IP of the other family: what was held of the
/// first is remembered, and what is shown is withdrawn only after a read.
#[test]
fn an_object_that_comes_again_with_another_family_leaves_the_first_held() {
    let mut world = bound();
    world.remove("a1");
    world.put(address("a1", "2001:db8::1").uid("again").held_by("t1/web", None));
    let pass = world.pass("t1/web");
    assert_eq!(pass.reads, ["a1"]);
    assert_eq!(pass.chosen(), [""; 0], "a2 is another IPv4 than the tenant was shown");
    let claim = world.claim("t1/web");
    assert_eq!(published(&claim), [("a1", "2001:db8::1")]);
    assert!(why(&claim).contains("address a1 is no IP of this family any more"), "{}", why(&claim));
    world.settle("t1/web");
    assert_phase(&world, "t1/web", ClaimPhase::Lost);
}

/// An address that names the claim and is lost from the first look on: it is the claim's and shown,
/// so none is matched beside it, now or later.
#[test]
fn a_given_address_that_is_lost_already_is_not_replaced() {
    let mut world = World::of(&[class("public"), claim("t1/web"), free("a2", "192.0.2.2")]);
    world.put(free("p1", IP).held_by("t1/web", None).phase("Lost"));
    let pass = world.pass("t1/web");
    assert_eq!(pass.chosen(), [""; 0]);
    assert_phase(&world, "t1/web", ClaimPhase::Pending);
    let claim = world.claim("t1/web");
    assert_eq!(published(&claim), [("p1", IP)]);
    assert!(why(&claim).contains("address p1 is lost"), "{}", why(&claim));
    world.edit("p1", |o| o.phase("Bound"));
    assert_eq!(world.pass("t1/web").steps(), ["status Bound p1"]);
}

/// What no object can be called was never published by this controller: it is withdrawn, promises
/// nothing, and the claim is matched as one that never held anything.
#[rstest]
#[case("..")]
#[case("a b")]
#[case("?watch=true")]
#[case("A1")]
fn i7_a_status_that_somebody_made_up_is_put_right(#[case] name: &str) {
    let claim = claim("t1/web").phase("Bound").published(&[(name, IP)]);
    let mut world = World::of(&[class("public"), claim, free("a1", IP)]);
    world.settle("t1/web");
    assert_phase(&world, "t1/web", ClaimPhase::Bound);
    assert_eq!(published(&world.claim("t1/web")), [("a1", IP)]);
}
