//! The index against a naive model: after any sequence of states, removals and re-lists, what it
//! answers is what a look at every object would.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use proptest::prelude::*;

use super::address_world::strange;
use crate::{
    api::{AddressPhase, IpFamily},
    binder::{
        index::{Gone, Index, IndexedKind, Seen, Strange, Wakes},
        testing::{Object, address, claim, class, key},
        view::{AddressView, ClaimKey, ClaimView, ClassView, Name},
    },
};

const IPS: [&str; 5] = ["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2", "2001:db8::1", "no address"];
const CLAIMS: [&str; 3] = ["t1/web", "t1/api", "t2/web"];
const CLASSES: [&str; 3] = ["public", "private", "other"];
const PHASES: [&str; 4] = ["Available", "Available", "Bound", "Released"];
const KINDS: [IndexedKind; 3] = [IndexedKind::Class, IndexedKind::Address, IndexedKind::Claim];

/// A state of an address that comes from anywhere: a watch, an answer, a read.
#[derive(Clone, Debug)]
struct State {
    name: usize,
    uid: u8,
    version: u64,
    ip: usize,
    claim: Option<(usize, bool)>,
    phase: usize,
    class: usize,
    flag: bool,
    strange: bool,
}

#[derive(Clone, Debug)]
enum Op {
    Put(usize, State),
    Remove(usize, usize, Result<u8, u64>),
    BeginList(usize),
    EndList(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let state = (
        (0..3usize, 0..2u8, 1..30u64, 0..IPS.len()),
        (prop::option::of((0..3usize, any::<bool>())), 0..4usize, 0..2usize),
        (any::<bool>(), prop::bool::weighted(0.15)),
    )
        .prop_map(|((name, uid, version, ip), (claim, phase, class), (flag, strange))| State {
            name,
            uid,
            version,
            ip,
            claim,
            phase,
            class,
            flag,
            strange,
        });
    let word = prop_oneof![(0..2u8).prop_map(Ok), (1..30u64).prop_map(Err)];
    // Addresses more often than the others: they are what the maps are about.
    let kind = prop_oneof![1 => Just(0usize), 5 => Just(1), 2 => Just(2)];
    let op = prop_oneof![
        12 => (kind.clone(), state).prop_map(|(kind, state)| Op::Put(kind, state)),
        3 => (kind.clone(), 0..3usize, word).prop_map(|(k, n, w)| Op::Remove(k, n, w)),
        1 => kind.clone().prop_map(Op::BeginList),
        1 => kind.prop_map(Op::EndList),
    ];
    prop::collection::vec(op, 1..40)
}

/// What is known of one object.
#[derive(Clone, Debug)]
struct Known<V> {
    uid: Name,
    version: u64,
    view: Result<V, Strange>,
    listed: bool,
}

/// One kind's objects, in the plainest form.
#[derive(Debug)]
struct Model<K, V>(BTreeMap<K, Known<V>>);

impl<K: Ord + Clone, V: Clone> Model<K, V> {
    fn put(&mut self, key: &K, uid: &str, version: u64, view: Result<V, Strange>) -> bool {
        if let Some(known) = self.0.get_mut(key) {
            known.listed = true;
            if known.version >= version {
                return false;
            }
        }
        self.0.insert(key.clone(), Known { uid: uid.into(), version, view, listed: true });
        true
    }

    fn remove(&mut self, key: &K, gone: &Gone) -> bool {
        let applies = self.0.get(key).is_some_and(|known| match gone {
            Gone::Object { uid } => known.uid == *uid,
            Gone::AsOf { version } => known.version.to_string() == **version,
        });
        applies && self.0.remove(key).is_some()
    }

    fn begin(&mut self) {
        self.0.values_mut().for_each(|known| known.listed = false);
    }

    fn end(&mut self) {
        self.0.retain(|_, known| known.listed);
    }

    fn known(&self) -> impl Iterator<Item = &V> {
        self.0.values().filter_map(|known| known.view.as_ref().ok())
    }

