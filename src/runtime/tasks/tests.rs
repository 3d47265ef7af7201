//! How tasks and the process end.

use std::{future::pending, sync::Arc};

use futures::channel::mpsc::{UnboundedSender, unbounded};
use parking_lot::Mutex;

use super::*;

const BUDGET: Duration = Duration::from_secs(20);

fn process() -> (Process<impl Stream<Item = Signal> + Unpin>, UnboundedSender<Signal>, Health) {
    let (sender, signals) = unbounded();
    let health = Health::new();
    health.set_ready("serving");
    (Process::new(health.clone(), signals, BUDGET), sender, health)
}

fn died(task: &str, why: &str) -> Ending {
    Ending::Died { task: task.into(), why: why.into() }
}

#[tokio::test]
async fn a_task_that_fails_ends_the_process_by_name() {
    let (mut process, _signals, _) = process();
    process.spawn(Task::new("claims", pending()));
    process.spawn(Task::new("addresses", async {
        Err(anyhow::anyhow!("no such thing").context("IPAddress a1"))
    }));
    let ending = process.run(pending::<()>()).await.expect_err("it ends");
    assert_eq!(ending, died("addresses", "IPAddress a1: no such thing"));
    assert_eq!(ending.exit_code(), 1);
}

#[tokio::test]
async fn a_task_that_panics_ends_the_process_by_name() {
    let (mut process, _signals, _) = process();
    process.spawn_support(Task::new("events", async { panic!("index {} is out of bounds", 7) }));
    let ending = process.run(pending::<()>()).await.expect_err("it ends");
    assert_eq!(ending, died("events", "panicked: index 7 is out of bounds"));
}

#[tokio::test]
async fn a_task_that_just_returns_has_died() {
    let (mut process, _signals, _) = process();
    process.spawn(Task::new("watch", async { Ok(()) }));
    let ending = process.run(pending::<()>()).await.expect_err("it ends");
    assert_eq!(ending, died("watch", "it ended without being told to"));
}

/// Readiness goes first, then the work ends, then what the work relies on.
#[tokio::test]
async fn told_to_stop_it_ends_in_order() {
    let (mut process, signals, health) = process();
    let order = Arc::new(Mutex::new(Vec::new()));
    let ends = |name: &'static str, stop: CancellationToken| {
        let (order, health) = (Arc::clone(&order), health.clone());
        Task::new(name, async move {
            stop.cancelled().await;
            order.lock().push((name, health.verdict().ready));
            Ok(())
        })
    };
    process.spawn_support(ends("events", process.stop_support.clone()));
    process.spawn(ends("claims", process.stop.clone()));
    signals.unbounded_send(Signal::Terminate).expect("sent");
    let ending = process.run(pending::<()>()).await.expect_err("it ends");
    assert_eq!(ending, Ending::Stopped);
    assert_eq!(ending.exit_code(), 0);
    assert_eq!(*order.lock(), [("claims", false), ("events", false)]);
}

#[tokio::test(start_paused = true)]
async fn work_that_goes_on_is_left_when_the_budget_is_spent() {
    let (mut process, signals, _) = process();
    process.spawn(Task::new("slow", pending()));
    signals.unbounded_send(Signal::Interrupt).expect("sent");
    let start = tokio::time::Instant::now();
    let ending = process.run(pending::<()>()).await.expect_err("it ends");
    assert_eq!((ending.exit_code(), ending), (0, Ending::OutOfTime));
    assert_eq!(start.elapsed(), BUDGET);
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let (mut process, signals, _) = process();
    process.spawn(Task::new("slow", pending()));
    signals.unbounded_send(Signal::Terminate).expect("sent");
    signals.unbounded_send(Signal::Interrupt).expect("sent");
    let ending = process.run(pending::<()>()).await.expect_err("it ends");
    assert_eq!((ending.exit_code(), ending), (130, Ending::AtOnce(Signal::Interrupt)));
}

#[tokio::test]
async fn what_comes_first_can_be_interrupted() {
    let (mut process, signals, _) = process();
    assert_eq!(process.run(async { 7 }).await, Ok(7));
    signals.unbounded_send(Signal::Terminate).expect("sent");
    assert_eq!(process.run(pending::<()>()).await, Err(Ending::Stopped));
}

#[tokio::test]
async fn a_failure_while_stopping_is_not_hidden() {
    let (mut process, signals, _) = process();
    let stop = process.stop.clone();
    process.spawn(Task::new("claims", async move {
        stop.cancelled().await;
        Err(anyhow::anyhow!("half done"))
    }));
    signals.unbounded_send(Signal::Terminate).expect("sent");
    assert_eq!(process.run(pending::<()>()).await, Err(died("claims", "half done")));
}
