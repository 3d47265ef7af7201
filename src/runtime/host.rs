//! What the surroundings say about this process: its name and its namespace.

use std::{env, fs};

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

/// The first that says anything.
fn first<const N: usize>(candidates: [Option<String>; N]) -> Option<String> {
    candidates.into_iter().flatten().map(|c| c.trim().to_owned()).find(|c| !c.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_empty_says_nothing() {
        assert_eq!(first([None, Some(" \n".into()), Some("web-0\n".into())]), Some("web-0".into()));
        assert_eq!(first([None, Some(String::new())]), None);
    }
}
