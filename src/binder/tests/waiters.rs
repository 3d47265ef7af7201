//! Claims in line for any address of a class and family: one is called for one address, the oldest
//! first, and the call is passed on until somebody takes it.

use jiff::{Timestamp, ToSpan};
use rstest::rstest;

use super::address_world::strange;
use crate::{
    api::IpFamily,
    binder::{
        index::{Gone, Index, Wakes},
        plan::Waiting,
        testing::{Object, add, address, claim, class, free, key, now, plan_claim, world},
    },
};

/// When the `n`th claim in line was created.
fn created(n: i64) -> Timestamp {
    now() + n.minutes()
}

fn in_line(class: &str, family: IpFamily) -> Vec<Waiting> {
    vec![Waiting::Class(class.into()), Waiting::Candidate(class.into(), family)]
}

/// Three claims in line for IPv4 of class `public`: `t1/c1`, older than `t1/c0`, older than `t1/c2`.
fn line() -> Index {
    let mut index = world(&[class("public")]);
    for (name, n) in [("t1/c0", 2), ("t1/c1", 1), ("t1/c2", 3)] {
        let at = created(n).to_string();
        add(&mut index, &claim(name).created(&at));
        index.decided(&key(name), created(n), in_line("public", IpFamily::IPv4), []);
    }
    index
}

fn called(wakes: &Wakes) -> Vec<String> {
    wakes.claims.iter().map(ToString::to_string).collect()
}

/// The claim was looked at, still lacks an address, and waits again.
fn waits_again(index: &mut Index, name: &str, n: i64) -> Vec<String> {
    called(&index.decided(&key(name), created(n), in_line("public", IpFamily::IPv4), []))
}

/// The claim was looked at and goes for an address.
fn takes(index: &mut Index, name: &str, address: &str) -> Vec<String> {
    called(&index.decided(&key(name), now(), Vec::new(), [address.into()]))
}

/// One free address calls one claim, the oldest; each further one calls the next; and then nobody
/// is left to call.
#[test]
fn one_claim_for_one_address_and_the_oldest_first() {
    let mut index = line();
    let expected = [&["t1/c1"][..], &["t1/c0"], &["t1/c2"], &[]];
    for (n, expected) in expected.iter().enumerate() {
        let wakes = add(&mut index, &free(&format!("a{n}"), &format!("192.0.2.{n}")));
        assert_eq!(called(&wakes), *expected);
    }
}

/// Of the same age, the first by name is called.
#[test]
fn of_the_same_age_the_first_by_name() {
    let mut index = world(&[class("public")]);
    for name in ["t2/a", "t1/b", "t1/a"] {
        index.decided(&key(name), created(0), in_line("public", IpFamily::IPv4), []);
    }
    for (n, expected) in ["t1/a", "t1/b", "t2/a"].into_iter().enumerate() {
        let wakes = add(&mut index, &free(&format!("a{n}"), &format!("192.0.2.{n}")));
        assert_eq!(called(&wakes), [expected]);
    }
}

/// Whoever waits for another class or family, for a class, for the default or for a certain
/// address is not called.
#[test]
fn an_address_calls_only_its_own_pool() {
    let mut index = world(&[class("public")]);
    let v4 = IpFamily::IPv4;
    for (name, wait) in [
        ("t1/other-class", Waiting::Candidate("private".into(), v4)),
        ("t1/other-family", Waiting::Candidate("public".into(), IpFamily::IPv6)),
        ("t1/class", Waiting::Class("public".into())),
        ("t1/default", Waiting::DefaultClass),
        ("t1/pin", Waiting::Address("a9".into())),
    ] {
        index.decided(&key(name), created(0), vec![wait], []);
    }
    assert_eq!(called(&add(&mut index, &free("a1", "192.0.2.1"))), [""; 0]);
    assert_eq!(called(&add(&mut index, &free("a2", "2001:db8::2"))), ["t1/other-family"]);
    let private = free("a3", "192.0.2.3").class("private");
    assert_eq!(called(&add(&mut index, &private)), ["t1/other-class"]);
}

/// Never every waiting claim: of a thousand, one free address wakes one.
#[test]
fn of_a_thousand_waiting_claims_one_is_woken() {
    let mut index = world(&[class("public")]);
    for n in 0..1000 {
        let name = format!("t1/c{n:03}");
        index.decided(&key(&name), created(n), in_line("public", IpFamily::IPv4), []);
    }
    assert_eq!(index.waiting_count(), 1000);
    assert_eq!(called(&add(&mut index, &free("a1", "192.0.2.1"))), ["t1/c000"]);
    assert_eq!(called(&add(&mut index, &free("a1", "192.0.2.1").version(2))), [""; 0], "as before");
}

