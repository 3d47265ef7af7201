//! `cargo xtask run`: the controller on this machine.

use std::{os::unix::process::CommandExt, process::Command};

use anyhow::{Error, Result};

use super::build;

/// What is passed on to the controller.
#[derive(clap::Args)]
pub struct Args {
    /// Arguments of the controller; see `cargo xtask run -- --help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Becomes the controller: Ctrl-C and the exit code are its own.
///
/// # Errors
/// When it cannot be built or started.
pub fn run(args: &Args) -> Result<()> {
    let binary = build::for_trying()?;
    let failed = Command::new(&binary).args(&args.args).exec();
    Err(Error::new(failed).context(format!("starting {}", binary.display())))
}
