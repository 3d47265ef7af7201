//! Replicas of one installation, each behind a fault proxy of its own.

use std::{
    collections::BTreeSet,
    ops::Deref,
    time::{Duration, Instant},
};

use address_controller::{
    api::{AddressPhase, ClaimPhase, IPAddress, IPAddressClaim, well_known::GROUP},
    binder::invariants::Actor,
    shard::buckets::{Table, bucket},
};
use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::Value;
use testbed::{
    Controller, ControllerOptions, Proxy, Sandbox,
    controlplane::{ADMIN_TOKEN, USER_AGENT},
    eventually,
    history::{Actors, Bookmark, History, Source, check_at_rest},
    proxy::Match,
};

/// How long anything may take that has no bound of its own, on a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// How long the last write must be past for the replicas to be at rest.
const AT_REST: Duration = Duration::from_millis(500);

/// The program under test.
const BINARY: &str = env!("CARGO_BIN_EXE_address-controller");

/// One replica, and how it is started again.
pub(crate) struct Replica {
    pub(crate) identity: String,
    pub(crate) proxy: Proxy,
    options: ControllerOptions,
    controller: Option<Controller>,
}

impl Replica {
    pub(crate) fn controller(&self) -> &Controller {
        self.controller.as_ref().expect("the replica runs")
    }

    pub(crate) fn controller_mut(&mut self) -> &mut Controller {
        self.controller.as_mut().expect("the replica runs")
    }

    pub(crate) fn runs(&self) -> bool {
        self.controller.is_some()
    }

    /// Starts it and waits for nothing.
    pub(crate) fn start(&mut self) {
        self.controller = Some(Controller::start(&self.options).unwrap());
    }

    /// As if it ran in this pod.
    pub(crate) fn in_pod(&mut self, uid: &str) -> &mut Self {
        self.options = self.options.clone().env("POD_UID", uid);
        self
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        self.controller_mut().sigkill();
        self.controller = None;
    }

    /// Waits until it has stopped, as it was asked to.
    pub(crate) fn join(&mut self) {
        let status = self.controller_mut().wait(PATIENCE).unwrap();
        assert!(status.success(), "{status}: {}", self.controller().log());
        self.controller = None;
    }

    /// What it says of itself and the others.
    pub(crate) async fn shard(&self) -> Result<Value> {
        self.controller().debug("shard").await
    }
}

/// Several replicas in an emptied cluster.
pub(crate) struct Fleet {
    pub(crate) replicas: Vec<Replica>,
    sandbox: Sandbox,
    source: Source,
    beginning: Bookmark,
    flags: Vec<String>,
    elects: bool,
}

impl Deref for Fleet {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl Fleet {
    /// So many replicas without Leases: each holds everything and leads.
    pub(crate) async fn without_leases(test: &str, count: usize) -> Self {
        let mut fleet = Self::idle(test).await;
        fleet.elects = false;
        for _ in 0..count {
            fleet.add(ADMIN_TOKEN).start();
        }
        for replica in &mut fleet.replicas {
            replica.controller_mut().wait_ready().await.unwrap();
        }
        fleet
    }

    /// Nobody runs yet.
    pub(crate) async fn idle(test: &str) -> Self {
        let sandbox = Sandbox::alone(test).await.unwrap();
        let actors = Actors::default().agent(USER_AGENT, Actor::Administrator);
        let source = Source::of(sandbox.controlplane()).with(actors);
        let beginning = source.bookmark().await.unwrap();
        Self { replicas: Vec::new(), sandbox, source, beginning, flags: Vec::new(), elects: true }
    }

    /// So many replicas, each a member in everybody's eyes, and one of them the leader.
    pub(crate) async fn of(test: &str, count: usize) -> Self {
        let mut fleet = Self::idle(test).await;
        for _ in 0..count {
            fleet.add(ADMIN_TOKEN).start();
        }
        fleet.settle().await;
        fleet
    }

    /// Waits until so many claims are `Bound`, and no address is held by two of them.
    pub(crate) async fn bound(&self, count: usize) {
        eventually(PATIENCE * 2, "all claims to be Bound", || async {
            let claims = self.claims().list(&ListParams::default()).await?;
            let status = |c: &IPAddressClaim| c.status.clone().unwrap_or_default();
            let bound = claims.iter().filter(|c| status(c).phase == Some(ClaimPhase::Bound));
            let held: Vec<_> = bound.flat_map(|c| status(c).addresses).map(|a| a.name).collect();
            let distinct: BTreeSet<_> = held.iter().collect();
            assert_eq!(distinct.len(), held.len(), "two claims show one address: {held:?}");
            ensure!(held.len() == count, "{}", held.len());
            anyhow::Ok(())
        })
        .await;
    }

    /// Creates so many addresses of class `public`.
    pub(crate) async fn addresses_of(&self, count: usize) {
        let one = |n: usize| async move {
            let ip = format!("10.0.{}.{}", n / 250, n % 250);
            self.address(&format!("a{n:04}"), "public", &ip).await
        };
        at_once(count, one).await;
    }

    /// Creates so many claims for class `public` whose names begin like this.
    pub(crate) async fn claims_of(&self, prefix: &str, count: usize) {
        let one = |n: usize| async move { self.claim(&format!("{prefix}{n:04}"), "public").await };
        at_once(count, one).await;
    }

