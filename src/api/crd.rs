//! The three kinds as `CustomResourceDefinition`s, as the chart ships them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use super::{IPAddress, IPAddressClaim, IPAddressClass};

/// The definitions of all three kinds, in the order of their plural names.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![IPAddressClaim::crd(), IPAddressClass::crd(), IPAddress::crd()];
    for crd in &mut crds {
        for version in &mut crd.spec.versions {
            if let Some(schema) =
                version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut())
            {
                forbid_null(schema);
            }
        }
    }
    crds
}

/// An optional field is absent, not null: the schemas of existing clusters know no `nullable`.
fn forbid_null(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    for property in schema.properties.iter_mut().flat_map(|p| p.values_mut()) {
        forbid_null(property);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(item)) => forbid_null(item),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(forbid_null),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        forbid_null(values);
    }
}
