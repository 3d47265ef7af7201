//! etcd's own history of the three kinds, over its JSON gateway.
//!
//! Custom resources are plain JSON in etcd, and one watch from the first revision gives every commit
//! of all three kinds in one total order. Nothing is known here of who wrote what, or why.

use std::time::Duration;

use address_controller::api::well_known::GROUP;
use anyhow::{Context, Result, bail};
use axum::body::Body;
use futures::StreamExt;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use k8s_openapi::ByteString;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// How long the whole history may take to be read.
const READ: Duration = Duration::from_mins(5);

/// One commit to one key.
#[derive(Clone, Debug)]
pub(super) struct Commit {
    /// The revision that it made.
    pub revision: u64,
    /// The plural name of the kind.
    pub resource: String,
    /// The object's namespace, if its kind has any.
    pub namespace: Option<String>,
    /// The object's name.
    pub name: String,
    /// The object as it was stored; absent when it was deleted.
    pub value: Option<Vec<u8>>,
}

/// What exists now, in the order of the last changes, and the revision that this is.
pub(super) async fn now(url: &str) -> Result<(u64, Vec<Commit>)> {
    let ask = json!({ "key": text(&prefix()), "range_end": text(&end()),
                      "sort_order": "ASCEND", "sort_target": "MOD" });
    let answer: RangeAnswer = call(url, "/v3/kv/range", &ask).await?;
    let mut commits = Vec::with_capacity(answer.kvs.len());
    for kv in answer.kvs {
        commits.extend(commit(kv, false)?);
    }
    Ok((number(&answer.header.revision)?, commits))
}

/// Every commit from a revision on, up to now.
///
/// A watch does not say that it has caught up. So a key outside the registry, but inside the watched
/// range, is written first, and reading ends where it comes by.
///
/// # Errors
/// When etcd does not answer, or has compacted its history.
pub(super) async fn since(url: &str, from: u64) -> Result<Vec<Commit>> {
    let mark = json!({ "key": text(&mark()), "value": text("read up to here") });
    let answer: PutAnswer = call(url, "/v3/kv/put", &mark).await?;
    let until = number(&answer.header.revision)?;
    tokio::time::timeout(READ, watch(url, from, until))
        .await
        .context("etcd does not tell its history in time")?
}

async fn watch(url: &str, from: u64, until: u64) -> Result<Vec<Commit>> {
    let ask = json!({ "create_request": { "key": text(&prefix()), "range_end": text(&range_end()),
                                          "start_revision": from.max(1).to_string() } });
    let mut chunks = post(url, "/v3/watch", &ask).await?.into_data_stream();
    let mut commits = Vec::new();
    let mut line = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.context("the watch broke")?;
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if !piece.ends_with(b"\n") {
                continue;
            }
            let read: WatchLine = serde_json::from_slice(&line).context("a line of the watch")?;
            line.clear();
            let Some(result) = read.result else {
                bail!("etcd refuses the watch: {:?}", read.error)
            };
            if result.canceled {
                bail!(
                    "etcd ended the watch: {:?} {:?}",
                    result.cancel_reason,
                    result.compact_revision
                );
            }
            for event in result.events {
                if number(&event.kv.mod_revision)? >= until {
                    return Ok(commits);
                }
                commits.extend(commit(event.kv, event.kind.as_deref() == Some("DELETE"))?);
            }
        }
    }
    bail!("the watch ended before revision {until}")
}

/// The commit of a key, unless the key is not an object's.
fn commit(kv: KeyValue, deleted: bool) -> Result<Option<Commit>> {
    let key = String::from_utf8(kv.key.0).context("a key that is no text")?;
    let Some(path) = key.strip_prefix(&prefix()) else { return Ok(None) };
    let parts: Vec<_> = path.split('/').collect();
    let (resource, namespace, name) = match parts.as_slice() {
        [resource, name] => (resource, None, name),
        [resource, namespace, name] => (resource, Some(*namespace), name),
        _ => bail!("a key of an unknown form: {key}"),
    };
    Ok(Some(Commit {
        revision: number(&kv.mod_revision)?,
        resource: (*resource).to_owned(),
        namespace: namespace.map(str::to_owned),
        name: (*name).to_owned(),
        value: (!deleted).then_some(kv.value.0),
    }))
}

fn prefix() -> String {
    format!("/registry/{GROUP}/")
}

/// The end of the prefix: `0` comes after `/`.
fn end() -> String {
    format!("/registry/{GROUP}0")
}

fn mark() -> String {
    format!("/registry/{GROUP}0-testbed")
}

/// The end of the range that has the mark in it too.
fn range_end() -> String {
    format!("/registry/{GROUP}1")
}

fn text(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

/// The gateway writes 64-bit numbers as text.
fn number(text: &str) -> Result<u64> {
    text.parse().with_context(|| format!("{text:?} is no number"))
}

async fn call<T: DeserializeOwned>(url: &str, path: &str, ask: &Value) -> Result<T> {
    let answer = async {
        let body = post(url, path, ask).await?;
        anyhow::Ok(axum::body::to_bytes(body, usize::MAX).await?)
    };
    let bytes = tokio::time::timeout(READ, answer).await.context("etcd does not answer")??;
    serde_json::from_slice(&bytes).with_context(|| {
        format!("{path} answers {:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(300)]))
    })
}

async fn post(url: &str, path: &str, ask: &Value) -> Result<Body> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let request = http::Request::post(format!("{url}{path}"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Body::from(ask.to_string()))?;
    let response = client.request(request).await.with_context(|| format!("etcd at {url}"))?;
    Ok(Body::new(response.into_body()))
}

#[derive(Deserialize)]
struct Header {
    revision: String,
}

#[derive(Deserialize)]
struct PutAnswer {
    header: Header,
}

#[derive(Deserialize)]
struct RangeAnswer {
    header: Header,
    #[serde(default)]
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct KeyValue {
    key: ByteString,
    #[serde(default)]
    value: ByteString,
    mod_revision: String,
}

#[derive(Deserialize)]
struct WatchLine {
    result: Option<WatchResult>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct WatchResult {
    #[serde(default)]
    events: Vec<Event>,
    #[serde(default)]
    canceled: bool,
    cancel_reason: Option<String>,
    compact_revision: Option<String>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: Option<String>,
    kv: KeyValue,
}
