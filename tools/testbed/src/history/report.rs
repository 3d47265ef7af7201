//! What a check of a history found, told so that it can be understood without looking anything up.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Write,
};

use address_controller::binder::invariants::{Actor, Change, Checker, Kind, Object, Violation};
use jiff::{SignedDuration, Timestamp};
use kube::Resource;
use serde::Serialize;
use serde_json::Value;

use super::{History, Request, Target};

/// How many changes of the same object are told before and after a violation.
const AROUND: usize = 5;

/// Refusals that say nothing of the next try: who asks, what is there, how it is, how busy it is.
const AGAIN: [u16; 4] = [401, 404, 409, 429];

/// How long a pass may take from the first of its writes to its last.
const NOT_LONG: SignedDuration = SignedDuration::from_secs(60);

/// How many violations are told in full.
const TOLD: usize = 20;

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Changes of the three kinds.
    pub changes: usize,
    /// Of these, by the controller: those that were judged.
    pub by_controller: usize,
    /// Of these, by nobody known: those that could not be judged.
    pub unattributed: usize,
    /// Objects that could not be read.
    pub unreadable: usize,
}

/// What a check found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The rules that were broken.
    pub violations: Vec<Violation>,
    /// How much was looked at.
    pub counts: Counts,
    told: String,
}

/// Holds every change against the invariants.
pub fn check(history: &History) -> Report {
    let (violations, _) = fold(history);
    Report::new(history, violations)
}

/// As [`check`], and holds the end against what must be so when the writes have stopped.
pub fn check_at_rest(history: &History) -> Report {
    let (mut violations, checker) = fold(history);
    violations.extend(checker.world().at_rest());
    Report::new(history, violations)
}

fn fold(history: &History) -> (Vec<Violation>, Checker) {
    let mut checker = Checker::new();
    let mut violations = Vec::new();
    let refusals = Refusals::of(history);
    for (change, request) in history.changes.iter().zip(&history.made_by) {
        let request = request.and_then(|i| history.requests.get(i));
        if let (Object::Claim(_), Some(request)) = (&change.object, request) {
            checker.refused(refusals.before(request));
        }
        violations.extend(checker.apply(change));
    }
    (violations, checker)
}

