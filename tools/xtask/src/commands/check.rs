//! `cargo xtask check`: everything that can be said of the code without running it.

use std::time::Instant;

use anyhow::{Result, bail};
use testbed::{
    house::{self, BINDER_RATIO},
    manifests::{repository, stale},
};

use crate::{
    report::minutes,
    run::{cargo, finish, is_there},
};

/// Runs every check, also after one has failed.
pub fn run() -> Result<()> {
    let mut failed = Vec::new();
    for (name, check) in CHECKS {
        println!("check {name}");
        let begin = Instant::now();
        match check() {
            Ok(()) => println!("check {name}: ok, {}", minutes(begin.elapsed())),
            Err(error) => {
                println!("check {name}: FAILED\n{error:#}");
                failed.push(*name);
            }
        }
    }
    if !failed.is_empty() {
        bail!("checks that failed: {}", failed.join(", "));
    }
    Ok(())
}

type Check = fn() -> Result<()>;

const CHECKS: &[(&str, Check)] = &[
    ("formatting", || finish(&mut cargo(&["fmt", "--all", "--check"]))),
    ("lints", lints),
    ("documents", documents),
    ("layering", || none(&house::layering(&repository())?)),
    ("lengths", || none(&house::lengths(&repository())?)),
    ("headers", || none(&house::headers(&repository())?)),
    ("tests of the binder", binder_ratio),
    ("generated files", generated),
    ("dependencies", dependencies),
];

/// Clippy with the lints of Cargo.toml, missing documents among them; each warning is a failure.
fn lints() -> Result<()> {
    let args = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "--deny", "warnings"];
    finish(&mut cargo(&args))
}

fn documents() -> Result<()> {
    let mut command = cargo(&["doc", "--quiet", "--workspace", "--no-deps"]);
    finish(command.env("RUSTDOCFLAGS", "--deny warnings"))
}

fn binder_ratio() -> Result<()> {
    let ratio = house::binder_ratio(&repository())?;
    let value = ratio.value();
    println!("  {} lines of test for {} of code: {value:.2}", ratio.test, ratio.code);
    if value < BINDER_RATIO {
        bail!("at least {BINDER_RATIO} lines of test are wanted for a line of code");
    }
    Ok(())
}

fn generated() -> Result<()> {
    let stale = stale(&repository())?;
    let lines: Vec<_> =
        stale.iter().map(|path| format!("{}: run `make manifests`", path.display())).collect();
    none(&lines)
}

/// Licences, sources, what is banned, and advisories where their list can be had.
fn dependencies() -> Result<()> {
    if !is_there("cargo", &["deny", "--version"]) {
        println!("  SKIPPED: cargo-deny is not installed (`cargo install --locked cargo-deny`)");
        return Ok(());
    }
    finish(&mut cargo(&["deny", "--workspace", "check", "bans", "licenses", "sources"]))?;
    let advisories = cargo(&["deny", "--workspace", "check", "advisories"]).output()?;
    let said = String::from_utf8_lossy(&advisories.stderr);
    if said.contains("failed to fetch advisory database") {
        println!("  SKIPPED: the list of advisories cannot be fetched from here");
    } else if !advisories.status.success() {
        bail!("{said}");
    }
    Ok(())
}

fn none(found: &[String]) -> Result<()> {
    if found.is_empty() { Ok(()) } else { bail!("{}", found.join("\n")) }
}
