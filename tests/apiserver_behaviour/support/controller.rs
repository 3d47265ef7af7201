//! The one controller of this test binary.

use address_controller::api::{IPAddress, IPAddressClaim};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::{Api, Client, CustomResourceExt, api::PostParams};
use testbed::{Controller, ControllerOptions, eventually, shared, wait::BOUNDED};
use tokio::sync::OnceCell;

/// The controller, once a corner was made.
pub(crate) static CONTROLLER: OnceCell<Controller> = OnceCell::const_new();

/// A field that the next version of the API has and this one does not know.
pub(crate) const FUTURE_FIELD: &str = "futureField";

pub(super) async fn start() -> Controller {
    let controlplane = shared().await.unwrap();
    let client = controlplane.admin().unwrap();
    know_the_future::<IPAddress>(&client).await;
    know_the_future::<IPAddressClaim>(&client).await;
    let kubeconfig = controlplane.admin_kubeconfig().unwrap();
    let options = ControllerOptions::new(env!("CARGO_BIN_EXE_address-controller"), kubeconfig);
    Controller::start_ready(&options).await.unwrap()
}

/// Gives a kind one more field, as an upgrade of its definition would before the controller's own.
async fn know_the_future<K: CustomResourceExt>(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    eventually(BOUNDED, "the definition to be extended", || async {
        let mut definition = definitions.get(K::crd_name()).await?;
        let schema = definition.spec.versions[0].schema.as_mut();
        let schema = schema.and_then(|s| s.open_api_v3_schema.as_mut()).unwrap();
        let spec = schema.properties.as_mut().and_then(|p| p.get_mut("spec")).unwrap();
        let field =
            JSONSchemaProps { type_: Some("integer".to_owned()), ..JSONSchemaProps::default() };
        spec.properties.get_or_insert_default().insert(FUTURE_FIELD.to_owned(), field);
        definitions.replace(K::crd_name(), &PostParams::default(), &definition).await
    })
    .await;
}

/// Shows what the controller logged about a corner.
pub(super) fn show_log(corner: &str) {
    const LINES: usize = 60;
    let Some(controller) = CONTROLLER.get() else { return };
    let log = controller.log();
    let own: Vec<_> = log.lines().filter(|line| line.contains(corner)).collect();
    for line in &own[own.len().saturating_sub(LINES)..] {
        eprintln!("controller: {line}");
    }
}
