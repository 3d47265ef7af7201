//! A claim's status: phases, conditions, addresses, events, and when it is written at all.

use jiff::Timestamp;
use rstest::rstest;
use serde_json::json;

use super::claim_world::{World, condition, published, steps, why};
use crate::{
    api::{
        ClaimPhase::{self, Bound, Lost, Pending},
        ClaimedAddress,
        ConditionType::{self, ClassResolved},
    },
    binder::{
        claim::{self, Facts},
        plan::{ClaimPlan, Decision, EventReason, Subject},
        status::refused,
        testing::{Object, address, claim as claim_of, class, free, key, now, world},
        view::ClaimView,
    },
};

/// The phase that a claim was in, what it holds, and the phase that comes of it.
#[rstest]
#[case("", true, Bound, Some(EventReason::Bound))]
#[case("Pending", true, Bound, Some(EventReason::Bound))]
#[case("Bound", true, Bound, None)]
#[case("Lost", true, Bound, Some(EventReason::Bound))]
#[case("", false, Pending, Some(EventReason::Pending))]
#[case("Pending", false, Pending, None)]
#[case("Bound", false, Lost, Some(EventReason::Lost))]
#[case("Lost", false, Lost, None)]
fn the_phase_comes_from_what_was_and_what_is_held(
    #[case] before: &str,
    #[case] held: bool,
    #[case] after: ClaimPhase,
    #[case] told: Option<EventReason>,
) {
    let mut world = World::of(&[class("public"), claim_of("t1/web")]);
    if !before.is_empty() {
        world.edit("t1/web", |o| o.phase(before));
    }
    if held {
        world.put(free("a1", "192.0.2.1").held_by("t1/web", Some("uid-web")));
    }
    let pass = world.pass("t1/web");
    let claim = world.claim("t1/web");
    assert_eq!(claim.phase, Some(after));
    assert_eq!(pass.events(), told.into_iter().collect::<Vec<_>>(), "told when it is entered");
    let expected = match after {
        Bound => "True/Bound",
        Pending => "False/WaitingForProvisioning",
        Lost => "False/AddressLost",
    };
    assert_eq!(condition(&claim, ConditionType::Bound).unwrap(), expected);
}

/// A match is told by `Matched`, with the address it is about, and not by `Bound` as well.
#[test]
fn a_match_is_told_once() {
    let mut world = World::of(&[class("public"), claim_of("t1/web"), free("a1", "192.0.2.1")]);
    let pass = world.pass("t1/web");
    assert_eq!(pass.events(), [EventReason::Matched]);
    let event = pass.told()[0];
    assert_eq!(event.note, "Matched to a1 (192.0.2.1)");
    assert_eq!(event.about, Subject::Claim { key: key("t1/web"), uid: "uid-web".into() });
    let address = Subject::Address { name: "a1".into(), uid: "uid-a1".into() };
    assert_eq!(event.related, Some(address));
}

/// A pass that stopped between the bind and the status: the phase is told, since nobody else can
/// tell of the match any more.
#[test]
fn a_bind_that_was_not_told_is_told_as_bound() {
    let mut world = World::of(&[class("public"), claim_of("t1/web"), free("a1", "192.0.2.1")]);
    let plan = world.look("t1/web").plan;
    world.carry_out(&plan, 2);
    assert_eq!(world.pass("t1/web").events(), [EventReason::Bound]);
}

/// The event of a phase says what the condition says.
#[test]
fn the_events_note_is_the_conditions_message() {
    let mut world = World::of(&[class("public"), claim_of("t1/web").pin("a9")]);
    let pass = world.pass("t1/web");
    let claim = world.claim("t1/web");
    assert_eq!(pass.told()[0].note, why(&claim));
    assert!(why(&claim).contains("a9 does not exist"));
}

/// Addresses are sorted by name, and spelled as their objects spell them.
#[test]
fn addresses_are_sorted_by_name_and_not_respelled() {
    let mut world = World::of(&[class("public"), claim_of("t1/web").family("Dual")]);
    world.put(address("b", "2001:DB8::1").held_by("t1/web", None));
    world.put(address("a10", "::ffff:192.0.2.1").held_by("t1/web", None));
    world.put(address("a9", "192.0.2.2").held_by("t1/web", None));
    world.pass("t1/web");
    let claim = world.claim("t1/web");
    let expected = [("a10", "::ffff:192.0.2.1"), ("a9", "192.0.2.2"), ("b", "2001:DB8::1")];
    assert_eq!(published(&claim), expected);
}

