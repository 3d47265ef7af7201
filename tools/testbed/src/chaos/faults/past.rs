//! One replica is served by an API server that lives in the past: what it lists and watches is old,
//! and what it writes arrives without an answer.

use anyhow::Result;

use super::{Hands, WATCHED};
use crate::Proxy;

/// Until the end.
pub(super) async fn run(mut hands: Hands) -> Result<()> {
    let stage = hands.stage.clone();
    let past = &stage.past;
    while hands.until.pause(&mut hands.rng, 15_000..=45_000).await {
        let proxy = &stage.replicas[hands.rng.usize(0..stage.replicas.len())].proxy;
        past.server.check_runs()?;
        hands.count("served by an API server that is in the past");
        // Sometimes it is met while it is still up to date.
        let before = hands.rng.bool();
        if before {
            past.freezer.freeze();
        }
        send(proxy, past.server.url())?;
        hands.until.pause(&mut hands.rng, 0..=4_000).await;
        past.freezer.freeze();
        hands.until.pause(&mut hands.rng, 2_000..=18_000).await;
        // And sometimes it comes back to the present before it is left.
        if hands.rng.bool() {
            past.freezer.thaw();
            hands.until.pause(&mut hands.rng, 0..=3_000).await;
        }
        send(proxy, &stage.controlplane.url())?;
        past.freezer.thaw();
    }
    Ok(())
}

/// Sends a replica to another server, its watches too.
fn send(proxy: &Proxy, server: &str) -> Result<()> {
    proxy.point_at(server)?;
    for resource in WATCHED {
        proxy.cut_watches(resource);
    }
    Ok(())
}
