//! `cargo xtask manifests`: the generated files.

use anyhow::Result;
use testbed::manifests::{repository, write};

/// Writes them.
pub fn run() -> Result<()> {
    let changed = write(&repository())?;
    for path in &changed {
        println!("wrote {}", path.display());
    }
    if changed.is_empty() {
        println!("nothing to do: the generated files are as the code has them");
    }
    Ok(())
}
