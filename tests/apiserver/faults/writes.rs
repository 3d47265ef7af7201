//! Each kind of write is refused, or takes effect and is not answered so: the end is the same.

use rstest::rstest;
use testbed::proxy::Act;

use crate::{scenarios::Scenario, support::Bench};

/// A 500 in place of the write; a 504, and a closed connection, after it took effect.
#[rstest]
#[case::a_free_address_and_a_claim(Scenario::Static)]
#[case::an_address_of_each_family(Scenario::Dual)]
#[case::a_drivers_address(Scenario::Provisioned)]
#[case::a_claim_deleted_and_its_address_retained(Scenario::Retain)]
#[case::a_claim_deleted_and_its_address_with_it(Scenario::Delete)]
#[case::an_address_deleted_before_its_claim(Scenario::AddressFirst)]
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_not_answered_as_it_should_ends_the_same(#[case] scenario: Scenario) {
    let mut bench = Bench::running("unanswered", &[]).await;
    let (points, expected) = scenario.reference(&mut bench).await;
    let mut numbers = 1..;
    for point in &points {
        for act in [Act::answer(500), Act::AnswerAfter(504), Act::DropAfter] {
            let how = format!("{act:?}");
            let disturb = |bench: &Bench, requests| bench.proxy.rule(requests, act.clone());
            scenario.disturbed(&mut bench, &mut numbers, (point, &how), &expected, disturb).await;
        }
    }
    bench.history().await.assert_clean();
}
