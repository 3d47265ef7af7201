//! Writes: what is stored, and what is refused, as the API server's registry does it.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    ask::{Ask, Verb},
    kinds::Resource,
    refusal::{Cause, Refusal},
    schema,
    store::{Key, Store, written},
};

/// An answer: its code and its body.
pub type Answer = Result<(u16, Value), Refusal>;

/// A write being carried out.
pub struct Write<'a> {
    pub store: &'a mut Store,
    pub resource: &'a Resource,
    pub ask: &'a Ask,
    /// The server's wall clock.
    pub wall: Timestamp,
    /// The simulation's time.
    pub at: Duration,
    /// The user agent.
    pub by: &'a str,
}

impl Write<'_> {
    pub fn carry_out(mut self) -> Answer {
        match self.ask.verb {
            Verb::Create => self.create(),
            Verb::Update => self.update(),
            Verb::Patch => self.patch(),
            Verb::Delete => self.delete(),
            Verb::Get | Verb::List | Verb::Watch => Err(Refusal::no_such_path()),
        }
    }

    fn key(&self, name: &str) -> Key {
        (self.resource.plural, self.ask.namespace.clone(), name.to_owned())
    }

    fn existing(&self) -> Result<Value, Refusal> {
        let found = self.store.get(&self.key(&self.ask.name)).cloned();
        found.ok_or_else(|| Refusal::not_found(self.resource, &self.ask.name))
    }

    fn create(&mut self) -> Answer {
        let object = self.ask.body.clone();
        if !text(&object, "resourceVersion").is_empty() {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Refusal::new(500, "InternalError", message));
        }
        self.make(object)
    }

    fn make(&mut self, mut object: Value) -> Answer {
        let name = text(&object, "name").to_owned();
        if name.is_empty() {
            let message = "Required value: name or generateName is required".to_owned();
            let field = "metadata.name".to_owned();
            let cause = Cause { reason: "FieldValueRequired", field, message };
            return Err(Refusal::invalid(self.resource, "", &[cause]));
        }
        self.is_of_this_kind(&object)?;
        self.check_namespace(&name)?;
        self.admit(&mut object, None, Vec::new())?;
        let key = self.key(&name);
        if let Some(there) = self.store.get(&key) {
            return Err(Refusal::exists(self.resource, &name, is_deleting(there)));
        }
        let uid = self.store.uid();
        let metadata = &mut object["metadata"];
        metadata["uid"] = uid.into();
        metadata["creationTimestamp"] = written(self.wall);
        if self.resource.namespaced {
            metadata["namespace"] = self.ask.namespace.as_str().into();
        }
        if self.resource.is_custom() {
            metadata["generation"] = 1.into();
        }
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            drop_field(metadata, field);
        }
        Ok((201, self.store_it(&key, object)))
    }

    fn check_namespace(&self, name: &str) -> Result<(), Refusal> {
        if !self.resource.namespaced {
            return Ok(());
        }
        let namespace = &self.ask.namespace;
        let key = ("namespaces", String::new(), namespace.clone());
        let Some(found) = self.store.get(&key) else {
            let message = format!("namespaces \"{namespace}\" not found");
            let mut refusal = Refusal::new(404, "NotFound", message);
            refusal.status["details"] = json!({ "name": namespace, "kind": "namespaces" });
            return Err(refusal);
        };
        if is_deleting(found) {
            let why = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            return Err(Refusal::forbidden(self.resource, name, &why));
        }
        Ok(())
    }

    fn is_of_this_kind(&self, object: &Value) -> Result<(), Refusal> {
        let (version, kind) = (self.resource.api_version(), self.resource.kind);
        if object["apiVersion"] == version && object["kind"] == kind {
            return Ok(());
        }
        Err(Refusal::bad_request(format!("the object is no {kind} of {version}")))
    }

    fn update(&mut self) -> Answer {
        let new = self.ask.body.clone();
        self.is_of_this_kind(&new)?;
        let old = match self.existing() {
            // A Lease is made by its replacement, whatever version that names; but not by its uid.
            Err(_) if !self.resource.is_custom() => {
                if !text(&new, "uid").is_empty() {
                    return Err(Refusal::modified(self.resource, &self.ask.name));
                }
                return self.make(new);
            }
            found => found?,
        };
        if text(&new, "resourceVersion").is_empty() {
            let message = "Invalid value: 0x0: must be specified for an update".to_owned();
            let field = "metadata.resourceVersion".to_owned();
            let cause = Cause { reason: "FieldValueInvalid", field, message };
            return Err(Refusal::invalid(self.resource, &self.ask.name, &[cause]));
        }
        self.replace(&old, new)
    }

    fn patch(&mut self) -> Answer {
        let old = self.existing()?;
        let mut new = old.clone();
        merge(&mut new, &self.ask.body);
        self.replace(&old, new)
    }

    /// The object becomes the new one, as far as the request may change it.
    fn replace(&mut self, old: &Value, mut new: Value) -> Answer {
        let name = &self.ask.name;
        let (uid, version) = (text(&new, "uid"), text(&new, "resourceVersion"));
        let other_uid = !uid.is_empty() && uid != text(old, "uid");
        if other_uid && self.ask.verb == Verb::Update {
            let why = "Precondition failed: UID in precondition";
            return Err(Refusal::conflict(self.resource, name, why));
        }
        if !version.is_empty() && version != text(old, "resourceVersion") {
            return Err(Refusal::modified(self.resource, name));
        }
        let moved = (other_uid && !self.ask.status).then(|| {
            let field = "metadata.uid".to_owned();
            let message = "Invalid value: field is immutable".to_owned();
            Cause { reason: "FieldValueInvalid", field, message }
        });
        self.keep_what_is_the_servers(old, &mut new);
        let causes = moved.into_iter().chain(added_finalizers(old, &new)).collect();
        self.admit(&mut new, Some(old), causes)?;
        if self.resource.is_custom()
            && without(old, &["metadata", "status"]) != without(&new, &["metadata", "status"])
        {
            let generation = old["metadata"]["generation"].as_u64().unwrap_or(1);
            new["metadata"]["generation"] = (generation + 1).into();
        }
        if new == *old {
            return Ok((200, new));
        }
        let key = self.key(&self.ask.name);
        if is_deleting(&new) && finalizers(&new).is_empty() {
            self.store.commit(key, None, self.at, self.by);
            return Ok((200, new));
        }
        Ok((200, self.store_it(&key, new)))
    }

    fn keep_what_is_the_servers(&self, old: &Value, new: &mut Value) {
        if self.resource.is_custom() {
            if self.ask.status {
                let status = new.get("status").cloned();
                *new = old.clone();
                put(new, "status", status);
            } else {
                put(new, "status", old.get("status").cloned());
            }
        }
        let kept = [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "resourceVersion",
            "namespace",
            "name",
        ];
        for field in kept {
            let value = old["metadata"].get(field).cloned();
            put(&mut new["metadata"], field, value);
        }
    }

    fn delete(&mut self) -> Answer {
        let mut object = self.existing()?;
        let name = &self.ask.name;
        let wanted = &self.ask.body["preconditions"];
        for field in ["uid", "resourceVersion"] {
            let is = text(&object, field);
            if wanted[field].as_str().is_some_and(|wanted| wanted != is) {
                let why = format!("Precondition failed: {field} in precondition");
                let mut refusal = Refusal::conflict(self.resource, name, &why);
                refusal.status["details"]["kind"] = self.resource.kind.into();
                return Err(refusal);
            }
        }
        let key = self.key(name);
        let keeps = !finalizers(&object).is_empty() || self.resource.plural == "namespaces";
        if keeps && is_deleting(&object) {
            return Ok((200, object));
        }
        if keeps {
            object["metadata"]["deletionTimestamp"] = written(self.wall);
            object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
            if let Some(generation) = object["metadata"]["generation"].as_u64() {
                object["metadata"]["generation"] = (generation + 1).into();
            }
            return Ok((200, self.store_it(&key, object)));
        }
        let uid = object["metadata"]["uid"].clone();
        self.store.commit(key, None, self.at, self.by);
        let mut details = json!({ "name": name, "kind": self.resource.plural, "uid": uid });
        if !self.resource.group.is_empty() {
            details["group"] = self.resource.group.into();
        }
        Ok((
            200,
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": details,
            }),
        ))
    }

    /// Defaults, pruning and validation.
    fn admit(
        &self,
        object: &mut Value,
        old: Option<&Value>,
        mut wrong: Vec<Cause>,
    ) -> Result<(), Refusal> {
        tidy(&mut object["metadata"]);
        let Some(schema) = &self.resource.schema else {
            let name = text(object, "name");
            let good = wrong.is_empty();
            return if good { Ok(()) } else { Err(Refusal::invalid(self.resource, name, &wrong)) };
        };
        if old.is_none() {
            drop_field(object, "status");
        }
        for part in ["spec", "status"] {
            if let Some(value) = object.get_mut(part) {
                schema::complete(&schema["properties"][part], value);
            }
        }
        if let Some(fields) = object.as_object_mut() {
            fields.retain(|key, value| {
                !value.is_null()
                    && ["apiVersion", "kind", "metadata", "spec", "status"].contains(&key.as_str())
            });
        }
        let mut own = Vec::new();
        schema::judge(schema, object, "", &mut own);
        // Rules are looked at only where the object is whole otherwise, and it says so.
        if own.iter().all(|cause| cause.reason == "FieldValueInvalid") {
            schema::judge_rules(schema, object, old, "", &mut own);
        } else if schema::has_rules(schema) {
            let message = "some validation rules were not checked because the object was invalid";
            let field = "<nil>".to_owned();
            own.push(Cause { reason: "FieldValueInvalid", field, message: message.to_owned() });
        }
        wrong.extend(own);
        let name = text(object, "name");
        if !is_a_name(name) {
            let message = format!("Invalid value: {name:?}: a lowercase RFC 1123 subdomain");
            let field = "metadata.name".to_owned();
            wrong.push(Cause { reason: "FieldValueInvalid", field, message });
        }
        if wrong.is_empty() { Ok(()) } else { Err(Refusal::invalid(self.resource, name, &wrong)) }
    }

    fn store_it(&mut self, key: &Key, object: Value) -> Value {
        self.store.commit(key.clone(), Some(object), self.at, self.by);
        self.store.get(key).cloned().unwrap_or_default()
    }
}

