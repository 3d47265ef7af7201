//! The text of one file, and what of it is code.

use std::path::Path;

use anyhow::{Context, Result};

/// A Rust file.
pub(super) struct Source {
    /// From the root of the repository, with slashes.
    pub(super) path: String,
    pub(super) text: String,
    /// The text with comments gone and what is quoted replaced, line for line.
    pub(super) code: String,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), code: code_of(text) }
    }

    /// The Rust files below some folders, in the order of their paths.
    pub(super) fn below(root: &Path, folders: &[&str]) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        for folder in folders {
            collect(root, &root.join(folder), &mut found)?;
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<Source>) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("reading {}", path.display()))?;
            let name =
                path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            found.push(Source::new(&name, &text));
        }
    }
    Ok(())
}

/// Takes out comments, and replaces each quoted character by `_`. Lines stay where they are.
fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (kind, length) = piece(rest, code.chars().next_back());
        let (this, after) = rest.split_at(length.max(first.len_utf8()));
        match kind {
            Piece::Code => code.push_str(this),
            Piece::Comment => code.extend(this.chars().filter(|c| *c == '\n')),
            Piece::Quoted => code.extend(this.chars().map(|c| if c == '\n' { c } else { '_' })),
        }
        rest = after;
    }
    code
}

enum Piece {
    Code,
    Comment,
    Quoted,
}

/// What the text begins with, and how many bytes of it.
fn piece(text: &str, before: Option<char>) -> (Piece, usize) {
    let in_name = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if text.starts_with("//") {
        return (Piece::Comment, text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return (Piece::Comment, text.find("*/").map_or(text.len(), |end| end + 2));
    }
    if let Some(quoted) = text.strip_prefix('"') {
        return (Piece::Quoted, 1 + end_of_quote(quoted));
    }
    if !in_name && let Some(length) = raw_string(text) {
        return (Piece::Quoted, length);
    }
    if let Some(length) = character(text) {
        return (Piece::Quoted, length);
    }
    (Piece::Code, 1)
}

fn end_of_quote(text: &str) -> usize {
    let mut escaped = false;
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

fn raw_string(text: &str) -> Option<usize> {
    let inner = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = inner.len() - inner.trim_start_matches('#').len();
    let body = inner[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - body.len();
    Some(body.find(&end).map_or(text.len(), |at| start + at + end.len()))
}

/// A character literal, which a lifetime is not.
fn character(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('\'')?;
    if inner.starts_with('\\') {
        // The escaped character itself may be a quote.
        return inner.get(2..)?.find('\'').map(|end| end + 4);
    }
    let c = inner.chars().next()?;
    inner[c.len_utf8()..].starts_with('\'').then(|| c.len_utf8() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_left() {
        for (text, code) in [
            ("a // tokio\nb", "a \nb"),
            ("a /* to\nkio */ b", "a \n b"),
            ("f(\"// not \\\" a comment\") // one", "f(_____________________) "),
            ("r#\"a \" b\"# c", "__________ c"),
            ("x('\"', '\\'', 'a) // y", "x(___, ____, 'a) "),
            ("bar\"s\"", "bar___"),
            ("\"\u{e9}\nb\" c", "__\n__ c"),
        ] {
            assert_eq!(code_of(text), code, "{text}");
        }
    }
}
