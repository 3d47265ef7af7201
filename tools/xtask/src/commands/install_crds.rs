//! `cargo xtask install-crds`: the three kinds on the cluster of the current kubeconfig.

use address_controller::api::crd;
use anyhow::{Context, Result};
use kube::{Client, Config, ResourceExt};

/// Applies them and waits until they are served.
#[tokio::main(flavor = "current_thread")]
pub async fn run() -> Result<()> {
    let config = Config::infer().await.context("no cluster: set KUBECONFIG")?;
    let server = config.cluster_url.clone();
    let client = Client::try_from(config)?;
    testbed::controlplane::install_crds(&client)
        .await
        .with_context(|| format!("applying the definitions to {server}"))?;
    for definition in crd::all() {
        println!("{} is served by {server}", definition.name_any());
    }
    Ok(())
}
