//! A wall clock that jumps, forwards and back.

use anyhow::Result;

use super::Hands;

/// Until the end: then it is right again.
pub(super) async fn run(mut hands: Hands) -> Result<()> {
    let Some(clock) = hands.stage.clock.clone() else { return Ok(()) };
    while hands.until.pause(&mut hands.rng, 3_000..=15_000).await {
        let far = if hands.rng.u8(0..10) == 0 { 3_600 } else { 25 };
        clock.set(hands.rng.i64(-far..=far))?;
        hands.count("clock set");
    }
    clock.set(0)
}
