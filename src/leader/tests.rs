//! Leadership with the clock and the API server in the test's hand. There is no watch: what would be
//! seen on it is told.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::json;
use tokio::{task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    clock::{Clock, Moment},
    lease::{
        LeaseClient, Roll, Times,
        fake::{FakeLeases, Mood},
    },
    queue::Config,
    shard::{self, Names, Roster},
    world::World,
};

fn clock() -> Clock {
    let start = tokio::time::Instant::now();
    let wall = Timestamp::UNIX_EPOCH;
    Clock::new(move || Moment { wall: wall + start.elapsed(), elapsed: start.elapsed() })
}

/// A candidate that is a member, with the watch played by the test.
struct Candidate {
    roster: Arc<Roster>,
    leadership: Leadership,
    led: CancellationToken,
    left: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Candidate {
    async fn of(server: &FakeLeases, identity: &str) -> Self {
        Self::seeing(server, identity, |_| true).await
    }

    /// One whose watch shows these Leases alone.
    async fn seeing(server: &FakeLeases, identity: &str, shown: fn(&str) -> bool) -> Self {
        let times = Times::default();
        let api = LeaseClient::new(server.client(), "default", times.attempt);
        let names = Names::new("r", identity, "p1", None);
        let roster = Arc::new(Roster::new(names, times, clock(), api));
        roster.learn(|roll, now| {
            roll.list_started();
            roll.list_ended(now);
        });
        let leadership = Leadership::among_others(roster.leader.clone(), roster.member.clone());
        let world = Arc::new(World::new(Config::default(), Clock::system()));
        let (led, left) = (CancellationToken::new(), CancellationToken::new());
        let quiet = |_: Result<(), &str>| {};
        let tasks = vec![
            tokio::spawn(shard::keep(Arc::clone(&roster), left.clone(), quiet)),
            tokio::spawn(watching(server.clone(), Arc::clone(&roster), shown)),
            tokio::spawn(lead(Arc::clone(&roster), leadership.clone(), world, led.clone())),
        ];
        sleep(Duration::from_millis(50)).await;
        Self { roster, leadership, led, left, tasks }
    }

    fn leads(&self) -> bool {
        self.leadership.leads()
    }

    /// It is gone, and nobody was told.
    fn kill(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// The watch, and the judge's look at whom it has not heard of.
async fn watching(server: FakeLeases, roster: Arc<Roster>, shown: fn(&str) -> bool) {
    loop {
        let mut there = server.all();
        there.retain(|record| shown(record.name()));
        let known: Vec<_> = roster
            .see(|roll, _| roll.all().map(|(n, s)| (n.to_owned(), s.record.clone())).collect());
        roster.learn(|roll, now| {
            for (name, record) in known {
                if shown(&name) && !there.iter().any(|r| r.name() == name) {
                    roll.deleted(&name, record.uid(), now);
                }
            }
            for record in there {
                roll.watched(record, now);
            }
        });
        for record in roster.see(Roll::suspects) {
            roster.learn(|roll, now| roll.confirm(record.name(), record.version(), now));
        }
        sleep(Duration::from_millis(20)).await;
    }
}

async fn pass(millis: u64) {
    sleep(Duration::from_millis(millis)).await;
}

const LEADER: &str = "r-leader";

#[tokio::test(start_paused = true)]
async fn one_leads_and_only_that_one_writes_its_lease() {
    let server = FakeLeases::default();
    let first = Candidate::of(&server, "a").await;
    let second = Candidate::of(&server, "b").await;
    pass(500).await;
    assert!(first.leads() && !second.leads());
    server.asked();
    pass(10_000).await;
    let asked = server.asked();
    let leaders = asked.iter().filter(|a| a.as_str() == "PUT r-leader").count();
    assert_eq!(
        (leaders, asked.len()),
        (10, 30),
        "one write a second each, and the leader one more"
    );
}

/// A leader that is told to stop gives its Lease back, and another has it at once.
#[tokio::test(start_paused = true)]
async fn a_leader_that_leaves_is_followed_at_once() {
    let server = FakeLeases::default();
    let first = Candidate::of(&server, "a").await;
    let second = Candidate::of(&server, "b").await;
    first.led.cancel();
    pass(100).await;
    assert!(!first.leads() && second.leads());
    assert_eq!(server.holder(LEADER).as_deref(), Some("b_p1"));
    assert_eq!(server.holder("r-member-a").as_deref(), Some("a_p1"), "a member to the end");
    first.left.cancel();
    pass(100).await;
    assert_eq!(server.holder("r-member-a"), None);
}

/// One judgement: its successor leads when it is no member any more, and not one duration later.
#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_followed_when_it_is_no_member_any_more() {
    let server = FakeLeases::default();
    let first = Candidate::of(&server, "a").await;
    let second = Candidate::of(&server, "b").await;
    pass(500).await;
    let tenure = first.roster.leader.clone();
    first.kill();
    pass(3_600).await;
    assert!(!tenure.holds() && !second.leads(), "nobody: both are sure");
    pass(1_600).await;
    assert!(second.leads());
}

/// Its renewals alone are refused: it stops before anybody else may begin.
#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_in_time() {
    for mood in [Mood::NoWrites, Mood::Silent] {
        let server = FakeLeases::default();
        let first = Candidate::of(&server, "a").await;
        assert!(first.leads());
        server.set_mood(mood);
        pass(3_600).await;
        assert!(!first.leads(), "{mood:?}");
        server.set_mood(Mood::Well);
        pass(2_100).await;
        assert!(first.leads(), "{mood:?}");
    }
}

/// Deleted under its holder: whoever held it makes it anew, and nobody else is quicker.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_stays_with_its_holder() {
    let server = FakeLeases::default();
    let first = Candidate::of(&server, "a").await;
    let second = Candidate::of(&server, "b").await;
    for _ in 0..5 {
        pass(730).await;
        server.delete(LEADER);
        for _ in 0..20 {
            pass(50).await;
            assert!(!second.leads());
        }
        assert!(first.leads());
        assert_eq!(server.holder(LEADER).as_deref(), Some("a_p1"));
    }
}

