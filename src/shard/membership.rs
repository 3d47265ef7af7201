//! Being a member: one's own Lease, kept from when everything is known until the last pass has ended.

use std::sync::Arc;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Roster;
use crate::lease::{Keeper, Record, Roll};

/// Keeps the member's Lease until `done`, then gives it back. To be started when this replica knows
/// everything that it decides on. After each attempt, `tell` is told whether it is a member, or why
/// not.
pub async fn keep(
    roster: Arc<Roster>,
    done: CancellationToken,
    mut tell: impl FnMut(Result<(), &str>) + Send,
) {
    let terms = roster.names.member_terms(&roster.times);
    let mut keeper = Keeper::new(terms, roster.times, roster.member.clone());
    let mut joined = false;
    let mut changes = roster.subscribe();
    while !done.is_cancelled() {
        let began = roster.now();
        let attempt = roster.attempt(&mut keeper, |roll, now, record| {
            let in_place = !joined && record.is_some_and(|r| roster.names.is_of_this_pod(r));
            in_place || may_take(roll, now, record)
        });
        let asked = attempt.await;
        joined |= roster.member.holds();
        let standing = match (&asked, roster.member.holds()) {
            (_, true) => Ok(()),
            (Ok(()), false) => Err("another process goes by this replica's identity"),
            (Err(why), false) => Err(why.as_str()),
        };
        tell(standing);
        let pause = roster.times.period.saturating_sub(roster.now().saturating_sub(began));
        let pause = done.run_until_cancelled(sleep(pause)).await;
        if pause.is_none() {
            break;
        }
        // Somebody else may have taken it, or deleted it.
        changes.mark_unchanged();
        roster.see(|roll, _| match roll.get(keeper.name()) {
            Some(seen) if seen.gone.is_none() => keeper.observe(&seen.record),
            Some(_) | None => {}
        });
    }
    if let Err(why) = roster.release(&mut keeper).await {
        tracing::warn!(why, "the member's Lease could not be given back: it runs out");
    }
    roster.changed();
}

/// One's own Lease in another process's hand: when that one is dead.
fn may_take(roll: &Roll, now: std::time::Duration, record: Option<&Record>) -> bool {
    record.is_none_or(|record| roll.is_listed() && !roll.counts(record.name(), now))
}
