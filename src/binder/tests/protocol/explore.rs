//! Everything that can happen in a small world, breadth first.
//!
//! Of a resourceVersion only one thing matters: whether it is still the object's. So a cache's
//! entry and a plan's version are a number and that answer. Replicas are alike and are sorted.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::json;

use super::{
    super::{
        checks,
        store::{Id, What},
    },
    space::{Choice, Contents, Mask, Number, Outcome, SLOTS, Space, Variant},
};

/// How often others do what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Budget {
    /// Another claim's binder takes a free address, or an administrator clears a claimRef.
    pub(super) others: u8,
    /// Somebody deletes an address or a claim.
    pub(super) deletions: u8,
    /// A claim is created again under its name.
    pub(super) creations: u8,
    /// A tenant pins a claim to an address.
    pub(super) pins: u8,
    /// A process ends, or an answer is lost.
    pub(super) crashes: u8,
}

/// An object as a cache has it: its state, and whether that is still the object's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    number: Number,
    current: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pass {
    Idle,
    /// It was decided that these must be read.
    Reading {
        slot: u8,
        began: Seen,
        todo: Mask,
        confirmed: Mask,
    },
    /// A plan is being carried out; of these objects it has the version.
    Writing {
        job: u16,
        at: u8,
        current: Mask,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Replica {
    cache: [Seen; SLOTS],
    pass: Pass,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    truth: Contents,
    replicas: [Replica; 2],
    budget: Budget,
}

// Field by field, as derived, would take a third of the whole time.
impl Hash for State {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let seen = |s: Seen| u64::from(s.number) << 1 | u64::from(s.current);
        let t = self.truth.map(u64::from);
        to.write_u64(t[0] | t[1] << 16 | t[2] << 32 | t[3] << 48);
        for replica in &self.replicas {
            let c = replica.cache.map(seen);
            to.write_u64(c[0] | c[1] << 16 | c[2] << 32 | c[3] << 48);
            to.write_u64(match replica.pass {
                Pass::Idle => 0,
                Pass::Reading { slot, began, todo, confirmed } => {
                    let masks = u64::from(slot) | u64::from(todo) << 8 | u64::from(confirmed) << 16;
                    1 | masks << 8 | seen(began) << 32
                }
                Pass::Writing { job, at, current } => {
                    2 | u64::from(at) << 8 | u64::from(current) << 16 | u64::from(job) << 32
                }
            });
        }
        let b = self.budget;
        let left = [b.others, b.deletions, b.creations, b.pins, b.crashes];
        to.write_u64(left.iter().fold(0, |all, n| all << 8 | u64::from(*n)));
    }
}

/// What was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) what: String,
    pub(super) trace: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Report {
    pub(super) states: usize,
    pub(super) found: Option<Found>,
}

type Next = (String, State, Option<String>);

pub(super) struct Explorer {
    pub(super) space: Space,
    claims: usize,
    reborn: Vec<Number>,
    pub(super) settled: FxHashMap<Contents, Option<String>>,
    /// Whether steps are put into words.
    telling: bool,
}

impl Explorer {
    /// `claims` of the space's slots are claims; the others are addresses.
    pub(super) fn new(space: Space) -> Self {
        let claims = space.slots.iter().filter(|s| matches!(s, Id::Claim(_))).count();
        Self { space, claims, reborn: Vec::new(), settled: FxHashMap::default(), telling: false }
    }

    /// Explores from these objects (`reborn` are the claims as they are created again) until
    /// nothing is left, or something of a rule is broken.
    pub(super) fn run(
        &mut self,
        start: Contents,
        reborn: Vec<Number>,
        budget: Budget,
        rule: &str,
    ) -> Report {
        self.reborn = reborn;
        let cache = start.map(|number| Seen { number, current: true });
        let first =
            State { truth: start, replicas: [Replica { cache, pass: Pass::Idle }; 2], budget };
        let mut known = FxHashSet::default();
        let mut states = vec![first];
        let mut from: Vec<u32> = vec![0];
        known.insert(first);
        let mut at = 0;
        while at < states.len() {
            let state = states[at];
            let mut broken = self.at_rest(&state.truth);
            for (_, next, what) in self.successors(&state) {
                broken = broken.or(what);
                if known.insert(next) {
                    states.push(next);
                    from.push(u32::try_from(at).unwrap());
                }
            }
            if let Some(what) = broken.filter(|what| what.starts_with(rule)) {
                let trace = self.trace(&states, &from, at);
                return Report { states: states.len(), found: Some(Found { what, trace }) };
            }
            at += 1;
            assert!(states.len() < 1_500_000, "the world is too large");
        }
        Report { states: states.len(), found: None }
    }

    /// How a state came to be, and the step that broke something from there.
    fn trace(&mut self, states: &[State], from: &[u32], mut at: usize) -> Vec<String> {
        self.telling = true;
        let last = self.successors(&states[at]).into_iter().find(|(_, _, what)| what.is_some());
        let mut labels: Vec<_> = last.into_iter().map(|(label, _, _)| label).collect();
        while at != 0 {
            let parent = from[at] as usize;
            let steps = self.successors(&states[parent]);
            labels.extend(steps.into_iter().find(|(_, s, _)| *s == states[at]).map(|(l, _, _)| l));
            at = parent;
        }
        self.telling = false;
        labels.reverse();
        labels
    }

    fn tell(&self, label: impl FnOnce() -> String) -> String {
        if self.telling { label() } else { String::new() }
    }

    fn successors(&mut self, state: &State) -> Vec<Next> {
        let mut all = Vec::new();
        self.by_others(state, &mut all);
        for who in 0..2 {
            if who == 1 && state.replicas[0] == state.replicas[1] {
                continue;
            }
            self.watches(state, who, &mut all);
            match state.replicas[who].pass {
                Pass::Idle => self.starts(state, who, &mut all),
                Pass::Reading { .. } => self.reads(state, who, &mut all),
                Pass::Writing { .. } => self.writes(state, who, &mut all),
            }
        }
        for (_, next, _) in &mut all {
            next.replicas.sort_unstable();
        }
        all
    }

    /// The watch of one kind catches up.
    fn watches(&self, state: &State, who: usize, all: &mut Vec<Next>) {
        for (kind, slots) in [("claims", 0..self.claims), ("addresses", self.claims..SLOTS)] {
            let mut next = *state;
            for slot in slots {
                let seen = Seen { number: state.truth[slot], current: true };
                next.replicas[who].cache[slot] = seen;
            }
            if next != *state {
                all.push((self.tell(|| format!("{who} sees the {kind}")), next, None));
            }
        }
    }

    fn starts(&mut self, state: &State, who: usize, all: &mut Vec<Next>) {
        for slot in 0..self.space.slots.len() {
            let began = state.replicas[who].cache[slot];
            if began.number == 0 {
                continue;
            }
            let confirmed = self.taken_for_read(slot);
            let pass = self.decided(&state.replicas[who], slot, began, confirmed);
            if pass != Pass::Idle {
                let mut next = *state;
                next.replicas[who].pass = pass;
                let label = self
                    .tell(|| format!("{who} looks at {}: {}", self.name(slot), self.show(pass)));
                all.push((label, next, None));
            }
        }
    }

    fn taken_for_read(&self, slot: usize) -> Mask {
        match (self.space.variant, slot < self.claims) {
            (Variant::TrustsTheCacheOfAddresses, true)
            | (Variant::TrustsTheCacheOfClaims, false) => Mask::MAX,
            _ => 0,
        }
    }

    /// The pass after a decision: idle where there is nothing to do, or the first write is of a
    /// version that is no longer the object's.
    fn decided(&mut self, replica: &Replica, slot: usize, began: Seen, confirmed: Mask) -> Pass {
        let contents = replica.cache.map(|seen| seen.number);
        match self.space.decide(slot, began.number, &contents, confirmed) {
            Choice::Nothing => Pass::Idle,
            Choice::Read(todo) => {
                assert_eq!(todo & confirmed, 0, "what was read is asked for again");
                Pass::Reading { slot: u8::try_from(slot).unwrap(), began, todo, confirmed }
            }
            Choice::Job(job) => {
                let mut current: Mask = 0;
                for (i, seen) in replica.cache.iter().enumerate() {
                    let seen = if i == slot { began } else { *seen };
                    current |= Mask::from(seen.current) << i;
                }
                self.unless_doomed(Pass::Writing { job, at: 0, current })
            }
        }
    }

    fn unless_doomed(&self, pass: Pass) -> Pass {
        let Pass::Writing { job, at, current } = pass else { return pass };
        match self.space.job(job).get(usize::from(at)) {
            Some(write) if current & (1 << self.space.slot(&write.id)) != 0 => pass,
            Some(write) if self.space.variant == Variant::BindsOnNewer && write.step == "bind" => {
                pass
            }
            Some(_) | None => Pass::Idle,
        }
    }

    fn reads(&mut self, state: &State, who: usize, all: &mut Vec<Next>) {
        let mut next = *state;
        let replica = &mut next.replicas[who];
        let Pass::Reading { slot, began, todo, confirmed } = replica.pass else { return };
        let object = usize::from(slot);
        let again = match self.space.variant {
            Variant::LooksAtTheClaimAgain => object < self.claims,
            Variant::LooksAtTheAddressAgain => object >= self.claims,
            _ => false,
        };
        let read = todo.trailing_zeros() as usize;
        let (rest, confirmed) =
            (todo & todo.wrapping_sub(1), confirmed | todo & todo.wrapping_neg());
        if read < SLOTS {
            replica.cache[read] = Seen { number: state.truth[read], current: true };
        }
        replica.pass = Pass::Reading { slot, began, todo: rest, confirmed };
        // Where the newest state is decided on, it may arrive between the last read and then.
        if rest == 0 && (todo == 0 || !again) {
            let began = if again { replica.cache[object] } else { began };
            let copy = *replica;
            next.replicas[who].pass = match began.number {
                0 => Pass::Idle,
                _ => self.decided(&copy, object, began, confirmed),
            };
        }
        let pass = next.replicas[who].pass;
        let label = self.tell(|| {
            let pass = self.show(pass);
            if read < SLOTS {
                format!("{who} reads {}: {pass}", self.name(read))
            } else {
                format!("{who} decides: {pass}")
            }
        });
        all.push((label, next, None));
    }

    fn writes(&mut self, state: &State, who: usize, all: &mut Vec<Next>) {
        let Pass::Writing { job, at, current } = state.replicas[who].pass else { return };
        let write = &self.space.job(job)[usize::from(at)];
        let (slot, step) = (self.space.slot(&write.id), write.step);
        let mut next = *state;
        let mut broken = None;
        let label = self.tell(|| format!("{who} writes {step} of {}", self.name(slot)));
        let fenced = self.space.variant != Variant::BindsOnNewer || step != "bind";
        let free = |number| self.space.value(number).is_some_and(checks::free);
        let outcome = if fenced || free(state.truth[slot]) {
            self.space.outcome(state.truth[slot], job, at)
        } else {
            Outcome::Refused
        };
        match outcome {
            Outcome::Refused => {
                next.replicas[who].pass = Pass::Idle;
            }
            Outcome::Written(number, changed) => {
                broken = self.space.broken(&state.truth, job, at);
                next.truth[slot] = number;
                if changed {
                    self.outdate(&mut next, slot);
                }
                next.replicas[who].cache[slot] = Seen { number, current: true };
                next.replicas[who].pass =
                    self.unless_doomed(Pass::Writing { job, at: at + 1, current });
            }
        }
        if state.budget.crashes > 0 && broken.is_none() {
            self.crashes(state, &next, who, &label, all);
        }
        all.push((label, next, broken));
    }

    /// The answer to a write is lost; or the process ends before it, and starts over.
    fn crashes(
        &self,
        state: &State,
        written: &State,
        who: usize,
        label: &str,
        all: &mut Vec<Next>,
    ) {
        let mut lost = *written;
        lost.replicas[who].pass = Pass::Idle;
        for slot in 0..SLOTS {
            let mut seen = state.replicas[who].cache[slot];
            seen.current &= state.truth[slot] == written.truth[slot]
                && written.replicas[who].cache[slot].current;
            lost.replicas[who].cache[slot] = seen;
        }
        let mut ended = *state;
        ended.replicas[who].pass = Pass::Idle;
        ended.replicas[who].cache = state.truth.map(|number| Seen { number, current: true });
        for (what, mut next) in [("the answer is lost", lost), ("no: it ends", ended)] {
            next.budget.crashes -= 1;
            all.push((self.tell(|| format!("{label}: {what}")), next, None));
        }
    }

    /// An object has changed: whoever had its version has an old one.
    fn outdate(&self, state: &mut State, slot: usize) {
        for replica in &mut state.replicas {
            replica.cache[slot].current = false;
            match &mut replica.pass {
                Pass::Idle => {}
                Pass::Reading { slot: of, began, .. } => {
                    began.current &= usize::from(*of) != slot;
                }
                Pass::Writing { current, .. } => *current &= !(1 << slot),
            }
            replica.pass = self.unless_doomed(replica.pass);
        }
    }

    fn by_others(&mut self, state: &State, all: &mut Vec<Next>) {
        let budget = state.budget;
        for slot in 0..self.space.slots.len() {
            let number = state.truth[slot];
            let Some(object) = self.space.value(number) else {
                if slot < self.claims && budget.creations > 0 {
                    let budget = Budget { creations: budget.creations - 1, ..budget };
                    all.push(self.other(
                        state,
                        slot,
                        self.reborn[slot],
                        budget,
                        "is created again",
                    ));
                }
                continue;
            };
            let mut changes: Vec<(What, Budget, String)> = Vec::new();
            if budget.deletions > 0 && !checks::deleting(object) {
                let budget = Budget { deletions: budget.deletions - 1, ..budget };
                changes.push((What::Delete, budget, "is deleted".into()));
            }
            if budget.others > 0 && slot >= self.claims {
                let budget = Budget { others: budget.others - 1, ..budget };
                let other = json!({"namespace": "t9", "name": "other", "uid": "uid-other"});
                let claim_ref = |value| What::Patch(json!({"spec": {"claimRef": value}}));
                if checks::free(object) {
                    changes.push((claim_ref(other), budget, "is taken by another".into()));
                } else if !checks::holder(object).is_empty() {
                    changes.push((claim_ref(json!(null)), budget, "is cleared".into()));
                }
            }
            if budget.pins > 0 && slot < self.claims {
                let budget = Budget { pins: budget.pins - 1, ..budget };
                for to in self.claims..self.space.slots.len() {
                    let pin = json!({"spec": {"addressName": self.name(to)}});
                    changes.push((What::Patch(pin), budget, format!("asks for {}", self.name(to))));
                }
            }
            for (what, budget, label) in changes {
                let new = self.space.others(number, &what);
                if new != number {
                    all.push(self.other(state, slot, new, budget, &label));
                }
            }
        }
    }

    fn other(&self, state: &State, slot: usize, to: Number, budget: Budget, label: &str) -> Next {
        let mut next = *state;
        next.truth[slot] = to;
        next.budget = budget;
        self.outdate(&mut next, slot);
        (self.tell(|| format!("{} {label}", self.name(slot))), next, None)
    }

    fn name(&self, slot: usize) -> String {
        match self.space.slots.get(slot) {
            Some(Id::Address(name) | Id::Class(name)) => name.to_string(),
            Some(Id::Claim(key)) => key.name.to_string(),
            None => "other".into(),
        }
    }

    fn show(&self, pass: Pass) -> String {
        match pass {
            Pass::Idle => "nothing to do".into(),
            Pass::Reading { .. } => "must read".into(),
            Pass::Writing { job, .. } => {
                let step = |w: &super::super::store::Write| {
                    format!("{} {}", w.step, self.name(self.space.slot(&w.id)))
                };
                self.space.job(job).iter().map(step).collect::<Vec<_>>().join(", ")
            }
        }
    }
}
