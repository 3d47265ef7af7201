//! Objects, plans and decisions by number, so that states are small and each decision and each
//! write is worked out once. Must not know what a state is, nor in which order things happen.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    super::{
        checks::{self, Commit, History},
        store::{Id, What, Write, address_writes, applied, claim_writes, without_counters},
    },
    memo::{Memo, Numbered},
    mutant::Mutant,
    table,
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

enum View {
    Address(AddressView),
    Claim(ClaimView),
}

struct Entry {
    value: Value,
    view: View,
    /// The slot of the claim that an address names without a uid.
    open: Option<usize>,
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

/// What is known of the past, by slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Past {
    /// Addresses that came to their claim by a match, and that nobody else wrote to since.
    pub(super) matched: Mask,
    /// Addresses that the controller released, and that nobody else wrote to since.
    pub(super) released: Mask,
    /// Addresses that name a claim without a uid, and the claim was there when they came to be so.
    pub(super) named: Mask,
}

/// The same, asked about objects.
struct Known<'a> {
    space: &'a Space,
    all: &'a [&'a Value],
    past: Past,
}

impl Known<'_> {
    fn has(&self, mask: Mask, uid: &str) -> bool {
        let object = self.all.iter().find(|o| checks::uid(o) == uid);
        let slot = |o: &&Value| self.space.slots.iter().position(|id| *id == Id::of(o));
        object.and_then(slot).is_some_and(|slot| mask & (1 << slot) != 0)
    }
}

impl History for Known<'_> {
    fn matched(&self, address: &str, _claim: &str) -> bool {
        self.has(self.past.matched, address)
    }
    fn released(&self, address: &str, _claim: &str) -> bool {
        self.has(self.past.released, address)
    }
    fn named(&self, address: &str) -> bool {
        self.has(self.past.named, address)
    }
    // What is held back at the API server is judged as if its author knew everything: that is
    // stricter than the contract, and holds.
    fn unchanged(&self, _object: &Value) -> bool {
        true
    }
}

/// A plan's writes, and the slot of each.
pub(super) struct Job {
    pub(super) writes: Vec<Write>,
    pub(super) slots: Vec<u8>,
}

pub(super) struct Space {
    pub(super) mutant: Mutant,
    /// What each slot is for. Claims first.
    pub(super) slots: Vec<Id>,
    /// Objects that never change and that every cache has.
    fixed: Vec<Object>,
    entries: Numbered<Entry>,
    jobs: Numbered<Job>,
    decisions: Memo<(usize, Number, Contents, Mask), Choice>,
    outcomes: Memo<(Number, u16, u8), Outcome>,
    checked: Memo<(Contents, u16, u8, Past), Option<String>>,
    table: Memo<(Number, u16, u8), Option<String>>,
}

impl Space {
    pub(super) fn new(mutant: Mutant, slots: Vec<Id>, fixed: Vec<Object>) -> Self {
        assert!(slots.len() <= SLOTS);
        Self {
            mutant,
            slots,
            fixed,
            // An object's number 0 means that it is absent.
            entries: Numbered::from(1),
            jobs: Numbered::from(0),
            decisions: Memo::default(),
            outcomes: Memo::default(),
            checked: Memo::default(),
            table: Memo::default(),
        }
    }

    pub(super) fn number(&self, value: Value) -> Number {
        let mut value = without_counters(value);
        value["metadata"]["resourceVersion"] = json!("0");
        self.entries.number(value.to_string(), || {
            let object = Object(value.clone());
            let view = if checks::is_address(&value) {
                View::Address(object.address())
            } else {
                View::Claim(object.claim())
            };
            let open = match &view {
                View::Address(a) if a.is_open() => a
                    .claim_ref
                    .as_ref()
                    .and_then(|r| self.slots.iter().position(|id| *id == Id::Claim(r.key.clone()))),
                _ => None,
            };
            Entry { value, view, open }
        })
    }

    fn entry(&self, number: Number) -> Option<Arc<Entry>> {
        (number != 0).then(|| self.entries.get(number))
    }

    pub(super) fn value(&self, number: Number) -> Option<Value> {
        self.entry(number).map(|e| e.value.clone())
    }

    /// The slot of the claim that this address names without a uid.
    pub(super) fn open(&self, number: Number) -> Option<usize> {
        self.entry(number).and_then(|e| e.open)
    }

