//! How long files and functions may be.

use super::source::Source;

/// Lines in a file, all of them.
const FILE: usize = 500;
/// Lines in a function, from its `fn` to its brace.
const FUNCTION: usize = 70;

/// What is too long in a file.
pub(super) fn too_long(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let lines = source.text.lines().count();
    if lines > FILE {
        found.push(format!("{}: {lines} lines, and a file has at most {FILE}", source.path));
    }
    for (line, name, length) in functions(&source.code) {
        if length > FUNCTION {
            found.push(format!(
                "{}:{line}: `{name}` has {length} lines, and a function at most {FUNCTION}",
                source.path
            ));
        }
    }
    found
}

/// Each function with a body: its line, name and length. The brace that ends one stands where its
/// `fn` line begins, as rustfmt puts it.
fn functions(code: &str) -> Vec<(usize, String, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let end = format!("{}}}", &line[..indent]);
        if let Some(length) = length(&lines[start..], &end) {
            found.push((start + 1, name, length));
        }
    }
    found
}

fn function_name(line: &str) -> Option<String> {
    let words = ["const", "async", "unsafe", "extern", "default"];
    let mut rest = line.trim_start();
    while let Some((first, after)) = rest.split_once(' ') {
        if first == "fn" {
            return Some(after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
        if !(first.starts_with("pub") || words.contains(&first)) {
            return None;
        }
        rest = after;
    }
    None
}

/// The lines from the first to the one that is `end`; nothing for a declaration without a body.
fn length(lines: &[&str], end: &str) -> Option<usize> {
    let mut body = false;
    for (index, line) in lines.iter().enumerate() {
        let trimmed = line.trim_end();
        if body
            && trimmed
                .strip_prefix(end)
                .is_some_and(|rest| rest.trim_matches(&[')', ';', ','][..]).is_empty())
        {
            return Some(index + 1);
        }
        if !body && trimmed.ends_with('}') {
            return Some(index + 1);
        }
        if !body && trimmed.ends_with(';') {
            return None;
        }
        body |= trimmed.ends_with('{');
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_measured_from_its_name_to_its_brace() {
        let text = "\
impl X {
    pub(crate) async fn long<T>(
        x: T,
    ) -> u8
    where
        T: Copy,
    {
        if x {
        }
    }
    fn declared(&self);
    const fn short() -> u8 { 1 }
}
fn fnord() {
}
";
        let found = functions(&Source::new("x.rs", text).code);
        let found: Vec<_> = found.iter().map(|(at, name, long)| (*at, &**name, *long)).collect();
        assert_eq!(found, [(2, "long", 9), (12, "short", 1), (14, "fnord", 2)]);
    }

    #[test]
    fn what_is_too_long_is_named() {
        let long = format!("fn f() {{\n{}}}\n", "    g();\n".repeat(69));
        let found = too_long(&Source::new("x.rs", &long));
        assert_eq!(found, ["x.rs:1: `f` has 71 lines, and a function at most 70"]);
        let long = "\n".repeat(501);
        assert_eq!(too_long(&Source::new("x.rs", &long)).len(), 1);
    }
}
