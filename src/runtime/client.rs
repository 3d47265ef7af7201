//! The client for the API server: what it is called, how long it waits, how much it asks at once.

use std::time::Duration;

use anyhow::Context as _;
use http::{HeaderValue, Request, Response, header::USER_AGENT};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder},
    config::{KubeConfigOptions, Kubeconfig},
};
use tower::{BoxError, Layer, Service, limit::ConcurrencyLimitLayer};

use super::{args::Settings, patience::Patience};
use crate::api::well_known::MANAGER;

/// A connection is there within a few round trips, or the server is not.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long after its time-out a watch's connection may still be silent. kube itself gives up on
/// the watch 5 s after it; the socket goes later, so that it is kube who notices and starts anew.
const READ_MARGIN: Duration = Duration::from_secs(15);

/// A list of everything is large, and may wait for its turn on the server.
const LIST_TIMEOUT: Duration = Duration::from_mins(1);

/// The clients of a process.
#[derive(Clone)]
pub struct Clients {
    /// For everything but Leases.
    pub work: Client,
    /// For Leases: of its own, so that a renewal never stands in line behind work, and impatient.
    pub leases: Client,
}

impl Clients {
    /// One client for both; for tests.
    pub fn same(client: Client) -> Self {
        Self { work: client.clone(), leases: client }
    }

    /// Clients that behave as the settings say, over any way to an API server.
    pub fn over<S>(way: S, settings: &Settings) -> Self
    where
        S: Service<Request<Body>, Response = Response<axum::body::Body>, Error = BoxError>,
        S: Clone + Send + 'static,
        S::Future: Send + 'static,
    {
        let (short, attempt) = (settings.request_timeout, settings.lease_attempt_timeout);
        let limit = ConcurrencyLimitLayer::new(usize::from(settings.max_requests_in_flight));
        let work = limit.layer(Patience::layer(short, LIST_TIMEOUT).layer(way.clone()));
        let leases = Patience::layer(attempt, attempt).layer(way);
        Self { work: Client::new(work, "default"), leases: Client::new(leases, "default") }
    }
}

/// Clients that behave as the settings say. Nothing is connected yet.
///
/// # Errors
/// There is no usable configuration; the message says what was tried.
pub async fn build(settings: &Settings) -> anyhow::Result<Clients> {
    let mut config = configuration(settings).await?;
    configure(&mut config, settings)?;
    if config.accept_invalid_certs {
        tracing::warn!("the kubeconfig says not to check the API server's certificate");
    }
    let builder = |config: Config| {
        ClientBuilder::try_from(config)
            .context("the configuration of the API server's client is not usable")
    };
    // The limit is outermost: what waits for its turn is not yet being timed.
    let work = builder(config.clone())?
        .with_layer(&Patience::layer(settings.request_timeout, LIST_TIMEOUT))
        .with_layer(&ConcurrencyLimitLayer::new(usize::from(settings.max_requests_in_flight)))
        .build();
    let attempt = settings.lease_attempt_timeout;
    let leases = builder(config)?.with_layer(&Patience::layer(attempt, attempt)).build();
    Ok(Clients { work, leases })
}

/// The kubeconfig that was named, else whatever kube finds.
async fn configuration(settings: &Settings) -> anyhow::Result<Config> {
    if settings.kubeconfig.is_none() && settings.context.is_none() {
        return Config::infer()
            .await
            .context("no way to the API server: neither a kubeconfig nor a pod's service account");
    }
    let options =
        KubeConfigOptions { context: settings.context.clone(), ..KubeConfigOptions::default() };
    let read = match &settings.kubeconfig {
        Some(file) => Kubeconfig::read_from(file)
            .with_context(|| format!("--kubeconfig={}: cannot be read", file.display()))?,
        None => Kubeconfig::read().context("no kubeconfig to find --context in")?,
    };
    Config::from_custom_kubeconfig(read, &options)
        .await
        .context("the kubeconfig is not usable (--kubeconfig, --context)")
}

fn configure(config: &mut Config, settings: &Settings) -> anyhow::Result<()> {
    // What failed is looked at again by whoever asked, with fresh eyes and a pause per object: a
    // conditional write that is repeated blindly can only lose, and repetitions below would hide
    // an overloaded server from the pauses above.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.write_timeout = Some(settings.request_timeout);
    // Per connection, and the connection of a watch is silent for as long as nothing happens. So
    // this only frees sockets whose other end is gone; requests are timed one by one by Patience.
    config.read_timeout = Some(settings.watch_timeout + READ_MARGIN);
    // Without this the idle time of a pooled connection counts against the next request on it.
    config.reset_reader_on_write = true;
    let version = env!("CARGO_PKG_VERSION");
    let name = HeaderValue::from_str(&format!("{MANAGER}/{version} ({})", settings.identity))?;
    config.headers.push((USER_AGENT, name));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(flags: &[&str]) -> Settings {
        Settings::from_flags(flags.iter().copied()).expect("good flags")
    }

    #[test]
    fn a_watch_is_never_cut_by_the_read_timeout() {
        for watch in ["30s", "60s"] {
            let settings = settings(&[&format!("--watch-timeout={watch}"), "--request-timeout=1s"]);
            let mut config = Config::new(http::Uri::from_static("http://localhost"));
            configure(&mut config, &settings).expect("a configuration");
            // kube gives up 5 s after the watch's time-out.
            let kube = settings.watch_timeout + Duration::from_secs(5);
            assert!(config.read_timeout.is_some_and(|t| t > kube), "{:?}", config.read_timeout);
        }
    }

    #[test]
    fn it_says_who_it_is_and_does_not_repeat_by_itself() {
        let mut config = Config::new(http::Uri::from_static("http://localhost"));
        configure(&mut config, &settings(&["--identity=pod-0"])).expect("a configuration");
        let (_, name) = config.headers.iter().find(|(n, _)| n == USER_AGENT).expect("a user agent");
        assert_eq!(name, &format!("address-controller/{} (pod-0)", env!("CARGO_PKG_VERSION")));
        assert!(!config.default_retry);
    }

    #[tokio::test]
    async fn a_kubeconfig_that_is_not_there_is_named() {
        let settings = settings(&["--kubeconfig=/nowhere/kubeconfig"]);
        let error = build(&settings).await.err().expect("an error").to_string();
        assert!(error.contains("--kubeconfig=/nowhere/kubeconfig"), "{error}");
    }
}
