//! Leases, with the clock and the API server in the test's hand.

use std::time::Duration;

use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::{fake::lease, *};
use crate::clock::{Clock, Moment};

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A clock that stands at a time.
fn at(elapsed: Duration) -> Clock {
    Clock::new(move || Moment { wall: Timestamp::UNIX_EPOCH, elapsed })
}

fn terms(holder: &str) -> Terms {
    Terms {
        name: "l".to_owned(),
        holder: holder.to_owned(),
        duration: secs(5),
        labels: [("a".to_owned(), "b".to_owned())].into(),
        pod_uid: None,
        owner: None,
    }
}

fn spec(record: &LeaseObject) -> &Value {
    &record.rest["spec"]
}

fn held(name: &str, version: u64, holder: &str) -> Record {
    lease(name, version, &json!({ "holderIdentity": holder, "leaseDurationSeconds": 5 }))
}

/// Null, absent, empty and wrong are all nobody.
#[rstest]
#[case(json!({}))]
#[case(json!({ "holderIdentity": null, "leaseDurationSeconds": null, "renewTime": null }))]
#[case(json!({ "holderIdentity": "" }))]
#[case(json!(null))]
#[case(json!("text"))]
fn a_lease_of_nobody(#[case] spec: Value) {
    let record = lease("l", 1, &spec);
    assert_eq!((record.holder(), record.duration()), (None, None));
    // And it can be taken like any other.
    let taken = terms("me").replace(&record, Timestamp::UNIX_EPOCH);
    assert_eq!(super::tests::spec(&taken)["holderIdentity"], "me");
}

/// What client-go reads and writes; what is unknown here survives.
#[test]
fn a_take_over_and_a_renewal_as_client_go_writes_them() {
    let other = lease(
        "l",
        7,
        &json!({
            "holderIdentity": "other", "leaseDurationSeconds": 15, "leaseTransitions": 3,
            "acquireTime": "2020-01-01T00:00:00.000000Z", "renewTime": "2020-01-01T00:00:00.000000Z",
            "strategy": "OldestEmulationVersion", "future": { "deep": [1, null] },
        }),
    );
    let now: Timestamp = "2026-12-01T06:00:00.25Z".parse().unwrap();
    let taken = terms("me").replace(&other, now);
    assert_eq!(taken.metadata.resource_version.as_deref(), Some("7"));
    assert_eq!(
        spec(&taken),
        &json!({
            "holderIdentity": "me", "leaseDurationSeconds": 5, "leaseTransitions": 4,
            "acquireTime": "2026-12-01T06:00:00.250000Z", "renewTime": "2026-12-01T06:00:00.250000Z",
            "strategy": "OldestEmulationVersion", "future": { "deep": [1, null] },
        })
    );
    let later = now + secs(1);
    let renewed = terms("me").replace(&Record::new(taken.clone()), later);
    let mut expected = spec(&taken).clone();
    expected["renewTime"] = json!("2026-12-01T06:00:01.250000Z");
    assert_eq!(spec(&renewed), &expected);
    let released = Record::new(renewed).released(later);
    assert_eq!(Record::new(released).holder(), None);
}

#[test]
fn a_new_lease_says_everything() {
    let mut terms = terms("me");
    terms.pod_uid = Some("u1".to_owned());
    let created = Record::new(terms.create(Timestamp::UNIX_EPOCH));
    assert_eq!((created.holder(), created.duration()), (Some("me"), Some(secs(5))));
    assert_eq!(created.pod_uid(), Some("u1"));
    assert_eq!(created.object().metadata.labels.as_ref().unwrap()["a"], "b");
    assert_eq!(created.object().rest["kind"], "Lease");
    assert_eq!(spec(created.object())["leaseTransitions"], 0);
}

/// The tenure is counted from when the request was sent, and a stopped process finds it passed.
#[test]
fn a_tenure_is_a_deadline() {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };
    let now = Arc::new(AtomicU64::new(100));
    let clock = {
        let now = Arc::clone(&now);
        Clock::new(move || Moment {
            wall: Timestamp::UNIX_EPOCH,
            elapsed: secs(now.load(Ordering::SeqCst)),
        })
    };
    let tenure = Tenure::new(clock);
    assert!(!tenure.holds());
    tenure.grant(secs(103));
    assert_eq!(tenure.left(), secs(3));
    now.store(103, Ordering::SeqCst);
    assert!(!tenure.holds());
    now.store(100, Ordering::SeqCst);
    tenure.end();
    assert!(!tenure.holds());
}

fn keeper() -> Keeper {
    Keeper::new(terms("me"), Times::default(), Tenure::new(at(secs(10))))
}

fn never(_: Option<&Record>) -> bool {
    false
}

fn always(_: Option<&Record>) -> bool {
    true
}

fn next(keeper: &Keeper, may_take: fn(Option<&Record>) -> bool) -> Option<&'static str> {
    keeper.next(Timestamp::UNIX_EPOCH, may_take).map(|ask| match ask {
        Ask::Read => "read",
        Ask::Create(_) => "create",
        Ask::Replace(_) => "replace",
    })
}

