//! Joining, from lines as the API server writes them and commits as etcd has them.

use address_controller::binder::invariants::{Kind, Precondition, Rule, Verb};
use serde_json::{Value, json};

use super::{
    audit::{self, Ask, Effect, Request, Target},
    *,
};

pub(super) const AGENT: &str = "address-controller/0.1.0 (one)";

fn event(verb: &str, code: u16, asked: &Value, answered: &Value) -> Value {
    json!({
        "stage": "ResponseComplete", "requestURI": "/apis/x", "verb": verb,
        "user": { "username": "admin" }, "userAgent": AGENT,
        "objectRef": { "resource": "ipaddresses", "name": "a1", "apiGroup": "local.sdn.cozystack.io" },
        "responseStatus": { "code": code },
        "requestObject": asked, "responseObject": answered,
        "requestReceivedTimestamp": "2026-01-01T00:00:00.000001Z",
    })
}

fn parse(event: &Value) -> Option<Request> {
    audit::parse(&event.to_string(), &Actors::default()).expect("an audit event")
}

fn parsed(event: &Value) -> Request {
    parse(event).expect("a request that counts")
}

/// The address as etcd has it, and as the API server answers with it.
fn address(phase: &str) -> Value {
    json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddress",
        "metadata": { "name": "a1", "uid": "u1", "finalizers": ["local.sdn.cozystack.io/address-protection"] },
        "spec": { "className": "public", "address": "192.0.2.1", "source": { "fromClass": {} } },
        "status": { "phase": phase },
    })
}

fn answer(object: &Value, revision: u64) -> Value {
    let mut object = object.clone();
    object["metadata"]["resourceVersion"] = revision.to_string().into();
    object
}

fn deleting(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    object
}

fn commit(revision: u64, value: Option<&Value>) -> etcd::Commit {
    etcd::Commit {
        revision,
        resource: "ipaddresses".to_owned(),
        namespace: None,
        name: "a1".to_owned(),
        value: value.map(|v| v.to_string().into_bytes()),
    }
}

/// The history of these commits and these lines of the log.
pub(super) fn history_of(commits: &[etcd::Commit], events: &[Value]) -> History {
    let beginning = Bookmark { revision: 0, audit_offset: 0, existing: Vec::new() };
    let happened = Happened::read(&beginning, commits.to_vec());
    let requests: Vec<_> = events.iter().filter_map(parse).collect();
    let made_by = happened.join(&requests);
    History::new(happened, requests, made_by)
}

/// Where each way of writing keeps its condition.
#[test]
fn preconditions_are_found_in_every_kind_of_write() {
    let none = Precondition::default();
    let version = Precondition { resource_version: true, uid: false };
    let uid = Precondition { resource_version: false, uid: true };
    let both = Precondition { resource_version: true, uid: true };
    let meta = json!({ "metadata": { "resourceVersion": "7", "uid": "u" } });
    let rows = [
        ("patch", json!({ "metadata": { "resourceVersion": "7" } }), version),
        ("patch", json!({ "metadata": { "uid": "u" } }), uid),
        ("patch", json!({ "spec": {} }), none),
        ("patch", json!({ "metadata": { "resourceVersion": "" } }), none),
        (
            "patch",
            json!([{ "op": "test", "path": "/metadata/resourceVersion", "value": "7" }]),
            version,
        ),
        ("patch", json!([{ "op": "test", "path": "/metadata/uid", "value": "u" }]), uid),
        (
            "patch",
            json!([{ "op": "add", "path": "/metadata/resourceVersion", "value": "7" }]),
            none,
        ),
        ("update", meta.clone(), both),
        ("create", meta.clone(), none),
        ("delete", json!({ "preconditions": { "uid": "u", "resourceVersion": "7" } }), both),
        ("delete", json!({ "preconditions": { "resourceVersion": "7" } }), version),
        ("delete", meta, none),
        ("delete", Value::Null, none),
    ];
    for (verb, body, expected) in rows {
        let request = parsed(&event(verb, 200, &body, &Value::Null));
        assert_eq!(request.precondition, expected, "{verb} {body}");
    }
}

