//! Who may know whom.

use super::{source::Source, tested::is_test_file};

/// The rooms below `src`, from the ground up. A room knows those below, and no other on its own floor.
const FLOORS: &[&[&str]] = &[
    &["api"],
    &["rights", "rendezvous"],
    &["binder"],
    &["clock", "queue", "telemetry"],
    &["watch", "lease"],
    &["world"],
    &["apiserver", "report"],
    &["pass", "shard"],
    &["leader"],
    &["claim", "address"],
    &["runtime"],
    &["controllers"],
    &["lib", "main"],
];

/// The rooms where the same facts always give the same answer.
const PURE: &[&str] = &["api", "binder", "rendezvous"];

/// Names that a pure room does not contain.
const IMPURE: &[&str] = &[
    "Client",
    "tokio",
    "async",
    "Instant",
    "SystemTime",
    "rand",
    "fastrand",
    "getrandom",
    "RandomState",
    // Iterated over in an order of its own in each process.
    "HashMap",
    "HashSet",
    "thread",
    "parking_lot",
];

/// Paths that a pure room does not contain: clocks of all kinds, and the world outside.
const IMPURE_PATHS: &[&str] = &["::now(", "std::env", "std::fs", "std::net::Tcp", "std::process"];

/// What breaks the layering in a file.
pub(super) fn broken(source: &Source) -> Vec<String> {
    let Some(room) = room_of(&source.path) else { return Vec::new() };
    let Some(floor) = floor_of(room) else {
        return vec![format!(
            "src/{room}: a room without a floor: give it one in tools/testbed/src/house/layers.rs"
        )];
    };
    let mut found = Vec::new();
    for (line, other) in rooms_named(&source.code) {
        if other != room && floor_of(&other).is_some_and(|its| its >= floor) {
            found.push(format!(
                "{}:{line}: `{room}` must not know `{other}`, which is not below it",
                source.path
            ));
        }
    }
    // A test may walk at random, from a seed.
    if PURE.contains(&room) && !is_test_file(&source.path) {
        for (line, name) in impure(&source.code) {
            found.push(format!(
                "{}:{line}: `{name}` in `{room}`, which is pure: no client, runtime, clock or randomness",
                source.path
            ));
        }
    }
    found
}

fn room_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("src/")?;
    inside.split('/').next().map(|first| first.trim_end_matches(".rs"))
}

fn floor_of(room: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&room))
}

/// The rooms that a file names after `crate::`, with their lines; braces are looked into.
fn rooms_named(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + "crate::".len()..];
        found.extend(first_names(rest).into_iter().map(|name| (line, name)));
    }
    found
}

/// `api::x` gives `api`; `{api::{x, y}, binder}` gives both.
fn first_names(text: &str) -> Vec<String> {
    let name_of = |text: &str| {
        text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
    };
    let Some(inner) = text.strip_prefix('{') else { return vec![name_of(text)] };
    let mut names = Vec::new();
    let (mut depth, mut start) = (0_usize, true);
    for (index, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => start = true,
            c if start && !c.is_whitespace() => {
                names.push(name_of(&inner[index..]));
                start = false;
            }
            _ => {}
        }
    }
    names
}

fn impure(code: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let words: Vec<_> = words.collect();
        found.extend(IMPURE.iter().filter(|n| words.contains(n)).map(|n| (index + 1, *n)));
        found.extend(IMPURE_PATHS.iter().filter(|p| line.contains(**p)).map(|p| (index + 1, *p)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        broken(&Source::new(path, text)).len()
    }

    #[test]
    fn a_room_knows_those_below() {
        assert_eq!(found("src/binder/claim.rs", "use crate::api::IPAddress;"), 0);
        assert_eq!(found("src/binder/claim.rs", "use crate::{api, binder::plan};"), 0);
        assert_eq!(
            found(
                "src/claim/mod.rs",
                "use crate::{\n    binder::plan::{Plan, Step},\n    watch,\n};"
            ),
            0
        );
        assert_eq!(found("src/main.rs", "address_controller::runtime::run()"), 0);
    }

    #[test]
    fn a_room_does_not_know_what_is_above() {
        assert_eq!(found("src/api/mod.rs", "use crate::binder::view;"), 1);
        assert_eq!(found("src/binder/mod.rs", "use crate::{api, runtime::args};"), 1);
        assert_eq!(found("src/binder/mod.rs", "fn f() { crate::claim::run() }"), 1);
        assert_eq!(found("src/binder/mod.rs", "// crate::claim decides nothing"), 0);
        assert_eq!(found("src/claim/mod.rs", "use crate::{address, leader};"), 1, "beside it");
        assert_eq!(found("src/shard/mod.rs", "use crate::leader::Leadership;"), 1);
        assert_eq!(found("src/attic/mod.rs", ""), 1, "a room without a floor");
    }

    #[test]
    fn a_pure_room_names_no_client_runtime_clock_or_randomness() {
        for text in [
            "use kube::{Api, Client};",
            "let c: kube::Client = x;",
            "tokio::spawn(x)",
            "let t = std::time::Instant::now();",
            "let t = Timestamp::now();",
            "fastrand::u8(..)",
            "use std::collections::HashMap;",
            "async fn f() {}",
        ] {
            assert!(found("src/binder/x.rs", text) > 0, "{text}");
            assert_eq!(found("src/runtime/x.rs", text), 0, "{text}");
        }
        assert_eq!(found("src/api/x.rs", "/// A Client of tokio.\nfn f(now: Timestamp) {}"), 0);
    }
}
