//! One request's way through the proxy: rule, API server, answer.

use std::sync::Arc;

use anyhow::Result;
use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, State as Shared},
};
use futures::future::BoxFuture;
use http::{HeaderMap, Response, StatusCode, header, request::Parts};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use kube::client::ConfigExt;
use parking_lot::{Mutex, RwLock};
use tokio::net::TcpListener;

use super::{
    connection::{Cut, CuttableListener},
    request::{Request, Verb},
    rules::{Act, Go, Rule, Rules},
    watches::Watches,
};

type Upstream =
    Arc<dyn Fn(http::Request<Body>) -> BoxFuture<'static, Result<Response<Body>>> + Send + Sync>;

/// What the proxy knows.
pub(super) struct State {
    pub(super) rules: Rules,
    pub(super) watches: Watches,
    pub(super) requests: Mutex<Vec<Request>>,
    /// How often requests were forgotten: an index from before points at nothing.
    era: Mutex<usize>,
    upstream: Upstream,
    server: RwLock<http::Uri>,
}

impl State {
    pub(super) fn new(config: kube::Config) -> Result<Self> {
        let connector = config.rustls_https_connector()?;
        let client = Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
        let upstream: Upstream = Arc::new(move |request| {
            let answer = client.request(request);
            Box::pin(async move { Ok(answer.await?.map(Body::new)) })
        });
        Ok(Self {
            rules: Rules::default(),
            watches: Watches::default(),
            requests: Mutex::default(),
            era: Mutex::default(),
            upstream,
            server: RwLock::new(config.cluster_url),
        })
    }

    /// Sends what comes from now on to another server.
    pub(super) fn point_at(&self, server: http::Uri) {
        *self.server.write() = server;
    }

    pub(super) fn forget_requests(&self) {
        let mut requests = self.requests.lock();
        *self.era.lock() += 1;
        requests.clear();
    }

    fn record(&self, request: Request) -> (usize, usize) {
        let mut requests = self.requests.lock();
        requests.push(request);
        (*self.era.lock(), requests.len() - 1)
    }

    fn record_status(&self, (era, index): (usize, usize), status: StatusCode) {
        let mut requests = self.requests.lock();
        if *self.era.lock() == era {
            requests[index].status = Some(status.as_u16());
        }
    }
}

/// Serves until the runtime ends.
pub(super) async fn serve(listener: TcpListener, state: Arc<State>) {
    let router = Router::new().fallback(handle).with_state(state);
    let service = router.into_make_service_with_connect_info::<Cut>();
    let _ = axum::serve(CuttableListener(listener), service).await;
}

async fn handle(
    ConnectInfo(cut): ConnectInfo<Cut>,
    Shared(state): Shared<Arc<State>>,
    request: http::Request<Body>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, usize::MAX).await else {
        return dropped(&cut);
    };
    let request = Request::new(&parts, &body);
    let number = state.record(request.clone());
    let rule = state.rules.first(&request);
    let answer = match rule {
        None => pass(&state, parts, body.into(), &request).await,
        Some(rule) => disturb(&state, &rule, parts, body.into(), request).await,
    };
    match answer {
        Some(answer) => {
            state.record_status(number, answer.status());
            answer
        }
        None => dropped(&cut),
    }
}

/// Closes the connection; the answer only makes the server notice.
fn dropped(cut: &Cut) -> Response<Body> {
    cut.cut();
    Response::new(Body::empty())
}

/// The answer as a rule has it; nothing where the connection is to be closed.
async fn disturb(
    state: &State,
    rule: &Rule,
    parts: Parts,
    body: Body,
    request: Request,
) -> Option<Response<Body>> {
    match &rule.act {
        Act::Answer { status, retry_after } => return Some(failure(*status, *retry_after)),
        Act::Drop => return None,
        Act::Delay(time) => tokio::time::sleep(*time).await,
        Act::Hold => rule.released().await,
        Act::Before(hook) => go(hook.clone(), request.clone()).await?,
        Act::AnswerAfter(_) | Act::DropAfter | Act::HoldAnswer | Act::After(_) => {}
    }
    let answer = pass(state, parts, body, &request).await?;
    match &rule.act {
        Act::AnswerAfter(status) => return Some(failure(*status, None)),
        Act::DropAfter => return None,
        Act::HoldAnswer => rule.released().await,
        Act::After(hook) => {
            let status = Some(answer.status().as_u16());
            go(hook.clone(), Request { status, ..request }).await?;
        }
        Act::Answer { .. } | Act::Drop | Act::Delay(_) | Act::Hold | Act::Before(_) => {}
    }
    Some(answer)
}

/// Runs a test's hook where it may block; nothing means that the connection is to be closed.
async fn go(hook: Arc<dyn Fn(&Request) -> Go + Send + Sync>, request: Request) -> Option<()> {
    // A hook that panics has failed its test; the request goes no further.
    let go = tokio::task::spawn_blocking(move || hook(&request)).await.unwrap_or(Go::Drop);
    (go == Go::On).then_some(())
}

/// The API server's own answer; nothing where it gives none. That of a write is complete: it has taken effect.
async fn pass(
    state: &State,
    mut parts: Parts,
    body: Body,
    request: &Request,
) -> Option<Response<Body>> {
    let mut uri = std::mem::take(&mut parts.uri).into_parts();
    let server = state.server.read().clone();
    uri.scheme = server.scheme().cloned();
    uri.authority = server.authority().cloned();
    parts.uri = http::Uri::from_parts(uri).ok()?;
    parts.headers.remove(header::HOST);
    between_two_only(&mut parts.headers);
    let answer = (state.upstream)(http::Request::from_parts(parts, body)).await.ok()?;
    let (mut parts, body) = answer.into_parts();
    between_two_only(&mut parts.headers);
    let body = match request.verb {
        Verb::Watch => state.watches.pass(&request.resource, body),
        verb if verb.is_write() => axum::body::to_bytes(body, usize::MAX).await.ok()?.into(),
        _ => body,
    };
    Some(Response::from_parts(parts, body))
}

/// Takes out the headers that are about one connection and not about what it carries.
fn between_two_only(headers: &mut HeaderMap) {
    for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE, header::TE] {
        headers.remove(name);
    }
}

/// A failure as the API server words it.
fn failure(status: u16, retry_after: Option<u64>) -> Response<Body> {
    let code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let text = serde_json::json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": format!("the fault proxy answers {status}"),
        "reason": reason(status),
        "code": status,
    });
    let mut answer = Response::new(Body::from(text.to_string()));
    *answer.status_mut() = code;
    let json = header::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    if let Some(seconds) = retry_after {
        let seconds = seconds.into();
        answer.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    answer
}

fn reason(status: u16) -> &'static str {
    match status {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    }
}
