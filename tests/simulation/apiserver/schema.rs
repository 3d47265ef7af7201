//! Structural schemas: what is defaulted, what is pruned, and what is wrong.
//!
//! As much of them as the definitions use. A rule that is not known here is an error of the model,
//! said loudly: it must not pass as kept.

use serde_json::{Map, Value, json};

use super::refusal::Cause;

/// Fills in defaults and drops what the schema does not know.
pub fn complete(schema: &Value, value: &mut Value) {
    if let Some(properties) = schema["properties"].as_object()
        && let Some(object) = value.as_object_mut()
    {
        if !keeps_unknown(schema) {
            object.retain(|key, _| properties.contains_key(key));
        }
        for (key, property) in properties {
            if let Some(default) = property.get("default")
                && object.get(key).is_none_or(Value::is_null)
            {
                object.insert(key.clone(), default.clone());
            }
            if object.get(key).is_some_and(Value::is_null) {
                object.remove(key);
            }
            if let Some(child) = object.get_mut(key) {
                complete(property, child);
            }
        }
        return;
    }
    if let Some(items) = schema.get("items")
        && let Some(array) = value.as_array_mut()
    {
        for item in array {
            complete(items, item);
        }
    } else if schema["type"] == "object"
        && !keeps_unknown(schema)
        && schema.get("additionalProperties").is_none()
        && let Some(object) = value.as_object_mut()
    {
        object.clear();
    }
}

fn keeps_unknown(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

/// What is wrong with a value, its rules aside.
pub fn judge(schema: &Value, value: &Value, at: &str, wrong: &mut Vec<Cause>) {
    if !has_type(schema, value) {
        let wanted = schema["type"].as_str().unwrap_or_default();
        let message = format!("Invalid value: \"{}\": must be of type {wanted}", name_of(value));
        wrong.push(Cause { reason: "FieldValueTypeInvalid", field: at.to_owned(), message });
        return;
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        let message = format!("Unsupported value: {value}");
        wrong.push(Cause { reason: "FieldValueNotSupported", field: at.to_owned(), message });
    }
    let too_short = schema["minLength"].as_u64().is_some_and(|least| {
        value.as_str().is_some_and(|text| (text.chars().count() as u64) < least)
    });
    if too_short {
        let message = format!("Invalid value: {value}: should be at least 1 chars long");
        wrong.push(Cause { reason: "FieldValueInvalid", field: at.to_owned(), message });
    }
    if let Some(object) = value.as_object() {
        let required = schema["required"].as_array().into_iter().flatten();
        for key in required.filter_map(Value::as_str).filter(|key| !object.contains_key(*key)) {
            let message = "Required value".to_owned();
            wrong.push(Cause { reason: "FieldValueRequired", field: inside(at, key), message });
        }
        for (key, property, child) in children(schema, object) {
            judge(property, child, &inside(at, key), wrong);
        }
    }
    if let (Some(items), Some(array)) = (schema.get("items"), value.as_array()) {
        for (n, item) in array.iter().enumerate() {
            judge(items, item, &format!("{at}[{n}]"), wrong);
        }
        judge_list_keys(schema, array, at, wrong);
    }
}

/// Whether a schema has rules anywhere.
pub fn has_rules(schema: &Value) -> bool {
    let inside = schema["properties"].as_object().into_iter().flatten();
    schema.get("x-kubernetes-validations").is_some()
        || inside.map(|(_, property)| property).any(has_rules)
        || schema.get("items").is_some_and(has_rules)
}

/// Which rules a value breaks, or its change from an older one.
pub fn judge_rules(
    schema: &Value,
    value: &Value,
    old: Option<&Value>,
    at: &str,
    wrong: &mut Vec<Cause>,
) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        if !keeps(rule["rule"].as_str().unwrap_or_default(), value, old) {
            let said = rule["message"].as_str().unwrap_or_default();
            let message = format!("Invalid value: {}: {said}", name_of(value));
            wrong.push(Cause { reason: "FieldValueInvalid", field: at.to_owned(), message });
        }
    }
    for (key, property, child) in
        value.as_object().map(|o| children(schema, o)).into_iter().flatten()
    {
        let old = old.and_then(|old| old.get(key));
        judge_rules(property, child, old, &inside(at, key), wrong);
    }
}

fn inside(at: &str, key: &str) -> String {
    if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") }
}

/// The fields of an object that its schema knows.
fn children<'a>(
    schema: &'a Value,
    object: &'a Map<String, Value>,
) -> impl Iterator<Item = (&'a str, &'a Value, &'a Value)> {
    let known = schema["properties"].as_object().into_iter().flatten();
    known.filter_map(|(key, property)| Some((key.as_str(), property, object.get(key)?)))
}

fn judge_list_keys(schema: &Value, array: &[Value], at: &str, wrong: &mut Vec<Cause>) {
    let keys: Vec<&str> = schema["x-kubernetes-list-map-keys"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if keys.is_empty() {
        return;
    }
    let key_of = |item: &Value| keys.iter().map(|k| item[k].clone()).collect::<Vec<_>>();
    for (n, item) in array.iter().enumerate() {
        if array[..n].iter().any(|earlier| key_of(earlier) == key_of(item)) {
            let message = format!("Duplicate value: {}", json!(key_of(item)));
            let field = format!("{at}[{n}]");
            wrong.push(Cause { reason: "FieldValueDuplicate", field, message });
        }
    }
}

/// The validation rules of the definitions, each by its text.
fn keeps(rule: &str, value: &Value, old: Option<&Value>) -> bool {
    match rule {
        "self == oldSelf" => old.is_none_or(|old| old == value),
        "has(self.fromClass) != has(self.providerRef)" => {
            value.get("fromClass").is_some() != value.get("providerRef").is_some()
        }
        unknown => panic!("the model does not know the rule {unknown:?}"),
    }
}

fn has_type(schema: &Value, value: &Value) -> bool {
    match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("boolean") => value.is_boolean(),
        _ => true,
    }
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
