//! Replicas that match on one class at once: who goes for what, and how often they collide.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::{
    api::IpFamily,
    binder::{
        index::{Gone, Index, Pool, Race, Wakes},
        testing::{claim, class, free, key, world},
        view::{ClaimKey, Name},
    },
};

fn pool() -> Pool {
    ("public".into(), IpFamily::IPv4)
}

/// One replica's index, with so many free addresses.
fn replica(me: &str, members: &[&str], addresses: usize) -> Index {
    let names =
        (0..addresses).map(|n| free(&format!("a{n:03}"), &format!("10.0.{}.{}", n / 250, n % 250)));
    let mut objects = vec![class("public"), claim("t1/web")];
    objects.extend(names);
    let mut index = world(&objects);
    let members: Vec<Arc<str>> = members.iter().map(|m| Arc::from(*m)).collect();
    index.set_members(me, &members);
    index
}

fn candidate(index: &Index, claim: &ClaimKey) -> Option<Name> {
    index.candidate(&"public".into(), IpFamily::IPv4, claim).map(|a| a.name.clone())
}

/// At rest everybody goes for the smallest name, whoever else there is.
#[test]
fn at_rest_it_is_the_smallest_name() {
    for members in [&["r0"][..], &["r0", "r1", "r2"]] {
        for me in members {
            let index = replica(me, members, 50);
            assert_eq!(candidate(&index, &key("t1/web")), Some("a000".into()), "{me}");
        }
    }
}

/// After a lost race, replicas part; and what one reserved, its own claims leave alone.
#[test]
fn after_a_lost_race_they_part() {
    let members = ["r0", "r1", "r2"];
    let picked: BTreeSet<_> = members
        .iter()
        .map(|me| {
            let mut index = replica(me, &members, 300);
            for _ in 0..10 {
                index.raced(&pool(), Race::Lost);
            }
            candidate(&index, &key("t1/web")).unwrap()
        })
        .collect();
    assert_eq!(picked.len(), 3, "{picked:?}");
}

/// The window closes again when nobody else is faster, and one replica alone never opens it.
#[test]
fn wins_close_the_window() {
    let mut index = replica("r0", &["r0", "r1"], 300);
    for _ in 0..20 {
        index.raced(&pool(), Race::Lost);
    }
    for _ in 0..400 {
        index.raced(&pool(), Race::Won);
    }
    assert_eq!(candidate(&index, &key("t1/web")), Some("a000".into()));
    let mut alone = replica("r0", &["r0"], 300);
    alone.raced(&pool(), Race::Lost);
    assert_eq!(candidate(&alone, &key("t1/web")), Some("a000".into()));
}

/// Of a class that is gone nothing is kept.
#[test]
fn a_class_that_goes_takes_its_window_along() {
    let mut index = replica("r0", &["r0", "r1"], 300);
    for _ in 0..8 {
        index.raced(&pool(), Race::Lost);
    }
    assert_ne!(candidate(&index, &key("t1/web")), Some("a000".into()));
    index.remove_class(&"public".into(), &Gone::Object { uid: "uid-public".into() });
    assert_eq!(candidate(&index, &key("t1/web")), Some("a000".into()));
}

/// Only names within the window are gone for, so that small names go first.
#[test]
fn the_window_bounds_how_far_a_replica_looks() {
    for losses in 0..12_u32 {
        let mut index = replica("r1", &["r0", "r1", "r2"], 300);
        for _ in 0..losses {
            index.raced(&pool(), Race::Lost);
        }
        let name = candidate(&index, &key("t1/web")).unwrap();
        let place: usize = name[1..].parse().unwrap();
        assert!(place < 2_usize.pow(losses).min(256), "{name} after {losses}");
    }
}

/// Three replicas with eight passes in flight each, and caches that hear of each other's matches a
/// round later: how many are refused for each that is written.
#[test]
fn three_replicas_seldom_collide() {
    const FLIGHT: usize = 8;
    const BINDS: usize = 600;
    let members = ["r0", "r1", "r2"];
    let mut replicas: Vec<_> = members.iter().map(|me| replica(me, &members, BINDS)).collect();
    let mut taken: BTreeSet<Name> = BTreeSet::new();
    let (mut refused, mut rounds) = (0_usize, 0_usize);
    while taken.len() < BINDS && rounds < BINDS {
        rounds += 1;
        let mut written = Vec::new();
        for index in &mut replicas {
            let mut flight = Vec::new();
            for n in 0..FLIGHT {
                let claim = key(&format!("t1/c{rounds}-{n}"));
                let Some(name) = candidate(index, &claim) else { break };
                reserve(index, &claim, &name);
                flight.push((claim, name));
            }
            written.push(flight);
        }
        // The answers come in turns, so that no replica always wins.
        for n in 0..FLIGHT {
            for (index, flight) in replicas.iter_mut().zip(&written) {
                let Some((claim, name)) = flight.get(n) else { continue };
                let race = if taken.insert(name.clone()) { Race::Won } else { Race::Lost };
                refused += usize::from(race == Race::Lost);
                index.raced(&pool(), race);
                index.unreserve(claim, [name.clone()]);
            }
        }
        for index in &mut replicas {
            for name in &taken {
                hear(index, name);
            }
        }
    }
    assert_eq!(taken.len(), BINDS);
    assert!(refused * 5 <= BINDS, "{refused} refused for {BINDS} binds");
}

fn reserve(index: &mut Index, claim: &ClaimKey, name: &Name) {
    let created = crate::binder::testing::now();
    let wakes = index.decided(claim, created, Vec::new(), [name.clone()]);
    assert_eq!(wakes, Wakes::default());
}

/// The watch tells that an address was matched.
fn hear(index: &mut Index, name: &Name) {
    let n: usize = name[1..].parse().unwrap();
    let taken = free(name, &format!("10.0.{}.{}", n / 250, n % 250))
        .held_by("t9/other", Some("u9"))
        .version(2);
    index.apply_address(taken.address(), Duration::ZERO);
}
