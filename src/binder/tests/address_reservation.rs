//! Reservations: a `claimRef` without a uid, for a claim that does not exist (yet). Five minutes of
//! grace, by the object's age and by how long this process has watched, whichever is less.

use std::time::Duration;

use rstest::rstest;

use super::address_world::{Cluster, acted, told, words};
use crate::binder::{
    address::{self, Facts},
    index::{Gone, Index},
    plan::{AddressPlan, Decision, EventReason},
    testing::{Object, add, address, claim, decide_address, key, now, plan_claim_after, world},
    view::ClaimKey,
};

const MINUTE: Duration = Duration::from_mins(1);
const GRACE: Duration = Duration::from_mins(5);

fn reserved() -> Object {
    address("a1", "192.0.2.1").protected().held_by("t1/web", None)
}

/// Created so many seconds before now; negative is a creation in this machine's future.
fn created_before(object: Object, seconds: i64) -> Object {
    object.created(&(now() - jiff::SignedDuration::from_secs(seconds)).to_string())
}

fn decide_at(index: &Index, moment: Duration, confirmed: bool) -> Decision<AddressPlan, ClaimKey> {
    let address = index.address(&"a1".into()).known().expect("a1 is in the world");
    address::decide(&Facts { index, address, confirmed, now: now(), moment, grace: GRACE })
}

fn seen_at(object: &Object, seen: Duration) -> Index {
    let mut index = Index::default();
    index.apply_address(object.address(), seen);
    index
}

/// The younger of the two ages counts, and the rest of the grace is when to look again.
#[rstest]
#[case::both_young(60, 60, "phase Pending, wait 240s")]
#[case::both_new(0, 0, "phase Pending, wait 300s")]
#[case::one_second_left(299, 400, "phase Pending, wait 1s")]
#[case::due_by_both(300, 300, "read t1/web")]
#[case::long_due(86_400, 86_400, "read t1/web")]
// This machine's clock is ahead of the API server's: the object looks older than it is.
#[case::clock_ahead(86_400, 20, "phase Pending, wait 280s")]
// The clock is behind: the object seems to come from the future, and has no age.
#[case::clock_behind(-3_600, 86_400, "phase Pending, wait 300s")]
// This process has only just started: it has watched nothing yet.
#[case::just_started(86_400, 0, "phase Pending, wait 300s")]
#[case::started_a_while_ago(86_400, 299, "phase Pending, wait 1s")]
fn grace_is_by_both_clocks(#[case] created: i64, #[case] watched: u64, #[case] expected: &str) {
    let start = Duration::from_hours(1);
    let index = seen_at(&created_before(reserved(), created), start);
    let decision = decide_at(&index, start + Duration::from_secs(watched), false);
    assert_eq!(words(&decision), expected);
}

/// Grace is a setting: none means at once, but never without a read.
#[test]
fn grace_is_a_setting() {
    let index = seen_at(&created_before(reserved(), 120), Duration::ZERO);
    let address = index.address(&"a1".into()).known().unwrap();
    let at = |grace, confirmed| {
        let moment = 2 * MINUTE;
        words(&address::decide(&Facts {
            index: &index,
            address,
            confirmed,
            now: now(),
            moment,
            grace,
        }))
    };
    assert_eq!(at(Duration::ZERO, false), "read t1/web");
    assert_eq!(at(Duration::ZERO, true), "phase Released");
    assert_eq!(at(2 * MINUTE, false), "read t1/web");
    assert_eq!(at(Duration::from_hours(1), false), "phase Pending, wait 3480s");
    assert_eq!(at(Duration::MAX, false), format!("phase Pending, wait {}s", u64::MAX - 120));
}

/// After the grace a reservation is reclaimed by its policy, after a read that finds no claim.
#[rstest]
#[case("Retain", "phase Released")]
#[case("Delete", "delete")]
fn after_the_grace_it_is_reclaimed_by_its_policy(#[case] policy: &str, #[case] expected: &str) {
    let index = world(&[reserved().policy(policy)]);
    assert_eq!(words(&decide_address(&index, "a1", false)), "read t1/web");
    let plan = acted(decide_address(&index, "a1", true));
    assert_eq!(told(&plan), [EventReason::Reclaimed]);
    assert_eq!(words(&Decision::Act(plan)), expected);
}

/// A claim that the read finds keeps the reservation, whatever its age: its own pass completes it.
#[test]
fn a_claim_found_by_the_read_keeps_its_reservation() {
    let mut index = world(&[reserved().policy("Delete")]);
    assert_eq!(words(&decide_address(&index, "a1", false)), "read t1/web");
    add(&mut index, &claim("t1/web"));
    assert_eq!(words(&decide_address(&index, "a1", true)), "-");
    let plan = plan_claim_after(&index, "t1/web", &["a1"]);
    let steps: Vec<_> = plan.steps.iter().map(|p| p.step.name()).collect();
    assert_eq!(steps, ["mark", "complete", "status"]);
}

