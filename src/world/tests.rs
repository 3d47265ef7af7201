//! What the watches tell reaches the index, the queues and the memory.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::{
    api::{IPAddress, IPAddressClaim, IPAddressClass},
    binder::{
        index::Seen,
        testing::{Object, claim, free, key},
    },
    clock::Moment,
    queue::Next,
    watch::{Change, Gone, Unparsed},
};

fn world() -> World {
    let clock = Clock::new(|| Moment { wall: Timestamp::UNIX_EPOCH, elapsed: Duration::ZERO });
    World::new(Config::default(), clock)
}

fn parsed<K: serde::de::DeserializeOwned>(object: &Object) -> Change<K> {
    Change::Applied(serde_json::from_value(object.0.clone()).unwrap())
}

fn list_addresses(world: &World, addresses: &[Object]) {
    world.address_changed(Change::ListStarted);
    for address in addresses {
        world.address_changed(parsed::<IPAddress>(address));
    }
    world.address_changed(Change::ListEnded);
}

/// Every key that is due, with why.
async fn due(world: &World) -> Vec<(String, Wake)> {
    let mut all = Vec::new();
    while world.claims().depth() > 0 {
        let job = world.claims().next().await.unwrap();
        all.push((job.key.to_string(), job.wake));
        world.claims().done(job, Next::Settled);
    }
    while world.addresses().depth() > 0 {
        let job = world.addresses().next().await.unwrap();
        all.push((job.key.to_string(), job.wake));
        world.addresses().done(job, Next::Settled);
    }
    all
}

/// Nothing may be decided before all three kinds are listed.
#[tokio::test(start_paused = true)]
async fn it_is_complete_when_every_kind_is_listed() {
    let world = world();
    let complete = |w: &World| futures::FutureExt::now_or_never(w.complete()).is_some();
    world.class_changed(Change::<IPAddressClass>::ListEnded);
    list_addresses(&world, &[]);
    assert!(!complete(&world));
    world.claim_changed(Change::<IPAddressClaim>::ListStarted);
    assert!(!complete(&world));
    world.claim_changed(Change::<IPAddressClaim>::ListEnded);
    assert!(complete(&world));
    world.claim_changed(Change::<IPAddressClaim>::ListStarted);
    assert!(complete(&world), "a re-list does not undo it");
}

/// H04: what vanished while nobody watched is a deletion, and wakes whom it concerns.
#[tokio::test(start_paused = true)]
async fn h04_what_a_re_list_lost_wakes_its_claim() {
    let world = world();
    let a1 = free("a1", "192.0.2.1").held_by("t1/web", Some("uid-web"));
    list_addresses(&world, &[a1, free("a2", "192.0.2.2")]);
    due(&world).await;
    list_addresses(&world, &[free("a2", "192.0.2.2")]);
    let due = due(&world).await;
    assert!(due.contains(&("t1/web".to_owned(), Wake::Related)), "{due:?}");
    assert_eq!(world.index().address(&"a1".into()), Seen::Absent);
}

/// B04: the claim that was named before is looked at too.
#[tokio::test(start_paused = true)]
async fn b04_both_claims_are_woken_when_a_reference_moves() {
    let world = world();
    let a1 = || free("a1", "192.0.2.1");
    list_addresses(&world, &[a1().held_by("t1/web", Some("uid-web"))]);
    due(&world).await;
    world.address_changed(parsed(&a1().held_by("t2/api", None).version(2)));
    let woken: Vec<_> = due(&world).await;
    let expected = [
        ("t1/web".to_owned(), Wake::Related),
        ("t2/api".to_owned(), Wake::Related),
        ("a1".to_owned(), Wake::Changed),
    ];
    assert_eq!(woken, expected);
}

