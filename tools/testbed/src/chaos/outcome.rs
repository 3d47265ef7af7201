//! What a run was, what it found, and how to run it again.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use address_controller::{
    api::ClaimPhase,
    binder::invariants::{Actor, Change, Object},
};

use super::Plan;
use crate::history::{History, Report, Scope, Target};

/// What was counted in a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Addresses that the controller bound: `claimRef` got a uid from it.
    pub binds: usize,
    /// Claims that became `Bound` for the first time.
    pub claims_bound: usize,
    /// Claims that are gone.
    pub claims_gone: usize,
    /// Writes of the controller that met another version.
    pub conflicts: usize,
    /// All writes that the controller asked for.
    pub writes: usize,
}

impl Work {
    pub(super) fn of(history: &History) -> Self {
        let writes = history.writes_by_controller(&Scope::everything());
        let ours = || writes.iter().filter(|w| matches!(w.request.target, Target::Kind(_)));
        let mut work = Self {
            conflicts: ours().filter(|w| w.request.status == 409).count(),
            writes: ours().count(),
            ..Self::default()
        };
        let mut bound = std::collections::BTreeSet::new();
        for change in &history.changes {
            work.binds += usize::from(is_bind(change));
            let Object::Claim(versions) = &change.object else { continue };
            work.claims_gone += usize::from(versions.new.is_none());
            let Some(claim) = &versions.new else { continue };
            let phase = claim.status.as_ref().and_then(|s| s.phase);
            if phase == Some(ClaimPhase::Bound) {
                bound.insert(claim.metadata.uid.clone());
            }
        }
        work.claims_bound = bound.len();
        work
    }
}

fn is_bind(change: &Change) -> bool {
    let Object::Address(versions) = &change.object else { return false };
    let uid = |address: &address_controller::api::IPAddress| {
        address.spec.claim_ref.as_ref().and_then(|r| r.uid.clone()).filter(|uid| !uid.is_empty())
    };
    let (Some(old), Some(new)) = (&versions.old, &versions.new) else { return false };
    let by_controller = matches!(change.actor, Some(Actor::Controller(_)));
    by_controller && uid(old).is_none() && uid(new).is_some()
}

/// How large the record was, and what reading it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Bytes of the audit log.
    pub audit_bytes: u64,
    /// How long reading and checking took.
    pub took: Duration,
    /// The most memory that this process has had, in bytes, as far as the system tells.
    pub peak_memory: Option<u64>,
}

/// A run's end.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was asked for.
    pub plan: Plan,
    /// What the controller did.
    pub work: Work,
    /// Faults, by kind.
    pub faults: BTreeMap<String, usize>,
    /// What people and the driver did.
    pub workload: BTreeMap<String, usize>,
    /// From each kill of a leader to the next one, sorted.
    pub takeovers: Vec<Duration>,
    /// Kills of a leader that were not followed by another one before the next kill.
    pub unfollowed: usize,
    /// How long it took until everything was at rest; nothing where it never was.
    pub rest: Option<Duration>,
    /// What the history says.
    pub report: Report,
    /// What was found beside it.
    pub findings: Vec<String>,
    /// How large the record was.
    pub record: Record,
    /// Whether one replica's clock was set.
    pub clocks: bool,
}

impl Outcome {
    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.report.violations.is_empty() && self.findings.is_empty()
    }

    /// The report, for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    #[expect(clippy::cast_precision_loss, reason = "nobody has 2^52 binds")]
    fn write(&self, text: &mut String) {
        let Work { binds, claims_bound, claims_gone, conflicts, writes } = self.work;
        let counts = self.report.counts;
        self.write_what_was_found(text);
        list(text, "What people and the driver did", &self.workload);
        list(text, "What went wrong", &self.faults);
        if !self.clocks {
            let _ = writeln!(text, "  no clock was set: libfaketime is not installed");
        }
        let _ = writeln!(
            text,
            "\nThe controller bound {binds} addresses, and asked for {writes} writes; {claims_bound} claims \
             were bound, {claims_gone} are gone."
        );
        let per_bind = conflicts as f64 / binds.max(1) as f64;
        let _ = writeln!(text, "Conflicts: {conflicts}, {per_bind:.2} a bind.");
        let _ = writeln!(text, "Takeovers after a leader's death: {}.", self.takeovers_text());
        let rest = self.rest.map(|time| format!("At rest after {:.1} s.", time.as_secs_f64()));
        let _ = writeln!(text, "{}", rest.as_deref().unwrap_or("Never at rest."));
        let _ = writeln!(
            text,
            "Judged: {} of {} changes; {} by nobody known. Audit log {} MB, read and checked in {:.1} s{}.",
            counts.by_controller,
            counts.changes,
            counts.unattributed,
            self.record.audit_bytes >> 20,
            self.record.took.as_secs_f64(),
            self.record
                .peak_memory
                .map_or(String::new(), |m| format!(", peak memory {} MB", m >> 20)),
        );
        let _ = writeln!(text, "Violations: {}.", self.report.violations.len());
    }

    /// What is wrong comes first: of a long output, people see its beginning.
    fn write_what_was_found(&self, text: &mut String) {
        for finding in &self.findings {
            let _ = writeln!(text, "Found: {finding}");
        }
        if !self.is_clean() {
            let _ = writeln!(text, "{}\nAgain: {}\n", self.report.text(), self.plan.command());
        }
    }

    fn takeovers_text(&self) -> String {
        let times = &self.takeovers;
        let at = |part: usize| {
            let index = (times.len() * part / 100).min(times.len().saturating_sub(1));
            times.get(index).map_or(0.0, Duration::as_secs_f64)
        };
        let unfollowed = match self.unfollowed {
            0 => String::new(),
            count => format!("; {count} that nobody followed before the next"),
        };
        if times.is_empty() {
            return format!("none{unfollowed}");
        }
        let (half, most, all) = (at(50), at(95), at(100));
        format!(
            "{}: median {half:.2} s, 95 % {most:.2} s, longest {all:.2} s{unfollowed}",
            times.len()
        )
    }
}

fn list(text: &mut String, title: &str, counts: &BTreeMap<String, usize>) {
    let _ = writeln!(text, "{title}:");
    for (what, count) in counts {
        let _ = writeln!(text, "  {count:6} {what}");
    }
}

/// The most memory that this process has had, in bytes.
pub(super) fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}
