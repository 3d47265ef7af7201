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
///
/// What cargo told this program about itself is not passed on: build scripts (ring's) look at it,
/// and would build their crate, and all that stand on it, again and again.
pub fn cargo(args: &[&str]) -> Command {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = program(&cargo, args);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_about_this_program) {
            command.env_remove(name);
        }
    }
    command
}

fn is_about_this_program(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| variable.starts_with(prefix))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_says_of_this_program_is_not_passed_on_and_settings_are() {
        assert!(is_about_this_program("CARGO_PKG_NAME"));
        assert!(is_about_this_program("CARGO_MANIFEST_DIR"));
        for setting in ["CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_BUILD_JOBS", "PATH"] {
            assert!(!is_about_this_program(setting), "{setting}");
        }
    }
}
