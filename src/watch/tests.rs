//! The stream against a scripted API server, under tokio's held clock.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rstest::rstest;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::fake::{Answer, End, Fake, address, bookmark, error, event, page, status, strange};
use super::*;
use crate::api::IPAddress;

/// A stream that runs, and what it told.
struct Bench {
    fake: Fake,
    changes: UnboundedReceiver<Change<IPAddress>>,
    problems: Arc<Mutex<Vec<Problem>>>,
    standing: Arc<Mutex<Vec<Standing>>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Bench {
    fn start(fake: Fake) -> Self {
        let (sender, changes) = unbounded_channel();
        let problems = Arc::new(Mutex::new(Vec::new()));
        let standing = Arc::new(Mutex::new(Vec::new()));
        let stop = CancellationToken::new();
        let sink = move |change| drop(sender.send(change));
        let count = {
            let problems = Arc::clone(&problems);
            let standing = Arc::clone(&standing);
            move |now| {
                standing.lock().push(now);
                if let Standing::Failed(problem) = now {
                    problems.lock().push(problem);
                }
            }
        };
        let client = fake.client();
        let task =
            tokio::spawn(run(client, Api::all, Settings::default(), stop.clone(), sink, count));
        Self { fake, changes, problems, standing, stop, task }
    }

    async fn change(&mut self) -> Change<IPAddress> {
        let change = timeout(Duration::from_hours(1), self.changes.recv());
        change.await.expect("a change within the hour").expect("the stream runs")
    }

    /// The next changes in short.
    async fn told<const N: usize>(&mut self) -> [String; N] {
        let mut told = [const { String::new() }; N];
        for one in &mut told {
            *one = short(&self.change().await);
        }
        told
    }

    /// Nothing is told for so long.
    async fn quiet(&mut self, time: Duration) {
        let change = timeout(time, self.changes.recv()).await;
        assert!(change.is_err(), "told {change:?}");
    }

    fn problems(&self) -> Vec<Problem> {
        self.problems.lock().clone()
    }

    /// The pauses between the lists (or watches).
    fn pauses(&self, watch: bool) -> Vec<Duration> {
        self.fake.times(watch).windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

fn short(change: &Change<IPAddress>) -> String {
    match change {
        Change::ListStarted => "list".to_owned(),
        Change::ListEnded => "end".to_owned(),
        Change::Applied(object) => {
            format!("{}@{}", object.metadata.name.as_deref().unwrap(), version(&object.metadata))
        }
        Change::Unparsed(it) => format!("?{}@{}", it.name, it.resource_version),
        Change::Deleted(it) => format!("-{}@{}", it.name, it.resource_version),
    }
}

fn version(metadata: &ObjectMeta) -> &str {
    metadata.resource_version.as_deref().unwrap()
}

fn silent(events: &[Value]) -> Answer {
    Answer::Events(events.to_vec(), End::Silent)
}

fn a1() -> Answer {
    page(&[address("a1", 5)], 5, "")
}

/// A06: one strange object among 200.
#[tokio::test(start_paused = true)]
async fn one_strange_object_is_told_of_and_its_199_siblings_are_served() {
    let items: Vec<_> = (0..200)
        .map(|n| if n == 77 { strange("a77", 77) } else { address(&format!("a{n}"), n) })
        .collect();
    let changed = event("MODIFIED", &strange("a77", 201));
    let fake = Fake::default()
        .list(page(&items[..150], 200, "more"))
        .list(page(&items[150..], 200, ""))
        .watch(silent(&[changed, event("MODIFIED", &address("a78", 202))]));
    let mut bench = Bench::start(fake);

    assert_eq!(bench.told().await, ["list"]);
    let mut applied = 0;
    for n in 0..200 {
        match bench.change().await {
            Change::Applied(object) => {
                applied += 1;
                assert_eq!(object.metadata.managed_fields, None);
            }
            Change::Unparsed(it) => {
                assert_eq!((n, it.name.as_str(), it.uid.as_str()), (77, "a77", "uid-a77"));
                assert!(it.error.contains("Quarantined"), "{}", it.error);
                assert_eq!(it.raw.pointer("/spec/address"), Some(&"192.0.2.1".into()));
                assert_eq!(it.raw.pointer("/spec/claimRef/name"), Some(&"web".into()));
            }
            other => panic!("{other:?} in a list"),
        }
    }
    assert_eq!(applied, 199);
    assert_eq!(bench.told().await, ["end", "?a77@201", "a78@202"]);
    bench.quiet(Duration::from_mins(10)).await;
    assert_eq!(bench.fake.parameter(false, "continue"), ["", "more"], "listed once, in two pages");
    assert_eq!(bench.fake.parameter(false, "limit"), ["500", "500"]);
    assert_eq!(bench.problems(), []);
}

#[tokio::test(start_paused = true)]
async fn the_deletion_of_a_strange_object_is_a_deletion() {
    let mut item = strange("a1", 5);
    item["metadata"]["namespace"] = "t1".into();
    let fake = Fake::default()
        .list(page(&[item.clone()], 5, ""))
        .watch(silent(&[event("DELETED", &item), event("DELETED", &address("a2", 7))]));
    let mut bench = Bench::start(fake);
    assert_eq!(bench.told().await, ["list", "?a1@5", "end"]);
    let Change::Deleted(gone) = bench.change().await else { panic!("a deletion is told") };
    assert_eq!(gone.namespace.as_deref(), Some("t1"));
    assert_eq!((gone.name.as_str(), gone.uid.as_str()), ("a1", "uid-a1"));
    assert_eq!(bench.told().await, ["-a2@7"]);
}

/// H04: missed deletes.
#[tokio::test(start_paused = true)]
async fn a_watch_that_fell_behind_is_followed_by_a_list() {
    let fake = Fake::default()
        .list(page(&[address("a1", 5), address("a2", 6)], 6, ""))
        .watch(Answer::Events(vec![error(410, "Expired")], End::Closed))
        .list(page(&[address("a1", 5)], 9, ""));
    let mut bench = Bench::start(fake);
    assert_eq!(bench.told().await, ["list", "a1@5", "a2@6", "end"]);
    assert_eq!(bench.told().await, ["list", "a1@5", "end"]);
    bench.quiet(Duration::from_secs(20)).await;
    assert_eq!(bench.fake.parameter(true, "resourceVersion"), ["6", "9"]);
    assert_eq!(bench.problems(), [Problem::Gone]);
}

/// H04: kube's watcher alone would ask for the same watch for ever in the first three.
#[rstest]
#[case::a_410_in_place_of_a_watch(status(410, "Expired"), Problem::Gone)]
#[case::behind_what_we_have_seen(
    Answer::Events(vec![error(504, "Timeout")], End::Closed),
    Problem::Unreachable
)]
#[case::no_place_to_go_on_from(
    Answer::Events(vec![event("ADDED", &serde_json::json!({"metadata": {"name": "a2"}}))], End::Silent),
    Problem::Other
)]
#[case::a_line_that_is_no_event(
    Answer::Events(vec![serde_json::json!({"type": "SURPRISE"}), event("ADDED", &address("a2", 7))], End::Silent),
    Problem::Other
)]
#[tokio::test(start_paused = true)]
async fn where_something_may_be_missing_everything_is_listed(
    #[case] watch: Answer,
    #[case] problem: Problem,
) {
    let fake = Fake::default().list(a1()).watch(watch).list(page(&[address("a2", 8)], 8, ""));
    let mut bench = Bench::start(fake);
    assert_eq!(bench.told().await, ["list", "a1@5", "end"]);
    assert_eq!(bench.told().await, ["list", "a2@8", "end"]);
    assert_eq!(bench.problems(), [problem]);
}

