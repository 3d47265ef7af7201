//! The controller's writes by name, the same in every run: the points at which it can be disturbed.

use std::{collections::BTreeMap, fmt};

use address_controller::api::well_known::{
    ADDRESS_FINALIZER, CLAIM_FINALIZER, SELECTED_ADDRESSES_ANNOTATION,
};
use serde_json::Value;
use testbed::proxy::{Match, Request, Verb};

use crate::support::ours;

/// One write of a run: what is written, to which object, and the how manieth of its like it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Point {
    write: Write,
    number: usize,
}

/// What is written to which object. The object's name is without what tells runs apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Write {
    object: String,
    step: String,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of {}", self.write.step, self.write.object)?;
        if self.number > 1 { write!(f, " for the {}. time", self.number) } else { Ok(()) }
    }
}

impl Point {
    /// Whether a run may go another way: an address that names its claim is protected by whichever
    /// of two passes comes first, and only the one that comes second tries again.
    pub(crate) fn is_raced(&self) -> bool {
        self.number > 1 || self.write.step == "protect"
    }

    /// The points of a run, in the order in which they were met.
    pub(crate) fn of_run(requests: &[Request], run: &str) -> Vec<Self> {
        let mut seen: BTreeMap<Write, usize> = BTreeMap::new();
        let of_run = requests.iter().filter(|r| r.name.starts_with(run));
        of_run
            .map(|request| {
                let write = Write::of(request, run);
                let number = seen.entry(write.clone()).or_default();
                *number += 1;
                Self { write, number: *number }
            })
            .collect()
    }

    /// The requests of another run that are at this point.
    pub(crate) fn requests(&self, run: &str) -> Match {
        let (write, run) = (self.write.clone(), run.to_owned());
        let here = move |request: &Request| {
            request.name.starts_with(&run) && Write::of(request, &run) == write
        };
        // What is ours is asked inside: a rule has room for one question.
        let controllers = ours(Match::writes());
        Match::any().when(move |r| controllers.matches(r) && here(r)).nth(self.number)
    }
}

impl Write {
    fn of(request: &Request, run: &str) -> Self {
        let claim = request.resource.starts_with("ipaddressclaims");
        let kind = if claim { "claim" } else { "address" };
        let object = format!("{kind} {}", &request.name[run.len()..]);
        Self { object, step: step(request) }
    }
}

/// The step's name, as the plan calls it.
fn step(request: &Request) -> String {
    let null = Value::Null;
    let body = request.body.as_ref().unwrap_or(&null);
    let phase = body["status"]["phase"].as_str().unwrap_or_default();
    let finalizers = body["metadata"]["finalizers"].as_array();
    let has = |name: &str| finalizers.is_some_and(|all| all.iter().any(|f| f == name));
    match (&*request.resource, request.verb) {
        (_, Verb::Delete) => "delete".to_owned(),
        ("ipaddressclaims/status", _) => format!("status {phase}"),
        ("ipaddresses/status", _) => format!("phase {phase}"),
        ("ipaddresses", _) if !body["spec"]["claimRef"].is_null() => "bind".to_owned(),
        ("ipaddresses", _) if has(ADDRESS_FINALIZER) => "protect".to_owned(),
        ("ipaddressclaims", _) if has(CLAIM_FINALIZER) => "mark".to_owned(),
        ("ipaddresses" | "ipaddressclaims", _) if finalizers.is_some() => "unprotect".to_owned(),
        ("ipaddressclaims", _)
            if body["metadata"]["annotations"].get(SELECTED_ADDRESSES_ANNOTATION).is_some() =>
        {
            "mark".to_owned()
        }
        ("ipaddressclaims", _) => "stamp".to_owned(),
        other => panic!("a write that no plan has: {other:?} {body}"),
    }
}