fn granted(keeper: &mut Keeper, version: u64, sent: Duration) {
    let ask = keeper.next(Timestamp::UNIX_EPOCH, always).unwrap();
    assert!(!keeper.answered(&ask, sent, &Answer::Is(held("l", version, "me"))));
}

/// (what is known, whether it may be taken) → what is asked.
#[test]
fn what_is_asked_in_each_state() {
    let mut keeper = keeper();
    assert_eq!(next(&keeper, never), Some("read"));
    keeper.absent();
    assert_eq!((next(&keeper, never), next(&keeper, always)), (None, Some("create")));
    keeper.observe(&held("l", 1, "other"));
    assert_eq!((next(&keeper, never), next(&keeper, always)), (None, Some("replace")));
    keeper.observe(&held("l", 2, ""));
    assert_eq!(next(&keeper, never), Some("replace"), "nobody's");
    keeper.observe(&held("l", 3, "me"));
    assert_eq!(next(&keeper, never), Some("replace"), "one's own");
    assert!(keeper.is_ours());
}

#[test]
fn a_grant_counts_from_when_it_was_asked_for() {
    let mut keeper = keeper();
    keeper.absent();
    granted(&mut keeper, 1, secs(8));
    assert_eq!(keeper.tenure().left(), Duration::from_millis(1_500));
}

/// A conflict is looked at again, and so is an answer that was lost: the write may have been done.
#[test]
fn a_refused_write_is_looked_at_again() {
    let mut keeper = keeper();
    keeper.absent();
    granted(&mut keeper, 1, secs(8));
    let ask = keeper.next(Timestamp::UNIX_EPOCH, never).unwrap();
    assert!(!keeper.answered(&ask, secs(9), &Answer::Unanswered("slow".into())));
    assert_eq!(keeper.tenure().left(), Duration::from_millis(1_500), "nothing is lost by it");
    assert!(keeper.answered(&ask, secs(9), &Answer::Conflict));
    assert_eq!(next(&keeper, never), Some("read"));
    // It was our own write whose answer was lost.
    assert!(keeper.answered(&Ask::Read, secs(9), &Answer::Is(held("l", 2, "me"))));
    assert_eq!(next(&keeper, never), Some("replace"));
    granted(&mut keeper, 3, secs(10));
    assert!(keeper.tenure().holds());
}

/// Somebody else's name in it ends the tenure at once, and an old event does not.
#[test]
fn seeing_another_holder_ends_it() {
    let mut keeper = keeper();
    keeper.absent();
    granted(&mut keeper, 5, secs(10));
    keeper.observe(&held("l", 4, "other"));
    assert!(keeper.tenure().holds());
    keeper.observe(&held("l", 6, "other"));
    assert!(!keeper.tenure().holds());
    assert_eq!(next(&keeper, never), None);
}

#[test]
fn only_ones_own_is_given_back() {
    let mut keeper = keeper();
    keeper.observe(&held("l", 1, "other"));
    assert_eq!(keeper.release(Timestamp::UNIX_EPOCH), None);
    keeper.observe(&held("l", 2, "me"));
    let Some(Ask::Replace(object)) = keeper.release(Timestamp::UNIX_EPOCH) else {
        panic!("given back")
    };
    assert_eq!(object.metadata.resource_version.as_deref(), Some("2"));
    assert_eq!(Record::new(*object).holder(), None);
}

fn roll(records: &[Record]) -> Roll {
    let mut roll = Roll::new(Times::default());
    roll.list_started();
    for record in records {
        roll.watched(record.clone(), secs(100));
    }
    roll.list_ended(secs(100));
    roll
}

/// How long it was seen unchanged is all that counts; and it is read before anybody is called dead.
#[test]
fn a_silent_holder_is_read_and_then_dead() {
    let mut roll = roll(&[held("a", 1, "x")]);
    assert!(roll.counts("a", secs(104)));
    assert_eq!(roll.next_expiry(secs(104)), Some(secs(105)));
    assert!(roll.suspects(secs(104)).is_empty());
    assert!(roll.counts("a", secs(105)), "not before it was read");
    assert_eq!(roll.suspects(secs(105)), [held("a", 1, "x")]);
    // It had been renewed, and the watch was slow.
    roll.saw(held("a", 2, "x"), secs(105));
    assert!(roll.suspects(secs(109)).is_empty());
    assert_eq!(roll.suspects(secs(110)).len(), 1);
    roll.confirm("a", "2", secs(109));
    assert!(roll.counts("a", secs(110)), "it was read before it expired");
    roll.confirm("a", "1", secs(110));
    assert!(roll.counts("a", secs(110)), "an older state was read");
    roll.confirm("a", "2", secs(110));
    assert!(!roll.counts("a", secs(110)));
    assert!(roll.suspects(secs(110)).is_empty());
    roll.watched(held("a", 3, "x"), secs(200));
    assert!(roll.counts("a", secs(201)), "and it came back");
}