/// Null in every field: it can be had. So can that of a holder who is no member, after the time in
/// which a live one would have renewed it, however long it says that it counts.
#[tokio::test(start_paused = true)]
async fn what_nobody_alive_holds_can_be_had() {
    for (spec, after) in [
        (json!({ "holderIdentity": null, "leaseDurationSeconds": null, "renewTime": null }), 500),
        (json!({ "holderIdentity": "", "leaseDurationSeconds": 1 }), 500),
        (json!({ "holderIdentity": "somebody-else", "leaseDurationSeconds": 3600 }), 6_100),
        (json!(null), 500),
    ] {
        let server = FakeLeases::default();
        server.put(LEADER, &spec);
        let only = Candidate::of(&server, "a").await;
        pass(after).await;
        assert!(only.leads(), "{spec}");
    }
}

/// Another takes it by force: what was the leader stops at once, without a request of its own.
#[tokio::test(start_paused = true)]
async fn a_leader_that_sees_another_in_its_place_stops() {
    let server = FakeLeases::default();
    let first = Candidate::of(&server, "a").await;
    let _second = Candidate::of(&server, "b").await;
    assert!(first.leads());
    server.put(LEADER, &json!({ "holderIdentity": "b_p1", "leaseDurationSeconds": 5 }));
    pass(50).await;
    assert!(!first.leads());
}

/// Ten candidates at once on an empty cluster: one.
#[tokio::test(start_paused = true)]
async fn of_many_that_start_together_one_leads() {
    let server = FakeLeases::default();
    let names: Vec<_> = (0..10).map(|n| format!("c{n}")).collect();
    let candidates =
        futures::future::join_all(names.iter().map(|n| Candidate::of(&server, n))).await;
    for _ in 0..100 {
        pass(37).await;
        assert_eq!(candidates.iter().filter(|c| c.leads()).count(), 1);
    }
}

/// What is left lying for ten durations is deleted by the leader, in the state it was seen in.
#[tokio::test(start_paused = true)]
async fn the_leader_deletes_what_is_left_lying() {
    let server = FakeLeases::default();
    server.put("r-member-old", &json!({ "holderIdentity": "old_p1", "leaseDurationSeconds": 5 }));
    server.put("r-member-left", &json!({ "holderIdentity": "" }));
    server.put("another", &json!({ "holderIdentity": "" }));
    let _leader = Candidate::of(&server, "a").await;
    pass(49_000).await;
    assert_eq!(server.all().len(), 5);
    pass(8_000).await;
    let names: Vec<_> = server.all().iter().map(|r| r.name().to_owned()).collect();
    assert_eq!(names, ["another", LEADER, "r-member-a"]);
}

/// What was heard of a member may be long past: it was dead, is back, and leads. The watch has not
/// caught up, and whoever would lead looks at it first.
#[tokio::test(start_paused = true)]
async fn one_who_was_dead_and_leads_is_not_taken_for_dead() {
    let server = FakeLeases::default();
    server.put("r-member-a", &json!({ "holderIdentity": "a_p0", "leaseDurationSeconds": 5 }));
    let behind = Candidate::seeing(&server, "b", |name| name != "r-member-a").await;
    let before = server.get("r-member-a").unwrap();
    behind.roster.learn(|roll, now| roll.saw(before.clone(), now));
    pass(5_500).await;
    // It was read, and was dead indeed.
    behind.roster.learn(|roll, now| roll.confirm("r-member-a", before.version(), now));
    assert!(behind.leads(), "nobody else is there");
    behind.led.cancel();
    pass(100).await;
    let first = Candidate::of(&server, "a").await;
    pass(6_000).await;
    assert!(first.leads(), "its own Lease has run out");
    let again = Arc::clone(&behind.roster);
    let world = Arc::new(World::new(Config::default(), Clock::system()));
    let leading = behind.leadership.clone();
    tokio::spawn(lead(again, leading, world, CancellationToken::new()));
    for _ in 0..100 {
        pass(100).await;
        assert!(first.leads() && !behind.leads());
    }
}
