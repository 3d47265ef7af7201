//! A corner of the cluster with the controller running, and what is looked at in it.

use std::ops::Deref;

use address_controller::api::{AddressPhase, ClaimPhase, IPAddress, IPAddressClaim};
use kube::ResourceExt;
use testbed::{Controller, ControllerOptions, Sandbox, eventually, shared, wait::BOUNDED};
use tokio::sync::OnceCell;

/// A sandbox in which the controller works.
pub(crate) struct Corner(Sandbox);

impl Deref for Corner {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.0
    }
}

static CONTROLLER: OnceCell<Controller> = OnceCell::const_new();

impl Corner {
    /// A corner for the test of this name.
    pub(crate) async fn new(test: &str) -> Self {
        let sandbox = Sandbox::new(test).await.unwrap();
        CONTROLLER.get_or_init(start).await;
        Self(sandbox)
    }

    /// Waits until a claim is in a phase.
    pub(crate) async fn claim_is(&self, name: &str, phase: ClaimPhase) -> IPAddressClaim {
        let claims = self.claims();
        eventually(BOUNDED, &format!("claim {name} is {phase:?}"), || async {
            let claim = claims.get(name).await.map_err(|e| e.to_string())?;
            let is = claim.status.as_ref().and_then(|s| s.phase);
            if is == Some(phase) { Ok(claim) } else { Err(format!("{:?}", claim.status)) }
        })
        .await
    }

    /// Waits until an address is in a phase. The name is the short one.
    pub(crate) async fn address_is(&self, short: &str, phase: AddressPhase) -> IPAddress {
        let addresses = self.addresses();
        let name = self.name(short);
        eventually(BOUNDED, &format!("address {name} is {phase:?}"), || async {
            let address = addresses.get(&name).await.map_err(|e| e.to_string())?;
            let is = address.status.as_ref().and_then(|s| s.phase);
            if is == Some(phase) { Ok(address) } else { Err(format!("{:?}", address.status)) }
        })
        .await
    }
}

async fn start() -> Controller {
    let controlplane = shared().await.unwrap();
    let kubeconfig = controlplane.admin_kubeconfig().unwrap();
    let options = ControllerOptions::new(env!("CARGO_BIN_EXE_address-controller"), kubeconfig);
    Controller::start_ready(&options).await.unwrap()
}

/// The addresses that a claim shows, by name.
pub(crate) fn shown(claim: &IPAddressClaim) -> Vec<String> {
    let status = claim.status.clone().unwrap_or_default();
    status.addresses.into_iter().map(|a| a.name).collect()
}

/// The uid that an address's claimRef has.
pub(crate) fn held_by(address: &IPAddress) -> Option<String> {
    address.spec.claim_ref.as_ref().and_then(|r| r.uid.clone())
}

/// The uid of a claim.
pub(crate) fn uid(claim: &IPAddressClaim) -> Option<String> {
    claim.uid()
}
