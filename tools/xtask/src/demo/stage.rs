//! What the story is told on: a control plane, the definitions, and the controller with the rights
//! that its chart gives it.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use address_controller::{
    api::well_known::{GROUP, VERSION},
    rights,
};
use anyhow::Result;
use kube::Client;
use testbed::{ControlPlane, Options, controlplane::rule, wait::try_eventually};

use super::replicas::Replicas;

use crate::{
    commands::build,
    report::{controlplane_binaries, minutes},
};

/// Where the replicas have their Leases.
pub const NAMESPACE: &str = "default";

/// How long a new API server may take to have its first namespaces.
const NAMESPACES: Duration = Duration::from_secs(30);

/// Builds the controller and the control plane, and gives the controller's binary.
///
/// # Errors
/// When one cannot be built.
pub fn build_all() -> Result<PathBuf> {
    let begin = Instant::now();
    println!("Building the controller, in the debug profile.");
    let binary = build::for_trying()?;
    println!("  {}", minutes(begin.elapsed()));
    let begin = Instant::now();
    println!("Looking for the control plane (etcd, kube-apiserver, kube-controller-manager).");
    controlplane_binaries()?;
    println!("  {}", minutes(begin.elapsed()));
    Ok(binary)
}

/// Everything that runs.
pub struct Stage {
    controlplane: ControlPlane,
    /// The controller.
    pub replicas: Replicas,
    driver_token: String,
}

impl Stage {
    /// Starts it, and says what.
    ///
    /// # Errors
    /// When something cannot be started.
    pub async fn set(binary: &Path) -> Result<Self> {
        let begin = Instant::now();
        println!("Starting etcd, kube-apiserver and kube-controller-manager on free ports.");
        let options = Options {
            controller_manager: controlplane_binaries()?.manager.is_some(),
            ..Options::default()
        };
        let controlplane = ControlPlane::start(options).await?;
        controlplane.install_crds().await?;
        println!(
            "  {} answers, and serves the three kinds ({} s)",
            controlplane.url(),
            begin.elapsed().as_secs()
        );

        let begin = Instant::now();
        println!(
            "Starting three replicas of the controller, with the rights of its chart's roles."
        );
        // The namespace of the service accounts comes a moment after the server.
        let kubeconfig = try_eventually(NAMESPACES, "a service account", || {
            let rules = rights::rules(rights::CLUSTER);
            controlplane.service_account_kubeconfig("address-controller", rules)
        })
        .await?;
        let leases = rights::rules(rights::RELEASE);
        controlplane.grant("address-controller", NAMESPACE, leases).await?;
        let replicas = Replicas::start(binary, kubeconfig).await?;
        println!("  all are ready ({} ms)", begin.elapsed().as_millis());
        replicas.show().await?;

        let rules = vec![
            rule(GROUP, &["ipaddressclasses"], &["get"]),
            rule(GROUP, &["ipaddressclaims"], &["list", "watch"]),
            rule(GROUP, &["ipaddresses"], &["get", "list", "watch", "create", "patch"]),
        ];
        let driver_token = controlplane.service_account_token("demo-driver", rules).await?;
        Ok(Self { controlplane, replicas, driver_token })
    }

    /// A client for the tenant and the administrator of the story.
    ///
    /// # Errors
    /// Outside a runtime.
    pub fn client(&self) -> Result<Client> {
        self.controlplane.admin()
    }

    /// A client for the driver, with a driver's rights.
    ///
    /// # Errors
    /// Outside a runtime.
    pub fn driver(&self) -> Result<Client> {
        self.controlplane.client(&self.driver_token)
    }

    /// Whether everything that was started still runs.
    ///
    /// # Errors
    /// Names what has ended.
    pub fn check_runs(&mut self) -> Result<()> {
        self.replicas.check_runs()?;
        self.controlplane.check_runs()
    }

    /// What to type in another terminal.
    ///
    /// # Errors
    /// When the kubeconfig cannot be written.
    pub fn how_to_try(&self) -> Result<String> {
        let kubeconfig = self.controlplane.admin_kubeconfig()?;
        Ok(format!(
            "
Now it is yours. In another terminal:

  export KUBECONFIG={kubeconfig}
  kubectl get ipam -A
  echo '{claim}' | kubectl create -f -
  kubectl get ipaddressclaims -n team-a
  kubectl get ipaddressclaim gateway -n team-a -o jsonpath='{{.status.addresses[*].address}}'
  kubectl events -n team-a --for ipaddressclaim/mine
  kubectl delete ipaddressclaim mine -n team-a
  kubectl get ipaddresses.local.sdn.cozystack.io

(Plain `ipaddresses` is another kind, built into Kubernetes: hence the long name.)

{replicas}  other logs     {folder}/*.log

Ctrl-C ends everything and removes it.",
            kubeconfig = kubeconfig.display(),
            claim = serde_json::json!({
                "apiVersion": format!("{GROUP}/{VERSION}"),
                "kind": "IPAddressClaim",
                "metadata": { "name": "mine", "namespace": "team-a" },
                "spec": { "className": "cloud" },
            }),
            replicas = self.replicas.where_to_look(),
            folder = self.controlplane.folder().display(),
        ))
    }

    /// Keeps all logs, and says where they are.
    pub fn keep_logs(&mut self) {
        self.replicas.keep_logs();
        self.controlplane.keep_logs();
    }

    /// Ends the replicas in their own way, and the control plane, each process by its id.
    ///
    /// # Errors
    /// When one does not end in time, or not with success.
    pub fn end(self) -> Result<()> {
        self.replicas.end()
    }
}
