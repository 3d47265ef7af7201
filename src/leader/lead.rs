//! Getting the leader's Lease, keeping it, and giving it back.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Leadership, tidy::Tidy};
use crate::{
    lease::{Keeper, Record, Roll},
    queue::Wake,
    shard::Roster,
    world::World,
};

/// Leads whenever it can, until `done`; then gives the Lease back. On becoming the leader, every
/// address is looked at.
pub async fn lead(
    roster: Arc<Roster>,
    leadership: Leadership,
    world: Arc<World>,
    done: CancellationToken,
) {
    let terms = roster.names.leader_terms(&roster.times);
    let mut keeper = Keeper::new(terms, roster.times, roster.leader.clone());
    let mut changes = roster.subscribe();
    let mut office = Office::new(leadership, world);
    let mut tidy = Tidy::default();
    let mut not_before = Duration::ZERO;
    while !done.is_cancelled() {
        changes.mark_unchanged();
        see(&roster, &mut keeper);
        let due = roster.now() >= not_before;
        if due && roster.member.holds() && is_open(&roster, &keeper) {
            let began = roster.now();
            let looked_at = look_at_holder(&roster, &keeper).await;
            let asked = roster.attempt(&mut keeper, |roll, now, record| {
                let looked_at = |holder: &str| looked_at.as_deref() == Some(holder);
                may_take(&roster, roll, now, record, looked_at)
            });
            office.asked(asked.await);
            not_before = began + roster.times.period;
        }
        office.look();
        if roster.leader.holds() {
            tidy.run(&roster).await;
        }
        let pause = pause(&roster, not_before);
        tokio::select! {
            () = done.cancelled() => {}
            _ = changes.changed() => {}
            () = sleep(pause) => {}
        }
    }
    if let Err(why) = roster.release(&mut keeper).await {
        tracing::warn!(why, "the leader's Lease could not be given back: it runs out");
    }
    office.look();
}

/// Takes in what the watch has shown of the Lease.
fn see(roster: &Roster, keeper: &mut Keeper) {
    roster.see(|roll, _| match roll.get(keeper.name()) {
        Some(seen) if seen.gone.is_none() => keeper.observe(&seen.record),
        Some(_) => keeper.absent(),
        None => {}
    });
}

/// Whether there is something to ask for: one's own renewal, or a Lease that can be had.
fn is_open(roster: &Roster, keeper: &Keeper) -> bool {
    keeper.is_ours()
        || roster.see(|roll, now| {
            let seen = roll.get(keeper.name()).map(|s| &s.record);
            seen.is_none_or(|r| r.holder().is_none()) || may_take(roster, roll, now, seen, |_| true)
        })
}

/// Reads the member's Lease of whoever holds the leader's, as far as it is known, and says who that
/// is. What was last heard of a member may be long past where requests are answered again and the
/// watch has not caught up: meanwhile the dead may be back, and lead.
async fn look_at_holder(roster: &Roster, keeper: &Keeper) -> Option<String> {
    let holder = roster.see(|roll, _| {
        let record = &roll.get(keeper.name())?.record;
        record.holder().filter(|holder| *holder != roster.names.holder()).map(str::to_owned)
    })?;
    let read = roster.look_at(&roster.names.member_lease_of(&holder)).await;
    read.then_some(holder)
}

/// Another's Lease: when that one is not a member any more, and its own Lease was just looked at, or
/// has not kept this one though it is. One that is not there was perhaps deleted under its holder, who
/// makes it anew.
fn may_take(
    roster: &Roster,
    roll: &Roll,
    now: Duration,
    record: Option<&Record>,
    looked_at: impl Fn(&str) -> bool,
) -> bool {
    let name = roster.names.leader_lease();
    let last = record.or_else(|| roll.get(&name).map(|s| &s.record));
    let Some(holder) = last.and_then(Record::holder) else { return true };
    if holder == roster.names.holder() {
        return true;
    }
    let dead = roster.is_dead(roll, holder, now) && looked_at(holder);
    !roll.is_blind(now) && (dead || !roll.counts(&name, now))
}

fn pause(roster: &Roster, not_before: Duration) -> Duration {
    let now = roster.now();
    let own = Some(not_before.saturating_sub(now)).filter(|left| !left.is_zero());
    let expiry = roster.see(|roll, now| roll.next_expiry(now).map(|at| at.saturating_sub(now)));
    let next = [own, expiry].into_iter().flatten().min().unwrap_or(roster.times.period);
    // A little later than the moment itself: timers are rounded.
    next.min(roster.times.period) + Duration::from_millis(1)
}

/// What is told of this replica's leading, and what is done on becoming the leader.
struct Office {
    leadership: Leadership,
    world: Arc<World>,
    led: bool,
    refused: Option<String>,
}

impl Office {
    fn new(leadership: Leadership, world: Arc<World>) -> Self {
        Self { leadership, world, led: false, refused: None }
    }

    /// Says once what keeps the Lease from being had.
    fn asked(&mut self, asked: Result<(), String>) {
        let refused = asked.err();
        if let Some(why) = refused.as_ref().filter(|why| self.refused.as_ref() != Some(why)) {
            tracing::warn!(why, "the leader's Lease cannot be had or kept, trying again");
        }
        self.refused = refused;
    }

    fn look(&mut self) {
        let missed = self.leadership.has_turned_away();
        let leads = self.leadership.leads();
        if leads != self.led {
            tracing::info!("{}", if leads { "leading" } else { "not leading any more" });
        }
        if leads && (!self.led || missed) {
            let all: Vec<_> =
                self.world.index().addresses().map(|address| address.name.clone()).collect();
            for name in all {
                self.world.addresses().add(name, Wake::Moved);
            }
        }
        self.led = leads;
    }
}
