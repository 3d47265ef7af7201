//! Other programs: started in the repository's root, with words for those that are missing.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use testbed::manifests::repository;

/// A program that is to be started in the root of the repository.
pub fn program(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(args).current_dir(repository());
    command
}

/// The cargo that runs this.
pub fn cargo(args: &[&str]) -> Command {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = program(&cargo, args);
    // What `cargo run` says about xtask is not for its child: ring's build script looks at these,
    // and would be run again, with all that depends on it, by every other command.
    for (name, _) in std::env::vars_os() {
        if OF_CARGO_RUN.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}

const OF_CARGO_RUN: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];

/// Runs a program to its end.
///
/// # Errors
/// When it cannot be started, or fails.
pub fn finish(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("starting {name}"))?;
    if !status.success() {
        bail!("{name} failed ({status})");
    }
    Ok(())
}

/// Whether a program runs at all.
pub fn is_there(name: &str, args: &[&str]) -> bool {
    let mut command = program(name, args);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// That a tool is there.
///
/// # Errors
/// Names the tool, what for, and where to get it.
pub fn need(name: &str, args: &[&str], what_for: &str, from: &str) -> Result<()> {
    if is_there(name, args) {
        return Ok(());
    }
    bail!("{name} is needed {what_for}, and is not installed: see {from}")
}
