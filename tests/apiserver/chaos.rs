//! Two minutes of chaos: `cargo xtask chaos` in short.

use std::time::Duration;

use testbed::{
    Sandbox,
    chaos::{self, Plan},
};

use crate::support::BINARY;

/// For how long things go wrong.
const TIME: Duration = Duration::from_mins(2);

/// The replicas do not share the work here: each does everything, and so meets the others at every
/// write.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_all_do_everything_break_nothing() {
    // It has a control plane of its own; the others' tests wait, or two cores are too few.
    let _alone = Sandbox::alone("chaos").await.unwrap();
    let mut plan = Plan::new(BINARY, TIME, 20_260);
    plan.leases = false;
    let outcome = chaos::run(plan).await.unwrap();
    assert!(outcome.is_clean(), "{}", outcome.text());
    println!("{}", outcome.text());
    // That something happened at all.
    assert!(
        outcome.work.claims_bound > 100 && outcome.work.claims_gone > 100,
        "{:?}",
        outcome.work
    );
    assert!(outcome.faults.len() > 15, "{:?}", outcome.faults);
}
