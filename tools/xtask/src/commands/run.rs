//! `cargo xtask run`: the controller on this machine.

use anyhow::Result;

use crate::run::{cargo, finish};

/// What is passed on to the controller.
#[derive(clap::Args)]
pub struct Args {
    /// Arguments of the controller; see `cargo xtask run -- --help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Runs it until it ends.
pub fn run(args: &Args) -> Result<()> {
    let mut command = cargo(&["run", "--release", "--bin", "address-controller", "--"]);
    finish(command.args(&args.args))
}
