//! The three kinds on a real API server: A04, and what `kubectl` shows of them.

use address_controller::api::{IPAddress, IPAddressClaim, IPAddressClass, crd};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::ApiResource,
};
use rstest::rstest;
use serde_json::{Value, json};
use testbed::Sandbox;

/// The raw objects of a kind: what is stored, not what our types make of it.
fn raw<K: Resource<DynamicType = ()>>(
    sandbox: &Sandbox,
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<K>(&());
    match namespace {
        Some(namespace) => Api::namespaced_with(sandbox.client(), namespace, &resource),
        None => Api::all_with(sandbox.client(), &resource),
    }
}

/// Creates an object from its spec alone and gives what is stored.
async fn store<K: Resource<DynamicType = ()>>(
    sandbox: &Sandbox,
    name: &str,
    spec: Value,
) -> kube::Result<Value> {
    let namespaced = K::kind(&()) == IPAddressClaim::kind(&());
    let namespace = namespaced.then(|| sandbox.namespace());
    let resource = ApiResource::erase::<K>(&());
    let name = if namespaced { name.to_owned() } else { sandbox.name(name) };
    let object = DynamicObject::new(&name, &resource).data(json!({ "spec": spec }));
    let api = raw::<K>(sandbox, namespace);
    api.create(&PostParams::default(), &object).await?;
    Ok(serde_json::to_value(api.get(&name).await?).unwrap())
}

/// That the API server refuses an object, and says something about it.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: kube::Result<T>, about: &str) {
    match result {
        Err(kube::Error::Api(status)) => {
            assert_eq!((status.code, &*status.reason), (422, "Invalid"), "{status:?}");
            assert!(status.message.contains(about), "{}", status.message);
        }
        other => panic!("not refused: {other:?}"),
    }
}

/// The answer that `kubectl get` asks for: columns and cells.
async fn table(client: &Client, path: &str) -> Value {
    let request = http::Request::get(path)
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
    client.request(request).await.unwrap()
}

/// A04: what is left out is filled in as the contract says, and what is optional stays out.
#[tokio::test]
async fn a04_defaults_are_stored() {
    let sandbox = Sandbox::new("a04-defaults").await.unwrap();
    let class = json!({ "provisioner": "fake.example.org" });
    let class = store::<IPAddressClass>(&sandbox, "public", class).await.unwrap();
    assert_eq!(
        class["spec"],
        json!({ "provisioner": "fake.example.org", "reclaimPolicy": "Retain" })
    );

    let address =
        json!({ "className": "public", "address": "192.0.2.1", "source": { "fromClass": {} } });
    let address = store::<IPAddress>(&sandbox, "a1", address).await.unwrap();
    assert_eq!(
        address["spec"],
        json!({
            "className": "public", "address": "192.0.2.1", "reclaimPolicy": "Retain",
            "source": { "fromClass": {} },
        })
    );
    assert!(address.get("status").is_none());

    let claim = store::<IPAddressClaim>(&sandbox, "web", json!({})).await.unwrap();
    assert_eq!(claim["spec"], json!({ "family": "IPv4" }));
}

/// A04: exactly one source, and one that says something.
#[rstest]
#[case::both(json!({ "fromClass": {}, "providerRef": { "id": "x" } }), "exactly one of fromClass and providerRef")]
#[case::none(json!({}), "exactly one of fromClass and providerRef")]
#[case::empty_id(json!({ "providerRef": { "id": "" } }), "spec.source.providerRef.id")]
#[case::no_id(json!({ "providerRef": {} }), "spec.source.providerRef.id")]
#[case::missing(Value::Null, "spec.source")]
#[tokio::test]
async fn a04_a_source_is_exactly_one(#[case] source: Value, #[case] about: &str) {
    let sandbox = Sandbox::new("a04-source").await.unwrap();
    let mut spec = json!({ "className": "public", "address": "192.0.2.1" });
    if !source.is_null() {
        spec["source"] = source;
    }
    refused(store::<IPAddress>(&sandbox, "a1", spec).await, about);
}

