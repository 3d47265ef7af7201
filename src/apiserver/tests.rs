//! What is asked of the API server, and what is not.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use rstest::rstest;

use super::*;
use crate::{
    clock::{Clock, Moment},
    queue::Config,
    telemetry::fake_api::{self, Record, status},
};

/// An API server that has nothing, and what it was asked.
fn empty() -> (ApiServer, Record) {
    let (client, record) = fake_api::client(|_| status(404, "NotFound", "not found"));
    let clock = Clock::new(|| Moment { wall: Timestamp::UNIX_EPOCH, elapsed: Duration::ZERO });
    let world = Arc::new(World::new(Config::default(), clock));
    let api = ApiServer::new(client, world, Arc::new(Metrics::new()), Arc::new(|| true));
    (api, record)
}

async fn read(namespace: &str, name: &str) -> Vec<String> {
    let (api, record) = empty();
    let by = Name::from("a1");
    api.read_address(Learner::Address(&by), &name.into()).await.unwrap();
    api.read_claim(Learner::Address(&by), &ClaimKey::new(namespace, name)).await.unwrap();
    let asked = record.lock();
    asked.iter().map(|asked| asked.path.clone()).collect()
}

/// Tenants choose these texts: none may become another request than the one that is meant.
#[rstest]
#[case("?watch=true")]
#[case("a1?x=")]
#[case("..")]
#[case(".")]
#[case("a/b")]
#[case("%2e%2e")]
#[case("%zz")]
#[case("a b")]
#[case("a#b")]
#[case("A1")]
#[case("")]
#[tokio::test]
async fn for_what_cannot_be_a_name_nobody_is_asked(#[case] text: &str) {
    assert_eq!(read("t1", text).await, <[String; 0]>::default());
    let paths = read(text, "web").await;
    assert_eq!(paths.len(), 1, "the address alone: {paths:?}");
}

#[tokio::test]
async fn a_name_is_asked_for_under_its_own_path() {
    let group = "/apis/local.sdn.cozystack.io/v1alpha1";
    let paths = read("t1", "203.0.113.7").await;
    let expected = [
        format!("{group}/ipaddresses/203.0.113.7"),
        format!("{group}/namespaces/t1/ipaddressclaims/203.0.113.7"),
    ];
    assert_eq!(paths, expected);
}
