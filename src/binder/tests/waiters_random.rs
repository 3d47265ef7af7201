//! No wake-up is lost: random worlds in which claims are looked at only when they were woken.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::prelude::*;

use super::address_world::strange;
use crate::{
    api::IpFamily,
    binder::{
        index::{Gone, Index, Seen, Wakes},
        plan::{Decision, Waiting},
        testing::{Object, address, claim, class, decide_claim, key},
        view::{ClaimKey, Name},
    },
};

const IPS: [&str; 7] =
    ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "2001:db8::1", "2001:db8::2"];
const PHASES: [&str; 3] = ["Available", "Available", "Conflict"];
const CLASSES: [&str; 2] = ["public", "private"];
const FAMILIES: [&str; 3] = ["IPv4", "IPv6", "Dual"];

/// One thing that happens.
#[derive(Clone, Debug)]
enum Op {
    /// Somebody writes an address, perhaps one created again with another IP.
    Address {
        name: u8,
        ip: usize,
        phase: usize,
        class: usize,
        taken: bool,
        again: bool,
    },
    AddressGoes(u8),
    /// Somebody writes a claim.
    Claim {
        name: u8,
        class: usize,
        family: usize,
        pin: Option<u8>,
        deleting: bool,
    },
    ClaimGoes(u8),
    ClaimTurnsUnreadable(u8),
    Class(usize),
    ClassGoes(usize),
    /// The pass of a woken claim runs.
    Pass(usize),
    /// A bind that is under way is answered.
    Land(usize),
    /// A bind that is under way is refused; its claim backs off.
    Refuse(usize),
    BackOffEnds,
    /// Nothing happens for long enough that everybody woken is looked at.
    Rest,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let address = (
        0..6u8,
        0..IPS.len(),
        0..PHASES.len(),
        0..2usize,
        prop::bool::weighted(0.2),
        any::<bool>(),
    )
        .prop_map(|(name, ip, phase, class, taken, again)| Op::Address {
            name,
            ip,
            phase,
            class,
            taken,
            again,
        });
    let claim = (
        0..6u8,
        0..2usize,
        0..3usize,
        prop::option::weighted(0.2, 0..6u8),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(name, class, family, pin, deleting)| Op::Claim {
            name,
            class,
            family,
            pin,
            deleting,
        });
    let op = prop_oneof![
        6 => address,
        2 => (0..6u8).prop_map(Op::AddressGoes),
        5 => claim,
        1 => (0..6u8).prop_map(Op::ClaimGoes),
        1 => (0..6u8).prop_map(Op::ClaimTurnsUnreadable),
        1 => (0..2usize).prop_map(Op::Class),
        1 => (0..2usize).prop_map(Op::ClassGoes),
        10 => any::<usize>().prop_map(Op::Pass),
        4 => any::<usize>().prop_map(Op::Land),
        3 => any::<usize>().prop_map(Op::Refuse),
        1 => Just(Op::BackOffEnds),
        2 => Just(Op::Rest),
    ];
    prop::collection::vec(op, 1..60)
}

/// The index, what a replica's queue would hold beside it, and the addresses as they are.
#[derive(Default)]
struct Replica {
    index: Index,
    addresses: BTreeMap<String, Object>,
    waiting: BTreeMap<ClaimKey, Vec<Waiting>>,
    woken: BTreeSet<ClaimKey>,
    backing_off: BTreeSet<ClaimKey>,
    under_way: Vec<(ClaimKey, Vec<Name>)>,
    version: u64,
}

