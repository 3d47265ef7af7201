//! A06: objects that do not parse, among others that do.

use std::path::PathBuf;

use address_controller::api::{
    AddressPhase, ClaimPhase, IPAddress, IPAddressClaim, crd, well_known::GROUP,
};
use futures::{StreamExt, stream};
use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::ApiResource,
};
use serde_json::{Value, json};
use testbed::{
    ControlPlane, Controller, ControllerOptions, Options, Proxy,
    controlplane::ADMIN_TOKEN,
    eventually, make,
    proxy::{Match, Verb},
    wait::BOUNDED,
};

use crate::support::{BINARY, PATIENCE, ours};

/// How many addresses there are, the strange one among them.
const ADDRESSES: usize = 200;

/// The three kinds with any fields and values, as another version's definitions may allow.
async fn loosen(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("address-controller-install").force();
    for definition in crd::all() {
        let mut definition = serde_json::to_value(definition).unwrap();
        let version = &mut definition["spec"]["versions"][0];
        version.as_object_mut().unwrap().remove("selectableFields");
        let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        version["schema"]["openAPIV3Schema"] =
            json!({ "type": "object", "properties": { "spec": anything, "status": anything } });
        let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
        definitions.patch(&name, &params, &Patch::Apply(&definition)).await.unwrap();
    }
}

struct Stage {
    controlplane: ControlPlane,
    client: Client,
    proxy: Proxy,
}

impl Stage {
    /// A control plane of one's own: its definitions are not what others' tests expect.
    async fn new() -> Self {
        let controlplane = ControlPlane::start(Options::default()).await.unwrap();
        let client = controlplane.admin().unwrap();
        controlplane.install_crds().await.unwrap();
        let namespace: Namespace =
            serde_json::from_value(json!({ "metadata": { "name": "t1" } })).unwrap();
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
        let proxy = Proxy::start(&controlplane).unwrap();
        Self { controlplane, client, proxy }
    }

    fn raw<K: Resource<DynamicType = ()>>(&self) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<K>(&());
        if K::kind(&()) == "IPAddressClaim" {
            return Api::namespaced_with(self.client.clone(), "t1", &resource);
        }
        Api::all_with(self.client.clone(), &resource)
    }

    /// An object with a change that the typed API does not have.
    async fn strange<K>(&self, object: &K, change: impl Fn(&mut Value))
    where
        K: Resource<DynamicType = ()> + serde::Serialize,
    {
        let mut value = serde_json::to_value(object).unwrap();
        change(&mut value);
        let object: DynamicObject = serde_json::from_value(value.clone()).unwrap();
        let api = self.raw::<K>();
        // Definitions that have just changed are in force a moment later.
        eventually(PATIENCE, "the looser schema", || async {
            let created = api.create(&PostParams::default(), &object).await;
            let created = created.map_err(|e| e.to_string())?;
            let kept = created.data["spec"] == value["spec"];
            if !kept {
                api.delete(&created.name_any(), &DeleteParams::default()).await.ok();
            }
            if kept { Ok(()) } else { Err(format!("{:?}", created.data)) }
        })
        .await;
        if let Some(status) = value.get("status") {
            let patch = Patch::Merge(json!({ "status": status }));
            let name = object.name_any();
            api.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
        }
    }

    async fn field<K: Resource<DynamicType = ()>>(&self, name: &str) -> Value {
        self.raw::<K>().get(name).await.unwrap().data["spec"]["futureField"].clone()
    }

    fn kubeconfig(&self) -> PathBuf {
        self.proxy.kubeconfig(&self.controlplane, ADMIN_TOKEN).unwrap()
    }

    async fn start(&self) -> Controller {
        self.proxy.forget_requests();
        Controller::start_ready(&ControllerOptions::new(BINARY, self.kubeconfig())).await.unwrap()
    }

    async fn others_are_served(&self, controller: &Controller) {
        eventually(PATIENCE, "all but the strange ones to be served", || async {
            let of = async |name: &str, phase: &str| {
                controller.metric(name, &[&format!("phase=\"{phase}\"")]).await
            };
            let bound = of("address_controller_claims", "Bound").await?;
            let held = of("address_controller_addresses", "Bound").await?;
            let free = of("address_controller_addresses", "Available").await?;
            let expected = (Some(10.0), Some(10.0), Some(189.0));
            anyhow::ensure!((bound, held, free) == expected, "{bound:?} {held:?} {free:?}");
            Ok(())
        })
        .await;
    }

    fn lists(&self, resource: &str) -> usize {
        let lists = ours(Match::verb(Verb::List)).resource(resource);
        self.proxy.matching(&lists).iter().filter(|r| r.query.contains("limit=500")).count()
    }
}

