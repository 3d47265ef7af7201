//! The binding protocol in small worlds, exhaustively: two replicas, each with caches of any age,
//! plans carried out a write at a time in any order, and others who take, free, delete and pin.
//!
//! The decisions are the binder's own. Leaving one of its guards out must be found.

#![expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "what every slot holds happens to be small; it is not a scalar"
)]

mod drivers;
mod large;
mod memo;
mod model;
mod mutant;
mod others;
mod rest;
mod run;
mod scenario;
mod space;
mod state;
mod steps;
mod table;

use self::{mutant::Mutant, run::World, state::Budget};
use crate::binder::testing::{Object, claim, free};

fn taken(address: Object) -> Object {
    address.phase("Bound").held_by("t9/other", Some("uid-other"))
}

fn web() -> Object {
    claim("t1/web")
}

fn a(n: u8) -> Object {
    free(&format!("a{n}"), &format!("192.0.2.{n}"))
}

#[test]
fn one_claim_and_two_addresses_that_others_take_and_free() {
    let budget = Budget { others: 1, ..Budget::default() };
    World::of(&[web()], &[a(1), a(2)], budget).assert_sound();
}

/// Without the selection there is nothing that an older attempt runs into.
#[test]
fn a_choice_is_written_to_the_claim_before_it_is_bound() {
    let budget = Budget { others: 1, ..Budget::default() };
    World::of(&[web()], &[taken(a(1)), a(2)], budget).assert_needs(Mutant::Selection, 2);
}

#[test]
fn the_finalizer_stays_until_the_addresses_are_reclaimed() {
    let budget = Budget { deletions: 1, ..Budget::default() };
    World::of(&[web()], &[a(1)], budget).assert_needs(Mutant::FinalizerUntilReclaimed, 5);
}

#[test]
fn a_released_address_waits_for_an_administrator() {
    let budget = Budget { deletions: 1, ..Budget::default() };
    World::of(&[web()], &[a(1)], budget).assert_needs(Mutant::Retaining, 4);
}

#[test]
fn what_is_left_undone_is_found_at_rest_and_before() {
    let budget = Budget { deletions: 1, ..Budget::default() };
    let world = World::of(&[web()], &[a(1)], budget);
    world.assert_needs(Mutant::End, 9);
    assert!(world.explore(Mutant::End, 1).found.is_some(), "the rule with the number 0");
}

#[test]
#[ignore = "half a million states take ten seconds: the worlds beside it are parts of this one"]
fn one_claim_and_two_addresses_that_others_take_and_free_twice() {
    let budget = Budget { others: 2, ..Budget::default() };
    World::of(&[web()], &[a(1), a(2)], budget).assert_sound();
}

#[test]
fn one_claim_and_two_addresses_of_which_one_is_taken() {
    let budget = Budget { others: 2, ..Budget::default() };
    World::of(&[web()], &[taken(a(1)), a(2)], budget).assert_sound();
}

#[test]
fn one_claim_two_addresses_and_a_crash() {
    let budget = Budget { others: 1, crashes: 1, ..Budget::default() };
    World::of(&[web()], &[a(1), a(2)], budget).assert_sound();
}

#[test]
fn a_claim_that_is_deleted_and_created_again() {
    let budget = Budget { deletions: 1, creations: 1, crashes: 1, ..Budget::default() };
    World::of(&[web()], &[a(1), a(2)], budget).assert_sound();
}

#[test]
fn a_claim_that_is_pinned_on_the_way() {
    let budget = Budget { edits: 2, ..Budget::default() };
    World::of(&[web()], &[a(1), a(2)], budget).assert_sound();
}

#[test]
fn two_claims_and_one_address() {
    let budget = Budget { deletions: 1, ..Budget::default() };
    World::of(&[web(), claim("t1/api")], &[a(1)], budget).assert_sound();
}

#[test]
fn two_claims_and_two_addresses() {
    World::of(&[web(), claim("t1/api")], &[a(1), a(2)], Budget::default()).assert_sound();
}

/// A claim for which a1 was chosen before.
fn chosen() -> Object {
    web().protected().stamp("fake.example.org").selected("IPv4=a1/1")
}

#[test]
fn the_selection_changes_when_the_same_name_is_chosen_again() {
    let budget = Budget { others: 1, ..Budget::default() };
    let world = World::of(&[chosen()], &[taken(a(1)), a(2)], budget);
    world.assert_needs(Mutant::Counter, 2);
}

#[test]
fn a_known_choice_is_read_before_it_is_given_up() {
    let budget = Budget { others: 1, ..Budget::default() };
    let world = World::of(&[web()], &[taken(a(1)), a(2)], budget);
    world.assert_needs(Mutant::ReadOfTheAddress, 2);
}

#[test]
fn a_claim_is_read_before_its_address_is_reclaimed() {
    let budget = Budget { creations: 1, ..Budget::default() };
    let world = World { absent: vec!["web"], ..World::of(&[web()], &[a(1)], budget) };
    world.assert_needs(Mutant::ReadOfTheClaim, 3);
}

#[test]
fn an_address_is_bound_on_nothing_newer_than_the_selection() {
    let budget = Budget { others: 2, ..Budget::default() };
    let world = World::of(&[chosen()], &[a(1), a(2)], budget);
    world.assert_needs(Mutant::OldVersion, 2);
}

/// What was read counts for the state of the claim that the pass began with.
#[test]
fn a_read_counts_only_for_an_older_state_of_the_claim() {
    let budget = Budget { others: 1, ..Budget::default() };
    let world = World::of(&[chosen()], &[taken(a(1)), a(2)], budget);
    world.assert_needs(Mutant::OldClaim, 2);
}

/// What was read counts for the state of the address that the pass began with.
#[test]
fn a_read_counts_only_for_an_older_state_of_the_address() {
    let budget = Budget { others: 1, creations: 1, ..Budget::default() };
    let gone = a(1).phase("Bound").held_by("t1/web", Some("uid-gone"));
    let world = World { absent: vec!["web"], ..World::of(&[web()], &[gone], budget) };
    world.assert_needs(Mutant::OldAddress, 3);
}

/// The claim asks for another address by now, and an older attempt is still on its way.
#[test]
fn a_choice_that_is_still_free_is_written_to_before_it_is_given_up() {
    let budget = Budget { edits: 1, ..Budget::default() };
    let world = World::of(&[web()], &[a(1), a(2)], budget);
    world.assert_needs(Mutant::GivingUp, 2);
}

/// Neither published on the word of an old cache nor withdrawn while an older attempt binds it.
#[test]
fn an_address_that_is_cleared_while_it_is_published() {
    let budget = Budget { others: 1, ..Budget::default() };
    World::of(&[web()], &[a(1)], budget).assert_sound();
}
