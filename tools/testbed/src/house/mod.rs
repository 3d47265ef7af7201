//! The rules of the house that no compiler knows: who may know whom, how long things may be, how
//! much is tested. Read from the text of the sources, which rustfmt has put into one shape.

mod layers;
mod lengths;
mod source;
mod tested;

use std::path::Path;

use anyhow::Result;

pub use tested::{Ratio, binder_ratio};

use source::Source;

/// At least so many lines of test for a line of code in the binder.
pub const BINDER_RATIO: f64 = 2.5;

/// Where the layering is broken: a line each.
///
/// # Errors
/// When the sources cannot be read.
pub fn layering(root: &Path) -> Result<Vec<String>> {
    let sources = Source::below(root, &["src"])?;
    let mut found: Vec<_> = sources.iter().flat_map(layers::broken).collect();
    // A room without a floor is said once, not for each of its files.
    found.dedup();
    Ok(found)
}

/// Files and functions that are too long, and files that do not say what they are: a line each.
///
/// # Errors
/// When the sources cannot be read.
pub fn lengths(root: &Path) -> Result<Vec<String>> {
    let sources = Source::below(root, &["src", "tests", "tools", "benches"])?;
    Ok(sources.iter().flat_map(lengths::too_long).collect())
}

/// Files that do not begin with what they are: a line each.
///
/// # Errors
/// When the sources cannot be read.
pub fn headers(root: &Path) -> Result<Vec<String>> {
    let sources = Source::below(root, &["src", "tests", "tools", "benches"])?;
    let bare = sources.iter().filter(|source| !source.text.starts_with("//!"));
    Ok(bare.map(|source| format!("{}: begin with //! and say what it is", source.path)).collect())
}
