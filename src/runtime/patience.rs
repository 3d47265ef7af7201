//! How long a request may take, answer included.
//!
//! kube's own time-outs are per connection, where a watch that is silent for a minute is healthy
//! and a write that is silent for a minute is not. Here each request is timed by what it is.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Bytes, HttpBody, to_bytes};
use futures::{FutureExt, TryFutureExt, future::BoxFuture};
use http::{Method, Request, Response};
use kube::client::Body;
use tower::{BoxError, Layer, Service};

/// No answer came in time. Whether the request was carried out is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no answer within {0:?}")]
pub struct Unanswered(pub Duration);

/// What is asked for, as far as patience goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    /// Its answer begins at once and goes on for as long as the watch does.
    Watch,
    /// Its answer is long.
    List,
    /// Everything else, and every write.
    Short,
}

impl Ask {
    fn of(request: &Request<Body>) -> Self {
        let query = request.uri().query().unwrap_or("");
        let has = |name: &str| query.split('&').any(|p| p.split('=').next() == Some(name));
        if has("watch") {
            Self::Watch
        } else if request.method() == Method::GET && (has("limit") || has("resourceVersionMatch")) {
            Self::List
        } else {
            Self::Short
        }
    }
}

/// A service whose every request ends.
#[derive(Clone, Debug)]
pub struct Patience<S> {
    inner: S,
    short: Duration,
    list: Duration,
}

impl Patience<()> {
    /// Makes services patient for so long, and for a list at least for `list`.
    pub fn layer<S>(short: Duration, list: Duration) -> impl Layer<S, Service = Patience<S>> {
        tower::layer::layer_fn(move |inner| Patience { inner, short, list: list.max(short) })
    }
}

impl<S, B> Service<Request<Body>> for Patience<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<axum::body::Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let ask = Ask::of(&request);
        let answer = self.inner.call(request).map_ok(|r| r.map(axum::body::Body::new));
        match ask {
            Ask::Watch => within(self.short, answer).boxed(),
            Ask::List => within(self.list, answer.and_then(whole)).boxed(),
            Ask::Short => within(self.short, answer.and_then(whole)).boxed(),
        }
    }
}

async fn within<T>(
    patience: Duration,
    answer: impl Future<Output = Result<T, BoxError>>,
) -> Result<T, BoxError> {
    tokio::time::timeout(patience, answer).await.map_err(|_| Unanswered(patience))?
}

/// The answer with all of its body: a body that never ends is no answer.
async fn whole(answer: Response<axum::body::Body>) -> Result<Response<axum::body::Body>, BoxError> {
    let (head, body) = answer.into_parts();
    // The API server is trusted with the size of its answers, as kube does.
    let bytes = to_bytes(body, usize::MAX).await?;
    Ok(Response::from_parts(head, bytes.into()))
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures::{StreamExt, stream};
    use tower::{ServiceExt, service_fn};

    use super::*;

    const SHORT: Duration = Duration::from_secs(15);
    const LIST: Duration = Duration::from_mins(1);

    fn request(method: Method, path: &str) -> Request<Body> {
        Request::builder().method(method).uri(path).body(Body::empty()).expect("a request")
    }

    /// A body of one piece, and then nothing more.
    fn stalled() -> axum::body::Body {
        let piece = stream::once(ready(Ok::<_, BoxError>("{")));
        axum::body::Body::from_stream(piece.chain(stream::pending()))
    }

    async fn took(request: Request<Body>, silent: bool) -> Result<Duration, (String, Duration)> {
        let start = tokio::time::Instant::now();
        let service = service_fn(move |_| async move {
            if silent { pending().await } else { Ok(Response::new(stalled())) }
        });
        let answer = Patience::layer(SHORT, LIST).layer(service).oneshot(request).await;
        let took = start.elapsed();
        answer.map(|_| took).map_err(|e| (e.to_string(), took))
    }

    #[tokio::test(start_paused = true)]
    async fn every_request_ends_whether_head_or_body_is_missing() {
        for silent in [true, false] {
            for (method, path, patience) in [
                (Method::PATCH, "/apis/x/v1/ipaddresses/a1", SHORT),
                (Method::GET, "/apis/x/v1/ipaddresses/watch", SHORT),
                (Method::GET, "/apis/x/v1/ipaddresses?limit=500", LIST),
                (Method::GET, "/apis/x/v1/ipaddresses?resourceVersionMatch=Exact", LIST),
                (Method::DELETE, "/apis/x/v1/ipaddresses?limit=500", SHORT),
            ] {
                let (error, took) = took(request(method, path), silent).await.expect_err(path);
                assert_eq!(error, Unanswered(patience).to_string());
                assert_eq!(took, patience, "{path}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_must_begin_soon_and_may_then_be_silent() {
        let watch = || request(Method::GET, "/apis/x/v1/ipaddresses?watch=true&timeoutSeconds=45");
        assert_eq!(took(watch(), false).await, Ok(Duration::ZERO));
        assert!(took(watch(), true).await.is_err_and(|(_, took)| took == SHORT));
    }
}
