//! A world in which a claim's plans are carried out as the API server would, step by step, so that
//! tests can crash between any two writes and look again afterwards.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    api::{ClaimPhase, ConditionType},
    binder::{
        index::{Index, Strange},
        plan::{
            AddressStep, ClaimPlan, ClaimStatus, ClaimStep, Decision, Event, EventReason, Target,
        },
        testing::{Object, add, decide_address, decide_claim, key},
        view::{AddressView, ClaimView, Name},
    },
};

/// The provisioner of [`crate::binder::testing::class`].
pub(super) const DRIVER: &str = "fake.example.org";

/// What the API server holds.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    objects: BTreeMap<String, Object>,
    strange: BTreeSet<String>,
    version: u64,
}

/// One pass of a claim: what had to be read for it, and what it did.
#[derive(Debug)]
pub(super) struct Pass {
    /// The addresses that had to be read first.
    pub(super) reads: Vec<String>,
    /// What was decided then.
    pub(super) plan: ClaimPlan,
}

impl World {
    pub(super) fn of(objects: &[Object]) -> Self {
        let mut world = Self::default();
        for object in objects {
            world.put(object.clone());
        }
        world
    }

    /// Stores an object under the next resourceVersion.
    pub(super) fn put(&mut self, object: Object) {
        self.version += 1;
        self.objects.insert(id_of(&object), object.version(self.version));
    }

    /// Somebody else edits an object: `t1/web`, `a1` or `class public`.
    pub(super) fn edit(&mut self, id: &str, edit: impl FnOnce(Object) -> Object) {
        let object = self.objects.get(id).unwrap_or_else(|| panic!("{id} is there")).clone();
        self.put(edit(object));
    }

    pub(super) fn remove(&mut self, id: &str) {
        assert!(self.objects.remove(id).is_some(), "{id} was there");
    }

    /// From now on this address does not parse.
    pub(super) fn make_strange(&mut self, name: &str) {
        self.strange.insert(name.to_owned());
    }

    /// From now on it does again.
    pub(super) fn make_readable(&mut self, name: &str) {
        self.strange.remove(name);
    }

    /// A cache that has seen everything.
    pub(super) fn index(&self) -> Index {
        let mut index = Index::default();
        for (id, object) in &self.objects {
            if self.strange.contains(id) {
                let view = object.address();
                let strange = Strange {
                    uid: view.id.uid.clone(),
                    resource_version: view.id.resource_version.clone(),
                    error: "unknown variant".to_owned(),
                    ip: view.ip,
                    claim: view.claim_ref.as_ref().map(|r| r.key.clone()),
                };
                index.strange_address(&id.as_str().into(), strange);
            } else {
                add(&mut index, object);
            }
        }
        index
    }

    pub(super) fn claim(&self, id: &str) -> ClaimView {
        self.objects[id].claim()
    }

    pub(super) fn address(&self, name: &str) -> AddressView {
        self.objects[name].address()
    }

    /// The stored form of an object.
    pub(super) fn json(&self, id: &str) -> &Value {
        &self.objects[id].0
    }

    /// Decides a claim's pass and writes nothing.
    pub(super) fn look(&self, id: &str) -> Pass {
        look(&self.index(), id)
    }

    /// A whole pass. Afterwards nothing is left to do: a second look plans nothing.
    pub(super) fn pass(&mut self, id: &str) -> Pass {
        let pass = self.look(id);
        self.carry_out(&pass.plan, usize::MAX);
        if self.objects.contains_key(id) {
            let again = self.look(id).plan;
            assert_eq!(steps(&again), [""; 0], "then {:?}, now {:?}", pass.plan, again);
            assert_eq!(again.waiting, pass.plan.waiting, "and waits for the same");
        }
        pass
    }

    /// Passes until nothing is left to do; the addresses' own passes come between.
    pub(super) fn settle(&mut self, id: &str) {
        for _ in 0..6 {
            self.addresses_pass();
            let plan = self.look(id).plan;
            if plan.steps.is_empty() {
                return;
            }
            self.carry_out(&plan, usize::MAX);
        }
        panic!("{id} comes to no rest: {:?}", steps(&self.look(id).plan));
    }

