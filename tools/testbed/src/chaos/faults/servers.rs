//! etcd and the API server, paused and killed.

use anyhow::Result;

use super::Hands;

/// Until the end. One at a time, and never for good.
pub(super) async fn run(mut hands: Hands) -> Result<()> {
    let stage = hands.stage.clone();
    let controlplane = &stage.controlplane;
    while hands.until.pause(&mut hands.rng, 15_000..=40_000).await {
        match hands.rng.u8(0..3) {
            0 => {
                hands.count("API server paused");
                controlplane.pause_apiserver();
                hands.until.pause(&mut hands.rng, 500..=8_000).await;
                controlplane.resume_apiserver();
            }
            1 => {
                hands.count("etcd paused");
                controlplane.pause_etcd();
                hands.until.pause(&mut hands.rng, 500..=8_000).await;
                controlplane.resume_etcd();
            }
            _ => {
                hands.count("API server killed and started");
                controlplane.stop_apiserver();
                hands.until.pause(&mut hands.rng, 0..=4_000).await;
                controlplane.restart_apiserver().await?;
            }
        }
    }
    Ok(())
}