/// H04: dead watches.
#[rstest]
#[case::closed(End::Closed, &[])]
#[case::cut(End::Cut, &[Problem::Unreachable])]
#[case::cut_in_a_line(End::CutInALine, &[Problem::Unreachable])]
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_where_it_was(#[case] end: End, #[case] problems: &[Problem]) {
    let fake = Fake::default()
        .list(a1())
        .watch(Answer::Events(vec![event("ADDED", &address("a2", 7))], end))
        .watch(silent(&[event("ADDED", &address("a3", 8))]));
    let mut bench = Bench::start(fake);
    assert_eq!(bench.told().await, ["list", "a1@5", "end", "a2@7", "a3@8"]);
    assert_eq!(bench.fake.parameter(true, "resourceVersion"), ["5", "7"]);
    assert_eq!(bench.fake.times(false).len(), 1, "no second list");
    assert_eq!(bench.problems(), problems);
}

/// H04: a connection that stays open and passes nothing.
#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_given_up_soon_after_its_time_out() {
    let fake = Fake::default()
        .list(a1())
        .watch(silent(&[]))
        .watch(silent(&[event("DELETED", &address("a1", 7))]));
    let mut bench = Bench::start(fake);
    assert_eq!(bench.told().await, ["list", "a1@5", "end"]);
    let since = Instant::now();
    assert_eq!(bench.told().await, ["-a1@7"]);
    assert!(since.elapsed() <= Duration::from_secs(51), "{:?}", since.elapsed());
    let asked = bench.fake.parameter(true, "timeoutSeconds");
    assert_eq!(asked, ["45", "45"], "a live API server ends it itself");
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_is_told_to_nobody_and_moves_the_place_to_go_on_from() {
    let fake = Fake::default()
        .list(a1())
        .watch(Answer::Events(vec![bookmark(20), bookmark(30)], End::Closed))
        .watch(silent(&[]));
    let mut bench = Bench::start(fake);
    assert_eq!(bench.told().await, ["list", "a1@5", "end"]);
    bench.quiet(Duration::from_secs(40)).await;
    assert_eq!(bench.fake.parameter(true, "resourceVersion"), ["5", "30"]);
}

