//! `cargo xtask simulate`: the controller's own code in a simulated world; see `tests/simulation`.

use anyhow::Result;

use crate::run::{cargo, finish};

/// The arguments of the simulation: `cargo xtask simulate --help` lists them.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Passed on as they are.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Runs it, optimised and with what checks itself.
pub fn run(args: &Args) -> Result<()> {
    let mut command =
        cargo(&["test", "--quiet", "--profile", "simulation", "--test", "simulation", "--"]);
    command.args(&args.arguments);
    finish(&mut command)
}