    fn strange(&self) -> usize {
        self.0.values().filter(|known| known.view.is_err()).count()
    }
}

struct World {
    classes: Model<Name, ClassView>,
    addresses: Model<Name, AddressView>,
    claims: Model<ClaimKey, ClaimView>,
    /// Since when each name has been one object's reservation without a uid.
    reservations: BTreeMap<Name, (Name, ClaimKey, Duration)>,
}

impl World {
    fn new() -> Self {
        Self {
            classes: Model(BTreeMap::new()),
            addresses: Model(BTreeMap::new()),
            claims: Model(BTreeMap::new()),
            reservations: BTreeMap::new(),
        }
    }

    fn ip_of(known: &Known<AddressView>) -> Option<IpAddr> {
        known.view.as_ref().map_or_else(|s| s.ip, |a| a.ip)
    }

    fn claim_of(&self, name: &Name) -> Option<ClaimKey> {
        match &self.addresses.0.get(name)?.view {
            Ok(view) => view.claim_ref.as_ref().map(|r| r.key.clone()),
            Err(strange) => strange.claim.clone(),
        }
    }

    fn duplicates(&self, address: &AddressView) -> Vec<Name> {
        let same = |(name, known): &(&Name, &Known<AddressView>)| {
            **name != address.name && address.ip.is_some() && Self::ip_of(known) == address.ip
        };
        self.addresses.0.iter().filter(same).map(|(name, _)| name.clone()).collect()
    }

    /// Who shares an IP with somebody.
    fn disputed(&self) -> BTreeSet<Name> {
        let shares = |a: &&AddressView| !self.duplicates(a).is_empty();
        self.addresses.known().filter(shares).map(|a| a.name.clone()).collect()
    }

    fn free(&self, class: &str, family: IpFamily) -> Vec<Name> {
        let fits = |a: &&AddressView| {
            &*a.class == class
                && a.family() == Some(family)
                && a.phase == Some(AddressPhase::Available)
                && a.claim_ref.is_none()
                && !a.id.deleting
                && self.duplicates(a).is_empty()
        };
        self.addresses.known().filter(fits).map(|a| a.name.clone()).collect()
    }

    fn strange(&self) -> [usize; 3] {
        [self.classes.strange(), self.addresses.strange(), self.claims.strange()]
    }

    fn note_reservation(&mut self, name: &Name, at: Duration) {
        let open = self.addresses.0.get(name).and_then(|known| {
            let view = known.view.as_ref().ok()?;
            let reference = view.claim_ref.as_ref().filter(|r| r.uid.is_none())?;
            Some((view.id.uid.clone(), reference.key.clone()))
        });
        let Some((uid, key)) = open else {
            self.reservations.remove(name);
            return;
        };
        let same = self.reservations.get(name).is_some_and(|r| r.0 == uid && r.1 == key);
        if !same {
            self.reservations.insert(name.clone(), (uid, key, at));
        }
    }
}

impl State {
    fn uid(&self) -> String {
        format!("uid-{}", self.uid)
    }

    fn strange(&self) -> Strange {
        Strange {
            ip: IPS[self.ip].parse::<IpAddr>().ok().map(|ip| ip.to_canonical()),
            claim: self.claim.map(|(n, _)| key(CLAIMS[n])),
            ..strange(&self.uid(), self.version)
        }
    }

    fn finish(&self, object: Object) -> Object {
        object.uid(&self.uid()).version(self.version)
    }

    fn address(&self) -> AddressView {
        let mut object = self.finish(address(&address_name(self.name), IPS[self.ip]));
        object = object.class(CLASSES[self.class]).phase(PHASES[self.phase]);
        if let Some((n, complete)) = self.claim {
            object = object.held_by(CLAIMS[n], complete.then_some("uid-0"));
        }
        if self.flag { object.deleting().address() } else { object.address() }
    }

    fn claim(&self) -> ClaimView {
        let object = self.finish(claim(CLAIMS[self.name])).resolved(CLASSES[self.class]);
        if self.flag { object.deleting().claim() } else { object.claim() }
    }