/// A04: a `claimRef` says which claim.
#[rstest]
#[case::without_name(json!({ "namespace": "t1" }), "spec.claimRef.name")]
#[case::without_namespace(json!({ "name": "web" }), "spec.claimRef.namespace")]
#[case::empty_name(json!({ "namespace": "t1", "name": "" }), "spec.claimRef.name")]
#[case::empty_namespace(json!({ "namespace": "", "name": "web" }), "spec.claimRef.namespace")]
#[tokio::test]
async fn a04_a_claim_ref_names_a_claim(#[case] claim_ref: Value, #[case] about: &str) {
    let sandbox = Sandbox::new("a04-claim-ref").await.unwrap();
    let spec = json!({
        "className": "public", "address": "192.0.2.1", "source": { "fromClass": {} },
        "claimRef": claim_ref,
    });
    refused(store::<IPAddress>(&sandbox, "a1", spec).await, about);
}

/// A04: values that are required, and closed sets.
#[tokio::test]
async fn a04_required_fields_and_closed_sets() {
    let sandbox = Sandbox::new("a04-closed").await.unwrap();
    let claims = [
        (json!({ "family": "ipv4" }), "spec.family"),
        (json!({ "family": "IPv5" }), "spec.family"),
    ];
    for (spec, about) in claims {
        refused(store::<IPAddressClaim>(&sandbox, "web", spec).await, about);
    }
    let classes = [
        (json!({}), "spec.provisioner"),
        (json!({ "provisioner": "" }), "spec.provisioner"),
        (json!({ "provisioner": "x", "reclaimPolicy": "Recycle" }), "spec.reclaimPolicy"),
        (json!({ "provisioner": "x", "parameters": "text" }), "spec.parameters"),
    ];
    for (spec, about) in classes {
        refused(store::<IPAddressClass>(&sandbox, "public", spec).await, about);
    }
    let source = json!({ "fromClass": {} });
    let addresses = [
        (json!({ "address": "192.0.2.1", "source": source }), "spec.className"),
        (json!({ "className": "", "address": "192.0.2.1", "source": source }), "spec.className"),
        (json!({ "className": "public", "source": source }), "spec.address"),
        (json!({ "className": "public", "address": "", "source": source }), "spec.address"),
    ];
    for (spec, about) in addresses {
        refused(store::<IPAddress>(&sandbox, "a1", spec).await, about);
    }
}

/// A04: the address and the provisioner are what they were created as; everything else may change.
#[tokio::test]
async fn a04_address_and_provisioner_are_immutable() {
    let sandbox = Sandbox::new("a04-immutable").await.unwrap();
    let class = sandbox.class("public").await.unwrap().name_any();
    let address = sandbox.address("a1", "public", "192.0.2.1").await.unwrap().name_any();
    let params = PatchParams::default();
    let edit = |field: &str, value: &str| Patch::Merge(json!({ "spec": { field: value } }));

    let edited = sandbox.classes().patch(&class, &params, &edit("provisioner", "other")).await;
    refused(edited, "spec.provisioner is immutable");
    let edited = sandbox.addresses().patch(&address, &params, &edit("address", "192.0.2.2")).await;
    refused(edited, "spec.address is immutable");
    // Another spelling is another text.
    let edited =
        sandbox.addresses().patch(&address, &params, &edit("address", "::ffff:192.0.2.1")).await;
    refused(edited, "spec.address is immutable");

    sandbox.classes().patch(&class, &params, &edit("reclaimPolicy", "Delete")).await.unwrap();
    sandbox.addresses().patch(&address, &params, &edit("className", "other")).await.unwrap();
}

/// A04: a driver's parameters are kept whole, and so is a source without fields; also through the writes
/// that go by our own types.
#[tokio::test]
async fn a04_parameters_and_source_survive() {
    let sandbox = Sandbox::new("a04-survive").await.unwrap();
    let parameters = json!({ "ranges": ["203.0.113.0/28"], "deep": { "x": [1, "a", null] } });
    let spec = json!({ "provisioner": "fake.example.org", "parameters": parameters });
    let stored = store::<IPAddressClass>(&sandbox, "public", spec).await.unwrap();
    assert_eq!(stored["spec"]["parameters"], parameters);

    let name = sandbox.name("public");
    let mut typed = sandbox.classes().get(&name).await.unwrap();
    typed.annotations_mut().insert("edited".into(), "yes".into());
    sandbox.classes().replace(&name, &PostParams::default(), &typed).await.unwrap();
    let stored = raw::<IPAddressClass>(&sandbox, None).get(&name).await.unwrap();
    assert_eq!(stored.data["spec"]["parameters"], parameters);

    let name = sandbox.address("a1", "public", "192.0.2.1").await.unwrap().name_any();
    let params = PatchParams::default();
    let claim_ref = json!({ "spec": { "claimRef": { "namespace": "t1", "name": "web" } } });
    sandbox.addresses().patch(&name, &params, &Patch::Merge(claim_ref)).await.unwrap();
    let status = json!({ "status": { "phase": "Available" } });
    sandbox.addresses().patch_status(&name, &params, &Patch::Merge(status)).await.unwrap();
    let typed = sandbox.addresses().get(&name).await.unwrap();
    sandbox.addresses().replace(&name, &PostParams::default(), &typed).await.unwrap();
    let stored = raw::<IPAddress>(&sandbox, None).get(&name).await.unwrap();
    assert_eq!(stored.data["spec"]["source"], json!({ "fromClass": {} }));
}