    /// Carries out the first steps of a plan, each under its precondition.
    pub(super) fn carry_out(&mut self, plan: &ClaimPlan, first: usize) {
        let id = plan.claim.to_string();
        if !plan.steps.is_empty() {
            assert_eq!(self.claim(&id).id.resource_version, plan.version, "decided on this state");
        }
        for planned in plan.steps.iter().take(first) {
            self.write(&id, &planned.step);
        }
    }

    fn write(&mut self, id: &str, step: &ClaimStep) {
        let claim_uid = self.claim(id).id.uid;
        match step {
            ClaimStep::Mark { finalizers, selections, stamp } => self.edit(id, |mut o| {
                if let Some(finalizers) = finalizers {
                    o = o.set("/metadata/finalizers", texts(finalizers));
                }
                if let Some(selections) = selections {
                    o = o.selected(&selections.to_string());
                }
                stamp.iter().fold(o, |o, s| o.stamp(s))
            }),
            ClaimStep::GiveUp { address } => {
                self.at(address);
                self.edit(&address.name, |o| o.phase("Pending"));
            }
            ClaimStep::Bind { address, finalizers, .. } => {
                assert!(self.claim(id).protected(), "protected before anything is bound");
                assert!(self.at(address).claim_ref.is_none(), "{} was free", address.name);
                self.hold(id, &claim_uid, address, finalizers);
            }
            ClaimStep::Complete { address, finalizers } => {
                self.at(address);
                self.hold(id, &claim_uid, address, finalizers);
            }
            ClaimStep::Status(status) => self.edit(id, |o| with_status(o, status)),
            ClaimStep::Release { address } => self.edit(&address.name, |o| o.phase("Released")),
            ClaimStep::Delete { address } => self.remove(&address.name),
            ClaimStep::Unprotect { finalizers } => {
                self.edit(id, |o| o.set("/metadata/finalizers", texts(finalizers)));
                if finalizers.is_empty() && self.claim(id).id.deleting {
                    self.remove(id);
                }
            }
        }
    }

    fn hold(&mut self, id: &str, uid: &Name, address: &Target, finalizers: &[Name]) {
        self.edit(&address.name, |o| {
            o.held_by(id, Some(uid)).set("/metadata/finalizers", texts(finalizers))
        });
    }

    /// The address, in the very state that a step was decided on.
    fn at(&self, target: &Target) -> AddressView {
        let address = self.address(&target.name);
        assert_eq!(address.id.resource_version, target.version, "{} as decided on", target.name);
        assert_eq!(address.id.uid, target.uid);
        address
    }

    /// Each address's own pass, on what the API server says.
    pub(super) fn addresses_pass(&mut self) {
        let index = self.index();
        let names: Vec<Name> = index.addresses().map(|a| a.name.clone()).collect();
        for name in names {
            let Decision::Act(plan) = decide_address(&index, &name, true) else {
                panic!("{name} was read")
            };
            for planned in plan.steps {
                match planned.step {
                    AddressStep::Protect { finalizers } => {
                        self.edit(&name, |o| o.set("/metadata/finalizers", texts(&finalizers)));
                    }
                    AddressStep::Phase(phase) => self.edit(&name, |o| o.phase(phase.as_str())),
                    AddressStep::Delete | AddressStep::Unprotect { .. } => self.remove(&name),
                }
            }
        }
    }
}

/// Decides a claim's pass on an index; what is asked for counts as read, and as it is there.
pub(super) fn look(index: &Index, id: &str) -> Pass {
    match decide_claim(index, id, &[]) {
        Decision::Act(plan) => Pass { reads: Vec::new(), plan },
        Decision::Read(names) => {
            let reads: Vec<String> = names.iter().map(ToString::to_string).collect();
            let confirmed: Vec<&str> = reads.iter().map(String::as_str).collect();
            match decide_claim(index, id, &confirmed) {
                Decision::Act(plan) => Pass { reads, plan },
                Decision::Read(more) => panic!("read {reads:?}, and still asks for {more:?}"),
            }
        }
    }
}

impl Pass {
    pub(super) fn steps(&self) -> Vec<String> {
        steps(&self.plan)
    }

    pub(super) fn events(&self) -> Vec<EventReason> {
        self.told().iter().map(|e| e.reason).collect()
    }

