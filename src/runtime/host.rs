//! What the surroundings say about this process: its name and its namespace.

use std::{env, fs};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::Value;

use crate::shard::Pod;

/// Written into every pod by the kubelet.
const SERVICE_ACCOUNT_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// `POD_NAME`, else the host's name (which in a pod is the pod's).
pub fn identity() -> String {
    first([
        env::var("POD_NAME").ok(),
        fs::read_to_string("/proc/sys/kernel/hostname").ok(),
        env::var("HOSTNAME").ok(),
    ])
    .unwrap_or_else(|| "localhost".to_owned())
}

/// `POD_NAMESPACE`, else that of the pod's service account, else `default`.
pub fn namespace() -> String {
    first([env::var("POD_NAMESPACE").ok(), fs::read_to_string(SERVICE_ACCOUNT_NAMESPACE).ok()])
        .unwrap_or_else(|| "default".to_owned())
}

/// The token that the kubelet keeps fresh; it says which pod it was made for.
const SERVICE_ACCOUNT_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// The pod that this process runs in, by `POD_UID` (and `POD_NAME`), else by its service account's
/// token; none outside a pod.
pub fn pod() -> Option<Pod> {
    let said = |name: &str| first([env::var(name).ok()]);
    if let Some(uid) = said("POD_UID") {
        return Some(Pod { name: said("POD_NAME"), uid });
    }
    pod_of(&fs::read_to_string(SERVICE_ACCOUNT_TOKEN).ok()?)
}

/// The pod that a token was made for. Whether it is genuine is the API server's business: it is
/// ours, and what is read from it decides over our own Lease alone.
fn pod_of(token: &str) -> Option<Pod> {
    let claims = URL_SAFE_NO_PAD.decode(token.trim().split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let pod = claims.get("kubernetes.io")?.get("pod")?;
    let text = |field: &str| pod.get(field)?.as_str().map(str::to_owned);
    Some(Pod { name: text("name"), uid: text("uid")? })
}

/// The first that says anything.
fn first<const N: usize>(candidates: [Option<String>; N]) -> Option<String> {
    candidates.into_iter().flatten().map(|c| c.trim().to_owned()).find(|c| !c.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_pod() {
        let token = |claims: &str| format!("e30.{}.c2ln\n", URL_SAFE_NO_PAD.encode(claims));
        let pod = r#"{"kubernetes.io": {"pod": {"name": "web-0", "uid": "u1"}}}"#;
        let web = Pod { name: Some("web-0".into()), uid: "u1".into() };
        assert_eq!(pod_of(&token(pod)), Some(web));
        for nobodys in ["{}", "[]", "not JSON", r#"{"kubernetes.io": {"pod": {"uid": 7}}}"#] {
            assert_eq!(pod_of(&token(nobodys)), None, "{nobodys}");
        }
        assert_eq!(pod_of("opaque"), None);
    }

    #[test]
    fn what_is_empty_says_nothing() {
        assert_eq!(first([None, Some(" \n".into()), Some("web-0\n".into())]), Some("web-0".into()));
        assert_eq!(first([None, Some(String::new())]), None);
    }
}
