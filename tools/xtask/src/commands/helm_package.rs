//! `cargo xtask helm-package`: the chart as an archive.

use anyhow::Result;

use crate::run::{finish, need, program};

/// Packages the chart.
pub fn run() -> Result<()> {
    need("helm", &["version"], "to package the chart", "https://helm.sh/docs/intro/install/")?;
    let args = ["package", "chart/address-controller", "--destination", "target"];
    finish(&mut program("helm", &args))
}
