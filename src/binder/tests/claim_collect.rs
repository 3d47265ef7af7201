//! What is a claim's own: which addresses it collects, completes and publishes.

use rstest::rstest;

use super::claim_world::{World, assert_phase, published, why};
use crate::{
    api::{ClaimPhase, well_known::ADDRESS_FINALIZER},
    binder::{
        plan::{ClaimStep, EventReason},
        testing::{Object, address, claim, class, free, plan_claim_after, world},
    },
};

fn own(name: &str, ip: &str) -> Object {
    free(name, ip).held_by("t1/web", Some("uid-web")).phase("Bound")
}

fn a1() -> Object {
    own("a1", "192.0.2.1")
}

/// The claim's protection is on before anything else is written, and foreign finalizers stay.
#[test]
fn protection_comes_before_everything() {
    let finalizer = "backup.example.org/keep";
    let index = world(&[
        class("public"),
        claim("t1/web").finalizer(finalizer),
        free("a1", "192.0.2.1").held_by("t1/web", None),
    ]);
    let plan = plan_claim_after(&index, "t1/web", &["a1"]);
    let ClaimStep::Mark { finalizers: Some(all), .. } = &plan.steps[0].step else {
        panic!("{:?}", plan.steps[0])
    };
    let all: Vec<&str> = all.iter().map(|f| &**f).collect();
    assert_eq!(all, [finalizer, "local.sdn.cozystack.io/claim-protection"]);
}

/// Protection needs no class and no address: it is on while the claim still waits.
#[test]
fn a_claim_that_waits_is_protected_too() {
    let mut world = World::of(&[claim("t1/web").class("gone")]);
    assert_eq!(world.pass("t1/web").steps(), ["mark finalizer", "status Pending"]);
}

/// B06: a claim that is being deleted gets no finalizer, no selection, no stamp, no status.
#[test]
fn b06_nothing_is_put_on_a_claim_that_is_being_deleted() {
    let objects = [class("public"), free("a1", "192.0.2.1"), claim("t1/web").deleting()];
    let world = World::of(&objects);
    assert_eq!(world.look("t1/web").steps(), [""; 0]);

    let objects =
        [class("public"), free("a1", "192.0.2.1"), claim("t1/web").protected().deleting()];
    let world = World::of(&objects);
    assert_eq!(world.look("t1/web").steps(), ["unprotect"]);
}

/// Which addresses are a claim's own: by namespace, name and uid, and not by phase.
#[rstest]
#[case::own(a1(), true)]
#[case::reserved(free("a1", "192.0.2.1").held_by("t1/web", None), true)]
#[case::empty_uid(free("a1", "192.0.2.1").held_by("t1/web", Some("")), true)]
#[case::just_created(address("a1", "192.0.2.1").held_by("t1/web", None), true)]
#[case::x3_before_the_phase(a1().phase("Available"), true)]
#[case::x3_before_any_phase(address("a1", "192.0.2.1").held_by("t1/web", Some("uid-web")), true)]
#[case::conflict(a1().phase("Conflict"), true)]
#[case::released_by_mistake(a1().phase("Released"), true)]
#[case::other_class(a1().class("lab"), true)]
#[case::earlier_uid(a1().held_by("t1/web", Some("earlier")), false)]
#[case::other_namespace(a1().held_by("t2/web", Some("uid-web")), false)]
#[case::other_name(a1().held_by("t1/api", Some("uid-web")), false)]
#[case::free(free("a1", "192.0.2.1").class("lab"), false)]
#[case::going_unprotected(address("a1", "192.0.2.1").held_by("t1/web", Some("uid-web")).deleting(), false)]
#[case::going_lost(a1().phase("Lost").deleting(), false)]
#[case::going_open(free("a1", "192.0.2.1").held_by("t1/web", None).deleting(), false)]
#[case::blocked(a1().deleting(), true)]
#[case::x3_blocked_before_the_phase(a1().phase("Available").deleting(), true)]
#[case::blocked_in_conflict(a1().phase("Conflict").deleting(), true)]
fn an_address_is_collected_by_who_it_names(#[case] object: Object, #[case] collected: bool) {
    let mut world = World::of(&[claim("t1/web").class("gone"), object]);
    world.pass("t1/web");
    let claim = world.claim("t1/web");
    let expected = if collected { vec![("a1", "192.0.2.1")] } else { vec![] };
    assert_eq!(published(&claim), expected);
    let phase = if collected { ClaimPhase::Bound } else { ClaimPhase::Pending };
    assert_phase(&world, "t1/web", phase);
}