impl Replica {
    fn take(&mut self, wakes: Wakes) {
        self.woken.extend(wakes.claims);
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn put_address(&mut self, object: Object) {
        let object = object.version(self.next_version());
        let view = object.address();
        let named = |o: &Object| o.address().claim_ref.map(|r| r.key);
        let before = self.addresses.insert(view.name.to_string(), object.clone());
        let wakes = self.index.apply_address(view.clone(), Duration::ZERO);
        // Besides whom it names and whom it is pinned for, an address calls one claim; and one
        // more for another address that is no longer disputed.
        let pinned = |w: &&Waiting| matches!(w, Waiting::Address(_));
        let pins = self.waiting.values().filter(|w| w.iter().any(|w| pinned(&w))).count();
        let references = usize::from(before.as_ref().and_then(named).is_some())
            + usize::from(view.claim_ref.is_some());
        assert!(wakes.claims.len() <= references + pins + 2, "{wakes:?}");
        self.take(wakes);
    }

    fn act(&mut self, op: &Op) {
        match op {
            Op::Address { name, ip, phase, class, taken, again } => {
                let uid = if *again { "again" } else { "first" };
                let object = address(&format!("a{name}"), IPS[*ip])
                    .protected()
                    .uid(&format!("{uid}-{ip}"))
                    .class(CLASSES[*class])
                    .phase(PHASES[*phase]);
                let taken_by = |o: Object| o.held_by("t9/other", Some("other")).phase("Bound");
                self.put_address(if *taken { taken_by(object) } else { object });
            }
            Op::AddressGoes(name) => {
                let name = format!("a{name}");
                if let Some(object) = self.addresses.remove(&name) {
                    let uid = object.address().id.uid;
                    let wakes =
                        self.index.remove_address(&name.as_str().into(), &Gone::Object { uid });
                    self.take(wakes);
                }
            }
            Op::Pass(n) => {
                if let Some(next) = self.woken.iter().nth(n % self.woken.len().max(1)).cloned() {
                    self.pass(&next);
                }
            }
            Op::Land(n) if !self.under_way.is_empty() => self.land(n % self.under_way.len()),
            Op::Refuse(n) if !self.under_way.is_empty() => {
                let (claim, names) = self.under_way.remove(n % self.under_way.len());
                let wakes = self.index.unreserve(&claim, names);
                self.take(wakes);
                self.backing_off.insert(claim);
            }
            Op::Land(_) | Op::Refuse(_) => {}
            Op::BackOffEnds => self.woken.append(&mut self.backing_off),
            Op::Rest => self.rest_settled(),
            Op::Claim { .. } | Op::ClaimGoes(_) | Op::ClaimTurnsUnreadable(_) => self.claim(op),
            Op::Class(_) | Op::ClassGoes(_) => self.class(op),
        }
    }

    fn claim(&mut self, op: &Op) {
        let version = self.next_version();
        let at = |name: &u8| key(&format!("t1/c{name}"));
        let uid = |index: &Index, at: &ClaimKey| match index.claim(at) {
            Seen::Known(c) => c.id.uid.clone(),
            Seen::Strange(s) => s.uid.clone(),
            Seen::Absent => "".into(),
        };
        let wakes = match op {
            Op::Claim { name, class, family, pin, deleting } => {
                let mut object = claim(&format!("t1/c{name}"))
                    .protected()
                    .version(version)
                    .created(&format!("2026-01-01T11:00:0{}Z", 9 - name))
                    .class(CLASSES[*class])
                    .family(FAMILIES[*family]);
                if let Some(pin) = pin {
                    object = object.pin(&format!("a{pin}"));
                }
                let object = if *deleting { object.deleting() } else { object };
                self.index.apply_claim(object.claim())
            }
            Op::ClaimTurnsUnreadable(name) => {
                let uid = format!("uid-c{name}");
                self.index.strange_claim(&at(name), strange(&uid, version))
            }
            Op::ClaimGoes(name) => {
                let uid = uid(&self.index, &at(name));
                self.index.remove_claim(&at(name), &Gone::Object { uid })
            }
            _ => unreachable!("not about a claim"),
        };
        self.take(wakes);
    }

    fn class(&mut self, op: &Op) {
        let version = self.next_version();
        let wakes = match op {
            Op::Class(n) => {
                self.index.apply_class(class(CLASSES[*n]).version(version).class_view())
            }
            Op::ClassGoes(n) => {
                let uid = format!("uid-{}", CLASSES[*n]).as_str().into();
                self.index.remove_class(&CLASSES[*n].into(), &Gone::Object { uid })
            }
            _ => unreachable!("not about a class"),
        };
        self.take(wakes);
    }

    /// A claim's pass, each read answered by the index itself, which is never behind here. A claim
    /// that is not there or cannot be read has no pass.
    fn pass(&mut self, at: &ClaimKey) {
        if self.under_way.iter().any(|(claim, _)| claim == at) {
            // One pass of a key at a time: it stays woken until its bind is answered.
            return;
        }
        self.woken.remove(at);
        self.waiting.remove(at);
        if self.index.claim(at).known().is_none() {
            return;
        }
        let text = at.to_string();
        let plan = match decide_claim(&self.index, &text, &[]) {
            Decision::Act(plan) => plan,
            Decision::Read(names) => {
                let names: Vec<_> = names.iter().map(|n| &**n).collect();
                match decide_claim(&self.index, &text, &names) {
                    Decision::Act(plan) => plan,
                    Decision::Read(again) => panic!("asks for {again:?} again"),
                }
            }
        };
        let chosen: Vec<Name> = plan.chosen().map(|(name, _)| name.clone()).collect();
        self.waiting.insert(at.clone(), plan.waiting.clone());
        let wakes = self.index.decided(at, plan.created, plan.waiting, chosen.clone());
        self.take(wakes);
        if !chosen.is_empty() {
            self.under_way.push((at.clone(), chosen));
        }
    }

    /// The API server's answer to a bind: done where the address is still as it was chosen.
    fn land(&mut self, n: usize) {
        let (claim, names) = self.under_way.remove(n);
        for name in &names {
            let object = self.addresses.get(&**name).filter(|o| o.address().matchable()).cloned();
            if let Some(object) = object {
                let uid = format!("uid-{}", claim.name);
                self.put_address(object.phase("Bound").held_by(&claim.to_string(), Some(&uid)));
            }
        }
        let wakes = self.index.unreserve(&claim, names);
        self.take(wakes);
        // The watch brings the claim's own writes back, and with them another look.
        self.woken.insert(claim);
    }

    /// The free and unreserved addresses that somebody in line could have, by pool.
    fn left_lying(&self) -> Vec<(String, IpFamily)> {
        let mut pools = Vec::new();
        for class in CLASSES {
            for family in [IpFamily::IPv4, IpFamily::IPv6] {
                let wait = Waiting::Candidate(class.into(), family);
                let free = self
                    .index
                    .free(&class.into(), family)
                    .any(|a| self.index.reserved_for(&a.name).is_none());
                let wanted = self.waiting.iter().any(|(at, waits)| {
                    self.index.claim(at).known().is_some_and(|c| !c.id.deleting)
                        && waits.contains(&wait)
                });
                if free && wanted {
                    pools.push((class.to_owned(), family));
                }
            }
        }
        pools
    }

    /// While a claim in line could have an address, somebody is called who has yet to be looked at.
    fn check(&self) {
        let left = self.left_lying();
        assert!(left.is_empty() || !self.woken.is_empty(), "nobody is called for {left:?}");
    }

    /// Runs to rest. Whoever backs off helps nobody: the others must be served without.
    fn rest(&mut self) {
        for _ in 0..500 {
            if let Some(next) = self.woken.first().cloned() {
                let busy = self.under_way.iter().position(|(claim, _)| *claim == next);
                if let Some(n) = busy {
                    self.land(n);
                }
                self.pass(&next);
            } else if self.under_way.is_empty() {
                return;
            } else {
                self.land(0);
            }
        }
        panic!("the wake-ups go round in circles: {:?}", self.woken);
    }

    /// At rest, a look at each claim that nobody woke finds nothing to bind, and nothing else to
    /// wait for.
    fn rest_settled(&mut self) {
        self.rest();
        let idle = self.index.claims().filter(|c| !c.id.deleting);
        let idle = idle.filter(|c| !self.backing_off.contains(&c.key));
        let names: Vec<_> = self.addresses.keys().map(String::as_str).collect();
        for at in idle.map(|c| c.key.to_string()) {
            let Decision::Act(plan) = decide_claim(&self.index, &at, &names) else {
                panic!("everything was read");
            };
            let chosen: Vec<_> = plan.chosen().collect();
            assert!(chosen.is_empty(), "{at} was never woken for {chosen:?}");
            let waits = self.waiting.get(&plan.claim).cloned().unwrap_or_default();
            assert_eq!(waits, plan.waiting, "what {at} waits for is out of date");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// I9: whatever happens in whatever order, when everything woken was looked at, no claim could
    /// be bound that nobody woke.
    #[test]
    fn no_wake_up_is_lost(ops in ops()) {
        let mut replica = Replica::default();
        (0..CLASSES.len()).for_each(|n| replica.act(&Op::Class(n)));
        for op in &ops {
            replica.act(op);
            replica.check();
        }
        replica.rest_settled();
    }
}
