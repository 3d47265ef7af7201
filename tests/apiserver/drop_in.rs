//! In the place of the Go original: its arguments, its rights, none of our settings. And what is
//! missing at the start, or taken away later, is waited for.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use address_controller::api::{AddressPhase, ClaimPhase, IPAddressClaim, well_known::GROUP};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use testbed::{
    ControlPlane, Controller, ControllerOptions, Options, Sandbox,
    controlplane::rule,
    eventually, http,
    ports::free_port,
    process::{Process, Signal},
    proxy::{Match, Verb},
};

use crate::support::{BINARY, Bench, PATIENCE};

const OUR_KINDS: [&str; 3] = ["ipaddresses", "ipaddressclaims", "ipaddressclasses"];

/// What the original's role grants, events apart.
fn original_rules() -> Vec<PolicyRule> {
    let all = ["create", "delete", "get", "list", "patch", "update", "watch"];
    let sub = |name: &str| OUR_KINDS.map(|kind| format!("{kind}/{name}"));
    let (status, finalizers) = (sub("status"), sub("finalizers"));
    vec![
        rule("coordination.k8s.io", &["leases"], &all),
        rule(GROUP, &OUR_KINDS, &all),
        rule(GROUP, &status.each_ref().map(String::as_str), &["get", "patch", "update"]),
        rule(GROUP, &finalizers.each_ref().map(String::as_str), &["update"]),
    ]
}

fn core_events() -> PolicyRule {
    rule("", &["events"], &["create", "patch"])
}

/// The program as the original's Deployment starts it.
struct DropIn {
    process: Process,
    probes: u16,
    metrics: u16,
    _folder: tempfile::TempDir,
}

impl DropIn {
    fn start(kubeconfig: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (probes, metrics) = (free_port(), free_port());
        let mut command = Command::new(BINARY);
        command
            .arg("--leader-elect=true")
            .arg(format!("--metrics-bind-address=:{metrics}"))
            .arg(format!("--health-probe-bind-address=:{probes}"))
            .env_clear()
            .env("HOME", "/nonexistent")
            // In place of the files that a pod finds.
            .env("KUBECONFIG", kubeconfig);
        let log = folder.path().join("log");
        let process = Process::spawn(&mut command, &log, true).unwrap();
        Self { process, probes, metrics, _folder: folder }
    }

    async fn answers(&self, port: u16, path: &str) -> String {
        let url = format!("http://127.0.0.1:{port}{path}");
        eventually(PATIENCE, path, || async {
            let (status, text) = http::get(&url).await?;
            anyhow::ensure!(status == 200, "{status} {text}\n{}", self.process.log_tail());
            Ok(text)
        })
        .await
    }
}

/// Events that were asked for: the group's prefix, and what was answered.
fn events(bench: &Bench) -> Vec<(&'static str, Option<u16>)> {
    let posts = bench.proxy.matching(&Match::verb(Verb::Create).resource("events"));
    posts.iter().map(|r| (if r.group.is_empty() { "core" } else { "new" }, r.status)).collect()
}

#[tokio::test]
async fn it_serves_in_the_original_s_deployment() {
    let bench = Bench::idle("drop-in", &[]).await;
    let mut rules = original_rules();
    rules.push(core_events());
    let token = bench.controlplane().service_account_token("drop-in", rules).await.unwrap();
    let kubeconfig = bench.proxy.kubeconfig(bench.controlplane(), &token).unwrap();
    let mut controller = DropIn::start(&kubeconfig);
    controller.answers(controller.probes, "/readyz").await;
    controller.answers(controller.probes, "/healthz").await;
    bench.bound().await;
    let metrics = controller.answers(controller.metrics, "/metrics").await;
    assert!(metrics.contains("address_controller_writes_total"));

    eventually(PATIENCE, "events in the core group", || async {
        let (events, seen) = (events(&bench), bench.events(bench.namespace(), "web").await);
        let arrived = events.contains(&("core", Some(201))) && seen.iter().any(|r| r == "Matched");
        if arrived { Ok(()) } else { Err(format!("{events:?} {seen:?}")) }
    })
    .await;
    bench.delete_claim("web").await;
    bench.claim_goes("web").await;
    bench.address_is("a1", AddressPhase::Released).await;
    let tried = events(&bench).into_iter().filter(|(group, _)| *group == "new").count();
    assert_eq!(tried, 1, "asked once for the group that is refused");
    let refused = |r: &testbed::proxy::Request| {
        let optional = ["events", "customresourcedefinitions"].contains(&&*r.resource);
        r.status == Some(403) && !optional
    };
    let refused = bench.proxy.matching(&Match::any().when(refused));
    assert!(refused.is_empty(), "{refused:#?}");

    let begin = Instant::now();
    controller.process.signal(Signal::Term);
    let status = controller.process.wait(PATIENCE).expect("it ends");
    assert!(status.success(), "{status}: {}", controller.process.log_tail());
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    bench.history().await.assert_clean();
}

#[tokio::test]
async fn where_no_events_are_allowed_it_says_so_once_and_serves() {
    let bench = Bench::idle("no-events", &[]).await;
    let rules = original_rules();
    let token = bench.controlplane().service_account_token("no-events", rules).await.unwrap();
    let kubeconfig = bench.proxy.kubeconfig(bench.controlplane(), &token).unwrap();
    let controller = DropIn::start(&kubeconfig);
    controller.answers(controller.probes, "/readyz").await;
    bench.bound().await;
    bench.delete_claim("web").await;
    bench.claim_goes("web").await;
    bench.address_is("a1", AddressPhase::Released).await;
    let log = || controller.process.log();
    eventually(PATIENCE, "the line", || async { log().contains("no events will be published") })
        .await;
    bench.at_rest().await;
    assert_eq!(log().matches("no events will be published").count(), 1, "{}", log());
    assert_eq!(events(&bench), [("new", Some(403)), ("core", Some(403))]);
}

