//! Fields that this version knows and the installed definitions do not: they would be dropped by
//! the API server without a word.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::{Api, Client, ResourceExt};

use crate::{
    api::{crd, well_known::VERSION},
    telemetry::{Kind, Metrics},
};

/// Names, in one line, the fields that the installed definitions lack; says nothing where they may
/// not be read. No absent field means anything but its default, so nothing is held up.
pub async fn missing_fields(client: &Client, metrics: &Metrics) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut missing = Vec::new();
    for known in crd::all() {
        let Ok(installed) = api.get(&known.name_any()).await else { continue };
        let plural = &known.spec.names.plural;
        let fields = lacking(&known, &installed);
        metrics.missing_fields(kind(plural), fields.len());
        missing.extend(fields.into_iter().map(|f| format!("{plural}{f}")));
    }
    if !missing.is_empty() {
        tracing::warn!(
            fields = missing.join(", "),
            "the installed CustomResourceDefinitions are older than this program and lack fields: \
             install those that address-controller print-crds prints"
        );
    }
}

fn kind(plural: &str) -> Kind {
    match plural {
        "ipaddressclaims" => Kind::Claim,
        "ipaddressclasses" => Kind::Class,
        _ => Kind::Address,
    }
}

/// The fields of `known` that `installed` does not have, as paths such as `.spec.family`.
fn lacking(known: &CustomResourceDefinition, installed: &CustomResourceDefinition) -> Vec<String> {
    let mut missing = Vec::new();
    if let (Some(known), Some(installed)) = (schema(known), schema(installed)) {
        compare("", known, installed, &mut missing);
    }
    missing
}

fn schema(crd: &CustomResourceDefinition) -> Option<&JSONSchemaProps> {
    let version = crd.spec.versions.iter().find(|v| v.name == VERSION)?;
    version.schema.as_ref()?.open_api_v3_schema.as_ref()
}

fn compare(
    path: &str,
    known: &JSONSchemaProps,
    installed: &JSONSchemaProps,
    missing: &mut Vec<String>,
) {
    if installed.x_kubernetes_preserve_unknown_fields == Some(true) {
        return;
    }
    for (name, field) in known.properties.iter().flatten() {
        let path = format!("{path}.{name}");
        match installed.properties.as_ref().and_then(|p| p.get(name)) {
            Some(other) => compare(&path, field, other, missing),
            None => missing.push(path),
        }
    }
    if let (
        Some(JSONSchemaPropsOrArray::Schema(known)),
        Some(JSONSchemaPropsOrArray::Schema(installed)),
    ) = (&known.items, &installed.items)
    {
        compare(&format!("{path}[]"), known, installed, missing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> CustomResourceDefinition {
        crd::all().remove(0)
    }

    fn properties<'a>(
        crd: &'a mut CustomResourceDefinition,
        path: &[&str],
    ) -> &'a mut std::collections::BTreeMap<String, JSONSchemaProps> {
        let version = &mut crd.spec.versions[0];
        let mut schema = version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut());
        for name in path {
            schema = schema.and_then(|s| s.properties.as_mut()).and_then(|p| p.get_mut(*name));
        }
        schema.and_then(|s| s.properties.as_mut()).expect("properties")
    }

    /// I01: what older definitions lack is named by its path; what they have more is not.
    #[test]
    fn i01_fields_that_older_definitions_lack_are_named() {
        assert_eq!(lacking(&claims(), &claims()), Vec::<String>::new());

        let mut old = claims();
        properties(&mut old, &["spec"]).remove("family");
        properties(&mut old, &["status"]).remove("conditions");
        properties(&mut old, &["spec"]).insert("other".into(), JSONSchemaProps::default());
        assert_eq!(lacking(&claims(), &old), [".spec.family", ".status.conditions"]);
    }

    /// I01: inside lists too, but not where the installed schema keeps everything.
    #[test]
    fn i01_lists_are_looked_into_and_open_schemas_lack_nothing() {
        let mut newer = claims();
        let addresses = properties(&mut newer, &["status"]).get_mut("addresses").expect("a field");
        let Some(JSONSchemaPropsOrArray::Schema(item)) = &mut addresses.items else {
            panic!("addresses is a list")
        };
        let item = item.properties.as_mut().expect("properties");
        item.insert("zone".into(), JSONSchemaProps::default());
        assert_eq!(lacking(&newer, &claims()), [".status.addresses[].zone"]);

        let mut open = claims();
        properties(&mut open, &[]).get_mut("status").expect("status").properties = None;
        properties(&mut open, &[])
            .get_mut("status")
            .expect("status")
            .x_kubernetes_preserve_unknown_fields = Some(true);
        assert_eq!(lacking(&newer, &open), Vec::<String>::new());
    }
}
