//! Plain HTTP GETs, for probes and metrics.

use std::time::Duration;

use anyhow::{Context, Result};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};

/// The status and the text that a URL answers with, within two seconds.
///
/// # Errors
/// When nobody answers.
pub async fn get(url: &str) -> Result<(u16, String)> {
    // A client each time: none of its connections outlives the test's runtime or the server.
    let client = Client::builder(TokioExecutor::new()).build_http::<axum::body::Body>();
    let uri = url.parse().with_context(|| format!("{url} is no URL"))?;
    let answer = async {
        let response = client.get(uri).await?;
        let status = response.status().as_u16();
        let body = axum::body::Body::new(response.into_body());
        let bytes = axum::body::to_bytes(body, usize::MAX).await?;
        anyhow::Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
    };
    tokio::time::timeout(Duration::from_secs(2), answer)
        .await
        .with_context(|| format!("{url} does not answer"))?
}
