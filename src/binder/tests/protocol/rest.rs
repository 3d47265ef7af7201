//! What a small world must come to once nothing else happens. Works out from the objects alone
//! what is left to do, without the binder's help.

use std::sync::Arc;

use serde_json::Value;

use super::{
    super::checks,
    model::Protocol,
    space::{Choice, Contents, Mask, Outcome},
    state::State,
};
use crate::api::well_known::SELECTED_ADDRESSES_ANNOTATION;

/// How some objects are, when nobody else writes.
pub(super) struct Rest {
    /// Whether no pass would write anything.
    quiet: bool,
    /// What is left to do.
    unfinished: Option<String>,
    /// What goes wrong when it is left to one replica with fresh caches.
    restless: Option<String>,
}

impl Protocol {
    /// Whether no replica has anything to do.
    pub(super) fn is_quiescent(&self, state: &State) -> bool {
        state.is_quiet() && self.rest(&state.truth).quiet
    }

    /// Whether no replica has anything to do, and something is left to do.
    pub(super) fn is_undone(&self, state: &State) -> bool {
        self.is_quiescent(state) && self.rest(&state.truth).unfinished.is_some()
    }

    /// Whether one replica with fresh caches does not bring this to an end.
    pub(super) fn is_restless(&self, state: &State) -> bool {
        self.rest(&state.truth).restless.is_some()
    }

    /// What is wrong with I9 here, in words.
    pub(super) fn unrest(&self, state: &State) -> Option<String> {
        let rest = self.rest(&state.truth);
        rest.restless.clone().or_else(|| rest.unfinished.clone())
    }

    fn rest(&self, truth: &Contents) -> Arc<Rest> {
        self.rests.get(*truth, || {
            let quiet =
                (0..self.space.slots.len()).all(|slot| self.last_choice(slot, truth).is_none());
            let unfinished = self.unfinished(truth);
            Arc::new(Rest { quiet, unfinished, restless: self.settle(*truth) })
        })
    }

    /// What a pass comes to, after all the reads that it asks for.
    fn last_choice(&self, slot: usize, truth: &Contents) -> Option<u16> {
        if truth[slot] == 0 {
            return None;
        }
        let mut confirmed: Mask = 0;
        loop {
            match self.space.decide(slot, truth[slot], truth, confirmed) {
                Choice::Nothing => return None,
                Choice::Job(job) => return Some(job),
                Choice::Read(more) => confirmed |= more,
            }
        }
    }

    fn settle(&self, mut truth: Contents) -> Option<String> {
        for _ in 0..20 {
            let before = truth;
            let mut wrote = false;
            for slot in 0..self.space.slots.len() {
                let Some(job) = self.last_choice(slot, &truth) else { continue };
                wrote = true;
                for (at, slot) in (0..).zip(&self.space.job(job).slots) {
                    let object = &mut truth[usize::from(*slot)];
                    match self.space.outcome(*object, job, at) {
                        Outcome::Refused => break,
                        Outcome::Written(number, _) => *object = number,
                    }
                }
            }
            if !wrote {
                return self.unfinished(&truth);
            }
            if truth == before {
                return Some("a write is made again and again".into());
            }
        }
        Some("it never comes to rest".into())
    }

    fn unfinished(&self, truth: &Contents) -> Option<String> {
        let all = self.space.values(truth);
        let left =
            |o: &Value| if checks::is_address(o) { of_address(o, &all) } else { of_claim(o, &all) };
        all.iter().find_map(left)
    }
}

fn of_address(o: &Value, all: &[Value]) -> Option<String> {
    let (name, phase, reference) = (checks::name(o), checks::phase(o), &o["spec"]["claimRef"]);
    let claim = all.iter().find(|c| {
        checks::is_claim(c)
            && c["metadata"]["name"] == reference["name"]
            && c["metadata"]["namespace"] == reference["namespace"]
    });
    let holder = checks::holder(o);
    let live = holder == "uid-other"
        || claim.is_some_and(|c| checks::uid(c) == holder && !checks::deleting(c));
    if checks::deleting(o) {
        return (!live).then(|| format!("{name} is deleted and stays"));
    }
    if matches!(phase, "Conflict" | "Lost") {
        return None;
    }
    if holder.is_empty() && claim.is_some_and(|c| !checks::deleting(c)) {
        return Some(format!("{name} waits for its claim's uid"));
    }
    let right = match (reference.is_null(), live) {
        (true, _) => "Available",
        (false, true) => "Bound",
        (false, false) => "Released",
    };
    (phase != right).then(|| format!("{name} is {phase} and not {right}"))
}

fn of_claim(o: &Value, all: &[Value]) -> Option<String> {
    let (name, phase) = (checks::name(o), checks::phase(o));
    if checks::deleting(o) {
        return Some(format!("{name} is deleted and stays"));
    }
    let held = |family: &str| {
        let holds = |a: &&Value| checks::holder(a) == checks::uid(o) && checks::phase(a) != "Lost";
        all.iter().filter(holds).any(|a| checks::family(a) == family)
    };
    let asked = match o["spec"]["family"].as_str().unwrap_or("IPv4") {
        "Dual" => vec!["IPv4", "IPv6"],
        one => vec![one],
    };
    let missing: Vec<_> = asked.into_iter().filter(|family| !held(family)).collect();
    if missing.is_empty() != (phase == "Bound") {
        return Some(format!("{name} is {phase} and misses {missing:?}"));
    }
    let pin = o["spec"]["addressName"].as_str();
    let selection = &o["metadata"]["annotations"][SELECTED_ADDRESSES_ANNOTATION];
    // Held before: on record as lost, or still the claim's in a driver's phase.
    let lost = |family: &str| {
        let entry = |e: &str| e.starts_with(family) && e.ends_with("/held");
        let own = |a: &Value| checks::holder(a) == checks::uid(o) && checks::family(a) == family;
        selection.as_str().unwrap_or_default().split(',').any(entry) || all.iter().any(own)
    };
    let could = |a: &&Value| {
        let family = checks::family(a);
        checks::free(a)
            && missing.contains(&family)
            && pin.map_or(!lost(family), |pin| pin == checks::name(a))
    };
    let could = all.iter().find(could)?;
    Some(format!("{name} is {phase} and could have {}", checks::name(could)))
}