/// The status of addresses and claims is a sub-resource: writing the object leaves it alone, and the reverse.
#[tokio::test]
async fn status_is_a_sub_resource() {
    let sandbox = Sandbox::new("status").await.unwrap();
    let address = sandbox.address("a1", "public", "192.0.2.1").await.unwrap().name_any();
    sandbox.claim("web", "public").await.unwrap();
    let params = PatchParams::default();
    let both = Patch::Merge(json!({
        "metadata": { "labels": { "by": "us" } }, "status": { "phase": "Bound" },
    }));
    let by_object = sandbox.addresses().patch(&address, &params, &both).await.unwrap();
    assert!(by_object.status.is_none(), "{:?}", by_object.status);
    let claim = sandbox.claims().patch_status("web", &params, &both).await.unwrap();
    assert_eq!(claim.labels().get("by"), None);
    assert!(claim.status.is_some());
}

/// The columns of `kubectl get`, and their cells.
#[tokio::test]
async fn the_columns_show_what_matters() {
    let sandbox = Sandbox::new("columns").await.unwrap();
    let (class, address) = (sandbox.name("public"), sandbox.name("a1"));
    sandbox.class("public").await.unwrap();
    sandbox.address("a1", "public", "192.0.2.1").await.unwrap();
    sandbox.claim("web", "public").await.unwrap();
    let params = PatchParams::default();
    let default = json!({ "metadata": { "annotations": {
        "ipaddressclass.local.sdn.cozystack.io/is-default-class": "true",
    } } });
    sandbox.classes().patch(&class, &params, &Patch::Merge(default)).await.unwrap();
    let claim_ref = json!({ "spec": { "claimRef": { "namespace": "t1", "name": "web" } } });
    sandbox.addresses().patch(&address, &params, &Patch::Merge(claim_ref)).await.unwrap();
    let status = json!({ "status": {
        "phase": "Bound", "associatedTo": { "kind": "Service", "namespace": "t1", "name": "front" },
    } });
    sandbox.addresses().patch_status(&address, &params, &Patch::Merge(status)).await.unwrap();
    let status = json!({ "status": {
        "phase": "Bound", "className": "public",
        "addresses": [{ "name": "a1", "address": "192.0.2.1" }],
    } });
    sandbox.claims().patch_status("web", &params, &Patch::Merge(status)).await.unwrap();

    let prefix = "/apis/local.sdn.cozystack.io/v1alpha1";
    let claim = format!("{prefix}/namespaces/{}/ipaddressclaims/web", sandbox.namespace());
    for (path, columns, cells) in [
        (
            format!("{prefix}/ipaddressclasses/{class}"),
            "Name Provisioner ReclaimPolicy Default Age",
            format!("{class} fake.example.org Retain true"),
        ),
        (
            format!("{prefix}/ipaddresses/{address}"),
            "Name Address Class Phase ClaimNamespace Claim AttachedTo Age",
            format!("{address} 192.0.2.1 {class} Bound t1 web front"),
        ),
        (claim, "Name Phase Class Addresses Age", "web Bound public 192.0.2.1".to_owned()),
    ] {
        let table = table(&sandbox.client(), &path).await;
        let names = |list: &Value, field: &str| {
            let texts = list.as_array().unwrap().iter().map(|item| match field {
                "" => item.as_str().unwrap_or_default().to_owned(),
                field => item[field].as_str().unwrap_or_default().to_owned(),
            });
            texts.collect::<Vec<_>>()
        };
        assert_eq!(names(&table["columnDefinitions"], "name").join(" "), columns, "{path}");
        let row = names(&table["rows"][0]["cells"], "");
        assert_eq!(row[..row.len() - 1].join(" "), cells, "{path}");
        assert!(!row[row.len() - 1].is_empty(), "an age in {row:?}");
    }
}

