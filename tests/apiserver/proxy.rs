//! The fault proxy against the real API server: each fault is the one it says, and nothing else is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use address_controller::api::IPAddressClaim;
use futures::{StreamExt, TryStreamExt};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use testbed::{
    Proxy, Sandbox,
    controlplane::{ADMIN_TOKEN, USER_AGENT},
    eventually, make,
    proxy::{Act, Freeze, Go, Match, Verb},
    wait::BOUNDED,
};

/// How long nothing is to happen, where that is what a test is about.
const WHILE: Duration = Duration::from_millis(150);

/// A sandbox, a proxy, and the sandbox's claims as seen through it.
async fn through_a_proxy(test: &str) -> (Sandbox, Proxy, Api<IPAddressClaim>) {
    let sandbox = Sandbox::new(test).await.unwrap();
    let proxy = Proxy::start(sandbox.controlplane()).unwrap();
    let client = proxy.client(ADMIN_TOKEN).unwrap();
    let claims = Api::namespaced(client, sandbox.namespace());
    (sandbox, proxy, claims)
}

async fn create(claims: &Api<IPAddressClaim>, name: &str) -> kube::Result<IPAddressClaim> {
    let namespace = claims.namespace().unwrap();
    claims.create(&PostParams::default(), &make::claim(namespace, name, "public")).await
}

/// The claim as the API server has it, past the proxy.
async fn claim(sandbox: &Sandbox, name: &str) -> Option<IPAddressClaim> {
    sandbox.claims().get_opt(name).await.unwrap()
}

fn code(result: kube::Result<IPAddressClaim>) -> u16 {
    match result {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("not an answer of the API: {other:?}"),
    }
}

#[tokio::test]
async fn without_a_rule_requests_go_through_and_are_recorded() {
    let (sandbox, proxy, claims) = through_a_proxy("proxy-through").await;
    create(&claims, "web").await.unwrap();
    assert_eq!(code(create(&claims, "web").await), 409);
    assert_eq!(claims.list(&ListParams::default()).await.unwrap().items.len(), 1);

    let stranger = proxy.client("a-token-that-nobody-knows").unwrap();
    let claims: Api<IPAddressClaim> = Api::namespaced(stranger, sandbox.namespace());
    assert_eq!(code(claims.get("web").await), 401, "the caller's own credentials go through");

    let seen: Vec<_> = proxy.requests().iter().map(|r| (r.verb, r.status)).collect();
    assert_eq!(
        seen,
        [
            (Verb::Create, Some(201)),
            (Verb::Create, Some(409)),
            (Verb::List, Some(200)),
            (Verb::Get, Some(401)),
        ]
    );
    let first = &proxy.requests()[0];
    assert_eq!((&*first.resource, &*first.namespace), ("ipaddressclaims", sandbox.namespace()));
    assert_eq!(first.body.as_ref().unwrap()["spec"]["className"], "public");
    assert_eq!(first.user_agent, USER_AGENT);
    assert_eq!(proxy.count(&Match::writes()), 2);
    proxy.forget_requests();
    assert_eq!(proxy.count(&Match::any()), 0);
}

#[tokio::test]
async fn an_answer_in_place_of_the_server_has_no_effect_and_an_answer_after_it_has() {
    let (sandbox, proxy, claims) = through_a_proxy("proxy-answer").await;
    let busy = Act::Answer { status: 429, retry_after: Some(7) };
    let rule = proxy.rule(Match::verb(Verb::Create).times(1), busy);
    let error = create(&claims, "web").await.unwrap_err();
    let kube::Error::Api(status) = &error else { panic!("{error}") };
    assert_eq!((status.code, &*status.reason), (429, "TooManyRequests"));
    assert_eq!(rule.hits(), 1);
    assert!(claim(&sandbox, "web").await.is_none());

    proxy.rule(Match::verb(Verb::Create).times(1), Act::AnswerAfter(504));
    assert_eq!(code(create(&claims, "web").await), 504);
    sandbox.claims().get("web").await.unwrap();
}

