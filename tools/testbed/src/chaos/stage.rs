//! Everything that runs: the control plane, a second API server that can be put into the past, and
//! the replicas, each behind a proxy of its own.

use std::{sync::Arc, time::Duration};

use address_controller::{api::well_known::MANAGER, rights};
use anyhow::Result;
use fastrand::Rng;
use k8s_openapi::api::rbac::v1::PolicyRule;

use super::{
    Plan,
    clock::ShiftedClock,
    findings::Findings,
    leader::Leader,
    replica::{Recipe, Replica},
    tally::Tally,
};
use crate::{
    ControlPlane, Options, Proxy, controlplane::SecondApiServer, freezer::Freezer,
    wait::try_eventually,
};

/// The account that all replicas share, as a Deployment's pods do.
pub(super) const ACCOUNT: &str = MANAGER;
/// The namespace of the release: every cluster has it.
pub(super) const NAMESPACE: &str = "default";

/// How long a new API server may take to accept service accounts.
const BEGIN: Duration = Duration::from_secs(30);

/// What is paused, killed, cut and frozen.
pub(super) struct Stage {
    pub(super) replicas: Vec<Replica>,
    pub(super) past: Past,
    pub(super) clock: Option<Arc<ShiftedClock>>,
    pub(super) leader: Leader,
    pub(super) faults: Tally,
    pub(super) findings: Findings,
    pub(super) leases: bool,
    // The last to go: everything else talks to it.
    pub(super) controlplane: ControlPlane,
}

/// An API server whose connection to etcd can be frozen.
pub(super) struct Past {
    pub(super) server: SecondApiServer,
    pub(super) freezer: Freezer,
}

impl Stage {
    /// Starts everything, and waits until every replica is ready.
    pub(super) async fn set(plan: &Plan, rng: &mut Rng) -> Result<Self> {
        let controlplane = ControlPlane::start(Options::default()).await?;
        controlplane.install_crds().await?;
        let freezer = Freezer::start(controlplane.etcd_port()).await?;
        let server = controlplane.second_apiserver(freezer.port()).await?;
        let token = try_eventually(BEGIN, "a service account", || {
            controlplane.service_account_token(ACCOUNT, rules())
        })
        .await?;
        let clock = ShiftedClock::find(controlplane.folder())?.map(Arc::new);
        let mut replicas = Vec::new();
        for number in 0..plan.replicas {
            let proxy = Proxy::start(&controlplane)?;
            let recipe = Recipe {
                binary: plan.binary.clone(),
                kubeconfig: proxy.kubeconfig(&controlplane, &token)?,
                flags: flags(plan),
            };
            // One machine's clock is wrong.
            let clock = clock.clone().filter(|_| number == 0);
            let replica = Replica::new(number, proxy, recipe, clock, rng.fork());
            let mut process = replica.process.lock().await;
            process.start()?;
            process.wait_ready().await?;
            drop(process);
            replicas.push(replica);
        }
        Ok(Self {
            replicas,
            past: Past { server, freezer },
            clock,
            leader: Leader::default(),
            faults: Tally::new(),
            findings: Findings::default(),
            leases: plan.leases,
            controlplane,
        })
    }

    /// Keeps all logs, and says where they are.
    pub(super) async fn keep_logs(&self) {
        self.controlplane.keep_logs();
        for replica in &self.replicas {
            replica.process.lock().await.keep_logs();
        }
    }
}

/// All that the chart gives the account.
pub(super) fn rules() -> Vec<PolicyRule> {
    rights::rules(rights::CLUSTER).into_iter().chain(rights::rules(rights::RELEASE)).collect()
}

fn flags(plan: &Plan) -> Vec<String> {
    let mut flags = vec![
        format!("--leader-elect={}", plan.leases),
        format!("--namespace={NAMESPACE}"),
        // Pauses and graces that end within a run.
        "--queue-backoff-max=5s".to_owned(),
        "--reservation-grace=5s".to_owned(),
        "--watch-timeout=30s".to_owned(),
        "--log-format=json".to_owned(),
    ];
    flags.extend(plan.flags.iter().cloned());
    flags
}
