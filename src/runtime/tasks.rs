//! Long-running tasks, each with a name, and the end of the process.
//!
//! No task may end before it is told to: one that fails, panics or just returns ends the process
//! with exit code 1 and one line that names it, so that nothing runs on half a state and whoever
//! restarts the process starts from a whole one.

use std::{any::Any, borrow::Cow, fmt, time::Duration};

use futures::{FutureExt, Stream, StreamExt, future::BoxFuture};
use rustc_hash::FxHashMap;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::{health::Health, shutdown::Signal};

/// A long-running task. It is to return `Ok` soon after the token it was given is cancelled, and
/// not before.
pub struct Task {
    name: Cow<'static, str>,
    work: BoxFuture<'static, anyhow::Result<()>>,
}

impl Task {
    /// A task by the name that its end is reported under. An error should name the object that it
    /// is about.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        work: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) -> Self {
        Self { name: name.into(), work: work.boxed() }
    }

    /// Its name, and what it does.
    pub fn into_parts(self) -> (Cow<'static, str>, BoxFuture<'static, anyhow::Result<()>>) {
        (self.name, self.work)
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Task").field(&self.name).finish()
    }
}

/// How the process ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was told to, and everything ended in time.
    Stopped,
    /// It was told to, and something was still running when the budget was spent.
    OutOfTime,
    /// It was told to a second time.
    AtOnce(Signal),
    /// A task ended by itself.
    Died {
        /// The task's name.
        task: String,
        /// What it ended with.
        why: String,
    },
}

impl Ending {
    /// The exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Stopped | Self::OutOfTime => 0,
            Self::Died { .. } => 1,
            Self::AtOnce(signal) => signal.exit_code(),
        }
    }

    /// Says it, in one line.
    fn report(&self, budget: Duration) {
        match self {
            Self::Stopped => tracing::info!("stopped"),
            Self::OutOfTime => {
                tracing::warn!(?budget, "stopped with work still running: the budget is spent");
            }
            Self::AtOnce(signal) => {
                tracing::warn!(signal = signal.as_str(), "told to stop again: stopped at once");
            }
            Self::Died { task, why } => {
                tracing::error!(%task, %why, "a task died, and the process with it");
            }
        }
    }
}

/// Tasks that run side by side.
#[derive(Default)]
struct Group {
    running: JoinSet<anyhow::Result<()>>,
    names: FxHashMap<Id, Cow<'static, str>>,
}

impl Group {
    fn spawn(&mut self, task: Task) {
        let id = self.running.spawn(task.work).id();
        self.names.insert(id, task.name);
    }

    /// The first task to end, whatever it ended with; never, if there is none.
    async fn death(&mut self) -> Ending {
        match self.running.join_next_with_id().await {
            Some(Ok((id, Ok(())))) => self.died(id, "it ended without being told to".to_owned()),
            Some(Ok((id, Err(error)))) => self.died(id, format!("{error:#}")),
            Some(Err(error)) => self.died(error.id(), panic_text(error)),
            None => std::future::pending().await,
        }
    }

    /// Waits until all have ended, as they were told to.
    async fn finish(&mut self) -> Result<(), Ending> {
        while let Some(ended) = self.running.join_next_with_id().await {
            match ended {
                Ok((_, Ok(()))) => {}
                Ok((id, Err(error))) => return Err(self.died(id, format!("{error:#}"))),
                Err(error) => return Err(self.died(error.id(), panic_text(error))),
            }
        }
        Ok(())
    }

    fn died(&self, id: Id, why: String) -> Ending {
        let task = self.names.get(&id).map_or("unknown", AsRef::as_ref).to_owned();
        Ending::Died { task, why }
    }
}

fn panic_text(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(payload) => format!("panicked: {}", text_of(payload.as_ref())),
        Err(error) => error.to_string(),
    }
}

/// The text of a panic.
pub(super) fn text_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("(no text)")
}

/// The running process: its tasks, and the way it is told to stop.
pub struct Process<S> {
    /// Cancelled when work is to end: given to those who do it.
    pub stop: CancellationToken,
    /// Cancelled after all work has ended: for what work relies on.
    pub stop_support: CancellationToken,
    health: Health,
    signals: S,
    budget: Duration,
    work: Group,
    support: Group,
}

impl<S: Stream<Item = Signal> + Unpin> Process<S> {
    /// A process without tasks. `budget` is how long they may go on after they are told to stop.
    pub fn new(health: Health, signals: S, budget: Duration) -> Self {
        Self {
            stop: CancellationToken::new(),
            stop_support: CancellationToken::new(),
            health,
            signals,
            budget,
            work: Group::default(),
            support: Group::default(),
        }
    }

    /// Starts a task that ends with [`stop`](Self::stop).
    pub fn spawn(&mut self, task: Task) {
        self.work.spawn(task);
    }

    /// Starts a task that ends with [`stop_support`](Self::stop_support), after all work.
    pub fn spawn_support(&mut self, task: Task) {
        self.support.spawn(task);
    }

    /// Does `first` while the tasks run. It is dropped where it stands when the process ends.
    ///
    /// # Errors
    /// How the process ended before `first` did. It is reported already.
    pub async fn run<T>(&mut self, first: impl Future<Output = T>) -> Result<T, Ending> {
        let ending = tokio::select! {
            biased;
            Some(signal) = self.signals.next() => {
                tracing::info!(signal = signal.as_str(), "told to stop");
                self.end().await
            }
            died = self.work.death() => died,
            died = self.support.death() => died,
            done = first => return Ok(done),
        };
        ending.report(self.budget);
        Err(ending)
    }

    /// Ends everything in order: readiness, work, and what work relies on.
    async fn end(&mut self) -> Ending {
        self.health.stop();
        self.stop.cancel();
        let orderly = async {
            self.work.finish().await?;
            self.stop_support.cancel();
            self.support.finish().await
        };
        tokio::select! {
            biased;
            done = orderly => done.err().unwrap_or(Ending::Stopped),
            Some(signal) = self.signals.next() => Ending::AtOnce(signal),
            () = tokio::time::sleep(self.budget) => Ending::OutOfTime,
        }
    }
}

#[cfg(test)]
mod tests;