/// What each answer says was done.
#[test]
fn effects_are_read_from_answers() {
    let kept = answer(&deleting(&address("Bound")), 8);
    let mut ended = kept.clone();
    ended["metadata"]["finalizers"].take();
    let status = json!({ "kind": "Status", "details": { "uid": "u1" } });
    let list = json!({ "items": [address("Bound")] });
    let gone = Effect::Deleted { uids: vec!["u1".to_owned()] };
    let rows = [
        ("patch", 200, answer(&address("Bound"), 8), Effect::Stored { revision: 8 }),
        ("create", 201, answer(&address("Bound"), 8), Effect::Stored { revision: 8 }),
        ("patch", 200, ended, Effect::Ended { uid: "u1".to_owned() }),
        ("delete", 200, kept, Effect::Stored { revision: 8 }),
        ("delete", 200, status, gone.clone()),
        ("deletecollection", 200, list, gone),
        ("patch", 409, json!({ "kind": "Status" }), Effect::Refused),
        ("patch", 504, json!({ "kind": "Status" }), Effect::Unknown),
        ("patch", 503, json!({ "kind": "Status" }), Effect::Refused),
        ("get", 200, Value::Null, Effect::Unknown),
    ];
    for (verb, code, body, expected) in rows {
        let request = parsed(&event(verb, code, &Value::Null, &body));
        assert_eq!(request.effect, expected, "{verb} {code}");
    }
}

/// A watch counts when it begins, everything else when it ends, a dry run never.
#[test]
fn every_request_counts_once() {
    let counted = |verb: &str, stage: &str| {
        let mut event = event(verb, 200, &Value::Null, &Value::Null);
        event["stage"] = stage.into();
        parse(&event).map(|r| r.ask)
    };
    assert_eq!(counted("watch", "ResponseStarted"), Some(Ask::Watch));
    assert_eq!(counted("watch", "ResponseComplete"), None);
    assert_eq!(counted("list", "ResponseComplete"), Some(Ask::List));
    assert_eq!(counted("list", "ResponseStarted"), None);
    let mut dry = event("patch", 200, &Value::Null, &Value::Null);
    dry["requestURI"] = "/apis/x?dryRun=All".into();
    assert!(parse(&dry).is_none());
}

#[test]
fn callers_are_told_apart() {
    let actors = Actors::default().agent("fake-driver", Actor::Driver).user("tina", Actor::Tenant);
    assert_eq!(actors.who(AGENT, "admin"), Actor::Controller(AGENT.to_owned()));
    assert_eq!(actors.who("address-controller-demo/1", "admin"), Actor::Other);
    assert_eq!(actors.who("fake-driver/1", "tina"), Actor::Driver);
    assert_eq!(actors.who("kubectl/1", "tina"), Actor::Tenant);
    assert_eq!(actors.who("kubectl/1", "admin"), Actor::Other);
}

/// Of the writes that answer with one revision, the first made it: later ones changed nothing.
#[test]
fn a_write_that_changed_nothing_made_no_commit() {
    let stored = address("Available");
    let made = event("create", 201, &Value::Null, &answer(&stored, 5));
    let mut nothing = event("patch", 200, &Value::Null, &answer(&stored, 5));
    nothing["requestReceivedTimestamp"] = "2026-01-01T00:00:00.000002Z".into();
    let history = history_of(&[commit(5, Some(&stored))], &[nothing, made]);
    let write = history.changes[0].write.clone().expect("its request");
    assert_eq!(write.verb, Verb::Create);
    let writes = history.writes_by_controller(&Scope::everything());
    let made: Vec<_> = writes.iter().map(|w| w.change.is_some()).collect();
    assert_eq!(made, [false, true]);
}

