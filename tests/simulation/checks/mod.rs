//! What is judged beside the binder's invariants, each in a file of its own: [`leases`] and [`events`]
//! whenever anything was committed; [`rest`], [`status`] and [`quiet`] when nobody writes any more.

mod events;
mod leases;
pub mod quiet;
mod rest;
mod status;

use std::time::Duration;

use self::{
    events::Events,
    leases::{Leases, Sighting},
    status::Statuses,
};
use crate::{replica::Replica, stage::Stage};

/// All of them.
#[derive(Default)]
pub struct Checks {
    /// Up to this revision everything was seen.
    seen: u64,
    leases: Leases,
    events: Events,
    status: Statuses,
    /// What is wrong, in words.
    pub found: Vec<String>,
}

impl Checks {
    /// Judges what was committed and told since it looked last, and how the replicas stand now. When
    /// to look again at the latest, if something is under way.
    pub fn look(&mut self, stage: &Stage, replicas: &mut [Replica]) -> Option<Duration> {
        let now = stage.api.elapsed();
        let sightings: Vec<_> = replicas.iter().map(Sighting::of).collect();
        let store = stage.api.store();
        let commits = store.since(self.seen);
        let mut found = Vec::new();
        self.leases.look(now, &sightings, &mut found);
        for commit in commits {
            self.status.saw(commit);
            self.events.saw(commit);
            self.leases.wrote(now, commit, &mut found);
        }
        let again = commits.iter().any(leases::changes_hands);
        self.seen = store.revision();
        drop(store);
        for replica in replicas {
            for note in replica.notes() {
                self.events.told(&replica.name, replica.lives, &note, &mut found);
            }
        }
        self.found.append(&mut found);
        again.then_some(leases::GRANTED)
    }

    /// Judges what is there when nobody writes any more. `written`: when the last write was made;
    /// `faults`: when nothing went wrong any more; `reservations`: for how long at least the replicas
    /// have seen every reservation.
    pub fn at_rest(
        &mut self,
        stage: &Stage,
        (written, faults): (Duration, Duration),
        reservations: Duration,
    ) {
        let oracle = stage.oracle.lock();
        let left = oracle.checker().world().at_rest();
        self.found.extend(left.iter().map(|violation| format!("at rest: {violation:?}")));
        self.found.extend(oracle.quiet.judge(written, faults));
        drop(oracle);
        let store = stage.api.store();
        let mut found = rest::judge(&store);
        found.extend(self.status.judge(&store, reservations));
        self.found.extend(found.into_iter().map(|what| format!("at rest: {what}")));
    }

    /// The longest that a bucket was without a holder, with two, and the addresses without a leader,
    /// while the API server was within reach.
    pub fn worst(&self) -> [Duration; 3] {
        self.leases.worst
    }
}
