//! What each kind of change makes of the index, and exactly who is to be looked at for it.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use rstest::rstest;

use super::address_world::strange;
use crate::{
    api::IpFamily,
    binder::{
        index::{Gone, Index, IndexedKind, Seen, Strange, Wakes},
        plan::Waiting,
        testing::{Object, add, address, claim, class, free, key, world},
        view::{AddressView, Name},
    },
};

/// The keys of a change in words: `t1/web a1`, claims first.
fn woken(wakes: &Wakes) -> String {
    let claims = wakes.claims.iter().map(ToString::to_string);
    let all: Vec<_> = claims.chain(wakes.addresses.iter().map(ToString::to_string)).collect();
    all.join(" ")
}

fn wait(index: &mut Index, at: &str, waiting: Waiting) {
    let wakes = index.decided(&key(at), Timestamp::UNIX_EPOCH, vec![waiting], []);
    assert!(wakes.is_empty(), "who begins to wait wakes nobody");
}

fn free_names(index: &Index, class: &str, family: IpFamily) -> Vec<String> {
    index.free(&class.into(), family).map(|a| a.name.to_string()).collect()
}

fn gone(uid: &str) -> Gone {
    Gone::Object { uid: uid.into() }
}

fn bound(key: &str) -> Object {
    address("a1", "192.0.2.1").phase("Bound").held_by(key, Some("u"))
}

/// B04: the claim that was named and the one that is named now are both looked at, whether the
/// reference was moved, removed, made or completed.
#[rstest]
#[case::moved(bound("t1/web"), bound("t2/api"), "t1/web t2/api a1")]
#[case::removed(bound("t1/web"), free("a1", "192.0.2.1"), "t1/web a1")]
#[case::made(free("a1", "192.0.2.1"), bound("t1/web"), "t1/web a1")]
#[case::completed(bound("t1/web").held_by("t1/web", None), bound("t1/web"), "t1/web a1")]
#[case::phase_only(bound("t1/web"), bound("t1/web").phase("Lost"), "t1/web a1")]
#[case::recreated(bound("t1/web"), bound("t2/api").uid("uid-again"), "t1/web t2/api a1")]
#[case::nobodys(address("a1", "192.0.2.1"), free("a1", "192.0.2.1"), "a1")]
fn b04_old_and_new_references_are_woken(
    #[case] before: Object,
    #[case] after: Object,
    #[case] expected: &str,
) {
    let mut index = world(&[before, claim("t9/bystander")]);
    let wakes = add(&mut index, &after.version(2));
    assert_eq!(woken(&wakes), expected);
}

/// B04 by a deletion, and by a state that does not parse but still says whose it is.
#[test]
fn b04_a_vanished_or_unreadable_address_wakes_its_claim() {
    let mut index = world(&[bound("t1/web")]);
    let unreadable = Strange { claim: Some(key("t2/api")), ..strange("uid-a1", 2) };
    let wakes = index.strange_address(&"a1".into(), unreadable);
    assert_eq!(woken(&wakes), "t1/web t2/api a1");
    assert_eq!(index.claimed_by(&key("t1/web")).count(), 0);
    assert_eq!(index.claimed_by(&key("t2/api")).count(), 0, "not as a view");
    assert_eq!(woken(&index.remove_address(&"a1".into(), &gone("uid-a1"))), "t2/api a1");
}

/// Of a claim, its addresses are told only what their passes ask about: whether it exists, which
/// one it is, whether it is being deleted, whether it can be read.
#[rstest]
#[case::nothing_new(claim("t1/web"), false)]
#[case::status(claim("t1/web").phase("Bound"), false)]
#[case::spec(claim("t1/web").family("Dual"), false)]
#[case::finalizer(claim("t1/web").protected(), false)]
#[case::deleting(claim("t1/web").deleting(), true)]
#[case::another_uid(claim("t1/web").uid("uid-next"), true)]
fn a_claims_change_wakes_its_addresses_when_it_matters_to_them(
    #[case] after: Object,
    #[case] matters: bool,
) {
    let other = address("a2", "192.0.2.2").held_by("t2/web", None);
    let mut index = world(&[bound("t1/web"), other, claim("t1/web")]);
    let wakes = add(&mut index, &after.version(2));
    assert_eq!(woken(&wakes), if matters { "t1/web a1" } else { "t1/web" });
}

