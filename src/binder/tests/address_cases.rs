//! Faults that were seen elsewhere, on the address's side: each by its own name.

use std::collections::BTreeSet;

use rstest::rstest;
use serde_json::{Value, json};

use super::address_world::{Cluster, acted, strange, told, words};
use crate::{
    api::{AddressPhase, IPAddress},
    binder::{
        index::Gone,
        plan::{AddressPlan, AddressStep, Decision, EventReason, Subject},
        testing::{
            Object, add, address, claim, class, decide_address, decide_claim, free, key,
            plan_address, plan_claim, plan_claim_after, world,
        },
        view::AddressView,
    },
};

/// An address that `t1/web` holds.
fn bound(name: &str, ip: &str) -> Object {
    address(name, ip).protected().phase("Bound").held_by("t1/web", Some("uid-web"))
}

fn step(plan: &AddressPlan) -> &AddressStep {
    let [one] = plan.steps.as_slice() else { panic!("one step, not {:?}", plan.steps) };
    &one.step
}

/// A look at an address by its pass until it writes nothing, each read answered from `cluster`.
fn settle(cluster: &mut Cluster, name: &str) -> Vec<EventReason> {
    let mut events = Vec::new();
    for _ in 0..5 {
        if cluster.address(name).is_none() {
            return events;
        }
        let plan = acted(decide_address(&cluster.index(), name, true));
        if plan.steps.is_empty() {
            return events;
        }
        events.extend(told(&plan));
        cluster.carry_out(&plan);
    }
    panic!("the address never settles");
}

/// B03, the first state: the whole claimRef of a dead claim stays. Nobody takes the address, and
/// nothing is read or written, ever.
#[test]
fn b03_released_with_its_whole_claim_ref_is_left_alone() {
    let released = bound("a1", "192.0.2.1").phase("Released");
    let next = claim("t1/web").uid("uid-next");
    let index = world(&[class("public"), released, next, claim("t2/api")]);
    for _ in 0..20 {
        assert_eq!(words(&decide_address(&index, "a1", false)), "-");
    }
    for waiting in ["t1/web", "t2/api"] {
        assert_eq!(plan_claim(&index, waiting).chosen().count(), 0, "{waiting}");
    }
}

/// B03, the second state: with only the uid removed, the claim of that name adopts the address and
/// no other does. It is `Bound` again after the claim was read.
#[test]
fn b03_without_the_uid_only_the_claim_of_that_name_adopts_it() {
    let open = bound("a1", "192.0.2.1").phase("Released").held_by("t1/web", None);
    let next = claim("t1/web").uid("uid-next").protected();
    let mut index = world(&[class("public"), open.clone(), next, claim("t2/api")]);
    assert_eq!(words(&decide_address(&index, "a1", false)), "-", "the claim's pass completes it");
    assert_eq!(plan_claim(&index, "t2/api").chosen().count(), 0);
    let plan = plan_claim_after(&index, "t1/web", &["a1"]);
    let steps: Vec<_> = plan.steps.iter().map(|p| p.step.name()).collect();
    assert!(steps.contains(&"complete"), "{steps:?}");

    add(&mut index, &open.held_by("t1/web", Some("uid-next")).version(2));
    assert_eq!(words(&decide_address(&index, "a1", false)), "read t1/web");
    assert_eq!(words(&decide_address(&index, "a1", true)), "phase Bound");
}

/// B03, the third state: with the claimRef cleared the address is `Available`, and then exactly one
/// of two waiting claims is called for it.
#[test]
fn b03_without_the_claim_ref_it_is_available_for_exactly_one() {
    let released = bound("a1", "192.0.2.1").phase("Released");
    let mut index = world(&[class("public"), released.clone(), claim("t1/old"), claim("t2/new")]);
    for waiting in ["t1/old", "t2/new"] {
        let plan = plan_claim(&index, waiting);
        index.decided(&plan.claim, plan.created, plan.waiting, []);
    }
    let cleared = released.set("/spec/claimRef", Value::Null);
    add(&mut index, &cleared.clone().version(2));
    assert_eq!(step(&plan_address(&index, "a1")), &AddressStep::Phase(AddressPhase::Available));
    let wakes = add(&mut index, &cleared.phase("Available").version(3));
    assert_eq!(wakes.claims, BTreeSet::from([key("t1/old")]));
}

