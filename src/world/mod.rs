//! The one place that owns what is known, and that wakes whom a change concerns.
//!
//! The index is synchronous and behind one lock that is never held while anything is waited for.
//! Whatever learns something about the cluster (a watch, the answer to a write, a read) brings it
//! here. It knows no client.

mod sink;

pub use self::sink::strange;

use std::{collections::BTreeSet, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::{
    binder::{
        index::{Index, IndexedKind, Wakes},
        view::{ClaimKey, Name},
    },
    clock::Clock,
    queue::{Config, Key, Queue, Wake},
    telemetry::Memory,
};

/// What is known, and who is to be looked at.
#[derive(Debug)]
pub struct World {
    index: Mutex<Index>,
    claims: Queue<ClaimKey>,
    addresses: Queue<Name>,
    memory: Mutex<Memory>,
    /// Which kinds have been listed.
    listed: watch::Sender<Listed>,
    clock: Clock,
}

/// Tenants take turns: one with thousands of claims does not keep the others waiting.
impl Key for ClaimKey {
    type Flow = Name;

    fn flow(&self) -> Name {
        self.namespace.clone()
    }
}

/// Addresses belong to no tenant.
impl Key for Name {
    type Flow = ();

    fn flow(&self) {}
}

/// Which kinds have been listed at least once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Listed {
    classes: bool,
    addresses: bool,
    claims: bool,
}

/// The object whose own pass learnt something: it need not be told.
#[derive(Clone, Copy, Debug)]
pub enum Learner<'a> {
    /// Nobody's pass: a watch.
    Watch,
    /// A claim's pass.
    Claim(&'a ClaimKey),
    /// An address's pass.
    Address(&'a Name),
}

impl World {
    /// An empty world.
    pub fn new(queue: Config, clock: Clock) -> Self {
        Self {
            index: Mutex::default(),
            claims: Queue::new(queue),
            addresses: Queue::new(queue),
            memory: Mutex::default(),
            listed: watch::Sender::new(Listed::default()),
            clock,
        }
    }

    /// The clock that all of it goes by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What is known. Not to be held across an await.
    pub fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock()
    }

    /// What has been told of which object.
    pub fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }

    /// Claims that need a pass.
    pub fn claims(&self) -> &Queue<ClaimKey> {
        &self.claims
    }

    /// Addresses that need a pass.
    pub fn addresses(&self) -> &Queue<Name> {
        &self.addresses
    }

    /// Waits until every kind has been listed. Before that nothing may be decided: what is not
    /// known yet would look as if it were not there.
    pub async fn complete(&self) {
        let mut listed = self.listed.subscribe();
        let all = |l: &Listed| l.classes && l.addresses && l.claims;
        // The sender lives as long as this world, so that waiting cannot fail.
        let _ = listed.wait_for(all).await;
    }

    /// Takes no more keys, so that those who work on them end.
    pub fn shut_down(&self) {
        self.claims.shut_down();
        self.addresses.shut_down();
    }

    /// Learns something and wakes whom it concerns, but for the one who learnt it.
    pub fn learn(&self, learner: Learner<'_>, change: impl FnOnce(&mut Index, Duration) -> Wakes) {
        let moment = self.clock.now().elapsed;
        let wakes = change(&mut self.index.lock(), moment);
        self.wake(learner, wakes);
    }

    /// Puts the keys into their queues, but for the one who learnt of the change.
    pub fn wake(&self, learner: Learner<'_>, wakes: Wakes) {
        for key in wakes.claims {
            if !matches!(learner, Learner::Claim(own) if *own == key) {
                self.claims.add(key, Wake::Related);
            }
        }
        for name in wakes.addresses {
            if !matches!(learner, Learner::Address(own) if *own == name) {
                self.addresses.add(name, Wake::Related);
            }
        }
    }

    /// Wakes whom a change concerns that a watch brought: the object itself first.
    fn wake_changed(&self, changed: Wakes, own: &Own) {
        let (mut claims, mut addresses): (BTreeSet<_>, BTreeSet<_>) =
            (changed.claims, changed.addresses);
        match own {
            Own::Claim(key) if claims.remove(key) => self.claims.add(key.clone(), Wake::Changed),
            Own::Address(name) if addresses.remove(name) => {
                self.addresses.add(name.clone(), Wake::Changed);
            }
            Own::Claim(_) | Own::Address(_) => {}
        }
        self.wake(Learner::Watch, Wakes { claims, addresses });
    }

    /// What a complete list did not show is gone.
    fn list_ended(&self, kind: IndexedKind) {
        let gone = self.index().unlisted(kind);
        for uid in &gone {
            self.memory().forget(uid);
        }
        self.learn(Learner::Watch, |index, _| index.end_list(kind));
        self.listed.send_modify(|listed| match kind {
            IndexedKind::Class => listed.classes = true,
            IndexedKind::Address => listed.addresses = true,
            IndexedKind::Claim => listed.claims = true,
        });
    }
}

/// The object that a watch told of.
enum Own {
    Claim(ClaimKey),
    Address(Name),
}

#[cfg(test)]
mod tests;
