//! A candidate, of either kind, behind a proxy of its own.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use address_controller::{
    clock::Clock,
    lease::{Ask, Keeper, LeaseClient, Record, Tenure, Terms, Times},
};
use anyhow::Result;
use kube_leader_election::{LeaseLock, LeaseLockParams, LeaseLockResult};
use testbed::{Proxy, controlplane::ADMIN_TOKEN};

/// Where the Leases are.
pub const NAMESPACE: &str = "default";

/// One that wants to hold a Lease.
pub trait Candidate: Send + Sync + Sized + 'static {
    /// For a Lease, under a name of its own.
    fn new(proxy: &Proxy, lease: &str, holder: &str) -> Result<Self>;
    /// Asks once for the Lease, be it to get it or to keep it. Whether it is told that it leads.
    ///
    /// # Errors
    /// Its own, in place of a word.
    fn acquire(&self) -> impl Future<Output = Result<bool>> + Send;
    /// Whether it believes at this moment that it leads.
    fn leads(&self) -> bool;
    /// Gives the Lease back.
    fn step_down(&self) -> impl Future<Output = ()> + Send;
}

/// kube-leader-election's. It has no belief of its own: whoever uses it goes by the last answer.
pub struct Theirs {
    lock: LeaseLock,
    told: AtomicBool,
}

impl Candidate for Theirs {
    fn new(proxy: &Proxy, lease: &str, holder: &str) -> Result<Self> {
        let mut config = kube4::Config::new(proxy.url().parse()?);
        config.auth_info.token = Some(ADMIN_TOKEN.to_owned().into());
        let params = LeaseLockParams {
            lease_name: lease.to_owned(),
            holder_id: holder.to_owned(),
            lease_ttl: Times::default().duration,
        };
        let lock = LeaseLock::new(kube4::Client::try_from(config)?, NAMESPACE, params);
        Ok(Self { lock, told: AtomicBool::new(false) })
    }

    async fn acquire(&self) -> Result<bool> {
        let answer = self.lock.try_acquire_or_renew().await;
        let told = matches!(answer, Ok(LeaseLockResult::Acquired(_)));
        self.told.store(told, Ordering::SeqCst);
        answer?;
        Ok(told)
    }

    fn leads(&self) -> bool {
        self.told.load(Ordering::SeqCst)
    }

    async fn step_down(&self) {
        self.told.store(false, Ordering::SeqCst);
        let _ = self.lock.step_down().await;
    }
}

/// Our own.
pub struct Ours {
    lease: String,
    api: LeaseClient,
    keeper: Mutex<Keeper>,
    tenure: Tenure,
    clock: Clock,
}

impl Ours {
    /// One request. Returns whether to look again.
    async fn carry_out(&self, ask: &Ask) -> bool {
        let sent = self.clock.now().elapsed;
        let answer = self.api.ask(&self.lease, ask).await;
        self.keeper().answered(ask, sent, &answer)
    }

    fn keeper(&self) -> std::sync::MutexGuard<'_, Keeper> {
        self.keeper.lock().expect("no thread has panicked with it")
    }
}

/// A Lease that somebody else holds is taken where that one was judged to be dead. Here the ones that
/// are called so are: how ours judges (`lease::Roll`) is not tried here.
fn is_dead(record: Option<&Record>) -> bool {
    record.is_none_or(|record| record.holder().is_some_and(|holder| holder.starts_with("dead")))
}

impl Candidate for Ours {
    fn new(proxy: &Proxy, lease: &str, holder: &str) -> Result<Self> {
        let (clock, mut times) = (Clock::boot(), Times::default());
        // A request is held for as long as the other one takes.
        times.attempt = Duration::from_secs(30);
        let tenure = Tenure::new(clock.clone());
        let terms = Terms {
            name: lease.to_owned(),
            holder: holder.to_owned(),
            duration: times.duration,
            labels: BTreeMap::new(),
            pod_uid: None,
            owner: None,
        };
        let api = LeaseClient::new(proxy.client(ADMIN_TOKEN)?, NAMESPACE, times.attempt);
        let keeper = Mutex::new(Keeper::new(terms, times, tenure.clone()));
        Ok(Self { lease: lease.to_owned(), api, keeper, tenure, clock })
    }

    async fn acquire(&self) -> Result<bool> {
        loop {
            let now = self.clock.now().wall;
            let Some(ask) = self.keeper().next(now, is_dead) else { break };
            if !self.carry_out(&ask).await {
                break;
            }
        }
        Ok(self.leads())
    }

    fn leads(&self) -> bool {
        self.tenure.holds()
    }

    async fn step_down(&self) {
        let ask = self.keeper().release(self.clock.now().wall);
        if let Some(ask) = ask {
            self.carry_out(&ask).await;
        }
    }
}
