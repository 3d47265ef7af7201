//! Small worlds with drivers in them, and with claims for both families.

use super::{a, mutant::Mutant, run::World, state::Budget, web};
use crate::binder::testing::free;

#[test]
fn an_address_that_a_driver_makes_for_the_claim() {
    let budget = Budget { drivers: 1, ..Budget::default() };
    let world = World { absent: vec!["a2"], ..World::of(&[web()], &[a(1), a(2)], budget) };
    world.assert_sound();
}

#[test]
fn an_address_that_a_driver_makes_for_a_claim_that_goes() {
    let budget = Budget { drivers: 1, deletions: 1, creations: 1, ..Budget::default() };
    let world = World { absent: vec!["a1"], ..World::of(&[web()], &[a(1)], budget) };
    world.assert_sound();
}

#[test]
fn phases_that_a_driver_enters_and_leaves() {
    let budget = Budget { drivers: 2, ..Budget::default() };
    World::of(&[web()], &[a(1)], budget).assert_sound();
}

#[test]
fn a_claim_that_goes_while_its_address_is_lost_or_in_conflict() {
    let budget = Budget { drivers: 1, deletions: 1, ..Budget::default() };
    World::of(&[web()], &[a(1)], budget).assert_sound();
}

#[test]
fn a_claim_for_both_families() {
    let addresses = [a(1), a(2), free("b1", "2001:db8::1")];
    World::of(&[web().family("Dual")], &addresses, Budget::default()).assert_sound();
}

#[test]
fn a_claim_for_both_families_of_which_one_is_taken() {
    let budget = Budget { others: 1, ..Budget::default() };
    World::of(&[web().family("Dual")], &[a(1), free("b1", "2001:db8::1")], budget).assert_sound();
}

/// An old cache has it in the hands of nobody, as it was for a while.
#[test]
fn an_address_is_read_before_it_is_withdrawn() {
    let budget = Budget { others: 1, edits: 1, ..Budget::default() };
    World::of(&[web()], &[a(1)], budget).assert_needs(Mutant::ReadOfTheAddress, 7);
}

#[test]
fn a_claim_that_is_widened_to_both_families() {
    let budget = Budget { edits: 1, ..Budget::default() };
    World::of(&[web()], &[a(1), free("b1", "2001:db8::1")], budget).assert_sound();
}

#[test]
fn a_claim_for_both_families_of_which_a_driver_loses_one() {
    let budget = Budget { drivers: 1, ..Budget::default() };
    World::of(&[web().family("Dual")], &[a(1), free("b1", "2001:db8::1")], budget).assert_sound();
}

/// The claim is gone, and the address would be withheld from the next of its name.
#[test]
fn a_claim_is_read_before_it_completes_an_address() {
    let budget = Budget { drivers: 1, deletions: 1, ..Budget::default() };
    let world = World { absent: vec!["a1"], ..World::of(&[web()], &[a(1)], budget) };
    world.assert_needs(Mutant::ReadOfItself, 5);
}

/// It held the family, though it was never `Bound`: another address is for its owner to ask for.
#[test]
fn a_claim_of_which_a_driver_loses_the_address_at_once() {
    let budget = Budget { drivers: 1, ..Budget::default() };
    World::of(&[web()], &[a(1), a(2)], budget).assert_sound();
}
