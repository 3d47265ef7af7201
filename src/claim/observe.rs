//! The facts that a claim's decision needs, and the decision.

use std::collections::BTreeSet;

use super::Controller;
use crate::{
    apiserver::Refusal,
    binder::{
        claim::{Facts, decide},
        plan::{ClaimPlan, Decision},
        view::{AddressView, ClaimKey, Name},
    },
    world::Learner,
};

/// What was read for a pass, and for which state of the claim.
#[derive(Default)]
struct Confirmed {
    version: Option<Name>,
    names: BTreeSet<Name>,
    /// Addresses without a uid, by name and version, that were seen before the claim was read.
    open: BTreeSet<(Name, Name)>,
}

impl Controller {
    /// Decides, reading what the decision asks for. `None`: there is no such claim to decide on.
    ///
    /// What was read counts only for the state of the claim that it was read after: when the claim
    /// changes meanwhile, everything is asked anew.
    ///
    /// # Errors
    /// A read that was not answered.
    pub(super) async fn observe(&self, key: &ClaimKey) -> Result<Option<ClaimPlan>, Refusal> {
        let mut confirmed = Confirmed::default();
        loop {
            let Some(decision) = self.decide(key, &mut confirmed) else { return Ok(None) };
            let unread = match decision {
                Decision::Act(plan) => return Ok(Some(plan)),
                Decision::Read(unread) => unread,
            };
            let mut open = Vec::new();
            for name in unread {
                self.api.read_address(Learner::Claim(key), &name).await?;
                open.extend(self.world.index().address(&name).known().and_then(open_state));
                confirmed.names.insert(name);
            }
            // After the addresses: the claim was still there when they named it without a uid.
            if !open.is_empty() {
                self.api.read_claim(Learner::Claim(key), key).await?;
                confirmed.open.extend(open);
            }
        }
    }

    /// One decision on what is known at this moment, recorded in the same moment.
    fn decide(
        &self,
        key: &ClaimKey,
        confirmed: &mut Confirmed,
    ) -> Option<Decision<ClaimPlan, Name>> {
        let now = self.world.clock().now().wall;
        let mut index = self.world.index();
        let claim = index.claim(key).known()?;
        if confirmed.version.as_ref() != Some(&claim.id.resource_version) {
            confirmed.version = Some(claim.id.resource_version.clone());
            confirmed.names.clear();
            confirmed.open.clear();
        }
        // One that has lost its uid since it was read is as good as unread.
        let Confirmed { names, open, .. } = confirmed;
        names.retain(|name| {
            index
                .address(name)
                .known()
                .and_then(open_state)
                .is_none_or(|state| open.contains(&state))
        });
        let facts = Facts { index: &index, claim, confirmed: &confirmed.names, now };
        let decision = decide(&facts);
        if let Decision::Act(plan) = &decision {
            let chosen: Vec<_> = plan.chosen().map(|(name, _)| name.clone()).collect();
            let wakes = index.decided(key, plan.created, plan.waiting.clone(), chosen);
            drop(index);
            self.world.wake(Learner::Claim(key), wakes);
        }
        Some(decision)
    }
}

/// An address that names its claim without a uid, as it is at this moment.
fn open_state(address: &AddressView) -> Option<(Name, Name)> {
    address.is_open().then(|| (address.name.clone(), address.id.resource_version.clone()))
}