/// What is wrong with finalizers that come to an object on its way out.
fn added_finalizers(old: &Value, new: &Value) -> Option<Cause> {
    let before = finalizers(old);
    let added: Vec<_> = finalizers(new).into_iter().filter(|f| !before.contains(f)).collect();
    (is_deleting(old) && !added.is_empty()).then(|| Cause {
        reason: "FieldValueForbidden",
        field: "metadata.finalizers".to_owned(),
        message: format!(
            "Forbidden: no new finalizers can be added if the object is being deleted, found new \
             finalizers {added:?}"
        ),
    })
}

/// Empty lists and maps of the metadata are not there.
fn tidy(metadata: &mut Value) {
    let Some(fields) = metadata.as_object_mut() else { return };
    fields.retain(|_, value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(items) => !items.is_empty(),
        _ => true,
    });
    fields.remove("managedFields");
    for map in ["annotations", "labels"] {
        // What Go makes of a null among strings.
        for value in fields.get_mut(map).and_then(Value::as_object_mut).into_iter().flatten() {
            if value.1.is_null() {
                *value.1 = "".into();
            }
        }
    }
}

fn is_a_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let part = |part: &str| {
        part.starts_with(good) && part.ends_with(good) && part.chars().all(|c| good(c) || c == '-')
    };
    name.len() <= 253 && name.split('.').all(part)
}

pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

pub fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

pub fn finalizers(object: &Value) -> Vec<&str> {
    let all = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    all.filter_map(Value::as_str).collect()
}

fn put(object: &mut Value, field: &str, value: Option<Value>) {
    match value {
        Some(value) => object[field] = value,
        None => drop_field(object, field),
    }
}

fn drop_field(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}

fn without(object: &Value, fields: &[&str]) -> Value {
    let mut object = object.clone();
    for field in fields {
        drop_field(&mut object, field);
    }
    object
}

/// RFC 7396.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            drop_field(target, key);
        } else {
            merge(&mut target[key], value);
        }
    }
}