#[tokio::test]
async fn the_wait_that_an_answer_asks_for_is_in_its_header() {
    let (_sandbox, proxy, _claims) = through_a_proxy("proxy-retry").await;
    proxy.rule(Match::any().path("/version"), Act::Answer { status: 429, retry_after: Some(7) });
    let client = proxy.client(ADMIN_TOKEN).unwrap();
    let request = http::Request::get("/version").body(kube::client::Body::empty()).unwrap();
    let answer = client.send(request).await.unwrap();
    assert_eq!(answer.status(), 429);
    assert_eq!(answer.headers()[http::header::RETRY_AFTER], "7");
}

#[tokio::test]
async fn a_dropped_request_has_no_effect_and_one_dropped_after_has() {
    let (sandbox, proxy, claims) = through_a_proxy("proxy-drop").await;
    proxy.rule(Match::writes().resource("ipaddressclaims").nth(1), Act::Drop);
    proxy.rule(Match::writes().resource("ipaddressclaims").nth(1), Act::DropAfter);
    for (name, there) in [("dropped", false), ("dropped-after", true)] {
        let error = create(&claims, name).await.unwrap_err();
        assert!(!matches!(error, kube::Error::Api(_)), "{name} was answered: {error}");
        assert_eq!(claim(&sandbox, name).await.is_some(), there, "{name}");
    }
    create(&claims, "web").await.unwrap();
    let answered: Vec<_> = proxy.requests().iter().map(|r| r.status).collect();
    assert_eq!(answered, [None, None, Some(201)]);
}

#[tokio::test]
async fn a_rule_acts_on_the_request_it_means() {
    let (_sandbox, proxy, claims) = through_a_proxy("proxy-nth").await;
    let creates = Match::verb(Verb::Create);
    proxy.rule(creates.clone().nth(2), Act::answer(500));
    proxy.rule(
        creates.clone().when(|r| r.body.as_ref().is_some_and(|b| b["metadata"]["name"] == "bad")),
        Act::answer(403),
    );
    proxy.rule(Match::verb(Verb::Get).name("secret"), Act::answer(404));
    proxy.rule(creates.agent("somebody-else"), Act::answer(503));
    create(&claims, "one").await.unwrap();
    assert_eq!(code(create(&claims, "two").await), 500);
    create(&claims, "two").await.unwrap();
    assert_eq!(code(create(&claims, "bad").await), 403);
    create(&claims, "secret").await.unwrap();
    assert_eq!(code(claims.get("secret").await), 404);
    claims.get("one").await.unwrap();
    proxy.clear_rules();
    claims.get("secret").await.unwrap();
}