/// An address that is not to be had calls nobody.
#[rstest]
#[case(address("a1", "192.0.2.1"))]
#[case(free("a1", "192.0.2.1").phase("Released"))]
#[case(free("a1", "192.0.2.1").deleting())]
#[case(free("a1", "192.0.2.1/32"))]
#[case(free("a1", "192.0.2.99"))]
fn what_is_not_to_be_had_calls_nobody(#[case] object: Object) {
    let mut index = line();
    add(&mut index, &address("a9", "192.0.2.99"));
    assert_eq!(called(&add(&mut index, &object)), [""; 0]);
}

/// The claim that was called does not take the address: the next is called, and so on to the end of
/// the line, and not in circles.
#[test]
fn a_call_is_passed_on_until_the_line_ends() {
    let mut index = line();
    assert_eq!(called(&add(&mut index, &free("a1", "192.0.2.1"))), ["t1/c1"]);
    let leaves = |index: &mut Index, name: &str| {
        called(&index.decided(&key(name), now(), vec![Waiting::DefaultClass], []))
    };
    assert_eq!(leaves(&mut index, "t1/c1"), ["t1/c0"]);
    assert_eq!(leaves(&mut index, "t1/c0"), ["t1/c2"]);
    assert_eq!(leaves(&mut index, "t1/c2"), [""; 0]);
}

/// The claim that was called takes it: nobody else is called.
#[test]
fn a_call_that_is_answered_ends_there() {
    let mut index = line();
    add(&mut index, &free("a1", "192.0.2.1"));
    assert_eq!(takes(&mut index, "t1/c1", "a1"), [""; 0]);
    let held = free("a1", "192.0.2.1").phase("Bound").held_by("t1/c1", Some("uid-c1"));
    assert_eq!(called(&add(&mut index, &held.version(2))), ["t1/c1"]);
    assert_eq!(called(&index.unreserve(&key("t1/c1"), ["a1".into()])), [""; 0], "it is bound");
}

/// Somebody who was not called took it first: the called claim finds nothing and waits again, in
/// its old place.
#[test]
fn a_called_claim_that_comes_too_late_keeps_its_place() {
    let mut index = line();
    add(&mut index, &free("a1", "192.0.2.1"));
    assert_eq!(takes(&mut index, "t9/quick", "a1"), [""; 0]);
    assert_eq!(waits_again(&mut index, "t1/c1", 1), [""; 0]);
    assert_eq!(called(&add(&mut index, &free("a2", "192.0.2.2"))), ["t1/c1"]);
}

/// The claim that was called is deleted, or turns unreadable, before it was looked at.
#[test]
fn a_called_claim_that_goes_passes_the_call_on() {
    let gone = Gone::Object { uid: "uid-c1".into() };
    let mut index = line();
    add(&mut index, &free("a1", "192.0.2.1"));
    assert_eq!(called(&index.remove_claim(&key("t1/c1"), &gone)), ["t1/c0"]);

    let mut index = line();
    add(&mut index, &free("a1", "192.0.2.1"));
    let wakes = index.strange_claim(&key("t1/c1"), strange("uid-c1", 2));
    assert_eq!(called(&wakes), ["t1/c0", "t1/c1"]);
}

/// A claim that is deleted or unreadable before it is called has left the line.
#[test]
fn who_left_the_line_is_not_called() {
    let mut index = line();
    index.strange_claim(&key("t1/c1"), strange("uid-c1", 2));
    assert_eq!(called(&add(&mut index, &free("a1", "192.0.2.1"))), ["t1/c0"]);

    let mut index = line();
    index.remove_claim(&key("t1/c1"), &Gone::Object { uid: "uid-c1".into() });
    assert_eq!(index.waiting_count(), 2);
    assert_eq!(called(&add(&mut index, &free("a1", "192.0.2.1"))), ["t1/c0"]);
}

/// The plan of the called claim was refused: the address is still free as far as is known, and the
/// next in line is called.
#[test]
fn a_refused_plan_passes_the_call_on() {
    let mut index = line();
    add(&mut index, &free("a1", "192.0.2.1"));
    takes(&mut index, "t1/c1", "a1");
    assert_eq!(called(&index.unreserve(&key("t1/c1"), ["a1".into()])), ["t1/c0"]);
    assert_eq!(called(&index.unreserve(&key("t1/c1"), ["a1".into()])), [""; 0], "once");
}

/// An address that comes free while it is reserved calls in vain; the end of the reservation calls
/// again.
#[test]
fn an_address_that_comes_free_under_a_reservation() {
    let mut index = line();
    add(&mut index, &free("a1", "192.0.2.1"));
    takes(&mut index, "t1/c1", "a1");
    add(&mut index, &free("a1", "192.0.2.1").phase("Conflict").version(2));
    assert_eq!(called(&add(&mut index, &free("a1", "192.0.2.1").version(3))), ["t1/c0"]);
    assert_eq!(waits_again(&mut index, "t1/c0", 2), [""; 0], "reserved: nobody may have it");
    assert_eq!(called(&index.unreserve(&key("t1/c1"), ["a1".into()])), ["t1/c0"]);
}

