//! The API server's audit log: who asked for what, on which condition, and what was answered.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
    path::Path,
};

use address_controller::{
    api::well_known::GROUP,
    binder::invariants::{Actor, Kind, Precondition, Verb, WriteFacts},
};
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use super::actors::Actors;

/// One request, as the API server answered it.
#[derive(Clone, Debug)]
pub struct Request {
    /// When the API server received it, in RFC 3339: good for putting requests in order.
    pub received: String,
    /// Who asked.
    pub actor: Actor,
    /// As whom they were authenticated.
    pub username: String,
    /// As what they introduced themselves.
    pub user_agent: String,
    /// What was asked.
    pub ask: Ask,
    /// Of what.
    pub target: Target,
    /// The object's namespace.
    pub namespace: Option<String>,
    /// The object's name; absent for a list, a watch, or a refused create.
    pub name: Option<String>,
    /// The subresource, such as `status`.
    pub subresource: Option<String>,
    /// The HTTP status of the answer.
    pub status: u16,
    /// What the write was conditional on.
    pub precondition: Precondition,
    /// The resourceVersion that it was conditional on, if on one that is a revision.
    pub on_revision: Option<u64>,
    /// What the write left behind.
    pub effect: Effect,
}

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// A write.
    Write(Verb),
    /// One object.
    Get,
    /// A list.
    List,
    /// A watch.
    Watch,
}

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// One of the three kinds.
    Kind(Kind),
    /// A Lease.
    Lease,
    /// An Event, of either API group.
    Event,
    /// Anything else that the audit policy lets through.
    Other,
}

/// What a write left behind, as far as its answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The object is stored with this revision. A write that changed nothing answers with the old one.
    Stored {
        /// The object's resourceVersion.
        revision: u64,
    },
    /// The last finalizer of an object being deleted went, and the object with it.
    Ended {
        /// The object's uid.
        uid: String,
    },
    /// The deletion of these was asked for; they are gone, or being deleted.
    Deleted {
        /// The objects' uids.
        uids: Vec<String>,
    },
    /// It was refused, and nothing was done.
    Refused,
    /// The answer does not tell: a read, or a write that ended in a time-out or an error.
    Unknown,
}

impl Request {
    /// The write's facts, for the invariants. Absent for a read.
    pub fn write_facts(&self) -> Option<WriteFacts> {
        let Ask::Write(verb) = self.ask else { return None };
        let subresource = self.subresource.clone();
        Some(WriteFacts { verb, precondition: self.precondition, subresource })
    }

    /// Whether it is a write.
    pub fn is_write(&self) -> bool {
        matches!(self.ask, Ask::Write(_))
    }
}