fn told(controller: &Controller, what: &str) -> usize {
    controller.log().lines().filter(|line| line.contains(what)).count()
}

async fn says(controller: &Controller, what: &str) {
    eventually(PATIENCE, what, || async {
        let (status, text) = controller.probe("/readyz").await?;
        anyhow::ensure!(status == 503 && text.contains(what), "{status} {text}");
        anyhow::ensure!(told(controller, what) > 0, "{}", controller.log());
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn an_unreachable_server_and_missing_definitions_are_waited_for() {
    let controlplane = ControlPlane::start(Options::default()).await.unwrap();
    let kubeconfig = controlplane.admin_kubeconfig().unwrap();
    controlplane.stop_apiserver();
    let mut controller = Controller::start(&ControllerOptions::new(BINARY, kubeconfig)).unwrap();
    says(&controller, "the API server cannot be reached").await;
    controlplane.restart_apiserver().await.unwrap();
    for kind in OUR_KINDS {
        says(&controller, &format!("{kind}.{GROUP} is not installed")).await;
    }
    controlplane.install_crds().await.unwrap();
    controller.wait_ready().await.unwrap();
    assert_eq!(told(&controller, "cannot be reached"), 1, "{}", controller.log());
    for kind in OUR_KINDS {
        assert_eq!(told(&controller, &format!("{kind}.{GROUP}")), 1, "{}", controller.log());
    }
    assert!(controller.sigterm(Duration::from_secs(5)).unwrap().success());
}

/// The rules of the original with one resource's verbs made fewer.
fn without(resource: &str, verb: &str) -> Vec<PolicyRule> {
    let mut rules = original_rules();
    rules.push(core_events());
    for rule in &mut rules {
        let resources = rule.resources.as_mut().unwrap();
        if resources.iter().any(|r| r == resource) {
            resources.retain(|r| r != resource);
            let mut alone = rule.clone();
            alone.resources = Some(vec![resource.to_owned()]);
            alone.verbs.retain(|v| v != verb);
            rules.push(alone);
            break;
        }
    }
    rules
}

#[tokio::test]
async fn a_missing_right_is_named_and_waited_for() {
    let sandbox = Sandbox::alone("no-right").await.unwrap();
    let controlplane = sandbox.controlplane();
    let name = sandbox.namespace();
    let lacking = without("ipaddresses", "patch");
    let kubeconfig = controlplane.service_account_kubeconfig(name, lacking).await.unwrap();
    let mut controller = Controller::start(&ControllerOptions::new(BINARY, kubeconfig)).unwrap();
    says(&controller, "lacks rights: ipaddresses (patch)").await;
    controlplane.service_account_token(name, original_rules()).await.unwrap();
    controller.wait_ready().await.unwrap();
    assert_eq!(told(&controller, "lacks rights: ipaddresses (patch)"), 1);
}

/// The right to write is taken away and given back: what is refused is told of and tried again. The
/// right to watch likewise: readiness says so.
#[tokio::test]
async fn a_right_that_is_taken_away_is_missed_until_it_is_given_back() {
    let mut bench = Bench::idle("right-taken", &[]).await;
    let name = bench.namespace().to_owned();
    let controlplane = bench.controlplane();
    let token = controlplane.service_account_token(&name, original_rules()).await.unwrap();
    bench.start_as(&token, &["--queue-backoff-max=1s"]).await;
    bench.class("public").await.unwrap();
    bench.address("a1", "public", "192.0.2.1").await.unwrap();
    bench.address_is("a1", AddressPhase::Available).await;

    controlplane.service_account_token(&name, without("ipaddressclaims", "patch")).await.unwrap();
    may_not_patch_claims(&bench, &token).await;
    bench.claim("web", "public").await.unwrap();
    let refused = Match::writes().resource("ipaddressclaims").when(|r| r.status == Some(403));
    bench.proxy.wait_for(&refused, 3, PATIENCE).await.unwrap();
    assert_eq!(bench.controller_mut().exit_status(), None);
    controlplane.service_account_token(&name, original_rules()).await.unwrap();
    bench.claim_is("web", ClaimPhase::Bound).await;

    controlplane.service_account_token(&name, without("ipaddresses", "watch")).await.unwrap();
    eventually(PATIENCE, "the watch to be refused", || async {
        bench.proxy.cut_watches("ipaddresses");
        let (code, text) = bench.controller().probe("/readyz").await?;
        anyhow::ensure!(code == 503 && text.contains("refused"), "{code} {text}");
        Ok(())
    })
    .await;
    controlplane.service_account_token(&name, original_rules()).await.unwrap();
    bench.readiness(200).await;
    bench.delete_claim("web").await;
    bench.address_is("a1", AddressPhase::Released).await;
    bench.history().await.assert_clean();
}

/// Waits until the authorizer has heard that a caller may not patch claims any more.
async fn may_not_patch_claims(bench: &Bench, token: &str) {
    let client = bench.controlplane().client(token).unwrap();
    let claims: Api<IPAddressClaim> = Api::namespaced(client, bench.namespace());
    let nothing = Patch::Merge(serde_json::json!({}));
    eventually(PATIENCE, "the right to be gone", || async {
        let answer = claims.patch("absent", &PatchParams::default(), &nothing).await;
        matches!(answer, Err(kube::Error::Api(status)) if status.code == 403)
    })
    .await;
}
