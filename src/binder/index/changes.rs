//! How the world changes: a state in, the keys it concerns out.

use std::{net::IpAddr, sync::Arc, time::Duration};

use super::{
    AddressView, ClaimKey, ClaimView, ClassView, Gone, Index, IndexedKind, Item, Name, Pool,
    Reservation, Seen, Stored, Strange, Wakes, pool_of,
};

/// What an address contributes to the maps beside the shelf.
#[derive(Default)]
struct Traits {
    ip: Option<IpAddr>,
    claim: Option<ClaimKey>,
}

impl Traits {
    fn of(item: Option<&Item<AddressView>>) -> Self {
        match item {
            None => Self::default(),
            Some(Item::Known(a)) => {
                Self { ip: a.ip, claim: a.claim_ref.as_ref().map(|r| r.key.clone()) }
            }
            Some(Item::Strange(s)) => Self { ip: s.ip, claim: s.claim.clone() },
        }
    }
}

impl Index {
    /// Brings in an address's state, seen at a moment of the caller's monotonic clock.
    pub fn apply_address(&mut self, view: AddressView, seen: Duration) -> Wakes {
        let name = view.name.clone();
        self.put_address(&name, Item::Known(Arc::new(view)), seen)
    }

    /// Brings in a claim's state.
    pub fn apply_claim(&mut self, view: ClaimView) -> Wakes {
        let key = view.key.clone();
        self.put_claim(&key, Item::Known(Arc::new(view)))
    }

    /// Brings in a class's state.
    pub fn apply_class(&mut self, view: ClassView) -> Wakes {
        let name = view.name.clone();
        self.put_class(&name, Item::Known(Arc::new(view)))
    }

    /// Brings in an address that does not parse. What can be read of it still counts: the IP
    /// against duplicates, the claim for whom to wake.
    pub fn strange_address(&mut self, name: &Name, strange: Strange) -> Wakes {
        self.put_address(name, Item::Strange(Arc::new(strange)), Duration::ZERO)
    }

    /// Brings in a claim that does not parse.
    pub fn strange_claim(&mut self, key: &ClaimKey, strange: Strange) -> Wakes {
        self.put_claim(key, Item::Strange(Arc::new(strange)))
    }

    /// Brings in a class that does not parse.
    pub fn strange_class(&mut self, name: &Name, strange: Strange) -> Wakes {
        self.put_class(name, Item::Strange(Arc::new(strange)))
    }

    /// A kind's watch has told of every change up to this resourceVersion, or is about to.
    pub fn told(&mut self, kind: IndexedKind, version: &str) {
        match kind {
            IndexedKind::Class => self.classes.told(version),
            IndexedKind::Address => self.addresses.told(version),
            IndexedKind::Claim => self.claims.told(version),
        }
    }

    /// Whether an answer about an address comes after the watch has told that it is gone.
    pub fn is_address_over(&self, name: &Name, version: &str) -> bool {
        self.addresses.is_over(name, version)
    }

    /// Whether an answer about a claim comes after the watch has told that it is gone.
    pub fn is_claim_over(&self, key: &ClaimKey, version: &str) -> bool {
        self.claims.is_over(key, version)
    }

    /// Takes an address off.
    pub fn remove_address(&mut self, name: &Name, gone: &Gone) -> Wakes {
        match self.addresses.remove(name, gone) {
            Some(before) => self.address_changed(name, Some(&before)),
            None => Wakes::default(),
        }
    }

    /// Takes a claim off.
    pub fn remove_claim(&mut self, key: &ClaimKey, gone: &Gone) -> Wakes {
        match self.claims.remove(key, gone) {
            Some(before) => self.claim_changed(key, Some(&before)),
            None => Wakes::default(),
        }
    }

    /// Takes a class off.
    pub fn remove_class(&mut self, name: &Name, gone: &Gone) -> Wakes {
        match self.classes.remove(name, gone) {
            Some(before) => self.class_changed(name, Some(&before)),
            None => Wakes::default(),
        }
    }

    /// A listing of a kind begins: what it does not show by its end is gone.
    pub fn begin_list(&mut self, kind: IndexedKind) {
        match kind {
            IndexedKind::Class => self.classes.begin_list(),
            IndexedKind::Address => self.addresses.begin_list(),
            IndexedKind::Claim => self.claims.begin_list(),
        }
    }

    /// The uids of the objects that the listing since [`Self::begin_list`] did not show.
    pub fn unlisted(&self, kind: IndexedKind) -> Vec<Name> {
        fn uids<K>(unlisted: Vec<(K, Name)>) -> Vec<Name> {
            unlisted.into_iter().map(|(_, uid)| uid).collect()
        }
        match kind {
            IndexedKind::Class => uids(self.classes.unlisted()),
            IndexedKind::Address => uids(self.addresses.unlisted()),
            IndexedKind::Claim => uids(self.claims.unlisted()),
        }
    }