/// H04: 429 ten times, and the like.
#[rstest]
#[case(|| status(429, "TooManyRequests"), Problem::Throttled)]
#[case(|| status(500, "InternalError"), Problem::Other)]
#[case(|| status(403, "Forbidden"), Problem::Refused)]
#[case(|| status(404, "NotFound"), Problem::NotFound)]
#[case(|| Answer::Unreachable, Problem::Unreachable)]
#[tokio::test(start_paused = true)]
async fn lists_that_fail_are_tried_again_with_growing_pauses_until_they_work(
    #[case] failure: fn() -> Answer,
    #[case] problem: Problem,
) {
    let fake = (0..10).fold(Fake::default(), |fake, _| fake.list(failure()));
    let mut bench = Bench::start(fake.list(a1()));
    loop {
        match short(&bench.change().await).as_str() {
            "list" => {}
            "a1@5" => break,
            other => panic!("told {other}"),
        }
    }
    assert_eq!(bench.told().await, ["end"]);
    assert_eq!(bench.problems(), [problem; 10]);
    let pauses = bench.pauses(false);
    // From the sixth on they are at their ceiling, where jitter alone decides.
    assert!(pauses[..6].is_sorted(), "{pauses:?}");
    assert!(pauses[0] <= Duration::from_millis(801) && pauses[9] >= MAX_PAUSE / 2, "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= MAX_PAUSE + Duration::from_millis(1)));
}

/// H04: a page that fails again and again is no reason to ask for the first one ever faster.
#[tokio::test(start_paused = true)]
async fn lists_that_fail_in_their_second_page_are_tried_again_with_growing_pauses() {
    let first = || page(&[address("a1", 5)], 5, "more");
    let fake = (0..5).fold(Fake::default(), |fake, _| fake.list(first()).list(status(500, "x")));
    let mut bench = Bench::start(fake.list(a1()));
    for _ in 0..5 {
        assert_eq!(bench.told().await, ["list", "a1@5"], "a list that came to nothing has no end");
    }
    assert_eq!(bench.told().await, ["list", "a1@5", "end"]);
    let pauses: Vec<_> = bench.pauses(false).into_iter().filter(|p| !p.is_zero()).collect();
    assert!(pauses.len() == 5 && pauses.is_sorted(), "{pauses:?}");
}

/// H04: the API server gone for two minutes.
#[tokio::test(start_paused = true)]
async fn watches_that_cannot_start_are_tried_again_with_growing_pauses_and_go_on_where_they_were() {
    let fake = Fake::default().list(a1()).watch(Answer::Events(vec![], End::Closed));
    let fake = (0..6).fold(fake, |fake, _| fake.watch(Answer::Unreachable));
    let mut bench = Bench::start(fake.watch(silent(&[event("ADDED", &address("a2", 7))])));
    assert_eq!(bench.told().await, ["list", "a1@5", "end", "a2@7"]);
    assert_eq!(bench.problems(), [Problem::Unreachable; 6]);
    assert_eq!(bench.fake.parameter(true, "resourceVersion"), ["5"; 8]);
    let pauses = bench.pauses(true);
    assert!(pauses[1..].is_sorted(), "{pauses:?}");
}

#[rstest]
#[case::while_it_watches(Fake::default().list(a1()), 5)]
#[case::while_it_pauses(Fake::default(), 100)]
#[tokio::test(start_paused = true)]
async fn it_ends_when_told_to_and_only_then(#[case] fake: Fake, #[case] seconds: u64) {
    let bench = Bench::start(fake);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    assert!(!bench.task.is_finished());
    bench.stop.cancel();
    let since = Instant::now();
    timeout(Duration::from_mins(1), bench.task).await.expect("it ends").expect("in order");
    assert_eq!(since.elapsed(), Duration::ZERO);
}

/// A log that can be read.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_problem_is_logged_once_in_the_api_server_s_words_and_so_is_its_end() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter("address_controller=info")
        .with_ansi(false)
        .with_writer({
            let log = log.clone();
            move || log.clone()
        })
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    // That a list begins, or its first page comes, is not the end of the problem.
    let first = || page(&[address("a1", 5)], 5, "more");
    let fake =
        (0..4).fold(Fake::default(), |fake, _| fake.list(first()).list(status(403, "Forbidden")));
    let mut bench = Bench::start(fake.list(status(500, "InternalError")).list(a1()));
    while short(&bench.change().await) != "end" {}

    let text = String::from_utf8(log.0.lock().clone()).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].contains("the server said Forbidden (403 Forbidden)"), "{text}");
    assert!(lines[0].contains("resource=\"ipaddresses\""), "{text}");
    assert!(lines[1].contains("InternalError") && lines[2].contains("goes on"), "{text}");
}

/// H04: readiness is to come back when the watch does, and not when an object happens to change.
#[tokio::test(start_paused = true)]
async fn a_watch_that_begins_again_says_so_though_nothing_changes() {
    let fake = Fake::default().list(a1()).watch(Answer::Unreachable).watch(silent(&[]));
    let mut bench = Bench::start(fake);
    assert_eq!(bench.told().await, ["list", "a1@5", "end"]);
    bench.quiet(Duration::from_secs(10)).await;
    let standing = bench.standing.lock().clone();
    assert_eq!(standing, [Standing::Failed(Problem::Unreachable), Standing::Watching]);
}
