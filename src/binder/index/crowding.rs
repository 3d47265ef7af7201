//! How replicas that match on one class at once keep out of each other's way.
//!
//! All would go for the smallest free name, and all but one would be refused. So each has a window
//! for each class and family: one name at rest, doubled when another was faster, and shrunk again
//! by each match that is written. Within it, a replica goes for the first name that is meant for it
//! (by the same weights that share out buckets), and where none is, for the one that it would
//! rather have than any other: no two agree on that.
//!
//! It is about who is refused how often, never about what is right: every write is conditional.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Pool;
use crate::{
    binder::view::{AddressView, Name},
    rendezvous::{weight, winner},
};

/// The widest window: a look at so many names costs less than the write that follows.
const WIDEST: usize = 256;

/// How a match ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Race {
    /// It was written.
    Won,
    /// The address had changed: somebody was faster.
    Lost,
}

/// The windows, and who else there is.
#[derive(Clone, Debug, Default)]
pub(super) struct Crowding {
    windows: FxHashMap<Pool, usize>,
    me: Option<Name>,
    members: Vec<Name>,
}

impl Crowding {
    pub(super) fn set_members(&mut self, me: &str, members: &[Arc<str>]) {
        self.me = Some(me.into());
        self.members = members.to_vec();
    }

    pub(super) fn raced(&mut self, pool: &Pool, race: Race) {
        let window = self.windows.get(pool).copied().unwrap_or(1);
        let next = match race {
            Race::Lost => (window * 2).min(WIDEST),
            // Slowly: a window that closes too soon is paid for with the next refusal.
            Race::Won => window - (window / 32).max(1).min(window - 1),
        };
        // A settled class leaves nothing behind.
        if next == 1 {
            self.windows.remove(pool);
        } else {
            self.windows.insert(pool.clone(), next);
        }
    }

    /// A class is gone: nothing is kept of it.
    pub(super) fn forget(&mut self, class: &Name) {
        self.windows.retain(|(of, _), _| of != class);
    }

    /// One of the candidates, which come in the order of their names.
    pub(super) fn pick<'a>(
        &self,
        pool: &Pool,
        candidates: impl Iterator<Item = &'a AddressView>,
    ) -> Option<&'a AddressView> {
        let mut candidates = candidates.take(self.windows.get(pool).copied().unwrap_or(1));
        let Some(me) = self.me.as_ref().filter(|_| self.members.len() > 1) else {
            return candidates.next();
        };
        let mut liked: Option<(u64, &AddressView)> = None;
        for candidate in candidates {
            let name = candidate.name.as_bytes();
            let meant = winner(&self.members, name).and_then(|place| self.members.get(place));
            if meant == Some(me) {
                return Some(candidate);
            }
            let liking = weight(me, name);
            if liked.is_none_or(|(most, _)| liking > most) {
                liked = Some((liking, candidate));
            }
        }
        liked.map(|(_, candidate)| candidate)
    }
}