/// Lines of the log that tell of an object that does not parse.
fn told(controller: &Controller, name: &str) -> usize {
    let log = controller.log();
    log.lines().filter(|l| l.contains("does not parse") && l.contains(name)).count()
}

async fn checked(stage: &Stage, controller: &Controller) {
    for (kind, name) in [("address", "strange-address"), ("claim", "strange-claim")] {
        assert_eq!(told(controller, name), 1, "{}", controller.log());
        let label = format!("kind=\"{kind}\"");
        let counted = controller.metric("address_controller_unparsed_objects", &[&label]).await;
        assert_eq!(counted.unwrap(), Some(1.0), "{kind}");
    }
    for resource in ["ipaddresses", "ipaddressclaims", "ipaddressclasses"] {
        assert_eq!(stage.lists(resource), 1, "{resource}");
    }
    let strange = |r: &testbed::proxy::Request| r.group == GROUP && r.name.starts_with("strange");
    assert_eq!(stage.proxy.count(&Match::writes().when(strange)), 0);
}

/// A06: one address of 200 and one claim have values of another version: the others are served, each
/// strange one is told of once and counted, nothing is listed again, and what we do not know survives
/// what we write. The same under the definitions of this version, where not one write is made.
#[tokio::test]
async fn a06_strange_objects_stop_nothing_and_keep_what_we_do_not_know() {
    let stage = Stage::new().await;
    loosen(&stage.client).await;
    let future = |value: &mut Value| value["spec"]["futureField"] = json!(42);
    stage.strange(&make::address("a000", "public", "10.0.1.0"), future).await;
    stage.strange(&make::claim("t1", "web-0", "public"), future).await;
    let quarantined = |v: &mut Value| v["status"] = json!({ "phase": "Quarantined" });
    stage.strange(&make::address("strange-address", "public", "10.0.0.1"), quarantined).await;
    let ipv5 = |v: &mut Value| v["spec"]["family"] = json!("IPv5");
    stage.strange(&make::claim("t1", "strange-claim", "public"), ipv5).await;
    testbed::sandbox::create(&stage.client, &make::class("public")).await.unwrap();
    stream::iter(1..ADDRESSES - 1)
        .for_each_concurrent(16, |n| {
            let address = make::address(&format!("a{n:03}"), "public", &format!("10.0.1.{n}"));
            let client = stage.client.clone();
            async move { drop(testbed::sandbox::create(&client, &address).await.unwrap()) }
        })
        .await;
    for n in 1..10 {
        let claim = make::claim("t1", &format!("web-{n}"), "public");
        testbed::sandbox::create(&stage.client, &claim).await.unwrap();
    }

    let mut controller = stage.start().await;
    stage.others_are_served(&controller).await;
    checked(&stage, &controller).await;
    let address: IPAddress = Api::all(stage.client.clone()).get("a000").await.unwrap();
    assert_eq!(address.status.unwrap().phase, Some(AddressPhase::Bound));
    let claims: Api<IPAddressClaim> = Api::namespaced(stage.client.clone(), "t1");
    let claim = claims.get("web-0").await.unwrap();
    assert_eq!(claim.status.unwrap().phase, Some(ClaimPhase::Bound));
    assert_eq!(stage.field::<IPAddress>("a000").await, 42);
    assert_eq!(stage.field::<IPAddressClaim>("web-0").await, 42);

    // A change of a strange object is no news.
    let label = Patch::Merge(json!({ "metadata": { "labels": { "touched": "yes" } } }));
    let params = PatchParams::default();
    stage.raw::<IPAddress>().patch("strange-address", &params, &label).await.unwrap();
    let marker = make::address("marker", "other", "10.0.2.1");
    testbed::sandbox::create(&stage.client, &marker).await.unwrap();
    let addresses: Api<IPAddress> = Api::all(stage.client.clone());
    eventually(PATIENCE, "what came after it to be seen to", || async {
        let marker = addresses.get("marker").await.unwrap();
        marker.status.and_then(|s| s.phase) == Some(AddressPhase::Available)
    })
    .await;
    checked(&stage, &controller).await;

    assert!(controller.sigterm(BOUNDED).unwrap().success());
    crate::support::force_delete(&addresses, "marker").await;
    stage.controlplane.install_crds().await.unwrap();
    let controller = stage.start().await;
    stage.others_are_served(&controller).await;
    checked(&stage, &controller).await;
    assert_eq!(stage.proxy.count(&ours(Match::writes())), 0);
}