/// B03: who reads of the release reads what may be done next.
#[test]
fn b03_the_event_of_a_release_says_what_an_administrator_may_do() {
    let index = world(&[bound("a1", "192.0.2.1")]);
    let plan = acted(decide_address(&index, "a1", true));
    let event = &plan.steps[0].events[0];
    assert_eq!(event.reason, EventReason::Reclaimed);
    for words in ["t1/web", "Retain", "clear spec.claimRef", "spec.claimRef.uid"] {
        assert!(event.note.contains(words), "{words} is not in {:?}", event.note);
    }
    let name = Subject::Address { name: "a1".into(), uid: "uid-a1".into() };
    assert_eq!(event.about, name);
}

/// B09: a live claim blocks the deletion; the claim stays `Bound` to it and takes no other.
#[test]
fn b09_a_live_claim_blocks_the_deletion_and_keeps_the_address() {
    let going = bound("a1", "192.0.2.1").finalizer("fake.example.org/driver").deleting();
    let holder = claim("t1/web").protected().phase("Bound").published(&[("a1", "192.0.2.1")]);
    let index = world(&[class("public"), going, free("a2", "192.0.2.2"), holder]);
    let plan = plan_address(&index, "a1");
    assert_eq!(plan.steps, []);
    assert_eq!(told(&plan), [EventReason::DeletionBlocked]);
    assert!(plan.notices[0].note.contains("t1/web"));
    assert_eq!(plan.look_again, None, "the claim's deletion wakes it, no clock does");
    let Decision::Act(plan) = decide_claim(&index, "t1/web", &[]) else { panic!("no read") };
    assert_eq!(plan.chosen().count(), 0);
}

/// B09: with the claim gone both go, woken by the claim's deletion; a driver's finalizer stays.
#[test]
fn b09_the_claims_deletion_wakes_the_address_and_lets_it_go() {
    let going = bound("a1", "192.0.2.1").finalizer("fake.example.org/driver").deleting();
    let mut index = world(&[going, claim("t1/web").protected()]);
    let wakes = add(&mut index, &claim("t1/web").protected().deleting().version(2));
    assert!(wakes.addresses.contains("a1"));
    assert_eq!(words(&decide_address(&index, "a1", false)), "read t1/web");
    let wakes = index.remove_claim(&key("t1/web"), &Gone::Object { uid: "uid-web".into() });
    assert!(wakes.addresses.contains("a1"));
    let plan = acted(decide_address(&index, "a1", true));
    let finalizers = vec!["fake.example.org/driver".into()];
    assert_eq!(step(&plan), &AddressStep::Unprotect { finalizers });
}

/// B09: each state that does not block, and that an address nobody asked about is let go unread.
#[rstest]
#[case::never_claimed(free("a1", "192.0.2.1"), "unprotect")]
#[case::reserved(address("a1", "192.0.2.1").protected().held_by("t1/web", None), "unprotect")]
#[case::lost(bound("a1", "192.0.2.1").phase("Lost"), "unprotect")]
#[case::of_another_uid(bound("a1", "192.0.2.1").held_by("t1/web", Some("uid-0")), "read t1/web")]
#[case::of_another_claim(bound("a1", "192.0.2.1").held_by("t9/x", Some("uid-x")), "read t9/x")]
#[case::in_conflict(bound("a1", "192.0.2.1").phase("Conflict"), "DeletionBlocked")]
#[case::text_is_no_ip(bound("a1", "192.0.2.1/24").phase("Pending"), "DeletionBlocked")]
#[case::not_ours(address("a1", "192.0.2.1").held_by("t1/web", Some("uid-web")), "-")]
fn b09_what_blocks_a_deletion(#[case] object: Object, #[case] expected: &str) {
    let index = world(&[object.deleting(), claim("t1/web").protected()]);
    assert_eq!(words(&decide_address(&index, "a1", false)), expected);
}

