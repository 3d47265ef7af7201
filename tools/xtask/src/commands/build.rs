//! `cargo xtask build`: the release binary.

use anyhow::Result;

use crate::run::{cargo, finish};

/// Builds it.
pub fn run() -> Result<()> {
    finish(&mut cargo(&["build", "--release", "--bin", "address-controller"]))?;
    println!("target/release/address-controller");
    Ok(())
}
