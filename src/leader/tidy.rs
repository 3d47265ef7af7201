//! Leases that nobody holds any more: the leader deletes what was left lying for ten durations.

use std::time::Duration;

use crate::{
    lease::{Answer, Record},
    shard::Roster,
};

/// When to look again.
#[derive(Debug, Default)]
pub(super) struct Tidy {
    not_before: Duration,
}

impl Tidy {
    /// Deletes the dead members' Leases, each in the state it was seen in; now and then.
    pub(super) async fn run(&mut self, roster: &Roster) {
        let now = roster.now();
        if now < self.not_before {
            return;
        }
        self.not_before = now + roster.times.duration;
        let old: Vec<Record> = roster.see(|roll, now| {
            let members = |r: &&Record| roster.names.member_of(r.name()).is_some();
            roll.forgotten(now).filter(members).cloned().collect()
        });
        for record in old {
            // Refused: it was taken up again meanwhile, or we may not; both are fine.
            if let Answer::Is(_) = roster.delete(&record).await {
                tracing::info!(
                    lease = record.name(),
                    "deleted the Lease of a replica that is gone"
                );
            }
        }
    }
}