#[tokio::test]
async fn a_held_request_takes_effect_when_released_and_a_held_answer_before() {
    let (sandbox, proxy, claims) = through_a_proxy("proxy-hold").await;
    for (name, act, effect) in [("held", Act::Hold, false), ("answer-held", Act::HoldAnswer, true)]
    {
        let rule = proxy.rule(Match::verb(Verb::Create).times(1), act);
        let through = claims.clone();
        let create = tokio::spawn(async move { create(&through, name).await });
        rule.reached(1, BOUNDED).await.unwrap();
        if effect {
            eventually(BOUNDED, "the effect", || claim(&sandbox, name)).await;
        } else {
            assert!(claim(&sandbox, name).await.is_none());
        }
        assert!(!create.is_finished());
        rule.release();
        create.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_delayed_request_comes_late() {
    let (_sandbox, proxy, claims) = through_a_proxy("proxy-delay").await;
    proxy.rule(Match::verb(Verb::Create), Act::Delay(WHILE));
    let begin = std::time::Instant::now();
    create(&claims, "web").await.unwrap();
    assert!(begin.elapsed() >= WHILE);
}

#[tokio::test]
async fn hooks_run_before_and_after_the_effect_and_can_end_the_request() {
    let (sandbox, proxy, claims) = through_a_proxy("proxy-hook").await;
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let first = Match::verb(Verb::Create).nth(1);
    proxy.rule(
        first.clone(),
        Act::before(move |request| {
            assert_eq!(request.status, None);
            count.fetch_add(1, Ordering::SeqCst);
            Go::Drop
        }),
    );
    create(&claims, "before").await.unwrap_err();
    assert!(claim(&sandbox, "before").await.is_none());

    let count = runs.clone();
    proxy.rule(
        first,
        Act::after(move |request| {
            assert_eq!(request.status, Some(201));
            count.fetch_add(1, Ordering::SeqCst);
            Go::Drop
        }),
    );
    create(&claims, "after").await.unwrap_err();
    assert!(claim(&sandbox, "after").await.is_some());
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

/// The name in the next event of a watch.
async fn next(
    events: &mut (impl futures::Stream<Item = kube::Result<WatchEvent<IPAddressClaim>>> + Unpin),
) -> String {
    match events.try_next().await.unwrap() {
        Some(WatchEvent::Added(claim)) => claim.name_any(),
        other => panic!("no new claim: {other:?}"),
    }
}

#[tokio::test]
async fn a_frozen_watch_passes_nothing_and_everything_when_it_thaws() {
    let (sandbox, proxy, claims) = through_a_proxy("proxy-freeze").await;
    let params = WatchParams::default().disable_bookmarks();
    let mut events = claims.watch(&params, "0").await.unwrap().boxed();
    sandbox.claim("one", "public").await.unwrap();
    assert_eq!(next(&mut events).await, "one");

    proxy.freeze_watches("ipaddressclaims", Freeze::OpenOnes);
    sandbox.claim("two", "public").await.unwrap();
    assert!(tokio::time::timeout(WHILE, events.next()).await.is_err(), "the watch is frozen");
    let mut other = claims.watch(&params, "0").await.unwrap().boxed();
    next(&mut other).await;
    drop(other);

    proxy.freeze_watches("ipaddressclaims", Freeze::NewOnesToo);
    let mut other = claims.watch(&params, "0").await.unwrap().boxed();
    assert!(tokio::time::timeout(WHILE, other.next()).await.is_err(), "the new one is frozen too");
    assert_eq!(claims.list(&ListParams::default()).await.unwrap().items.len(), 2);

    proxy.thaw_watches("ipaddressclaims");
    assert_eq!(next(&mut events).await, "two");
    next(&mut other).await;
}

#[tokio::test]
async fn a_cut_watch_ends_in_the_middle() {
    let (sandbox, proxy, claims) = through_a_proxy("proxy-cut").await;
    let mut events =
        claims.watch(&WatchParams::default().disable_bookmarks(), "0").await.unwrap().boxed();
    sandbox.claim("one", "public").await.unwrap();
    assert_eq!(next(&mut events).await, "one");
    assert_eq!(proxy.open_watches("ipaddressclaims"), 1);
    assert_eq!(proxy.cut_watches("ipaddresses"), 0);
    assert_eq!(proxy.cut_watches("ipaddressclaims"), 1);
    let end = tokio::time::timeout(BOUNDED, events.next()).await.expect("the watch goes on");
    assert!(!matches!(end, Some(Ok(_))), "{end:?}");
    eventually(BOUNDED, "the watch to be gone", || async {
        proxy.open_watches("ipaddressclaims") == 0
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_gone_is_a_connection_that_ends() {
    let sandbox = Sandbox::alone("proxy-gone").await.unwrap();
    let proxy = Proxy::start(sandbox.controlplane()).unwrap();
    let client = proxy.client(ADMIN_TOKEN).unwrap();
    client.apiserver_version().await.unwrap();
    sandbox.controlplane().stop_apiserver();
    let error = client.apiserver_version().await.unwrap_err();
    assert!(!matches!(error, kube::Error::Api(_)), "{error}");
    sandbox.controlplane().restart_apiserver().await.unwrap();
    client.apiserver_version().await.unwrap();
}
