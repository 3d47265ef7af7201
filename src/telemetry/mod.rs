//! What the program says of itself: log lines, metrics, and Kubernetes events.
//!
//! Everything that is counted is named by a closed set; the names of objects are for log lines and
//! events only. It knows nothing of claims and addresses beyond their kinds and phases.

pub mod census;
mod event_object;
pub mod events;
#[cfg(test)]
pub(crate) mod fake_api;
pub mod labels;
pub mod logs;
pub mod memory;
pub mod metrics;
pub mod outcome;
mod replicas;

pub use census::Census;
pub use events::{Events, Note, NoteType, Publisher};
pub use labels::{EventResult, Kind, Problem, Status, Verb};
pub use memory::Memory;
pub use metrics::Metrics;
pub use outcome::Outcome;
pub use replicas::Replicas;
