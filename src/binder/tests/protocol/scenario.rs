//! A way through the model as a scenario that another tool can replay, and that people can read:
//! see `tests/scenarios/README.md`. The replicas keep their numbers here, and objects have versions
//! as an API server counts them.

use std::{env, fmt, fs, path::Path};

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    model::Protocol,
    space::{Outcome, SLOTS},
    state::{Action, Deed, Kind, Pass, State},
};
use crate::{
    api::well_known::{PROVISIONER_ANNOTATION, SELECTED_ADDRESSES_ANNOTATION},
    binder::{
        selection::Selections,
        tests::store::{Id, What, Write},
    },
};

/// Set, the scenarios are written.
const WRITE: &str = "WRITE_SCENARIOS";
const HOW: &str = "WRITE_SCENARIOS=1 cargo test --lib protocol writes it anew.";

/// What is in a file of `tests/scenarios`.
#[derive(Debug, Serialize)]
pub(super) struct Scenario {
    /// The guard that is left out, by the name of the file.
    without: &'static str,
    /// What that means.
    meaning: &'static str,
    /// The rule that is broken by the last step.
    rule: &'static str,
    broken: String,
    /// Objects that are there and never change.
    around: Vec<Value>,
    /// The others at the start; their versions are 1, 2 and so on.
    start: Vec<Value>,
    steps: Vec<Step>,
}

#[derive(Debug, Serialize)]
struct Step {
    says: String,
    #[serde(flatten)]
    does: Value,
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({} steps)", self.broken, self.steps.len())?;
        for (number, step) in (1..).zip(&self.steps) {
            writeln!(f, "{number}. {}", step.says)?;
        }
        Ok(())
    }
}

impl Scenario {
    pub(super) fn of(
        protocol: &Protocol,
        rule: &'static str,
        path: Vec<(State, Option<Action>)>,
    ) -> Self {
        let mut teller = Teller::new(protocol);
        let mut steps = Vec::new();
        let mut broken = String::new();
        for (state, action) in path {
            match action {
                Some(action) => {
                    broken = teller.broken(&state, action).unwrap_or_default();
                    steps.push(teller.tell(&state, action));
                }
                None if state.broken == 0 => broken = protocol.unrest(&state).unwrap_or_default(),
                None => {}
            }
        }
        let start = protocol.space.values(&protocol.start.truth);
        let around = protocol.space.fixed().cloned().collect();
        let (without, meaning) = protocol.space.mutant.words();
        Self { without, meaning, rule, broken, around, start, steps }
    }

    /// Compares it with the one that is committed, or writes it where it is asked to.
    pub(super) fn assert_kept(&self) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let file =
            root.join(format!("tests/scenarios/{}-without-{}.json", &self.rule[..2], self.without));
        let text = serde_json::to_string_pretty(self).unwrap() + "\n";
        if env::var_os(WRITE).is_some() {
            fs::write(&file, text).unwrap();
            return;
        }
        let kept = fs::read_to_string(&file).unwrap_or_default();
        assert!(kept == text, "{} is another one by now: {self}{HOW}", file.display());
    }
}

/// Follows who is who and what has which version.
struct Teller<'a> {
    protocol: &'a Protocol,
    /// The replica in each place of the state.
    places: [usize; 2],
    revision: u64,
    versions: [u64; SLOTS],
    caches: [[u64; SLOTS]; 2],
}

impl<'a> Teller<'a> {
    fn new(protocol: &'a Protocol) -> Self {
        let (mut revision, mut versions) = (0, [0; SLOTS]);
        for (version, number) in versions.iter_mut().zip(&protocol.start.truth) {
            if *number != 0 {
                revision += 1;
                *version = revision;
            }
        }
        Self { protocol, places: [0, 1], revision, versions, caches: [versions; 2] }
    }

    fn broken(&self, state: &State, action: Action) -> Option<String> {
        let Action::Write { who, .. } = action else { return None };
        let Pass::Writing { job, at, .. } = state.replicas[usize::from(who)].pass else {
            return None;
        };
        self.protocol.space.broken(&state.truth, job, at, state.past)
    }

