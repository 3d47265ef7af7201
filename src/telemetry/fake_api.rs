//! An API server for tests: a function from requests to answers, and a record of what was asked.

use std::sync::Arc;

use http::{Method, Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// A request as a test looks at it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// The body, or null.
    pub body: Value,
}

/// What was asked so far.
pub(crate) type Record = Arc<Mutex<Vec<Asked>>>;

/// A client whose requests `answer` answers with a status code and a body.
pub(crate) fn client(
    answer: impl Fn(&Asked) -> (u16, Value) + Send + Sync + 'static,
) -> (kube::Client, Record) {
    let record = Record::default();
    let seen = Arc::clone(&record);
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect_bytes().await?;
            let asked = Asked {
                method: parts.method,
                path: parts.uri.to_string(),
                body: serde_json::from_slice(&bytes).unwrap_or_default(),
            };
            let (code, body) = answer(&asked);
            seen.lock().push(asked);
            let body = if body.is_string() {
                body.as_str().unwrap_or("").into()
            } else {
                body.to_string()
            };
            Response::builder()
                .status(code)
                .body(Body::from(body.into_bytes()))
                .map_err(kube::Error::HttpError)
        }
    });
    (kube::Client::new(service, "default"), record)
}

/// A `Status` as the API server writes it.
pub(crate) fn status(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": message,
    });
    (code, body)
}

/// The answer of an authorizer that says no.
pub(crate) fn forbidden(verb: &str, resource: &str, group: &str) -> (u16, Value) {
    let message = format!(
        "{resource} is forbidden: User \"system:serviceaccount:x:y\" cannot {verb} resource \
         \"{resource}\" in API group \"{group}\" at the cluster scope"
    );
    status(403, "Forbidden", &message)
}
