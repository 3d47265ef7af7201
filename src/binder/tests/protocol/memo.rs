//! Results that are worked out once, and things by number, for any number of threads. Knows
//! nothing of what they are about.

use std::{hash::Hash, sync::Arc};

use parking_lot::RwLock;
use rustc_hash::FxHashMap;

/// The results of a function that always gives the same one.
pub(super) struct Memo<K, V>(RwLock<FxHashMap<K, V>>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<K: Eq + Hash, V: Clone> Memo<K, V> {
    /// Two threads may both work it out; it comes to the same.
    pub(super) fn get(&self, key: K, work_out: impl FnOnce() -> V) -> V {
        if let Some(known) = self.0.read().get(&key) {
            return known.clone();
        }
        let value = work_out();
        self.0.write().insert(key, value.clone());
        value
    }
}

type Things<T> = (Vec<Arc<T>>, FxHashMap<String, u16>);

/// Things by number, the same number for what has the same text.
pub(super) struct Numbered<T> {
    first: u16,
    all: RwLock<Things<T>>,
}

impl<T> Numbered<T> {
    pub(super) fn from(first: u16) -> Self {
        Self { first, all: RwLock::default() }
    }

    pub(super) fn number(&self, text: String, make: impl FnOnce() -> T) -> u16 {
        if let Some(known) = self.all.read().1.get(&text) {
            return *known;
        }
        let thing = Arc::new(make());
        let (things, numbers) = &mut *self.all.write();
        *numbers.entry(text).or_insert_with(|| {
            things.push(thing);
            self.first + u16::try_from(things.len() - 1).unwrap()
        })
    }

    pub(super) fn get(&self, number: u16) -> Arc<T> {
        Arc::clone(&self.all.read().0[usize::from(number - self.first)])
    }
}
