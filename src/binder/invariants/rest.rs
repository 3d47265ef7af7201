//! What must hold when nobody writes any more (I9): all that could be done has been.
//!
//! Left out on purpose: a reservation for a claim that does not exist waits for a time that is not
//! known here, so nothing is asked of it.

use super::{
    Kind, Rule, Violation, World,
    delta::{has_finalizer, is_deleting},
    world::{ip_of, phase_of, uid_of},
};
use crate::api::{AddressPhase, IPAddress, ReclaimPolicy, well_known::ADDRESS_FINALIZER};

mod claims;

impl World {
    /// What should have been done and was not, if the world is at rest. Each is a violation of I9.
    pub fn at_rest(&self) -> Vec<Violation> {
        let mut rest = Rest { revision: self.revision, violations: Vec::new() };
        for (name, address) in &self.addresses {
            if let Some(problem) = address_problem(self, address) {
                rest.add(Kind::Address, name, problem);
            }
        }
        claims::judge(self, &mut rest);
        rest.violations
    }
}

struct Rest {
    revision: u64,
    violations: Vec<Violation>,
}

impl Rest {
    fn add(&mut self, kind: Kind, name: &str, message: String) {
        self.violations.push(Violation {
            rule: Rule::I9,
            revision: self.revision,
            object: format!("{} {name}", kind.as_str()),
            message,
        });
    }
}

/// What an address still waits for, if anything.
fn address_problem(world: &World, address: &IPAddress) -> Option<String> {
    let phase = phase_of(address);
    let protected = has_finalizer(&address.metadata, ADDRESS_FINALIZER);
    if is_deleting(&address.metadata) {
        let blocked = world.live_holder(address).is_some() && phase != Some(AddressPhase::Lost);
        let stuck = protected && !blocked && !holder_is_unreadable(world, address);
        return stuck.then(|| "its deletion is stuck on our finalizer".to_owned());
    }
    if !protected {
        return Some("it is not protected".to_owned());
    }
    if phase.is_some_and(AddressPhase::is_drivers) {
        return None;
    }
    if ip_of(address).is_none() {
        let wrong = phase != Some(AddressPhase::Pending);
        return wrong.then(|| format!("its text is not one IP, yet it is {phase:?}"));
    }
    match expected(world, address) {
        Expected::Unknown => None,
        Expected::Phase(wanted) if phase == Some(wanted) => None,
        Expected::Phase(wanted) => Some(format!("it is {phase:?}, not {wanted:?}")),
        Expected::Completed => Some("its claimRef still has no uid, and the claim exists".into()),
        Expected::Deleted => {
            Some("its claim is gone and its policy is Delete, yet it is there".into())
        }
    }
}

/// What has become of an address when everything is done.
enum Expected {
    /// It has this phase.
    Phase(AddressPhase),
    /// Its `claimRef` has a uid.
    Completed,
    /// It is gone, or being deleted.
    Deleted,
    /// It depends on what is not known here.
    Unknown,
}

fn holder_is_unreadable(world: &World, address: &IPAddress) -> bool {
    address
        .spec
        .claim_ref
        .as_ref()
        .is_some_and(|r| world.is_unreadable(Kind::Claim, Some(&r.namespace), &r.name))
}

fn expected(world: &World, address: &IPAddress) -> Expected {
    let Some(reference) = &address.spec.claim_ref else {
        return Expected::Phase(AddressPhase::Available);
    };
    if holder_is_unreadable(world, address) {
        return Expected::Unknown;
    }
    let claim = world.claim(&reference.namespace, &reference.name);
    match (uid_of(reference), claim) {
        // A claim that does not go is reported by itself.
        (_, Some(claim)) if is_deleting(&claim.metadata) => Expected::Unknown,
        (Some(uid), Some(claim)) if claim.metadata.uid.as_deref() == Some(uid) => {
            Expected::Phase(AddressPhase::Bound)
        }
        (Some(_), Some(_) | None) => match address.spec.reclaim_policy {
            ReclaimPolicy::Retain => Expected::Phase(AddressPhase::Released),
            ReclaimPolicy::Delete => Expected::Deleted,
        },
        (None, Some(_)) => Expected::Completed,
        (None, None) => Expected::Unknown,
    }
}