/// A claim that appears, goes, or turns unreadable and back.
#[test]
fn a_claims_coming_and_going_wakes_its_addresses() {
    let mut index = world(&[bound("t1/web")]);
    assert_eq!(woken(&add(&mut index, &claim("t1/web"))), "t1/web a1");
    let wakes = index.strange_claim(&key("t1/web"), strange("uid-web", 2));
    assert_eq!(woken(&wakes), "t1/web a1", "unreadable");
    assert_eq!(woken(&add(&mut index, &claim("t1/web").version(3))), "t1/web a1", "readable");
    let wakes = index.remove_claim(&key("t1/web"), &gone("uid-web"));
    assert_eq!(woken(&wakes), "a1", "a claim that is gone has no pass");
}

/// Changes of a class: those that wait for it, or for the default, when it is about that.
#[rstest]
#[case::same(class("public"), "")]
#[case::parameters(class("public").set("/spec/parameters", serde_json::json!({"x": 1})), "")]
#[case::provisioner(class("public").set("/spec/provisioner", "other.example.org"), "t1/named")]
#[case::now_default(class("public").default_class(), "t1/named t2/defaulted")]
fn a_class_wakes_those_it_can_help(#[case] after: Object, #[case] expected: &str) {
    let mut index = world(&[class("public"), class("private")]);
    wait(&mut index, "t1/named", Waiting::Class("public".into()));
    wait(&mut index, "t1/elsewhere", Waiting::Class("private".into()));
    wait(&mut index, "t2/defaulted", Waiting::DefaultClass);
    wait(&mut index, "t2/pinned", Waiting::Address("a9".into()));
    wait(&mut index, "t2/queued", Waiting::Candidate("public".into(), IpFamily::IPv4));
    assert_eq!(woken(&add(&mut index, &after.version(2))), expected);
}

/// A class that appears, becomes and stops being the default, goes, turns unreadable.
#[test]
fn a_class_through_its_life() {
    let mut index = Index::default();
    wait(&mut index, "t1/named", Waiting::Class("public".into()));
    wait(&mut index, "t2/defaulted", Waiting::DefaultClass);
    let defaults =
        |index: &Index| index.default_classes().map(ToString::to_string).collect::<Vec<_>>();

    assert_eq!(woken(&add(&mut index, &class("public"))), "t1/named");
    let wakes = add(&mut index, &class("public").default_class().version(2));
    assert_eq!(
        (woken(&wakes).as_str(), defaults(&index)),
        ("t1/named t2/defaulted", vec!["public".to_owned()])
    );
    let wakes = add(&mut index, &class("also").default_class());
    assert_eq!(woken(&wakes), "t2/defaulted");
    assert_eq!(defaults(&index), ["also", "public"], "sorted");
    let wakes = index.strange_class(&"public".into(), strange("uid-public", 3));
    assert_eq!(
        (woken(&wakes).as_str(), defaults(&index)),
        ("t1/named t2/defaulted", vec!["also".to_owned()])
    );
    let wakes = index.remove_class(&"public".into(), &gone("uid-public"));
    assert_eq!(woken(&wakes), "t1/named", "unreadable and absent are told apart");
    let wakes = index.remove_class(&"also".into(), &gone("uid-also"));
    assert_eq!((woken(&wakes).as_str(), defaults(&index)), ("t2/defaulted", Vec::new()));
}

