//! The controller's own code, kube's client and runtime included, against a model of the API server
//! in virtual time, with faults, from a seed.
//!
//! `cargo xtask simulate` runs as many seeds as are asked for; without arguments it is a test of some
//! seeds.

#![expect(clippy::expect_used, reason = "a test: what is not there fails it")]

mod apiserver;
mod chance;
mod checks;
mod link;
mod oracle;
mod people;
mod replica;
mod run;
mod seeds;
mod stage;

use std::{
    collections::VecDeque,
    process::{Command, ExitCode},
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use parking_lot::Mutex;

use self::run::{Outcome, Plan};

/// Runs the controller's replicas in a simulated world.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Clone, Debug, Parser)]
struct Args {
    /// How many seeds, after those that are kept [default: so few that an unoptimised build has them
    /// done in a minute].
    #[arg(long, default_value_t = 12)]
    seeds: u64,
    /// The first of them; alone, the only one.
    #[arg(long)]
    seed: Option<u64>,
    /// How many replicas.
    #[arg(long, default_value_t = 3)]
    replicas: usize,
    /// For how many minutes of the simulation things go wrong.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Says what happened, write by write.
    #[arg(long)]
    trace: bool,
    /// Runs each seed twice and compares what happened.
    #[arg(long)]
    twice: bool,
    /// Runs one seed in this process, and says how it ended as JSON.
    #[arg(long, hide = true)]
    child: bool,
    /// As test programs are told which tests to run: this one has its name to be asked for by.
    #[arg(hide = true)]
    filter: Vec<String>,
    /// As test programs are told; nothing is captured here.
    #[arg(long, hide = true)]
    nocapture: bool,
    /// As test programs are told; nothing is ignored here.
    #[arg(long, hide = true)]
    include_ignored: bool,
    /// As test programs are told.
    #[arg(long, hide = true)]
    test_threads: Option<usize>,
    /// How many seeds run at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

impl Args {
    fn plan(&self, seed: u64) -> Plan {
        let time = Duration::from_mins(self.minutes);
        Plan { seed, replicas: self.replicas, time, trace: self.trace }
    }

    /// Those that failed once, where none is asked for by itself; then as many as are asked for.
    fn plans(&self) -> VecDeque<Plan> {
        let (first, alone) = (self.seed.unwrap_or(0), self.seed.is_some());
        let seeds = if alone && !std::env::args().any(|arg| arg.starts_with("--seeds")) {
            1
        } else {
            self.seeds
        };
        let mut plans: VecDeque<_> = if alone { VecDeque::new() } else { seeds::kept().into() };
        plans.extend((first..first + seeds).map(|seed| self.plan(seed)));
        plans
    }
}

/// The line that does it again.
fn replay(plan: &Plan) -> String {
    let (Plan { seed, replicas, time, .. }, revision) = (plan, seeds::revision());
    let minutes = time.as_secs() / 60;
    format!(
        "cargo xtask simulate --seed {seed} --replicas {replicas} --minutes {minutes} --trace # at {revision}"
    )
}

fn main() -> ExitCode {
    chance::without_random_addresses();
    let args = Args::parse();
    if !args.filter.is_empty() && !args.filter.iter().any(|text| "simulation".contains(&**text)) {
        return ExitCode::SUCCESS;
    }
    if args.child {
        return child(args.plan(args.seed.unwrap_or(0)));
    }
    let (plans, all) = (Mutex::new(args.plans()), Mutex::new(Total::default()));
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..args.jobs {
            scope.spawn(|| {
                loop {
                    let next = plans.lock().pop_front();
                    let Some(plan) = next else { return };
                    let outcome = alone(&args, &plan);
                    let again = args.twice.then(|| alone(&args, &plan));
                    all.lock().add(&plan, &outcome, again.as_ref());
                }
            });
        }
    });
    all.into_inner().conclude(begin.elapsed())
}

/// One run, in a process of its own: what runs before it would change it, if only by a counter in a
/// library.
fn alone(args: &Args, plan: &Plan) -> Outcome {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--child", "--seed", &plan.seed.to_string()]);
    command.args(["--replicas", &plan.replicas.to_string()]);
    command.args(["--minutes", &(plan.time.as_secs() / 60).to_string()]);
    command.args(args.trace.then_some("--trace"));
    let output = command.output().expect("a process");
    let last = output.stdout.rsplit(|byte| *byte == b'\n').find(|line| !line.is_empty());
    last.and_then(|line| serde_json::from_slice(line).ok()).unwrap_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        let found = vec![format!("it ended with {}: {said}", output.status)];
        Outcome { found, ..Outcome::default() }
    })
}

/// The one run of this process.
fn child(plan: Plan) -> ExitCode {
    chance::seed(plan.seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let outcome = runtime.block_on(run::run(plan));
    println!("{}", serde_json::to_string(&outcome).expect("JSON"));
    ExitCode::SUCCESS
}

/// All runs.
#[derive(Default)]
struct Total {
    runs: u64,
    failed: Vec<u64>,
    requests: u64,
    commits: u64,
    conflicts: u64,
    deaths: u64,
    time: Duration,
    worst: [Duration; 3],
}

impl Total {
    fn add(&mut self, plan: &Plan, outcome: &Outcome, again: Option<&Outcome>) {
        let seed = plan.seed;
        self.runs += 1;
        self.requests += outcome.requests;
        self.commits += outcome.commits;
        self.conflicts += outcome.conflicts;
        self.deaths += u64::from(outcome.deaths);
        self.time += outcome.time;
        for (worst, one) in self.worst.iter_mut().zip(&outcome.worst) {
            *worst = (*worst).max(*one);
        }
        outcome.trace.iter().for_each(|line| println!("{line}"));
        let differs = again.is_some_and(|again| again.hash != outcome.hash);
        if differs {
            println!("seed {seed}: it went another way the second time");
        }
        if !outcome.found.is_empty() || differs {
            self.failed.push(seed);
            println!("seed {seed} after {:.0} s:", outcome.time.as_secs_f64());
            outcome.found.iter().take(10).for_each(|found| println!("  {found}"));
            println!("  again: {}", replay(plan));
            let first = outcome.found.first().map_or("it went another way the second time", |f| f);
            if let Some(file) = seeds::write_down(plan, first) {
                println!("  a line for tests/simulation/seeds.txt is in {}", file.display());
            }
        }
        if self.runs.is_multiple_of(500) {
            println!("{} seeds, {} failed", self.runs, self.failed.len());
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "for people")]
    fn conclude(self, took: Duration) -> ExitCode {
        println!(
            "{} seeds in {:.1} s: {:.1} a second; {} requests, {} commits, {} conflicts, {} deaths; \
             {:.0} s simulated, {:.0} times real time",
            self.runs,
            took.as_secs_f64(),
            self.runs as f64 / took.as_secs_f64(),
            self.requests,
            self.commits,
            self.conflicts,
            self.deaths,
            self.time.as_secs_f64(),
            self.time.as_secs_f64() / took.as_secs_f64(),
        );
        let [unheld, twice, headless] = self.worst.map(|time| time.as_secs_f64());
        println!(
            "at worst a bucket was nobody's for {unheld:.1} s and two replicas' for {twice:.1} s, and \
             nobody led for {headless:.1} s, while the API server was within reach"
        );
        let failed = self.failed.len();
        let word = if failed == 0 { "ok" } else { "FAILED" };
        // As test programs say it, so that it is counted with them.
        println!("test result: {word}. {} passed; {failed} failed", self.runs - failed as u64);
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