    /// Waits until an address, by its short name, is in a phase.
    pub(crate) async fn address_is(&self, short: &str, phase: AddressPhase) -> IPAddress {
        let (addresses, name) = (self.addresses(), self.name(short));
        eventually(PATIENCE, &format!("{short} to be {phase:?}"), || async {
            let address = addresses.get(&name).await?;
            let is = address.status.as_ref().and_then(|s| s.phase);
            ensure!(is == Some(phase), "{is:?}");
            anyhow::Ok(address)
        })
        .await
    }

    /// Waits until a claim is in a phase.
    pub(crate) async fn claim_is(&self, name: &str, phase: ClaimPhase) -> IPAddressClaim {
        let claims = self.claims();
        eventually(PATIENCE, &format!("{name} to be {phase:?}"), || async {
            let claim = claims.get(name).await?;
            let is = claim.status.as_ref().and_then(|s| s.phase);
            ensure!(is == Some(phase), "{is:?}");
            anyhow::Ok(claim)
        })
        .await
    }

    /// One more flag for those that are added from now on.
    pub(crate) fn flag(&mut self, flag: &str) {
        self.flags.push(flag.to_owned());
    }

    /// One more replica, by this caller's rights; not started.
    pub(crate) fn add(&mut self, token: &str) -> &mut Replica {
        let identity = format!("replica-{}", self.replicas.len());
        self.add_as(&identity, token)
    }

    /// One more replica of a certain name.
    pub(crate) fn add_as(&mut self, identity: &str, token: &str) -> &mut Replica {
        let proxy = Proxy::start(self.sandbox.controlplane()).unwrap();
        let kubeconfig = proxy.kubeconfig(self.sandbox.controlplane(), token).unwrap();
        let options = ControllerOptions::new(BINARY, kubeconfig)
            .arg(format!("--leader-elect={}", self.elects))
            .arg(format!("--identity={identity}"))
            .arg(format!("--namespace={}", self.sandbox.namespace()))
            .env("POD_UID", format!("uid-{identity}"));
        let options = self.flags.iter().fold(options, ControllerOptions::arg);
        let identity = identity.to_owned();
        self.replicas.push(Replica { identity, proxy, options, controller: None });
        self.replicas.last_mut().expect("it was just added")
    }

    /// The names of those that run.
    pub(crate) fn running(&self) -> Vec<String> {
        self.replicas.iter().filter(|r| r.runs()).map(|r| r.identity.clone()).collect()
    }

    /// Waits until all that run agree on who is there, and on a leader among them.
    pub(crate) async fn settle(&self) -> Value {
        let mut expected = self.running();
        expected.sort();
        eventually(PATIENCE, "the replicas to agree", || async {
            let mut leaders = Vec::new();
            let mut last = Value::Null;
            for replica in self.replicas.iter().filter(|r| r.runs()) {
                let shard = replica.shard().await?;
                let members: Vec<_> = names(&shard);
                ensure!(members == expected, "{} sees {members:?}", replica.identity);
                leaders.extend((shard["leads"] == true).then(|| replica.identity.clone()));
                last = shard;
            }
            ensure!(leaders.len() == 1, "leaders: {leaders:?}");
            anyhow::Ok(last)
        })
        .await
    }

    /// The place of the one that leads, by what it says itself.
    pub(crate) async fn leader(&self) -> usize {
        eventually(PATIENCE, "a leader", || async {
            for (place, replica) in self.replicas.iter().enumerate().filter(|(_, r)| r.runs()) {
                if replica.shard().await?["leads"] == true {
                    return Ok(place);
                }
            }
            anyhow::bail!("nobody leads")
        })
        .await
    }

    /// The Leases of the installation, by name.
    pub(crate) fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client(), self.namespace())
    }

    /// Who holds a claim's bucket while these are the members.
    pub(crate) fn holder(members: &[String], claim: &IPAddressClaim) -> String {
        let table = Table::of(members.iter().map(|m| m.as_str().into()));
        let uid = claim.uid().expect("a claim that exists has a uid");
        table.holder(bucket(&uid)).expect("there are members").to_owned()
    }

    /// Waits until nothing but Leases is written any more; then no invariant may have been broken.
    pub(crate) async fn check(&self) -> History {
        let ours = Match::writes().when(|request| request.group == GROUP);
        eventually(PATIENCE, "no more writes", || async {
            let recent = |at: Instant| at.elapsed() < AT_REST;
            let writes = self.replicas.iter().flat_map(|r| r.proxy.matching(&ours));
            writes.map(|write| write.at).max().is_none_or(|last| !recent(last))
        })
        .await;
        let history = self.source.read_since(&self.beginning).await.unwrap();
        let report = check_at_rest(&history);
        assert!(report.violations.is_empty(), "{}", report.text());
        history
    }
}

/// Makes so many of something, several at a time.
async fn at_once<T, F>(count: usize, one: impl Fn(usize) -> F)
where
    F: Future<Output = kube::Result<T>>,
{
    let made = stream::iter(0..count).map(one).buffer_unordered(16);
    made.try_for_each(|_| async { Ok(()) }).await.unwrap();
}

/// The members that a page names, sorted.
pub(crate) fn names(shard: &Value) -> Vec<String> {
    let members = shard["members"].as_array().map(Vec::as_slice).unwrap_or_default();
    members.iter().filter_map(|m| m["name"].as_str()).map(str::to_owned).collect()
}
