//! The control plane itself: what the other tests stand on.

use std::time::Duration;

use address_controller::api::IPAddress;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use testbed::{ControlPlane, Options, Sandbox, controlplane::rule, eventually, wait::BOUNDED};

#[tokio::test]
async fn a_sandbox_has_a_namespace_and_the_three_kinds() {
    let sandbox = Sandbox::new("kinds").await.unwrap();
    sandbox.class("public").await.unwrap();
    sandbox.address("a1", "public", "192.0.2.1").await.unwrap();
    let claim = sandbox.claim("web", "public").await.unwrap();
    assert_eq!(claim.metadata.namespace.as_deref(), Some(sandbox.namespace()));
    assert_eq!(sandbox.claims().get("web").await.unwrap().metadata.uid, claim.metadata.uid);
}

#[tokio::test]
async fn a_service_account_may_do_what_its_rules_say_and_no_more() {
    let sandbox = Sandbox::new("rights").await.unwrap();
    let controlplane = sandbox.controlplane();
    let rules = vec![rule("local.sdn.cozystack.io", &["ipaddresses"], &["list"])];
    let token = controlplane.service_account_token(sandbox.namespace(), rules).await.unwrap();
    let client = controlplane.client(&token).unwrap();
    let addresses: Api<IPAddress> = Api::all(client.clone());
    // The authorizer hears of a new binding by watch.
    let all = ListParams::default();
    eventually(BOUNDED, "the right to list", || addresses.list(&all)).await;
    let denied = addresses.delete("any", &DeleteParams::default()).await.unwrap_err();
    assert!(matches!(&denied, kube::Error::Api(status) if status.code == 403), "{denied}");
}

#[tokio::test]
async fn a_restarted_api_server_keeps_its_objects_and_its_address() {
    let sandbox = Sandbox::alone("restart").await.unwrap();
    sandbox.claim("web", "public").await.unwrap();
    let controlplane = sandbox.controlplane();
    controlplane.stop_apiserver();
    assert!(sandbox.claims().get("web").await.is_err());
    controlplane.restart_apiserver().await.unwrap();
    sandbox.claims().get("web").await.unwrap();
}

#[tokio::test]
async fn a_paused_api_server_answers_nothing_until_it_goes_on() {
    let sandbox = Sandbox::alone("pause").await.unwrap();
    sandbox.controlplane().pause_apiserver();
    let (claims, all) = (sandbox.claims(), ListParams::default());
    let mut list = std::pin::pin!(claims.list(&all));
    let answered = tokio::time::timeout(Duration::from_millis(200), &mut list).await;
    assert!(answered.is_err(), "a paused server answered");
    sandbox.controlplane().resume_apiserver();
    list.await.unwrap();
}

#[tokio::test]
async fn the_audit_log_has_a_write_when_it_is_answered() {
    let sandbox = Sandbox::new("audit").await.unwrap();
    sandbox.claim("web", "public").await.unwrap();
    let log = std::fs::read_to_string(sandbox.controlplane().audit_log()).unwrap();
    let create = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .find(|event| {
            event["verb"] == "create" && event["objectRef"]["namespace"] == sandbox.namespace()
        })
        .unwrap();
    assert_eq!(create["requestObject"]["spec"]["family"], "IPv4");
    assert!(create["responseObject"]["metadata"]["resourceVersion"].is_string());
    assert_eq!(create["userAgent"], testbed::controlplane::USER_AGENT);
}

#[tokio::test]
async fn with_a_controller_manager_a_deleted_namespace_goes() {
    let options = Options { controller_manager: true, ..Options::default() };
    let controlplane = ControlPlane::start(options).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(controlplane.admin().unwrap());
    let namespace = serde_json::from_value(serde_json::json!({ "metadata": { "name": "gone" } }));
    namespaces.create(&PostParams::default(), &namespace.unwrap()).await.unwrap();
    namespaces.delete("gone", &DeleteParams::default()).await.unwrap();
    eventually(BOUNDED * 6, "the namespace to be gone", || async {
        namespaces.get_opt("gone").await.is_ok_and(|namespace| namespace.is_none())
    })
    .await;
}
