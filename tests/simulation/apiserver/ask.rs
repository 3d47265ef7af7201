//! A request, taken apart.

use http::{Method, header::CONTENT_TYPE, request::Parts};
use serde_json::Value;

use super::{kinds::Resource, refusal::Refusal};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    /// A JSON merge patch.
    Patch,
    Delete,
}

/// A request about a resource.
#[derive(Clone, Debug)]
pub struct Ask {
    pub verb: Verb,
    /// The place of the resource among those that are served.
    pub resource: usize,
    pub namespace: String,
    /// Empty for collections.
    pub name: String,
    /// Whether it is about the status sub-resource.
    pub status: bool,
    pub query: Vec<(String, String)>,
    pub body: Value,
}

impl Ask {
    /// Takes a request apart.
    ///
    /// # Errors
    /// The path is not served, or the body is no JSON.
    pub fn of(parts: &Parts, body: &[u8], served: &[Resource]) -> Result<Self, Refusal> {
        let path: Vec<&str> = parts.uri.path().split('/').filter(|part| !part.is_empty()).collect();
        let (group, rest) = match &path[..] {
            ["api", version, rest @ ..] => (("", *version), rest),
            ["apis", group, version, rest @ ..] => ((*group, *version), rest),
            _ => return Err(Refusal::no_such_path()),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let [plural, rest @ ..] = rest else { return Err(Refusal::no_such_path()) };
        let resource = served
            .iter()
            .position(|r| (r.group, r.version) == group && r.plural == *plural)
            .ok_or_else(Refusal::no_such_path)?;
        let (name, status) = match rest {
            [] => ("", false),
            [name] => (*name, false),
            [name, "status"] if served[resource].is_custom() => (*name, true),
            _ => return Err(Refusal::no_such_path()),
        };
        let query = query_of(parts.uri.query().unwrap_or_default());
        let watches = query.iter().any(|(key, value)| key == "watch" && value != "false");
        let verb = match (&parts.method, name.is_empty()) {
            (&Method::GET, true) if watches => Verb::Watch,
            (&Method::GET, true) => Verb::List,
            (&Method::GET, false) => Verb::Get,
            (&Method::POST, true) => Verb::Create,
            (&Method::PUT, false) => Verb::Update,
            (&Method::PATCH, false) => merge_patch(parts)?,
            (&Method::DELETE, false) => Verb::Delete,
            _ => return Err(Refusal::new(405, "MethodNotAllowed", "the method is not allowed")),
        };
        let body = match body {
            [] => Value::Null,
            bytes => serde_json::from_slice(bytes)
                .map_err(|error| Refusal::bad_request(format!("the body is no JSON: {error}")))?,
        };
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Ok(Self { verb, resource, namespace, name, status, query, body })
    }

    /// A parameter of the query, if it says anything.
    pub fn parameter(&self, key: &str) -> Option<&str> {
        let value = self.query.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str());
        value.filter(|value| !value.is_empty())
    }

    pub fn is_write(&self) -> bool {
        !matches!(self.verb, Verb::Get | Verb::List | Verb::Watch)
    }
}

fn merge_patch(parts: &Parts) -> Result<Verb, Refusal> {
    let media = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    match media {
        Some("application/merge-patch+json") => Ok(Verb::Patch),
        other => Err(Refusal::new(
            415,
            "UnsupportedMediaType",
            format!("this server knows merge patches only, not {}", other.unwrap_or("nothing")),
        )),
    }
}

fn query_of(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|part| !part.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(key), decoded(value))
        })
        .collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = (*first == b'%').then(|| tail.get(..2)).flatten();
        let byte = hex
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let Some(byte) = byte {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(if *first == b'+' { b' ' } else { *first });
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
