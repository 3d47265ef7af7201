//! One run: some replicas, some people, what goes wrong, and then peace.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::select_all};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    checks::Checks,
    link::{Doom, Moment, Weather},
    people::People,
    replica::{Election, Replica},
    stage::Stage,
};

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub replicas: usize,
    /// For how long things go wrong, in the simulation's time.
    pub time: Duration,
    pub trace: bool,
}

/// How it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Of all requests and commits.
    pub hash: u64,
    /// What was found, in words.
    pub found: Vec<String>,
    pub trace: Vec<String>,
    pub requests: u64,
    pub commits: u64,
    pub conflicts: u64,
    pub deaths: u32,
    /// How much time passed in the simulation.
    pub time: Duration,
    /// The longest that a bucket was without a holder, with two, and the addresses without a leader.
    pub worst: [Duration; 3],
    /// How many steps of a scenario were made, and how many there are.
    pub steps: (u64, u64),
}

/// How long nobody may have written for everything to be at rest: longer than any pause a replica
/// makes.
const QUIET: Duration = Duration::from_secs(90);

/// How long it may take until then.
const PATIENCE: Duration = Duration::from_mins(15);

/// After which every reservation whose claim does not exist has been reclaimed.
const RESERVED: Duration = Duration::from_mins(6);

/// How often is looked while nothing is committed.
const LOOK: Duration = Duration::from_millis(200);

/// The kinds whose watches may lag.
const WATCHED: [&str; 4] = ["ipaddresses", "ipaddressclaims", "ipaddressclasses", "leases"];

pub async fn run(plan: Plan) -> Outcome {
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let mut drama = Play::new(plan, &mut random);
    drama.faults(plan.time, &mut random).await;
    drama.peace().await;
    drama.end().await
}

struct Play {
    stage: Arc<Stage>,
    people: People,
    replicas: Vec<Replica>,
    found: Vec<String>,
    deaths: u32,
    /// When each replica that is dead comes back, or that is paused goes on.
    back: Vec<Option<Instant>>,
    begin: Instant,
    checks: Checks,
    /// Tells of each commit.
    head: watch::Receiver<u64>,
    /// When to look again although nothing may be committed.
    again: Option<Instant>,
    /// Whether it is waited at the end until no reservation is left.
    patient: bool,
}

impl Play {
    fn new(plan: Plan, random: &mut fastrand::Rng) -> Self {
        let stage = Arc::new(Stage::new(random.u64(..), plan.trace));
        let mut people = People::new(Arc::clone(&stage), random.u64(..));
        people.begin();
        // One run in eight does without Leases: everybody does everything.
        let election = if random.u8(0..8) == 0 { Election::Nobody } else { Election::Leases };
        let replicas: Vec<_> = (0..plan.replicas)
            .map(|n| {
                let name = format!("replica-{n}");
                let link = stage.link(&name, random.u64(..));
                let mut replica = Replica::new(&name, stage.api.clone(), link, election);
                replica.skew = SignedDuration::from_secs(random.i64(-300..300));
                replica.start();
                replica
            })
            .collect();
        let back = vec![None; replicas.len()];
        let (found, begin, head) = (Vec::new(), Instant::now(), stage.api.head());
        let (checks, patient) = (Checks::default(), plan.seed.is_multiple_of(4));
        let (again, deaths) = (None, 0);
        Self { stage, people, replicas, found, deaths, back, begin, checks, head, again, patient }
    }

    /// Everything at once, for so long.
    async fn faults(&mut self, time: Duration, random: &mut fastrand::Rng) {
        let end = Instant::now() + time;
        let mut next_act = Instant::now();
        let mut next_fault = Instant::now() + Duration::from_secs(1);
        while Instant::now() < end && self.is_well() {
            let now = Instant::now();
            if now >= next_act {
                next_act = now + self.people.act();
            }
            if now >= next_fault {
                next_fault = now + Duration::from_millis(random.u64(200..8000));
                self.fault(random).await;
            }
            self.look(random);
            self.wait(next_act.min(next_fault)).await;
        }
    }

