//! Every rule fires: for each one a history that is right but for its last write, as etcd and the
//! API server tell it.

use address_controller::{
    api::well_known::{
        ADDRESS_FINALIZER, CLAIM_FINALIZER, GROUP, SELECTED_ADDRESSES_ANNOTATION, VERSION,
    },
    binder::invariants::Rule,
};
use serde_json::{Value, json};

use super::{
    tests::{AGENT, history_of},
    *,
};

/// What is wrong in the end, and what a check must find: the rule, and beside it those that cannot
/// but be broken too.
struct Row {
    story: Story,
    found: Vec<Rule>,
}

/// The row of a rule. A rule without one does not compile.
fn row(rule: Rule) -> Row {
    let (story, found) = match rule {
        Rule::I1 => (handed_on("Bound"), vec![Rule::I1]),
        Rule::I2 => (matched(&claim("web").without("annotations")), vec![Rule::I2]),
        Rule::I3 => (released_while_held(), vec![Rule::I3]),
        // To take a retained address without a match is to hand it on.
        Rule::I4 => (handed_on("Released"), vec![Rule::I1, Rule::I4]),
        Rule::I5 => (matched(&claim("web").without("finalizers")), vec![Rule::I5]),
        Rule::I6 => (conflict_entered(), vec![Rule::I6]),
        Rule::I7 => (published_unheld(), vec![Rule::I7]),
        Rule::I8 => (deleted_unconditionally(), vec![Rule::I8]),
        Rule::I9 => (left_undone(), vec![Rule::I9]),
        Rule::OneIpOneClaim => (one_ip_twice(), vec![Rule::OneIpOneClaim]),
        Rule::WhoWritesWhat => (labelled(), vec![Rule::WhoWritesWhat]),
    };
    Row { story, found }
}

/// The rule after a rule: a list that cannot miss one.
fn after(rule: Rule) -> Option<Rule> {
    Some(match rule {
        Rule::I1 => Rule::I2,
        Rule::I2 => Rule::I3,
        Rule::I3 => Rule::I4,
        Rule::I4 => Rule::I5,
        Rule::I5 => Rule::I6,
        Rule::I6 => Rule::I7,
        Rule::I7 => Rule::I8,
        Rule::I8 => Rule::I9,
        Rule::I9 => Rule::OneIpOneClaim,
        Rule::OneIpOneClaim => Rule::WhoWritesWhat,
        Rule::WhoWritesWhat => return None,
    })
}

#[test]
fn every_rule_fires_and_no_other() {
    let rules: Vec<_> = std::iter::successors(Some(Rule::I1), |rule| after(*rule)).collect();
    assert!(rules.is_sorted(), "{rules:?}");
    for rule in rules {
        let Row { story, found } = row(rule);
        assert!(found.contains(&rule), "{rule:?}");
        let history = story.history();
        assert_eq!(history.unattributed().count(), 0, "{rule:?}");
        // What must hold at rest is asked of the one history that ends at rest.
        let judge = if rule == Rule::I9 { check_at_rest } else { check };
        let mut fired: Vec<_> = judge(&history).violations.iter().map(|v| v.rule).collect();
        fired.dedup();
        assert_eq!(fired, found, "{rule:?}: {}", judge(&history).text());
        let before = check(&story.without_the_last().history());
        assert!(before.violations.is_empty(), "{rule:?} before: {}", before.text());
    }
}

/// A rule is broken by the controller alone: the same by anybody else is their business.
#[test]
fn nothing_is_held_against_others() {
    let rules = std::iter::successors(Some(Rule::I1), |rule| after(*rule));
    for rule in rules.filter(|rule| *rule != Rule::I9) {
        let mut story = row(rule).story;
        for event in &mut story.events {
            event["userAgent"] = "kubectl/1.36".into();
        }
        let report = check(&story.history());
        assert!(report.violations.is_empty(), "{rule:?}: {}", report.text());
    }
}

