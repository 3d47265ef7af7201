//! Membership with the clock and the API server in the test's hand. There is no watch: what would be
//! seen on it is told.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
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
};

/// Tokio's clock, which a test holds.
fn clock() -> Clock {
    let start = tokio::time::Instant::now();
    let wall = Timestamp::UNIX_EPOCH;
    Clock::new(move || Moment { wall: wall + start.elapsed(), elapsed: start.elapsed() })
}

fn roster(server: &FakeLeases, identity: &str, process: &str, pod: Option<&str>) -> Arc<Roster> {
    let times = Times::default();
    let api = LeaseClient::new(server.client(), "default", times.attempt);
    let pod = pod.map(|uid| Pod { name: None, uid: uid.to_owned() });
    let names = Names::new("r", identity, process, pod);
    let roster = Arc::new(Roster::new(names, times, clock(), api));
    roster.learn(|roll, now| {
        roll.list_started();
        for record in server.all() {
            roll.watched(record, now);
        }
        roll.list_ended(now);
    });
    roster
}

/// A replica that keeps its membership.
struct Member {
    roster: Arc<Roster>,
    told: Arc<Mutex<Vec<Result<(), String>>>>,
    done: CancellationToken,
    task: JoinHandle<()>,
}

impl Member {
    fn start(roster: Arc<Roster>) -> Self {
        let (told, done) = (Arc::new(Mutex::new(Vec::new())), CancellationToken::new());
        let tell = Arc::clone(&told);
        let tell = move |standing: Result<(), &str>| {
            let standing = standing.map_err(str::to_owned);
            if tell.lock().last() != Some(&standing) {
                tell.lock().push(standing);
            }
        };
        let task = tokio::spawn(keep(Arc::clone(&roster), done.clone(), tell));
        Self { roster, told, done, task }
    }

    fn of(server: &FakeLeases, identity: &str, process: &str, pod: Option<&str>) -> Self {
        Self::start(roster(server, identity, process, pod))
    }

    fn is_in(&self) -> bool {
        self.roster.member.holds()
    }

    async fn leave(self) {
        self.done.cancel();
        self.task.await.unwrap();
    }
}

