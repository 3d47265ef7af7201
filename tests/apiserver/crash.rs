//! The controller is killed at every write it makes, and started again: the end is the same.

use rstest::rstest;
use testbed::{
    process::{Signal, signal},
    proxy::{Act, Go, Match, Request, RuleHandle},
};

use crate::{scenarios::Scenario, support::Bench};

/// When in the life of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// The API server never sees the write.
    Before,
    /// The write takes effect, and the controller never hears of it.
    After,
}

/// Kills the controller at such a request, by its own process id.
fn strike(bench: &Bench, requests: Match, when: When) -> RuleHandle {
    let pid = bench.controller().pid();
    let kill = move |_: &Request| {
        signal(pid, Signal::Kill);
        Go::Drop
    };
    let act = match when {
        When::Before => Act::before(kill),
        When::After => Act::after(kill),
    };
    bench.proxy.rule(requests, act)
}

/// `kill -9` before each write is sent on and after it took effect, and a start: the same fixed point
/// as without, and nothing forbidden on the way.
#[rstest]
#[case::a_free_address_and_a_claim(Scenario::Static)]
#[case::an_address_of_each_family(Scenario::Dual)]
#[case::a_pinned_address(Scenario::Pin)]
#[case::a_drivers_address(Scenario::Provisioned)]
#[case::a_claim_deleted_and_its_address_retained(Scenario::Retain)]
#[case::a_claim_deleted_and_its_address_with_it(Scenario::Delete)]
#[case::an_address_deleted_before_its_claim(Scenario::AddressFirst)]
#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_write_the_end_is_the_same(#[case] scenario: Scenario) {
    let mut bench = Bench::running("crash", &[]).await;
    let (points, expected) = scenario.reference(&mut bench).await;
    assert!(points.len() >= 2, "{points:?}");
    let mut numbers = 1..;
    for point in &points {
        for (when, how) in [(When::Before, "killed before"), (When::After, "killed after")] {
            let disturb = |bench: &Bench, requests| strike(bench, requests, when);
            scenario.disturbed(&mut bench, &mut numbers, (point, how), &expected, disturb).await;
        }
    }
    bench.history().await.assert_clean();
}