/// Any change of an address wakes who is pinned to it, wherever it stands.
#[test]
fn a_pinned_address_wakes_whoever_waits_for_it() {
    let mut index = Index::default();
    wait(&mut index, "t1/pinned", Waiting::Address("a1".into()));
    wait(&mut index, "t1/other", Waiting::Address("a2".into()));
    for (version, object) in [
        address("a1", "192.0.2.1"),
        free("a1", "192.0.2.1"),
        free("a1", "192.0.2.1").class("private"),
        free("a1", "192.0.2.1").phase("Conflict"),
        free("a1", "192.0.2.1").deleting(),
    ]
    .into_iter()
    .enumerate()
    {
        let wakes = add(&mut index, &object.version(version as u64 + 1));
        assert_eq!(woken(&wakes), "t1/pinned a1");
    }
    assert_eq!(woken(&index.remove_address(&"a1".into(), &gone("uid-a1"))), "t1/pinned a1");
}

/// A duplicate that comes or goes changes what the other address can be had for: it, and who is
/// pinned to it, are looked at.
#[test]
fn a_duplicate_wakes_the_other_and_its_pin() {
    let mut index = world(&[free("a1", "192.0.2.1")]);
    wait(&mut index, "t1/pinned", Waiting::Address("a1".into()));
    assert_eq!(free_names(&index, "public", IpFamily::IPv4), ["a1"]);
    let wakes = add(&mut index, &free("a2", "::ffff:192.0.2.1"));
    assert_eq!(woken(&wakes), "t1/pinned a1 a2");
    assert_eq!(free_names(&index, "public", IpFamily::IPv4), Vec::<String>::new());
    let wakes = index.remove_address(&"a2".into(), &gone("uid-a2"));
    assert_eq!(woken(&wakes), "t1/pinned a1 a2");
    assert_eq!(free_names(&index, "public", IpFamily::IPv4), ["a1"]);
}

/// Three of one IP: none is free until one is left.
#[test]
fn three_of_one_ip_are_disputed_until_one_is_left() {
    let mut index = world(&["a1", "a2", "a3"].map(|name| free(name, "192.0.2.1")));
    for (name, uid) in [("a2", "uid-a2"), ("a1", "uid-a1")] {
        assert_eq!(free_names(&index, "public", IpFamily::IPv4), Vec::<String>::new());
        index.remove_address(&name.into(), &gone(uid));
    }
    assert_eq!(free_names(&index, "public", IpFamily::IPv4), ["a3"]);
}

/// An object that is created again under its name with another IP gives the old one up.
#[test]
fn a_recreated_object_gives_its_old_ip_up() {
    let mut index = world(&[free("a1", "192.0.2.1"), free("a2", "192.0.2.1")]);
    let wakes = add(&mut index, &free("a2", "2001:db8::2").uid("uid-again").version(9));
    assert_eq!(woken(&wakes), "a1 a2");
    assert_eq!(free_names(&index, "public", IpFamily::IPv4), ["a1"]);
    assert_eq!(free_names(&index, "public", IpFamily::IPv6), ["a2"]);
}

/// A state that is as old as what is known, or older, is not a change: nobody is woken, nothing
/// moves, whoever's object it says it is of.
#[rstest]
#[case(10, false)]
#[case(9, false)]
// As numbers, not as text.
#[case(8, false)]
#[case(11, true)]
#[case(100, true)]
fn stale_states_are_ignored(#[case] version: u64, #[case] counts: bool) {
    let mut index = world(&[
        bound("t1/web").version(10),
        claim("t1/web").version(10),
        class("public").version(10),
    ]);
    let changes = [
        add(&mut index, &free("a1", "192.0.2.1").uid("uid-other").version(version)),
        add(&mut index, &claim("t1/web").deleting().version(version)),
        add(&mut index, &class("public").default_class().version(version)),
    ];
    assert_eq!(changes.iter().any(|w| !w.is_empty()), counts);
    assert_eq!(index.claimed_by(&key("t1/web")).count(), usize::from(!counts));
    assert_eq!(free_names(&index, "public", IpFamily::IPv4).len(), usize::from(counts));
    assert_eq!(index.default_classes().count(), usize::from(counts));
    let web = index.claim(&key("t1/web")).known().expect("still there");
    assert_eq!(web.id.deleting, counts);
}