/// X3: `claimRef` with the uid is written and the phase is not yet `Bound`: blocked all the same.
#[rstest]
#[case(None)]
#[case(Some("Pending"))]
#[case(Some("Available"))]
#[case(Some("Released"))]
#[case(Some("Conflict"))]
fn x3_the_window_before_the_phase_blocks_too(#[case] phase: Option<&str>) {
    let mut object = address("a1", "192.0.2.1").protected().held_by("t1/web", Some("uid-web"));
    if let Some(phase) = phase {
        object = object.phase(phase);
    }
    let index = world(&[object.deleting(), claim("t1/web").protected()]);
    for confirmed in [false, true] {
        let words = words(&decide_address(&index, "a1", confirmed));
        assert_eq!(words, "DeletionBlocked", "confirmed: {confirmed}");
    }
}

/// B10: the address's own policy counts. A class has none that a decision could look at, and a
/// `Released` address that is edited to `Delete` is deleted, after a read.
#[test]
fn b10_released_and_edited_to_delete_is_deleted_after_a_read() {
    let released = bound("a1", "192.0.2.1").phase("Released");
    let mut index = world(std::slice::from_ref(&released));
    assert_eq!(words(&decide_address(&index, "a1", false)), "-");
    let wakes = add(&mut index, &released.policy("Delete").version(2));
    assert!(wakes.addresses.contains("a1"));
    assert_eq!(words(&decide_address(&index, "a1", false)), "read t1/web");
    let plan = acted(decide_address(&index, "a1", true));
    assert_eq!(step(&plan), &AddressStep::Delete);
    assert_eq!((&*plan.address.uid, &*plan.address.version), ("uid-a1", "2"), "preconditions");
    assert_eq!(told(&plan), [EventReason::Reclaimed]);
}

/// B10: `Delete` edited to `Retain` before the claim is found gone: released, not deleted.
#[test]
fn b10_the_policy_at_the_moment_of_the_reclaim_counts() {
    let index = world(&[bound("a1", "192.0.2.1").policy("Delete").version(4)]);
    assert_eq!(words(&decide_address(&index, "a1", true)), "delete");
    let index = world(&[bound("a1", "192.0.2.1").policy("Retain").version(5)]);
    assert_eq!(words(&decide_address(&index, "a1", true)), "phase Released");
}

/// B10: a policy that is missing is `Retain`; one that is unknown does not parse, so that the
/// object is not touched at all. Neither is ever `Delete`.
#[test]
fn b10_a_missing_or_unknown_policy_is_never_delete() {
    let mut missing = bound("a1", "192.0.2.1");
    missing.0["spec"].as_object_mut().unwrap().remove("reclaimPolicy");
    let index = world(&[missing]);
    assert_eq!(words(&decide_address(&index, "a1", true)), "phase Released");

    for unknown in [json!("Recycle"), json!("delete"), json!(""), json!(7)] {
        let object = bound("a1", "192.0.2.1").set("/spec/reclaimPolicy", unknown.clone());
        let parsed: Result<IPAddress, _> = serde_json::from_value(object.0);
        assert!(parsed.is_err(), "{unknown} parses");
    }
}

/// B11: a driver set `Conflict` between our read and our write. On the next look the phase is left
/// alone whatever else is true, and the address is `Bound` again once the driver clears it.
#[test]
fn b11_a_drivers_phase_is_left_and_its_clearing_is_answered() {
    let conflict = bound("a1", "192.0.2.1").phase("Conflict");
    let mut index = world(&[conflict.clone(), claim("t1/web").protected()]);
    assert_eq!(words(&decide_address(&index, "a1", false)), "-");
    let wakes = add(&mut index, &conflict.set("/status/phase", Value::Null).version(2));
    assert!(wakes.addresses.contains("a1") && wakes.claims.contains(&key("t1/web")));
    assert_eq!(words(&decide_address(&index, "a1", false)), "phase Bound");
}

