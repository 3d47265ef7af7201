//! How much of the binder is test.

use std::path::Path;

use anyhow::Result;

use super::source::Source;

/// Lines that are neither blank nor comment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ratio {
    /// Of code.
    pub code: usize,
    /// Of tests.
    pub test: usize,
}

impl Ratio {
    /// Lines of test for a line of code.
    #[expect(clippy::cast_precision_loss, reason = "nobody writes 2^52 lines")]
    pub fn value(self) -> f64 {
        self.test as f64 / self.code.max(1) as f64
    }
}

/// The binder's tests: those in its rooms (modules under `#[cfg(test)]`, files and folders called
/// `tests` or `testing`), and those below `tests/` that begin with `binder`.
///
/// # Errors
/// When the sources cannot be read.
pub fn binder_ratio(root: &Path) -> Result<Ratio> {
    let mut ratio = Ratio::default();
    for source in Source::below(root, &["src/binder", "tests"])? {
        let in_tests = source.path.starts_with("tests/");
        if in_tests && !source.path.starts_with("tests/binder") {
            continue;
        }
        let (code, test) = count(&source.code);
        if in_tests || is_test_file(&source.path) {
            ratio.test += code + test;
        } else {
            ratio.code += code;
            ratio.test += test;
        }
    }
    Ok(ratio)
}

/// Whether all of a file is tests.
pub(super) fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| matches!(part.trim_end_matches(".rs"), "tests" | "testing"))
}

/// The lines of code outside and inside modules under `#[cfg(test)]`.
fn count(code: &str) -> (usize, usize) {
    let (mut outside, mut inside) = (0, 0);
    let mut end: Option<String> = None;
    let mut marked = false;
    for line in code.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(last) = &end {
            inside += 1;
            if line.trim_end() == last {
                end = None;
            }
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        if line.trim() == "#[cfg(test)]" {
            marked = true;
            inside += 1;
        } else if marked {
            inside += 1;
            // Attributes may stand between the mark and what it marks.
            marked = line.trim_start().starts_with("#[");
            if line.trim_end().ends_with('{') {
                end = Some(format!("{indent}}}"));
            }
        } else {
            outside += 1;
        }
    }
    (outside, inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_on_their_side() {
        let text = "//! Words.\n\nfn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {\n    }\n}\nfn h() {}\n#[cfg(test)]\nmod other;\n";
        assert_eq!(count(&Source::new("x.rs", text).code), (2, 7));
        assert!(is_test_file("src/binder/tests/first.rs"));
        assert!(is_test_file("src/binder/testing.rs"));
        assert!(!is_test_file("src/binder/status.rs"));
    }
}