/// A published list that somebody disordered, doubled or respelled is put right.
#[rstest]
#[case::disordered(json!([{"name": "b", "address": "192.0.2.2"}, {"name": "a", "address": "192.0.2.1"}]))]
#[case::doubled(json!([{"name": "a", "address": "192.0.2.1"}, {"name": "a", "address": "192.0.2.1"},
    {"name": "b", "address": "192.0.2.2"}]))]
#[case::respelled(json!([{"name": "a", "address": "192.0.2.99"}, {"name": "b", "address": "192.0.2.2"}]))]
#[case::emptied(json!([]))]
fn addresses_are_written_from_scratch(#[case] shown: serde_json::Value) {
    let mut world = World::of(&[class("public"), claim_of("t1/web")]);
    for (name, ip) in [("a", "192.0.2.1"), ("b", "192.0.2.2")] {
        world.put(free(name, ip).held_by("t1/web", Some("uid-web")).phase("Bound"));
    }
    world.settle("t1/web");
    world.edit("t1/web", |o| o.set("/status/addresses", shown));
    assert_eq!(world.pass("t1/web").steps(), ["status Bound a b"]);
    assert_eq!(published(&world.claim("t1/web")), [("a", "192.0.2.1"), ("b", "192.0.2.2")]);
}

fn at(index: &crate::binder::index::Index, id: &str, when: Timestamp) -> ClaimPlan {
    let claim = index.claim(&key(id)).known().unwrap();
    let facts = Facts { index, claim, confirmed: &["a1".into()].into(), now: when };
    match claim::decide(&facts) {
        Decision::Act(plan) => plan,
        Decision::Read(names) => panic!("asks for {names:?}"),
    }
}

fn later() -> Timestamp {
    "2026-01-01T13:00:00Z".parse().unwrap()
}

fn since(claim: &ClaimView, kind: ConditionType) -> Timestamp {
    let condition = claim.conditions.iter().find(|c| c.type_ == kind.as_str());
    condition.unwrap().last_transition_time.0
}

/// O02: `lastTransitionTime` moves only with the condition's status: not with its reason, its
/// message or the claim's generation.
#[test]
fn o02_the_transition_time_moves_with_the_status_only() {
    let mut world = World::of(&[class("public"), claim_of("t1/web")]);
    world.pass("t1/web");
    assert_eq!(since(&world.claim("t1/web"), ConditionType::Bound), now());

    world.edit("t1/web", |o| o.pin("a9").set("/metadata/generation", 2));
    let plan = at(&world.index(), "t1/web", later());
    world.carry_out(&plan, usize::MAX);
    let claim = world.claim("t1/web");
    assert!(why(&claim).contains("a9"), "the message has changed");
    assert_eq!(since(&claim, ConditionType::Bound), now());
    assert_eq!(since(&claim, ClassResolved), now());

    world.edit("t1/web", |o| o.pin(""));
    world.put(free("a1", "192.0.2.1"));
    let plan = at(&world.index(), "t1/web", later());
    world.carry_out(&plan, usize::MAX);
    let claim = world.claim("t1/web");
    assert_eq!(since(&claim, ConditionType::Bound), later(), "False became True");
    assert_eq!(since(&claim, ClassResolved), now(), "and that stayed True");
}

/// O02: a reason that changes without the status: Pending with another class failure.
#[test]
fn o02_another_reason_of_the_same_status_is_no_transition() {
    let mut world = World::of(&[claim_of("t1/web").class("gone")]);
    world.pass("t1/web");
    world.edit("t1/web", |o| o.class(""));
    let plan = at(&world.index(), "t1/web", later());
    world.carry_out(&plan, usize::MAX);
    let claim = world.claim("t1/web");
    assert_eq!(condition(&claim, ClassResolved).unwrap(), "False/NoDefaultClass");
    assert_eq!(since(&claim, ClassResolved), now());
}

/// Each condition carries the generation that it was decided on.
#[test]
fn conditions_carry_the_generation() {
    let mut world = World::of(&[class("public"), claim_of("t1/web")]);
    world.edit("t1/web", |o| o.set("/metadata/generation", 7));
    world.pass("t1/web");
    let seen: Vec<_> =
        world.claim("t1/web").conditions.iter().map(|c| c.observed_generation).collect();
    assert_eq!(seen, [Some(7), Some(7)]);
}