    pub(super) fn told(&self) -> Vec<&Event> {
        self.plan.steps.iter().flat_map(|p| &p.events).collect()
    }

    /// The names of the addresses that were chosen.
    pub(super) fn chosen(&self) -> Vec<&str> {
        self.plan.chosen().map(|(name, _)| &**name).collect()
    }

    /// The status that is written.
    pub(super) fn status(&self) -> &ClaimStatus {
        self.plan
            .steps
            .iter()
            .find_map(|p| match &p.step {
                ClaimStep::Status(status) => Some(status),
                _ => None,
            })
            .unwrap_or_else(|| panic!("no status among {:?}", self.steps()))
    }
}

/// The steps of a plan, a line each.
pub(super) fn steps(plan: &ClaimPlan) -> Vec<String> {
    plan.steps.iter().map(|p| line(&p.step)).collect()
}

fn line(step: &ClaimStep) -> String {
    match step {
        ClaimStep::Mark { finalizers, selections, stamp } => {
            let parts = [
                Some("mark".to_owned()),
                finalizers.as_ref().map(|_| "finalizer".to_owned()),
                selections.as_ref().map(ToString::to_string),
                stamp.as_ref().map(|stamp| format!("stamp={stamp}")),
            ];
            parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
        }
        ClaimStep::GiveUp { address } => format!("give-up {}", address.name),
        ClaimStep::Bind { address, family, .. } => format!("bind {} {family}", address.name),
        ClaimStep::Complete { address, .. } => format!("complete {}", address.name),
        ClaimStep::Status(status) => {
            let names = status.addresses.iter().map(|a| a.name.as_str());
            let words = ["status", status.phase.as_str()].into_iter().chain(names);
            words.collect::<Vec<_>>().join(" ")
        }
        ClaimStep::Release { address } => format!("release {}", address.name),
        ClaimStep::Delete { address } => format!("delete {}", address.name),
        ClaimStep::Unprotect { .. } => "unprotect".to_owned(),
    }
}

/// What is published: name, address.
pub(super) fn published(claim: &ClaimView) -> Vec<(&str, &str)> {
    claim.published.iter().map(|a| (a.name.as_str(), a.address.as_str())).collect()
}

/// A condition as `status/reason`.
pub(super) fn condition(claim: &ClaimView, kind: ConditionType) -> Option<String> {
    let condition = claim.conditions.iter().find(|c| c.type_ == kind.as_str())?;
    Some(format!("{}/{}", condition.status, condition.reason))
}

/// The message of the condition `Bound`.
pub(super) fn why(claim: &ClaimView) -> &str {
    let bound = claim.conditions.iter().find(|c| c.type_ == "Bound");
    bound.map_or("", |c| c.message.as_str())
}

pub(super) fn assert_phase(world: &World, id: &str, phase: ClaimPhase) {
    let claim = world.claim(id);
    assert_eq!(claim.phase, Some(phase), "{id}: {}", why(&claim));
}

/// An index in which one claim is being bound to an address at this moment.
pub(super) fn being_bound(world: &World, name: &str, by: &str) -> Index {
    let mut index = world.index();
    index.decided(&key(by), created(), Vec::new(), [Name::from(name)]);
    index
}

fn created() -> jiff::Timestamp {
    crate::binder::testing::now() - Duration::from_mins(1)
}

fn with_status(object: Object, status: &ClaimStatus) -> Object {
    let addresses: Vec<Value> =
        status.addresses.iter().map(|a| json!({"name": a.name, "address": a.address})).collect();
    let object = object
        .phase(status.phase.as_str())
        .set("/status/addresses", addresses)
        .set("/status/conditions", serde_json::to_value(&status.conditions).unwrap());
    status.class.iter().fold(object, |o, class| o.resolved(class))
}

fn texts(names: &[Name]) -> Vec<Value> {
    names.iter().map(|n| json!(&**n)).collect()
}

fn id_of(object: &Object) -> String {
    let text = |path: &str| object.0.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let name = text("/metadata/name");
    match text("/kind") {
        "IPAddress" => name.to_owned(),
        "IPAddressClaim" => format!("{}/{name}", text("/metadata/namespace")),
        _ => format!("class {name}"),
    }
}