/// A whole life: created, marked, ended; the log has no revision for the end, and answers the patch
/// that ended it with the revision of the mark.
#[test]
fn deletions_are_joined_by_uid() {
    let first = address("Available");
    let marked = deleting(&first);
    let mut ended = answer(&marked, 6);
    ended["metadata"]["finalizers"].take();
    let body = json!({ "preconditions": { "uid": "u1", "resourceVersion": "5" } });
    let events = [
        event("create", 201, &Value::Null, &answer(&first, 5)),
        event("delete", 200, &body, &answer(&marked, 6)),
        event("patch", 200, &json!({ "metadata": { "resourceVersion": "6" } }), &ended),
    ];
    let commits = [commit(5, Some(&first)), commit(6, Some(&marked)), commit(9, None)];
    let history = history_of(&commits, &events);
    let verbs: Vec<_> = history.changes.iter().map(|c| c.write.as_ref().map(|w| w.verb)).collect();
    assert_eq!(verbs, [Some(Verb::Create), Some(Verb::Delete), Some(Verb::Patch)]);
    assert!(history.changes[1].write.as_ref().is_some_and(|w| w.precondition.uid));

    // At once, where no finalizer keeps it.
    let status = json!({ "kind": "Status", "details": { "uid": "u1" } });
    let at_once = event("delete", 200, &Value::Null, &status);
    let history = history_of(&[commit(5, Some(&first)), commit(6, None)], &[at_once]);
    let verbs: Vec<_> = history.changes.iter().map(|c| c.write.as_ref().map(|w| w.verb)).collect();
    assert_eq!(verbs, [None, Some(Verb::Delete)]);
    assert_eq!(history.unattributed().count(), 1, "nobody created it");
}

/// A write that took effect although its answer was a time-out.
#[test]
fn a_write_with_an_error_for_an_answer_is_found_by_name() {
    let (first, second) = (address("Available"), address("Bound"));
    let events = [
        event("create", 201, &Value::Null, &answer(&first, 5)),
        event("patch", 504, &json!({ "metadata": { "resourceVersion": "5" } }), &Value::Null),
    ];
    let history = history_of(&[commit(5, Some(&first)), commit(6, Some(&second))], &events);
    assert_eq!(history.unattributed().count(), 0);
    assert_eq!(history.request_of(1).map(|r| r.status), Some(504));
}

/// A server that was killed has not logged what it was at: such a commit is not given to whoever
/// asked in vain for something else.
#[test]
fn a_write_with_an_error_for_an_answer_is_not_found_where_it_cannot_have_been() {
    let stored = address("Available");
    let patch = |on: &str| {
        let body = json!({ "metadata": { "resourceVersion": on } });
        event("patch", 504, &body, &Value::Null)
    };
    let create = event("create", 504, &Value::Null, &Value::Null);
    for (asked, known) in [(patch("4"), 0), (patch("5"), 1), (create, 1)] {
        let commits = [commit(5, Some(&stored)), commit(6, Some(&address("Bound")))];
        let history = history_of(&commits, std::slice::from_ref(&asked));
        assert_eq!(2 - history.unattributed().count(), known, "{asked}");
        let found = [0, 1].map(|i| history.request_of(i).is_some());
        let is_creation = asked["verb"] == "create";
        assert_eq!(found, [is_creation, known == 1 && !is_creation], "{asked}");
    }
}

/// A06: an object that does not parse is told of, and stops nothing.
#[test]
fn a06_a_strange_object_is_told_of() {
    let strange = address("Quarantined");
    let fine = address("Available");
    let commits = [commit(5, Some(&strange)), commit(6, Some(&fine)), commit(7, None)];
    let history = history_of(&commits, &[]);
    assert_eq!(history.unreadable().map(|u| u.name.as_str()).collect::<Vec<_>>(), ["a1"]);
    assert!(matches!(&history.changes[1].object, Object::Address(v) if v.old.is_none()));
    assert!(matches!(&history.changes[2].object, Object::Address(v) if v.old.is_some()));
}