/// B11: the driver that clears the phase may write any of ours; the outcome is the same.
#[rstest]
#[case("Pending", "phase Bound")]
#[case("Available", "phase Bound")]
#[case("Bound", "-")]
fn b11_cleared_to_any_phase_it_is_bound(#[case] cleared_to: &str, #[case] expected: &str) {
    let index = world(&[bound("a1", "192.0.2.1").phase(cleared_to), claim("t1/web").protected()]);
    assert_eq!(words(&decide_address(&index, "a1", false)), expected);
}

/// A retained address whose claim went while it was in a driver's phase is released once the
/// driver clears that, and not before.
#[rstest]
#[case("Conflict")]
#[case("Lost")]
fn a_retained_address_keeps_its_drivers_phase_and_is_released_afterwards(#[case] phase: &str) {
    let mut cluster = Cluster::of(&[bound("a1", "192.0.2.1").phase(phase)]);
    assert_eq!(settle(&mut cluster, "a1"), []);
    assert_eq!(cluster.address("a1").unwrap().0["status"]["phase"], phase);
    cluster.put(bound("a1", "192.0.2.1").phase("Pending"));
    assert_eq!(settle(&mut cluster, "a1"), [EventReason::Reclaimed]);
    assert_eq!(cluster.address("a1").unwrap().0["status"]["phase"], "Released");
}

/// H01: the claim exists and the cache says otherwise. Nothing is destroyed on the cache's word,
/// and what the read brings makes it `Bound`.
#[rstest]
#[case::no_such_claim(None)]
#[case::an_earlier_uid(Some(claim("t1/web").uid("uid-1")))]
#[case::a_deleted_one_of_an_earlier_uid(Some(claim("t1/web").uid("uid-1").deleting()))]
fn h01_read_before_destroying(#[case] cached: Option<Object>) {
    for policy in ["Retain", "Delete"] {
        let object = bound("a1", "192.0.2.1").policy(policy).phase("Available");
        let mut index = world(&[object]);
        if let Some(claim) = &cached {
            add(&mut index, claim);
        }
        assert_eq!(decide_address(&index, "a1", false), Decision::Read(vec![key("t1/web")]));
        add(&mut index, &claim("t1/web").protected().version(9));
        assert_eq!(words(&decide_address(&index, "a1", true)), "phase Bound", "{policy}");
    }
}

/// H01: the cache thinks that the very claim is being deleted: the address waits for its reclaim,
/// and destroys nothing itself. When the claim turns out to be there, the address is `Bound`.
#[test]
fn h01_a_claim_thought_to_be_deleted_is_waited_for() {
    let object = bound("a1", "192.0.2.1").policy("Delete").phase("Available");
    let mut index = world(&[object, claim("t1/web").protected().deleting()]);
    assert_eq!(words(&decide_address(&index, "a1", false)), "-");
    assert_eq!(words(&decide_address(&index, "a1", true)), "-");
    index.remove_claim(&key("t1/web"), &Gone::Object { uid: "uid-web".into() });
    assert_eq!(words(&decide_address(&index, "a1", false)), "read t1/web");
    add(&mut index, &claim("t1/web").protected().version(9));
    assert_eq!(words(&decide_address(&index, "a1", true)), "phase Bound");
}

/// H01 for a deletion: an address that is being deleted is not let go on a cache's word either.
#[test]
fn h01_a_deletion_is_not_let_through_on_a_caches_word() {
    let mut index = world(&[bound("a1", "192.0.2.1").deleting()]);
    assert_eq!(words(&decide_address(&index, "a1", false)), "read t1/web");
    add(&mut index, &claim("t1/web").protected());
    assert_eq!(words(&decide_address(&index, "a1", true)), "DeletionBlocked");
}

