//! One bind from end to end, as a first look.

use crate::binder::testing::{claim, class, free, plan_claim, world};

/// A claim and a free address: select, bind, tell, stamp, in this order.
#[test]
fn a_bind_is_four_writes_on_the_claims_side() {
    let index = world(&[class("public"), free("a1", "192.0.2.1"), claim("t1/web")]);
    let steps: Vec<_> = plan_claim(&index, "t1/web").steps.iter().map(|p| p.step.name()).collect();
    assert_eq!(steps, ["mark", "bind", "status", "mark"]);
}