    fn tell(&mut self, state: &State, action: Action) -> Step {
        let next = self.protocol.step(state, action);
        let step = match action {
            Action::See { who, kind } => self.sees(usize::from(who), kind),
            Action::Look { who, slot } => {
                let replica = self.places[usize::from(who)];
                let version = self.caches[replica][usize::from(slot)];
                let pass = next.replicas[usize::from(who)].pass;
                self.looks(replica, usize::from(slot), version, "looks at", pass)
            }
            Action::Read { who } => self.reads(state, usize::from(who), &next),
            Action::Write { who, lost } => self.writes(state, usize::from(who), lost),
            Action::End { who } => {
                let replica = self.places[usize::from(who)] + 1;
                Step {
                    says: format!("Replica {replica} ends, and starts again."),
                    does: json!({"replica": replica, "does": "end"}),
                }
            }
            Action::Other { slot, deed, to } => self.other(usize::from(slot), deed, to),
        };
        if next.replicas[0] > next.replicas[1] {
            self.places.swap(0, 1);
        }
        step
    }

    fn sees(&mut self, who: usize, kind: Kind) -> Step {
        let replica = self.places[who];
        for slot in self.protocol.slots_of(kind) {
            self.caches[replica][slot] = self.versions[slot];
        }
        let kind = match kind {
            Kind::Claims => "claims",
            Kind::Addresses => "addresses",
        };
        let replica = replica + 1;
        Step {
            says: format!("Replica {replica} sees the {kind} as they are now."),
            does: json!({"replica": replica, "does": "see", "kind": kind}),
        }
    }

    fn looks(&self, replica: usize, slot: usize, version: u64, verb: &str, pass: Pass) -> Step {
        let (plans, words) = self.plans(pass);
        let (name, replica) = (self.protocol.name(slot), replica + 1);
        let at = if version == 0 { "absent".into() } else { format!("version {version}") };
        Step {
            says: format!("Replica {replica} {verb} {name} ({at}){words}."),
            does: json!({
                "replica": replica, "does": verb.trim_end_matches("s at").trim_end_matches('s'),
                "object": self.object(slot), "version": version,
                "then": plans,
            }),
        }
    }

    /// What a pass is about to do.
    fn plans(&self, pass: Pass) -> (Value, String) {
        match pass {
            Pass::Idle => (json!([]), " and has nothing to do".into()),
            Pass::Reading { todo: 0, .. } => (json!([]), " and has read everything".into()),
            Pass::Reading { todo, .. } => {
                let slots: Vec<_> = (0..SLOTS).filter(|slot| todo & (1 << slot) != 0).collect();
                let names: Vec<_> = slots.iter().map(|slot| self.protocol.name(*slot)).collect();
                let all: Vec<_> = slots.iter().map(|s| json!({"read": self.object(*s)})).collect();
                (json!(all), format!(" and must read {}", names.join(", ")))
            }
            Pass::Writing { job, .. } => {
                let job = self.protocol.space.job(job);
                let both = || job.writes.iter().zip(job.slots.iter().map(|s| usize::from(*s)));
                let names: Vec<_> =
                    both().map(|(w, slot)| words(w, &self.protocol.name(slot))).collect();
                let all: Vec<_> = both()
                    .map(|(w, slot)| json!({"write": w.step, "object": self.object(slot)}))
                    .collect();
                (json!(all), format!(" and plans: {}", names.join(", ")))
            }
        }
    }

    fn reads(&mut self, state: &State, who: usize, next: &State) -> Step {
        let (replica, pass) = (self.places[who], next.replicas[who].pass);
        let Pass::Reading { todo, .. } = state.replicas[who].pass else {
            unreachable!("what reads is reading")
        };
        let slot = todo.trailing_zeros() as usize;
        if slot >= SLOTS {
            let (plans, words) = self.plans(pass);
            let replica = replica + 1;
            let does = json!({"replica": replica, "does": "decide", "then": plans});
            return Step { says: format!("Replica {replica} decides{words}."), does };
        }
        self.caches[replica][slot] = self.versions[slot];
        self.looks(replica, slot, self.versions[slot], "reads", pass)
    }

