//! One kind's objects as last seen: newest state wins, whoever brings it.
//!
//! Events of a watch, answers to own writes and direct reads arrive in any order. The API server's
//! resourceVersions of one kind are ordered (KEP-5504), so the older of two states is dropped. So is
//! an answer about an object that the watch has already told the end of.

use std::{hash::Hash, net::IpAddr, sync::Arc};

use rustc_hash::FxHashMap;

use crate::binder::view::{AddressView, ClaimKey, ClaimView, ClassView, Name};

/// An object that this version cannot read: neither matched nor touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strange {
    /// `metadata.uid`.
    pub uid: Name,
    /// `metadata.resourceVersion`.
    pub resource_version: Name,
    /// Why it does not parse.
    pub error: String,
    /// The IP that it records, when that much can be read.
    pub ip: Option<IpAddr>,
    /// The claim that it names, when that much can be read.
    pub claim: Option<ClaimKey>,
}

/// What is known of an object.
#[derive(Debug, PartialEq)]
pub enum Seen<'a, V> {
    /// No such object.
    Absent,
    /// It exists, and does not parse.
    Strange(&'a Strange),
    /// It exists.
    Known(&'a V),
}

impl<V> Clone for Seen<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

// Not derived: a derive would ask that the view itself be `Copy`.
impl<V> Copy for Seen<'_, V> {}

impl<'a, V> Seen<'a, V> {
    /// The view, if there is one.
    pub fn known(self) -> Option<&'a V> {
        match self {
            Self::Known(view) => Some(view),
            Self::Strange(_) | Self::Absent => None,
        }
    }
}

/// What a view must say of itself to be kept.
pub(super) trait Viewed {
    fn uid(&self) -> &Name;
    fn version(&self) -> &Name;
}

macro_rules! viewed {
    ($($view:ty),*) => {$(
        impl Viewed for $view {
            fn uid(&self) -> &Name {
                &self.id.uid
            }
            fn version(&self) -> &Name {
                &self.id.resource_version
            }
        }
    )*};
}
viewed!(AddressView, ClaimView, ClassView);

/// An object's state on the shelf.
#[derive(Clone, Debug)]
pub(super) enum Item<V> {
    Known(Arc<V>),
    Strange(Arc<Strange>),
}

impl<V: Viewed> Item<V> {
    pub(super) fn uid(&self) -> &Name {
        match self {
            Self::Known(v) => v.uid(),
            Self::Strange(s) => &s.uid,
        }
    }

    fn version(&self) -> &Name {
        match self {
            Self::Known(v) => v.version(),
            Self::Strange(s) => &s.resource_version,
        }
    }

    pub(super) fn known(&self) -> Option<&Arc<V>> {
        match self {
            Self::Known(v) => Some(v),
            Self::Strange(_) => None,
        }
    }

    pub(super) fn seen(&self) -> Seen<'_, V> {
        match self {
            Self::Known(v) => Seen::Known(v),
            Self::Strange(s) => Seen::Strange(s),
        }
    }
}

#[derive(Debug)]
struct Slot<V> {
    item: Item<V>,
    /// The listing in which it was last seen.
    round: u32,
}

/// What became of a state that was brought.
pub(super) enum Stored<V> {
    /// It was older than what is known, or the same.
    Stale,
    /// It took the place of what was there before.
    Fresh(Option<Item<V>>),
}

/// One kind's objects.
#[derive(Debug)]
pub(super) struct Shelf<K, V> {
    slots: FxHashMap<K, Slot<V>>,
    round: u32,
    strange: usize,
    /// Up to which resourceVersion the watch has told of everything; 0 while that is not known.
    told: u64,
    listing: bool,
}

impl<K, V> Default for Shelf<K, V> {
    fn default() -> Self {
        Self { slots: FxHashMap::default(), round: 0, strange: 0, told: 0, listing: false }
    }
}

impl<K: Clone + Eq + Hash, V: Viewed> Shelf<K, V> {
    pub(super) fn get(&self, key: &K) -> Seen<'_, V> {
        self.slots.get(key).map_or(Seen::Absent, |slot| slot.item.seen())
    }

    pub(super) fn put(&mut self, key: K, item: Item<V>) -> Stored<V> {
        let round = self.round;
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.round = round;
            if !newer(item.version(), slot.item.version()) {
                return Stored::Stale;
            }
        }
        self.strange += usize::from(item.known().is_none());
        let before = self.slots.insert(key, Slot { item, round }).map(|s| s.item);
        self.strange -= usize::from(before.as_ref().is_some_and(|i| i.known().is_none()));
        Stored::Fresh(before)
    }

    /// Takes an object off, unless what is known is another of the same name, or newer.
    pub(super) fn remove(&mut self, key: &K, gone: &Gone) -> Option<Item<V>> {
        let item = &self.slots.get(key)?.item;
        let applies = match gone {
            Gone::Object { uid } => item.uid() == uid,
            Gone::AsOf { version } => item.version() == version,
        };
        if !applies {
            return None;
        }
        let item = self.slots.remove(key)?.item;
        self.strange -= usize::from(item.known().is_none());
        Some(item)
    }

    pub(super) fn begin_list(&mut self) {
        self.round = self.round.wrapping_add(1);
        self.listing = true;
        // A list is in no order, and may be of a server that was restored from a backup.
        self.told = 0;
    }

    pub(super) fn end_list(&mut self) {
        self.listing = false;
    }

    /// The watch tells of changes in order, and has come to this version.
    pub(super) fn told(&mut self, version: &str) {
        if !self.listing {
            self.told = self.told.max(version.parse().unwrap_or(0));
        }
    }

    /// Whether the watch has told of this state and of the object's end since: an answer that was
    /// overtaken. Nobody would ever take it off again.
    pub(super) fn is_over(&self, key: &K, version: &str) -> bool {
        !self.slots.contains_key(key) && version.parse().is_ok_and(|v: u64| v <= self.told)
    }

    /// The keys of the objects that the listing since [`Self::begin_list`] did not show.
    pub(super) fn unlisted(&self) -> Vec<(K, Name)> {
        self.slots
            .iter()
            .filter(|(_, s)| s.round != self.round)
            .map(|(k, s)| (k.clone(), s.item.uid().clone()))
            .collect()
    }

    pub(super) fn known(&self) -> impl Iterator<Item = &V> {
        self.slots.values().filter_map(|s| s.item.known().map(|v| &**v))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.slots.keys()
    }

    pub(super) fn strange_count(&self) -> usize {
        self.strange
    }
}

/// On whose word an object is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gone {
    /// A watch said that the object with this uid was deleted, or a listing no longer shows it.
    Object {
        /// The uid of the deleted object.
        uid: Name,
    },
    /// A read found nothing; it was sent when this state was the last that was known.
    AsOf {
        /// The resourceVersion of that state.
        version: Name,
    },
}

/// Whether one resourceVersion is later than another. Where one is not a number, as no known
/// server writes it, the one that arrives last counts.
fn newer(incoming: &str, known: &str) -> bool {
    match (incoming.parse::<u64>(), known.parse::<u64>()) {
        (Ok(a), Ok(b)) => a > b,
        _ => incoming != known,
    }
}
