//! The controller's own code, kube's client and runtime included, against a model of the API server
//! in virtual time, with faults, from a seed.
//!
//! `cargo xtask simulate` runs as many seeds as are asked for; without arguments it is a test of some
//! seeds.

#![expect(clippy::expect_used, reason = "a test: what is not there fails it")]

mod apiserver;
mod chance;
mod checks;
mod gate;
mod job;
mod link;
mod oracle;
mod people;
mod replica;
mod run;
mod scenario;
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

use self::{
    job::Job,
    run::{Outcome, Plan},
};

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
    /// Replays what the model found, and nothing else; without this, before the seeds.
    #[arg(long)]
    scenarios: bool,
    /// Replays one of them.
    #[arg(long)]
    scenario: Option<String>,
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
    /// Runs it in this process, and says how it ended as JSON.
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

    /// What is asked for; where nothing is in particular, all scenarios, the seeds that failed once,
    /// and as many others as are asked for.
    fn jobs(&self) -> VecDeque<Job> {
        let scenarios = || scenario::all().into_iter().map(Job::Scenario);
        if let Some(name) = &self.scenario {
            return [Job::Scenario(name.clone())].into();
        }
        if self.scenarios {
            return scenarios().collect();
        }
        let all_seeds = std::env::args().any(|arg| arg.starts_with("--seeds"));
        let (first, seeds) = match self.seed {
            Some(seed) if !all_seeds => (seed, 1),
            first => (first.unwrap_or(0), self.seeds),
        };
        let mut jobs = VecDeque::new();
        if self.seed.is_none() {
            jobs.extend(scenarios());
            jobs.extend(seeds::kept().into_iter().map(Job::Seed));
        }
        jobs.extend((first..first + seeds).map(|seed| Job::Seed(self.plan(seed))));
        jobs
    }
}

fn main() -> ExitCode {
    chance::without_random_addresses();
    let args = Args::parse();
    if !args.filter.is_empty() && !args.filter.iter().any(|text| "simulation".contains(&**text)) {
        return ExitCode::SUCCESS;
    }
    let jobs = args.jobs();
    if args.child {
        return jobs.into_iter().next().map_or(ExitCode::FAILURE, |job| child(job, args.trace));
    }
    let (jobs, all) = (Mutex::new(jobs), Mutex::new(Total::default()));
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..args.jobs {
            scope.spawn(|| {
                loop {
                    let next = jobs.lock().pop_front();
                    let Some(job) = next else { return };
                    let outcome = alone(&args, &job);
                    let again = args.twice.then(|| alone(&args, &job));
                    all.lock().add(&job, &outcome, again.as_ref());
                }
            });
        }
    });
    all.into_inner().conclude(begin.elapsed())
}

/// One run, in a process of its own: what runs before it would change it, if only by a counter in a
/// library.
fn alone(args: &Args, job: &Job) -> Outcome {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.arg("--child").args(job.arguments());
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
fn child(job: Job, trace: bool) -> ExitCode {
    chance::seed(job.seed());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let outcome = runtime.block_on(job.run(trace));
    println!("{}", serde_json::to_string(&outcome).expect("JSON"));
    ExitCode::SUCCESS
}

/// All runs.
#[derive(Default)]
struct Total {
    runs: u64,
    failed: u64,
    /// How many steps of scenarios were made, and how many there are.
    steps: (u64, u64),
    requests: u64,
    commits: u64,
    conflicts: u64,
    deaths: u64,
    time: Duration,
    worst: [Duration; 3],
}

impl Total {
    fn add(&mut self, job: &Job, outcome: &Outcome, again: Option<&Outcome>) {
        self.runs += 1;
        self.requests += outcome.requests;
        self.commits += outcome.commits;
        self.conflicts += outcome.conflicts;
        self.deaths += u64::from(outcome.deaths);
        self.time += outcome.time;
        self.steps.0 += outcome.steps.0;
        self.steps.1 += outcome.steps.1;
        for (worst, one) in self.worst.iter_mut().zip(&outcome.worst) {
            *worst = (*worst).max(*one);
        }
        outcome.trace.iter().for_each(|line| println!("{line}"));
        let differs = again.is_some_and(|again| again.hash != outcome.hash);
        if differs {
            println!("{}: it went another way the second time", job.name());
        }
        if !outcome.found.is_empty() || differs {
            self.failed += 1;
            println!("{} after {:.0} s:", job.name(), outcome.time.as_secs_f64());
            outcome.found.iter().take(10).for_each(|found| println!("  {found}"));
            println!("  again: {}", job.replay());
            let first = outcome.found.first().map_or("it went another way the second time", |f| f);
            if let Job::Seed(plan) = job
                && let Some(file) = seeds::write_down(plan, first)
            {
                println!("  a line for tests/simulation/seeds.txt is in {}", file.display());
            }
        }
        if self.runs.is_multiple_of(500) {
            println!("{} runs, {} failed", self.runs, self.failed);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "for people")]
    fn conclude(self, took: Duration) -> ExitCode {
        println!(
            "{} runs in {:.1} s: {:.1} a second; {} requests, {} commits, {} conflicts, {} deaths; \
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
        if self.steps.1 > 0 {
            let (made, all) = self.steps;
            println!(
                "{made} of {all} steps of the scenarios were made; a guard stands in the way of others"
            );
        }
        let failed = self.failed;
        let word = if failed == 0 { "ok" } else { "FAILED" };
        // As test programs say it, so that it is counted with them.
        println!("test result: {word}. {} passed; {failed} failed", self.runs - failed);
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
