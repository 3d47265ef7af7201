//! What a replica does: its watches, its passes and their writes, and its end.

use super::{
    super::checks,
    model::Protocol,
    mutant::Mutant,
    space::{Choice, Mask, Outcome, SLOTS},
    state::{Kind, Pass, Replica, Seen, State},
};

impl Protocol {
    pub(super) fn sees(&self, state: &State, who: u8, kind: Kind) -> State {
        let mut next = *state;
        for slot in self.slots_of(kind) {
            let seen = Seen { number: state.truth[slot], current: true };
            next.replicas[usize::from(who)].cache[slot] = seen;
        }
        next
    }

    pub(super) fn looks(&self, state: &State, who: u8, slot: u8) -> State {
        let (mut next, at) = (*state, usize::from(slot));
        let replica = &state.replicas[usize::from(who)];
        let confirmed = match (self.space.mutant, at < self.claims) {
            (Mutant::ReadOfTheAddress, true) | (Mutant::ReadOfTheClaim, false) => Mask::MAX,
            _ => 0,
        };
        next.replicas[usize::from(who)].pass =
            self.decided(replica, at, replica.cache[at], confirmed);
        next
    }

    /// The pass after a decision: idle where there is nothing to do, or the first write is of a
    /// version that is no longer the object's.
    fn decided(&self, replica: &Replica, slot: usize, began: Seen, confirmed: Mask) -> Pass {
        let contents = replica.cache.map(|seen| seen.number);
        match self.space.decide(slot, began.number, &contents, confirmed) {
            Choice::Nothing => Pass::Idle,
            Choice::Read(todo) => {
                assert_eq!(todo & confirmed, 0, "what was read is asked for again");
                // A claim that was read for its open addresses is read for the next ones again.
                let own = if slot < self.claims { 1 << slot } else { 0 };
                let slot = u8::try_from(slot).unwrap();
                Pass::Reading { slot, began, todo, confirmed: confirmed & !own }
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
        let job = self.space.job(job);
        let Some(slot) = job.slots.get(usize::from(at)) else { return Pass::Idle };
        let newer = self.space.mutant == Mutant::OldVersion;
        if current & (1 << slot) != 0 || newer && job.writes[usize::from(at)].step == "bind" {
            pass
        } else {
            Pass::Idle
        }
    }

    pub(super) fn reads(&self, state: &State, who: u8) -> State {
        let mut next = *state;
        let replica = &mut next.replicas[usize::from(who)];
        let Pass::Reading { slot, began, todo, confirmed } = replica.pass else { return next };
        let object = usize::from(slot);
        let again = match self.space.mutant {
            Mutant::OldClaim => object < self.claims,
            Mutant::OldAddress => object >= self.claims,
            _ => false,
        };
        let read = todo.trailing_zeros() as usize;
        let confirmed = confirmed | todo & todo.wrapping_neg();
        let mut rest = todo & todo.wrapping_sub(1);
        if read < SLOTS {
            replica.cache[read] = Seen { number: state.truth[read], current: true };
        }
        if read == object && object < self.claims && !began.current {
            replica.pass = Pass::Idle;
            return next;
        }
        if rest == 0 && self.reads_itself(replica, object, confirmed) {
            rest = 1 << object;
        }
        replica.pass = Pass::Reading { slot, began, todo: rest, confirmed };
        // Where the newest state is decided on, it may arrive between the last read and then.
        if rest == 0 && (todo == 0 || !again) {
            let began = if again { replica.cache[object] } else { began };
            replica.pass = match began.number {
                0 => Pass::Idle,
                _ => self.decided(replica, object, began, confirmed),
            };
        }
        next
    }

    /// Whether a claim's pass must read the claim: after an address that names it without a uid,
    /// since it might be gone by then. What changed meanwhile is looked at anew.
    fn reads_itself(&self, replica: &Replica, object: usize, confirmed: Mask) -> bool {
        let open = |slot: usize| {
            confirmed & (1 << slot) != 0
                && self.space.open(replica.cache[slot].number) == Some(object)
        };
        object < self.claims
            && confirmed & (1 << object) == 0
            && self.space.mutant != Mutant::ReadOfItself
            && (self.claims..SLOTS).any(open)
    }

    pub(super) fn writes(&self, state: &State, who: u8, lost: bool) -> State {
        let mut next = *state;
        let own = usize::from(who);
        let Pass::Writing { job, at, current } = state.replicas[own].pass else { return next };
        next.left.crashes -= u8::from(lost);
        let made = self.space.job(job);
        let (slot, step) =
            (usize::from(made.slots[usize::from(at)]), made.writes[usize::from(at)].step);
        let Outcome::Written(number, changed) = self.accepted(state, job, at, slot, step) else {
            // That the refusal is lost as well makes no difference.
            next.replicas[own].pass = Pass::Idle;
            return if lost { *state } else { next };
        };
        let broken = self.space.broken(&state.truth, job, at, state.past);
        next.broken = self.rule(broken.as_deref());
        next.truth[slot] = number;
        match step {
            "bind" => next.past.matched |= 1 << slot,
            "release" => next.past.released |= 1 << slot,
            _ => {}
        }
        self.remember(&mut next, slot);
        if changed {
            self.outdate(&mut next, slot);
        }
        let replica = &mut next.replicas[own];
        if lost {
            replica.pass = Pass::Idle;
        } else {
            replica.cache[slot] = Seen { number, current: true };
            replica.pass = self.unless_doomed(Pass::Writing { job, at: at + 1, current });
        }
        next
    }

    /// What the API server makes of a write whose version, where it has one, is the object's.
    fn accepted(&self, state: &State, job: u16, at: u8, slot: usize, step: &str) -> Outcome {
        let free = |n| self.space.value(n).is_some_and(|object| checks::free(&object));
        if self.space.mutant == Mutant::OldVersion && step == "bind" && !free(state.truth[slot]) {
            return Outcome::Refused;
        }
        self.space.outcome(state.truth[slot], job, at)
    }

    pub(super) fn ends(state: &State, who: u8) -> State {
        let mut next = *state;
        next.left.crashes -= 1;
        next.replicas[usize::from(who)].pass = Pass::Idle;
        next
    }

    /// What will be known of the past, after this object was written.
    pub(super) fn remember(&self, state: &mut State, slot: usize) {
        let (bit, number) = (1 << slot, state.truth[slot]);
        if number == 0 {
            state.past.matched &= !bit;
            state.past.released &= !bit;
        }
        state.past.named &= !bit;
        if self.space.open(number).is_some_and(|claim| state.truth[claim] != 0) {
            state.past.named |= bit;
        }
    }

    /// An object has changed: whoever had its version has an old one.
    pub(super) fn outdate(&self, state: &mut State, slot: usize) {
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
}
