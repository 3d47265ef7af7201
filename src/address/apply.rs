//! Carries an address's plan out: a write for each step, each on the state that was decided on.

use serde_json::json;

use super::Controller;
use crate::{
    apiserver::{Part, Refusal},
    binder::plan::{AddressPlan, AddressStep, Target},
    world::Learner,
};

impl Controller {
    /// Writes the steps in order and stops at the first that does not take effect.
    ///
    /// # Errors
    /// Why that one did not. After a conflict, the address has been read again.
    pub(super) async fn apply(&self, plan: &AddressPlan) -> Result<(), Refusal> {
        let mut target = plan.address.clone();
        for planned in &plan.steps {
            let written = self.write(&mut target, &planned.step).await;
            tracing::debug!(step = planned.step.name(), refused = ?written.as_ref().err(), "wrote");
            if let Err(refusal) = written {
                if matches!(refusal, Refusal::Conflict | Refusal::Absent) {
                    self.api.read_address(Learner::Address(&target.name), &target.name).await?;
                }
                return Err(refusal);
            }
            if let AddressStep::Phase(phase) = planned.step {
                tracing::info!(phase = phase.as_str(), "address is {}", phase.as_str());
            }
            for event in &planned.events {
                self.reporter.tell(event.clone());
            }
        }
        Ok(())
    }

    async fn write(&self, target: &mut Target, step: &AddressStep) -> Result<(), Refusal> {
        let name = target.name.clone();
        let learner = Learner::Address(&name);
        let (part, body) = match step {
            AddressStep::Protect { finalizers } | AddressStep::Unprotect { finalizers } => {
                (Part::Main, json!({"metadata": {"finalizers": finalizers}}))
            }
            AddressStep::Phase(phase) => (Part::Status, json!({"status": {"phase": phase}})),
            AddressStep::Delete => return self.api.delete_address(learner, target).await,
        };
        let version = self.api.patch_address(learner, &name, &target.version, part, body).await?;
        target.version = version;
        Ok(())
    }
}
