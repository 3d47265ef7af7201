//! `cargo xtask election-proof`: runs the package that tries kube-leader-election beside our own
//! module; see docs/adr/0006. It is not of this workspace, so that no second kube comes into it.

use anyhow::Result;

use crate::{
    report::controlplane_binaries,
    run::{cargo, finish},
};

/// Builds it, by its own lock file, and runs it on a control plane of its own.
///
/// # Errors
/// When it cannot be built or run, or our own module does what it must not.
pub fn run() -> Result<()> {
    controlplane_binaries()?;
    println!("Building tools/election-proof, a package of its own. Then it takes one minute.");
    let args = ["run", "--quiet", "--locked", "--manifest-path", "tools/election-proof/Cargo.toml"];
    finish(cargo(&args).args(["--target-dir", "target/election-proof"]))
}