    /// A listing of a kind is complete.
    pub fn end_list(&mut self, kind: IndexedKind) -> Wakes {
        let mut wakes = Wakes::default();
        match kind {
            IndexedKind::Class => {
                for (name, uid) in self.classes.unlisted() {
                    wakes.add(self.remove_class(&name, &Gone::Object { uid }));
                }
                self.classes.end_list();
            }
            IndexedKind::Address => {
                for (name, uid) in self.addresses.unlisted() {
                    wakes.add(self.remove_address(&name, &Gone::Object { uid }));
                }
                self.addresses.end_list();
            }
            IndexedKind::Claim => {
                for (key, uid) in self.claims.unlisted() {
                    wakes.add(self.remove_claim(&key, &Gone::Object { uid }));
                }
                self.claims.end_list();
            }
        }
        wakes
    }

    fn put_address(&mut self, name: &Name, item: Item<AddressView>, seen: Duration) -> Wakes {
        let reservation = item.known().and_then(|a| Reservation::of(a, seen));
        let Stored::Fresh(before) = self.addresses.put(name.clone(), item) else {
            return Wakes::default();
        };
        match reservation {
            None => {
                self.reservations.remove(name);
            }
            Some(new) => {
                let known = self.reservations.entry(name.clone()).or_insert_with(|| new.clone());
                if !known.is_same(&new) {
                    *known = new;
                }
            }
        }
        self.address_changed(name, before.as_ref())
    }

    fn address_changed(&mut self, name: &Name, before: Option<&Item<AddressView>>) -> Wakes {
        let mut wakes = Wakes::default();
        wakes.addresses.insert(name.clone());
        let was_free_in = before.and_then(Item::known).and_then(|a| self.free_in(a));
        if let Some(old) = before.and_then(Item::known) {
            self.take_out_of_free(old);
        }
        let old = Traits::of(before);
        let new = match self.addresses.get(name) {
            Seen::Known(a) => {
                Traits { ip: a.ip, claim: a.claim_ref.as_ref().map(|r| r.key.clone()) }
            }
            Seen::Strange(s) => Traits { ip: s.ip, claim: s.claim.clone() },
            Seen::Absent => {
                self.reservations.remove(name);
                Traits::default()
            }
        };
        self.move_claim(name, &old, &new, &mut wakes);
        self.move_ip(name, old.ip, new.ip, &mut wakes);
        let is_free_in = self.put_into_free(name);
        wakes.claims.extend(self.waiters.on_address(name).cloned());
        // One that moved to another class is new to those who wait there.
        if is_free_in.is_some() && is_free_in != was_free_in {
            self.wake_for_free(name, &mut wakes);
        }
        wakes
    }

    fn free_in(&self, address: &AddressView) -> Option<Pool> {
        let free = |pool: &Pool| self.free.get(pool).is_some_and(|n| n.contains(&address.name));
        pool_of(address).filter(free)
    }

    fn take_out_of_free(&mut self, address: &AddressView) {
        let Some(pool) = pool_of(address) else { return };
        if let Some(names) = self.free.get_mut(&pool) {
            names.remove(&address.name);
            if names.is_empty() {
                self.free.remove(&pool);
            }
        }
    }

    fn put_into_free(&mut self, name: &Name) -> Option<Pool> {
        let address = self.addresses.get(name).known()?;
        let pool = pool_of(address).filter(|_| self.matchable(address))?;
        self.free.entry(pool.clone()).or_default().insert(name.clone());
        Some(pool)
    }

    /// Wakes the claim that was named and the one that is named now.
    fn move_claim(&mut self, name: &Name, old: &Traits, new: &Traits, wakes: &mut Wakes) {
        wakes.claims.extend(old.claim.iter().chain(&new.claim).cloned());
        if old.claim == new.claim {
            return;
        }
        if let Some(key) = &old.claim
            && let Some(names) = self.by_claim.get_mut(key)
        {
            names.remove(name);
            if names.is_empty() {
                self.by_claim.remove(key);
            }
        }
        if let Some(key) = &new.claim {
            self.by_claim.entry(key.clone()).or_default().insert(name.clone());
        }
    }