/// What is counted for a namespace, a class, both.
#[test]
fn counters_are_scoped() {
    let stored = address("Available");
    let mut elsewhere = event("patch", 409, &Value::Null, &Value::Null);
    elsewhere["objectRef"] = json!({ "resource": "ipaddressclaims", "name": "web",
        "namespace": "t1", "apiGroup": "local.sdn.cozystack.io" });
    let mut read = event("get", 200, &Value::Null, &Value::Null);
    read["objectRef"]["namespace"] = "t1".into();
    let mut others = event("patch", 409, &Value::Null, &Value::Null);
    others["userAgent"] = "kubectl".into();
    let made = event("create", 201, &Value::Null, &answer(&stored, 5));
    let refused = event("patch", 409, &Value::Null, &Value::Null);
    let history =
        history_of(&[commit(5, Some(&stored))], &[made, refused, elsewhere, others, read]);
    let count = |scope: Scope| history.writes_by_controller(&scope).len();
    assert_eq!(count(Scope::everything()), 3);
    assert_eq!(count(Scope::everything().namespace("t1")), 1);
    assert_eq!(count(Scope::everything().class("public")), 2);
    assert_eq!(count(Scope::everything().class("other")), 0);
    assert_eq!(count(Scope::everything().namespace("t1").class("public")), 3);
    let reads = |scope: Scope| history.reads_by_controller(&scope).len();
    assert_eq!([reads(Scope::everything()), reads(Scope::everything().namespace("t2"))], [1, 0]);
    assert_eq!(history.requests[2].target, Target::Kind(Kind::Claim));
}

/// A violation is told with what happened to the object before and after.
#[test]
fn a_violation_is_told_with_the_changes_around_it() {
    let (first, second, third) = (address("Bound"), address("Conflict"), address("Lost"));
    let mut driver = event("patch", 200, &Value::Null, &answer(&third, 7));
    driver["userAgent"] = "fake-driver".into();
    let mut created = event("create", 201, &Value::Null, &answer(&first, 5));
    created["userAgent"] = "kubectl".into();
    let events = [created, event("patch", 200, &Value::Null, &answer(&second, 6)), driver];
    let commits = [commit(5, Some(&first)), commit(6, Some(&second)), commit(7, Some(&third))];
    let report = check(&history_of(&commits, &events));
    let rules: Vec<_> = report.violations.iter().map(|v| v.rule).collect();
    assert_eq!(rules, [Rule::I6], "{}", report.text());
    let text = report.text();
    assert!(text.contains("I6 at revision 6: IPAddress a1: phase written"), "{text}");
    assert!(text.contains("      5 IPAddress a1 by Other"), "{text}");
    assert!(text.contains("    > 6 IPAddress a1 by Controller"), "{text}");
    assert!(text.contains(r#".status.phase: "Conflict" -> "Lost""#), "{text}");
    assert!(std::panic::catch_unwind(|| report.assert_clean()).is_err());
    assert_eq!(
        report.counts,
        Counts { changes: 3, by_controller: 1, unattributed: 0, unreadable: 0 }
    );
}

/// A history whose authors are lost is not clean, unless it is known how many may be.
#[test]
fn a_history_without_authors_is_not_clean() {
    let report = check(&history_of(&[commit(5, Some(&address("Available")))], &[]));
    assert!(report.violations.is_empty());
    assert!(std::panic::catch_unwind(|| report.assert_clean()).is_err());
    report.assert_clean_but_for(1);
}

/// What must hold at rest is asked only where it is asked for.
#[test]
fn rest_is_checked_apart() {
    let history = history_of(&[commit(5, Some(&address("Pending")))], &[]);
    assert_eq!(check(&history).violations.len(), 0);
    let rules: Vec<_> = check_at_rest(&history).violations.iter().map(|v| v.rule).collect();
    assert_eq!(rules, [Rule::I9]);
}

/// The log is read from where a line begins, also when it is marked while a line is being written.
#[test]
fn a_mark_is_set_between_two_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("audit.log");
    let padding = "x".repeat(100_000);
    for (text, expected) in [
        (String::new(), 0),
        ("half".to_owned(), 0),
        ("one\n".to_owned(), 4),
        ("one\nhalf".to_owned(), 4),
        (format!("one\n{padding}"), 4),
        (format!("{padding}\n{padding}\n"), 200_002),
    ] {
        std::fs::write(&log, &text).expect("written");
        assert_eq!(audit::end_of_last_line(&log).expect("read"), expected);
    }
}
