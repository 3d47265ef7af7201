//! A world that is too large for every run of the tests: `cargo xtask model` explores it with an
//! optimised build and says how far it is. Must not know what the worlds' rules are.

use std::{collections::BTreeMap, hash::Hash};

use stateright::{
    Checker, HasDiscoveries, Model,
    report::{ReportData, ReportDiscovery, Reporter},
};

use super::{
    model::{NAMES, Protocol, REACHED},
    mutant::Mutant,
    run::{ALL, World},
    scenario::Scenario,
    state::Budget,
};
use crate::binder::testing::{claim, free};

/// What others may do in it, such as `others=1,crashes=1`.
const VARIABLE: &str = "MODEL_BUDGET";

fn budget(text: &str) -> Budget {
    let mut budget = Budget::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (name, often) = part.split_once('=').expect("NAME=NUMBER");
        let often = often.parse().expect("a small number");
        match name {
            "others" => budget.others = often,
            "deletions" => budget.deletions = often,
            "creations" => budget.creations = often,
            "edits" => budget.edits = often,
            "crashes" => budget.crashes = often,
            "drivers" => budget.drivers = often,
            _ => panic!("{VARIABLE} has no {name}"),
        }
    }
    budget
}

#[test]
#[ignore = "millions of states: `cargo xtask model` explores them with an optimised build"]
fn two_claims_two_addresses_and_what_others_do() {
    explore("2 claims", &|budget| {
        World::of(&[super::web(), claim("t1/api")], &[super::a(1), super::a(2)], budget)
    });
}

#[test]
#[ignore = "millions of states: `cargo xtask model --dual` explores them with an optimised build"]
fn a_claim_for_both_families_and_what_others_do() {
    explore("a claim for both families", &|budget| {
        let addresses = [super::a(1), super::a(2), free("b1", "2001:db8::1")];
        World::of(&[super::web().family("Dual")], &addresses, budget)
    });
}

fn explore(claims: &str, world: &dyn Fn(Budget) -> World) {
    let budget = budget(&std::env::var(VARIABLE).unwrap_or_default());
    let world = world(budget);
    println!("2 replicas, {claims}, {} addresses, {budget:?}", world.addresses.len());
    let threads = std::thread::available_parallelism().map_or(1, Into::into);
    let checker = world.protocol(Mutant::None, ALL).checker().threads(threads);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs();
    let checker = checker.join_and_report(&mut Progress::default());
    for name in NAMES {
        if let Some(path) = checker.discovery(name) {
            panic!("{}", Scenario::of(checker.model(), name, path.into_vec()));
        }
        println!("holds: {name}");
    }
    assert!(checker.discovery(REACHED).is_some(), "it never comes to rest");
}

/// Seconds between two lines. The checker's own pause is shorter: it is waited for at the end.
const PAUSE: f64 = 15.0;

/// Says how far it is.
#[derive(Default)]
struct Progress {
    unique: usize,
    seconds: f64,
}

impl Reporter<Protocol> for Progress {
    fn report_checking(&mut self, data: ReportData) {
        let seconds = data.duration.as_secs_f64();
        if !data.done && seconds < self.seconds + PAUSE {
            return;
        }
        let now = rate(data.unique_states - self.unique, seconds - self.seconds);
        (self.unique, self.seconds) = (data.unique_states, seconds);
        let (states, depth) = (thousands(data.unique_states), data.max_depth);
        if data.done {
            let steps = thousands(data.total_states);
            let mean = rate(data.unique_states, seconds);
            println!(
                "done: {states} distinct states, {steps} steps, {depth} deep, {seconds:.0} s, \
                 {mean} states a second, {}",
                memory("VmHWM")
            );
        } else {
            println!(
                "{seconds:>6.0} s {states:>14} states {depth:>3} deep {now:>9} a second, {}",
                memory("VmRSS")
            );
        }
    }

    fn report_discoveries(
        &mut self,
        _: &Protocol,
        _: BTreeMap<&'static str, ReportDiscovery<Protocol>>,
    ) where
        <Protocol as Model>::Action: std::fmt::Debug + PartialEq,
        <Protocol as Model>::State: std::fmt::Debug + Hash + PartialEq,
    {
    }

    fn delay(&self) -> std::time::Duration {
        std::time::Duration::from_secs(1)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a figure for people"
)]
fn rate(states: usize, seconds: f64) -> String {
    thousands((states as f64 / seconds.max(0.001)) as usize)
}

fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().collect();
    groups.iter().map(|g| String::from_utf8_lossy(g)).collect::<Vec<_>>().join(",")
}

/// A line of what Linux says of this process's memory; elsewhere nothing.
fn memory(line: &str) -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let found = status.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(':'));
    let kib = found.and_then(|l| l.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    kib.map_or_else(|| "memory unknown".into(), |kib| format!("{} MiB", thousands(kib / 1024)))
}

#[test]
fn figures_are_readable() {
    assert_eq!(thousands(12_345_678), "12,345,678");
    assert_eq!(thousands(7), "7");
    assert_eq!(budget("others=1,crashes=2"), Budget { others: 1, crashes: 2, ..Budget::default() });
}
