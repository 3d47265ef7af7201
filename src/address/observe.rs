//! The facts that an address's decision needs, and the decision.

use super::Controller;
use crate::{
    apiserver::Refusal,
    binder::{
        address::{Facts, decide},
        plan::{AddressPlan, Decision},
        view::{ClaimKey, Name},
    },
    world::Learner,
};

impl Controller {
    /// Decides, reading the claim when the decision asks for it. `None`: there is no such address.
    ///
    /// What was read counts only for the state of the address that it was read after: a newer state
    /// may name another claim.
    ///
    /// # Errors
    /// A read that was not answered: never a word that the claim is gone.
    pub(super) async fn observe(&self, name: &Name) -> Result<Option<AddressPlan>, Refusal> {
        let mut confirmed: Option<Name> = None;
        loop {
            let Some((version, decision)) = self.decide(name, confirmed.as_ref()) else {
                return Ok(None);
            };
            let unread = match decision {
                Decision::Act(plan) => return Ok(Some(plan)),
                Decision::Read(unread) => unread,
            };
            for claim in unread {
                self.api.read_claim(Learner::Address(name), &claim).await?;
            }
            confirmed = Some(version);
        }
    }

    /// One decision on what is known at this moment, and the state that it was made on.
    fn decide(
        &self,
        name: &Name,
        confirmed: Option<&Name>,
    ) -> Option<(Name, Decision<AddressPlan, ClaimKey>)> {
        let now = self.world.clock().now();
        let index = self.world.index();
        let address = index.address(name).known()?;
        let version = address.id.resource_version.clone();
        let decision = decide(&Facts {
            index: &index,
            address,
            confirmed: confirmed == Some(&version),
            now: now.wall,
            moment: now.elapsed,
            grace: self.grace,
        });
        Some((version, decision))
    }
}