/// A `Released` address must not be given back by an old cache to a claim that is gone.
#[test]
fn released_is_given_back_only_after_a_read() {
    let released = bound("a1", "192.0.2.1").phase("Released");
    let mut index = world(&[released, claim("t1/web").protected()]);
    assert_eq!(words(&decide_address(&index, "a1", false)), "read t1/web");
    index.remove_claim(&key("t1/web"), &Gone::AsOf { version: "1".into() });
    assert_eq!(words(&decide_address(&index, "a1", true)), "-");
}

/// A02: one `InvalidAddress` with the write of the phase, and none in twenty passes and a restart
/// after it. Never matched, and a claim that it names says why it waits.
#[rstest]
fn a02_text_that_is_not_one_address(
    #[values(
        "192.168.010.1",
        "203.0.113.7/32",
        " 203.0.113.7",
        "203.0.113",
        "0x7f.0.0.1",
        "3405803783",
        "[2001:db8::1]",
        "fe80::1%eth0",
        "2001:db8::7::",
        "203.0.113.256"
    )]
    text: &str,
) {
    let mut cluster = Cluster::of(&[address("a1", text), class("public"), claim("t1/web")]);
    let first = acted(decide_address(&cluster.index(), "a1", false));
    assert_eq!(words(&Decision::Act(first.clone())), "protect, phase Pending");
    assert_eq!(told(&first), [EventReason::InvalidAddress]);
    assert!(first.steps[1].events[0].note.contains(&format!("{text:?}")), "the text is named");
    cluster.carry_out(&first);
    for _ in 0..20 {
        let again = plan_address(&cluster.index(), "a1");
        assert_eq!((again.steps.len(), told(&again).len()), (0, 0));
    }
    assert_eq!(plan_claim(&cluster.index(), "t1/web").chosen().count(), 0);
}

/// A02: whatever claim the invalid address names, live, gone or reserved, it stays `Pending`.
#[rstest]
#[case(Some("uid-web"))]
#[case(Some("uid-gone"))]
#[case(None)]
fn a02_an_invalid_address_is_neither_bound_nor_reclaimed(#[case] uid: Option<&str>) {
    let object = address("a1", "192.0.2.1/24").protected().phase("Pending").policy("Delete");
    let index = world(&[object.held_by("t1/web", uid), claim("t1/web").protected()]);
    for confirmed in [false, true] {
        assert_eq!(words(&decide_address(&index, "a1", confirmed)), "-");
    }
}

/// A03: two spellings of one IP: told on both objects, and cleared by deleting either.
#[rstest]
#[case("2001:DB8::7", "2001:0db8:0:0:0:0:0:7")]
#[case("192.0.2.7", "::ffff:192.0.2.7")]
#[case("192.0.2.7", "192.0.2.7")]
fn a03_duplicates_are_told_on_both_and_cleared(#[case] one: &str, #[case] two: &str) {
    let objects = [free("a1", one), free("a2", two)];
    for stays in [0, 1] {
        let mut index = world(&objects);
        for (name, other) in [("a1", "a2"), ("a2", "a1")] {
            let plan = plan_address(&index, name);
            assert_eq!((plan.steps.len(), told(&plan)), (0, vec![EventReason::DuplicateAddress]));
            assert!(plan.notices[0].note.contains(other));
        }
        let (stays, goes) = if stays == 0 { ("a1", "a2") } else { ("a2", "a1") };
        let uid = format!("uid-{goes}").as_str().into();
        let wakes = index.remove_address(&goes.into(), &Gone::Object { uid });
        assert!(wakes.addresses.contains(stays), "the one that stays is looked at");
        assert_eq!(told(&plan_address(&index, stays)), []);
    }
}

/// A03: an address that cannot be read still holds its IP against others.
#[test]
fn a03_an_unreadable_address_is_a_duplicate_too() {
    let mut index = world(&[free("a1", "192.0.2.1")]);
    let ip = Some("192.0.2.1".parse().unwrap());
    let unreadable = crate::binder::index::Strange { ip, ..strange("uid-a2", 1) };
    let wakes = index.strange_address(&"a2".into(), unreadable);
    assert!(wakes.addresses.contains("a1"));
    assert_eq!(told(&plan_address(&index, "a1")), [EventReason::DuplicateAddress]);
    index.remove_address(&"a2".into(), &Gone::Object { uid: "uid-a2".into() });
    assert_eq!(told(&plan_address(&index, "a1")), []);
}

