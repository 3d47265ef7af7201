//! Seeds that failed once: those that are kept run first, and new ones are written down.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{job::minutes, run::Plan};

/// What is kept, a line each: the seed, how many replicas and minutes, the revision that it failed at,
/// and what it found.
const KEPT: &str = include_str!("seeds.txt");

/// The kept ones, in their order.
pub fn kept() -> Vec<Plan> {
    KEPT.lines().filter(|line| !line.starts_with('#')).map(plan).collect()
}

fn plan(line: &str) -> Plan {
    let mut words = line.split_whitespace();
    let mut number = || words.next()?.parse::<u64>().ok();
    let mut of = || {
        let (seed, replicas, minutes) = (number()?, number()?, number()?);
        let replicas = usize::try_from(replicas).ok()?;
        Some(Plan { seed, replicas, time: Duration::from_mins(minutes), trace: false })
    };
    of().unwrap_or_else(|| panic!("tests/simulation/seeds.txt: not a kept seed: {line:?}"))
}

/// Writes down that a seed failed, in a form that can be kept. Where it was written.
pub fn write_down(plan: &Plan, found: &str) -> Option<PathBuf> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failed-seeds.txt");
    let Plan { seed, replicas, time, .. } = plan;
    let found = found.replace('\n', " ");
    let line = format!("{seed} {replicas} {} {} {found}\n", minutes(*time), revision());
    if fs::read_to_string(&file).is_ok_and(|text| text.contains(&line)) {
        return Some(file);
    }
    let mut open = OpenOptions::new().create(true).append(true).open(&file).ok()?;
    open.write_all(line.as_bytes()).ok()?;
    Some(file)
}

/// The revision of the sources, with a mark where they were changed since.
pub fn revision() -> String {
    let git = |arguments: &[&str]| {
        let root = env!("CARGO_MANIFEST_DIR");
        let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    match (git(&["rev-parse", "--short", "HEAD"]), git(&["status", "--porcelain"])) {
        (Some(head), Some(changes)) if changes.is_empty() => head,
        (Some(head), _) => format!("{head}+changes"),
        (None, _) => "unknown".to_owned(),
    }
}
