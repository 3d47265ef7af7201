//! Carries a claim's plan out: a write for each step, each on the state that was decided on.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Controller;
use crate::{
    api::{
        AddressPhase, ClaimPhase,
        well_known::{PROVISIONER_ANNOTATION, SELECTED_ADDRESSES_ANNOTATION},
    },
    apiserver::{Part, Refusal},
    binder::{
        index::{Pool, Race},
        plan::{ClaimPlan, ClaimStatus, ClaimStep, Target},
        status::refused,
        view::{ClaimKey, Name},
    },
    world::Learner,
};

/// The resourceVersions that this plan's own writes made, and before them those decided on.
struct Versions<'a> {
    plan: &'a ClaimPlan,
    claim: Name,
    addresses: BTreeMap<Name, Name>,
}

impl Versions<'_> {
    fn of(&self, address: &Target) -> Name {
        self.addresses.get(&address.name).unwrap_or(&address.version).clone()
    }
}

impl Controller {
    /// Writes the steps in order and stops at the first that does not take effect.
    ///
    /// # Errors
    /// Why that one did not. After a conflict, the object has been read again.
    pub(super) async fn apply(&self, plan: &ClaimPlan) -> Result<(), Refusal> {
        let mut versions =
            Versions { plan, claim: plan.version.clone(), addresses: BTreeMap::new() };
        for planned in &plan.steps {
            let pool = self.pool(&planned.step);
            let written = self.write(&mut versions, &planned.step).await;
            if let (Some(pool), Some(race)) = (pool, race(&written)) {
                self.world.index().raced(&pool, race);
            }
            tracing::debug!(step = planned.step.name(), refused = ?written.as_ref().err(), "wrote");
            match written {
                Ok(()) => {}
                Err(Refusal::Denied(why)) if holds_nothing_up(plan, &planned.step) => {
                    tracing::warn!(
                        step = planned.step.name(),
                        why,
                        "refused for good: the claim goes, and the address's own pass finishes"
                    );
                    continue;
                }
                Err(refusal) => {
                    if let (Refusal::Denied(why), ClaimStep::Mark { .. }) =
                        (&refusal, &planned.step)
                    {
                        self.say_refused(&mut versions, why).await?;
                    }
                    self.look_again(plan, &planned.step, &refusal).await?;
                    return Err(refusal);
                }
            }
            say(&planned.step);
            for event in &planned.events {
                self.reporter.tell(event.clone());
            }
            self.count_bind(plan, &planned.step);
        }
        Ok(())
    }

    /// The class and family that a match is made in.
    fn pool(&self, step: &ClaimStep) -> Option<Pool> {
        let ClaimStep::Bind { address, family, .. } = step else { return None };
        let index = self.world.index();
        index.address(&address.name).known().map(|a| (a.class.clone(), *family))
    }

    async fn write(&self, versions: &mut Versions<'_>, step: &ClaimStep) -> Result<(), Refusal> {
        let key = &versions.plan.claim;
        match step {
            ClaimStep::Mark { finalizers, selections, stamp } => {
                let selections = selections.as_ref().map(ToString::to_string);
                let body = mark(finalizers.as_deref(), selections, stamp.as_ref());
                self.patch_claim(versions, Part::Main, body).await
            }
            ClaimStep::Status(status) => {
                self.patch_claim(versions, Part::Status, status_patch(status)).await
            }
            ClaimStep::Unprotect { finalizers } => {
                let body = json!({"metadata": {"finalizers": finalizers}});
                self.patch_claim(versions, Part::Main, body).await
            }
            ClaimStep::GiveUp { address } => {
                let body = phase(AddressPhase::Pending);
                self.patch_address(versions, address, Part::Status, body).await
            }
            ClaimStep::Bind { address, finalizers, .. }
            | ClaimStep::Complete { address, finalizers } => {
                let body = claim_ref(key, &versions.plan.uid, finalizers);
                self.patch_address(versions, address, Part::Main, body).await
            }
            ClaimStep::Release { address } => {
                let body = phase(AddressPhase::Released);
                self.patch_address(versions, address, Part::Status, body).await
            }
            ClaimStep::Delete { address } => {
                let target = Target { version: versions.of(address), ..address.clone() };
                self.api.delete_address(Learner::Claim(key), &target).await
            }
        }
    }

    async fn patch_claim(
        &self,
        versions: &mut Versions<'_>,
        part: Part,
        body: Value,
    ) -> Result<(), Refusal> {
        let key = &versions.plan.claim;
        versions.claim = self.api.patch_claim(key, &versions.claim, part, body).await?;
        Ok(())
    }

