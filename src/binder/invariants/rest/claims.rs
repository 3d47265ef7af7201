//! The claims' half of what must hold at rest.

use std::{collections::BTreeMap, fmt::Debug};

use super::{Rest, is_deleting};
use crate::{
    api::{
        AddressPhase, BoundReason, ClaimPhase, ClaimedAddress, ClassResolvedReason, ConditionType,
        IPAddress, IPAddressClaim, IPAddressClass, IpFamily,
        well_known::{CLAIM_FINALIZER, PROVISIONER_ANNOTATION},
    },
    binder::invariants::{
        Kind, World,
        delta::has_finalizer,
        world::{ip_of, phase_of},
    },
};

/// The first free address of each class and family.
type Free<'a> = BTreeMap<(&'a str, IpFamily), &'a str>;

pub(super) fn judge(world: &World, rest: &mut Rest) {
    let free = free(world);
    for ((namespace, name), claim) in &world.claims {
        let view = View::new(world, claim, &free);
        for problem in view.problems() {
            rest.add(Kind::Claim, &format!("{namespace}/{name}"), problem);
        }
    }
}

fn free(world: &World) -> Free<'_> {
    let mut free = Free::new();
    for (name, address) in &world.addresses {
        if let Some(family) = can_be_had(world, name, address) {
            free.entry((&address.spec.class_name, family)).or_insert(name);
        }
    }
    free
}

/// The family of an address that may be matched.
fn can_be_had(world: &World, name: &str, address: &IPAddress) -> Option<IpFamily> {
    let ip = ip_of(address)?;
    let free = phase_of(address) == Some(AddressPhase::Available)
        && address.spec.claim_ref.is_none()
        && !is_deleting(&address.metadata)
        && !world.is_duplicate(name, ip);
    free.then(|| IpFamily::of(ip))
}

/// Which class serves a claim, or why none does.
enum Resolution<'a> {
    Class(&'a IPAddressClass),
    Refused(ClassResolvedReason),
    /// A class that cannot be read is in question.
    Unknown,
}

/// A claim, with what the world says of it.
struct View<'a> {
    world: &'a World,
    claim: &'a IPAddressClaim,
    free: &'a Free<'a>,
    collected: Vec<&'a IPAddress>,
    missing: Vec<IpFamily>,
}

impl<'a> View<'a> {
    fn new(world: &'a World, claim: &'a IPAddressClaim, free: &'a Free<'a>) -> Self {
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        let lost = |a: &IPAddress| phase_of(a) == Some(AddressPhase::Lost);
        let collected: Vec<_> =
            world.held_by(uid).filter(|a| !(is_deleting(&a.metadata) && lost(a))).collect();
        let has = |family: IpFamily| {
            collected.iter().any(|a| ip_of(a).map(IpFamily::of) == Some(family) && !lost(a))
        };
        let missing = claim.spec.family.wanted().iter().copied().filter(|f| !has(*f)).collect();
        Self { world, claim, free, collected, missing }
    }

    fn problems(&self) -> Vec<String> {
        let protected = has_finalizer(&self.claim.metadata, CLAIM_FINALIZER);
        if is_deleting(&self.claim.metadata) {
            let stuck = protected.then(|| "its deletion is stuck on our finalizer".to_owned());
            return stuck.into_iter().collect();
        }
        if self.lists_unreadable() {
            return Vec::new();
        }
        let mut problems = Vec::new();
        if !protected && !self.collected.is_empty() {
            problems.push("it holds addresses and is not protected".to_owned());
        }
        problems.extend(self.published_problem());
        problems.extend(self.phase_problems());
        if !self.missing.is_empty() {
            self.class_problems(&mut problems);
        }
        problems
    }

    /// Whether the claim lists an address that cannot be read: then nothing is known of it.
    fn lists_unreadable(&self) -> bool {
        self.listed().iter().any(|e| self.world.is_unreadable(Kind::Address, None, &e.name))
    }

    fn listed(&self) -> &[ClaimedAddress] {
        self.claim.status.as_ref().map_or(&[], |s| s.addresses.as_slice())
    }

    /// What is collected is listed, by name, and nothing else is. An address that satisfies no
    /// family (`Lost`, or not one IP) may be listed or not.
    fn published_problem(&self) -> Option<String> {
        let mut listed = self.listed().to_vec();
        let entry = |a: &&IPAddress| ClaimedAddress {
            name: a.metadata.name.clone().unwrap_or_default(),
            address: a.spec.address.clone(),
        };
        let optional =
            |a: &&IPAddress| phase_of(a) == Some(AddressPhase::Lost) || ip_of(a).is_none();
        let sorted = listed.is_sorted();
        let collected = || self.collected.iter().copied();
        let allowed: Vec<_> = collected().filter(optional).map(|a| entry(&a)).collect();
        listed.retain(|e| !allowed.contains(e));
        let mut wanted: Vec<_> = collected().filter(|a| !optional(a)).map(|a| entry(&a)).collect();
        wanted.sort();
        let wrong = listed != wanted || !sorted;
        wrong.then(|| format!("it publishes {:?}, but holds {wanted:?}", self.listed()))
    }

