//! The pass of a claim that is being deleted: everything it held goes by its own policy, and then
//! the claim may go.

use rstest::rstest;

use super::address_world::{Cluster, acted, strange, words};
use crate::{
    api::{
        ClaimPhase,
        well_known::{ADDRESS_FINALIZER, CLAIM_FINALIZER},
    },
    binder::{
        index::Index,
        plan::{ClaimPlan, ClaimStep, Decision, Event, EventReason, Subject},
        testing::{
            Object, add, address, claim, class, decide_address, decide_claim, free, key, world,
        },
    },
};

const DRIVER: &str = "fake.example.org/driver";

fn held(name: &str, ip: &str) -> Object {
    address(name, ip).protected().phase("Bound").held_by("t1/web", Some("uid-web"))
}

fn going() -> Object {
    claim("t1/web").protected().phase("Bound").deleting()
}

/// The plan once everything that it asks for is read, and found as the cache has it.
fn plan_read(index: &Index, at: &str) -> ClaimPlan {
    match decide_claim(index, at, &[]) {
        Decision::Act(plan) => plan,
        Decision::Read(names) => {
            let names: Vec<_> = names.iter().map(|n| &**n).collect();
            match decide_claim(index, at, &names) {
                Decision::Act(plan) => plan,
                Decision::Read(again) => panic!("read {names:?}, and asks for {again:?}"),
            }
        }
    }
}

/// A plan in words, such as `complete a1, release a1, unprotect`.
fn steps(plan: &ClaimPlan) -> String {
    let all: Vec<_> = plan
        .steps
        .iter()
        .map(|p| match p.step.address() {
            Some(address) => format!("{} {}", p.step.name(), address.name),
            None => p.step.name().to_owned(),
        })
        .collect();
    all.join(", ")
}

fn events(plan: &ClaimPlan) -> Vec<&Event> {
    plan.steps.iter().flat_map(|p| &p.events).collect()
}

fn reads(index: &Index, confirmed: &[&str]) -> Vec<String> {
    match decide_claim(index, "t1/web", confirmed) {
        Decision::Read(names) => names.iter().map(ToString::to_string).collect(),
        Decision::Act(_) => Vec::new(),
    }
}

/// One address that the claim holds, in each state, and what becomes of it.
#[rstest]
// By policy.
#[case(held("a1", "192.0.2.1"), "release a1")]
#[case(held("a1", "192.0.2.1").policy("Delete"), "delete a1")]
// Phases that were not Bound yet.
#[case(held("a1", "192.0.2.1").phase("Available"), "release a1")]
#[case(held("a1", "192.0.2.1").phase("Pending"), "release a1")]
#[case(address("a1", "192.0.2.1").held_by("t1/web", Some("uid-web")), "release a1")]
#[case(held("a1", "192.0.2.1").phase("Available").policy("Delete"), "delete a1")]
// Released by an attempt before.
#[case(held("a1", "192.0.2.1").phase("Released"), "")]
#[case(held("a1", "192.0.2.1").phase("Released").policy("Delete"), "delete a1")]
// A driver's phase is kept, and does not save what is to be deleted.
#[case(held("a1", "192.0.2.1").phase("Conflict"), "")]
#[case(held("a1", "192.0.2.1").phase("Lost"), "")]
#[case(held("a1", "192.0.2.1").phase("Conflict").policy("Delete"), "delete a1")]
#[case(held("a1", "192.0.2.1").phase("Lost").policy("Delete"), "delete a1")]
// First the uid, so that the next claim of that name does not adopt it.
#[case(held("a1", "192.0.2.1").held_by("t1/web", None), "complete a1, release a1")]
#[case(held("a1", "192.0.2.1").held_by("t1/web", None).policy("Delete"), "complete a1, delete a1")]
#[case(held("a1", "192.0.2.1").held_by("t1/web", None).phase("Conflict"), "complete a1")]
#[case(held("a1", "192.0.2.1").held_by("t1/web", None).phase("Released"), "complete a1")]
// Somebody deletes it already: nothing is added to it, its own pass lets it go.
#[case(held("a1", "192.0.2.1").deleting(), "")]
#[case(held("a1", "192.0.2.1").deleting().policy("Delete"), "")]
#[case(held("a1", "192.0.2.1").deleting().held_by("t1/web", None), "")]
// Text that is no IP stays Pending, unless it is to be deleted.
#[case(held("a1", "192.0.2.1/24").phase("Pending"), "")]
#[case(held("a1", "192.0.2.1/24").held_by("t1/web", None).phase("Pending"), "complete a1")]
#[case(held("a1", "192.0.2.1/24").phase("Pending").policy("Delete"), "delete a1")]
// Another's.
#[case(held("a1", "192.0.2.1").held_by("t1/web", Some("uid-before")), "")]
#[case(held("a1", "192.0.2.1").held_by("t2/web", Some("uid-web")), "")]
#[case(held("a1", "192.0.2.1").held_by("t2/web", None), "")]
#[case(free("a1", "192.0.2.1"), "")]
fn each_address_by_its_own_policy(#[case] object: Object, #[case] expected: &str) {
    let plan = plan_read(&world(&[object, going()]), "t1/web");
    let expected = if expected.is_empty() { String::new() } else { format!("{expected}, ") };
    assert_eq!(steps(&plan), format!("{expected}unprotect"));
}

