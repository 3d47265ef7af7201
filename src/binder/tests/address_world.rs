//! Objects that plans are carried out on, as an API server would: each write on the state that was
//! decided on, finalizers before anything vanishes. What a plan leaves can then be decided again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::binder::{
    index::{Index, Strange},
    plan::{AddressPlan, AddressStep, ClaimPlan, ClaimStep, Decision, EventReason, Target},
    testing::{Object, world},
    view::{ClaimKey, Name},
};

/// The objects of a cluster by kind and name.
pub(super) struct Cluster {
    objects: BTreeMap<String, Object>,
    version: u64,
}

impl Cluster {
    pub(super) fn of(objects: &[Object]) -> Self {
        let objects = objects.iter().map(|o| (path_of(o), o.clone())).collect();
        Self { objects, version: 1000 }
    }

    /// Everything as a cache without lag would show it.
    pub(super) fn index(&self) -> Index {
        world(&self.objects.values().cloned().collect::<Vec<_>>())
    }

    pub(super) fn address(&self, name: &str) -> Option<&Object> {
        self.objects.get(&format!("IPAddress {name}"))
    }

    pub(super) fn claim(&self, key: &str) -> Option<&Object> {
        self.objects.get(&format!("IPAddressClaim {key}"))
    }

    /// Puts an object as somebody else's write leaves it.
    pub(super) fn put(&mut self, object: Object) {
        self.version += 1;
        self.objects.insert(path_of(&object), object.version(self.version));
    }

    pub(super) fn carry_out(&mut self, plan: &AddressPlan) {
        let path = format!("IPAddress {}", plan.address.name);
        self.hold(&plan.address);
        for planned in &plan.steps {
            match &planned.step {
                AddressStep::Protect { finalizers } | AddressStep::Unprotect { finalizers } => {
                    self.finalize(&path, finalizers);
                }
                AddressStep::Phase(phase) => {
                    self.edit(&path, |o| o.phase(phase.as_str()));
                }
                AddressStep::Delete => self.delete(&path),
            }
        }
    }

    /// Carries out the first `count` steps of a claim's plan.
    pub(super) fn carry_out_claim(&mut self, plan: &ClaimPlan, count: usize) {
        let claim_path = format!("IPAddressClaim {}", plan.claim);
        let mut held = BTreeSet::new();
        for planned in plan.steps.iter().take(count) {
            if let Some(target) = planned.step.address()
                && held.insert(target.name.clone())
            {
                self.hold(target);
            }
            self.step_of_claim(plan, &claim_path, &planned.step);
        }
    }

    fn step_of_claim(&mut self, plan: &ClaimPlan, claim_path: &str, step: &ClaimStep) {
        match step {
            ClaimStep::Unprotect { finalizers } => self.finalize(claim_path, finalizers),
            ClaimStep::Complete { address, finalizers } => {
                let path = format!("IPAddress {}", address.name);
                self.edit(&path, |o| o.held_by(&plan.claim.to_string(), Some(&plan.uid)));
                self.finalize(&path, finalizers);
            }
            ClaimStep::Release { address } => {
                self.edit(&format!("IPAddress {}", address.name), |o| o.phase("Released"));
            }
            ClaimStep::Delete { address } => self.delete(&format!("IPAddress {}", address.name)),
            ClaimStep::GiveUp { address } => {
                self.edit(&format!("IPAddress {}", address.name), |o| o.phase("Pending"));
            }
            ClaimStep::Mark { .. } | ClaimStep::Bind { .. } | ClaimStep::Status(_) => {
                panic!("{} has no part in a reclaim", step.name());
            }
        }
    }

    /// The precondition of a write: the object is as it was decided on.
    fn hold(&self, target: &Target) {
        let object = self.address(&target.name).expect("the address that is written exists");
        assert_eq!(object.0["metadata"]["uid"], json!(&*target.uid), "{target:?}");
        assert_eq!(object.0["metadata"]["resourceVersion"], json!(&*target.version), "{target:?}");
    }

    fn edit(&mut self, path: &str, change: impl FnOnce(Object) -> Object) {
        let object = self.objects.remove(path).expect("the object that is written exists");
        self.version += 1;
        self.objects.insert(path.to_owned(), change(object).version(self.version));
    }

    fn finalize(&mut self, path: &str, finalizers: &[Name]) {
        let all: Vec<_> = finalizers.iter().map(|f| json!(&**f)).collect();
        self.edit(path, |o| o.set("/metadata/finalizers", all));
        self.collect_garbage(path);
    }

    fn delete(&mut self, path: &str) {
        self.edit(path, Object::deleting);
        self.collect_garbage(path);
    }

    fn collect_garbage(&mut self, path: &str) {
        let meta = &self.objects[path].0["metadata"];
        let held = meta["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        if !meta["deletionTimestamp"].is_null() && !held {
            self.objects.remove(path);
        }
    }
}

fn path_of(object: &Object) -> String {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let meta = &object.0["metadata"];
    let namespace = meta["namespace"].as_str().map(|n| format!("{n}/")).unwrap_or_default();
    format!("{} {namespace}{}", text(&object.0["kind"]), text(&meta["name"]))
}

/// An object that this version cannot read.
pub(super) fn strange(uid: &str, version: u64) -> Strange {
    Strange {
        uid: uid.into(),
        resource_version: version.to_string().into(),
        error: "unknown variant".to_owned(),
        ip: None,
        claim: None,
    }
}

/// An address's decision in words, such as `protect, phase Bound` or `read t1/web`.
pub(super) fn words(decision: &Decision<AddressPlan, ClaimKey>) -> String {
    let plan = match decision {
        Decision::Read(keys) => {
            let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
            return format!("read {}", keys.join(", "));
        }
        Decision::Act(plan) => plan,
    };
    let steps = plan.steps.iter().map(|p| match &p.step {
        AddressStep::Phase(phase) => format!("phase {}", phase.as_str()),
        step => step.name().to_owned(),
    });
    let notices = plan.notices.iter().map(|e| e.reason.as_str().to_owned());
    let wait = plan.look_again.map(|rest| format!("wait {}s", rest.as_secs()));
    let all: Vec<_> = steps.chain(notices).chain(wait).collect();
    if all.is_empty() { "-".to_owned() } else { all.join(", ") }
}

/// The plan of a decision that needs no read.
pub(super) fn acted(decision: Decision<AddressPlan, ClaimKey>) -> AddressPlan {
    match decision {
        Decision::Act(plan) => plan,
        Decision::Read(keys) => panic!("asks for {keys:?}"),
    }
}

/// Everything that a plan tells, with a write or without.
pub(super) fn told(plan: &AddressPlan) -> Vec<EventReason> {
    let with_steps = plan.steps.iter().flat_map(|p| &p.events);
    with_steps.chain(&plan.notices).map(|e| e.reason).collect()
}
