//! Larger worlds at random, from a seed: replicas whose watches lag, whose answers are lost and
//! whose processes end, among tenants, administrators and drivers who do as they please.

mod oracle;
mod others;
mod rest;

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Instant,
};

use serde_json::Value;

use super::{
    checks::{self, Commit, History},
    harness::Replica,
    store::{Id, Run, Store, What, Write},
};
use crate::binder::{invariants::Checker, testing::Object};

/// How many steps a walk has.
const STEPS: u64 = 200;

/// What was committed: an object's state, or the uid of one that went.
struct Event {
    id: Id,
    state: Result<Value, String>,
}

/// A replica, how far its watch of each kind has come, and the passes that it runs.
struct Process {
    replica: Replica,
    seen: [usize; 3],
    runs: Vec<(Id, Vec<Write>, Run)>,
}

/// What the checks need to know of the past.
#[derive(Default)]
struct Past {
    matched: BTreeSet<(String, String)>,
    released: BTreeSet<(String, String)>,
    since: u64,
}

impl History for Past {
    fn matched(&self, address: &str, claim: &str) -> bool {
        self.matched.contains(&(address.into(), claim.into()))
    }
    fn released(&self, address: &str, claim: &str) -> bool {
        self.released.contains(&(address.into(), claim.into()))
    }
    fn unchanged(&self, object: &Value) -> bool {
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        version.parse::<u64>().is_ok_and(|version| version <= self.since)
    }
}

struct Walk {
    seed: u64,
    rng: fastrand::Rng,
    store: Store,
    log: Vec<Event>,
    processes: Vec<Process>,
    past: Past,
    oracle: Checker,
    uids: u32,
    /// What was done, for who looks into a failure.
    told: Vec<String>,
}

fn kind(id: &Id) -> usize {
    match id {
        Id::Class(_) => 0,
        Id::Address(_) => 1,
        Id::Claim(_) => 2,
    }
}

impl Walk {
    fn new(seed: u64, careless: bool) -> Self {
        let processes = (0..2).map(|_| Process {
            replica: Replica { careless, ..Replica::default() },
            seen: [0; 3],
            runs: Vec::new(),
        });
        let mut walk = Self {
            seed,
            rng: fastrand::Rng::with_seed(seed),
            store: Store::default(),
            log: Vec::new(),
            processes: processes.collect(),
            past: Past::default(),
            oracle: Checker::new(),
            uids: 0,
            told: Vec::new(),
        };
        walk.begin();
        walk
    }

    /// All its steps and the rest. Returns how many matches nobody interfered with.
    fn to_the_end(seed: u64, careless: bool) -> usize {
        let mut walk = Self::new(seed, careless);
        for _ in 0..STEPS {
            walk.step();
        }
        walk.finish();
        walk.past.matched.len()
    }

    fn fail(&self, what: &str) -> ! {
        let from = self.told.len().saturating_sub(60);
        let objects: Vec<String> = self.store.objects().map(Value::to_string).collect();
        panic!("seed {}: {what}\n{:#?}\n{objects:#?}", self.seed, &self.told[from..])
    }

    fn step(&mut self) {
        let who = self.rng.usize(0..self.processes.len());
        match self.rng.u32(0..100) {
            0..30 => self.start(who),
            30..70 => self.write(who),
            70..87 => self.watch(who),
            87..88 => self.restart(who),
            _ => self.others(),
        }
    }

    /// A pass of any object that the replica knows and has no pass of.
    fn start(&mut self, who: usize) {
        let process = &mut self.processes[who];
        let known = process.replica.index.everything();
        let ids: Vec<Id> = known
            .addresses
            .into_iter()
            .map(Id::Address)
            .chain(known.claims.into_iter().map(Id::Claim))
            .filter(|id| process.runs.iter().all(|(of, _, _)| of != id))
            .collect();
        if ids.is_empty() || process.runs.len() == 3 {
            return;
        }
        let id = ids[self.rng.usize(0..ids.len())].clone();
        let writes = process.replica.pass(&self.store, &id);
        if !writes.is_empty() {
            let steps: Vec<_> = writes.iter().map(|w| (w.step, &w.id)).collect();
            self.told.push(format!("{who} plans for {id:?}: {steps:?}"));
            let run = Run::new(writes.clone(), self.store.revision());
            process.runs.push((id, writes, run));
        }
    }

