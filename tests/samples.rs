//! Holds the samples under `deploy/samples` to the typed API: what they say is what the API knows,
//! and together they tell one story. It needs no cluster.

#![expect(clippy::unwrap_used, reason = "a test: what is not there fails it")]

use std::{collections::BTreeMap, fs, path::PathBuf};

use address_controller::api::{
    IPAddress, IPAddressClaim, IPAddressClass, parse_ip,
    well_known::{GROUP, VERSION},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// All samples, by kind.
#[derive(Default)]
struct Samples {
    namespaces: Vec<Namespace>,
    classes: Vec<IPAddressClass>,
    addresses: Vec<IPAddress>,
    claims: Vec<IPAddressClaim>,
}

/// The YAML documents of each sample file, with the file's name.
fn documents() -> Vec<(String, Value)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("deploy/samples");
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no samples in {}", folder.display());
    let mut documents = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&file).unwrap();
        for document in serde_yaml_ng::Deserializer::from_str(&text) {
            let value = Value::deserialize(document).unwrap_or_else(|e| panic!("{name}: {e}"));
            documents.push((name.clone(), value));
        }
    }
    documents
}

/// Reads `value` as a `K`.
///
/// # Errors
/// Names what a `K` requires and `value` lacks, or the first thing in `value` that a `K` drops: the
/// API's types ignore unknown fields on purpose, and a sample with a misspelt one must not pass.
fn strictly<K>(value: &Value) -> Result<K, String>
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
{
    let (api_version, kind) = (K::api_version(&()), K::kind(&()));
    if value["apiVersion"] != *api_version || value["kind"] != *kind {
        return Err(format!("not a {kind} of {api_version}"));
    }
    let typed: K = K::deserialize(value).map_err(|e| e.to_string())?;
    let kept = serde_json::to_value(&typed).map_err(|e| e.to_string())?;
    dropped(value, &kept, String::new()).map_or(Ok(typed), |path| Err(format!("unknown: {path}")))
}

/// The path of the first thing in `written` that is not in `kept`.
fn dropped(written: &Value, kept: &Value, path: String) -> Option<String> {
    match (written, kept) {
        (Value::Object(written), Value::Object(kept)) => written.iter().find_map(|(key, value)| {
            let path = format!("{path}/{key}");
            match kept.get(key) {
                Some(kept) => dropped(value, kept, path),
                None => Some(path),
            }
        }),
        (Value::Array(written), Value::Array(kept)) if written.len() == kept.len() => written
            .iter()
            .zip(kept)
            .enumerate()
            .find_map(|(i, (written, kept))| dropped(written, kept, format!("{path}/{i}"))),
        (written, kept) => (written != kept).then_some(path),
    }
}

fn samples() -> Samples {
    let mut samples = Samples::default();
    for (file, value) in documents() {
        let outcome = match value["kind"].as_str() {
            Some("Namespace") => strictly(&value).map(|v| samples.namespaces.push(v)),
            Some("IPAddressClass") => strictly(&value).map(|v| samples.classes.push(v)),
            Some("IPAddress") => strictly(&value).map(|v| samples.addresses.push(v)),
            Some("IPAddressClaim") => strictly(&value).map(|v| samples.claims.push(v)),
            other => Err(format!("unexpected kind {other:?}")),
        };
        outcome.unwrap_or_else(|e| panic!("{file}: {}: {e}", value["metadata"]["name"]));
    }
    samples
}

#[test]
fn every_sample_parses_into_the_typed_api_and_nothing_in_it_is_unknown() {
    let samples = samples();
    assert!(!samples.classes.is_empty());
    assert!(!samples.addresses.is_empty());
    assert!(!samples.claims.is_empty());
}

/// The check above can fail: each of these is a sample with one mistake.
#[test]
fn a_sample_with_a_mistake_is_refused() {
    let claim = |spec: &str| {
        let text = format!(
            "{{apiVersion: {GROUP}/{VERSION}, kind: IPAddressClaim, metadata: {{name: a}}, spec: {spec}}}"
        );
        strictly::<IPAddressClaim>(&serde_yaml_ng::from_str(&text).unwrap()).map(|_| ())
    };
    assert_eq!(claim("{family: Dual}"), Ok(()));
    assert_eq!(claim("{class: public}"), Err("unknown: /spec/class".into()));
    assert!(claim("{family: ipv4}").unwrap_err().contains("unknown variant"));
    assert!(claim("{addressName: 7}").unwrap_err().contains("invalid type"));
    let other = serde_json::json!({"apiVersion": "v1", "kind": "IPAddressClaim"});
    assert!(strictly::<IPAddressClaim>(&other).is_err());
}

/// What the API server checks by rules that the types cannot express.
#[test]
fn the_samples_keep_the_rules_of_the_api_server() {
    for address in samples().addresses {
        let name = address.name_any();
        assert!(parse_ip(&address.spec.address).is_ok(), "{name}: {}", address.spec.address);
        let source = address.spec.source;
        assert!(source.from_class.is_some() != source.provider_ref.is_some(), "{name}: one source");
    }
}

#[test]
fn the_samples_fit_together() {
    let samples = samples();
    let namespaces: Vec<_> = samples.namespaces.iter().map(ResourceExt::name_any).collect();
    let classes: BTreeMap<_, _> = samples.classes.iter().map(|c| (c.name_any(), c)).collect();
    let addresses: BTreeMap<_, _> = samples.addresses.iter().map(|a| (a.name_any(), a)).collect();

    assert_eq!(samples.classes.iter().filter(|c| c.is_default()).count(), 1, "one default class");
    assert_eq!(classes.len(), samples.classes.len(), "class names are unique");
    assert_eq!(addresses.len(), samples.addresses.len(), "address names are unique");
    let mut ips: Vec<_> = addresses.values().map(|a| parse_ip(&a.spec.address).unwrap()).collect();
    ips.sort();
    ips.dedup();
    assert_eq!(ips.len(), addresses.len(), "no IP is recorded twice");

    for (name, address) in &addresses {
        let class =
            classes.get(&address.spec.class_name).unwrap_or_else(|| panic!("{name}: class"));
        assert_eq!(address.spec.reclaim_policy, class.spec.reclaim_policy, "{name}: policy");
    }
    for claim in &samples.claims {
        let name = claim.name_any();
        assert!(namespaces.contains(&claim.namespace().unwrap_or_default()), "{name}: namespace");
        assert!(claim.spec.class_name.as_ref().is_none_or(|c| classes.contains_key(c)), "{name}");
        assert!(
            claim.spec.address_name.as_ref().is_none_or(|a| addresses.contains_key(a)),
            "{name}: pin"
        );
    }
    let claimed = |namespace: &str, name: &str| {
        samples
            .claims
            .iter()
            .any(|c| c.namespace().as_deref() == Some(namespace) && c.name_any() == name)
    };
    for (name, address) in &addresses {
        if let Some(claim) = &address.spec.claim_ref {
            assert!(claimed(&claim.namespace, &claim.name), "{name}: the claim it is reserved for");
            assert_eq!(claim.uid, None, "{name}: a sample cannot know a uid");
        }
    }
}
