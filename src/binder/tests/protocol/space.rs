//! Objects, plans and decisions by number, so that states are small and each decision and each
//! write is worked out once.

use std::{collections::BTreeSet, time::Duration};

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::super::{
    checks::{self, Commit, History},
    store::{Id, What, Write, address_writes, applied, claim_writes, without_counters},
};
use crate::binder::{
    address, claim,
    index::Index,
    plan::Decision,
    testing::{Object, now},
    view::{AddressView, ClaimView, Name},
};

/// The most objects that passes are about.
pub(super) const SLOTS: usize = 4;
/// An object's state by number; 0 is absent.
pub(super) type Number = u16;
/// What every slot holds.
pub(super) type Contents = [Number; SLOTS];
/// A set of slots.
pub(super) type Mask = u8;

/// A guard of the protocol that is left out, to see that the check finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// The protocol.
    Sound,
    /// The selection is not written when the same name is chosen again.
    KeepsTheText,
    /// A claim's pass takes its cache's word for what should be read.
    TrustsTheCacheOfAddresses,
    /// An address's pass does.
    TrustsTheCacheOfClaims,
    /// The address is bound on the version that it has after the selection.
    BindsOnNewer,
    /// After a read, the newest state of the claim is decided on, and the read still counts.
    LooksAtTheClaimAgain,
    /// The same for addresses.
    LooksAtTheAddressAgain,
    /// A choice that is still free is given up without a write to it.
    GivesUpSilently,
}

enum View {
    Address(AddressView),
    Claim(ClaimView),
}

struct Entry {
    value: Value,
    view: View,
}

/// What a pass comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Nothing,
    Read(Mask),
    Job(u16),
}

/// What a write comes to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    Refused,
    /// The object's new state, and whether it changed, as a counter does that is not in the number.
    Written(Number, bool),
}

/// Every matched address was matched, every released one released by the controller: the others of
/// these worlds do neither.
struct Plain;

impl History for Plain {
    fn matched(&self, _address: &str, _claim: &str) -> bool {
        true
    }
    fn released(&self, _address: &str, _claim: &str) -> bool {
        true
    }
    fn unchanged(&self, _object: &Value) -> bool {
        true
    }
}

pub(super) struct Space {
    pub(super) variant: Variant,
    /// What each slot is for. Claims first.
    pub(super) slots: Vec<Id>,
    /// Objects that never change and that every cache has.
    fixed: Vec<Object>,
    entries: Vec<Option<Entry>>,
    numbers: FxHashMap<String, Number>,
    jobs: Vec<Vec<Write>>,
    job_numbers: FxHashMap<String, u16>,
    decisions: FxHashMap<(usize, Number, Contents, Mask), Choice>,
    outcomes: FxHashMap<(Number, u16, u8), Outcome>,
    checked: FxHashMap<(Contents, u16, u8), Option<String>>,
}

impl Space {
    pub(super) fn new(variant: Variant, slots: Vec<Id>, fixed: Vec<Object>) -> Self {
        assert!(slots.len() <= SLOTS);
        Self {
            variant,
            slots,
            fixed,
            entries: vec![None],
            numbers: FxHashMap::default(),
            jobs: Vec::new(),
            job_numbers: FxHashMap::default(),
            decisions: FxHashMap::default(),
            outcomes: FxHashMap::default(),
            checked: FxHashMap::default(),
        }
    }

    pub(super) fn number(&mut self, value: Value) -> Number {
        let mut value = without_counters(value);
        value["metadata"]["resourceVersion"] = json!("0");
        let text = value.to_string();
        if let Some(number) = self.numbers.get(&text) {
            return *number;
        }
        let number = Number::try_from(self.entries.len()).unwrap();
        let object = Object(value.clone());
        let view = if checks::is_address(&value) {
            View::Address(object.address())
        } else {
            View::Claim(object.claim())
        };
        self.entries.push(Some(Entry { value, view }));
        self.numbers.insert(text, number);
        number
    }

    pub(super) fn value(&self, number: Number) -> Option<&Value> {
        self.entries[usize::from(number)].as_ref().map(|e| &e.value)
    }

    pub(super) fn values(&self, contents: &Contents) -> Vec<&Value> {
        contents.iter().filter_map(|n| self.value(*n)).collect()
    }

    pub(super) fn slot(&self, id: &Id) -> usize {
        self.slots.iter().position(|s| s == id).expect("a slot for every object that is written")
    }

    pub(super) fn job(&self, job: u16) -> &[Write] {
        &self.jobs[usize::from(job)]
    }

    fn index(&self, contents: &Contents) -> Index {
        let mut index = Index::default();
        for object in &self.fixed {
            crate::binder::testing::add(&mut index, object);
        }
        for number in contents {
            match self.entries[usize::from(*number)].as_ref().map(|e| &e.view) {
                None => {}
                Some(View::Address(a)) => {
                    index.apply_address(a.clone(), Duration::ZERO);
                }
                Some(View::Claim(c)) => {
                    index.apply_claim(c.clone());
                }
            }
        }
        index
    }

    /// Decides the pass of one slot's object, in the state that it began with.
    pub(super) fn decide(
        &mut self,
        slot: usize,
        object: Number,
        contents: &Contents,
        confirmed: Mask,
    ) -> Choice {
        let key = (slot, object, *contents, confirmed);
        if let Some(choice) = self.decisions.get(&key) {
            return *choice;
        }
        let choice = self.work_out(object, contents, confirmed);
        self.decisions.insert(key, choice);
        choice
    }

