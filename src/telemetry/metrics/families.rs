//! The families: their names, what they mean, and their labels.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Metric, Registry},
};

use super::super::{EventResult, Kind, Outcome, Problem, Status, Verb};

/// What every name begins with.
pub(super) const PREFIX: &str = "address_controller_";

/// The type of a family, as Prometheus knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// It only grows.
    Counter,
    /// It is what it is at the moment.
    Gauge,
    /// Observations, counted in buckets.
    Histogram,
}

impl Type {
    /// The type as Prometheus spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What a family is, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The whole name, as it is queried.
    pub name: String,
    /// Its type.
    pub type_: Type,
    /// What it says.
    pub help: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
}

struct Entry(&'static str, Type, &'static str, &'static [&'static str]);

/// Names are without the prefix, and without the `_total` that a counter's name ends with.
const FAMILIES: &[Entry] = &[
    Entry("passes", Type::Counter, "Passes that ended, by kind and outcome", &["kind", "outcome"]),
    Entry("pass_duration_seconds", Type::Histogram, "How long a pass ran", &["kind"]),
    Entry(
        "queue_duration_seconds",
        Type::Histogram,
        "How long an object waited for its pass after it was due",
        &["kind"],
    ),
    Entry("queue_depth", Type::Gauge, "Objects that wait for a pass or are in one", &["kind"]),
    Entry(
        "bind_duration_seconds",
        Type::Histogram,
        "How long after its creation a claim became Bound",
        &[],
    ),
    Entry(
        "conflicts",
        Type::Counter,
        "Writes refused because the object had changed; the pass looks again",
        &["kind"],
    ),
    Entry(
        "writes",
        Type::Counter,
        "Writes, by what was written and what was answered",
        &["kind", "verb", "status"],
    ),
    Entry(
        "reads",
        Type::Counter,
        "Reads of single objects past the cache, by what was answered",
        &["kind", "status"],
    ),
    Entry("events", Type::Counter, "Kubernetes events, by what became of them", &["result"]),
    Entry(
        "watch_problems",
        Type::Counter,
        "Interruptions of watches, by what went wrong",
        &["kind", "problem"],
    ),
    Entry("watch_lists", Type::Counter, "Full lists that watches began with", &["kind"]),
    Entry(
        "unparsed_objects",
        Type::Gauge,
        "Objects that cannot be parsed and are left alone",
        &["kind"],
    ),
    Entry(
        "crd_missing_fields",
        Type::Gauge,
        "Fields that the installed CustomResourceDefinition lacks; install the newer one",
        &["kind"],
    ),
    Entry(
        "claims",
        Type::Gauge,
        "Claims, by phase and class; no class: none that exists",
        &["phase", "class"],
    ),
    Entry(
        "addresses",
        Type::Gauge,
        "Addresses, by phase and class; no class: none that exists",
        &["phase", "class"],
    ),
    Entry("leading", Type::Gauge, "1 on the replica that leads, else 0", &[]),
    Entry("members", Type::Gauge, "Replicas that this one takes for alive, itself included", &[]),
    Entry("buckets_held", Type::Gauge, "Buckets of claims that are this replica's, of 256", &[]),
    Entry(
        "lease_left_seconds",
        Type::Gauge,
        "How long this replica may still act by its Lease; 0: not at all",
        &["lease"],
    ),
];

/// Every family that there is, in the order in which they are exposed.
pub fn describe() -> Vec<Described> {
    let name = |entry: &Entry| match entry.1 {
        Type::Counter => format!("{PREFIX}{}_total", entry.0),
        Type::Gauge | Type::Histogram => format!("{PREFIX}{}", entry.0),
    };
    FAMILIES
        .iter()
        .map(|e| Described { name: name(e), type_: e.1, help: e.2, labels: e.3 })
        .collect()
}

/// The help text of a family, by its short name.
pub(super) fn help(name: &str) -> &'static str {
    let entry = FAMILIES.iter().find(|e| e.0 == name);
    debug_assert!(entry.is_some(), "{name} is not described");
    entry.map_or("", |e| e.2)
}

/// Registers a family under its short name and hands it back.
pub(super) fn register<M: Metric + Clone>(registry: &mut Registry, name: &str, metric: M) -> M {
    registry.register(format!("{PREFIX}{name}"), help(name), metric.clone());
    metric
}

/// Metrics by kind.
pub(super) type By<M> = Family<OfKind, M>;
/// Histograms by kind.
pub(super) type Histograms = Family<OfKind, Histogram, fn() -> Histogram>;

/// From a millisecond to half a minute: what a pass or a place in the queue takes.
pub(super) fn durations() -> Histograms {
    Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 2.0, 16)))
}

/// From ten milliseconds to three hours: what waiting for a driver takes.
pub(super) fn waits() -> Histogram {
    Histogram::new(exponential_buckets(0.01, 4.0, 11))
}

macro_rules! label_sets {
    ($($(#[$doc:meta])* $name:ident { $($label:ident: $type:ty),+ })+) => {
        $($(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
        pub(super) struct $name { $(pub $label: $type),+ })+
    };
}

label_sets! {
    /// Labels of what is by kind.
    OfKind { kind: Kind }
    /// Labels of passes.
    OfPass { kind: Kind, outcome: Outcome }
    /// Labels of writes.
    OfWrite { kind: Kind, verb: Verb, status: Status }
    /// Labels of reads.
    OfRead { kind: Kind, status: Status }
    /// Labels of events.
    OfEvent { result: EventResult }
    /// Labels of watch problems.
    OfProblem { kind: Kind, problem: Problem }
}