/// Where the last whole line ends: behind it, one may be half written.
///
/// # Errors
/// When the log cannot be read.
pub(super) fn end_of_last_line(log: &Path) -> Result<u64> {
    const CHUNK: u64 = 64 * 1024;
    let mut file = File::open(log).with_context(|| format!("the audit log {}", log.display()))?;
    let mut end = file.metadata()?.len();
    while end > 0 {
        let begin = end.saturating_sub(CHUNK);
        file.seek(SeekFrom::Start(begin))?;
        let mut chunk = Vec::new();
        file.by_ref().take(end - begin).read_to_end(&mut chunk)?;
        if let Some(at) = chunk.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

/// Every request that was answered from this offset of the log on, in the order of the answers, and
/// the offset to go on from.
///
/// A line that is still being written is left for the next time. The log is read line by line: of a
/// line's two objects nothing stays but what they say of the write.
///
/// # Errors
/// When the log cannot be read, or has a line that is no audit event.
pub(super) fn read(log: &Path, from: u64, actors: &Actors) -> Result<(Vec<Request>, u64)> {
    let mut file = File::open(log).with_context(|| format!("the audit log {}", log.display()))?;
    file.seek(SeekFrom::Start(from))?;
    let mut reader = BufReader::new(file);
    let mut requests = Vec::new();
    let (mut line, mut offset) = (String::new(), from);
    while reader.read_line(&mut line)? > 0 && line.ends_with('\n') {
        offset += line.len() as u64;
        requests.extend(parse(&line, actors).with_context(|| format!("audit line {line}"))?);
        line.clear();
    }
    Ok((requests, offset))
}

/// One line. Absent: what says nothing of its own, such as the end of a watch, and dry runs.
pub(super) fn parse(line: &str, actors: &Actors) -> Result<Option<Request>> {
    let event: Event = serde_json::from_str(line)?;
    let Some(ask) = ask(&event.verb) else { return Ok(None) };
    let begins = event.stage == "ResponseStarted";
    if begins != (ask == Ask::Watch) || event.request_uri.contains("dryRun=") {
        return Ok(None);
    }
    let Some(object) = event.object_ref else { return Ok(None) };
    let status = event.response_status.as_ref().map_or(0, |s| s.code);
    let (precondition, on_revision) = precondition(ask, event.request_object.as_ref());
    // A server that begins or ends turns requests away before it has read what they ask for.
    let turned_away = status == 503 && event.request_object.is_none() && ask != Ask::Watch;
    let effect = match effect(ask, status, event.response_object.as_ref()) {
        Effect::Unknown if turned_away => Effect::Refused,
        effect => effect,
    };
    Ok(Some(Request {
        received: event.request_received_timestamp,
        actor: actors.who(&event.user_agent, &event.user.username),
        username: event.user.username,
        user_agent: event.user_agent,
        ask,
        target: target(&object),
        namespace: object.namespace,
        name: object.name,
        subresource: object.subresource,
        status,
        precondition,
        on_revision,
        effect,
    }))
}

fn ask(verb: &str) -> Option<Ask> {
    Some(match verb {
        "get" => Ask::Get,
        "list" => Ask::List,
        "watch" => Ask::Watch,
        "create" => Ask::Write(Verb::Create),
        "update" => Ask::Write(Verb::Update),
        "patch" => Ask::Write(Verb::Patch),
        "delete" => Ask::Write(Verb::Delete),
        "deletecollection" => Ask::Write(Verb::DeleteCollection),
        _ => return None,
    })
}

fn target(object: &ObjectRef) -> Target {
    match (object.api_group.as_deref().unwrap_or_default(), object.resource.as_str()) {
        (GROUP, resource) => kind(resource).map_or(Target::Other, Target::Kind),
        ("coordination.k8s.io", "leases") => Target::Lease,
        ("" | "events.k8s.io", "events") => Target::Event,
        _ => Target::Other,
    }
}

/// The kind with this plural name.
pub(super) fn kind(resource: &str) -> Option<Kind> {
    match resource {
        "ipaddressclasses" => Some(Kind::Class),
        "ipaddresses" => Some(Kind::Address),
        "ipaddressclaims" => Some(Kind::Claim),
        _ => None,
    }
}

/// The condition, and the revision in it, where each verb has it: in the options of a DELETE, as a
/// `test` in a JSON patch, and else in the metadata of what is written.
fn precondition(ask: Ask, body: Option<&Value>) -> (Precondition, Option<u64>) {
    let Some(body) = body else { return Default::default() };
    let tested = |field: &str| {
        let path = format!("/metadata/{field}");
        let tests = |o: &&Value| o["op"] == "test" && o["path"] == *path;
        body.as_array().and_then(|all| all.iter().find(tests)).map(|o| &o["value"])
    };
    let given = |field: &str| match ask {
        _ if body.is_array() => tested(field),
        Ask::Write(Verb::Delete | Verb::DeleteCollection) => Some(&body["preconditions"][field]),
        Ask::Write(Verb::Update | Verb::Patch) => Some(&body["metadata"][field]),
        Ask::Write(Verb::Create) | Ask::Get | Ask::List | Ask::Watch => None,
    };
    let text = |field: &str| given(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (version, uid) = (text("resourceVersion"), text("uid"));
    let condition = Precondition { resource_version: version.is_some(), uid: uid.is_some() };
    (condition, version.and_then(|v| v.parse().ok()))
}

/// The API server answers the removal of the last finalizer with the object as it never was stored
/// (being deleted, no finalizers, the revision before); a deletion with the object when it stays for
/// now, and with a `Status` that has its uid when it does not.
fn effect(ask: Ask, status: u16, answer: Option<&Value>) -> Effect {
    let Ask::Write(verb) = ask else { return Effect::Unknown };
    match status {
        200..300 => {}
        400..499 => return Effect::Refused,
        _ => return Effect::Unknown,
    }
    let Some(answer) = answer else { return Effect::Unknown };
    let uid = |object: &Value| object["metadata"]["uid"].as_str().map(str::to_owned);
    let meta = &answer["metadata"];
    if verb == Verb::DeleteCollection {
        let items = answer["items"].as_array();
        return Effect::Deleted { uids: items.into_iter().flatten().filter_map(uid).collect() };
    }
    if let Some(gone) = answer["details"]["uid"].as_str() {
        return Effect::Deleted { uids: vec![gone.to_owned()] };
    }
    let kept = meta["finalizers"].as_array().is_some_and(|f| !f.is_empty());
    let deleting = !meta["deletionTimestamp"].is_null();
    match (uid(answer), meta["resourceVersion"].as_str().and_then(|v| v.parse().ok())) {
        (Some(uid), _) if deleting && !kept => Effect::Ended { uid },
        (_, Some(revision)) => Effect::Stored { revision },
        (_, None) => Effect::Unknown,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    #[serde(rename = "requestURI", default)]
    request_uri: String,
    verb: String,
    user: User,
    #[serde(default)]
    user_agent: String,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
    request_object: Option<Value>,
    response_object: Option<Value>,
    request_received_timestamp: String,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectRef {
    #[serde(default)]
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
    api_group: Option<String>,
    subresource: Option<String>,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}
