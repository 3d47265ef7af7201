//! Holds a replica's requests about our objects until somebody says what becomes of each.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::{sync::oneshot, time::Instant};

use crate::apiserver::ask::{Ask, Verb};

/// What becomes of a request.
#[derive(Debug)]
pub enum Verdict {
    /// It goes on.
    Go,
    /// It goes on, and its answer is kept back until the gate lets it through.
    Keep(oneshot::Receiver<()>),
    /// It takes effect, and nobody hears of it.
    Lose,
    /// It is never sent.
    Cut,
}

/// A gate on a replica's way; open unless it is shut. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    shut: bool,
    /// Objects by namespace and name whose requests pass all the same.
    free: Vec<(String, String)>,
    held: Vec<Held>,
    kept: Vec<oneshot::Sender<()>>,
}

#[derive(Debug)]
struct Held {
    ask: Ask,
    since: Instant,
    verdict: oneshot::Sender<Verdict>,
}

impl Gate {
    /// A request is at the gate.
    pub async fn pass(&self, ask: &Ask) -> Verdict {
        let verdict = {
            let mut inner = self.0.lock();
            let free =
                inner.free.iter().any(|(ns, name)| ask.namespace == *ns && ask.name == *name);
            if !inner.shut || free || matches!(ask.verb, Verb::List | Verb::Watch) {
                return Verdict::Go;
            }
            let (verdict, told) = oneshot::channel();
            inner.held.push(Held { ask: ask.clone(), since: Instant::now(), verdict });
            told
        };
        verdict.await.unwrap_or(Verdict::Go)
    }

    /// Holds everything but what is about these objects, by namespace and name.
    pub fn shut(&self, free: Vec<(String, String)>) {
        let mut inner = self.0.lock();
        (inner.shut, inner.free) = (true, free);
    }

    /// Everything goes on, now and from now on.
    pub fn open(&self) {
        self.0.lock().shut = false;
        while self.release(|_, _| true, Verdict::Go) {}
        self.answer();
    }

    /// Whether a request is held of which this is true, and since when.
    pub fn holds(&self, which: impl Fn(&Ask, Instant) -> bool) -> bool {
        let mut inner = self.0.lock();
        // Some have been given up by who sent them.
        inner.held.retain(|held| !held.verdict.is_closed());
        inner.held.iter().any(|held| which(&held.ask, held.since))
    }

    /// Decides on the first request that is held of which this is true. Whether there was one.
    pub fn release(&self, which: impl Fn(&Ask, Instant) -> bool, verdict: Verdict) -> bool {
        let mut inner = self.0.lock();
        inner.held.retain(|held| !held.verdict.is_closed());
        let found = inner.held.iter().position(|held| which(&held.ask, held.since));
        let Some(found) = found else { return false };
        // Who sent it may give it up in this very moment.
        let _ = inner.held.remove(found).verdict.send(verdict);
        true
    }

    /// Lets a request go on, and keeps its answer back.
    pub fn keep(&self, which: impl Fn(&Ask, Instant) -> bool) -> bool {
        let (answer, kept) = oneshot::channel();
        self.0.lock().kept.push(answer);
        self.release(which, Verdict::Keep(kept))
    }

    /// Lets the answers through that were kept back.
    pub fn answer(&self) {
        for kept in self.0.lock().kept.drain(..) {
            let _ = kept.send(());
        }
    }
}
