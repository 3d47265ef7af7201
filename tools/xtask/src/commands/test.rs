//! `cargo xtask test`: the tests, counted.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use super::check;
use crate::{report::controlplane_binaries, run::cargo};

/// Test targets whose name begins so run on a real API server.
const ON_AN_API_SERVER: &str = "apiserver";

/// Which tests.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    which: Option<Which>,
}

#[derive(clap::Subcommand)]
enum Which {
    /// All checks and all tests. This is what happens without a sub-command.
    All,
    /// Everything that needs no API server.
    Unit,
    /// Everything that needs one.
    Apiserver {
        /// Only the tests whose name contains this.
        name: Option<String>,
    },
    /// What a bind costs, also among 20,000 addresses: counts are checked, times are printed.
    Figures,
}

/// Runs them, and says how many passed on a line of its own at the end.
pub fn run(args: &Args) -> Result<()> {
    let (mut checks, mut command) = (Ok(()), cargo(&["test", "--workspace", "--no-fail-fast"]));
    match &args.which {
        None | Some(Which::All) => {
            checks = check::run();
            controlplane_binaries()?;
        }
        Some(Which::Unit) => {
            command.args(["--lib", "--bins"]);
            for target in targets_without_api_server()? {
                command.args(["--test", &target]);
            }
        }
        Some(Which::Apiserver { name }) => {
            controlplane_binaries()?;
            command.args(["--test", &format!("{ON_AN_API_SERVER}*")]);
            command.args(name.iter().flat_map(|name| ["--", name]));
        }
        Some(Which::Figures) => {
            controlplane_binaries()?;
            command.args(["--test", ON_AN_API_SERVER, "--", "figures::"]);
            command.args(["--include-ignored", "--nocapture", "--test-threads", "1"]);
        }
    }
    let counted = count(&mut command)?;
    if let Err(error) = &checks {
        println!("{error:#}");
    }
    for failure in &counted.failures {
        println!("\n{failure}");
    }
    println!("{} passed, {} failed", counted.passed, counted.failed);
    match (checks, counted.success) {
        (Ok(()), true) if counted.passed == 0 => bail!("there was no such test"),
        (Ok(()), true) => Ok(()),
        (Err(_), true) => bail!("the tests passed, and a check failed"),
        (_, false) => bail!("tests failed"),
    }
}

/// The integration tests that run anywhere, as cargo lists them.
fn targets_without_api_server() -> Result<Vec<String>> {
    let args = ["metadata", "--no-deps", "--format-version", "1"];
    let output = cargo(&args).output().context("cargo metadata")?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let targets = list(&metadata["packages"]).into_iter().flat_map(|p| list(&p["targets"]));
    Ok(targets
        .filter(|target| target["kind"][0] == "test")
        .filter_map(|target| target["name"].as_str().map(str::to_owned))
        .filter(|name| !name.starts_with(ON_AN_API_SERVER))
        .collect())
}

/// How many lines of a failed test are said again at the end, where they are found.
const LINES_OF_A_FAILURE: usize = 40;

/// How tests went.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    passed: usize,
    failed: usize,
    success: bool,
    /// Each failed test's name, and the beginning of what it failed with.
    failures: Vec<String>,
    /// Whose output the next line belongs to.
    within: Within,
}

/// Where in a test binary's output a line stands.
#[derive(Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Nothing,
    /// What a failed test printed before it failed.
    Output,
    /// What it failed with, and how many lines of it may still be said again.
    Failure(usize),
}

impl Counted {
    /// Adds what a line of a test binary says.
    fn add(&mut self, line: &str) {
        self.add_failure(line);
        let Some(summary) = line.strip_prefix("test result: ") else { return };
        let number_before = |word: &str| {
            let before = summary.split(word).next()?;
            before.trim().rsplit(' ').next()?.parse::<usize>().ok()
        };
        self.passed += number_before(" passed").unwrap_or(0);
        self.failed += number_before(" failed").unwrap_or(0);
    }

    fn add_failure(&mut self, line: &str) {
        let name = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = name {
            self.failures.push(format!("{name} failed:"));
            self.within = Within::Output;
            return;
        }
        if line == "failures:" {
            self.within = Within::Nothing;
        }
        let begins = line.starts_with("thread '") || line.starts_with("Error: ");
        if self.within == Within::Output && begins {
            self.within = Within::Failure(LINES_OF_A_FAILURE);
        }
        let (Within::Failure(left @ 1..), Some(failure)) =
            (&mut self.within, self.failures.last_mut())
        else {
            return;
        };
        *left -= 1;
        failure.push_str("\n  ");
        failure.push_str(line);
    }
}

/// Runs tests, passing on what they say, and counts them.
fn count(command: &mut Command) -> Result<Counted> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("starting cargo test")?;
    let mut counted = Counted::default();
    for line in BufReader::new(child.stdout.take().context("no output")?).lines() {
        let line = line?;
        println!("{line}");
        counted.add(&line);
    }
    counted.success = child.wait()?.success();
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_test_binaries_say_is_added_up() {
        let mut counted = Counted::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s",
            "test a ... ok",
            "test result: FAILED. 12 passed; 2 failed; 1 ignored; 0 measured; 4 filtered out; finished in 1.00s",
        ] {
            counted.add(line);
        }
        assert_eq!((counted.passed, counted.failed), (15, 2));
        assert_eq!(counted.failures, [""; 0]);
    }

    #[test]
    fn what_a_test_failed_with_is_said_again() {
        let mut counted = Counted::default();
        for line in [
            "failures:",
            "",
            "---- one::a stdout ----",
            "what it printed",
            "thread 'one::a' (12) panicked at tests/one.rs:24:5:",
            "left is not right",
            "---- one::b stdout ----",
            "Error: it returned",
            "failures:",
            "    one::a",
            "thread 'after it' has nothing to do with it",
        ] {
            counted.add(line);
        }
        let first = "one::a failed:\n  thread 'one::a' (12) panicked at tests/one.rs:24:5:\n  left is not right";
        assert_eq!(counted.failures, [first, "one::b failed:\n  Error: it returned"]);
    }
}