/// A replica reads its own writes, and is not woken by them; nor by the echo that its watch brings.
#[tokio::test(start_paused = true)]
async fn an_own_write_wakes_others_only() {
    let world = world();
    world.claim_changed(parsed::<IPAddressClaim>(&claim("t1/web")));
    list_addresses(&world, &[free("a1", "192.0.2.1")]);
    due(&world).await;
    let bound = free("a1", "192.0.2.1").held_by("t1/web", Some("uid-web")).version(2);
    let own = key("t1/web");
    world.learn(Learner::Claim(&own), |index, at| index.apply_address(bound.address(), at));
    assert_eq!(due(&world).await, [("a1".to_owned(), Wake::Related)]);
    world.address_changed(parsed(&bound));
    assert_eq!(due(&world).await, []);
}

fn strange(name: &str, version: u32, phase: &str) -> Change<IPAddress> {
    Change::Unparsed(Unparsed {
        namespace: None,
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        resource_version: version.to_string(),
        error: format!("unknown variant `{phase}`"),
        raw: json!({"spec": {"address": "192.0.2.1"}, "status": {"phase": phase}}),
    })
}

/// A06: one strange object counts, its IP counts against duplicates, and nothing else is disturbed.
#[tokio::test(start_paused = true)]
async fn a06_an_object_that_does_not_parse_is_counted_and_left_alone() {
    let world = world();
    list_addresses(&world, &[free("a1", "192.0.2.1"), free("a2", "192.0.2.2")]);
    for version in 2..6 {
        world.address_changed(strange("odd", version, "Quarantined"));
    }
    let index = world.index();
    assert_eq!(index.strange_count(IndexedKind::Address), 1);
    let free: Vec<_> = index
        .free(&"public".into(), crate::api::IpFamily::IPv4)
        .map(|a| a.name.to_string())
        .collect();
    assert_eq!(free, ["a2"], "a1 shares its IP with the strange one");
}

/// X5, O01: what is remembered of objects goes with them, whether a watch or a re-list tells of it.
#[tokio::test(start_paused = true)]
async fn memory_goes_with_the_objects() {
    let world = world();
    for n in 0..1000 {
        let name = format!("odd{n}");
        world.address_changed(strange(&name, 2, "Quarantined"));
        if n % 2 == 0 {
            world.address_changed(Change::Deleted(Gone {
                namespace: None,
                uid: format!("uid-{name}"),
                name,
                resource_version: "3".to_owned(),
            }));
        }
    }
    assert_eq!(world.memory().len(), 500);
    list_addresses(&world, &[]);
    assert!(world.memory().is_empty());
}

/// An answer that arrives after the watch has told of the object's end is about the past; one that
/// is ahead of the watch is not. While a list runs, nothing is known of what it has not shown yet:
/// an answer about that must count, or a live claim would seem to be gone.
#[tokio::test(start_paused = true)]
async fn an_answer_that_the_watch_has_overtaken_is_over() {
    let world = world();
    let over = |name: &str, version: &str| world.index().is_claim_over(&key(name), version);
    world.claim_changed(Change::<IPAddressClaim>::ListStarted);
    world.claim_changed(parsed::<IPAddressClaim>(&claim("t1/web").version(100)));
    assert!(!over("t1/api", "50"), "not listed yet");
    world.claim_changed(Change::<IPAddressClaim>::ListEnded);
    assert!(!over("t1/api", "50"), "of what the list was made, only the server knows");
    world.claim_changed(Change::<IPAddressClaim>::Deleted(Gone {
        namespace: Some("t1".to_owned()),
        name: "web".to_owned(),
        uid: "uid-web".to_owned(),
        resource_version: "101".to_owned(),
    }));
    assert!(over("t1/web", "100"), "the state before its end");
    assert!(over("t1/web", "101"), "its end, as the write that brought it about is answered");
    assert!(!over("t1/web", "102"), "created again");
    assert!(
        !world.index().is_address_over(&"web".into(), "100"),
        "one kind says nothing of another"
    );
    world.claim_changed(parsed::<IPAddressClaim>(&claim("t1/web").uid("uid-2").version(102)));
    assert!(!over("t1/web", "100"), "what is known is compared with what is known");
    world.claim_changed(Change::<IPAddressClaim>::ListStarted);
    assert!(!over("t1/api", "50"), "a list again, perhaps of a restored server");
}