/// One `kubectl apply` of an address and its claim, in either order, destroys nothing.
#[rstest]
#[case::address_first(&["address", "claim"])]
#[case::claim_first(&["claim", "address"])]
fn an_address_and_its_claim_in_either_order(#[case] order: &[&str]) {
    let mut cluster = Cluster::of(&[]);
    for kind in order {
        cluster.put(match *kind {
            "address" => created_before(reserved().policy("Delete"), 1),
            _ => claim("t1/web"),
        });
        if cluster.address("a1").is_some() {
            let plan = acted(decide_address(&cluster.index(), "a1", false));
            assert!(plan.steps.iter().all(|p| p.step.name() == "phase"), "{plan:?}");
            cluster.carry_out(&plan);
        }
    }
    assert_eq!(words(&decide_address(&cluster.index(), "a1", false)), "-");
}

/// While a reservation waits it shows `Pending`: no phase that would invite other claims, and what
/// it was released as is kept.
#[rstest]
#[case(None, true)]
#[case(Some("Available"), true)]
#[case(Some("Bound"), true)]
#[case(Some("Pending"), false)]
#[case(Some("Released"), false)]
fn a_waiting_reservation_is_pending(#[case] phase: Option<&str>, #[case] writes: bool) {
    let mut object = created_before(reserved(), 60);
    if let Some(phase) = phase {
        object = object.phase(phase);
    }
    let plan = acted(decide_address(&world(&[object]), "a1", false));
    assert_eq!(plan.look_again, Some(4 * MINUTE));
    assert_eq!(plan.steps.len(), usize::from(writes), "{:?}", plan.steps);
}

/// Under `Retain`, the uid removed from a `Released` address changes nothing until the claim of
/// that name comes: no read, no write, at any age.
#[test]
fn a_released_reservation_costs_nothing_under_retain() {
    let object = reserved().phase("Released");
    for watched in [Duration::ZERO, MINUTE, 2 * GRACE] {
        for confirmed in [false, true] {
            let plan = acted(decide_at(&seen_at(&object, Duration::ZERO), watched, confirmed));
            assert_eq!((plan.steps.len(), plan.notices.len()), (0, 0));
        }
    }
}

/// Under `Delete` the same address is deleted once its new grace is over, counted from when the
/// uid was seen removed and not from the object's creation long ago.
#[test]
fn an_administrator_who_removes_a_uid_has_the_grace_too() {
    let released = address("a1", "192.0.2.1").protected().phase("Released").policy("Delete");
    let mut index = seen_at(&released.clone().held_by("t1/web", Some("uid-old")), Duration::ZERO);
    let edited = Duration::from_hours(10);
    index.apply_address(released.held_by("t1/web", None).version(2).address(), edited);
    assert_eq!(words(&decide_at(&index, edited, false)), "wait 300s");
    assert_eq!(words(&decide_at(&index, edited + GRACE, false)), "read t1/web");
    assert_eq!(words(&decide_at(&index, edited + GRACE, true)), "delete");
}

/// When a reservation was first seen is kept over later states of it, and begins anew for another
/// object of that name, or when the reservation was gone in between.
#[test]
fn a_reservation_is_remembered_from_its_first_sight() {
    let at = Duration::from_secs;
    let seen = |index: &Index| {
        index.reservation_seen(index.address(&"a1".into()).known().expect("a1 is there"))
    };
    let mut index = seen_at(&reserved(), at(10));
    assert_eq!(seen(&index), Some(at(10)));
    index.apply_address(reserved().phase("Pending").version(2).address(), at(20));
    assert_eq!(seen(&index), Some(at(10)), "the same reservation");
    index.apply_address(reserved().version(1).address(), at(25));
    assert_eq!(seen(&index), Some(at(10)), "a state that is older says nothing");
    index.apply_address(reserved().held_by("t1/web", Some("u")).version(3).address(), at(30));
    assert_eq!(seen(&index), None, "completed");
    index.apply_address(reserved().version(4).address(), at(40));
    assert_eq!(seen(&index), Some(at(40)), "the uid was removed");
    index.apply_address(reserved().uid("uid-again").version(5).address(), at(50));
    assert_eq!(seen(&index), Some(at(50)), "another object");
    index.remove_address(&"a1".into(), &Gone::Object { uid: "uid-again".into() });
    index.apply_address(reserved().uid("uid-again").version(6).address(), at(60));
    assert_eq!(seen(&index), Some(at(60)), "it had vanished");
}

/// A reservation that now names another claim is another reservation: its grace begins anew.
#[test]
fn a_reservation_for_another_claim_begins_anew() {
    let mut index = seen_at(&reserved(), Duration::ZERO);
    index.apply_address(reserved().held_by("t2/api", None).version(2).address(), GRACE);
    assert_eq!(words(&decide_at(&index, GRACE + MINUTE, false)), "phase Pending, wait 240s");
}

/// An empty uid is none: what an older client writes is a reservation, not a claim's address.
#[test]
fn an_empty_uid_is_a_reservation() {
    let object = created_before(reserved().held_by("t1/web", Some("")), 0);
    let index = world(&[object]);
    assert_eq!(words(&decide_address(&index, "a1", false)), "phase Pending, wait 300s");
    assert_eq!(index.claimed_by(&key("t1/web")).count(), 1);
}
