//! The HTTP listeners: probes, metrics, and what a person at the pod may look at.
//!
//! Plain HTTP without authentication, like every probe; `/debug` names objects and therefore
//! answers only callers on the same host, such as `kubectl port-forward`.

use std::{future::IntoFuture, io, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::{ConnectInfo, Path, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::get,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{args::Settings, debug::Debug, health::Health, tasks::Task, values::Bind};
use crate::telemetry::{Metrics, metrics};

/// Liveness, readiness, and the name that Go programs give to liveness.
pub fn probes(health: Health) -> Router {
    Router::new()
        .route("/livez", get(alive))
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .with_state(health)
}

/// Metrics, and what was offered to be looked at.
pub fn inspection(metrics: Arc<Metrics>, debug: Debug) -> Router {
    let debug = Router::new()
        .route("/debug", get(debug_names))
        .route("/debug/{name}", get(debug_page))
        .with_state(debug);
    Router::new().route("/metrics", get(read_metrics)).with_state(metrics).merge(debug)
}

/// That it answers is the answer.
async fn alive() -> &'static str {
    "ok\n"
}

async fn ready(State(health): State<Health>) -> (StatusCode, String) {
    let verdict = health.verdict();
    let code = if verdict.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, format!("{}\n", verdict.reason))
}

async fn read_metrics(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics.encode())
}

async fn debug_names(
    State(debug): State<Debug>,
    ConnectInfo(caller): ConnectInfo<SocketAddr>,
) -> (StatusCode, String) {
    local(caller, || Some(debug.names().iter().flat_map(|n| ["/debug/", n, "\n"]).collect()))
}

async fn debug_page(
    State(debug): State<Debug>,
    ConnectInfo(caller): ConnectInfo<SocketAddr>,
    Path(name): Path<String>,
) -> (StatusCode, String) {
    local(caller, || debug.page(&name))
}

fn local(caller: SocketAddr, page: impl FnOnce() -> Option<String>) -> (StatusCode, String) {
    if !caller.ip().to_canonical().is_loopback() {
        let how = "only from this host: kubectl port-forward\n";
        return (StatusCode::FORBIDDEN, how.to_owned());
    }
    page().map_or((StatusCode::NOT_FOUND, "no such page\n".to_owned()), |p| (StatusCode::OK, p))
}

/// Opens the listeners that the settings ask for: one where both are at one address.
///
/// # Errors
/// An address that cannot be listened on; the message names the flag.
pub async fn listen(
    settings: &Settings,
    probes: Router,
    inspection: Router,
    stop: &CancellationToken,
) -> anyhow::Result<Vec<Task>> {
    let (health, metrics) = (&settings.health_probe_bind_address, &settings.metrics_bind_address);
    let asked = if health == metrics {
        vec![("health-probe-bind-address", health, probes.merge(inspection))]
    } else {
        vec![
            ("health-probe-bind-address", health, probes),
            ("metrics-bind-address", metrics, inspection),
        ]
    };
    let mut tasks = Vec::new();
    for (flag, bind, router) in asked {
        let listener = open(bind)
            .await
            .map_err(|e| anyhow::anyhow!("--{flag}={bind}: cannot listen there: {e}"))?;
        if let Some(listener) = listener {
            tracing::info!(flag, address = %listener.local_addr()?, "listening");
            tasks.push(serve(flag, listener, router, stop.clone()));
        }
    }
    Ok(tasks)
}

fn serve(
    flag: &'static str,
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
) -> Task {
    Task::new(flag, async move {
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        // Not axum's graceful shutdown: it waits for connections that whoever reads metrics keeps.
        let served = stop.run_until_cancelled(axum::serve(listener, service).into_future()).await;
        Ok(served.unwrap_or(Ok(()))?)
    })
}