/// A class that is not consulted leaves its condition as it was, generation and all.
#[test]
fn the_class_condition_is_left_alone_when_the_class_is_not_asked() {
    let mut world = World::of(&[class("public"), claim_of("t1/web"), free("a1", "192.0.2.1")]);
    world.settle("t1/web");
    world.edit("t1/web", |o| o.set("/metadata/generation", 2));
    world.pass("t1/web");
    let conditions = world.claim("t1/web").conditions;
    let seen: Vec<_> =
        conditions.iter().map(|c| (c.type_.as_str(), c.observed_generation)).collect();
    assert_eq!(seen, [("ClassResolved", Some(1)), ("Bound", Some(2))]);
}

/// Conditions of others keep their place and every field.
#[test]
fn foreign_conditions_are_kept() {
    let foreign = json!([
        {"type": "DNSReady", "status": "Unknown", "reason": "Waiting", "message": "m",
         "lastTransitionTime": "2020-01-01T00:00:00Z", "observedGeneration": 3},
        {"type": "Bound", "status": "False", "reason": "Old", "message": "",
         "lastTransitionTime": "2021-01-01T00:00:00Z"},
    ]);
    let mut world = World::of(&[class("public"), claim_of("t1/web")]);
    world.edit("t1/web", |o| o.set("/status/conditions", foreign.clone()));
    world.pass("t1/web");
    let stored = &world.json("t1/web")["status"]["conditions"];
    assert_eq!(stored[0], foreign[0]);
    assert_eq!(stored[1]["type"], "Bound");
    assert_eq!(stored[1]["lastTransitionTime"], "2021-01-01T00:00:00Z", "False stays False");
    assert_eq!(stored[1]["reason"], "WaitingForProvisioning");
    assert_eq!(stored[2]["type"], "ClassResolved");
    assert_eq!(stored.as_array().unwrap().len(), 3);
}

/// `status.className` is written when the class was resolved in this pass, or when the claim's own
/// match tells of it, and otherwise left alone.
#[rstest]
#[case::resolved("public", "", Some("public"))]
#[case::resolved_anew("lab", "public", Some("lab"))]
#[case::not_found("gone", "", None)]
#[case::not_found_later("gone", "public", None)]
fn the_class_is_written_when_it_was_resolved(
    #[case] named: &str,
    #[case] before: &str,
    #[case] written: Option<&str>,
) {
    let world = World::of(&[class("public"), class("lab"), claim_of("t1/web")]);
    let mut world = world;
    world.edit("t1/web", |o| o.class(named).resolved(before));
    let pass = world.pass("t1/web");
    assert_eq!(pass.status().class.as_deref(), written);
}

/// O02: a settled claim in every phase: fifty more passes at later moments write and tell nothing.
#[rstest]
#[case::bound(vec![class("public"), claim_of("t1/web"), free("a1", "192.0.2.1")], Bound)]
#[case::pending(vec![class("public"), claim_of("t1/web")], Pending)]
#[case::pinned(vec![class("public"), claim_of("t1/web").pin("a9")], Pending)]
#[case::no_class(vec![claim_of("t1/web").class("gone")], Pending)]
#[case::no_default(vec![claim_of("t1/web").class("")], Pending)]
#[case::invalid(vec![class("public"), claim_of("t1/web"), address("a1", "x").held_by("t1/web", None)], Pending)]
#[case::duplicate(vec![class("public"), claim_of("t1/web"), free("a1", "192.0.2.1"),
    free("a2", "192.0.2.1")], Pending)]
#[case::half(vec![class("public"), claim_of("t1/web").family("Dual"), free("a1", "192.0.2.1")], Pending)]
#[case::lost(vec![class("public"), claim_of("t1/web").phase("Bound")
    .published(&[("a1", "192.0.2.1")])], Lost)]
#[case::lost_and_kept(vec![class("public"), claim_of("t1/web").phase("Bound"),
    free("a1", "192.0.2.1").held_by("t1/web", Some("uid-web")).phase("Lost")], Lost)]
#[case::conflict(vec![class("public"), claim_of("t1/web"),
    free("a1", "192.0.2.1").held_by("t1/web", Some("uid-web")).phase("Conflict")], Bound)]
fn o02_a_settled_claim_costs_nothing(#[case] objects: Vec<Object>, #[case] phase: ClaimPhase) {
    let mut world = World::of(&objects);
    world.settle("t1/web");
    assert_eq!(world.claim("t1/web").phase, Some(phase));
    let index = world.index();
    for minute in 0..50 {
        let plan = at(&index, "t1/web", later() + jiff::SignedDuration::from_mins(minute));
        assert_eq!(steps(&plan), [""; 0]);
    }
}