/// An open reservation is completed: the uid and the protection in one write, under the state that
/// was seen, with the driver's own finalizer kept.
#[test]
fn a_reservation_is_completed_with_uid_and_protection() {
    let driver = "fake.example.org/teardown";
    let open = address("a1", "192.0.2.1").finalizer(driver).held_by("t1/web", None).version(7);
    let index = world(&[class("public"), claim("t1/web").protected(), open]);
    let plan = plan_claim_after(&index, "t1/web", &["a1"]);
    let ClaimStep::Complete { address, finalizers } = &plan.steps[0].step else {
        panic!("{:?}", plan.steps[0])
    };
    assert_eq!((&*address.name, &*address.uid, &*address.version), ("a1", "uid-a1", "7"));
    let finalizers: Vec<&str> = finalizers.iter().map(|f| &**f).collect();
    assert_eq!(finalizers, [driver, ADDRESS_FINALIZER]);
}

/// A driver's address and a free one: the reservation satisfies the family, nothing is matched, and
/// nobody is told of a match.
#[test]
fn a_reservation_satisfies_the_family() {
    let mut world = World::of(&[class("public"), claim("t1/web"), free("a0", "192.0.2.10")]);
    world.put(address("a1", "192.0.2.1").held_by("t1/web", None));
    let pass = world.pass("t1/web");
    assert_eq!(pass.steps(), ["mark finalizer", "complete a1", "status Bound a1"]);
    assert_eq!(pass.events(), [EventReason::Bound]);
    let ClaimStep::Complete { .. } = &pass.plan.steps[1].step else { panic!() };
    assert!(world.address("a0").claim_ref.is_none());
}

/// A02: an address whose text is not one IP names the claim: not completed, not published, and the
/// claim says why it waits.
#[rstest]
#[case("192.168.010.1")]
#[case("203.0.113.7/32")]
#[case(" 203.0.113.7")]
#[case("fe80::1%eth0")]
#[case("3405803783")]
fn a02_an_invalid_address_is_not_trusted_and_the_claim_says_why(#[case] text: &str) {
    for uid in [None, Some("uid-web")] {
        let invalid = address("a1", text).held_by("t1/web", uid);
        let mut world = World::of(&[class("public"), claim("t1/web"), invalid]);
        let before = world.json("a1").clone();
        let pass = world.pass("t1/web");
        assert_eq!(*world.json("a1"), before);
        let claim = world.claim("t1/web");
        assert_eq!((claim.phase, published(&claim)), (Some(ClaimPhase::Pending), vec![]));
        let said = format!("address a1 names this claim, but its spec.address {text:?} is not one");
        assert!(why(&claim).contains(&said), "{}", why(&claim));
        assert_eq!(pass.steps().len(), 2, "twenty more passes write nothing: {:?}", pass.steps());
    }
}

/// A02: an invalid address that names the claim does not keep it from a good one.
#[test]
fn a02_an_invalid_address_blocks_no_match() {
    let mut world = World::of(&[class("public"), claim("t1/web"), free("a2", "192.0.2.2")]);
    world.put(address("a1", "203.0.113").held_by("t1/web", None));
    assert_eq!(world.pass("t1/web").chosen(), ["a2"]);
    assert_phase(&world, "t1/web", ClaimPhase::Bound);
}

/// B01: two claims choose one address. The loser looks at everything again: with nothing left it
/// waits without an error, and with another free it takes that.
#[rstest]
#[case::nothing_left(false)]
#[case::another_is_free(true)]
fn b01_the_loser_of_a_race_looks_again(#[case] another: bool) {
    let mut world = World::of(&[class("public"), claim("t1/web"), claim("t2/api")]);
    world.put(free("a1", "192.0.2.1"));
    let (winner, loser) = (world.look("t1/web").plan, world.look("t2/api").plan);
    assert_eq!(loser.chosen().next().unwrap().0, &"a1".into(), "both go for a1");
    world.carry_out(&winner, usize::MAX);
    world.carry_out(&loser, 1); // its bind is refused: a1 is another state now
    if another {
        world.put(free("a2", "192.0.2.2"));
    }
    let pass = world.pass("t2/api");
    assert_eq!(pass.reads, ["a1"], "its own choice, before it is given up");
    assert_eq!(pass.chosen(), if another { vec!["a2"] } else { vec![] });
    let claim = world.claim("t2/api");
    if another {
        assert_eq!(published(&claim), [("a2", "192.0.2.2")]);
    } else {
        assert_eq!((claim.phase, published(&claim)), (Some(ClaimPhase::Pending), vec![]));
        assert_eq!(pass.events(), [EventReason::Pending]);
    }
    assert_eq!(published(&world.claim("t1/web")), [("a1", "192.0.2.1")]);
}

