//! Who is alive, and who holds what: judged at the moment it changes, and never on a dead watch's
//! word.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    Roster, Shard,
    buckets::{Table, bucket},
};
use crate::{queue::Wake, world::World};

/// Judges until `stop`; what comes to this replica is put into the queue at once.
pub async fn judge(roster: Arc<Roster>, shard: Shard, world: Arc<World>, stop: CancellationToken) {
    let mut changes = roster.subscribe();
    let mut was_blind = false;
    while !stop.is_cancelled() {
        changes.mark_unchanged();
        share_out(&roster, &shard, &world);
        let (blind, suspects) =
            roster.see(|roll, now| (roll.is_listed() && roll.is_blind(now), roll.suspects(now)));
        if blind {
            if !was_blind {
                tracing::warn!(
                    "the watch of Leases does not show our own: listing again, and judging nobody"
                );
            }
            roster.list_again();
        }
        // A list that was just asked for has its time: that is not yet the end of it.
        was_blind = blind || was_blind && roster.see(|roll, _| roll.is_waiting());
        if !suspects.is_empty() {
            join_all(suspects.iter().map(|suspect| roster.look_at(suspect.name()))).await;
            share_out(&roster, &shard, &world);
        }
        let pause = pause(&roster);
        tokio::select! {
            () = stop.cancelled() => {}
            // The sender lives in the roster.
            _ = changes.changed() => {}
            () = sleep(pause) => {}
        }
    }
}

/// Until the next thing that happens by itself: a Lease that expires, or one's own deadline.
fn pause(roster: &Roster) -> Duration {
    let period = roster.times.period;
    let next = roster.see(|roll, now| roll.next_expiry(now).map(|at| at.saturating_sub(now)));
    let own = Some(roster.member.left()).filter(|left| !left.is_zero());
    let next = [next, own].into_iter().flatten().min().unwrap_or(period);
    // A little later than the moment itself: timers are rounded.
    next.min(period) + Duration::from_millis(1)
}

/// Works out who holds which bucket, and looks at what has come to this replica.
fn share_out(roster: &Roster, shard: &Shard, world: &World) {
    // Asked first: what is turned away from here on is looked at the next time.
    let missed = shard.has_turned_away();
    let Some(before) = shard.table() else { return };
    let members = roster.members();
    // Each renewal of each member comes by here, and hardly ever changes who there is.
    let same = before.members().iter().eq(&members);
    if same && !missed {
        return;
    }
    let table = if same { Arc::clone(&before) } else { Arc::new(Table::of(members)) };
    let me = roster.names.member();
    if !same {
        tracing::info!(
            members = table.members().join(","),
            buckets = table.held_by(&me),
            "the members changed"
        );
        world.index().set_members(&me, table.members());
        shard.share_out(Arc::clone(&table));
    }
    let came = |b: u8| table.holder(b) == Some(&*me) && (missed || before.holder(b) != Some(&*me));
    let came: Vec<bool> = (0..=u8::MAX).map(came).collect();
    let mut keys: Vec<_> = {
        let index = world.index();
        let ours = index.claims().filter(|c| came[usize::from(bucket(&c.id.uid))]);
        ours.map(|c| (c.is_settled(), c.key.clone())).collect()
    };
    // Whoever waits comes first.
    keys.sort();
    for (_, key) in keys {
        world.claims().add(key, Wake::Moved);
    }
}
