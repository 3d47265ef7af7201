//! `cargo xtask build`: the release binary; and the one for trying things.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::run::{cargo, finish};

/// Builds it.
pub fn run() -> Result<()> {
    finish(&mut cargo(&["build", "--release", "--bin", "address-controller"]))?;
    println!("target/release/address-controller");
    Ok(())
}

/// Builds the controller in the debug profile and gives the binary's path.
///
/// This program is linked with the same library in the same profile, so little is left to compile,
/// where a release build compiles everything a second time.
///
/// # Errors
/// When it cannot be built.
pub fn for_trying() -> Result<PathBuf> {
    // Both packages, so that cargo chooses the features that it chose for this program.
    let packages = ["--package", "address-controller", "--package", "xtask"];
    finish(cargo(&["build", "--bin", "address-controller"]).args(packages))?;
    let us = std::env::current_exe().context("where this program is")?;
    Ok(us.with_file_name("address-controller"))
}