/// A claim goes and leaves an address behind as if it were held: I5, but where the API server refused
/// to have the address written, and not for the moment only.
#[test]
fn a_refusal_for_good_excuses_what_is_left_behind() {
    let let_go = |status: u16, of: &str| {
        let mut story = Story::default();
        let held = address("a1", "192.0.2.1", "Bound").held_by("web");
        let mut going = claim("web");
        going.0["status"] = json!({ "addresses": [{ "name": "a1", "address": "192.0.2.1" }] });
        story.others(&held);
        story.others(&going);
        going.0["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        story.others(&going);
        story.refused(status, &address(of, "192.0.2.1", "Bound"));
        story.end(&going);
        check(&story.history()).violations.iter().map(|v| v.rule).collect::<Vec<_>>()
    };
    assert_eq!(let_go(403, "a1"), []);
    assert_eq!(let_go(422, "a1"), []);
    for status in [401, 404, 409, 429] {
        assert_eq!(let_go(status, "a1"), [Rule::I5], "{status}");
    }
    assert_eq!(let_go(403, "a2"), [Rule::I5], "another address");
}

/// A claim that held the address is gone, and the controller gives it to another.
fn handed_on(phase: &str) -> Story {
    let old = address("a1", "192.0.2.1", phase).held_by("old");
    let mut story = Story::default();
    story.others(&claim("web"));
    story.others(&old);
    story.controller(&old.held_by("web"));
    story
}

/// A free address is bound to a claim.
fn matched(claim: &Thing) -> Story {
    let free = address("a1", "192.0.2.1", "Available");
    let mut story = Story::default();
    story.others(claim);
    story.others(&free);
    story.controller(&free.held_by("web"));
    story
}

fn released_while_held() -> Story {
    let mut story = Story::default();
    story.others(&claim("web"));
    story.others(&address("a1", "192.0.2.1", "Bound").held_by("web"));
    story.controller(&address("a1", "192.0.2.1", "Released").held_by("web"));
    story
}

fn conflict_entered() -> Story {
    let mut story = Story::default();
    story.others(&address("a1", "192.0.2.1", "Available"));
    story.controller(&address("a1", "192.0.2.1", "Conflict"));
    story
}

fn published_unheld() -> Story {
    let mut story = Story::default();
    story.others(&address("a1", "192.0.2.1", "Available"));
    story.others(&claim("web"));
    let mut publishes = claim("web");
    publishes.0["status"] = json!({ "addresses": [{ "name": "a1", "address": "192.0.2.1" }] });
    story.controller(&publishes);
    story
}

fn deleted_unconditionally() -> Story {
    let released = address("a1", "192.0.2.1", "Released").held_by("old");
    let mut story = Story::default();
    story.others(&released);
    story.delete_at_once(&released);
    story
}

/// Nobody has protected the address.
fn left_undone() -> Story {
    let mut story = Story::default();
    story.others(&address("a1", "192.0.2.1", "Available").without("finalizers"));
    story
}

fn one_ip_twice() -> Story {
    let mut story = Story::default();
    let mut other = claim("api");
    other.0["metadata"]["annotations"][SELECTED_ADDRESSES_ANNOTATION] = "IPv4=a2".into();
    story.others(&claim("web"));
    story.others(&other);
    for (name, claim) in [("a1", "web"), ("a2", "api")] {
        story.others(&address(name, "192.0.2.1", "Available"));
        story.controller(&address(name, "192.0.2.1", "Available").held_by(claim));
    }
    story
}

fn labelled() -> Story {
    let mut labelled = claim("web");
    labelled.0["metadata"]["labels"] = json!({ "seen": "yes" });
    let mut story = Story::default();
    story.others(&claim("web"));
    story.controller(&labelled);
    story
}

/// An object as etcd has it.
#[derive(Clone)]
struct Thing(Value);

impl Thing {
    fn without(mut self, field: &str) -> Self {
        if let Some(metadata) = self.0["metadata"].as_object_mut() {
            metadata.remove(field);
        }
        self
    }

    fn held_by(&self, claim: &str) -> Self {
        let mut this = self.clone();
        this.0["spec"]["claimRef"] =
            json!({ "namespace": "t1", "name": claim, "uid": format!("{claim}-uid") });
        this
    }

    fn text(&self, path: &str) -> String {
        self.0.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

/// A claim in namespace `t1`, protected and with its choice of `a1` on record.
fn claim(name: &str) -> Thing {
    Thing(json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "IPAddressClaim",
        "metadata": { "name": name, "namespace": "t1", "uid": format!("{name}-uid"),
            "finalizers": [CLAIM_FINALIZER],
            "annotations": { SELECTED_ADDRESSES_ANNOTATION: "IPv4=a1" } },
        "spec": { "className": "public" },
    }))
}

/// A protected address.
fn address(name: &str, ip: &str, phase: &str) -> Thing {
    Thing(json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "IPAddress",
        "metadata": { "name": name, "uid": format!("{name}-uid"),
            "finalizers": [ADDRESS_FINALIZER] },
        "spec": { "className": "public", "address": ip, "source": { "fromClass": {} } },
        "status": { "phase": phase },
    }))
}

