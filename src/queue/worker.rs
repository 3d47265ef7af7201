//! Runs the passes of a queue, a bounded number at once.
//!
//! It must not know what a pass does. A panic in one is an end of all: whatever the pass was
//! working on may be half done, and nothing may run on half a state.

use std::any::Any;
use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use tokio::task::{JoinError, JoinSet};

use super::{Job, Key, Next, Queue};

/// A pass panicked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pass over {key} panicked: {message}")]
pub struct Panicked {
    /// The object that the pass was over.
    pub key: String,
    /// What the panic said, on one line.
    pub message: String,
}

/// Runs `pass` for the queue's jobs, at most `concurrency` at once (0 counts as 1).
///
/// Returns after [`Queue::shut_down`], when the passes that ran have ended. Dropping the future
/// cancels them instead, at their next await.
///
/// # Errors
/// [`Panicked`] as soon as a pass panics: the queue is shut down and the other passes are
/// cancelled at their next await. The process is expected to end.
pub async fn run<K, F, Fut>(queue: Queue<K>, concurrency: usize, pass: F) -> Result<(), Panicked>
where
    K: Key<Flow: Send> + Display + Send + Sync + 'static,
    F: Fn(Job<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Next> + Send + 'static,
{
    let pass = Arc::new(pass);
    let mut running = JoinSet::new();
    let mut open = true;
    while open || !running.is_empty() {
        tokio::select! {
            // What has ended makes room first.
            biased;
            Some(ended) = running.join_next() => {
                let (job, next) = outcome(ended).inspect_err(|_| queue.shut_down())?;
                queue.done(job, next);
            }
            job = queue.next(), if open && running.len() < concurrency.max(1) => match job {
                Some(job) => {
                    running.spawn(caught(Arc::clone(&pass), job));
                }
                None => open = false,
            },
        }
    }
    Ok(())
}

type Ended<K> = (Job<K>, Result<Next, String>);

/// The pass, its panic made a value: a join error would not say whose pass it was.
async fn caught<K, F, Fut>(pass: Arc<F>, job: Job<K>) -> Ended<K>
where
    K: Clone,
    F: Fn(Job<K>) -> Fut,
    Fut: Future<Output = Next>,
{
    let kept = job.clone();
    // Unwind safety is not at stake: after a panic nothing looks at what the pass had in hand.
    let ended = AssertUnwindSafe(async { pass(job).await }).catch_unwind().await;
    (kept, ended.map_err(|payload| message(payload.as_ref())))
}

fn outcome<K: Display>(ended: Result<Ended<K>, JoinError>) -> Result<(Job<K>, Next), Panicked> {
    match ended {
        Ok((job, Ok(next))) => Ok((job, next)),
        Ok((job, Err(message))) => Err(Panicked { key: job.key.to_string(), message }),
        // Left over: what was dropped after the pass panicked, or the runtime is going away.
        Err(error) => Err(Panicked {
            key: "an unknown object".to_owned(),
            message: one_line(&error.to_string()),
        }),
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    one_line(text.unwrap_or("it gave no message"))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
