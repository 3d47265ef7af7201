//! What was found wrong beside the history: processes that ended, waits in vain.

use parking_lot::Mutex;

/// Findings, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Findings(Mutex<Vec<String>>);

impl Findings {
    pub(super) fn add(&self, what: String) {
        eprintln!("  found: {what}");
        self.0.lock().push(what);
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}
