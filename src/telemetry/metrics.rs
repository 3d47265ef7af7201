//! What is counted, and how it is read.
//!
//! Each family is described once, in [`describe`]; what is registered is made from that. Labels are
//! closed sets, except for the class, whose values are the names of classes that exist.

mod families;
mod scrape;

use std::time::Duration;

use prometheus_client::{
    encoding::prometheus_text,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use self::families::{
    By, Histograms, OfEvent, OfKind, OfPass, OfProblem, OfRead, OfWrite, register,
};
pub use self::families::{Described, Type, describe};
use self::scrape::Scraped;
use super::{Census, EventResult, Kind, Outcome, Problem, Replicas, Status, Verb};

/// The media type of [`Metrics::encode`]'s text.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// Everything that is counted. Shared by reference; counting takes no lock that is held for long.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    passes: Family<OfPass, Counter>,
    pass_duration: Histograms,
    queue_duration: Histograms,
    bind_duration: Histogram,
    conflicts: By<Counter>,
    writes: Family<OfWrite, Counter>,
    reads: Family<OfRead, Counter>,
    events: Family<OfEvent, Counter>,
    watch_problems: Family<OfProblem, Counter>,
    watch_lists: By<Counter>,
    unparsed: By<Gauge>,
    missing_fields: By<Gauge>,
    scraped: Scraped,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// A set of metrics of its own, with nothing counted.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let r = &mut registry;
        let metrics = Self {
            passes: register(r, "passes", Family::default()),
            pass_duration: register(r, "pass_duration_seconds", families::durations()),
            queue_duration: register(r, "queue_duration_seconds", families::durations()),
            bind_duration: register(r, "bind_duration_seconds", families::waits()),
            conflicts: register(r, "conflicts", Family::default()),
            writes: register(r, "writes", Family::default()),
            reads: register(r, "reads", Family::default()),
            events: register(r, "events", Family::default()),
            watch_problems: register(r, "watch_problems", Family::default()),
            watch_lists: register(r, "watch_lists", Family::default()),
            unparsed: register(r, "unparsed_objects", Family::default()),
            missing_fields: register(r, "crd_missing_fields", Family::default()),
            scraped: Scraped::register(r),
            registry,
        };
        metrics.start_at_zero();
        metrics
    }

    /// Makes the series that everybody alerts on exist before they are first counted: a rate needs
    /// a zero to start from.
    fn start_at_zero(&self) {
        for &kind in &[Kind::Claim, Kind::Address] {
            for &outcome in Outcome::ALL {
                drop(self.passes.get_or_create(&OfPass { kind, outcome }));
            }
            drop(self.conflicts.get_or_create(&OfKind { kind }));
        }
        for &kind in Kind::ALL {
            drop(self.unparsed.get_or_create(&OfKind { kind }));
            drop(self.watch_lists.get_or_create(&OfKind { kind }));
            for &problem in Problem::ALL {
                drop(self.watch_problems.get_or_create(&OfProblem { kind, problem }));
            }
        }
        for &result in EventResult::ALL {
            drop(self.events.get_or_create(&OfEvent { result }));
        }
    }

    /// Counts a pass that ended, and how long it ran.
    pub fn pass(&self, kind: Kind, outcome: Outcome, took: Duration) {
        self.passes.get_or_create(&OfPass { kind, outcome }).inc();
        self.pass_duration.get_or_create(&OfKind { kind }).observe(took.as_secs_f64());
    }

    /// Records how long a key waited in the queue after it was due.
    pub fn queued(&self, kind: Kind, waited: Duration) {
        self.queue_duration.get_or_create(&OfKind { kind }).observe(waited.as_secs_f64());
    }

    /// Records how long after its creation a claim became `Bound` for the first time.
    pub fn bound(&self, since_creation: Duration) {
        self.bind_duration.observe(since_creation.as_secs_f64());
    }

    /// Counts a write that met a changed object.
    pub fn conflict(&self, kind: Kind) {
        self.conflicts.get_or_create(&OfKind { kind }).inc();
    }

    /// Counts a write, by what was answered.
    pub fn write(&self, kind: Kind, verb: Verb, status: Status) {
        self.writes.get_or_create(&OfWrite { kind, verb, status }).inc();
    }

    /// Counts a read of one object, by what was answered.
    pub fn read(&self, kind: Kind, status: Status) {
        self.reads.get_or_create(&OfRead { kind, status }).inc();
    }

    /// Counts a Kubernetes event, by what became of it.
    pub fn event(&self, result: EventResult) {
        self.events.get_or_create(&OfEvent { result }).inc();
    }

    /// Counts an interruption of a watch.
    pub fn watch_problem(&self, kind: Kind, problem: Problem) {
        self.watch_problems.get_or_create(&OfProblem { kind, problem }).inc();
    }

    /// Counts a full list that a watch began with.
    pub fn watch_list(&self, kind: Kind) {
        self.watch_lists.get_or_create(&OfKind { kind }).inc();
    }

    /// Sets how many objects cannot be parsed at the moment.
    pub fn unparsed(&self, kind: Kind, count: usize) {
        self.unparsed.get_or_create(&OfKind { kind }).set(as_gauge(count));
    }

    /// Sets how many fields the installed definition of a kind lacks.
    pub fn missing_fields(&self, kind: Kind, count: usize) {
        self.missing_fields.get_or_create(&OfKind { kind }).set(as_gauge(count));
    }

    /// Says where the depth of a kind's queue is read when metrics are read.
    pub fn depth_from(&self, kind: Kind, depth: impl Fn() -> usize + Send + Sync + 'static) {
        self.scraped.depth_from(kind, Box::new(depth));
    }

    /// Says where the counts of claims and addresses are read when metrics are read.
    pub fn census_from(&self, census: impl Fn() -> Census + Send + Sync + 'static) {
        self.scraped.census_from(Box::new(census));
    }

    /// Says where this replica's place among the others is read when metrics are read.
    pub fn replicas_from(&self, replicas: impl Fn() -> Replicas + Send + Sync + 'static) {
        self.scraped.replicas_from(Box::new(replicas));
    }

    /// Everything, in Prometheus' text format.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        match prometheus_text::encode(&mut text, &self.registry) {
            Ok(()) => text,
            // Writing into a string does not fail; half a page would look like lost series.
            Err(std::fmt::Error) => String::new(),
        }
    }

    /// How many events came to this end.
    pub fn events_so_far(&self, result: EventResult) -> u64 {
        self.events.get_or_create(&OfEvent { result }).get()
    }
}

fn as_gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