/// Each write is on the state that was decided on, and says the claim's uid where it completes.
#[test]
fn writes_carry_the_states_they_were_decided_on() {
    let open = held("a1", "192.0.2.1").held_by("t1/web", None).finalizer(DRIVER).version(41);
    let deleted = held("a2", "192.0.2.2").policy("Delete").uid("uid-of-a2").version(42);
    let plan = plan_read(&world(&[open, deleted, going().version(43)]), "t1/web");
    assert_eq!((&*plan.uid, &*plan.version), ("uid-web", "43"));
    let targets: Vec<_> = plan
        .steps
        .iter()
        .filter_map(|p| match &p.step {
            ClaimStep::Complete { address, .. }
            | ClaimStep::Release { address }
            | ClaimStep::Delete { address } => Some((&*address.uid, &*address.version)),
            _ => None,
        })
        .collect();
    assert_eq!(targets, [("uid-a1", "41"), ("uid-a1", "41"), ("uid-of-a2", "42")]);
    let ClaimStep::Complete { finalizers, .. } = &plan.steps[0].step else { panic!("complete") };
    assert_eq!(finalizers.iter().map(|f| &**f).collect::<Vec<_>>(), [ADDRESS_FINALIZER, DRIVER]);
}

/// Only our finalizer goes; those of others stay, in their order.
#[test]
fn others_finalizers_stay_on_the_claim() {
    let object = claim("t1/web").finalizer("x.example.org/a").protected();
    let object = object.finalizer("x.example.org/b").deleting();
    let plan = plan_read(&world(&[object]), "t1/web");
    let [only] = plan.steps.as_slice() else { panic!("{plan:?}") };
    let finalizers = vec!["x.example.org/a".into(), "x.example.org/b".into()];
    assert_eq!(only.step, ClaimStep::Unprotect { finalizers });
}

/// The event of each address names it, the claim and what may be done next; nothing is told of what
/// is only completed.
#[test]
fn one_event_for_each_address() {
    let retained = held("a1", "192.0.2.1").held_by("t1/web", None);
    let deleted = held("a2", "192.0.2.2").policy("Delete");
    let plan = plan_read(&world(&[retained, deleted, going()]), "t1/web");
    let told: Vec<_> =
        events(&plan).iter().map(|e| (e.reason, e.about.uid().to_string())).collect();
    let expected = [
        (EventReason::AddressReleased, "uid-a1".to_owned()),
        (EventReason::AddressDeleted, "uid-a2".to_owned()),
    ];
    assert_eq!(told, expected);
    let by = Subject::Claim { key: key("t1/web"), uid: "uid-web".into() };
    for event in events(&plan) {
        assert_eq!(event.related.as_ref(), Some(&by));
        assert!(event.note.contains("t1/web") && !event.reason.is_warning());
    }
    assert!(events(&plan)[0].note.contains("clear spec.claimRef"), "B03: what may be done next");
}

