//! The invariants' own checker, fed with every commit of a walk.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    super::store::{Id, What, Write},
    Walk,
};
use crate::binder::invariants::{
    Actor, Change, Object, Precondition, Rule, Verb, Versions, Violation, WriteFacts,
};

fn typed<K: DeserializeOwned>(before: Option<&Value>, after: Option<&Value>) -> Versions<K> {
    let object = |o: &Value| serde_json::from_value(o.clone()).unwrap();
    Versions::new(before.map(object), after.map(object))
}

impl Walk {
    /// Feeds the change that was just committed, by the controller's write or by somebody else.
    pub(super) fn feed(
        &mut self,
        id: &Id,
        before: Option<&Value>,
        write: Option<&Write>,
    ) -> Vec<Violation> {
        let after = self.store.get(id);
        if before == after {
            return Vec::new();
        }
        let object = match id {
            Id::Class(_) => Object::Class(typed(before, after)),
            Id::Address(_) => Object::Address(typed(before, after)),
            Id::Claim(_) => Object::Claim(typed(before, after)),
        };
        let facts = |w: &Write| WriteFacts {
            verb: if w.what == What::Delete { Verb::Delete } else { Verb::Patch },
            precondition: Precondition { resource_version: true, uid: true },
            subresource: matches!(w.what, What::Status(_)).then(|| "status".to_owned()),
        };
        let actor = write.map_or(Actor::Other, |_| Actor::Controller("a replica".into()));
        let mut violations = self.oracle.apply(&Change {
            revision: self.store.revision(),
            object,
            actor: Some(actor),
            write: write.map(facts),
        });
        // A driver's address is not on record on the claim before it is published, and completing
        // it is conditional on the address alone. So a replica whose cache lags lets the claim go
        // beside it, or completes it for a claim that has just gone; the address's own pass reclaims
        // it. Whatever was matched or published is looked at by the checks of these tests.
        let completes = write.is_some_and(|w| w.step == "complete");
        violations.retain(|v| v.rule != Rule::I5 || !(completes || matches!(id, Id::Claim(_))));
        violations
    }

    /// What should still have been done.
    pub(super) fn left_by_the_oracle(&self) -> Vec<Violation> {
        self.oracle.world().at_rest()
    }
}