    fn move_ip(
        &mut self,
        name: &Name,
        old: Option<IpAddr>,
        new: Option<IpAddr>,
        wakes: &mut Wakes,
    ) {
        if old == new {
            return;
        }
        if let Some(ip) = old {
            let rest = self.by_ip.get_mut(&ip).map(|names| {
                names.remove(name);
                (names.len(), names.first().cloned())
            });
            match rest {
                Some((0, _)) => {
                    self.by_ip.remove(&ip);
                }
                Some((1, Some(only))) => self.no_longer_disputed(&only, wakes),
                _ => {}
            }
        }
        if let Some(ip) = new {
            let names = self.by_ip.entry(ip).or_default();
            let only = (names.len() == 1).then(|| names.first().cloned()).flatten();
            names.insert(name.clone());
            if let Some(other) = only.filter(|other| other != name) {
                self.disputed(&other, wakes);
            }
        }
    }

    fn disputed(&mut self, name: &Name, wakes: &mut Wakes) {
        wakes.addresses.insert(name.clone());
        wakes.claims.extend(self.waiters.on_address(name).cloned());
        let view = self.addresses.get(name).known().cloned();
        if let Some(address) = view {
            self.take_out_of_free(&address);
        }
    }

    fn no_longer_disputed(&mut self, name: &Name, wakes: &mut Wakes) {
        wakes.addresses.insert(name.clone());
        if self.put_into_free(name).is_some() {
            self.wake_for_free(name, wakes);
        }
    }

    fn put_claim(&mut self, key: &ClaimKey, item: Item<ClaimView>) -> Wakes {
        match self.claims.put(key.clone(), item) {
            Stored::Fresh(before) => self.claim_changed(key, before.as_ref()),
            Stored::Stale => Wakes::default(),
        }
    }

    /// Wakes the claim, and the addresses that name it when their passes would ask about the change.
    fn claim_changed(&mut self, key: &ClaimKey, before: Option<&Item<ClaimView>>) -> Wakes {
        let mut wakes = Wakes::default();
        let now = self.claims.get(key);
        let readable = now.known().is_some();
        if gist(before.map_or(Seen::Absent, Item::seen)) != gist(now) {
            wakes.addresses.extend(self.by_claim.get(key).into_iter().flatten().cloned());
        }
        if now != Seen::Absent {
            wakes.claims.insert(key.clone());
        }
        // What is gone or cannot be read has no pass that would answer a call: others are called.
        if !readable {
            let called = self.waiters.settle(key, jiff::Timestamp::UNIX_EPOCH, Vec::new());
            wakes.add(self.pass_on(called));
        }
        wakes
    }

    fn put_class(&mut self, name: &Name, item: Item<ClassView>) -> Wakes {
        match self.classes.put(name.clone(), item) {
            Stored::Fresh(before) => self.class_changed(name, before.as_ref()),
            Stored::Stale => Wakes::default(),
        }
    }

    fn class_changed(&mut self, name: &Name, before: Option<&Item<ClassView>>) -> Wakes {
        let old = ClassGist::of(before.map_or(Seen::Absent, Item::seen));
        let now = ClassGist::of(self.classes.get(name));
        let mut wakes = Wakes::default();
        if old == now {
            return wakes;
        }
        if now == ClassGist::Absent {
            self.crowding.forget(name);
        }
        wakes.claims.extend(self.waiters.on_class(name).cloned());
        if old.is_default() != now.is_default() {
            if now.is_default() {
                self.defaults.insert(name.clone());
            } else {
                self.defaults.remove(name);
            }
            wakes.claims.extend(self.waiters.on_default_class().cloned());
        }
        wakes
    }
}

/// What an address's pass asks of a claim: whether it exists, which one it is, and, if it can be
/// read, whether it is being deleted.
fn gist(claim: Seen<'_, ClaimView>) -> Option<(Name, Option<bool>)> {
    match claim {
        Seen::Absent => None,
        Seen::Known(c) => Some((c.id.uid.clone(), Some(c.id.deleting))),
        Seen::Strange(s) => Some((s.uid.clone(), None)),
    }
}

/// What a claim's pass asks of a class.
#[derive(PartialEq)]
enum ClassGist {
    Absent,
    Unreadable,
    Known { provisioner: Name, default: bool },
}

impl ClassGist {
    fn of(class: Seen<'_, ClassView>) -> Self {
        match class {
            Seen::Absent => Self::Absent,
            Seen::Strange(_) => Self::Unreadable,
            Seen::Known(c) => {
                Self::Known { provisioner: c.provisioner.clone(), default: c.default }
            }
        }
    }

    fn is_default(&self) -> bool {
        matches!(self, Self::Known { default: true, .. })
    }
}

impl Wakes {
    /// Joins another change's keys to these.
    pub fn add(&mut self, other: Self) {
        self.claims.extend(other.claims);
        self.addresses.extend(other.addresses);
    }
}