/// B07: a `Dual` claim with one address of each policy. The write that releases a6 fails at first:
/// the claim's finalizer is still on; the second pass finishes, and brings nothing back.
#[test]
fn b07_dual_with_mixed_policies_and_a_first_try_that_half_fails() {
    let a4 = held("a4", "192.0.2.4").policy("Delete").finalizer(DRIVER);
    let a6 = held("a6", "2001:db8::6");
    let mut cluster = Cluster::of(&[a4, a6, going().family("Dual")]);
    let first = plan_read(&cluster.index(), "t1/web");
    assert_eq!(steps(&first), "delete a4, release a6, unprotect");
    cluster.carry_out_claim(&first, 1);
    assert!(finalizers(cluster.claim("t1/web")).contains(&CLAIM_FINALIZER.to_owned()));

    // The driver removes its own finalizer in between.
    let a4 = cluster.address("a4").expect("still there").clone();
    cluster.put(a4.set("/metadata/finalizers", vec![ADDRESS_FINALIZER]));
    let second = plan_read(&cluster.index(), "t1/web");
    assert_eq!(steps(&second), "release a6, unprotect", "a4 is on its way");
    cluster.carry_out_claim(&second, 2);
    assert!(cluster.claim("t1/web").is_none(), "the claim may go");
    assert_eq!(cluster.address("a6").unwrap().0["status"]["phase"], "Released");
    let told = [&first.steps[0], &second.steps[0]].map(|p| p.events[0].reason);
    assert_eq!(told, [EventReason::AddressDeleted, EventReason::AddressReleased]);

    // Its own pass lets a4 go, and the driver's finalizer is not brought back.
    let last = acted(decide_address(&cluster.index(), "a4", true));
    cluster.carry_out(&last);
    assert!(cluster.address("a4").is_none());
}

fn finalizers(object: Option<&Object>) -> Vec<String> {
    let all = object.and_then(|o| o.0["metadata"]["finalizers"].as_array());
    all.into_iter().flatten().filter_map(|f| f.as_str()).map(ToOwned::to_owned).collect()
}

/// A crash after each write of a reclaim: the next pass finishes it, and the end is the same.
#[test]
fn a_reclaim_that_stops_after_any_write_is_finished_by_the_next() {
    let objects = [
        held("a1", "192.0.2.1").held_by("t1/web", None),
        held("a2", "192.0.2.2").held_by("t1/web", None).policy("Delete"),
        held("a3", "192.0.2.3"),
        held("a4", "2001:db8::4").phase("Conflict"),
        going(),
    ];
    let whole = plan_read(&world(&objects), "t1/web");
    assert_eq!(
        steps(&whole),
        "complete a1, release a1, complete a2, delete a2, release a3, unprotect"
    );
    for stop in 0..=whole.steps.len() {
        let mut cluster = Cluster::of(&objects);
        cluster.carry_out_claim(&whole, stop);
        if cluster.claim("t1/web").is_some() {
            let rest = plan_read(&cluster.index(), "t1/web");
            assert!(rest.steps.len() <= whole.steps.len() - stop, "{stop}: {}", steps(&rest));
            cluster.carry_out_claim(&rest, rest.steps.len());
        }
        assert!(cluster.claim("t1/web").is_none(), "stopped after {stop}");
        for (name, phase) in [("a1", "Released"), ("a3", "Released"), ("a4", "Conflict")] {
            let object = &cluster.address(name).expect("retained").0;
            assert_eq!(object["status"]["phase"], phase, "{name}, stopped after {stop}");
            assert_eq!(object["spec"]["claimRef"]["uid"], "uid-web", "{name} names its claim");
        }
        let a2 = cluster.address("a2").expect("our finalizer keeps it");
        assert!(!a2.0["metadata"]["deletionTimestamp"].is_null());
    }
}

/// What a reclaim leaves is not touched by the address's pass again (O02), nor adopted by the next
/// claim of that name (I4).
#[test]
fn what_was_reclaimed_is_settled_and_nobodys() {
    let open = held("a1", "192.0.2.1").held_by("t1/web", None);
    let mut cluster = Cluster::of(&[class("public"), open, going()]);
    let plan = plan_read(&cluster.index(), "t1/web");
    cluster.carry_out_claim(&plan, plan.steps.len());
    assert_eq!(words(&decide_address(&cluster.index(), "a1", false)), "-");
    cluster.put(claim("t1/web").uid("uid-next"));
    assert_eq!(words(&decide_address(&cluster.index(), "a1", false)), "-");
    let next = plan_read(&cluster.index(), "t1/web");
    assert!(!steps(&next).contains("a1"), "{}", steps(&next));
}