/// A duplicate that is held by a live claim stays `Bound`: only matching is refused.
#[test]
fn a_duplicate_disturbs_no_binding() {
    let held = bound("a1", "192.0.2.1");
    let index = world(&[held, free("a2", "192.0.2.1"), claim("t1/web").protected()]);
    assert_eq!(words(&decide_address(&index, "a1", false)), "DuplicateAddress");
}

/// Recycling is clearing the claimRef, whatever the policy and whoever held it before.
#[test]
fn clearing_the_claim_ref_recycles() {
    for policy in ["Retain", "Delete"] {
        let cleared = free("a1", "192.0.2.1").phase("Released").policy(policy);
        let mut cluster = Cluster::of(&[cleared]);
        assert_eq!(settle(&mut cluster, "a1"), []);
        assert_eq!(cluster.address("a1").unwrap().0["status"]["phase"], "Available");
    }
}

/// The claim does not parse: neither it nor its address is touched until it does, deletion
/// included; what is being deleted is held by its word.
#[rstest]
#[case(bound("a1", "192.0.2.1").policy("Delete"), "-")]
#[case(bound("a1", "192.0.2.1").phase("Available"), "-")]
#[case(address("a1", "192.0.2.1").protected().held_by("t1/web", None), "-")]
#[case(bound("a1", "192.0.2.1").deleting(), "DeletionBlocked")]
fn an_unreadable_claims_address_is_untouched(#[case] object: Object, #[case] expected: &str) {
    let mut index = world(&[object]);
    index.strange_claim(&key("t1/web"), strange("uid-web", 1));
    for confirmed in [false, true] {
        assert_eq!(words(&decide_address(&index, "a1", confirmed)), expected);
    }
}

/// A claim that is read again after it was unreadable: the addresses that name it are looked at,
/// for their phase was left as it was.
#[test]
fn a_claim_that_parses_at_last_wakes_its_addresses() {
    let mut index = world(&[bound("a1", "192.0.2.1").phase("Available")]);
    index.strange_claim(&key("t1/web"), strange("uid-web", 1));
    assert_eq!(words(&decide_address(&index, "a1", false)), "-");
    let wakes = add(&mut index, &claim("t1/web").protected().version(2));
    assert!(wakes.addresses.contains("a1"), "{wakes:?}");
    assert_eq!(words(&decide_address(&index, "a1", false)), "phase Bound");
}

/// The first look at a new address: the finalizer before the phase.
#[rstest]
#[case(address("a1", "192.0.2.1"), "protect, phase Available")]
#[case(address("a1", "2001:db8::1").held_by("t1/web", Some("uid-web")), "protect, phase Bound")]
#[case(address("a1", "192.0.2.1").phase("Conflict"), "protect")]
#[case(address("a1", "192.0.2.1").phase("Available"), "protect")]
fn protected_first(#[case] object: Object, #[case] expected: &str) {
    let index = world(&[object, claim("t1/web").protected()]);
    assert_eq!(words(&decide_address(&index, "a1", false)), expected);
}

/// What a view says of a match is what the phase, the reference, the deletion and the text say.
#[rstest]
#[case(free("a1", "192.0.2.1"), true)]
#[case(free("a1", "192.0.2.1/32"), false)]
#[case(free("a1", "192.0.2.1").deleting(), false)]
#[case(free("a1", "192.0.2.1").held_by("t1/web", None), false)]
#[case(free("a1", "192.0.2.1").phase("Released"), false)]
#[case(address("a1", "192.0.2.1"), false)]
fn matchable_is_available_unclaimed_undeleted_and_one_ip(
    #[case] object: Object,
    #[case] expected: bool,
) {
    let view: AddressView = object.address();
    assert_eq!(view.matchable(), expected);
}