/// A version that is no number, as no known server writes it: what arrives last counts.
#[test]
fn versions_that_are_no_numbers_count_in_the_order_they_arrive() {
    let at = |version: &str| free("a1", "192.0.2.1").set("/metadata/resourceVersion", version);
    let mut index = world(&[at("b")]);
    assert!(!add(&mut index, &at("a").phase("Bound")).is_empty());
    assert!(add(&mut index, &at("a")).is_empty(), "the same again");
    let known = index.address(&"a1".into()).known().expect("known");
    assert_eq!(known.phase, Some(crate::api::AddressPhase::Bound));
}

/// An object is taken off on the word of its own uid, or of the very state that was read; another
/// of the same name, or a newer state, stays.
#[rstest]
#[case::the_object(gone("uid-a1"), true)]
#[case::another_of_that_name(gone("uid-before"), false)]
#[case::the_state_that_was_read(Gone::AsOf { version: "7".into() }, true)]
#[case::a_newer_state_came_meanwhile(Gone::AsOf { version: "6".into() }, false)]
#[case::a_state_nobody_saw(Gone::AsOf { version: "8".into() }, false)]
fn gone_on_whose_word(#[case] word: Gone, #[case] applies: bool) {
    let mut index = world(&[free("a1", "192.0.2.1").version(7)]);
    let wakes = index.remove_address(&"a1".into(), &word);
    assert_eq!(wakes.is_empty(), !applies);
    assert_eq!(index.address(&"a1".into()) == Seen::Absent, applies);
    assert_eq!(free_names(&index, "public", IpFamily::IPv4).is_empty(), applies);
}

/// The same for claims and classes, and for what does not parse.
#[test]
fn gone_for_every_kind() {
    let mut index = world(&[claim("t1/web").version(7), class("public").version(7)]);
    index.strange_address(&"a1".into(), strange("uid-a1", 7));
    for wrong in [gone("uid-before"), Gone::AsOf { version: "6".into() }] {
        index.remove_address(&"a1".into(), &wrong);
        index.remove_claim(&key("t1/web"), &wrong);
        index.remove_class(&"public".into(), &wrong);
    }
    assert!(matches!(index.address(&"a1".into()), Seen::Strange(_)));
    assert_eq!(index.claims().count(), 1);
    let as_of = Gone::AsOf { version: "7".into() };
    index.remove_address(&"a1".into(), &as_of);
    index.remove_claim(&key("t1/web"), &as_of);
    index.remove_class(&"public".into(), &as_of);
    assert_eq!(index.address(&"a1".into()), Seen::Absent);
    assert_eq!(index.claim(&key("t1/web")), Seen::Absent);
    assert_eq!(index.class(&"public".into()), Seen::Absent);
    assert!(index.remove_class(&"public".into(), &as_of).is_empty(), "twice is once");
}

/// H04: what a re-list no longer shows is deleted, and wakes whom a deletion wakes. What it shows
/// unchanged, or in a state that is older than known, stays, and wakes nobody.
#[test]
fn h04_what_vanished_in_a_relist_is_a_deletion() {
    let objects = [bound("t1/web").version(5), free("a2", "192.0.2.2"), free("a3", "192.0.2.3")];
    let mut index = world(&objects);
    add(&mut index, &claim("t1/web"));
    index.begin_list(IndexedKind::Address);
    assert!(add(&mut index, &objects[1]).is_empty(), "unchanged");
    assert!(add(&mut index, &objects[2].clone().version(0)).is_empty(), "older");
    let wakes = index.end_list(IndexedKind::Address);
    assert_eq!(woken(&wakes), "t1/web a1");
    assert_eq!(index.addresses().count(), 2);
    assert_eq!(index.claims().count(), 1, "the listing of one kind says nothing of another");
    assert!(index.end_list(IndexedKind::Address).is_empty());
}

