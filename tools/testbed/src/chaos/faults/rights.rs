//! Rights that are taken away from the replicas' account for a while.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::rbac::v1::PolicyRule;

use super::Hands;
use crate::{
    chaos::stage::{ACCOUNT, rules},
    wait::try_eventually,
};

const RESOURCES: [&str; 7] = [
    "ipaddresses",
    "ipaddresses/status",
    "ipaddressclaims",
    "ipaddressclaims/status",
    "ipaddressclasses",
    "events",
    "leases",
];

/// How long giving back may take, on servers that are paused meanwhile.
const PATIENCE: Duration = Duration::from_mins(2);

/// Until the end.
pub(super) async fn run(mut hands: Hands) -> Result<()> {
    let stage = hands.stage.clone();
    let controlplane = &stage.controlplane;
    while hands.until.pause(&mut hands.rng, 12_000..=35_000).await {
        let any = RESOURCES[hands.rng.usize(0..RESOURCES.len())];
        let resource = if stage.leases && hands.rng.u8(0..10) < 4 { "leases" } else { any };
        let without = rules().into_iter().filter(|rule| !is_for(rule, resource)).collect();
        if controlplane.set_rules(ACCOUNT, without).await.is_ok() {
            hands.count(&format!("rights taken: {resource}"));
        }
        hands.until.pause(&mut hands.rng, 1_500..=9_000).await;
        let back = || controlplane.set_rules(ACCOUNT, rules());
        try_eventually(PATIENCE, "rights to be given back", back).await?;
    }
    Ok(())
}

fn is_for(rule: &PolicyRule, resource: &str) -> bool {
    rule.resources.iter().flatten().any(|r| r == resource)
}
