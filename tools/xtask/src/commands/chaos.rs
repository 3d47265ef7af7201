//! `cargo xtask chaos`: replicas at work while everything goes wrong; see `testbed::chaos`.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, ensure};
use testbed::chaos::{self, Plan};

use super::build;
use crate::report::controlplane_binaries;

/// How long, how many, and by which dice.
#[derive(clap::Args)]
pub struct Args {
    /// How many replicas.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    replicas: u8,
    /// How long things go wrong, in minutes; 0.5 is half a minute.
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// What everything random follows from [default: another one each time].
    #[arg(long)]
    seed: Option<u64>,
    /// Each replica does everything, in place of sharing the work by Leases.
    #[arg(long)]
    no_leases: bool,
    /// How many claims there are at once.
    #[arg(long, default_value_t = 32)]
    claims: usize,
    /// The controller to run [default: this repository's, in the debug profile].
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Arguments for each replica.
    #[arg(last = true)]
    flags: Vec<String>,
}

/// Runs it and prints what came of it.
///
/// # Errors
/// When it cannot be run, or something was found.
pub fn run(args: &Args) -> Result<()> {
    let time = Duration::try_from_secs_f64(args.minutes * 60.0).context("--minutes")?;
    let binary = args.binary.clone().map_or_else(build::for_trying, Ok)?;
    controlplane_binaries()?;
    let seed = args.seed.unwrap_or_else(chaos::any_seed);
    let mut plan = Plan::new(binary, time, seed);
    plan.replicas = usize::from(args.replicas);
    plan.leases = !args.no_leases;
    plan.claims = args.claims;
    plan.flags.clone_from(&args.flags);
    let runtime = tokio::runtime::Runtime::new()?;
    let outcome = runtime.block_on(chaos::run(plan))?;
    println!("{}", outcome.text());
    ensure!(outcome.is_clean(), "something was found: see above");
    Ok(())
}