/// Commits, and the requests that made them.
#[derive(Clone, Default)]
struct Story {
    commits: Vec<etcd::Commit>,
    events: Vec<Value>,
}

impl Story {
    fn history(&self) -> History {
        history_of(&self.commits, &self.events)
    }

    fn without_the_last(mut self) -> Self {
        self.commits.pop();
        self.events.pop();
        self
    }

    /// Somebody writes the object as it is.
    fn others(&mut self, thing: &Thing) {
        self.write("kubectl/1.36", "create", thing);
    }

    /// The controller makes it so, on the version before.
    fn controller(&mut self, thing: &Thing) {
        self.write(AGENT, "patch", thing);
    }

    fn write(&mut self, agent: &str, verb: &str, thing: &Thing) {
        let revision = self.next_revision();
        let asked = json!({ "metadata": { "resourceVersion": (revision - 1).to_string() } });
        let mut answer = thing.0.clone();
        answer["metadata"]["resourceVersion"] = revision.to_string().into();
        self.commit(thing, Some(thing.0.to_string().into_bytes()));
        self.event(agent, verb, thing, &asked, &answer);
    }

    /// The controller deletes it on no condition, and it is kept by its finalizer.
    fn delete_at_once(&mut self, thing: &Thing) {
        let mut marked = thing.clone();
        marked.0["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let mut answer = marked.0.clone();
        answer["metadata"]["resourceVersion"] = self.next_revision().to_string().into();
        self.commit(thing, Some(marked.0.to_string().into_bytes()));
        self.event(AGENT, "delete", thing, &Value::Null, &answer);
    }

    /// The controller asks for a write, and the API server refuses.
    fn refused(&mut self, status: u16, thing: &Thing) {
        self.event(AGENT, "patch", thing, &Value::Null, &json!({ "kind": "Status" }));
        if let Some(event) = self.events.last_mut() {
            event["responseStatus"]["code"] = status.into();
        }
    }

    /// The controller takes the last finalizer off an object that is being deleted.
    fn end(&mut self, thing: &Thing) {
        let mut answer = thing.0.clone();
        answer["metadata"]["finalizers"].take();
        self.commit(thing, None);
        self.event(AGENT, "patch", thing, &Value::Null, &answer);
    }

    fn next_revision(&self) -> u64 {
        2 + self.commits.len() as u64
    }

    fn commit(&mut self, thing: &Thing, value: Option<Vec<u8>>) {
        self.commits.push(etcd::Commit {
            revision: self.next_revision(),
            resource: resource(thing).to_owned(),
            namespace: Some(thing.text("/metadata/namespace")).filter(|n| !n.is_empty()),
            name: thing.text("/metadata/name"),
            value,
        });
    }

    fn event(&mut self, agent: &str, verb: &str, thing: &Thing, asked: &Value, answer: &Value) {
        let at = self.events.len();
        self.events.push(json!({
            "stage": "ResponseComplete", "requestURI": "/apis/x", "verb": verb,
            "user": { "username": "admin" }, "userAgent": agent,
            "objectRef": { "resource": resource(thing), "apiGroup": GROUP,
                "name": thing.0["metadata"]["name"],
                "namespace": thing.0["metadata"]["namespace"] },
            "responseStatus": { "code": 200 },
            "requestObject": asked, "responseObject": answer,
            "requestReceivedTimestamp": format!("2026-01-01T00:00:{at:02}.000000Z"),
        }));
    }
}

fn resource(thing: &Thing) -> &'static str {
    if thing.0["kind"] == "IPAddress" { "ipaddresses" } else { "ipaddressclaims" }
}