async fn open(bind: &Bind) -> io::Result<Option<TcpListener>> {
    match bind {
        Bind::Off => Ok(None),
        Bind::Host { host, port } => TcpListener::bind((host.as_str(), *port)).await.map(Some),
        // One socket for both families, or for IPv4 alone on a machine without IPv6.
        Bind::All { port } => match TcpListener::bind(("::", *port)).await {
            Err(e) if e.kind() != io::ErrorKind::AddrInUse => {
                TcpListener::bind(("0.0.0.0", *port)).await.map(Some)
            }
            bound => bound.map(Some),
        },
    }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use http::Request;
    use tower::ServiceExt;

    use super::*;

    async fn got(router: &Router, path: &str, caller: &str) -> (StatusCode, String) {
        let mut request = Request::get(path).body(Body::empty()).expect("a request");
        let caller: SocketAddr = caller.parse().expect("an address");
        request.extensions_mut().insert(ConnectInfo(caller));
        let response = router.clone().oneshot(request).await.expect("an answer");
        let code = response.status();
        let body = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
        (code, String::from_utf8(body.to_vec()).expect("text"))
    }

    const HERE: &str = "127.0.0.1:1";

    #[tokio::test]
    async fn readiness_says_why_and_liveness_does_not_depend_on_it() {
        let health = Health::new();
        let router = probes(health.clone());
        health.not_ready("the API server cannot be reached");
        let refused =
            (StatusCode::SERVICE_UNAVAILABLE, "the API server cannot be reached\n".into());
        assert_eq!(got(&router, "/readyz", HERE).await, refused);
        for path in ["/livez", "/healthz"] {
            assert_eq!(got(&router, path, HERE).await, (StatusCode::OK, "ok\n".into()));
        }
        health.set_ready("serving");
        assert_eq!(got(&router, "/readyz", HERE).await, (StatusCode::OK, "serving\n".into()));
    }

    #[tokio::test]
    async fn metrics_are_served() {
        let router = inspection(Arc::default(), Debug::default());
        let (code, body) = got(&router, "/metrics", "192.0.2.1:1").await;
        assert_eq!(code, StatusCode::OK);
        assert!(body.contains("address_controller_passes_total"));
    }

    #[tokio::test]
    async fn debug_pages_are_for_callers_on_this_host() {
        let debug = Debug::default();
        debug.offer("index", || "a1 Bound\n".to_owned());
        let router = inspection(Arc::default(), debug);
        for here in [HERE, "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(got(&router, "/debug", here).await.1, "/debug/index\n");
            assert_eq!(got(&router, "/debug/index", here).await.1, "a1 Bound\n");
        }
        assert_eq!(got(&router, "/debug/nothing", HERE).await.0, StatusCode::NOT_FOUND);
        for path in ["/debug", "/debug/index"] {
            assert_eq!(got(&router, path, "192.0.2.1:1").await.0, StatusCode::FORBIDDEN);
        }
    }

    #[tokio::test]
    async fn one_address_for_both_needs_one_listener() {
        let started = async |flags: [&str; 2]| {
            let settings = Settings::from_flags(flags).expect("flags");
            let router = inspection(Arc::default(), Debug::default());
            let stop = CancellationToken::new();
            listen(&settings, probes(Health::new()), router, &stop).await.map(|tasks| tasks.len())
        };
        let (metrics, health) = ("--metrics-bind-address", "--health-probe-bind-address");
        let here = "127.0.0.1:0";
        for (m, h, count) in [(here, here, 1), (here, "[::1]:0", 2), ("0", here, 1), ("0", "0", 0)]
        {
            let flags = [format!("{metrics}={m}"), format!("{health}={h}")];
            let tasks = started([&flags[0], &flags[1]]).await.expect("listeners");
            assert_eq!(tasks, count, "{flags:?}");
        }
        let taken = std::net::TcpListener::bind(here).expect("a port");
        let flag = format!("{metrics}={}", taken.local_addr().expect("its address"));
        let error = started([&flag, "--health-probe-bind-address=0"]).await.expect_err("taken");
        assert!(error.to_string().starts_with(&flag), "{error}");
    }
}
