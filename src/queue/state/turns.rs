//! The keys that are due, and whose turn it is: first in, first out within a flow, and the flows in
//! turn, so that one with thousands of keys delays another by no more than one pass.
//!
//! What is added and taken costs the same however many keys and flows there are. It must not know a
//! clock.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::queue::Key;

/// The keys that are due.
#[derive(Debug)]
pub(super) struct Turns<K: Key> {
    flows: FxHashMap<K::Flow, VecDeque<K>>,
    /// The flows that have keys, each once, in the order of their turns.
    order: VecDeque<K::Flow>,
    len: usize,
}

impl<K: Key> Default for Turns<K> {
    fn default() -> Self {
        Self { flows: FxHashMap::default(), order: VecDeque::new(), len: 0 }
    }
}

impl<K: Key> Turns<K> {
    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is kept of any key.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0 && self.flows.is_empty() && self.order.is_empty()
    }

    /// Adds a key that is not there.
    pub(super) fn add(&mut self, key: K) {
        let flow = key.flow();
        let keys = self.flows.entry(flow.clone()).or_default();
        if keys.is_empty() {
            self.order.push_back(flow);
        }
        keys.push_back(key);
        self.len += 1;
    }

    /// The key that is taken next.
    pub(super) fn first(&self) -> Option<&K> {
        self.flows.get(self.order.front()?)?.front()
    }

    /// Takes the first key of the flow whose turn it is.
    pub(super) fn take(&mut self) -> Option<K> {
        let flow = self.order.pop_front()?;
        let keys = self.flows.get_mut(&flow)?;
        let key = keys.pop_front();
        if keys.is_empty() {
            self.flows.remove(&flow);
        } else {
            self.order.push_back(flow);
        }
        self.len -= usize::from(key.is_some());
        key
    }
}