    /// The phase follows from what is held and from the phase before; the condition from the phase.
    fn phase_problems(&self) -> Vec<String> {
        let uid = self.claim.metadata.uid.as_deref().unwrap_or_default();
        let was_bound = self.world.past(uid).is_some_and(|p| p.was_bound);
        let (wanted, reason) = match (self.missing.is_empty(), was_bound) {
            (true, _) => (ClaimPhase::Bound, BoundReason::Bound),
            (false, true) => (ClaimPhase::Lost, BoundReason::AddressLost),
            (false, false) => (ClaimPhase::Pending, BoundReason::WaitingForProvisioning),
        };
        let phase = self.claim.status.as_ref().and_then(|s| s.phase);
        let mut problems = Vec::new();
        if phase != Some(wanted) {
            let missing = &self.missing;
            problems.push(format!("it is {phase:?}, not {wanted:?}; missing: {missing:?}"));
        }
        let is_bound = wanted == ClaimPhase::Bound;
        problems.extend(self.condition_problem(ConditionType::Bound, is_bound, reason.as_str()));
        problems
    }

    fn condition_problem(&self, kind: ConditionType, is: bool, reason: &str) -> Option<String> {
        let status = if is { "True" } else { "False" };
        let conditions = self.claim.status.iter().flat_map(|s| &s.conditions);
        let of_kind: Vec<_> = conditions.filter(|c| c.type_ == kind.as_str()).collect();
        match of_kind.as_slice() {
            [one]
                if one.status == status
                    && one.reason == reason
                    && one.observed_generation.is_some() =>
            {
                None
            }
            found => Some(format!("{kind:?} should be {status} ({reason}), is {:?}", Brief(found))),
        }
    }

    fn class_problems(&self, problems: &mut Vec<String>) {
        match self.resolve() {
            Resolution::Unknown => {}
            Resolution::Refused(reason) => problems.extend(self.condition_problem(
                ConditionType::ClassResolved,
                false,
                reason.as_str(),
            )),
            Resolution::Class(class) => {
                let resolved = ClassResolvedReason::Resolved.as_str();
                problems.extend(self.condition_problem(
                    ConditionType::ClassResolved,
                    true,
                    resolved,
                ));
                self.match_problems(class, problems);
            }
        }
    }

    /// A family that was never held, or that the owner asks for by name, is matched if it can be.
    /// While one waits, the claim is stamped for the driver.
    fn match_problems(&self, class: &IPAddressClass, problems: &mut Vec<String>) {
        let uid = self.claim.metadata.uid.as_deref().unwrap_or_default();
        let class_name = class.metadata.name.as_deref().unwrap_or_default();
        let pin = self.claim.spec.address_name.as_deref().filter(|p| !p.is_empty());
        for family in &self.missing {
            let held = self.world.past(uid).is_some_and(|p| p.held.contains(family));
            let candidate = match pin {
                Some(pin) => self.pinned(pin, class_name, *family),
                None if held => None,
                None => self.free.get(&(class_name, *family)).copied(),
            };
            if let Some(candidate) = candidate {
                problems.push(format!("it waits for {family}, and {candidate} can be had"));
            }
            let stamp = self
                .claim
                .metadata
                .annotations
                .as_ref()
                .and_then(|a| a.get(PROVISIONER_ANNOTATION));
            if !held && stamp != Some(&class.spec.provisioner) {
                problems.push(format!(
                    "it waits for {family}, stamped {stamp:?} instead of {:?}",
                    class.spec.provisioner
                ));
            }
        }
    }

    fn pinned<'b>(&self, pin: &'b str, class: &str, family: IpFamily) -> Option<&'b str> {
        let address = self.world.address(pin)?;
        let fits = address.spec.class_name == class
            && can_be_had(self.world, pin, address) == Some(family);
        fits.then_some(pin)
    }

    /// The class that the claim names, else the one that it resolved to before, else the default.
    fn resolve(&self) -> Resolution<'a> {
        let named = self.claim.spec.class_name.as_deref().filter(|n| !n.is_empty());
        let sticky = self.claim.status.as_ref().and_then(|s| s.class_name.as_deref());
        if let Some(name) = named.or(sticky.filter(|n| !n.is_empty())) {
            return match self.world.class(name) {
                Some(class) => Resolution::Class(class),
                None if self.world.is_unreadable(Kind::Class, None, name) => Resolution::Unknown,
                None => Resolution::Refused(ClassResolvedReason::ClassNotFound),
            };
        }
        if self.world.any_class_unreadable() {
            return Resolution::Unknown;
        }
        let mut defaults = self.world.classes.values().filter(|c| c.is_default());
        match (defaults.next(), defaults.next()) {
            (Some(class), None) => Resolution::Class(class),
            (None, _) => Resolution::Refused(ClassResolvedReason::NoDefaultClass),
            (Some(_), Some(_)) => Resolution::Refused(ClassResolvedReason::MultipleDefaultClasses),
        }
    }
}

/// Conditions, as short as a message wants them.
struct Brief<'a>(&'a [&'a k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition]);

impl Debug for Brief<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let each = self.0.iter().map(|c| (&c.status, &c.reason, c.observed_generation));
        f.debug_list().entries(each).finish()
    }
}