/// B08: a claim that never was bound, or whose class is missing, or both, needs nothing to go. The
/// class is not looked at: not even one that does not parse.
#[rstest]
#[case::never_looked_at(claim("t1/web"), "")]
#[case::never_bound(claim("t1/web").protected().phase("Pending"), "unprotect")]
#[case::bound(going().set("/metadata/deletionTimestamp", serde_json::Value::Null), "unprotect")]
#[case::lost(claim("t1/web").protected().phase("Lost"), "unprotect")]
#[case::no_class_named(claim("t1/web").protected().class(""), "unprotect")]
fn b08_deletion_needs_nothing_but_the_claim(#[case] object: Object, #[case] expected: &str) {
    let mut index = world(&[object.deleting()]);
    for _ in ["class absent", "class unreadable"] {
        let plan = plan_read(&index, "t1/web");
        assert_eq!(steps(&plan), expected);
        assert_eq!((plan.waiting.len(), events(&plan).len()), (0, 0));
        index.strange_class(&"public".into(), strange("uid-public", 1));
    }
}

/// B08: the reclaim is the same with the class and without it.
#[test]
fn b08_the_class_changes_nothing() {
    let objects = [held("a1", "192.0.2.1"), held("a2", "192.0.2.2").policy("Delete"), going()];
    let without = plan_read(&world(&objects), "t1/web");
    let mut index = world(&objects);
    add(&mut index, &class("public").default_class());
    assert_eq!(plan_read(&index, "t1/web"), without);
}

/// B08, B06: a claim that is being deleted and does not carry our finalizer gets nothing: no
/// finalizer, no status, and what still names it is left to its own pass.
#[test]
fn b06_nothing_is_written_for_a_deleting_claim_without_our_finalizer() {
    let object = claim("t1/web").finalizer("x.example.org/a").deleting();
    let open = held("a1", "192.0.2.1").held_by("t1/web", None);
    let index = world(&[class("public"), open, free("a2", "192.0.2.2"), object]);
    let plan = plan_read(&index, "t1/web");
    assert_eq!((steps(&plan), plan.waiting), (String::new(), Vec::new()));
}

/// B06 (2): what the claim is known to hold and the cache does not show is read before the claim's
/// finalizer goes, whichever record knows of it.
#[rstest]
#[case::selected(going().selected("IPv4=a1/1"), &["a1"])]
#[case::selected_twice(going().selected("IPv4=a1/1,IPv6=a6/3/held"), &["a1", "a6"])]
#[case::published(going().published(&[("a1", "192.0.2.1")]), &["a1"])]
#[case::both(going().selected("IPv4=a2/2").published(&[("a1", "192.0.2.1")]), &["a1", "a2"])]
#[case::the_same_in_both(going().selected("IPv4=a1/2").published(&[("a1", "192.0.2.1")]), &["a1"])]
#[case::none(going(), &[])]
#[case::not_ours(claim("t1/web").deleting().selected("IPv4=a1/1"), &[])]
fn b06_known_names_are_read_before_the_claim_goes(
    #[case] object: Object,
    #[case] expected: &[&str],
) {
    let mut index = world(&[object]);
    assert_eq!(reads(&index, &[]), expected);
    // A cache that shows an address as nobody's is not enough either.
    add(&mut index, &free("a1", "192.0.2.1"));
    assert_eq!(reads(&index, &[]), expected);
    assert_eq!(reads(&index, expected), Vec::<String>::new(), "each is read once");
}

/// B06 (2): the read finds the address bound: it is reclaimed before the finalizer goes.
#[test]
fn b06_what_the_read_finds_is_reclaimed() {
    let mut index = world(&[free("a1", "192.0.2.1"), going().selected("IPv4=a1/1")]);
    assert_eq!(reads(&index, &[]), ["a1"]);
    add(&mut index, &held("a1", "192.0.2.1").phase("Available").version(2));
    let Decision::Act(plan) = decide_claim(&index, "t1/web", &["a1"]) else { panic!("one read") };
    assert_eq!(steps(&plan), "release a1, unprotect");
    // The cache alone would have done, had it shown this in the first place.
    assert_eq!(steps(&plan_read(&index, "t1/web")), "release a1, unprotect");
}