    /// Until then, but no longer than nothing happens that is to be looked at.
    async fn wait(&mut self, until: Instant) {
        let until = until.min(Instant::now() + LOOK);
        let until = self.again.take().map_or(until, |again| again.min(until));
        let died = self.replicas.iter().filter(|replica| replica.runs()).map(|replica| {
            let mut died = replica.link.died();
            async move {
                if died.wait_for(|died| *died).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
            .boxed()
        });
        let died: Vec<_> = died.collect();
        let any_died = async {
            if died.is_empty() { std::future::pending().await } else { select_all(died).await.0 }
        };
        tokio::select! {
            biased;
            // The sender lives in the stage.
            _ = self.head.changed() => {}
            () = any_died => {}
            () = sleep_until(until) => {}
        }
    }

    fn is_well(&self) -> bool {
        self.found.is_empty()
            && self.checks.found.is_empty()
            && self.stage.oracle.lock().violations.is_empty()
    }

    async fn fault(&mut self, random: &mut fastrand::Rng) {
        let place = random.usize(..self.replicas.len());
        let replica = &mut self.replicas[place];
        let kind = WATCHED[random.usize(..WATCHED.len())];
        let seconds = Duration::from_millis(random.u64(50..30_000));
        match random.u8(0..20) {
            0..4 => replica.link.set(|w| {
                w.lag.insert(kind, seconds);
            }),
            4 | 5 => replica.link.set(|w| w.frozen.push(kind)),
            6 | 7 => replica.link.set(|w| w.cut += 1),
            8 | 9 => replica.link.set(|w| w.failing = 150),
            10 => replica.link.set(|w| w.slow = seconds / 20),
            11 => replica.link.set(|w| w.down = true),
            12 => self.stage.api.store().compact(),
            13..16 => {
                let moments = [Moment::Before, Moment::Committed, Moment::Answered];
                let moment = moments[random.usize(..moments.len())];
                replica.link.doom(Doom { writes: random.u32(1..8), moment });
            }
            16 if replica.runs() => {
                self.found.extend(replica.stop().await);
                self.back[place] = Some(Instant::now() + seconds / 10);
            }
            17 if self.back[place].is_none() => {
                replica.pause(true);
                self.back[place] = Some(Instant::now() + seconds);
            }
            _ => replica.link.set(|w| *w = Weather { cut: w.cut, ..Weather::default() }),
        }
    }

    /// Who has died, who comes back, and what there is to judge.
    fn look(&mut self, random: &mut fastrand::Rng) {
        let now = Instant::now();
        self.again = self.checks.look(&self.stage, &mut self.replicas).map(|soon| now + soon);
        for (place, replica) in self.replicas.iter_mut().enumerate() {
            if *replica.link.died().borrow() {
                replica.link.revive();
                replica.kill();
                self.deaths += 1;
                self.back[place] = Some(now + Duration::from_millis(random.u64(1..10_000)));
            }
            self.found
                .extend(replica.deaths().into_iter().map(|d| format!("{}: {d}", replica.name)));
            if self.back[place].is_some_and(|back| back <= now) {
                self.back[place] = None;
                replica.pause(false);
                if !replica.runs() {
                    replica.start();
                }
            }
        }
    }

    /// Nothing goes wrong any more: in the end nothing is left to do.
    async fn peace(&mut self) {
        self.people.leave();
        for (place, replica) in self.replicas.iter_mut().enumerate() {
            replica.link.set(|w| *w = Weather { cut: w.cut + 1, ..Weather::default() });
            replica.link.spare();
            replica.pause(false);
            self.back[place] = None;
        }
        let faults = self.begin.elapsed();
        let last = self.rest(QUIET).await;
        self.judge((last, faults), Duration::ZERO);
        if self.patient && self.is_well() {
            let last = self.rest(RESERVED).await;
            self.judge((last, faults), RESERVED);
        }
    }

    /// Until nobody has written for so long. When the last write was made.
    async fn rest(&mut self, quiet: Duration) -> Duration {
        let mut random = fastrand::Rng::with_seed(0);
        let begin = Instant::now();
        let (mut last, mut since, mut next_act) = (0, begin, begin);
        while since.elapsed() < quiet && self.is_well() {
            if begin.elapsed() > PATIENCE {
                self.found.push("it never comes to rest".to_owned());
                break;
            }
            self.look(&mut random);
            for replica in self.replicas.iter_mut().filter(|r| !r.runs()) {
                replica.start();
            }
            if Instant::now() >= next_act {
                next_act = Instant::now() + self.people.act();
            }
            let newest = self.stage.oracle.lock().last;
            if newest != last {
                (last, since) = (newest, Instant::now());
            }
            self.wait(next_act).await;
        }
        since.duration_since(self.begin)
    }

    fn judge(&mut self, last: (Duration, Duration), reservations: Duration) {
        if self.is_well() {
            self.checks.at_rest(&self.stage, last, reservations);
        }
    }

    async fn end(mut self) -> Outcome {
        for replica in &mut self.replicas {
            // An orderly end must never hang: what it died of is told.
            let died = replica.stop().boxed().await;
            self.found.extend(died);
        }
        let mut oracle = self.stage.oracle.lock();
        let broken = oracle.violations.iter().map(|violation| format!("{violation:?}"));
        let found = broken.chain(self.found).chain(self.checks.found.clone()).collect();
        Outcome {
            hash: oracle.hash(),
            found,
            trace: oracle.trace.take().unwrap_or_default(),
            requests: oracle.requests,
            commits: oracle.commits,
            conflicts: oracle.conflicts,
            deaths: self.deaths,
            time: self.begin.elapsed(),
            worst: self.checks.worst(),
            steps: (0, 0),
        }
    }
}
