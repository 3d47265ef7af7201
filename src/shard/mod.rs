//! Which claims are this replica's: membership, and the buckets that follow from it.
//!
//! A replica is a member while it keeps its own Lease. Each member works out by itself who holds
//! which bucket; two holders for a moment cost a refused write and nothing else, since every write
//! is conditional. It knows no rule of binding, and of leading only whose Lease is whose.

pub mod buckets;
mod judge;
mod membership;
pub mod names;
mod roster;
mod watch;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::RwLock;

use self::buckets::{Table, bucket};
pub use self::{
    judge::judge,
    membership::keep,
    names::{Names, Pod},
    roster::Roster,
    watch::listen,
};
use crate::lease::Tenure;

/// The gate that each claim's pass asks: whether the claim is this replica's. Cheap to clone; all
/// clones are one.
#[derive(Clone, Debug)]
pub struct Shard(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// None: there are no others, and no Leases.
    share: Option<Share>,
    /// Something was turned away for want of time that was left.
    turned_away: AtomicBool,
}

#[derive(Debug)]
struct Share {
    me: Arc<str>,
    tenure: Tenure,
    table: RwLock<Arc<Table>>,
}

impl Shard {
    /// Of one replica that runs alone: every claim is its own.
    pub fn alone() -> Self {
        Self(Arc::new(Inner { share: None, turned_away: AtomicBool::new(false) }))
    }

    /// Of one replica among others, which holds nothing yet.
    pub fn among_others(me: &str, tenure: Tenure) -> Self {
        let table = RwLock::new(Arc::new(Table::of([])));
        let share = Share { me: me.into(), tenure, table };
        Self(Arc::new(Inner { share: Some(share), turned_away: AtomicBool::new(false) }))
    }

    /// Whether a claim is this replica's at this moment.
    pub fn holds(&self, uid: &str) -> bool {
        let Some(share) = &self.0.share else { return true };
        self.may_write() && share.table.read().holder(bucket(uid)) == Some(&*share.me)
    }

    /// Whether this replica is a member at this moment, by its own deadline.
    pub fn may_write(&self) -> bool {
        let may = self.0.share.as_ref().is_none_or(|share| share.tenure.holds());
        if !may {
            self.0.turned_away.store(true, Ordering::SeqCst);
        }
        may
    }

    /// Whether a claim was turned away because the deadline had passed, since this was asked last.
    fn has_turned_away(&self) -> bool {
        self.0.turned_away.swap(false, Ordering::SeqCst)
    }

    /// How the buckets are shared out, as this replica sees it; none where it runs alone.
    pub fn table(&self) -> Option<Arc<Table>> {
        self.0.share.as_ref().map(|share| Arc::clone(&share.table.read()))
    }

    /// Puts another table in place. Returns the one before.
    fn share_out(&self, table: Arc<Table>) -> Option<Arc<Table>> {
        let share = self.0.share.as_ref()?;
        Some(std::mem::replace(&mut *share.table.write(), table))
    }
}

#[cfg(test)]
mod tests;
