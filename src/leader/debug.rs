//! What a person at the pod is shown of it.

use serde_json::{Value, json};

use super::Leadership;
use crate::{
    lease::Roll,
    shard::{Roster, Shard, buckets::BUCKETS},
};

/// The members as seen, with their buckets; the leader; how old each Lease is; what is left of one's
/// own time. As JSON.
pub fn page(roster: Option<&Roster>, shard: &Shard, leadership: &Leadership) -> String {
    let page = match (roster, shard.table()) {
        (Some(roster), Some(table)) => {
            let members: Vec<Value> = table
                .members()
                .iter()
                .map(|member| json!({ "name": member, "buckets": table.held_by(member) }))
                .collect();
            json!({
                "me": roster.names.member(),
                "holder": roster.names.holder(),
                "members": members,
                "leader": leader(roster),
                "leads": leadership.is_held(),
                "memberSecondsLeft": roster.member.left().as_secs_f64(),
                "leaderSecondsLeft": roster.leader.left().as_secs_f64(),
                "leases": leases(roster),
                "blind": roster.see(Roll::is_blind),
            })
        }
        _ => json!({ "alone": true, "leads": true, "buckets": BUCKETS }),
    };
    format!("{page:#}\n")
}

/// Who holds the leader's Lease, as it was last seen.
fn leader(roster: &Roster) -> Option<String> {
    let name = roster.names.leader_lease();
    roster.see(|roll, now| {
        let seen = roll.get(&name).filter(|_| roll.counts(&name, now))?;
        seen.record.holder().map(str::to_owned)
    })
}

fn leases(roster: &Roster) -> Vec<Value> {
    roster.see(|roll, now| {
        roll.all()
            .map(|(name, seen)| {
                json!({
                    "name": name,
                    "holder": seen.record.holder(),
                    "secondsUnchanged": now.saturating_sub(seen.seen).as_secs_f64(),
                    "counts": roll.counts(name, now),
                    "deleted": seen.gone.is_some(),
                })
            })
            .collect()
    })
}
