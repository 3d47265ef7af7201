//! A controller of one's own behind a fault proxy, alone in the cluster.

use std::{fmt::Debug, ops::Deref, os::unix::process::ExitStatusExt, time::Duration};

use address_controller::{
    api::{
        AddressPhase, ClaimPhase, IPAddress, IPAddressClaim,
        well_known::{GROUP, MANAGER},
    },
    binder::invariants::Actor,
};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::json;
use testbed::{
    Controller, ControllerOptions, Proxy, Sandbox,
    controlplane::{ADMIN_TOKEN, USER_AGENT},
    eventually,
    history::{Actors, Bookmark, Report, Source, check_at_rest},
    proxy::{Match, Request},
    wait::try_eventually,
};

/// How long anything may take here, pauses after faults included, on a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// How long the last write must be past for the controller to be at rest.
const AT_REST: Duration = Duration::from_millis(250);

/// The program under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_address-controller");

/// The cluster with one controller, every request of which goes through a proxy.
pub(crate) struct Bench {
    controller: Option<Controller>,
    pub(crate) proxy: Proxy,
    options: ControllerOptions,
    source: Source,
    beginning: Bookmark,
    sandbox: Sandbox,
}

impl Deref for Bench {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl Bench {
    /// A bench whose controller runs and is ready, with these flags.
    pub(crate) async fn running(test: &str, flags: &[&str]) -> Self {
        let mut bench = Self::idle(test, flags).await;
        bench.start().await;
        bench
    }

    /// A bench whose controller is not started yet.
    pub(crate) async fn idle(test: &str, flags: &[&str]) -> Self {
        let sandbox = Sandbox::alone(test).await.unwrap();
        let proxy = Proxy::start(sandbox.controlplane()).unwrap();
        let kubeconfig = proxy.kubeconfig(sandbox.controlplane(), ADMIN_TOKEN).unwrap();
        let options = ControllerOptions::new(BINARY, kubeconfig);
        let options = flags.iter().fold(options, |options, flag| options.arg(*flag));
        let actors = Actors::default().agent(USER_AGENT, Actor::Administrator);
        let source = Source::of(sandbox.controlplane()).with(actors);
        let beginning = source.bookmark().await.unwrap();
        Self { controller: None, proxy, options, source, beginning, sandbox }
    }

    /// Starts the controller and waits until it is ready.
    pub(crate) async fn start(&mut self) {
        self.controller = Some(Controller::start_ready(&self.options).await.unwrap());
    }

    /// Starts the controller as another caller, with these flags, and waits until it is ready.
    pub(crate) async fn start_as(&mut self, token: &str, flags: &[&str]) {
        let kubeconfig = self.proxy.kubeconfig(self.sandbox.controlplane(), token).unwrap();
        let options = ControllerOptions::new(BINARY, kubeconfig);
        self.options = flags.iter().fold(options, |options, flag| options.arg(*flag));
        self.start().await;
    }

    /// Starts the controller and waits for nothing.
    fn start_unready(&mut self) {
        self.controller = Some(Controller::start(&self.options).unwrap());
    }

    pub(crate) fn controller(&self) -> &Controller {
        self.controller.as_ref().expect("the controller was started")
    }

    pub(crate) fn controller_mut(&mut self) -> &mut Controller {
        self.controller.as_mut().expect("the controller was started")
    }

    /// Starts the controller again if it was killed. One that ended in another way fails the test.
    pub(crate) fn revive(&mut self) {
        let Some(status) = self.controller_mut().exit_status() else { return };
        let log = self.controller().log();
        assert_eq!(status.signal(), Some(9), "the controller ended by itself ({status}):\n{log}");
        self.start_unready();
    }

    /// Waits for a condition, and starts the controller again whenever it was killed.
    pub(crate) async fn until<T, E, F, Fut>(&mut self, what: &str, mut probe: F) -> T
    where
        E: std::fmt::Display,
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let begin = std::time::Instant::now();
        loop {
            match try_eventually(Duration::from_millis(100), what, &mut probe).await {
                Ok(value) => return value,
                Err(error) => assert!(begin.elapsed() < PATIENCE, "{error}"),
            }
            self.revive();
        }
    }

    /// The controller's writes to the three kinds so far.
    pub(crate) fn writes(&self) -> Vec<Request> {
        self.proxy.matching(&ours(Match::writes()))
    }

    /// Waits until nothing has been written to the three kinds for a while.
    pub(crate) async fn at_rest(&self) {
        eventually(PATIENCE, "no more writes", || async {
            self.writes().last().is_none_or(|last| last.at.elapsed() > AT_REST)
        })
        .await;
    }