/// Addresses can be selected by class, claim and phase, claims by phase.
#[tokio::test]
async fn the_selectable_fields_select() {
    let sandbox = Sandbox::new("selectable").await.unwrap();
    sandbox.address("free", "public", "192.0.2.1").await.unwrap();
    let taken = sandbox.address("taken", "public", "192.0.2.2").await.unwrap().name_any();
    let params = PatchParams::default();
    let namespace = sandbox.namespace();
    let claim_ref = json!({ "spec": { "claimRef": { "namespace": namespace, "name": "web" } } });
    sandbox.addresses().patch(&taken, &params, &Patch::Merge(claim_ref)).await.unwrap();
    let status = json!({ "status": { "phase": "Bound" } });
    sandbox.addresses().patch_status(&taken, &params, &Patch::Merge(&status)).await.unwrap();

    let class = format!("spec.className={}", sandbox.name("public"));
    let claim = format!("spec.claimRef.namespace={namespace},spec.claimRef.name=web");
    let bound = format!("{class},status.phase=Bound");
    for (selector, count) in [(&class, 2), (&claim, 1), (&bound, 1)] {
        let found =
            sandbox.addresses().list(&ListParams::default().fields(selector)).await.unwrap();
        assert_eq!(found.items.len(), count, "{selector}");
    }

    for name in ["web", "waiting"] {
        sandbox.claim(name, "public").await.unwrap();
    }
    sandbox.claims().patch_status("web", &params, &Patch::Merge(&status)).await.unwrap();
    let bound = ListParams::default().fields("status.phase=Bound");
    let found = sandbox.claims().list(&bound).await.unwrap();
    assert_eq!(found.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["web"]);
}

/// A04: the definitions are established as we wrote them, with the category and a description everywhere.
#[tokio::test]
async fn a04_the_definitions_are_established_with_category_and_descriptions() {
    let sandbox = Sandbox::new("definitions").await.unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(sandbox.client());
    for ours in crd::all() {
        let name = ours.name_any();
        let stored = definitions.get(&name).await.unwrap();
        let conditions = stored.status.as_ref().unwrap().conditions.clone().unwrap();
        for (kind, status) in
            [("Established", "True"), ("NamesAccepted", "True"), ("NonStructuralSchema", "False")]
        {
            let found = conditions.iter().find(|c| c.type_ == kind).map(|c| &*c.status);
            assert_eq!(found.unwrap_or("False"), status, "{name}: {kind}");
        }
        assert_eq!(stored.spec.names.categories, Some(vec!["ipam".to_owned()]), "{name}");
        let schema = stored.spec.versions[0].schema.as_ref().unwrap();
        let mut bare = Vec::new();
        undescribed(schema.open_api_v3_schema.as_ref().unwrap(), &name, &mut bare);
        assert_eq!(bare, Vec::<String>::new(), "fields without a description");
    }
}

/// Collects the fields below a schema that have no description. `metadata` is the API server's own.
fn undescribed(schema: &JSONSchemaProps, path: &str, found: &mut Vec<String>) {
    if schema.description.as_deref().unwrap_or_default().is_empty() {
        found.push(path.to_owned());
    }
    for (name, property) in schema.properties.iter().flatten() {
        if name != "metadata" && !(["apiVersion", "kind"].contains(&&**name)) {
            undescribed(property, &format!("{path}.{name}"), found);
        }
    }
    // An item is described by its list: only what is inside it counts.
    let inside: Option<&JSONSchemaProps> = match (&schema.items, &schema.additional_properties) {
        (Some(JSONSchemaPropsOrArray::Schema(item)), _) => Some(item),
        (_, Some(JSONSchemaPropsOrBool::Schema(values))) => Some(values),
        _ => None,
    };
    for (name, property) in inside.iter().flat_map(|item| item.properties.iter().flatten()) {
        undescribed(property, &format!("{path}[].{name}"), found);
    }
}
