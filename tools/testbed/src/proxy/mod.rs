//! A proxy in front of the API server that makes the faults a test asks for, and counts requests.
//!
//! Plain HTTP on loopback; the caller's own credentials go through. Nothing happens to a request
//! that no [rule](Proxy::rule) matches. It runs on a thread of its own: a test that blocks does not
//! stop it, nor does it share a runtime with what it disturbs.

mod connection;
mod forward;
mod request;
mod rules;
mod watches;

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result};

pub use request::{Request, Verb};
pub use rules::{Act, Go, Match, RuleHandle};
pub use watches::Freeze;

use crate::{ControlPlane, wait::try_eventually};

/// A running proxy. All its connections end when it is dropped.
pub struct Proxy {
    url: String,
    state: Arc<forward::State>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Proxy {
    /// Starts a proxy in front of a control plane's API server.
    ///
    /// # Errors
    /// When there is no port or no thread to be had.
    pub fn start(controlplane: &ControlPlane) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("fault-proxy")
            .enable_all()
            .build()?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let url = format!("http://{}", listener.local_addr()?);
        let state = Arc::new(forward::State::new(controlplane.config()?)?);
        let serving = state.clone();
        {
            let _inside = runtime.enter();
            let listener = tokio::net::TcpListener::from_std(listener)?;
            runtime.spawn(async move { forward::serve(listener, serving).await });
        }
        Ok(Self { url, state, runtime: Some(runtime) })
    }

    /// The proxy's URL, to be the server in a [kubeconfig](ControlPlane::kubeconfig).
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A kubeconfig of a caller that goes through this proxy.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn kubeconfig(&self, controlplane: &ControlPlane, token: &str) -> Result<PathBuf> {
        controlplane.kubeconfig(token, Some(&self.url))
    }

    /// A client of a caller that goes through this proxy. Nothing is retried by itself.
    ///
    /// # Errors
    /// Outside a runtime.
    pub fn client(&self, token: &str) -> Result<kube::Client> {
        let mut config = kube::Config::new(self.url.parse()?);
        config.auth_info.token = Some(token.to_owned().into());
        config.default_retry = false;
        let agent = http::HeaderValue::from_static(crate::controlplane::USER_AGENT);
        config.headers.push((http::header::USER_AGENT, agent));
        Ok(kube::Client::try_from(config)?)
    }

    /// Does `act` to the requests that match, from now on. Of several rules that match a request,
    /// the first that was given acts.
    pub fn rule(&self, matching: Match, act: Act) -> RuleHandle {
        self.state.rules.add(matching, act)
    }

    /// Forgets all rules, and lets go what they hold.
    pub fn clear_rules(&self) {
        self.state.rules.clear();
    }

    /// Every request so far, in the order in which they came.
    pub fn requests(&self) -> Vec<Request> {
        self.state.requests.lock().clone()
    }

    /// The requests so far that match; how often a rule may act plays no part.
    pub fn matching(&self, matching: &Match) -> Vec<Request> {
        self.requests().into_iter().filter(|request| matching.matches(request)).collect()
    }

    /// How many requests so far match.
    pub fn count(&self, matching: &Match) -> usize {
        self.state.requests.lock().iter().filter(|request| matching.matches(request)).count()
    }

    /// Forgets the requests so far.
    pub fn forget_requests(&self) {
        self.state.forget_requests();
    }

    /// How long ago the last request that matches came, of those that are not forgotten.
    pub fn since_last(&self, matching: &Match) -> Option<Duration> {
        let requests = self.state.requests.lock();
        requests.iter().rev().find(|r| matching.matches(r)).map(|r| r.at.elapsed())
    }

    /// Sends what comes from now on to another API server with the same certificate. Watches that
    /// are open stay where they are.
    ///
    /// # Errors
    /// When that is no URL.
    pub fn point_at(&self, url: &str) -> Result<()> {
        self.state.point_at(url.parse()?);
        Ok(())
    }

    /// Waits until `count` requests that match have come.
    ///
    /// # Errors
    /// When fewer have come within `bound`.
    pub async fn wait_for(&self, matching: &Match, count: usize, bound: Duration) -> Result<()> {
        try_eventually(bound, &format!("{count} requests"), || async {
            let seen = self.count(matching);
            anyhow::ensure!(seen >= count, "{seen} requests");
            Ok(())
        })
        .await
        .context("at the fault proxy")
    }

    /// Passes no more bytes on the open watches of a resource (`ipaddresses`), while their
    /// connections stay open; with [`Freeze::NewOnesToo`], on later ones neither.
    pub fn freeze_watches(&self, resource: &str, freeze: Freeze) {
        self.state.watches.freeze(resource, freeze);
    }

    /// Passes on what was held back on the watches of a resource, and goes on.
    pub fn thaw_watches(&self, resource: &str) {
        self.state.watches.thaw(resource);
    }

    /// Cuts the open watches of a resource in the middle; gives how many there were.
    pub fn cut_watches(&self, resource: &str) -> usize {
        self.state.watches.cut(resource)
    }

    /// How many watches of a resource are open.
    pub fn open_watches(&self, resource: &str) -> usize {
        self.state.watches.open(resource)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A runtime must not be waited for inside another.
            runtime.shutdown_background();
        }
    }
}