/// B03, full: the uid of the claim that went. Nobody takes it and nobody writes to it.
#[test]
fn b03_a_released_address_is_nobodys() {
    let released = free("a1", "192.0.2.1").held_by("t1/web", Some("earlier")).phase("Released");
    let mut world = World::of(&[class("public"), released, claim("t1/web"), claim("t2/api")]);
    let before = world.json("a1").clone();
    for id in ["t1/web", "t2/api"] {
        assert_eq!(world.pass(id).chosen(), [""; 0]);
    }
    world.addresses_pass();
    assert_eq!(*world.json("a1"), before);
}

/// B03, only the uid removed: the claim of that name adopts it, whatever its phase; nobody else.
#[test]
fn b03_without_its_uid_a_released_address_is_its_claims_again() {
    let open = free("a1", "192.0.2.1").held_by("t1/web", None).phase("Released");
    let mut world = World::of(&[class("public"), open, claim("t1/web"), claim("t2/api")]);
    assert_eq!(world.pass("t2/api").chosen(), [""; 0]);
    assert_eq!(world.pass("t1/web").steps(), ["mark finalizer", "complete a1", "status Bound a1"]);
}

/// B03, claimRef removed: available once its own pass saw it, and then exactly one of two gets it.
#[test]
fn b03_without_its_reference_a_released_address_is_anybodys() {
    let cleared = free("a1", "192.0.2.1").phase("Released");
    let mut world = World::of(&[class("public"), cleared, claim("t1/web"), claim("t2/api")]);
    assert_eq!(world.pass("t1/web").chosen(), [""; 0], "not before it is Available");
    world.addresses_pass();
    world.settle("t2/api");
    world.settle("t1/web");
    assert_eq!(published(&world.claim("t2/api")), [("a1", "192.0.2.1")]);
    assert_phase(&world, "t1/web", ClaimPhase::Pending);
}

/// B09: the address is deleted first. It is still the claim's: the claim stays Bound, nothing is
/// written, and no second address is bound though one is free.
#[test]
fn b09_a_blocked_deletion_changes_nothing_for_the_claim() {
    let mut world = World::of(&[class("public"), claim("t1/web"), free("a1", "192.0.2.1")]);
    world.settle("t1/web");
    world.put(free("a2", "192.0.2.2"));
    world.edit("a1", Object::deleting);
    let pass = world.pass("t1/web");
    assert_eq!((pass.reads, pass.plan.steps.len()), (vec![], 0));
    assert_phase(&world, "t1/web", ClaimPhase::Bound);
}

/// More than asked for: a driver binds twice in advance. All are collected, completed and listed;
/// the claim is Bound, and says that it holds more.
#[test]
fn more_than_was_asked_for_is_kept_and_said() {
    let mut world = World::of(&[class("public"), claim("t1/web")]);
    for (name, ip) in [("c", "192.0.2.1"), ("a", "192.0.2.3"), ("b", "2001:db8::2")] {
        world.put(address(name, ip).held_by("t1/web", None));
    }
    assert_eq!(
        world.pass("t1/web").steps(),
        ["mark finalizer", "complete a", "complete b", "complete c", "status Bound a b c"]
    );
    let claim = world.claim("t1/web");
    assert_eq!(published(&claim), [("a", "192.0.2.3"), ("b", "2001:db8::2"), ("c", "192.0.2.1")]);
    assert!(why(&claim).contains("it asked for 1 and holds more than that"), "{}", why(&claim));
}

/// Exactly what was asked for is not called more.
#[test]
fn two_addresses_are_not_too_many_for_dual() {
    let mut world = World::of(&[class("public"), claim("t1/web").family("Dual")]);
    world.put(a1());
    world.put(own("a6", "2001:db8::6"));
    world.pass("t1/web");
    assert_eq!(why(&world.claim("t1/web")), "Bound to a1 (192.0.2.1), a6 (2001:db8::6)");
}

/// Two of one family do not make up for the other.
#[test]
fn two_of_one_family_are_not_both_families() {
    let mut world = World::of(&[class("public"), claim("t1/web").family("Dual")]);
    world.put(a1());
    world.put(own("a2", "192.0.2.2"));
    world.pass("t1/web");
    assert_phase(&world, "t1/web", ClaimPhase::Pending);
    assert!(why(&world.claim("t1/web")).starts_with("IPv6 is missing"));
}

/// A claim that is deleted and created again under its name has nothing of what the first held.
#[test]
fn a_claim_created_again_does_not_inherit() {
    let mut world = World::of(&[class("public"), a1(), claim("t1/web").uid("second")]);
    assert_eq!(world.pass("t1/web").chosen(), [""; 0]);
    assert_eq!(published(&world.claim("t1/web")), []);
}