    fn class(&self) -> ClassView {
        let object = self.finish(class(CLASSES[self.name]));
        if self.flag { object.default_class().class_view() } else { object.class_view() }
    }
}

fn address_name(n: usize) -> String {
    format!("a{n}")
}

/// Carries one operation out on both, and checks whom it wakes.
fn step(index: &mut Index, world: &mut World, op: &Op, at: Duration) {
    let disputed = world.disputed();
    let (wakes, changed) = match op {
        Op::Put(0, state) => put_class(index, world, state),
        Op::Put(1, state) => return put_address(index, world, state, at),
        Op::Put(_, state) => put_claim(index, world, state),
        Op::Remove(kind, name, by) => {
            let gone = match by {
                Ok(uid) => Gone::Object { uid: format!("uid-{uid}").as_str().into() },
                Err(version) => Gone::AsOf { version: version.to_string().into() },
            };
            remove(index, world, *kind, *name, &gone)
        }
        Op::BeginList(kind) => {
            index.begin_list(KINDS[*kind]);
            match kind {
                0 => world.classes.begin(),
                1 => world.addresses.begin(),
                _ => world.claims.begin(),
            }
            (Wakes::default(), false)
        }
        Op::EndList(kind) => {
            match kind {
                0 => world.classes.end(),
                1 => world.addresses.end(),
                _ => world.claims.end(),
            }
            (index.end_list(KINDS[*kind]), true)
        }
    };
    world.reservations.retain(|name, _| world.addresses.0.contains_key(name));
    assert!(changed || wakes.is_empty(), "{op:?} changes nothing and wakes {wakes:?}");
    let now = world.disputed();
    for name in disputed.symmetric_difference(&now) {
        assert!(wakes.addresses.contains(name), "{op:?}: {name} is not told of its duplicate");
    }
}

fn put_address(index: &mut Index, world: &mut World, state: &State, at: Duration) {
    let name: Name = address_name(state.name).as_str().into();
    let (before, disputed) = (world.claim_of(&name), world.disputed());
    let view = if state.strange { Err(state.strange()) } else { Ok(state.address()) };
    let changed = world.addresses.put(&name, &state.uid(), state.version, view.clone());
    let wakes = match view {
        Ok(view) => index.apply_address(view, at),
        Err(strange) => index.strange_address(&name, strange),
    };
    if !changed {
        assert!(wakes.is_empty(), "{state:?} is stale and wakes {wakes:?}");
        return;
    }
    world.note_reservation(&name, at);
    let named: BTreeSet<_> = before.into_iter().chain(world.claim_of(&name)).collect();
    assert_eq!(wakes.claims, named, "nobody waits here: those that are named, and no others");
    let mut told: BTreeSet<_> = disputed.symmetric_difference(&world.disputed()).cloned().collect();
    told.insert(name);
    assert!(told.is_subset(&wakes.addresses), "{told:?} are concerned, {wakes:?}");
}

fn put_claim(index: &mut Index, world: &mut World, state: &State) -> (Wakes, bool) {
    let at = key(CLAIMS[state.name]);
    if state.strange {
        let changed = world.claims.put(&at, &state.uid(), state.version, Err(state.strange()));
        return (index.strange_claim(&at, state.strange()), changed);
    }
    let changed = world.claims.put(&at, &state.uid(), state.version, Ok(state.claim()));
    (index.apply_claim(state.claim()), changed)
}

fn put_class(index: &mut Index, world: &mut World, state: &State) -> (Wakes, bool) {
    let name: Name = CLASSES[state.name].into();
    if state.strange {
        let changed = world.classes.put(&name, &state.uid(), state.version, Err(state.strange()));
        return (index.strange_class(&name, state.strange()), changed);
    }
    let changed = world.classes.put(&name, &state.uid(), state.version, Ok(state.class()));
    (index.apply_class(state.class()), changed)
}

fn remove(
    index: &mut Index,
    world: &mut World,
    kind: usize,
    name: usize,
    gone: &Gone,
) -> (Wakes, bool) {
    match kind {
        0 => {
            let name: Name = CLASSES[name].into();
            (index.remove_class(&name, gone), world.classes.remove(&name, gone))
        }
        1 => {
            let name: Name = address_name(name).as_str().into();
            (index.remove_address(&name, gone), world.addresses.remove(&name, gone))
        }
        _ => {
            let at = key(CLAIMS[name]);
            (index.remove_claim(&at, gone), world.claims.remove(&at, gone))
        }
    }
}

/// Everything that the index answers is what a look at every object would answer.
fn compare(index: &Index, world: &World) {
    for (name, known) in &world.addresses.0 {
        match (&known.view, index.address(name)) {
            (Ok(view), Seen::Known(seen)) => assert_eq!(view, seen),
            (Err(strange), Seen::Strange(seen)) => assert_eq!(strange, seen),
            (expected, seen) => panic!("{expected:?} is seen as {seen:?}"),
        }
    }
    assert_eq!(index.addresses().count(), world.addresses.known().count());
    assert_eq!(index.claims().count(), world.claims.known().count());
    for at in CLAIMS.map(key) {
        let seen: Vec<_> = index.claimed_by(&at).collect();
        let names = |a: &&AddressView| a.claim_ref.as_ref().is_some_and(|r| r.key == at);
        assert_eq!(seen, world.addresses.known().filter(names).collect::<Vec<_>>());
        assert_eq!(
            index.claim(&at).known(),
            world.claims.0.get(&at).and_then(|k| k.view.as_ref().ok())
        );
    }
    for class in CLASSES {
        for family in [IpFamily::IPv4, IpFamily::IPv6] {
            let seen: Vec<_> = index.free(&class.into(), family).map(|a| a.name.clone()).collect();
            assert_eq!(seen, world.free(class, family), "sorted, and each once");
        }
    }
    for view in world.addresses.known() {
        let seen: Vec<_> = index.duplicates_of(view).cloned().collect();
        assert_eq!(seen, world.duplicates(view));
        let reservation = world.reservations.get(&view.name).map(|(_, _, at)| *at);
        assert_eq!(index.reservation_seen(view), reservation, "{view:?}");
    }
    let defaults: Vec<_> = index.default_classes().cloned().collect();
    let expected = world.classes.known().filter(|c| c.default).map(|c| c.name.clone());
    assert_eq!(defaults, expected.collect::<Vec<_>>());
    assert_eq!(KINDS.map(|kind| index.strange_count(kind)), world.strange());
    let views = |all: &mut Vec<&AddressView>| all.sort_by(|a, b| a.name.cmp(&b.name));
    let (mut seen, mut expected): (Vec<_>, Vec<_>) =
        (index.addresses().collect(), world.addresses.known().collect());
    views(&mut seen);
    views(&mut expected);
    assert_eq!(seen, expected);
    let views = |all: &mut Vec<&ClaimView>| all.sort_by(|a, b| a.key.cmp(&b.key));
    let (mut seen, mut expected): (Vec<_>, Vec<_>) =
        (index.claims().collect(), world.claims.known().collect());
    views(&mut seen);
    views(&mut expected);
    assert_eq!(seen, expected);
    let everything = index.everything();
    assert!(everything.addresses.iter().eq(world.addresses.0.keys()));
    assert!(everything.claims.iter().eq(world.claims.0.keys()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Any sequence: versions out of order, other objects of the same name, removals on either
    /// word, re-lists that begin and end anywhere.
    #[test]
    fn the_index_is_what_a_look_at_everything_would_say(ops in ops()) {
        let (mut index, mut world) = (Index::default(), World::new());
        for (n, op) in ops.iter().enumerate() {
            step(&mut index, &mut world, op, Duration::from_secs(n as u64));
            compare(&index, &world);
        }
    }

    /// The order in which states arrive does not matter: the newest of each object is what stays.
    #[test]
    fn states_in_any_order_come_to_the_same(
        ops in ops(),
        order in any::<prop::sample::Index>(),
    ) {
        // One state for each name and version: two different ones are not the same object's.
        let mut puts: BTreeMap<_, Op> = BTreeMap::new();
        for op in ops {
            if let Op::Put(kind, state) = &op {
                puts.entry((*kind, state.name, state.version)).or_insert(op.clone());
            }
        }
        let mut puts: Vec<_> = puts.into_values().collect();
        let mut forwards = (Index::default(), World::new());
        for op in &puts {
            step(&mut forwards.0, &mut forwards.1, op, Duration::ZERO);
        }
        let middle = order.index(puts.len().max(1)).min(puts.len());
        puts.rotate_left(middle);
        puts.reverse();
        let mut shuffled = (Index::default(), World::new());
        for op in &puts {
            step(&mut shuffled.0, &mut shuffled.1, op, Duration::ZERO);
        }
        compare(&shuffled.0, &forwards.1);
    }
}
