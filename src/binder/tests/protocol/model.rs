//! The protocol as a model that stateright explores: which steps there are from a state, what they
//! come to, and what must be so. The decisions are the binder's own.
//!
//! Replicas are alike, so they are sorted; a write that is sure to be refused is not made.

use std::sync::{
    Arc,
    atomic::{AtomicU16, Ordering},
};

use stateright::{Model, Property};

use super::{
    memo::Memo,
    others::Births,
    rest::Rest,
    space::{Contents, SLOTS, Space},
    state::{Action, Kind, Pass, State},
};
use crate::binder::tests::store::Id;

pub(super) struct Protocol {
    pub(super) space: Space,
    /// How many of the slots are claims; the others are addresses.
    pub(super) claims: usize,
    pub(super) start: State,
    pub(super) births: Births,
    /// The rules that are looked at, one bit each.
    pub(super) rules: u16,
    /// Those that were found broken. A checker keeps the last counterexample of a rule; the first
    /// is the shortest.
    pub(super) found: AtomicU16,
    pub(super) rests: Memo<Contents, Arc<Rest>>,
    pub(super) deeds: Memo<(usize, u16), super::others::Deeds>,
}

impl Protocol {
    pub(super) fn new(space: Space, start: State, births: Births, rules: u16) -> Self {
        let claims = space.slots.iter().filter(|s| matches!(s, Id::Claim(_))).count();
        let (found, rests, deeds) = (AtomicU16::new(0), Memo::default(), Memo::default());
        Self { space, claims, start, births, rules, found, rests, deeds }
    }

    /// The rule that a sentence such as "I2 a second address" begins with, if it is looked at.
    pub(super) fn rule(&self, broken: Option<&str>) -> u8 {
        let number = broken.and_then(|text| text[1..2].parse().ok()).unwrap_or(0);
        if self.rules & (1 << number) == 0 { 0 } else { number }
    }

    /// Whether the rule holds, or does not and that was said before.
    fn holds(&self, rule: u8, broken: bool) -> bool {
        let bit = 1 << rule;
        !broken || self.rules & bit == 0 || self.found.fetch_or(bit, Ordering::Relaxed) & bit != 0
    }

    fn holds_in(&self, rule: u8, state: &State) -> bool {
        self.holds(rule, state.broken == rule)
    }

    /// A step, with the replicas in their places.
    pub(super) fn step(&self, state: &State, action: Action) -> State {
        match action {
            Action::See { who, kind } => self.sees(state, who, kind),
            Action::Look { who, slot } => self.looks(state, who, slot),
            Action::Read { who } => self.reads(state, who),
            Action::Write { who, lost } => self.writes(state, who, lost),
            Action::End { who } => Self::ends(state, who),
            Action::Other { slot, deed, to } => self.other(state, usize::from(slot), deed, to),
        }
    }

    fn steps_of(state: &State, who: u8, all: &mut Vec<Action>) {
        all.push(Action::See { who, kind: Kind::Claims });
        all.push(Action::See { who, kind: Kind::Addresses });
        let replica = &state.replicas[usize::from(who)];
        let crashes = state.left.crashes > 0;
        match replica.pass {
            Pass::Idle => {
                for (slot, seen) in (0..).zip(&replica.cache) {
                    if seen.number != 0 {
                        all.push(Action::Look { who, slot });
                    }
                }
                return;
            }
            Pass::Reading { .. } => all.push(Action::Read { who }),
            Pass::Writing { .. } => {
                all.push(Action::Write { who, lost: false });
                if crashes {
                    all.push(Action::Write { who, lost: true });
                }
            }
        }
        if crashes {
            all.push(Action::End { who });
        }
    }

    pub(super) fn slots_of(&self, kind: Kind) -> std::ops::Range<usize> {
        match kind {
            Kind::Claims => 0..self.claims,
            Kind::Addresses => self.claims..SLOTS,
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start]
    }

    fn actions(&self, state: &State, all: &mut Vec<Action>) {
        // What a broken rule leads to is no concern of anybody's.
        if state.broken != 0 {
            return;
        }
        self.others(state, all);
        Self::steps_of(state, 0, all);
        if state.replicas[0] != state.replicas[1] {
            Self::steps_of(state, 1, all);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = self.step(state, action);
        next.replicas.sort_unstable();
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NAMES[1], |m: &Self, s| m.holds_in(1, s)),
            Property::always(NAMES[2], |m: &Self, s| m.holds_in(2, s)),
            Property::always(NAMES[3], |m: &Self, s| m.holds_in(3, s)),
            Property::always(NAMES[4], |m: &Self, s| m.holds_in(4, s)),
            Property::always(NAMES[5], |m: &Self, s| m.holds_in(5, s)),
            Property::always(NAMES[6], |m: &Self, s| m.holds_in(6, s)),
            Property::always(NAMES[7], |m: &Self, s| m.holds_in(7, s)),
            Property::always(NAMES[8], |m: &Self, s| m.holds_in(8, s)),
            Property::always(NAMES[9], |m: &Self, s| m.holds(9, m.is_undone(s))),
            Property::always(NAMES[0], |m: &Self, s| m.holds(0, m.is_restless(s))),
            Property::sometimes(REACHED, |m: &Self, s| m.is_quiescent(s)),
        ]
    }
}

/// The rules by number; the two halves of I9 are 9 and 0.
pub(super) const NAMES: [&str; 10] = [
    "I9 left alone, it comes to rest and is done",
    "I1 an address has at most one claim",
    "I2 at most one address per family by matching",
    "I3 nothing is taken away from a live claim",
    "I4 a retained address is not matched again",
    "I5 the finalizer is on before and until after",
    "I6 Conflict and Lost are the driver's",
    "I7 what is held stays published",
    "I8 preconditions, and the table of writers",
    "I9 quiescent implies done",
];

/// That I9 is not kept by nothing ever coming to rest.
pub(super) const REACHED: &str = "a quiescent state is reached";
