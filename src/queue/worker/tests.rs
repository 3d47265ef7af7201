//! Passes under tokio's held clock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rstest::rstest;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::queue::Wake;

const SECOND: Duration = Duration::from_secs(1);
const BOUND: Duration = Duration::from_hours(1);

/// Counts who is in a pass, and the most there were at once.
#[derive(Default)]
struct Crowd {
    inside: AtomicUsize,
    most: AtomicUsize,
    passes: AtomicUsize,
}

impl Crowd {
    async fn stay(&self, time: Duration) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        sleep(time).await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
        self.passes.fetch_add(1, Ordering::SeqCst);
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    fn passes(&self) -> usize {
        self.passes.load(Ordering::SeqCst)
    }
}

/// Runs a pass that stays a second for each key.
fn crowded(
    queue: &Queue<usize>,
    concurrency: usize,
) -> (Arc<Crowd>, tokio::task::JoinHandle<Result<(), Panicked>>) {
    let crowd = Arc::new(Crowd::default());
    let task = tokio::spawn(run(queue.clone(), concurrency, {
        let crowd = Arc::clone(&crowd);
        move |_job| {
            let crowd = Arc::clone(&crowd);
            async move {
                crowd.stay(SECOND).await;
                Next::Settled
            }
        }
    }));
    (crowd, task)
}

#[rstest]
#[case(1, 10)]
#[case(4, 3)]
#[case(0, 10)]
#[tokio::test(start_paused = true)]
async fn as_many_passes_at_once_as_allowed_and_no_more(
    #[case] concurrency: usize,
    #[case] seconds: u32,
) {
    let queue = Queue::default();
    (0..10).for_each(|key| queue.add(key, Wake::Listed));
    let (crowd, _task) = crowded(&queue, concurrency);
    sleep(seconds * SECOND + SECOND / 2).await;
    assert_eq!((crowd.passes(), crowd.most()), (10, concurrency.max(1)));
    assert_eq!((queue.depth(), queue.running()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_added_all_the_time_has_one_pass_at_a_time() {
    let queue = Queue::default();
    queue.add(7, Wake::Listed);
    let (crowd, _task) = crowded(&queue, 8);
    for _ in 0..100 {
        sleep(SECOND / 10).await;
        queue.add(7, Wake::Changed);
    }
    sleep(2 * SECOND).await;
    assert_eq!(crowd.most(), 1);
    assert!((10..=12).contains(&crowd.passes()), "{} passes", crowd.passes());
}

#[tokio::test(start_paused = true)]
async fn a_slow_key_holds_up_nobody_else() {
    let queue = Queue::default();
    let ended = Arc::new(Mutex::new(Vec::new()));
    let _task = tokio::spawn(run(queue.clone(), 2, {
        let ended = Arc::clone(&ended);
        move |job: Job<&str>| {
            let ended = Arc::clone(&ended);
            async move {
                sleep(if job.key == "slow" { BOUND } else { SECOND }).await;
                ended.lock().push(job.key);
                Next::Settled
            }
        }
    }));
    for key in ["slow", "a", "b", "c"] {
        queue.add(key, Wake::Listed);
    }
    sleep(4 * SECOND).await;
    assert_eq!(*ended.lock(), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_fails_is_repeated_with_growing_pauses_until_it_succeeds() {
    let queue = Queue::default();
    queue.add("a", Wake::Changed);
    let starts = Arc::new(Mutex::new(Vec::new()));
    let _task = tokio::spawn(run(queue.clone(), 1, {
        let starts = Arc::clone(&starts);
        move |job: Job<&str>| {
            starts.lock().push(Instant::now());
            std::future::ready(if job.attempt < 6 { Next::Retry } else { Next::Settled })
        }
    }));
    sleep(BOUND).await;
    let pauses: Vec<_> = starts.lock().windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses.len(), 5, "{pauses:?}");
    assert!(pauses.is_sorted() && pauses[4] > 4 * pauses[0], "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn shutting_down_lets_running_passes_end_and_starts_none() {
    let queue = Queue::default();
    (0..10).for_each(|key| queue.add(key, Wake::Listed));
    let (crowd, task) = crowded(&queue, 3);
    sleep(SECOND / 2).await;
    queue.shut_down();
    let asked = Instant::now();
    assert_eq!(timeout(BOUND, task).await.unwrap().unwrap(), Ok(()));
    assert_eq!(asked.elapsed(), SECOND / 2, "it returned when the last pass ended");
    assert_eq!(crowd.passes(), 3);
}

#[tokio::test(start_paused = true)]
async fn shutting_down_an_idle_queue_returns_at_once() {
    let queue = Queue::default();
    let (_, task) = crowded(&queue, 3);
    tokio::task::yield_now().await;
    queue.shut_down();
    assert_eq!(timeout(SECOND, task).await.unwrap().unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_panic_ends_the_run_in_one_line_that_names_the_object() {
    let queue = Queue::default();
    let others = Arc::new(AtomicUsize::new(0));
    queue.add("t1/other", Wake::Listed);
    queue.add("t1/web", Wake::Listed);
    queue.add("t1/later", Wake::Listed);
    let ended = timeout(
        BOUND,
        run(queue.clone(), 2, {
            let others = Arc::clone(&others);
            move |job: Job<&str>| {
                let others = Arc::clone(&others);
                async move {
                    assert!(job.key != "t1/web", "no phase\n  for it");
                    sleep(SECOND).await;
                    others.fetch_add(1, Ordering::SeqCst);
                    Next::Settled
                }
            }
        }),
    );
    let panicked = ended.await.unwrap().unwrap_err();
    assert_eq!(panicked.to_string(), "the pass over t1/web panicked: no phase for it");
    assert_eq!(queue.next().await, None, "no further pass starts");
    sleep(2 * SECOND).await;
    assert_eq!(others.load(Ordering::SeqCst), 0, "the others went no further");
}

#[tokio::test(start_paused = true)]
async fn a_panic_before_the_first_await_and_one_without_text_are_caught_too() {
    let queue = Queue::default();
    queue.add("t1/web", Wake::Listed);
    let ended = run(queue.clone(), 1, |_job: Job<&str>| -> std::future::Ready<Next> {
        std::panic::panic_any(7)
    });
    let panicked = timeout(BOUND, ended).await.unwrap().unwrap_err();
    assert_eq!(panicked.to_string(), "the pass over t1/web panicked: it gave no message");
}