/// The duration that is written in a Lease counts, where there is one.
#[test]
fn a_lease_says_how_long_it_counts() {
    let long = lease("a", 1, &json!({ "holderIdentity": "x", "leaseDurationSeconds": 30 }));
    let none = lease("b", 1, &json!({ "holderIdentity": "x" }));
    let roll = roll(&[long, none]);
    assert_eq!(roll.suspects(secs(105)).len(), 1);
    assert_eq!(roll.suspects(secs(130)).len(), 2);
}

#[test]
fn what_is_released_does_not_count_and_what_is_deleted_does_for_a_while() {
    let mut roll = roll(&[held("a", 1, "x"), held("b", 2, "y")]);
    roll.watched(held("a", 3, ""), secs(101));
    assert!(!roll.counts("a", secs(101)));
    roll.deleted("b", "uid-of-b", secs(102));
    assert!(roll.counts("b", secs(104)), "its holder does not know yet");
    assert!(!roll.counts("b", secs(105)));
    assert!(roll.suspects(secs(105)).is_empty(), "there is nothing to read");
    roll.deleted("b", "another", secs(106));
    roll.list_started();
    roll.list_ended(secs(107));
    assert!(roll.get("a").is_none() && roll.get("b").is_none(), "and is forgotten");
}

/// A re-list that does not show a Lease says that it was deleted.
#[test]
fn what_a_list_does_not_show_is_gone() {
    let mut roll = roll(&[held("a", 1, "x"), held("b", 2, "y")]);
    roll.list_started();
    roll.watched(held("a", 1, "x"), secs(101));
    roll.list_ended(secs(101));
    assert_eq!(roll.get("a").unwrap().seen, secs(100), "seen unchanged since then");
    assert_eq!(roll.get("b").unwrap().gone, Some(secs(101)));
}

/// One's own renewals must come back on the watch: when they do not for two periods, everybody
/// looks dead, and nobody is judged.
#[test]
fn a_dead_watch_judges_nobody() {
    let mut roll = roll(&[held("me", 1, "me"), held("a", 2, "x")]);
    roll.wrote(held("me", 3, "me"), secs(103));
    assert!(!roll.is_blind(secs(104)));
    roll.wrote(held("me", 4, "me"), secs(104));
    assert!(roll.is_blind(secs(105)));
    assert!(roll.suspects(secs(106)).is_empty());
    assert!(roll.counts("a", secs(106)));
    // A new list has its own two periods.
    roll.asked_again(secs(106));
    assert!(!roll.is_blind(secs(107)));
    roll.watched(held("me", 4, "me"), secs(107));
    assert!(!roll.is_blind(secs(200)));
}

/// A watch that is late by more than a period, and steady, is not dead.
#[test]
fn a_late_watch_is_not_a_dead_one() {
    let mut roll = roll(&[held("me", 1, "me")]);
    for second in 0..20_u64 {
        roll.wrote(held("me", 10 + second, "me"), secs(100 + second));
        if second > 0 {
            roll.watched(held("me", 9 + second, "me"), secs(100 + second));
        }
        assert!(!roll.is_blind(secs(100 + second)), "{second}");
    }
}

#[test]
fn nothing_is_judged_before_there_was_a_list() {
    let mut roll = Roll::new(Times::default());
    roll.list_started();
    roll.watched(held("a", 1, "x"), secs(0));
    assert!(roll.is_blind(secs(10)));
    assert!(roll.suspects(secs(10)).is_empty());
}

/// The dead and the released, after ten durations; never the living.
#[test]
fn what_is_left_lying_is_forgotten() {
    let mut roll = roll(&[held("dead", 1, "x"), held("left", 2, ""), held("alive", 3, "y")]);
    roll.confirm("dead", "1", secs(149));
    roll.watched(held("alive", 9, "y"), secs(149));
    let names =
        |roll: &Roll, now| roll.forgotten(now).map(|r| r.name().to_owned()).collect::<Vec<_>>();
    assert!(names(&roll, secs(149)).is_empty());
    assert_eq!(names(&roll, secs(150)), ["dead", "left"]);
}

/// What rests on a tenure ends with it, and does not come back with it.
#[test]
fn a_tenure_ends_for_good_with_the_one_it_rests_on() {
    let now = std::sync::Arc::new(parking_lot::Mutex::new(secs(0)));
    let of = now.clone();
    let clock = crate::clock::Clock::new(move || crate::clock::Moment {
        wall: jiff::Timestamp::UNIX_EPOCH,
        elapsed: *of.lock(),
    });
    let leader = Tenure::new(clock);
    let member = Tenure::bearing(&leader);
    member.grant(secs(3));
    leader.grant(secs(5));
    *now.lock() = secs(2);
    member.grant(secs(4));
    assert!(leader.holds(), "renewed in time");
    *now.lock() = secs(4);
    member.grant(secs(8));
    assert!(member.holds() && !leader.holds());
}
