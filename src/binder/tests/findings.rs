//! What random walks found, as small as it gets.

use crate::binder::{
    plan::Decision,
    testing::{address, claim, class, decide_claim, world},
};

/// A claim is to go, and its address needs nothing as far as the cache knows: its driver reported a
/// conflict, or it is released already. The driver may have taken that back since.
#[test]
fn a_claim_does_not_go_on_the_word_of_an_old_phase() {
    for phase in ["Conflict", "Lost", "Released"] {
        let held = address("a1", "192.0.2.1").protected().held_by("t1/web", Some("uid-web"));
        let index = world(&[
            class("public"),
            held.phase(phase),
            claim("t1/web").protected().deleting().published(&[("a1", "192.0.2.1")]),
        ]);
        assert_eq!(decide_claim(&index, "t1/web", &[]), Decision::Read(vec!["a1".into()]));
        let Decision::Act(plan) = decide_claim(&index, "t1/web", &["a1"]) else {
            panic!("reads again")
        };
        let steps: Vec<_> = plan.steps.iter().map(|p| p.step.name()).collect();
        assert_eq!(steps, ["unprotect"], "{phase}");
    }
}

/// The cache shows an address as the claim's that the claim does not publish (any more). It may have
/// been cleared, or be gone, and another replica may have withdrawn it on that ground.
#[test]
fn an_address_is_not_published_on_the_word_of_an_old_cache() {
    let held = address("a1", "192.0.2.1").protected().held_by("t1/web", Some("uid-web"));
    let index = world(&[class("public"), held.phase("Bound"), claim("t1/web").protected()]);
    assert_eq!(decide_claim(&index, "t1/web", &[]), Decision::Read(vec!["a1".into()]));
    let Decision::Act(plan) = decide_claim(&index, "t1/web", &["a1"]) else {
        panic!("reads again")
    };
    let steps: Vec<_> = plan.steps.iter().map(|p| p.step.name()).collect();
    assert_eq!(steps, ["status"]);
}