/// Each field that a status has is compared: one that differs is written.
#[rstest]
#[case::phase("/status/phase", json!("Pending"))]
#[case::class("/status/className", json!(""))]
#[case::addresses("/status/addresses", json!([]))]
#[case::conditions("/status/conditions", json!([]))]
#[case::message("/status/conditions/1/message", json!("edited"))]
#[case::generation("/metadata/generation", json!(2))]
fn whatever_differs_is_written(#[case] path: &str, #[case] value: serde_json::Value) {
    let mut world = World::of(&[class("public"), claim_of("t1/web"), free("a1", "192.0.2.1")]);
    world.settle("t1/web");
    let before = world.claim("t1/web");
    world.edit("t1/web", |mut o| {
        *o.0.pointer_mut(path).unwrap() = value;
        o
    });
    assert_eq!(world.pass("t1/web").steps(), ["status Bound a1"]);
    let after = world.claim("t1/web");
    assert_eq!(after.phase, before.phase);
    assert_eq!(after.published, before.published);
    assert_eq!(after.resolved_class, before.resolved_class);
    assert_eq!(why(&after), why(&before));
}

/// A waiting claim says everything that it waits for in one message.
#[test]
fn a_waiting_message_names_families_addresses_and_the_driver() {
    let mut world = World::of(&[class("public"), claim_of("t1/web").family("Dual")]);
    world.put(address("bad", "203.0.113").held_by("t1/web", None));
    world.pass("t1/web");
    assert_eq!(
        why(&world.claim("t1/web")),
        "IPv4 is missing, and no address of class public is free; \
         IPv6 is missing, and no address of class public is free; \
         address bad names this claim, but its spec.address \"203.0.113\" is not one IP address; \
         fake.example.org is asked to provision"
    );
}

/// A claim that nobody can serve is not said to be served by the driver it was stamped with before.
#[test]
fn a_driver_is_not_named_while_the_class_is_not_resolved() {
    let mut world = World::of(&[class("public"), claim_of("t1/web")]);
    world.pass("t1/web");
    world.remove("class public");
    world.pass("t1/web");
    let claim = world.claim("t1/web");
    assert!(!why(&claim).contains("asked to provision"), "{}", why(&claim));
}

/// The plan says of whom it is and on what it was decided, also when nothing is to be done.
#[test]
fn a_plan_names_the_state_it_was_decided_on() {
    let index = world(&[claim_of("t1/web").version(12)]);
    let plan = at(&index, "t1/web", now());
    assert_eq!((plan.claim, &*plan.uid, &*plan.version), (key("t1/web"), "uid-web", "12"));
    assert_eq!(plan.created, "2026-01-01T11:00:00Z".parse().unwrap());
}

/// Where the API server does not take the selection, the claim says what the API server said; once.
#[test]
fn what_cannot_be_recorded_is_said_on_the_claim() {
    let claim = claim_of("t1/web").claim();
    let why = "metadata.annotations: Too long: may not be more than 262144 bytes";
    let status = refused(&claim, why, now()).unwrap();
    assert_eq!(status.phase, Pending);
    let [bound] = &status.conditions[..] else { panic!("{status:?}") };
    assert_eq!((&*bound.status, &*bound.reason), ("False", "WaitingForProvisioning"));
    assert!(bound.message.ends_with(why), "{}", bound.message);
    let said =
        ClaimView { phase: Some(Pending), conditions: status.conditions.clone(), ..claim.clone() };
    assert_eq!(refused(&said, why, now()), None, "said already");
    assert!(refused(&said, "something else", now()).is_some());

    let published = vec![ClaimedAddress { name: "a1".into(), address: "192.0.2.1".into() }];
    let lost = ClaimView { phase: Some(Lost), published: published.clone(), ..claim.clone() };
    let status = refused(&lost, why, now()).unwrap();
    assert_eq!((status.phase, status.addresses), (Lost, published), "nothing is withdrawn for it");
    assert_eq!(status.conditions[0].reason, "AddressLost");
    let bound = ClaimView { phase: Some(Bound), ..claim };
    assert_eq!(refused(&bound, why, now()), None, "what it asked for first, it has");
}

/// Names of classes and drivers are as long as somebody likes; a condition's message is not.
#[test]
fn a_message_is_no_longer_than_the_api_takes() {
    let class = "é".repeat(200_000);
    let mut world = World::of(&[claim_of("t1/web").class(&class)]);
    world.pass("t1/web");
    let claim = world.claim("t1/web");
    for condition in &claim.conditions {
        assert!(condition.message.len() <= 32_768, "{}", condition.message.len());
    }
    assert!(claim.conditions.iter().any(|c| c.message.ends_with('…')));
    assert_eq!(world.look("t1/web").plan.steps.len(), 0, "written once");
}