    /// The next write of any pass. Its answer may be lost, or it may fail without effect.
    fn write(&mut self, who: usize) {
        let process = &mut self.processes[who];
        if process.runs.is_empty() {
            return;
        }
        let at = self.rng.usize(0..process.runs.len());
        let (_, writes, mut run) = process.runs[at].clone();
        let luck = self.rng.u32(0..20);
        let mut goes_on = false;
        if luck > 0 {
            goes_on = self.carry_out(who, &mut run, luck > 1) && luck > 1 && run.next().is_some();
        }
        let process = &mut self.processes[who];
        process.runs[at].2 = run;
        if !goes_on {
            process.runs.remove(at);
            process.replica.ended(&writes);
        }
    }

    /// Commits a write, checks it, and brings the answer in. Says whether it was accepted.
    fn carry_out(&mut self, who: usize, run: &mut Run, answered: bool) -> bool {
        let write = run.next().unwrap().clone();
        let before = self.store.clone();
        let result = run.step(&mut self.store);
        self.told.push(format!(
            "{who} writes {} of {:?}: {}{}",
            write.step,
            write.id,
            result.as_ref().map_or_else(|r| format!("{r:?}"), |_| "ok".into()),
            if answered { "" } else { ", and never hears of it" },
        ));
        let Ok(after) = result else { return false };
        self.judge(&before, &write, after.as_ref(), run.since);
        self.record(&write.id, before.get(&write.id), Some(&write));
        if answered {
            let replica = &mut self.processes[who].replica;
            match &after {
                Some(object) => replica.see(object),
                None => replica.gone(&write.id, &write.uid),
            }
        }
        true
    }

    fn judge(&mut self, before: &Store, write: &Write, after: Option<&Value>, since: u64) {
        self.past.since = since;
        let all: Vec<&Value> = before.objects().collect();
        let object = before.get(&write.id).unwrap();
        let commit = Commit { step: write.step, before: object, after, all: &all };
        if let Some(what) = checks::broken(&commit, &self.past) {
            self.fail(&what);
        }
        let pair = |o: &Value| (checks::uid(o).to_owned(), checks::holder(o).to_owned());
        match after {
            Some(o) if write.step == "bind" => self.past.matched.insert(pair(o)),
            Some(o) if checks::phase(o) == "Released" && checks::phase(object) != "Released" => {
                self.past.released.insert(pair(o))
            }
            Some(_) | None => false,
        };
    }

    /// Somebody else's write, who looked a moment ago.
    fn change(&mut self, id: &Id, what: &What) {
        self.told.push(format!("others: {id:?} {what:?}"));
        let before = self.store.get(id).cloned();
        self.store.others(id, what);
        if let Some(before) = &before
            && *what != What::Delete
        {
            self.past.matched.retain(|(address, _)| address != checks::uid(before));
            self.past.released.retain(|(address, _)| address != checks::uid(before));
        }
        self.record(id, before.as_ref(), None);
    }

    fn create(&mut self, object: Object) {
        self.uids += 1;
        let object = object.uid(&format!("uid-{}", self.uids));
        self.told.push(format!("others create {}", object.0));
        let id = self.store.create(&object);
        self.record(&id, None, None);
    }

    fn record(&mut self, id: &Id, before: Option<&Value>, write: Option<&Write>) {
        if let Some(violation) = self.feed(id, before, write).first() {
            self.fail(&format!("by the oracle, {violation}"));
        }
        let state = match (self.store.get(id), before) {
            (Some(now), before) if Some(now) != before => Ok(now.clone()),
            (None, Some(before)) => Err(checks::uid(before).to_owned()),
            (Some(_) | None, _) => return,
        };
        self.log.push(Event { id: id.clone(), state });
    }

