//! Who leads, by the leader's Lease, and how long it takes until another does.

use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    runtime::{WatchStreamExt, watcher, watcher::Event},
};
use parking_lot::Mutex;

use super::pace::Until;

/// What is known of the leader. Without such a Lease, nobody ever leads.
#[derive(Debug, Default)]
pub(super) struct Leader(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    holder: Option<String>,
    /// Each new holder, and when it was seen.
    changes: Vec<(Instant, String)>,
    /// Each leader that was ended for good or for long, and when.
    kills: Vec<Instant>,
}

impl Leader {
    /// Whose identity the Lease's holder begins with.
    pub(super) fn is(&self, identity: &str) -> bool {
        let seen = self.0.lock();
        let rest = seen.holder.as_deref().and_then(|h| h.strip_prefix(identity));
        // `chaos-1-1` does not lead where `chaos-1-12` does.
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// The leader has just been killed, and does not come back before others can take over.
    pub(super) fn killed(&self) {
        self.0.lock().kills.push(Instant::now());
    }

    /// From each kill to the next holder; and how many kills nobody followed before the next one.
    pub(super) fn takeovers(&self) -> (Vec<Duration>, usize) {
        let seen = self.0.lock();
        let mut times = Vec::new();
        for (i, kill) in seen.kills.iter().enumerate() {
            let until = seen.kills.get(i + 1);
            let next = seen.changes.iter().find(|(at, _)| at > kill);
            let next = next.filter(|(at, _)| until.is_none_or(|until| at <= until));
            times.extend(next.map(|(at, _)| *at - *kill));
        }
        let unfollowed = seen.kills.len() - times.len();
        times.sort();
        (times, unfollowed)
    }

    /// How many times the Lease went from one to another.
    pub(super) fn changes(&self) -> usize {
        self.0.lock().changes.len()
    }

    /// Follows the Lease until the end.
    pub(super) async fn follow(
        &self,
        client: Client,
        namespace: &str,
        name: &str,
        mut until: Until,
    ) {
        let leases: Api<Lease> = Api::namespaced(client, namespace);
        let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let events = watcher(leases, only).default_backoff().for_each(|event| {
            match event {
                Ok(Event::Apply(lease) | Event::InitApply(lease)) => {
                    self.saw(lease.spec.and_then(|s| s.holder_identity));
                }
                Ok(Event::Delete(_)) => self.saw(None),
                Ok(Event::Init | Event::InitDone) | Err(_) => {}
            }
            std::future::ready(())
        });
        tokio::select! {
            () = events => {}
            () = until.over() => {}
        }
    }

    fn saw(&self, holder: Option<String>) {
        let mut seen = self.0.lock();
        let holder = holder.filter(|h| !h.is_empty());
        if holder == seen.holder {
            return;
        }
        if let Some(holder) = &holder {
            seen.changes.push((Instant::now(), holder.clone()));
        }
        seen.holder = holder;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_takeover_is_from_a_kill_to_the_next_holder() {
        let leader = Leader::default();
        assert!(!leader.is("chaos-1-1"));
        leader.saw(Some("chaos-1-1_x".to_owned()));
        assert!(leader.is("chaos-1-1"));
        assert!(!leader.is("chaos-2-1"));
        leader.killed();
        leader.saw(None);
        leader.saw(Some("chaos-1-12".to_owned()));
        assert!(leader.is("chaos-1-12") && !leader.is("chaos-1-1"));
        leader.killed();
        let (times, unfollowed) = leader.takeovers();
        assert_eq!((times.len(), unfollowed, leader.changes()), (1, 1, 2));
    }
}
