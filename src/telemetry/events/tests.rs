//! Where events go, and that none of them ever fails anything.

use serde_json::{Value, json};

use super::*;
use crate::telemetry::fake_api::{self, Asked, Record, forbidden, status};

fn note(n: usize) -> Note {
    Note {
        regarding: ObjectReference {
            kind: Some("IPAddressClaim".into()),
            namespace: Some("t1".into()),
            name: Some("web".into()),
            uid: Some("u1".into()),
            ..ObjectReference::default()
        },
        related: Some(ObjectReference {
            kind: Some("IPAddress".into()),
            name: Some("a1".into()),
            ..ObjectReference::default()
        }),
        type_: NoteType::Normal,
        reason: "Matched",
        action: "Match",
        note: format!("note {n}"),
    }
}

fn is_core(asked: &Asked) -> bool {
    asked.path.starts_with("/api/v1/")
}

/// Says `notes` to a publisher whose API server answers so, and waits until all are dealt with.
async fn sent(
    answer: impl Fn(&Asked) -> (u16, Value) + Send + Sync + 'static,
    notes: impl IntoIterator<Item = Note>,
) -> (Record, Arc<Metrics>) {
    let (client, record) = fake_api::client(answer);
    let metrics = Arc::new(Metrics::new());
    let (events, publisher) = Events::new(client, "pod-0", Arc::clone(&metrics));
    for note in notes {
        events.publish(note);
    }
    let stop = CancellationToken::new();
    stop.cancel();
    publisher.run(stop).await;
    (record, metrics)
}

#[tokio::test]
async fn events_go_to_the_events_group_beside_their_object() {
    let (record, metrics) = sent(|asked| (201, asked.body.clone()), [note(1), note(2)]).await;
    let record = record.lock();
    assert_eq!(record.len(), 2);
    for (n, asked) in record.iter().enumerate() {
        assert_eq!(asked.method, http::Method::POST, "a repetition is created, not patched");
        assert!(asked.path.starts_with("/apis/events.k8s.io/v1/namespaces/t1/events"));
        let body = &asked.body;
        assert_eq!(body["note"], format!("note {}", n + 1), "the note is its own");
        assert_eq!(body["reason"], "Matched");
        assert_eq!(body["action"], "Match");
        assert_eq!(body["type"], "Normal");
        assert_eq!(body["reportingController"], "address-controller");
        assert_eq!(body["reportingInstance"], "pod-0");
        assert_eq!(body["regarding"]["uid"], "u1");
        assert_eq!(body["related"]["name"], "a1");
    }
    assert_eq!(metrics.events_so_far(EventResult::Sent), 2);
}

#[tokio::test]
async fn where_the_events_group_is_refused_the_core_group_is_used_from_then_on() {
    let no_such_api = (404, json!("404 page not found\n"));
    for refusal in [forbidden("create", "events", "events.k8s.io"), no_such_api] {
        let answer = move |asked: &Asked| {
            if is_core(asked) { (201, asked.body.clone()) } else { refusal.clone() }
        };
        let (record, metrics) = sent(answer, [note(1), note(2)]).await;
        let record = record.lock();
        let core: Vec<bool> = record.iter().map(is_core).collect();
        assert_eq!(core, [false, true, true], "the first is sent again, the second at once");
        let asked = &record[1];
        assert!(asked.path.starts_with("/api/v1/namespaces/t1/events"));
        let body = &asked.body;
        assert_eq!(body["message"], "note 1");
        assert_eq!(body["involvedObject"]["uid"], "u1");
        assert_eq!(body["metadata"]["namespace"], "t1");
        assert_eq!(body["source"]["component"], "address-controller");
        assert_eq!(body["reportingComponent"], "address-controller");
        assert_eq!(body["reportingInstance"], "pod-0");
        assert_eq!(body["count"], 1);
        assert!(body["firstTimestamp"].is_string() && body["lastTimestamp"].is_string());
        assert!(body.get("eventTime").is_none_or(Value::is_null));
        assert_eq!(metrics.events_so_far(EventResult::Sent), 2);
    }
}