    /// Waits until a claim is in a phase.
    pub(crate) async fn claim_is(&self, name: &str, phase: ClaimPhase) -> IPAddressClaim {
        let claims = self.claims();
        let what = format!("claim {name} to be {phase:?}");
        eventually(PATIENCE, &what, || async { in_phase(claims.get(name).await?, phase) }).await
    }

    /// Waits until an address, by its short name, is in a phase.
    pub(crate) async fn address_is(&self, short: &str, phase: AddressPhase) -> IPAddress {
        let (addresses, name) = (self.addresses(), self.name(short));
        let what = format!("address {name} to be {phase:?}");
        eventually(PATIENCE, &what, || async {
            address_in_phase(addresses.get(&name).await?, phase)
        })
        .await
    }

    /// A class `public`, an address `a1` of it, and a claim `web` that holds it.
    pub(crate) async fn bound(&self) -> IPAddressClaim {
        self.class("public").await.unwrap();
        self.address("a1", "public", "192.0.2.1").await.unwrap();
        self.address_is("a1", AddressPhase::Available).await;
        self.claim("web", "public").await.unwrap();
        self.address_is("a1", AddressPhase::Bound).await;
        self.claim_is("web", ClaimPhase::Bound).await
    }

    /// Waits until a claim is gone.
    pub(crate) async fn claim_goes(&self, name: &str) {
        gone(&self.claims(), name).await;
    }

    /// Waits until an address, by its short name, is gone.
    pub(crate) async fn address_goes(&self, short: &str) {
        gone(&self.addresses(), &self.name(short)).await;
    }

    pub(crate) async fn delete_claim(&self, name: &str) {
        self.claims().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub(crate) async fn delete_address(&self, short: &str) {
        let name = self.name(short);
        self.addresses().delete(&name, &DeleteParams::default()).await.unwrap();
    }

    /// Writes what a driver writes: the status of an address.
    pub(crate) async fn drive(&self, short: &str, status: serde_json::Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let name = self.name(short);
        self.addresses().patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until `/readyz` answers with a code, and gives its text.
    pub(crate) async fn readiness(&self, code: u16) -> String {
        eventually(PATIENCE, &format!("/readyz to answer {code}"), || async {
            let (seen, text) = self.controller().probe("/readyz").await?;
            anyhow::ensure!(seen == code, "{seen} {text}");
            Ok(text)
        })
        .await
    }

    /// The events about an object, by reason.
    pub(crate) async fn events(&self, namespace: &str, name: &str) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.client(), namespace);
        let about = ListParams::default().fields(&format!("involvedObject.name={name}"));
        let events = events.list(&about).await.unwrap();
        let mut reasons: Vec<_> = events.into_iter().filter_map(|e| e.reason).collect();
        reasons.sort();
        reasons
    }

    /// Holds all that happened since the bench was made against the invariants, at rest.
    pub(crate) async fn history(&self) -> Report {
        self.at_rest().await;
        check_at_rest(&self.source.read_since(&self.beginning).await.unwrap())
    }
}

/// Those of the controller's requests that are about the three kinds.
pub(crate) fn ours(matching: Match) -> Match {
    matching.agent(MANAGER).when(|request| request.group == GROUP)
}

fn in_phase(claim: IPAddressClaim, phase: ClaimPhase) -> anyhow::Result<IPAddressClaim> {
    let is = claim.status.as_ref().and_then(|s| s.phase);
    anyhow::ensure!(is == Some(phase), "{:?}", claim.status);
    Ok(claim)
}

fn address_in_phase(address: IPAddress, phase: AddressPhase) -> anyhow::Result<IPAddress> {
    let is = address.status.as_ref().and_then(|s| s.phase);
    anyhow::ensure!(is == Some(phase), "{:?} {:?}", address.spec.claim_ref, address.status);
    Ok(address)
}

async fn gone<K>(objects: &Api<K>, name: &str)
where
    K: kube::Resource + Clone + Debug + DeserializeOwned,
{
    eventually(PATIENCE, &format!("{name} to be gone"), || async {
        let left = objects.get_opt(name).await.map_err(|e| e.to_string())?;
        left.map_or(Ok(()), |left| Err(format!("{:?}", left.meta())))
    })
    .await;
}

/// Removes an object whatever protects it, as an administrator in a hurry does.
pub(crate) async fn force_delete<K>(objects: &Api<K>, name: &str)
where
    K: kube::Resource + Clone + Debug + DeserializeOwned,
{
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    objects.patch(name, &PatchParams::default(), &free).await.unwrap();
    objects.delete(name, &DeleteParams::default()).await.unwrap();
    assert!(objects.get_opt(name).await.unwrap().is_none(), "{name} is still there");
}

/// The names of the addresses that a claim shows.
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