    async fn patch_address(
        &self,
        versions: &mut Versions<'_>,
        address: &Target,
        part: Part,
        body: Value,
    ) -> Result<(), Refusal> {
        let learner = Learner::Claim(&versions.plan.claim);
        let version = versions.of(address);
        let next = self.api.patch_address(learner, &address.name, &version, part, body).await?;
        versions.addresses.insert(address.name.clone(), next);
        Ok(())
    }

    /// After a conflict: what is known of the object was old, so it is read before the next look.
    async fn look_again(
        &self,
        plan: &ClaimPlan,
        step: &ClaimStep,
        refusal: &Refusal,
    ) -> Result<(), Refusal> {
        if !matches!(refusal, Refusal::Conflict | Refusal::Absent) {
            return Ok(());
        }
        match step.address() {
            Some(address) => {
                self.api.read_address(Learner::Claim(&plan.claim), &address.name).await
            }
            None => self.api.read_claim(Learner::Claim(&plan.claim), &plan.claim).await,
        }
    }

    /// Tells the claim's owner that nothing can be recorded on it: annotations that fill the room
    /// there is, for instance.
    async fn say_refused(&self, versions: &mut Versions<'_>, why: &str) -> Result<(), Refusal> {
        let now = self.world.clock().now().wall;
        let key = &versions.plan.claim;
        let status = self.world.index().claim(key).known().and_then(|claim| {
            let same = claim.id.resource_version == versions.claim;
            same.then(|| refused(claim, why, now)).flatten()
        });
        match status {
            Some(status) => self.patch_claim(versions, Part::Status, status_patch(&status)).await,
            None => Ok(()),
        }
    }

    fn count_bind(&self, plan: &ClaimPlan, step: &ClaimStep) {
        let ClaimStep::Status(status) = step else { return };
        tracing::info!(phase = status.phase.as_str(), "claim is {}", status.phase.as_str());
        if status.phase == ClaimPhase::Bound {
            let age = self.world.clock().now().wall.duration_since(plan.created);
            self.metrics.bound(age.try_into().unwrap_or_default());
        }
    }
}

/// Says what became of an address, as its own pass does of phases.
fn say(step: &ClaimStep) {
    let (address, what) = match step {
        ClaimStep::Bind { address, .. } => (address, "bound"),
        ClaimStep::Complete { address, .. } => (address, "bound, as it was reserved"),
        ClaimStep::GiveUp { address } => (address, "given up"),
        ClaimStep::Release { address } => (address, "released"),
        ClaimStep::Delete { address } => (address, "asked to be deleted"),
        ClaimStep::Mark { .. } | ClaimStep::Status(_) | ClaimStep::Unprotect { .. } => return,
    };
    tracing::info!(address = %address.name, "address is {what}");
}

/// What the answer to a match says about who else is matching.
fn race(written: &Result<(), Refusal>) -> Option<Race> {
    match written {
        Ok(()) => Some(Race::Won),
        Err(Refusal::Conflict) => Some(Race::Lost),
        Err(Refusal::Absent | Refusal::Denied(_) | Refusal::Fenced | Refusal::Unanswered(_)) => {
            None
        }
    }
}

/// Whether this comes before a claim is let go: where it is refused for good, the claim goes all the
/// same, and the address's own pass finishes the reclaim.
fn holds_nothing_up(plan: &ClaimPlan, step: &ClaimStep) -> bool {
    let lets_go = |step: &ClaimStep| matches!(step, ClaimStep::Unprotect { .. });
    !lets_go(step) && plan.steps.iter().any(|planned| lets_go(&planned.step))
}

fn mark(finalizers: Option<&[Name]>, selections: Option<String>, stamp: Option<&Name>) -> Value {
    let mut body = json!({"metadata": {}});
    if let Some(finalizers) = finalizers {
        body["metadata"]["finalizers"] = json!(finalizers);
    }
    if let Some(selections) = selections {
        body["metadata"]["annotations"][SELECTED_ADDRESSES_ANNOTATION] = json!(selections);
    }
    if let Some(stamp) = stamp {
        body["metadata"]["annotations"][PROVISIONER_ANNOTATION] = json!(stamp);
    }
    body
}

fn claim_ref(key: &ClaimKey, uid: &Name, finalizers: &[Name]) -> Value {
    json!({
        "metadata": {"finalizers": finalizers},
        "spec": {"claimRef": {"namespace": key.namespace, "name": key.name, "uid": uid}},
    })
}

fn status_patch(status: &ClaimStatus) -> Value {
    let mut body = json!({"status": {
        "phase": status.phase,
        "addresses": status.addresses,
        "conditions": status.conditions,
    }});
    if let Some(class) = &status.class {
        body["status"]["className"] = json!(class);
    }
    body
}

fn phase(phase: AddressPhase) -> Value {
    json!({"status": {"phase": phase}})
}