    /// The watch of one kind goes on, by a few events or to the end.
    fn watch(&mut self, who: usize) {
        let of = self.rng.usize(0..3);
        let mut events = if self.rng.bool() { usize::MAX } else { self.rng.usize(1..4) };
        let Process { replica, seen, .. } = &mut self.processes[who];
        while events > 0 && seen[of] < self.log.len() {
            let event = &self.log[seen[of]];
            seen[of] += 1;
            if kind(&event.id) == of {
                events -= 1;
                match &event.state {
                    Ok(object) => replica.see(object),
                    Err(uid) => replica.gone(&event.id, uid),
                }
            }
        }
    }

    /// The process ends wherever it is, and another lists everything.
    fn restart(&mut self, who: usize) {
        self.told.push(format!("{who} starts over"));
        let careless = self.processes[who].replica.careless;
        self.processes[who] = Process {
            replica: Replica { careless, ..Replica::fresh(&self.store) },
            seen: [self.log.len(); 3],
            runs: Vec::new(),
        };
    }

    /// Nobody else does anything any more: one replica brings it to rest, and another agrees.
    fn finish(&mut self) {
        self.restart(0);
        for _ in 0..60 {
            let mut quiet = !self.drivers_finish();
            self.processes[0].replica.sync(&self.store);
            for id in self.store.ids() {
                let writes = self.processes[0].replica.pass(&self.store, &id);
                let mut run = Run::new(writes.clone(), self.store.revision());
                while run.next().is_some() {
                    quiet = false;
                    if !self.carry_out(0, &mut run, true) {
                        self.fail("refused, and nobody else writes");
                    }
                }
                self.processes[0].replica.ended(&writes);
            }
            if quiet {
                let left = self.unfinished();
                left.inspect(|what| self.fail(what));
                if let Some(violation) = self.left_by_the_oracle().first() {
                    self.fail(&format!("by the oracle, {violation}"));
                }
                self.restart(1);
                for id in self.store.ids() {
                    let writes = self.processes[1].replica.pass(&self.store, &id);
                    if !writes.is_empty() {
                        self.fail(&format!("another replica would write {writes:?}"));
                    }
                }
                return;
            }
        }
        self.fail("never comes to rest");
    }
}

/// I1 to I7 after every commit, and the end of it. `WALK_SEEDS=from..to` walks others, on all cores
/// (`cargo xtask walk`).
#[test]
fn random_walks_break_no_invariant_and_come_to_rest() {
    let asked = std::env::var("WALK_SEEDS").ok();
    let seeds = asked.as_deref().map_or(0..200, |text| {
        let (from, to) = text.split_once("..").expect("from..to");
        from.parse().unwrap()..to.parse().unwrap()
    });
    let (next, bound) = (AtomicU64::new(seeds.start), AtomicUsize::new(0));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    bound.fetch_add(Walk::to_the_end(seed, false), Ordering::Relaxed);
                }
            });
        }
    });
    let bound = bound.into_inner();
    assert!(bound > 0, "nothing was ever matched");
    if asked.is_some() {
        let (walks, took) = (seeds.end - seeds.start, begin.elapsed());
        let steps = walks * STEPS;
        let rate = u128::from(steps) * 60_000 / took.as_millis().max(1);
        println!(
            "{walks} walks, {steps} steps, {bound} matches in {took:.1?}: {rate} steps a minute"
        );
    }
}

/// The walks find what they are there for: replicas that take their caches' word for everything.
#[test]
fn random_walks_find_careless_replicas() {
    let broken = |rule: &str| {
        (0..400).any(|seed| {
            let walk = std::panic::catch_unwind(|| Walk::to_the_end(seed, true));
            let said = walk.err().and_then(|e| e.downcast_ref::<String>().cloned());
            said.is_some_and(|what| what.contains(&format!(": {rule} ")))
        })
    };
    for rule in ["I3", "I7"] {
        assert!(broken(rule), "{rule} is never broken");
    }
}