async fn pass(millis: u64) {
    sleep(Duration::from_millis(millis)).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_writes_once_a_period_and_nothing_else() {
    let server = FakeLeases::default();
    let member = Member::of(&server, "a", "p1", None);
    pass(100).await;
    assert!(member.is_in());
    assert_eq!(server.holder("r-member-a").as_deref(), Some("a_p1"));
    assert_eq!(server.asked(), ["GET r-member-a", "POST r-member-a"]);
    pass(10_000).await;
    assert_eq!(server.asked(), vec!["PUT r-member-a"; 10]);
    member.leave().await;
    assert_eq!(server.holder("r-member-a"), None);
    assert_eq!(server.asked(), ["PUT r-member-a"], "it is given back, and not deleted");
}

/// The deadline counts from when the last request that was granted was sent.
#[tokio::test(start_paused = true)]
async fn without_answers_membership_ends_before_others_take_over() {
    for mood in [Mood::Silent, Mood::NoWrites] {
        let server = FakeLeases::default();
        let member = Member::of(&server, "a", "p1", None);
        pass(2_100).await;
        server.set_mood(mood);
        // Renewed last at 2 s.
        pass(3_350).await;
        assert!(member.is_in(), "{mood:?}");
        pass(100).await;
        assert!(!member.is_in(), "{mood:?}");
        pass(1_000).await;
        server.set_mood(Mood::Well);
        pass(2_000).await;
        assert!(member.is_in(), "{mood:?}: and it comes back by itself");
        assert_eq!(member.told.lock().len(), 3, "in, out, in");
    }
}

/// An attempt's time-out is not the budget: two attempts without an answer lose nothing, also where
/// the writes took effect.
#[tokio::test(start_paused = true)]
async fn a_slow_spell_within_the_budget_loses_nothing() {
    for mood in [Mood::Silent, Mood::Deaf] {
        let server = FakeLeases::default();
        let member = Member::of(&server, "a", "p1", None);
        for _ in 0..5 {
            pass(3_000).await;
            server.set_mood(mood);
            for _ in 0..20 {
                pass(100).await;
                assert!(member.is_in(), "{mood:?}");
            }
            server.set_mood(Mood::Well);
        }
        assert_eq!(member.told.lock().len(), 1);
    }
}

/// A restarted container has its own Lease back at once: the kubelet has ended the process before.
#[tokio::test(start_paused = true)]
async fn the_same_pod_takes_its_lease_up_at_once() {
    let server = FakeLeases::default();
    let first = Member::of(&server, "a", "p1", Some("u1"));
    pass(100).await;
    first.task.abort();
    let second = Member::of(&server, "a", "p2", Some("u1"));
    pass(10).await;
    assert!(second.is_in());
    assert_eq!(server.holder("r-member-a").as_deref(), Some("a_p2"));
}

/// Two processes that go by one identity: the second waits until the first is dead.
#[tokio::test(start_paused = true)]
async fn another_process_of_the_same_name_is_waited_for() {
    let server = FakeLeases::default();
    let first = Member::of(&server, "a", "p1", Some("u1"));
    pass(100).await;
    let second = Member::of(&server, "a", "p2", Some("u2"));
    for _ in 0..20 {
        pass(1_000).await;
        show(&server, &second.roster);
        assert!(first.is_in() && !second.is_in());
    }
    let said = second.told.lock().clone();
    assert!(said[0].as_ref().is_err_and(|why| why.contains("another process")), "{said:?}");
    first.task.abort();
    pass(4_000).await;
    assert!(!second.is_in());
    // What looks dead is read first; that is the judge's part.
    pass(1_100).await;
    confirm(&server, &second.roster);
    pass(1_100).await;
    assert!(second.is_in());
}

/// Two of one pod, which no kubelet starts: the later one has it, and they do not take turns.
#[tokio::test(start_paused = true)]
async fn two_processes_of_one_pod_do_not_take_turns() {
    let server = FakeLeases::default();
    let first = Member::of(&server, "a", "p1", Some("u1"));
    pass(100).await;
    let second = Member::of(&server, "a", "p2", Some("u1"));
    for _ in 0..20 {
        pass(1_000).await;
        show(&server, &first.roster);
        show(&server, &second.roster);
        assert!(!first.is_in() && second.is_in());
    }
}

/// The watch shows what is there.
fn show(server: &FakeLeases, roster: &Roster) {
    roster.learn(|roll, now| server.all().into_iter().for_each(|r| roll.watched(r, now)));
}

/// Every suspect was read.
fn confirm(server: &FakeLeases, roster: &Roster) {
    for record in roster.see(Roll::suspects) {
        let now = server.get(record.name()).unwrap();
        roster.learn(|roll, at| roll.confirm(record.name(), now.version(), at));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_or_emptied_while_held_is_made_anew() {
    let server = FakeLeases::default();
    let member = Member::of(&server, "a", "p1", None);
    pass(100).await;
    server.delete("r-member-a");
    pass(1_000).await;
    assert_eq!(server.holder("r-member-a").as_deref(), Some("a_p1"));
    server.put("r-member-a", &json!({ "holderIdentity": null, "renewTime": null }));
    pass(1_000).await;
    assert_eq!(server.holder("r-member-a").as_deref(), Some("a_p1"));
    assert!(member.is_in());
    assert_eq!(member.told.lock().len(), 1, "nobody noticed");
}

/// A flapping member: it comes and goes, and is each time in or out, never half.
#[tokio::test(start_paused = true)]
async fn members_are_those_that_are_alive() {
    let server = FakeLeases::default();
    let watcher = roster(&server, "w", "p1", None);
    let names =
        |roster: &Roster| roster.members().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(names(&watcher).is_empty());
    for round in 0..5 {
        let flapping = Member::of(&server, "b", &format!("p{round}"), None);
        pass(500).await;
        show(&server, &watcher);
        assert_eq!(names(&watcher), ["b"]);
        flapping.leave().await;
        show(&server, &watcher);
        assert!(names(&watcher).is_empty());
    }
}

fn table(names: &[&str]) -> Table {
    Table::of(names.iter().map(|n| Arc::from(*n)))
}

/// The gate: by the table, and by one's own deadline.
#[tokio::test(start_paused = true)]
async fn the_gate_closes_with_the_deadline() {
    let tenure = Tenure::new(clock());
    let shard = Shard::among_others("a", tenure.clone());
    assert!(!shard.holds("u1"), "not a member");
    shard.share_out(Arc::new(table(&["a"])));
    tenure.grant(Duration::from_secs(3));
    assert!(shard.holds("u1") && shard.may_write());
    assert!(shard.has_turned_away(), "what came before");
    assert!(!shard.has_turned_away());
    shard.share_out(Arc::new(table(&["a", "b"])));
    let ours = (0..100).filter(|n| shard.holds(&format!("uid-{n}"))).count();
    assert!((1..100).contains(&ours), "{ours}");
    assert!(!shard.has_turned_away(), "others' claims are not missed");
    pass(3_000).await;
    assert!(!shard.may_write() && !shard.holds("u1"));
    assert!(shard.has_turned_away());
    assert!(Shard::alone().holds("u1"));
}
