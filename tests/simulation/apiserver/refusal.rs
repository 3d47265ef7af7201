//! What the API server says when it refuses: a `Status`, as Kubernetes writes it.

use serde_json::{Value, json};

use super::kinds::Resource;

/// A refused request: its code and its `Status`.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The HTTP status code.
    pub code: u16,
    /// The body.
    pub status: Value,
}

impl Refusal {
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message.into(), "reason": reason, "code": code,
        });
        Self { code, status }
    }

    fn about(mut self, resource: &Resource, name: &str) -> Self {
        let mut details = json!({ "kind": resource.plural });
        if !resource.group.is_empty() {
            details["group"] = resource.group.into();
        }
        if !name.is_empty() {
            details["name"] = name.into();
        }
        self.status["details"] = details;
        self
    }

    pub fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Self::new(404, "NotFound", message).about(resource, name)
    }

    /// A path that nothing serves.
    pub fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    pub fn exists(resource: &Resource, name: &str, deleting: bool) -> Self {
        let before = if deleting { "object is being deleted: " } else { "" };
        let message = format!("{before}{} \"{name}\" already exists", resource.qualified());
        Self::new(409, "AlreadyExists", message).about(resource, name)
    }

    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let what = resource.qualified();
        let message = format!("Operation cannot be fulfilled on {what} \"{name}\": {why}");
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// The object is not in the version that was named.
    pub fn modified(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(resource, name, why)
    }

    pub fn invalid(resource: &Resource, name: &str, causes: &[Cause]) -> Self {
        let words: Vec<String> =
            causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
        let words = match &words[..] {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let message = format!("{} \"{name}\" is invalid: {words}", resource.qualified_kind());
        let mut this = Self::new(422, "Invalid", message).about(resource, name);
        this.status["details"]["kind"] = resource.kind.into();
        let causes = causes
            .iter()
            .map(|c| json!({ "reason": c.reason, "message": c.message, "field": c.field }));
        this.status["details"]["causes"] = causes.collect();
        this
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", resource.qualified());
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    /// A version from before what is still known.
    pub fn expired(message: &str) -> Self {
        Self::new(410, "Expired", message)
    }
}

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueRequired` and the like.
    pub reason: &'static str,
    /// Where.
    pub field: String,
    /// What.
    pub message: String,
}