/// The controller's writes to addresses that the API server refused, and would refuse again: for each
/// replica, when they came and for which address, in that order.
struct Refusals<'a>(HashMap<&'a str, Vec<(Timestamp, &'a str)>>);

impl<'a> Refusals<'a> {
    fn of(history: &'a History) -> Self {
        let mut all: HashMap<_, Vec<_>> = HashMap::new();
        for request in &history.requests {
            let for_good = (400..500).contains(&request.status) && !AGAIN.contains(&request.status);
            let address = request.target == Target::Kind(Kind::Address) && request.is_write();
            if !for_good || !address || !matches!(request.actor, Actor::Controller(_)) {
                continue;
            }
            if let (Ok(at), Some(name)) = (request.received.parse(), request.name.as_deref()) {
                all.entry(request.user_agent.as_str()).or_default().push((at, name));
            }
        }
        for refusals in all.values_mut() {
            refusals.sort_unstable();
        }
        Self(all)
    }

    /// The addresses that the author of a request was refused not long before it.
    fn before(&self, request: &Request) -> BTreeSet<String> {
        let Ok(until) = request.received.parse::<Timestamp>() else { return BTreeSet::new() };
        let all = self.0.get(request.user_agent.as_str()).map_or(&[][..], Vec::as_slice);
        let from = all.partition_point(|(at, _)| until.duration_since(*at) > NOT_LONG);
        let recent = all[from..].iter().take_while(|(at, _)| *at <= until);
        recent.map(|(_, name)| (*name).to_owned()).collect()
    }
}

impl Report {
    fn new(history: &History, violations: Vec<Violation>) -> Self {
        let by_controller =
            history.changes.iter().filter(|c| matches!(c.actor, Some(Actor::Controller(_))));
        let counts = Counts {
            changes: history.changes.len(),
            by_controller: by_controller.count(),
            unattributed: history.unattributed().count(),
            unreadable: history.unreadable().count(),
        };
        let mut told = String::new();
        for violation in violations.iter().take(TOLD) {
            let _ = writeln!(told, "{violation}");
            for line in around(history, violation) {
                let _ = writeln!(told, "    {line}");
            }
        }
        if violations.len() > TOLD {
            let _ = writeln!(told, "and {} more", violations.len() - TOLD);
        }
        for change in history.unattributed().take(TOLD) {
            let _ = writeln!(told, "by nobody known: {}", line(change));
        }
        Self { violations, counts, told }
    }

    /// What was found, with each violation's object's changes around it.
    pub fn text(&self) -> &str {
        &self.told
    }

    /// That nothing was broken, and that everything could be judged.
    ///
    /// # Panics
    /// When a rule was broken, or the author of a change is not known.
    #[track_caller]
    pub fn assert_clean(&self) {
        self.assert_clean_but_for(0);
    }

    /// As [`Self::assert_clean`], where up to so many changes may have lost their authors: an API
    /// server that is killed does not log the requests that it was at.
    ///
    /// # Panics
    /// When a rule was broken, or more authors than that are not known.
    #[track_caller]
    pub fn assert_clean_but_for(&self, unattributed: usize) {
        let known = self.counts.unattributed <= unattributed;
        assert!(self.violations.is_empty() && known, "{:?}\n{}", self.counts, self.told);
    }
}

/// The changes of a violation's object around it, the one that is to blame marked.
fn around(history: &History, violation: &Violation) -> Vec<String> {
    let own: Vec<_> =
        history.changes.iter().filter(|c| c.object.to_string() == violation.object).collect();
    let at = own.partition_point(|c| c.revision < violation.revision);
    let shown = at.saturating_sub(AROUND)..own.len().min(at + AROUND + 1);
    own[shown]
        .iter()
        .map(|change| {
            let blamed = if change.revision == violation.revision { "> " } else { "  " };
            format!("{blamed}{}", line(change))
        })
        .collect()
}

/// A change in one line: when, who, how, and what became different.
fn line(change: &Change) -> String {
    let actor = change.actor.as_ref().map_or("nobody known".to_owned(), |a| format!("{a:?}"));
    let how = change.write.as_ref().map_or(String::new(), |w| {
        let subresource = w.subresource.as_deref().map_or(String::new(), |s| format!("/{s}"));
        let on = match (w.precondition.resource_version, w.precondition.uid) {
            (true, true) => "if version and uid",
            (true, false) => "if version",
            (false, true) => "if uid",
            (false, false) => "unconditional",
        };
        format!(" {:?}{subresource}, {on}", w.verb)
    });
    format!("{} {} by {actor}{how}: {}", change.revision, change.object, what(&change.object))
}

fn what(object: &Object) -> String {
    match object {
        Object::Class(v) => difference(v.old.as_deref(), v.new.as_deref()),
        Object::Address(v) => difference(v.old.as_deref(), v.new.as_deref()),
        Object::Claim(v) => difference(v.old.as_deref(), v.new.as_deref()),
        Object::Unreadable(u) if u.exists => "cannot be read".to_owned(),
        Object::Unreadable(_) => "gone; could not be read".to_owned(),
    }
}

fn difference<K: Serialize + Resource>(old: Option<&K>, new: Option<&K>) -> String {
    let value = |object: Option<&K>| object.and_then(|o| serde_json::to_value(o).ok());
    match (value(old), value(new)) {
        (Some(old), Some(new)) => {
            let mut parts = Vec::new();
            differ("", &old, &new, &mut parts);
            parts.join("; ")
        }
        (None, Some(new)) => format!("new: {}", brief(&new)),
        (Some(old), None) => format!("gone: {}", brief(&old)),
        (None, None) => String::new(),
    }
}

/// The whole object, without what every object has.
fn brief(object: &Value) -> String {
    let mut object = object.clone();
    for noise in ["apiVersion", "kind"] {
        if let Some(fields) = object.as_object_mut() {
            fields.remove(noise);
        }
    }
    object.to_string()
}

/// What differs, by path, down to what is no object any more.
fn differ(path: &str, old: &Value, new: &Value, parts: &mut Vec<String>) {
    if old == new || matches!(path, ".metadata.resourceVersion" | ".metadata.generation") {
        return;
    }
    let (Some(before), Some(after)) = (old.as_object(), new.as_object()) else {
        parts.push(format!("{path}: {old} -> {new}"));
        return;
    };
    let added = after.keys().filter(|key| !before.contains_key(*key));
    for key in before.keys().chain(added) {
        let absent = Value::Null;
        let at = |fields: &serde_json::Map<String, Value>| {
            fields.get(key).cloned().unwrap_or(absent.clone())
        };
        differ(&format!("{path}.{key}"), &at(before), &at(after), parts);
    }
}
