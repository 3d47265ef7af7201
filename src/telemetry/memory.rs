//! What has been said of which object, so that an event is sent when something changes and not
//! whenever it is looked at.

use std::hash::{DefaultHasher, Hash, Hasher};

use rustc_hash::FxHashMap;

/// What was last said of each object, by reason.
///
/// As large as the number of live objects times the reasons used for one, as long as
/// [`forget`](Self::forget) is called for each object that goes. It lasts as long as the process.
#[derive(Debug, Default)]
pub struct Memory {
    // The state is kept as its hash: two states of one object and reason that differ only in what
    // a 64-bit hash cannot tell would cost one event.
    said: FxHashMap<Box<str>, Vec<(&'static str, u64)>>,
}

impl Memory {
    /// Whether `state` differs from what was last said of this object for this reason, and
    /// remembers it.
    ///
    /// The state is whatever the event is about: its note, or what the note is made from.
    pub fn is_news(&mut self, uid: &str, reason: &'static str, state: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        let state = hasher.finish();
        if !self.said.contains_key(uid) {
            self.said.insert(uid.into(), Vec::new());
        }
        let Some(said) = self.said.get_mut(uid) else { return true };
        if let Some((_, last)) = said.iter_mut().find(|(r, _)| *r == reason) {
            return std::mem::replace(last, state) != state;
        }
        said.push((reason, state));
        true
    }

    /// Forgets what was said of an object for one reason: what it was about is over, and would be
    /// news again.
    pub fn is_over(&mut self, uid: &str, reason: &'static str) {
        if let Some(said) = self.said.get_mut(uid) {
            said.retain(|(r, _)| *r != reason);
        }
    }

    /// Forgets an object that has gone.
    pub fn forget(&mut self, uid: &str) {
        self.said.remove(uid);
    }

    /// How many objects something is remembered of.
    pub fn len(&self) -> usize {
        self.said.len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.said.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// O01: the same state is said once, whatever number of passes sees it.
    #[test]
    fn o01_a_state_is_news_once() {
        let mut memory = Memory::default();
        assert!(memory.is_news("u1", "DeletionBlocked", "t1/web"));
        for _ in 0..20 {
            assert!(!memory.is_news("u1", "DeletionBlocked", "t1/web"));
        }
        assert!(memory.is_news("u1", "DeletionBlocked", "t1/api"), "another state");
        assert!(memory.is_news("u1", "InvalidAddress", "t1/web"), "another reason");
        assert!(memory.is_news("u2", "DeletionBlocked", "t1/web"), "another object");
        assert!(memory.is_news("u1", "DeletionBlocked", "t1/web"), "back again");
    }

    #[test]
    fn what_is_over_is_news_when_it_comes_again() {
        let mut memory = Memory::default();
        assert!(memory.is_news("u1", "DuplicateAddress", "a2"));
        memory.is_over("u1", "DuplicateAddress");
        assert!(memory.is_news("u1", "DuplicateAddress", "a2"));
    }

    #[test]
    fn objects_that_went_leave_nothing() {
        let mut memory = Memory::default();
        for n in 0..1000 {
            assert!(memory.is_news(&n.to_string(), "Bound", ""));
            assert!(memory.is_news(&n.to_string(), "Matched", "a1"));
            memory.forget(&n.to_string());
        }
        assert!(memory.is_empty());
    }
}
