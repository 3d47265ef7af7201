//! An object that may not parse: what is known of it is kept, whatever it looks like.
//!
//! A list or a watch of plain objects ends at the first one with a value from another version.
//! [`Guarded`] reads any JSON, so that the others go on. It must not know what kind it guards.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};
use serde_json::Value;

/// An object of kind `K`, or what there is in its place. `metadata.managedFields` is dropped.
#[derive(Clone, Debug)]
pub enum Guarded<K> {
    /// The object.
    Parsed(K),
    /// It does not parse as a `K`.
    Unparsed(Box<Strange>),
}

/// An object that does not parse as the kind it should be.
#[derive(Clone, Debug)]
pub struct Strange {
    /// Its metadata, as far as they can be read.
    pub metadata: ObjectMeta,
    /// What could not be read.
    pub error: String,
    /// The whole of it, `metadata.managedFields` excepted.
    pub raw: Value,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut raw = Value::deserialize(deserializer)?;
        // Most of an object's bytes, and nobody here reads them.
        if let Some(metadata) = raw.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        Ok(match K::deserialize(&raw) {
            Ok(object) => Self::Parsed(object),
            Err(error) => Self::Unparsed(Box::new(Strange {
                metadata: metadata(&raw),
                error: error.to_string(),
                raw,
            })),
        })
    }
}

/// The metadata; if they are strange too, those parts that say which object it is.
fn metadata(raw: &Value) -> ObjectMeta {
    let raw = &raw["metadata"];
    ObjectMeta::deserialize(raw).unwrap_or_else(|_| {
        let text = |field: &str| raw[field].as_str().map(str::to_owned);
        ObjectMeta {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        }
    })
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Parsed(object) => object.meta(),
            Self::Unparsed(strange) => &strange.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Parsed(object) => object.meta_mut(),
            Self::Unparsed(strange) => &mut strange.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::api::IPAddress;

    fn address(change: impl FnOnce(&mut Value)) -> Value {
        let mut address = json!({
            "apiVersion": "local.sdn.cozystack.io/v1alpha1",
            "kind": "IPAddress",
            "metadata": {
                "name": "a1", "uid": "u1", "resourceVersion": "7",
                "managedFields": [{"manager": "kubectl"}],
            },
            "spec": {
                "className": "public", "address": "192.0.2.1", "source": {"fromClass": {}},
            },
        });
        change(&mut address);
        address
    }

    fn read(value: Value) -> Guarded<IPAddress> {
        serde_json::from_value(value).expect("anything can be read")
    }

    #[test]
    fn an_object_that_parses_is_itself_without_managed_fields() {
        let Guarded::Parsed(object) = read(address(|_| ())) else { panic!("it parses") };
        assert_eq!(object.spec.address, "192.0.2.1");
        assert_eq!((object.name_any().as_str(), object.managed_fields().len()), ("a1", 0));
    }

    #[test]
    fn unknown_fields_do_not_make_an_object_strange() {
        let guarded = read(address(|a| a["spec"]["futureField"] = json!(42)));
        assert!(matches!(guarded, Guarded::Parsed(_)));
    }

    #[test]
    fn an_object_that_does_not_parse_keeps_its_metadata_and_its_fields() {
        let guarded = read(address(|a| {
            a["status"] = json!({"phase": "Quarantined"});
            a["spec"]["futureField"] = json!(42);
        }));
        assert_eq!(guarded.meta().uid.as_deref(), Some("u1"));
        let Guarded::Unparsed(strange) = guarded else { panic!("it does not parse") };
        assert!(strange.error.contains("Quarantined"), "{}", strange.error);
        assert_eq!(strange.raw["spec"]["address"], "192.0.2.1");
        assert_eq!(strange.raw["spec"]["futureField"], 42);
        assert_eq!(strange.raw["metadata"].get("managedFields"), None);
    }

    #[test]
    fn strange_metadata_still_say_which_object_it_is() {
        let guarded = read(address(|a| a["metadata"]["labels"] = json!(["not", "a", "map"])));
        assert!(matches!(guarded, Guarded::Unparsed(_)));
        assert_eq!(guarded.name_any(), "a1");
        assert_eq!(guarded.resource_version().as_deref(), Some("7"));
    }

    #[rstest]
    #[case(json!(null))]
    #[case(json!("text"))]
    #[case(json!([1]))]
    #[case(json!({"metadata": 7}))]
    fn what_is_no_object_at_all_is_read_too(#[case] value: Value) {
        assert!(matches!(read(value), Guarded::Unparsed(_)));
    }

    #[test]
    fn it_is_of_the_kind_that_it_guards() {
        type G = Guarded<IPAddress>;
        assert_eq!(G::kind(&()), "IPAddress");
        assert_eq!(G::plural(&()), "ipaddresses");
        assert_eq!(G::api_version(&()), "local.sdn.cozystack.io/v1alpha1");
    }
}