/// A reservation is given up by who made it and by nobody else; meanwhile no other claim is matched.
#[test]
fn a_reserved_address_is_nobody_elses() {
    let mut index =
        world(&[class("public"), free("a1", "192.0.2.1"), claim("t1/x"), claim("t2/y")]);
    let plan = plan_claim(&index, "t1/x");
    let chosen: Vec<_> = plan.chosen().map(|(name, _)| name.clone()).collect();
    index.decided(&plan.claim, plan.created, plan.waiting, chosen);
    assert_eq!(index.reserved_for(&"a1".into()), Some(&key("t1/x")));
    let other = plan_claim(&index, "t2/y");
    assert_eq!(other.chosen().count(), 0);
    assert!(index.decided(&other.claim, other.created, other.waiting, []).is_empty());

    assert!(index.unreserve(&key("t2/y"), ["a1".into()]).is_empty());
    assert_eq!(index.reserved_for(&"a1".into()), Some(&key("t1/x")), "not theirs to give up");
    assert_eq!(called(&index.unreserve(&key("t1/x"), ["a1".into()])), ["t2/y"]);
    assert_eq!(index.reserved_for(&"a1".into()), None);
    assert_eq!(plan_claim(&index, "t2/y").chosen().count(), 1);
}

/// Two claims on one replica choose two addresses: the reservation is seen by the second choice.
#[test]
fn two_choices_in_a_row_are_different() {
    let mut index = world(&[
        class("public"),
        free("a1", "192.0.2.1"),
        free("a2", "192.0.2.2"),
        claim("t1/x"),
        claim("t2/y"),
    ]);
    let mut all = Vec::new();
    for name in ["t1/x", "t2/y"] {
        let plan = plan_claim(&index, name);
        let chosen: Vec<_> = plan.chosen().map(|(name, _)| name.clone()).collect();
        all.extend(chosen.iter().map(ToString::to_string));
        index.decided(&plan.claim, plan.created, plan.waiting, chosen);
    }
    assert_eq!(all, ["a1", "a2"]);
}

/// A free address that moves to another class, or is created again in the other family, is new to
/// that pool: whoever is in line there is called.
#[rstest]
#[case::class(free("a1", "192.0.2.1").class("public"), &["t1/c1"])]
#[case::recreated(free("a1", "192.0.2.1").class("public").uid("uid-again"), &["t1/c1"])]
#[case::not_free(address("a1", "192.0.2.1").class("public"), &[])]
fn a_free_address_that_moves_to_another_pool(#[case] after: Object, #[case] expected: &[&str]) {
    for before in [free("a1", "192.0.2.1").class("private"), free("a1", "2001:db8::1")] {
        let mut index = line();
        assert_eq!(called(&add(&mut index, &before)), [""; 0]);
        assert_eq!(called(&add(&mut index, &after.clone().version(2))), expected);
    }
}

/// A `Dual` claim stands in two lines and is called out of one at a time.
#[test]
fn a_dual_claim_stands_in_two_lines() {
    let mut index = world(&[class("public"), claim("t1/dual").family("Dual")]);
    let plan = plan_claim(&index, "t1/dual");
    index.decided(&plan.claim, plan.created, plan.waiting, []);
    assert_eq!(index.waiting_count(), 1, "one claim, whatever it waits for");
    assert_eq!(called(&add(&mut index, &free("a6", "2001:db8::6"))), ["t1/dual"]);
    assert_eq!(called(&add(&mut index, &free("a4", "192.0.2.4"))), ["t1/dual"]);
    assert_eq!(called(&add(&mut index, &free("a5", "192.0.2.5"))), [""; 0]);
}

/// A duplicate that goes makes the other free: that calls the first in line.
#[test]
fn the_end_of_a_dispute_calls_too() {
    let mut index = line();
    add(&mut index, &address("a1", "192.0.2.1"));
    assert_eq!(called(&add(&mut index, &free("a2", "192.0.2.1"))), [""; 0]);
    let wakes = index.remove_address(&"a1".into(), &Gone::Object { uid: "uid-a1".into() });
    assert_eq!(called(&wakes), ["t1/c1"]);
}

/// All who are pinned to an address are woken when its reservation ends unbound, and one in line.
#[test]
fn pins_are_woken_when_a_reservation_ends() {
    let mut index = line();
    add(&mut index, &free("a1", "192.0.2.1"));
    takes(&mut index, "t1/c1", "a1");
    for pinned in ["t3/p", "t3/q"] {
        index.decided(&key(pinned), now(), vec![Waiting::Address("a1".into())], []);
    }
    let wakes = index.unreserve(&key("t1/c1"), ["a1".into()]);
    assert_eq!(called(&wakes), ["t1/c0", "t3/p", "t3/q"]);
}
