//! `cargo xtask walk`: random walks over the binder's decisions alone; see `docs/testing.md`.

use anyhow::Result;

use crate::run::{cargo, finish};

/// Which walks.
#[derive(clap::Args)]
pub struct Args {
    /// How many.
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,
    /// The seed of the first.
    #[arg(long)]
    seed: Option<u64>,
}

/// Builds the walks with optimisation and takes them.
///
/// # Errors
/// When they cannot be built, or a rule is broken: the message says by which seed.
pub fn run(args: &Args) -> Result<()> {
    let from = args.seed.unwrap_or(0);
    let test = "binder::tests::walk::random_walks_break_no_invariant_and_come_to_rest";
    let mut command = cargo(&["test", "--quiet", "--profile", "model", "--lib"]);
    command.args(["--package", "address-controller", "--", "--exact", test, "--nocapture"]);
    finish(command.env("WALK_SEEDS", format!("{from}..{}", from + args.seeds)))
}
