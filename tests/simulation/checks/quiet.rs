//! At rest, replicas ask for nothing but their Leases, and their watches.

use std::time::Duration;

use crate::apiserver::ask::{Ask, Verb};

/// How long after the last write, or the last list, what follows from it may still be read.
const AFTERMATH: Duration = Duration::from_secs(15);

/// How long after the last fault a watch may still have to begin anew: the longest pause between two
/// attempts, and some more.
const PAUSE: Duration = Duration::from_secs(45);

/// What replicas asked for last: lists, and everything else.
#[derive(Debug, Default)]
pub struct Quiet {
    list: Option<(Duration, String)>,
    other: Option<(Duration, String)>,
}

impl Quiet {
    /// A replica asked for something.
    pub fn asked(&mut self, by: &str, ask: &Ask, plural: &str, at: Duration) {
        if plural == "leases" || ask.verb == Verb::Watch {
            return;
        }
        let text = format!("{by} asks: {:?} {plural} {}/{}", ask.verb, ask.namespace, ask.name);
        let last = if ask.verb == Verb::List { &mut self.list } else { &mut self.other };
        *last = Some((at, text));
    }

    /// What was asked for although nobody had written since one moment, and nothing gone wrong since
    /// another.
    pub fn judge(&self, written: Duration, faults: Duration) -> Vec<String> {
        let bounds =
            [(&self.list, written.max(faults) + PAUSE), (&self.other, written + AFTERMATH)];
        let late = bounds.into_iter().filter_map(|(last, bound)| {
            let (at, text) = last.as_ref().filter(|(at, _)| *at > bound)?;
            let after = at.saturating_sub(written).as_secs();
            Some(format!("at rest: {after} s after the last write {text}"))
        });
        late.collect()
    }
}
