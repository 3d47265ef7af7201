//! What a request asks of the Kubernetes API, read from its path.

use std::time::Instant;

use http::Method;
use serde_json::Value;

/// The verbs of the Kubernetes API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// One object is read.
    Get,
    /// Objects are read.
    List,
    /// Changes are followed.
    Watch,
    /// An object is created.
    Create,
    /// An object is replaced.
    Update,
    /// An object is patched.
    Patch,
    /// An object is deleted.
    Delete,
    /// Objects are deleted.
    DeleteCollection,
    /// A path that is no resource's, such as `/version`.
    Other,
}

impl Verb {
    /// Whether the verb changes something.
    pub fn is_write(self) -> bool {
        match self {
            Self::Get | Self::List | Self::Watch | Self::Other => false,
            Self::Create | Self::Update | Self::Patch | Self::Delete | Self::DeleteCollection => {
                true
            }
        }
    }
}

/// A request that came to the proxy.
#[derive(Clone, Debug)]
pub struct Request {
    /// When it came.
    pub at: Instant,
    /// The HTTP method.
    pub method: Method,
    /// The path, without the query.
    pub path: String,
    /// The query, or nothing.
    pub query: String,
    /// What is asked.
    pub verb: Verb,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural name, with the sub-resource after a slash: `ipaddresses`, `ipaddresses/status`.
    pub resource: String,
    /// The namespace, or nothing.
    pub namespace: String,
    /// The object's name, or nothing.
    pub name: String,
    /// Who asks.
    pub user_agent: String,
    /// The content type of the body, or nothing: it tells the kinds of patches apart.
    pub content_type: String,
    /// The body, where it is JSON.
    pub body: Option<Value>,
    /// What the caller was answered; nothing while it is not, or when it never was.
    pub status: Option<u16>,
}

impl Request {
    pub(super) fn new(parts: &http::request::Parts, body: &[u8]) -> Self {
        let header = |name| {
            let value = parts.headers.get(name).and_then(|v: &http::HeaderValue| v.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let path = parts.uri.path().to_owned();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let target = Target::of(&path);
        Self {
            at: Instant::now(),
            verb: verb(&parts.method, &target, &query),
            method: parts.method.clone(),
            path,
            query,
            group: target.group,
            resource: target.resource,
            namespace: target.namespace,
            name: target.name,
            user_agent: header(http::header::USER_AGENT),
            content_type: header(http::header::CONTENT_TYPE),
            body: serde_json::from_slice(body).ok(),
            status: None,
        }
    }
}

/// What a path points at.
#[derive(Debug, Default, PartialEq, Eq)]
struct Target {
    group: String,
    resource: String,
    namespace: String,
    name: String,
}

impl Target {
    fn of(path: &str) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _version, rest @ ..] => ("", rest),
            ["apis", group, _version, rest @ ..] => (*group, rest),
            _ => return Self::default(),
        };
        // `namespaces/x` is an object, `namespaces/x/claims` a place; a namespace has two sub-resources.
        let (namespace, rest) = match rest {
            ["namespaces", _, "status" | "finalize"] => ("", rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            _ => ("", rest),
        };
        let (resource, name) = match rest {
            [] => (String::new(), ""),
            [resource] => ((*resource).to_owned(), ""),
            [resource, name] => ((*resource).to_owned(), *name),
            [resource, name, sub @ ..] => (format!("{resource}/{}", sub.join("/")), *name),
        };
        let (group, namespace, name) = (group.to_owned(), namespace.to_owned(), name.to_owned());
        Self { group, resource, namespace, name }
    }
}

fn verb(method: &Method, target: &Target, query: &str) -> Verb {
    if target.resource.is_empty() {
        return Verb::Other;
    }
    let one = !target.name.is_empty();
    let watch = query.split('&').any(|pair| pair == "watch=true" || pair == "watch=1");
    match method.as_str() {
        "GET" if watch => Verb::Watch,
        "GET" if one => Verb::Get,
        "GET" => Verb::List,
        "POST" => Verb::Create,
        "PUT" => Verb::Update,
        "PATCH" => Verb::Patch,
        "DELETE" if one => Verb::Delete,
        "DELETE" => Verb::DeleteCollection,
        _ => Verb::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(method: &str, uri: &str) -> (Verb, String, String, String) {
        let (parts, ()) =
            http::Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
        let request = Request::new(&parts, b"");
        (request.verb, request.resource, request.namespace, request.name)
    }

    fn is(
        verb: Verb,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> (Verb, String, String, String) {
        (verb, resource.to_owned(), namespace.to_owned(), name.to_owned())
    }

    #[test]
    fn a_path_says_what_is_asked() {
        let ours = "/apis/local.sdn.cozystack.io/v1alpha1";
        for (method, path, expected) in [
            ("GET", format!("{ours}/ipaddresses?limit=5"), is(Verb::List, "ipaddresses", "", "")),
            (
                "GET",
                format!("{ours}/ipaddresses?watch=true"),
                is(Verb::Watch, "ipaddresses", "", ""),
            ),
            ("GET", format!("{ours}/ipaddresses/a1"), is(Verb::Get, "ipaddresses", "", "a1")),
            (
                "PATCH",
                format!("{ours}/namespaces/t1/ipaddressclaims/web/status?fieldManager=x"),
                is(Verb::Patch, "ipaddressclaims/status", "t1", "web"),
            ),
            (
                "POST",
                format!("{ours}/namespaces/t1/ipaddressclaims"),
                is(Verb::Create, "ipaddressclaims", "t1", ""),
            ),
            ("DELETE", format!("{ours}/ipaddresses/a1"), is(Verb::Delete, "ipaddresses", "", "a1")),
            (
                "DELETE",
                format!("{ours}/ipaddresses"),
                is(Verb::DeleteCollection, "ipaddresses", "", ""),
            ),
            ("GET", "/api/v1/namespaces/t1".into(), is(Verb::Get, "namespaces", "", "t1")),
            (
                "PUT",
                "/api/v1/namespaces/t1/finalize".into(),
                is(Verb::Update, "namespaces/finalize", "", "t1"),
            ),
            ("GET", "/version".into(), is(Verb::Other, "", "", "")),
            ("GET", "/apis/apps/v1".into(), is(Verb::Other, "", "", "")),
        ] {
            assert_eq!(seen(method, &path), expected, "{method} {path}");
        }
    }
}
