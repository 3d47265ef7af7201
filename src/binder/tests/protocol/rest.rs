//! What a small world must come to once nothing else happens.

use super::{
    super::checks,
    explore::Explorer,
    space::{Choice, Contents, Mask, Outcome},
};

impl Explorer {
    /// What is wrong once this is left to one replica with fresh caches, if anything.
    pub(super) fn at_rest(&mut self, truth: &Contents) -> Option<String> {
        if let Some(known) = self.settled.get(truth) {
            return known.clone();
        }
        let verdict = self.settle(*truth);
        self.settled.insert(*truth, verdict.clone());
        verdict
    }

    fn settle(&mut self, mut truth: Contents) -> Option<String> {
        for _ in 0..20 {
            let before = truth;
            let mut wrote = false;
            for slot in 0..self.space.slots.len() {
                if truth[slot] == 0 {
                    continue;
                }
                let Choice::Job(job) = self.space.decide(slot, truth[slot], &truth, Mask::MAX)
                else {
                    continue;
                };
                wrote = true;
                for at in 0..self.space.job(job).len() {
                    let at = u8::try_from(at).unwrap();
                    let slot = self.space.slot(&self.space.job(job)[usize::from(at)].id);
                    match self.space.outcome(truth[slot], job, at) {
                        Outcome::Refused => break,
                        Outcome::Written(number, _) => truth[slot] = number,
                    }
                }
            }
            if !wrote {
                return self.unfinished(&truth).map(|what| format!("I9 {what}"));
            }
            if truth == before {
                return Some("I9 a write is made again and again".into());
            }
        }
        Some("I9 it never comes to rest".into())
    }

    fn unfinished(&self, truth: &Contents) -> Option<String> {
        let all = self.space.values(truth);
        let live = |u: &str| {
            u == "uid-other"
                || all
                    .iter()
                    .any(|o| checks::is_claim(o) && checks::uid(o) == u && !checks::deleting(o))
        };
        for o in &all {
            let name = checks::name(o);
            if checks::deleting(o) && !live(checks::holder(o)) {
                return Some(format!("{name} is deleted and stays"));
            }
            if checks::is_address(o) {
                let holder = checks::holder(o);
                let phase = match (holder, live(holder)) {
                    ("", _) => "Available",
                    (_, true) => "Bound",
                    (_, false) => "Released",
                };
                if checks::phase(o) != phase && !checks::deleting(o) {
                    return Some(format!("{name} is {} and not {phase}", checks::phase(o)));
                }
                continue;
            }
            let pin = o["spec"]["addressName"].as_str();
            let held = o["metadata"]["annotations"].to_string().contains("/held");
            let candidate = all
                .iter()
                .any(|a| checks::free(a) && pin.map_or(!held, |pin| pin == checks::name(a)));
            if checks::phase(o) != "Bound" && candidate {
                return Some(format!("{name} is {} and could be bound", checks::phase(o)));
            }
        }
        None
    }
}
