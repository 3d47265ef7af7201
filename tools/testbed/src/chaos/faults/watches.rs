//! Watches of one replica that stand still, each kind by itself, or are cut.

use std::time::Duration;

use anyhow::Result;

use super::{Hands, WATCHED};
use crate::proxy::Freeze;

/// Until the end.
pub(super) async fn run(mut hands: Hands, number: usize) -> Result<()> {
    let proxy = hands.stage.replicas[number].proxy.clone();
    while hands.until.pause(&mut hands.rng, 1_000..=6_000).await {
        let resource = WATCHED[hands.rng.usize(0..WATCHED.len())];
        match hands.rng.u8(0..10) {
            0..3 => {
                proxy.cut_watches(resource);
                hands.count("watch cut");
            }
            choice => {
                let half_open = choice < 6;
                let freeze = if half_open { Freeze::OpenOnes } else { Freeze::NewOnesToo };
                proxy.freeze_watches(resource, freeze);
                hands.count(if half_open { "watch half-open" } else { "watch frozen" });
                let longest = if hands.rng.u8(0..5) == 0 { 40_000 } else { 8_000 };
                let time = Duration::from_millis(hands.rng.u64(500..longest));
                hands.until.wait(time).await;
                // Sometimes what was held back is lost with the connection.
                if hands.rng.bool() {
                    proxy.cut_watches(resource);
                    // A thaw that comes at once would be all that the watch hears of.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                proxy.thaw_watches(resource);
            }
        }
    }
    Ok(())
}
