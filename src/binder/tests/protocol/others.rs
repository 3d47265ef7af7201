//! What others do: tenants, administrators, drivers, and the binders of other claims.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    super::{checks, store::What},
    model::Protocol,
    space::{Number, SLOTS},
    state::{Action, Deed, State},
};
use crate::binder::tests::store::Id;

/// What may be done to an object in some state, and what comes of it.
pub(super) type Deeds = Arc<[(Deed, Number)]>;

/// What may be created in a slot that is empty: by how often that may still happen, so that no two
/// have one uid.
pub(super) type Births = [Vec<Vec<Number>>; SLOTS];

impl Protocol {
    pub(super) fn others(&self, state: &State, all: &mut Vec<Action>) {
        for (slot, number) in state.truth.iter().enumerate().take(self.space.slots.len()) {
            let allowed = |deed: Deed| *deed.left(&mut { state.left }, slot < self.claims);
            let place = u8::try_from(slot).unwrap();
            if *number == 0 {
                let left = usize::from(allowed(Deed::Create));
                let born = self.births[slot].get(left).into_iter().flatten();
                all.extend(born.map(|to| Action::Other {
                    slot: place,
                    deed: Deed::Create,
                    to: *to,
                }));
                continue;
            }
            let deeds = self.deeds.get((slot, *number), || self.deeds_on(slot, *number).into());
            for (deed, to) in deeds.iter().filter(|(deed, _)| allowed(*deed) > 0) {
                all.push(Action::Other { slot: place, deed: *deed, to: *to });
            }
        }
    }

    fn deeds_on(&self, slot: usize, number: Number) -> Vec<(Deed, Number)> {
        let object = self.space.value(number).unwrap();
        let mut all = if slot < self.claims {
            let pin = |to: usize| {
                let patch = json!({"spec": {"addressName": self.name(to)}});
                (Deed::Pin(u8::try_from(to).unwrap()), What::Patch(patch))
            };
            let mut all: Vec<_> = (self.claims..self.space.slots.len()).map(pin).collect();
            // Where there is no IPv6 address, it would only be more states.
            let start = self.space.values(&self.start.truth);
            if start.iter().any(|o| checks::is_address(o) && checks::family(o) == "IPv6") {
                all.push((Deed::Widen, What::Patch(json!({"spec": {"family": "Dual"}}))));
            }
            all
        } else {
            on_address(&object)
        };
        if !checks::deleting(&object) {
            all.push((Deed::Delete, What::Delete));
        }
        let made = all.into_iter().map(|(deed, what)| (deed, self.space.others(number, &what)));
        made.filter(|(_, to)| *to != number).collect()
    }

    pub(super) fn other(&self, state: &State, slot: usize, deed: Deed, to: Number) -> State {
        let mut next = *state;
        next.truth[slot] = to;
        *deed.left(&mut next.left, slot < self.claims) -= 1;
        if !matches!(deed, Deed::Delete | Deed::Pin(_) | Deed::Widen) {
            next.past.matched &= !(1 << slot);
            next.past.released &= !(1 << slot);
        }
        self.remember(&mut next, slot);
        self.outdate(&mut next, slot);
        next
    }

    pub(super) fn name(&self, slot: usize) -> String {
        match self.space.slots.get(slot) {
            Some(Id::Address(name) | Id::Class(name)) => name.to_string(),
            Some(Id::Claim(key)) => key.name.to_string(),
            None => "other".into(),
        }
    }
}

fn on_address(object: &Value) -> Vec<(Deed, What)> {
    let claim_ref = |value: Value| What::Patch(json!({"spec": {"claimRef": value}}));
    let phase = |phase: &str| What::Status(json!({"phase": phase}));
    let mut all = Vec::new();
    if checks::free(object) {
        let other = json!({"namespace": "t9", "name": "other", "uid": "uid-other"});
        all.push((Deed::Take, claim_ref(other)));
    } else if !checks::holder(object).is_empty() {
        all.push((Deed::Clear, claim_ref(json!(null))));
        if checks::phase(object) == "Released" {
            all.push((Deed::ClearUid, claim_ref(json!({"uid": null}))));
        }
    }
    if matches!(checks::phase(object), "Lost" | "Conflict") {
        all.push((Deed::Mend, What::Status(json!({"phase": null}))));
    } else {
        all.push((Deed::Lost, phase("Lost")));
        all.push((Deed::Conflict, phase("Conflict")));
    }
    all
}