/// H04 for claims and classes; what does not parse is there all the same.
#[test]
fn h04_relists_of_claims_and_classes() {
    let mut index = world(&[bound("t1/web"), claim("t1/web"), class("public").default_class()]);
    index.strange_claim(&key("t1/odd"), strange("uid-odd", 1));
    wait(&mut index, "t2/defaulted", Waiting::DefaultClass);
    index.begin_list(IndexedKind::Claim);
    index.strange_claim(&key("t1/odd"), strange("uid-odd", 1));
    assert_eq!(woken(&index.end_list(IndexedKind::Claim)), "a1");
    assert!(matches!(index.claim(&key("t1/odd")), Seen::Strange(_)));
    index.begin_list(IndexedKind::Class);
    assert_eq!(woken(&index.end_list(IndexedKind::Class)), "t2/defaulted");
    assert_eq!(index.default_classes().count(), 0);
}

/// A listing that is begun again before its end (the connection was cut) forgets nothing of what
/// the second shows, and drops what only the first showed.
#[test]
fn h04_a_relist_that_is_begun_again() {
    let mut index = world(&[free("a1", "192.0.2.1"), free("a2", "192.0.2.2")]);
    index.begin_list(IndexedKind::Address);
    add(&mut index, &free("a1", "192.0.2.1"));
    index.begin_list(IndexedKind::Address);
    add(&mut index, &free("a2", "192.0.2.2"));
    assert_eq!(woken(&index.end_list(IndexedKind::Address)), "a1");
}

/// A06: what does not parse is counted once, however often it is seen, and until it parses or goes.
#[test]
fn a06_strange_objects_are_counted() {
    let mut index = world(&[free("a1", "192.0.2.1")]);
    let kinds = [IndexedKind::Class, IndexedKind::Address, IndexedKind::Claim];
    let count = |index: &Index| kinds.map(|kind| index.strange_count(kind));
    for version in 1..4 {
        index.strange_class(&"odd".into(), strange("uid-odd", version));
        index.strange_address(&"odd".into(), strange("uid-odd", version));
        index.strange_claim(&key("t1/odd"), strange("uid-odd", version));
        assert_eq!(count(&index), [1, 1, 1]);
    }
    assert_eq!(index.addresses().count(), 1, "the others are served");
    let everything = index.everything();
    assert_eq!(woken(&everything), "t1/odd a1 odd", "those that do not parse included");
    add(&mut index, &address("odd", "192.0.2.9").version(9));
    assert_eq!(count(&index), [1, 0, 1]);
    index.remove_claim(&key("t1/odd"), &gone("uid-odd"));
    index.remove_class(&"odd".into(), &gone("uid-odd"));
    assert_eq!(count(&index), [0, 0, 0]);
}

/// Free addresses come in the order of their names, whatever order they arrived in.
#[test]
fn free_addresses_are_in_name_order() {
    let mut index = Index::default();
    for (n, name) in ["b", "a-10", "c", "a-2", "a"].into_iter().enumerate() {
        add(&mut index, &free(name, &format!("192.0.2.{n}")));
    }
    let names = ["a", "a-10", "a-2", "b", "c"];
    assert_eq!(free_names(&index, "public", IpFamily::IPv4), names);
    assert_eq!(free_names(&index, "private", IpFamily::IPv4), Vec::<String>::new());
    let held: BTreeSet<Name> = index.addresses().map(|a: &AddressView| a.name.clone()).collect();
    assert_eq!(held.len(), 5);
    index.apply_address(bound("t1/web").version(2).address(), Duration::ZERO);
    assert_eq!(index.claimed_by(&key("t1/web")).count(), 1);
}