    fn work_out(&mut self, object: Number, contents: &Contents, confirmed: Mask) -> Choice {
        let index = self.index(contents);
        let writes = match &self.entries[usize::from(object)].as_ref().unwrap().view {
            View::Claim(claim) => {
                let names: BTreeSet<Name> = self.names(confirmed);
                let facts = claim::Facts { index: &index, claim, confirmed: &names, now: now() };
                match claim::decide(&facts) {
                    Decision::Read(names) => {
                        return Choice::Read(self.mask(names.into_iter().map(Id::Address)));
                    }
                    Decision::Act(plan) => self.weakened(claim, claim_writes(&plan)),
                }
            }
            View::Address(address) => {
                let facts = address::Facts {
                    index: &index,
                    address,
                    confirmed: confirmed != 0,
                    now: now(),
                    moment: Duration::from_hours(2),
                    grace: Duration::from_mins(5),
                };
                match address::decide(&facts) {
                    Decision::Read(keys) => {
                        return Choice::Read(self.mask(keys.into_iter().map(Id::Claim)));
                    }
                    Decision::Act(plan) => address_writes(&plan),
                }
            }
        };
        if writes.is_empty() { Choice::Nothing } else { Choice::Job(self.job_number(writes)) }
    }

    /// A claim's plan with the variant's guard left out.
    fn weakened(&self, claim: &ClaimView, mut writes: Vec<Write>) -> Vec<Write> {
        let kept = |write: &Write| {
            let What::Patch(patch) = &write.what else { return false };
            let text = patch["metadata"]["annotations"].as_object();
            let names = |text: &str| {
                crate::binder::selection::Selections::parse(text)
                    .names()
                    .cloned()
                    .collect::<Vec<_>>()
            };
            patch["metadata"]["finalizers"].is_null()
                && text.is_some_and(|all| {
                    all.len() == 1
                        && all.values().all(|t| {
                            names(t.as_str().unwrap_or_default())
                                == names(&claim.selections.to_string())
                        })
                })
        };
        match self.variant {
            Variant::KeepsTheText => writes.retain(|w| w.step != "mark" || !kept(w)),
            Variant::GivesUpSilently => writes.retain(|w| w.step != "give-up"),
            _ => {}
        }
        writes
    }

    fn names(&self, mask: Mask) -> BTreeSet<Name> {
        let named = self.slots.iter().enumerate().filter(|(i, _)| mask & (1 << i) != 0);
        named
            .filter_map(|(_, id)| match id {
                Id::Address(name) => Some(name.clone()),
                Id::Class(_) | Id::Claim(_) => None,
            })
            .collect()
    }

    /// The slots of these; of what never changes, a bit that stands for no slot.
    fn mask(&self, ids: impl Iterator<Item = Id>) -> Mask {
        ids.map(|id| 1 << self.slots.iter().position(|s| *s == id).unwrap_or(7)).sum()
    }

    fn job_number(&mut self, writes: Vec<Write>) -> u16 {
        let text = format!("{writes:?}");
        if let Some(number) = self.job_numbers.get(&text) {
            return *number;
        }
        let number = u16::try_from(self.jobs.len()).unwrap();
        self.jobs.push(writes);
        self.job_numbers.insert(text, number);
        number
    }

    /// What a job's write makes of an object whose version is as it should be.
    pub(super) fn outcome(&mut self, object: Number, job: u16, at: u8) -> Outcome {
        if let Some(outcome) = self.outcomes.get(&(object, job, at)) {
            return *outcome;
        }
        let before = self.value(object).expect("a current version is of an object that is there");
        let write = &self.job(job)[usize::from(at)];
        let outcome = match applied(before, &write.what) {
            Err(_) => Outcome::Refused,
            Ok(None) => Outcome::Written(0, true),
            Ok(Some(new)) => {
                let changed = new != *before;
                Outcome::Written(self.number(new), changed)
            }
        };
        self.outcomes.insert((object, job, at), outcome);
        outcome
    }

    /// What somebody else's write makes of an object.
    pub(super) fn others(&mut self, object: Number, what: &What) -> Number {
        match applied(self.value(object).unwrap(), what).unwrap() {
            None => 0,
            Some(new) => self.number(new),
        }
    }

    /// What the write breaks.
    pub(super) fn broken(&mut self, truth: &Contents, job: u16, at: u8) -> Option<String> {
        if let Some(known) = self.checked.get(&(*truth, job, at)) {
            return known.clone();
        }
        let slot = self.slot(&self.job(job)[usize::from(at)].id);
        let found = match self.outcome(truth[slot], job, at) {
            Outcome::Refused => None,
            Outcome::Written(after, _) => {
                let mut all: Vec<&Value> = self.fixed.iter().map(|o| &o.0).collect();
                all.extend(self.values(truth));
                let commit = Commit {
                    step: self.job(job)[usize::from(at)].step,
                    before: self.value(truth[slot]).unwrap(),
                    after: self.value(after),
                    all: &all,
                };
                checks::broken(&commit, &Plain)
            }
        };
        self.checked.insert((*truth, job, at), found.clone());
        found
    }
}