#[tokio::test]
async fn events_about_objects_without_a_namespace_are_kept_in_default() {
    for core in [false, true] {
        let answer = move |asked: &Asked| {
            if is_core(asked) || !core {
                (201, asked.body.clone())
            } else {
                forbidden("create", "events", "events.k8s.io")
            }
        };
        let mut about_address = note(1);
        about_address.regarding.namespace = None;
        let (record, _) = sent(answer, [about_address]).await;
        let record = record.lock();
        let last = record.last().expect("a request");
        assert_eq!(is_core(last), core);
        assert!(last.path.contains("/namespaces/default/events"), "{}", last.path);
    }
}

#[tokio::test]
async fn where_both_are_refused_nothing_more_is_asked() {
    let answer = |_: &Asked| forbidden("create", "events", "");
    let (record, metrics) = sent(answer, [note(1), note(2), note(3)]).await;
    assert_eq!(record.lock().len(), 2, "one try of each");
    assert_eq!(metrics.events_so_far(EventResult::Dropped), 3);
    assert_eq!(metrics.events_so_far(EventResult::Failed), 0);
}

/// B08: a namespace that terminates refuses every event in it; others are told as before.
#[tokio::test]
async fn b08_what_one_namespace_refuses_says_nothing_of_the_others() {
    let gone = json!({
        "kind": "Status", "code": 404, "reason": "NotFound", "status": "Failure",
        "message": "namespaces \"t1\" not found",
        "details": {"name": "t1", "kind": "namespaces"},
    });
    for refusal in [
        status(
            403,
            "Forbidden",
            "events.events.k8s.io \"web.1\" is forbidden: unable to create new content in \
             namespace t1 because it is being terminated",
        ),
        status(403, "Forbidden", "events \"web.1\" is forbidden: exceeded quota: few-events"),
        status(500, "InternalError", "etcd is not there"),
        (404, gone),
    ] {
        let answer = move |asked: &Asked| {
            if asked.path.contains("/t1/") { refusal.clone() } else { (201, asked.body.clone()) }
        };
        let mut elsewhere = note(2);
        elsewhere.regarding.namespace = Some("t2".into());
        let (record, metrics) = sent(answer, [note(1), elsewhere]).await;
        assert!(!record.lock().iter().any(is_core), "it is not the group that is refused");
        assert_eq!(metrics.events_so_far(EventResult::Failed), 1);
        assert_eq!(metrics.events_so_far(EventResult::Sent), 1);
    }
}

#[tokio::test]
async fn what_does_not_fit_is_dropped_and_counted() {
    let metrics = Arc::new(Metrics::new());
    let (events, mut waiting) = Events::captured(Arc::clone(&metrics));
    for n in 0..QUEUE + 7 {
        events.publish(note(n));
    }
    assert_eq!(metrics.events_so_far(EventResult::Dropped), 7);
    assert_eq!(waiting.recv().await.map(|n| n.note), Some("note 0".to_owned()));
}

#[tokio::test]
async fn what_waits_is_sent_before_the_end() {
    let (client, record) = fake_api::client(|asked| (201, asked.body.clone()));
    let (events, publisher) = Events::new(client, "pod-0", Arc::default());
    (0..5).for_each(|n| events.publish(note(n)));
    let stop = CancellationToken::new();
    stop.cancel();
    publisher.run(stop).await;
    assert_eq!(record.lock().len(), 5);
}

/// What a claim or address can be called leaves no room for what makes an event's name its own.
#[tokio::test]
async fn objects_with_the_longest_names_are_told_of() {
    for name in [
        "a".repeat(253),
        format!("{}.{}", "a".repeat(235), "b".repeat(17)),
        format!("{}a", "a.".repeat(126)),
    ] {
        let long = || Note {
            regarding: ObjectReference { name: Some(name.clone()), ..note(1).regarding },
            ..note(1)
        };
        for core in [false, true] {
            let (record, metrics) = sent(
                move |asked| {
                    if is_core(asked) == core {
                        (201, asked.body.clone())
                    } else {
                        forbidden("create", "events", "events.k8s.io")
                    }
                },
                [long()],
            )
            .await;
            let record = record.lock();
            let event = &record.last().expect("a request").body;
            let event = event["metadata"]["name"].as_str().expect("a name");
            assert!(crate::api::is_object_name(event), "{event}");
            assert!(event.starts_with(&name[..200]), "{event}");
            assert_eq!(metrics.events_so_far(EventResult::Sent), 1);
        }
    }
}
