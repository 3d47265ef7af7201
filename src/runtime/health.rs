//! Whether the program serves, and if not, why not.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

/// The part that [`Health::set_ready`] and [`Health::not_ready`] speak for.
const CONTROLLER: &str = "controller";

/// What the parts of the program say of themselves. Cheap to clone; all clones are one.
///
/// It is ready when every part is, and never again once it is stopping.
#[derive(Clone, Debug)]
pub struct Health(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    parts: BTreeMap<&'static str, Part>,
    stopping: bool,
}

#[derive(Debug)]
struct Part {
    ready: bool,
    reason: String,
}

/// The answer to whether it is ready, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it is.
    pub ready: bool,
    /// One line that says why, or why not.
    pub reason: String,
}

/// One part's say in [`Health`].
#[derive(Clone, Debug)]
pub struct HealthPart {
    health: Health,
    name: &'static str,
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

impl Health {
    /// Not ready: starting.
    pub fn new() -> Self {
        let health = Self(Arc::default());
        health.not_ready("starting");
        health
    }

    /// The controllers serve.
    pub fn set_ready(&self, reason: impl Into<String>) {
        self.say(CONTROLLER, true, reason.into());
    }

    /// The controllers do not serve.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.say(CONTROLLER, false, reason.into());
    }

    /// A part that speaks for itself, such as one watch. It has no say until it says something.
    pub fn part(&self, name: &'static str) -> HealthPart {
        HealthPart { health: self.clone(), name }
    }

    /// It is stopping, whatever anybody says from now on.
    pub fn stop(&self) {
        self.0.lock().stopping = true;
    }

    /// Whether it is ready, and the reason.
    pub fn verdict(&self) -> Verdict {
        let state = self.0.lock();
        if state.stopping {
            return Verdict { ready: false, reason: "stopping".to_owned() };
        }
        let ready = state.parts.values().all(|p| p.ready);
        let reasons: Vec<&str> = state
            .parts
            .values()
            .filter(|p| p.ready == ready)
            .map(|p| p.reason.as_str())
            .filter(|r| !r.is_empty())
            .collect();
        Verdict { ready, reason: reasons.join("; ") }
    }

    fn say(&self, name: &'static str, ready: bool, reason: String) {
        self.0.lock().parts.insert(name, Part { ready, reason });
    }
}

impl HealthPart {
    /// This part is as it should be.
    pub fn set_ready(&self, reason: impl Into<String>) {
        self.health.say(self.name, true, reason.into());
    }

    /// This part keeps the whole from being ready.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.health.say(self.name, false, reason.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(ready: bool, reason: &str) -> Verdict {
        Verdict { ready, reason: reason.to_owned() }
    }

    #[test]
    fn it_is_ready_when_every_part_is() {
        let health = Health::new();
        assert_eq!(health.verdict(), verdict(false, "starting"));
        health.set_ready("serving");
        assert_eq!(health.verdict(), verdict(true, "serving"));

        let (claims, addresses) = (health.part("claims"), health.part("addresses"));
        claims.not_ready("the watch of claims is down");
        addresses.not_ready("the watch of addresses is down");
        claims.set_ready("");
        assert_eq!(health.verdict(), verdict(false, "the watch of addresses is down"));
        addresses.set_ready("");
        assert_eq!(health.verdict(), verdict(true, "serving"));
    }

    #[test]
    fn what_stops_is_never_ready_again() {
        let health = Health::new();
        health.stop();
        health.set_ready("serving");
        assert_eq!(health.verdict(), verdict(false, "stopping"));
    }
}