    fn writes(&mut self, state: &State, who: usize, lost: bool) -> Step {
        let replica = self.places[who];
        let Pass::Writing { job, at, .. } = state.replicas[who].pass else {
            unreachable!("what writes is writing")
        };
        let made = self.protocol.space.job(job);
        let (write, slot) =
            (&made.writes[usize::from(at)], usize::from(made.slots[usize::from(at)]));
        let on = self.versions[slot];
        let outcome = self.protocol.space.outcome(state.truth[slot], job, at);
        let answer = match (outcome, lost) {
            (Outcome::Refused, _) => "refused",
            (Outcome::Written(..), true) => "lost",
            (Outcome::Written(number, changed), false) => {
                if changed {
                    self.changed(slot, number);
                }
                self.caches[replica][slot] = self.versions[slot];
                "given"
            }
        };
        if let (Outcome::Written(number, true), true) = (outcome, lost) {
            self.changed(slot, number);
        }
        let (replica, now) = (replica + 1, self.now(slot));
        let but =
            if answer == "given" { String::new() } else { format!(" The answer is {answer}.") };
        Step {
            says: format!(
                "Replica {replica} writes: {}, on version {on}; {now}.{but}",
                words(write, &self.protocol.name(slot))
            ),
            does: json!({
                "replica": replica, "does": "write", "write": write.step,
                "object": self.object(slot), "on": on, "becomes": self.versions[slot],
                "asks": asks(&write.what), "answer": answer,
            }),
        }
    }

    fn other(&mut self, slot: usize, deed: Deed, to: u16) -> Step {
        self.changed(slot, to);
        let (name, now) = (self.protocol.name(slot), self.now(slot));
        let (who, verb, says) = match deed {
            Deed::Create if slot < self.protocol.claims => {
                ("tenant", "create", "is created again".into())
            }
            Deed::Create => ("driver", "create", "is made by a driver for a claim".into()),
            Deed::Delete => ("anybody", "delete", "is deleted".into()),
            Deed::Take => ("another claim", "take", "is taken by another claim".into()),
            Deed::Clear => {
                ("administrator", "clear", "loses its claimRef to an administrator".into())
            }
            Deed::ClearUid => (
                "administrator",
                "clear-uid",
                "loses the uid in its claimRef to an administrator".into(),
            ),
            Deed::Pin(at) => {
                ("tenant", "pin", format!("is pinned to {}", self.protocol.name(usize::from(at))))
            }
            Deed::Widen => ("tenant", "widen", "is widened to both families".into()),
            Deed::Lost => ("driver", "lost", "is marked Lost by its driver".into()),
            Deed::Conflict => ("driver", "conflict", "is marked Conflict by its driver".into()),
            Deed::Mend => ("driver", "mend", "is mended by its driver".to_owned()),
        };
        Step {
            says: format!("{name} {says}; {now}."),
            does: json!({
                "who": who, "does": verb, "object": self.object(slot),
                "becomes": self.versions[slot], "is": self.protocol.space.value(to),
            }),
        }
    }

    fn changed(&mut self, slot: usize, number: u16) {
        self.revision += 1;
        self.versions[slot] = if number == 0 { 0 } else { self.revision };
    }

    fn now(&self, slot: usize) -> String {
        match self.versions[slot] {
            0 => "it is gone".into(),
            version => format!("its version is {version}"),
        }
    }

    fn object(&self, slot: usize) -> String {
        match &self.protocol.space.slots[slot] {
            Id::Claim(key) => format!("IPAddressClaim {}/{}", key.namespace, key.name),
            Id::Address(name) | Id::Class(name) => format!("IPAddress {name}"),
        }
    }
}

/// A write, as in "mark web (finalizer, selection of a1)".
fn words(write: &Write, name: &str) -> String {
    let more = match &write.what {
        What::Patch(patch) if write.step == "mark" => {
            let meta = &patch["metadata"];
            let mut parts = Vec::new();
            if !meta["finalizers"].is_null() {
                parts.push("finalizer".to_owned());
            }
            if let Some(text) = meta["annotations"][SELECTED_ADDRESSES_ANNOTATION].as_str() {
                let selections = Selections::parse(text);
                let names: Vec<_> = selections.names().map(|n| &**n).collect();
                parts.push(format!("selection of {}", names.join(" and ")));
            }
            if !meta["annotations"][PROVISIONER_ANNOTATION].is_null() {
                parts.push("stamp".into());
            }
            parts.join(", ")
        }
        What::Status(patch) => patch["phase"].as_str().unwrap_or_default().to_owned(),
        What::Patch(_) | What::Delete => String::new(),
    };
    let step = write.step;
    if more.is_empty() { format!("{step} {name}") } else { format!("{step} {name} ({more})") }
}

fn asks(what: &What) -> Value {
    match what {
        What::Patch(patch) => json!({"patch": patch}),
        What::Status(patch) => json!({"patch of status": patch}),
        What::Delete => json!("deletion"),
    }
}
