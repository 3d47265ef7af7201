//! What is named, how often, and what is waited for.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{
    runtime::health::Health,
    telemetry::fake_api::{self, Asked, forbidden, status},
};

/// A healthy server's answer.
fn healthy(asked: &Asked) -> (u16, Value) {
    if asked.path == "/version" {
        return (
            200,
            json!({
                "major": "1", "minor": "36", "gitVersion": "v1.36.3", "buildDate": "", "compiler": "",
                "gitCommit": "", "gitTreeState": "", "goVersion": "", "platform": "",
            }),
        );
    }
    if asked.path.contains("/selfsubjectaccessreviews") {
        let mut review = asked.body.clone();
        review["status"] = json!({"allowed": true});
        return (201, review);
    }
    if asked.path.contains("/customresourcedefinitions/") {
        return forbidden("get", "customresourcedefinitions", "apiextensions.k8s.io");
    }
    let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                      "metadata": {}, "items": []});
    (200, list)
}

async fn obstacles(answer: impl Fn(&Asked) -> (u16, Value) + Send + Sync + 'static) -> Vec<String> {
    let (client, _) = fake_api::client(answer);
    look(&client).await.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn nothing_is_in_the_way_of_a_healthy_cluster() {
    assert_eq!(obstacles(healthy).await, Vec::<String>::new());
}

#[rstest]
#[case("1", "32", true)]
#[case("1", "32+", true)]
#[case("1", "33", false)]
#[case("1", "33+", false)]
#[case("1", "34-alpha", false)]
#[case("2", "0", false)]
#[case("", "", false)]
#[tokio::test]
async fn a_server_that_is_too_old_is_named(
    #[case] major: &'static str,
    #[case] minor: &'static str,
    #[case] too_old: bool,
) {
    let found = obstacles(move |asked| {
        let (code, mut body) = healthy(asked);
        if asked.path == "/version" {
            body["major"] = major.into();
            body["minor"] = minor.into();
            body["gitVersion"] = format!("v{major}.{minor}").into();
        }
        (code, body)
    });
    let expected = format!("the API server is v{major}.{minor}: version 1.33 or later is needed");
    assert_eq!(found.await, if too_old { vec![expected] } else { vec![] });
}

#[tokio::test]
async fn each_kind_that_is_not_installed_is_named() {
    let found = obstacles(|asked| {
        if asked.path.contains("/ipaddressclaims?") {
            (404, json!("404 page not found\n"))
        } else {
            healthy(asked)
        }
    })
    .await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("ipaddressclaims.local.sdn.cozystack.io is not installed"));
}

#[tokio::test]
async fn all_missing_rights_are_named_at_once() {
    let found = obstacles(|asked| {
        let of = &asked.body["spec"]["resourceAttributes"];
        let refused = of["verb"] == "delete" || of["subresource"] == "status";
        let (code, mut body) = healthy(asked);
        if refused {
            body["status"]["allowed"] = false.into();
        }
        if asked.path.contains("/ipaddresses?") {
            forbidden("list", "ipaddresses", "local.sdn.cozystack.io")
        } else {
            (code, body)
        }
    })
    .await;
    let rights = "the service account lacks rights: ipaddresses (delete), ipaddresses/status \
                  (patch), ipaddressclaims/status (patch): install the ClusterRole";
    assert_eq!(found, [rights]);
}

#[tokio::test]
async fn where_rights_cannot_be_asked_for_refused_lists_say_it_in_one_line() {
    let found = obstacles(|asked| {
        if asked.path.contains("/selfsubjectaccessreviews") {
            return forbidden("create", "selfsubjectaccessreviews", "authorization.k8s.io");
        }
        if asked.path.contains("/ipaddress") {
            forbidden("list", "ipaddresses", "local.sdn.cozystack.io")
        } else {
            healthy(asked)
        }
    })
    .await;
    let rights = "the service account lacks rights: ipaddressclasses (list), ipaddresses (list), \
                  ipaddressclaims (list): install the ClusterRole";
    assert_eq!(found, [rights]);
}

#[tokio::test]
async fn a_hidden_version_is_no_obstacle() {
    let found = obstacles(|asked| {
        if asked.path == "/version" {
            status(403, "Forbidden", "forbidden: User \"x\" cannot get path \"/version\"")
        } else {
            healthy(asked)
        }
    });
    assert_eq!(found.await, Vec::<String>::new());
}

#[tokio::test]
async fn a_server_that_fails_is_asked_nothing_more() {
    let (client, record) = fake_api::client(|_| status(503, "ServiceUnavailable", "starting up"));
    let found = look(&client).await;
    assert_eq!(found, [Obstacle::Failing("starting up".into())]);
    assert_eq!(record.lock().len(), 1);
    let (client, _) = fake_api::client(|_| status(401, "Unauthorized", "Unauthorized"));
    assert_eq!(look(&client).await, [Obstacle::Unauthorized("Unauthorized".into())]);
}

/// H04: the wait grows, readiness says what for, and it ends by itself when the server is back.
#[tokio::test(start_paused = true)]
async fn h04_it_waits_with_growing_pauses_and_goes_on_by_itself() {
    let tries = Arc::new(AtomicUsize::new(0));
    let health = Health::new();
    let (seen, during) = (Arc::clone(&tries), health.clone());
    let (client, _) = fake_api::client(move |asked| {
        if asked.path != "/version" {
            return healthy(asked);
        }
        match seen.fetch_add(1, Ordering::Relaxed) {
            0 => {}
            _ => assert_eq!(during.verdict().reason, "the API server does not serve: later"),
        }
        match seen.load(Ordering::Relaxed) {
            ..=12 => status(500, "InternalError", "later"),
            _ => healthy(asked),
        }
    });
    let start = tokio::time::Instant::now();
    wait(&client, &health, &Metrics::new()).await;
    let waited = start.elapsed().as_secs();
    assert!((60..200).contains(&waited), "twelve growing pauses of at most 20 s: {waited} s");
    assert_eq!(tries.load(Ordering::Relaxed), 13);
}

#[test]
fn an_obstacle_in_other_words_is_the_same_obstacle() {
    let unreachable = |text: &str| Obstacle::Unreachable(text.into()).key();
    assert_eq!(unreachable("refused"), unreachable("timed out"));
    assert_ne!(unreachable("x"), Obstacle::Failing("x".into()).key());
    let missing = |kind: &str| Obstacle::NotInstalled(kind.into()).key();
    assert_ne!(missing("ipaddresses"), missing("ipaddressclaims"));
}
