//! The handle under tokio's held clock.

use futures::FutureExt;

use super::*;

impl Key for &str {
    type Flow = ();

    fn flow(&self) {}
}

impl Key for usize {
    type Flow = ();

    fn flow(&self) {}
}

#[test]
fn each_wake_has_a_name_of_its_own() {
    let names: std::collections::BTreeSet<_> = Wake::ALL.iter().map(|wake| wake.as_str()).collect();
    assert_eq!(names.len(), Wake::ALL.len());
}

#[tokio::test(start_paused = true)]
async fn next_waits_for_an_add() {
    let queue = Queue::default();
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await }
    });
    tokio::task::yield_now().await;
    queue.add("a", Wake::Listed);
    let job = waiting.await.unwrap().unwrap();
    assert_eq!((job.key, job.wake, job.attempt), ("a", Wake::Listed, 1));
    assert_eq!(queue.running(), 1);
}

#[tokio::test(start_paused = true)]
async fn next_waits_for_a_delay_and_no_longer() {
    let queue = Queue::default();
    let start = Instant::now();
    queue.add_after("a", Duration::from_secs(5), Wake::Timer);
    assert_eq!((queue.depth(), queue.delayed()), (0, 1));
    assert_eq!(queue.next().await.map(|job| job.key), Some("a"));
    assert_eq!(start.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn an_earlier_delay_shortens_a_wait_that_has_begun() {
    let queue = Queue::default();
    let start = Instant::now();
    queue.add_after("late", Duration::from_mins(1), Wake::Timer);
    let (job, ()) = tokio::join!(queue.next(), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        queue.add_after("early", Duration::from_secs(2), Wake::Timer);
    });
    assert_eq!(job.map(|job| job.key), Some("early"));
    assert_eq!(start.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn two_that_wait_share_what_comes() {
    let queue = Queue::default();
    let (one, other, ()) = tokio::join!(queue.next(), queue.next(), async {
        queue.add("a", Wake::Changed);
        queue.add("b", Wake::Changed);
    });
    let mut keys = [one.unwrap().key, other.unwrap().key];
    keys.sort_unstable();
    assert_eq!(keys, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_takes_no_key_with_it() {
    let queue = Queue::default();
    let mut dropped = Box::pin(queue.next());
    assert!(dropped.as_mut().now_or_never().is_none());
    queue.add("a", Wake::Changed);
    drop(dropped);
    assert_eq!(queue.next().await.map(|job| job.key), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_failed_key_comes_back_after_its_pause() {
    let queue = Queue::default();
    queue.add("a", Wake::Changed);
    let start = Instant::now();
    let job = queue.next().await.unwrap();
    queue.done(job, Next::Retry);
    let job = queue.next().await.unwrap();
    assert_eq!((job.attempt, job.wake), (2, Wake::Retry));
    let pause = start.elapsed();
    // Tokio's timers count whole milliseconds, upwards.
    assert!(pause >= Duration::from_millis(25) && pause <= Duration::from_millis(51), "{pause:?}");
}

#[tokio::test(start_paused = true)]
async fn shutting_down_ends_every_wait_and_leaves_what_is_queued() {
    let queue = Queue::default();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.next().await })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.shut_down();
    for one in waiting {
        assert_eq!(one.await.unwrap(), None);
    }
    queue.add("late", Wake::Changed);
    assert_eq!(queue.next().await, None);
    assert_eq!(queue.depth(), 0);
}
