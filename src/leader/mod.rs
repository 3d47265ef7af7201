//! The one Lease for the work on addresses, and who has it.
//!
//! The leader is a member, and may be replaced when it is one no longer: one judgement of who is
//! dead, not two in a row. It acts by its own deadlines, the member's and the leader's. It knows no
//! rule of binding.

mod debug;
mod lead;
mod tidy;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

pub use self::{debug::page, lead::lead};
use crate::lease::Tenure;

/// The gate that each address's pass asks: whether this replica leads. Cheap to clone; all clones are
/// one.
#[derive(Clone, Debug)]
pub struct Leadership(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The leader's tenure and the member's. None: there are no others, and no Leases.
    tenures: Option<[Tenure; 2]>,
    /// Something was turned away.
    turned_away: AtomicBool,
}

impl Leadership {
    /// Of one replica that runs alone: it leads.
    pub fn alone() -> Self {
        Self(Arc::new(Inner { tenures: None, turned_away: AtomicBool::new(false) }))
    }

    /// Of one replica among others, by its deadlines.
    pub fn among_others(leader: Tenure, member: Tenure) -> Self {
        let tenures = Some([leader, member]);
        Self(Arc::new(Inner { tenures, turned_away: AtomicBool::new(false) }))
    }

    /// Whether this replica leads at this moment, for whoever only shows it: nothing is turned away.
    pub fn is_held(&self) -> bool {
        self.0.tenures.as_ref().is_none_or(|t| t.iter().all(Tenure::holds))
    }

    /// Whether this replica leads at this moment.
    pub fn leads(&self) -> bool {
        let leads = self.is_held();
        if !leads {
            self.0.turned_away.store(true, Ordering::SeqCst);
        }
        leads
    }

    /// Whether an address was turned away since this was asked last.
    fn has_turned_away(&self) -> bool {
        self.0.turned_away.swap(false, Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests;
