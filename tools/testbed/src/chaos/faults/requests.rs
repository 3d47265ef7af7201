//! Requests of one replica that are delayed, refused, dropped, or answered with an error after they
//! took effect.

use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;

use super::Hands;
use crate::proxy::{Act, Match, Verb};

const RESOURCES: [&str; 6] = [
    "ipaddresses",
    "ipaddresses/status",
    "ipaddressclaims",
    "ipaddressclaims/status",
    "leases",
    "events",
];

/// Until the end.
pub(super) async fn run(mut hands: Hands, number: usize) -> Result<()> {
    let mut turn = 0_u32;
    while hands.until.pause(&mut hands.rng, 300..=1_500).await {
        let (act, name) = act(&mut hands.rng);
        let matching = matching(&mut hands.rng, &act);
        let proxy = hands.stage.replicas[number].proxy.clone();
        let rule = proxy.rule(matching, act);
        // What is held is held for up to a lease's life and more; the rule goes with it.
        hands.until.pause(&mut hands.rng, 500..=6_000).await;
        rule.remove();
        for _ in 0..rule.hits() {
            hands.count(name);
        }
        // What went through is kept by the proxy: for long runs, too much.
        turn += 1;
        if turn.is_multiple_of(4) {
            proxy.forget_requests();
        }
    }
    Ok(())
}

fn act(rng: &mut Rng) -> (Act, &'static str) {
    match rng.u8(0..14) {
        0..2 => (Act::Delay(Duration::from_millis(rng.u64(20..3_000))), "request delayed"),
        2 => (Act::answer(409), "409 in place of an answer"),
        3 => (Act::Answer { status: 429, retry_after: Some(1) }, "429 with Retry-After"),
        4 => (Act::answer(500), "500 in place of an answer"),
        5 => (Act::answer(503), "503 in place of an answer"),
        6 => (Act::AnswerAfter(504), "504 after it took effect"),
        7 => (Act::AnswerAfter(500), "500 after it took effect"),
        8 => (Act::Drop, "connection cut before the request"),
        9..11 => (Act::DropAfter, "answer dropped"),
        11..13 => (Act::Hold, "request held back"),
        _ => (Act::HoldAnswer, "answer held back"),
    }
}

/// Which requests: mostly a few writes of one kind, sometimes all that comes.
fn matching(rng: &mut Rng, act: &Act) -> Match {
    let writes =
        matches!(act, Act::AnswerAfter(_) | Act::Answer { status: 409, .. }) || rng.u8(0..10) < 7;
    let matching = if writes {
        Match::writes()
    } else {
        // Watches have faults of their own.
        Match::verb(Verb::Get).or_verb(Verb::List).or_verb(Verb::Patch).or_verb(Verb::Update)
    };
    let matching = match rng.choice(RESOURCES) {
        Some(resource) if rng.u8(0..10) < 8 => matching.resource(resource),
        _ => matching,
    };
    matching.after(rng.usize(0..4)).times(rng.usize(1..12))
}
