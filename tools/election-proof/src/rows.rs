//! The situations that candidates are put into.

use std::{fmt, sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use kube::{Api, Client, core::ApiResource, core::GroupVersionKind};
use serde_json::{Value, json};
use testbed::{
    ControlPlane, Proxy,
    proxy::{Act, Match, RuleHandle},
};

use crate::candidate::{Candidate, NAMESPACE};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often two believed that they lead.
#[derive(Default)]
pub struct Both {
    /// At one moment, after both had written.
    pub at_once: usize,
    /// Still, after each of them had asked once more.
    pub asked_again: usize,
}

impl fmt::Display for Both {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4}, and {} after each has asked again", self.at_once, self.asked_again)
    }
}

/// Two proxies in front of one API server.
pub struct Stage {
    leases: Api<DynamicObject>,
    proxies: [Proxy; 2],
}

impl Stage {
    /// In front of this control plane.
    pub async fn set(controlplane: &ControlPlane) -> Result<Self> {
        let client: Client = controlplane.admin()?;
        let kind = GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease");
        let leases = Api::namespaced_with(client, NAMESPACE, &ApiResource::from_gvk(&kind));
        // The namespace comes a moment after the server.
        let all = ListParams::default();
        testbed::eventually(PATIENCE, "the namespace", || leases.list(&all)).await;
        Ok(Self { leases, proxies: [Proxy::start(controlplane)?, Proxy::start(controlplane)?] })
    }

    /// A Lease in this state, and no other.
    async fn put(&self, name: &str, spec: Value) -> Result<()> {
        let _ = self.leases.delete(name, &DeleteParams::default()).await;
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": name }, "spec": spec,
        });
        self.leases.create(&PostParams::default(), &serde_json::from_value(lease)?).await?;
        Ok(())
    }

    /// A Lease whose holder is long dead.
    async fn put_expired(&self, name: &str) -> Result<()> {
        self.put(name, expired()).await
    }

    /// Somebody else takes it over, whatever it says.
    async fn take(&self, name: &str, holder: &str) -> Result<()> {
        let now = jiff::Timestamp::now();
        let mut lease = self.leases.get(name).await?;
        lease.data["spec"]["holderIdentity"] = json!(holder);
        lease.data["spec"]["renewTime"] = json!(format!("{now:.6}"));
        self.leases.replace(name, &PostParams::default(), &lease).await?;
        Ok(())
    }

    async fn holder(&self, name: &str) -> Result<Option<String>> {
        let lease = self.leases.get(name).await?;
        Ok(lease.data["spec"]["holderIdentity"].as_str().map(str::to_owned))
    }

    /// The next write to a Lease waits at this proxy.
    fn hold(&self, place: usize) -> RuleHandle {
        self.proxies[place].rule(Match::writes().resource("leases").times(1), Act::Hold)
    }

    /// Two read one expired Lease; both of them go to write; the first is let go, and then the second.
    pub async fn race<A: Candidate, B: Candidate>(&self, times: usize) -> Result<Both> {
        let mut both = Both::default();
        for round in 0..times {
            let name = format!("race-{round}");
            self.put_expired(&name).await?;
            let first = Arc::new(A::new(&self.proxies[0], &name, "first")?);
            let second = Arc::new(B::new(&self.proxies[1], &name, "second")?);
            let (hold_first, hold_second) = (self.hold(0), self.hold(1));
            let (one, two) = (Arc::clone(&first), Arc::clone(&second));
            let one = tokio::spawn(async move { one.acquire().await });
            let two = tokio::spawn(async move { two.acquire().await });
            hold_first.reached(1, PATIENCE).await?;
            hold_second.reached(1, PATIENCE).await?;
            hold_first.release();
            one.await??;
            hold_second.release();
            two.await??;
            ensure!(first.leads() || second.leads(), "round {round}: nobody leads");
            both.at_once += usize::from(first.leads() && second.leads());
            self.proxies.iter().for_each(Proxy::clear_rules);
            first.acquire().await?;
            second.acquire().await?;
            both.asked_again += usize::from(first.leads() && second.leads());
        }
        Ok(both)
    }

    /// A holder whose renewal is late: meanwhile another has taken over. Whether it is told that it
    /// leads.
    pub async fn stalled<C: Candidate>(&self) -> Result<bool> {
        let name = "stalled";
        self.put_expired(name).await?;
        let candidate = Arc::new(C::new(&self.proxies[0], name, "first")?);
        ensure!(candidate.acquire().await?, "it is free");
        let held = self.hold(0);
        let renewal = tokio::spawn({
            let candidate = Arc::clone(&candidate);
            async move { candidate.acquire().await }
        });
        held.reached(1, PATIENCE).await?;
        self.take(name, "second").await?;
        // Beyond every deadline.
        tokio::time::sleep(Duration::from_secs(6)).await;
        held.release();
        let led = renewal.await??;
        self.proxies[0].clear_rules();
        Ok(led && self.holder(name).await?.as_deref() == Some("second"))
    }

    /// A step-down that is late: meanwhile another has taken over. Whether that one is cleared.
    pub async fn late<C: Candidate>(&self) -> Result<bool> {
        let name = "late";
        self.put_expired(name).await?;
        let candidate = Arc::new(C::new(&self.proxies[0], name, "first")?);
        ensure!(candidate.acquire().await?, "it is free");
        let held = self.hold(0);
        let release = tokio::spawn({
            let candidate = Arc::clone(&candidate);
            async move { candidate.step_down().await }
        });
        held.reached(1, PATIENCE).await?;
        self.take(name, "second").await?;
        held.release();
        release.await?;
        self.proxies[0].clear_rules();
        Ok(self.holder(name).await?.as_deref() != Some("second"))
    }

    /// Whether a Lease can be had that is free or long expired, and says so in this way; with the
    /// error, where there is one.
    pub async fn free<C: Candidate>(&self, without: &Free) -> Result<Result<bool, String>> {
        let mut spec = expired();
        for (field, value) in without.changes {
            spec[*field] = value.map_or(Value::Null, Value::from);
        }
        self.put("free", spec).await?;
        let candidate = C::new(&self.proxies[0], "free", "first")?;
        Ok(candidate.acquire().await.map_err(|error| error.to_string()))
    }
}

/// A way in which a Lease is free.
pub struct Free {
    /// In words.
    pub what: &'static str,
    changes: &'static [(&'static str, Option<&'static str>)],
}

/// Each differs from an expired Lease in what it names, and in nothing else.
pub const FREE: [Free; 4] = [
    Free {
        what: "given back (an empty holder) and expired: can be had",
        changes: &[("holderIdentity", Some(""))],
    },
    Free { what: "no holder, and expired: can be had", changes: &[("holderIdentity", None)] },
    Free {
        what: "an empty holder and no times: can be had",
        changes: &[("holderIdentity", Some("")), ("renewTime", None), ("acquireTime", None)],
    },
    Free {
        what: "expired, and without leaseTransitions: can be had",
        changes: &[("leaseTransitions", None)],
    },
];

/// A Lease whose holder is long dead.
fn expired() -> Value {
    let long_ago = "2020-01-01T00:00:00.000000Z";
    json!({
        "holderIdentity": "dead", "leaseDurationSeconds": 5, "leaseTransitions": 1,
        "acquireTime": long_ago, "renewTime": long_ago,
    })
}
