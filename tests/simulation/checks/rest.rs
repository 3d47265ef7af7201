//! At rest, what was deleted is gone, finalizers and all.

use serde_json::Value;

use crate::apiserver::{
    store::Store,
    writes::{finalizers, is_deleting, text},
};

/// What is still there of what was deleted. An address that a live claim holds stays; so does what
/// others than the controller hold up.
pub fn judge(store: &Store) -> Vec<String> {
    let mut found = Vec::new();
    for (key, object) in ["ipaddressclaims", "ipaddresses"].into_iter().flat_map(|p| store.of(p)) {
        let others = finalizers(object).iter().any(|f| !f.starts_with("local.sdn.cozystack.io/"));
        if is_deleting(object) && !others && !(key.0 == "ipaddresses" && is_held(store, object)) {
            let (plural, namespace, name) = key;
            found.push(format!("{plural} {namespace}/{name} was deleted and is still there"));
        }
    }
    found
}

/// Whether a claim that exists and stays is named by the address, which is not lost.
fn is_held(store: &Store, address: &Value) -> bool {
    let reference = &address["spec"]["claimRef"];
    let of = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
    let claim = store.get(&("ipaddressclaims", of("namespace"), of("name")));
    address["status"]["phase"] != "Lost"
        && claim.is_some_and(|claim| text(claim, "uid") == of("uid") && !is_deleting(claim))
}