    /// The objects that never change.
    pub(super) fn fixed(&self) -> impl Iterator<Item = &Value> {
        self.fixed.iter().map(|o| &o.0)
    }

    /// The objects that are there.
    pub(super) fn values(&self, contents: &Contents) -> Vec<Value> {
        contents.iter().filter_map(|n| self.value(*n)).collect()
    }

    pub(super) fn slot(&self, id: &Id) -> usize {
        self.slots.iter().position(|s| s == id).expect("a slot for every object that is written")
    }

    pub(super) fn job(&self, job: u16) -> Arc<Job> {
        self.jobs.get(job)
    }

    fn index(&self, contents: &Contents) -> Index {
        let mut index = Index::default();
        for object in &self.fixed {
            crate::binder::testing::add(&mut index, object);
        }
        for number in contents {
            let Some(entry) = self.entry(*number) else { continue };
            match &entry.view {
                View::Address(a) => {
                    index.apply_address(a.clone(), Duration::ZERO);
                }
                View::Claim(c) => {
                    index.apply_claim(c.clone());
                }
            }
        }
        index
    }

    /// Decides the pass of one slot's object, in the state that it began with.
    pub(super) fn decide(
        &self,
        slot: usize,
        object: Number,
        contents: &Contents,
        confirmed: Mask,
    ) -> Choice {
        let key = (slot, object, *contents, confirmed);
        self.decisions.get(key, || self.work_out(object, contents, confirmed))
    }

    fn work_out(&self, object: Number, contents: &Contents, confirmed: Mask) -> Choice {
        let index = self.index(contents);
        let writes = match &self.entries.get(object).view {
            View::Claim(claim) => {
                let names: BTreeSet<Name> = self.names(confirmed);
                let facts = claim::Facts { index: &index, claim, confirmed: &names, now: now() };
                match claim::decide(&facts) {
                    Decision::Read(names) => {
                        return Choice::Read(self.mask(names.into_iter().map(Id::Address)));
                    }
                    Decision::Act(plan) => self.mutant.weakened(claim, claim_writes(&plan)),
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
                    Decision::Act(plan) => self.mutant.recycled(address, address_writes(&plan)),
                }
            }
        };
        if writes.is_empty() { Choice::Nothing } else { Choice::Job(self.job_number(writes)) }
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

    fn job_number(&self, writes: Vec<Write>) -> u16 {
        self.jobs.number(format!("{writes:?}"), || {
            let slot = |w: &Write| u8::try_from(self.slot(&w.id)).unwrap();
            Job { slots: writes.iter().map(slot).collect(), writes }
        })
    }

    /// What a job's write makes of an object whose version is as it should be.
    pub(super) fn outcome(&self, object: Number, job: u16, at: u8) -> Outcome {
        self.outcomes.get((object, job, at), || {
            let entry =
                self.entry(object).expect("a current version is of an object that is there");
            match applied(&entry.value, &self.job(job).writes[usize::from(at)].what) {
                Err(_) => Outcome::Refused,
                Ok(None) => Outcome::Written(0, true),
                Ok(Some(new)) => {
                    let changed = new != entry.value;
                    Outcome::Written(self.number(new), changed)
                }
            }
        })
    }

    /// What somebody else's write makes of an object.
    pub(super) fn others(&self, object: Number, what: &What) -> Number {
        applied(&self.entries.get(object).value, what).unwrap().map_or(0, |new| self.number(new))
    }

    /// What the write breaks.
    pub(super) fn broken(&self, truth: &Contents, job: u16, at: u8, past: Past) -> Option<String> {
        self.checked.get((*truth, job, at, past), || {
            let job_of = self.job(job);
            let before = truth[usize::from(job_of.slots[usize::from(at)])];
            let Outcome::Written(after, _) = self.outcome(before, job, at) else { return None };
            let write = &job_of.writes[usize::from(at)];
            let values = self.values(truth);
            let all: Vec<&Value> = self.fixed().chain(&values).collect();
            let (before_value, after_value) = (self.value(before).unwrap(), self.value(after));
            let commit = Commit {
                step: write.step,
                before: &before_value,
                after: after_value.as_ref(),
                all: &all,
            };
            checks::broken(&commit, &Known { space: self, all: &all, past }).or_else(|| {
                self.table.get((before, job, at), || {
                    table::broken(write, &before_value, after_value.as_ref())
                })
            })
        })
    }
}