/// B06 (2): the read finds it gone, or another's: the claim goes and the address is not touched.
#[rstest]
#[case::gone(None)]
#[case::anothers(Some(held("a1", "192.0.2.1").held_by("t2/api", Some("uid-api"))))]
#[case::an_earlier_ones(Some(held("a1", "192.0.2.1").held_by("t1/web", Some("uid-before"))))]
fn b06_what_turns_out_not_to_be_held_is_left(#[case] object: Option<Object>) {
    let mut index = world(&[going().selected("IPv4=a1/1")]);
    if let Some(object) = &object {
        add(&mut index, object);
    }
    assert_eq!(reads(&index, &[]), ["a1"]);
    let Decision::Act(plan) = decide_claim(&index, "t1/web", &["a1"]) else { panic!("one read") };
    assert_eq!(steps(&plan), "unprotect");
}

/// B06 (2): the read finds it still free. It is written to before the claim goes, so that an attempt
/// that is still on its way to it is refused.
#[test]
fn b06_a_choice_that_is_still_free_is_given_up_first() {
    let index = world(&[going().selected("IPv4=a1/1"), free("a1", "192.0.2.1")]);
    assert_eq!(reads(&index, &[]), ["a1"]);
    let Decision::Act(plan) = decide_claim(&index, "t1/web", &["a1"]) else { panic!("one read") };
    assert_eq!(steps(&plan), "give-up a1, unprotect");
}

/// What is known to be held and cannot be read as this version's holds nothing up: it is untouched.
#[test]
fn an_unreadable_address_is_untouched_and_holds_nothing_up() {
    let mut index = world(&[going().selected("IPv4=a1/1")]);
    let known = crate::binder::index::Strange { claim: Some(key("t1/web")), ..strange("u", 1) };
    index.strange_address(&"a1".into(), known);
    assert_eq!(steps(&plan_read(&index, "t1/web")), "unprotect");
}

/// I5: the claim's finalizer is the last that goes, whatever it holds.
#[test]
fn i5_the_finalizer_goes_last() {
    for policy in ["Retain", "Delete"] {
        for phase in ["Pending", "Available", "Bound", "Released", "Conflict", "Lost"] {
            for uid in [None, Some("uid-web")] {
                let object = held("a1", "192.0.2.1").policy(policy).phase(phase);
                let plan = plan_read(&world(&[object.held_by("t1/web", uid), going()]), "t1/web");
                let at = plan.steps.iter().position(|p| p.step.name() == "unprotect");
                assert_eq!(at, Some(plan.steps.len() - 1), "{policy} {phase} {uid:?}");
            }
        }
    }
}

/// Somebody else's finalizer may keep the object for long: it shows nothing that another claim may
/// have by then. Withdrawn after the reclaim, before the claim may go.
#[test]
fn i7_a_claim_that_stays_withdraws_what_was_reclaimed() {
    let claim = going().published(&[("a1", "192.0.2.1")]);
    let at_once = world(&[claim.clone(), held("a1", "192.0.2.1")]);
    assert_eq!(steps(&plan_read(&at_once, "t1/web")), "release a1, unprotect", "it goes at once");
    let stays = world(&[claim.finalizer("example.org/dns"), held("a1", "192.0.2.1")]);
    let plan = plan_read(&stays, "t1/web");
    assert_eq!(steps(&plan), "release a1, status, unprotect");
    let ClaimStep::Status(status) = &plan.steps[1].step else { panic!("{plan:?}") };
    assert_eq!((status.phase, status.addresses.len()), (ClaimPhase::Lost, 0));
    let bound = status.conditions.iter().find(|c| c.type_ == "Bound").unwrap();
    assert_eq!((&*bound.status, &*bound.reason), ("False", "AddressLost"));
    assert!(bound.message.contains("being deleted"), "{}", bound.message);
    let told: Vec<_> = plan.steps[1].events.iter().map(|event| event.reason).collect();
    assert_eq!(told, [EventReason::Lost]);
}

/// What was never shown is not withdrawn: a pending claim goes with one write.
#[test]
fn a_claim_that_stays_and_shows_nothing_has_nothing_to_withdraw() {
    let claim =
        claim("t1/web").protected().phase("Pending").deleting().finalizer("example.org/dns");
    assert_eq!(steps(&plan_read(&world(&[claim]), "t1/web")), "unprotect");
}
