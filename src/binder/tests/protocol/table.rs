//! What a write does by itself, whatever the world around it: rules that the checker of real
//! histories has, asked about one write. Must not know how states are explored.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::{
    checks,
    store::{Id, What, Write, applied},
};
use crate::binder::{
    invariants::{Actor, Change, Checker, Object, Precondition, Rule, Verb, Versions, WriteFacts},
    testing::{claim, free},
};

/// Of these a write shows everything: what others did before does not count.
const ALONE: [Rule; 4] = [Rule::I1, Rule::I6, Rule::I8, Rule::WhoWritesWhat];

/// What the write breaks, if anything. The table of writers is part of I8.
pub(super) fn broken(write: &Write, before: &Value, after: Option<&Value>) -> Option<String> {
    let object = if checks::is_address(before) {
        Object::Address(versions(before, after))
    } else {
        Object::Claim(versions(before, after))
    };
    let (verb, subresource) = match &write.what {
        What::Patch(_) => (Verb::Patch, None),
        What::Status(_) => (Verb::Patch, Some("status".to_owned())),
        What::Delete => (Verb::Delete, None),
    };
    let precondition = Precondition {
        resource_version: !write.version.is_empty(),
        uid: checks::uid(before) == &*write.uid,
    };
    let change = Change {
        revision: 1,
        object,
        actor: Some(Actor::Controller("replica".into())),
        write: Some(WriteFacts { verb, precondition, subresource }),
    };
    let found = Checker::new().apply(&change).into_iter().find(|v| ALONE.contains(&v.rule))?;
    let rule = if found.rule == Rule::WhoWritesWhat { Rule::I8 } else { found.rule };
    Some(format!("{rule:?} {}: {} of {}", found.message, write.step, checks::name(before)))
}

fn versions<K: DeserializeOwned>(before: &Value, after: Option<&Value>) -> Versions<K> {
    let read = |value: &Value| Arc::new(serde_json::from_value(value.clone()).unwrap());
    Versions { old: Some(read(before)), new: after.map(read) }
}

/// Each rule can be broken.
#[test]
fn what_a_write_breaks_by_itself() {
    let held = free("a1", "192.0.2.1").phase("Bound").held_by("t1/web", Some("uid-web"));
    let web = claim("t1/web").protected();
    let rule = |object: &Value, version: &str, what: What| {
        let (uid, version) = (checks::uid(object).into(), version.into());
        let write = Write { step: "write", id: Id::of(object), uid, version, what };
        let after = applied(object, &write.what).unwrap();
        broken(&write, object, after.as_ref()).map(|text| text[..2].to_owned())
    };
    let patch = |value| What::Patch(value);
    let other = json!({"spec": {"claimRef": {"uid": "uid-other"}}});
    let conflict = What::Status(json!({"phase": "Conflict"}));
    let fine = What::Status(json!({"phase": "Released"}));
    assert_eq!(rule(&held.0, "1", patch(other)).as_deref(), Some("I1"));
    assert_eq!(rule(&held.0, "1", conflict).as_deref(), Some("I6"));
    assert_eq!(rule(&held.0, "", What::Delete).as_deref(), Some("I8"));
    let spec = json!({"spec": {"className": "other"}});
    assert_eq!(rule(&held.0, "1", patch(spec.clone())).as_deref(), Some("I8"));
    assert_eq!(rule(&web.0, "1", patch(spec)).as_deref(), Some("I8"));
    assert_eq!(rule(&held.0, "1", fine), None);
}
