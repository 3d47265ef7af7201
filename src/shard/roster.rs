//! What the tasks that deal with Leases have in common: what is seen, and how it is asked for.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Names;
use crate::{
    clock::Clock,
    lease::{Answer, Ask, Keeper, LeaseClient, Record, Roll, Tenure, Times},
};

/// How often a Lease is asked about in a row when each answer says that what was known is old.
const ROUNDS: usize = 6;

/// The Leases of an installation, shared by the tasks of one replica.
#[derive(Debug)]
pub struct Roster {
    /// What they are called.
    pub names: Names,
    /// How long things take.
    pub times: Times,
    /// The clock that goes on while the machine sleeps.
    pub clock: Clock,
    /// Until when this replica is a member.
    pub member: Tenure,
    /// Until when it holds the leader's Lease.
    pub leader: Tenure,
    pub(super) api: LeaseClient,
    roll: Mutex<Roll>,
    changes: watch::Sender<()>,
    list: Mutex<CancellationToken>,
}

impl Roster {
    /// Nothing seen and nothing held.
    pub fn new(names: Names, times: Times, clock: Clock, api: LeaseClient) -> Self {
        let leader = Tenure::new(clock.clone());
        Self {
            names,
            times,
            member: Tenure::bearing(&leader),
            leader,
            clock,
            api,
            roll: Mutex::new(Roll::new(times)),
            changes: watch::Sender::new(()),
            list: Mutex::new(CancellationToken::new()),
        }
    }

    /// The elapsed time that it is.
    pub fn now(&self) -> Duration {
        self.clock.now().elapsed
    }

    /// Hears of every change of what is seen and held.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Says that something changed.
    pub fn changed(&self) {
        self.changes.send_replace(());
    }

    /// Looks at what was seen.
    pub fn see<T>(&self, look: impl FnOnce(&Roll, Duration) -> T) -> T {
        look(&self.roll.lock(), self.now())
    }

    /// Takes in what was seen.
    pub fn learn(&self, learn: impl FnOnce(&mut Roll, Duration)) {
        let now = self.now();
        learn(&mut self.roll.lock(), now);
        self.changed();
    }

    /// The members at this moment, this replica among them while it is one.
    pub fn members(&self) -> BTreeSet<Arc<str>> {
        let me = self.names.member_lease();
        let ours = |s: &Record| s.name() == me && s.holder() == Some(self.names.holder());
        let mut members: BTreeSet<Arc<str>> = self.see(|roll, now| {
            let alive = roll.all().filter(|(name, s)| roll.counts(name, now) && !ours(&s.record));
            alive.filter_map(|(name, _)| self.names.member_of(name)).map(Arc::from).collect()
        });
        if self.member.holds() {
            members.insert(self.names.member().into());
        }
        members
    }

    /// Whether the process that holds the leader's Lease is known not to be a member any more: its own
    /// Lease has expired, or is another process's or nobody's. One that has none, as far as was ever
    /// seen, may have just joined, and is given the time in which it would renew the leader's.
    pub fn is_dead(&self, roll: &Roll, holder: &str, now: Duration) -> bool {
        let lease = self.names.member_lease_of(holder);
        match roll.get(&lease) {
            Some(s) if s.gone.is_none() && s.record.holder() != Some(holder) => true,
            Some(_) => !roll.counts(&lease, now),
            None => roll
                .get(&self.names.leader_lease())
                .is_some_and(|s| now >= s.seen + self.times.duration),
        }
    }

    /// Reads a Lease that was seen, and takes in what is found. Whether there was an answer: without
    /// one nothing is known, and nobody is called dead.
    pub async fn look_at(&self, lease: &str) -> bool {
        let known = self.see(|roll, _| roll.get(lease).map(|s| s.record.clone()));
        match (self.api.read(lease).await, known) {
            (Answer::Is(record), Some(known)) if record.version() == known.version() => {
                self.learn(|roll, now| roll.confirm(lease, known.version(), now));
            }
            (Answer::Is(record), _) => self.learn(|roll, now| roll.saw(record, now)),
            (Answer::Absent, Some(known)) => {
                self.learn(|roll, now| roll.deleted(lease, known.uid(), now));
            }
            (Answer::Absent, None) => {}
            (Answer::Conflict | Answer::Refused(_) | Answer::Unanswered(_), _) => return false,
        }
        true
    }

    /// Asks for the Lease until there is nothing more to ask at once.
    ///
    /// # Errors
    /// What the API server said, or that it did not.
    pub async fn attempt(
        &self,
        keeper: &mut Keeper,
        may_take: impl Fn(&Roll, Duration, Option<&Record>) -> bool,
    ) -> Result<(), String> {
        for _ in 0..ROUNDS {
            let now = self.clock.now();
            let ask = self.see(|roll, elapsed| {
                keeper.next(now.wall, |record| may_take(roll, elapsed, record))
            });
            let Some(ask) = ask else { return Ok(()) };
            if !self.carry_out(keeper, &ask).await? {
                return Ok(());
            }
        }
        Err("its Lease changes faster than it can be read".to_owned())
    }

    /// Gives the Lease back if this process holds it.
    ///
    /// # Errors
    /// What the API server said, or that it did not: the Lease runs out then.
    pub async fn release(&self, keeper: &mut Keeper) -> Result<(), String> {
        for _ in 0..ROUNDS {
            let Some(ask) = keeper.release(self.clock.now().wall) else { return Ok(()) };
            let again = self.carry_out(keeper, &ask).await?;
            keeper.tenure().end();
            if !again {
                return Ok(());
            }
            self.carry_out(keeper, &Ask::Read).await?;
        }
        Err("its Lease changes faster than it can be read".to_owned())
    }

    /// One request, and what its answer says. Returns whether to look again.
    async fn carry_out(&self, keeper: &mut Keeper, ask: &Ask) -> Result<bool, String> {
        let sent = self.now();
        let answer = self.api.ask(keeper.name(), ask).await;
        let again = keeper.answered(ask, sent, &answer);
        match (ask, answer) {
            (Ask::Read, Answer::Is(record)) => self.learn(|roll, now| roll.saw(record, now)),
            (Ask::Create(_) | Ask::Replace(_), Answer::Is(record)) => {
                self.learn(|roll, now| roll.wrote(record, now));
            }
            (_, Answer::Absent | Answer::Conflict) => {}
            (_, Answer::Refused(why) | Answer::Unanswered(why)) => return Err(why),
        }
        Ok(again)
    }

    /// Deletes a Lease in the state that was seen.
    pub async fn delete(&self, record: &Record) -> Answer {
        self.api.delete(record).await
    }

    /// Has the watch of Leases begin anew with a list.
    pub(super) fn list_again(&self) {
        self.learn(Roll::asked_again);
        self.list.lock().cancel();
    }

    /// The token that ends one run of the watch.
    pub(super) fn one_run(&self, stop: &CancellationToken) -> CancellationToken {
        let run = stop.child_token();
        self.list.lock().clone_from(&run);
        run
    }
}
