//! Events as objects of the API: of `events.k8s.io`, and of the core group for clusters that allow
//! only those.
//!
//! Each is an object of its own, never a series: a series is counted up with the note of its first
//! event, and needs the right to patch.

use k8s_openapi::{
    api::{
        core::v1::{Event as CoreEvent, EventSource, ObjectReference},
        events::v1::Event,
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time},
    jiff::Timestamp,
};

use super::events::Note;
use crate::api::{names::OBJECT_NAME_LIMIT, well_known::MANAGER};

/// Where events about an object are kept: beside it, or in `default` when it has no namespace.
pub(super) fn namespace(regarding: &ObjectReference) -> &str {
    regarding.namespace.as_deref().filter(|n| !n.is_empty()).unwrap_or("default")
}

/// The note as an event of `events.k8s.io`.
pub(super) fn of_events_group(note: &Note, instance: &str, now: Timestamp) -> Event {
    Event {
        metadata: metadata(note, now),
        event_time: Some(MicroTime(now)),
        regarding: Some(note.regarding.clone()),
        related: note.related.clone(),
        type_: Some(note.type_.as_str().to_owned()),
        reason: Some(note.reason.to_owned()),
        action: Some(note.action.to_owned()),
        note: Some(note.note.clone()),
        reporting_controller: Some(MANAGER.to_owned()),
        reporting_instance: Some(instance.to_owned()),
        ..Event::default()
    }
}

/// The note as an event of the core group. `event_time` stays empty: it marks the newer form, with
/// other rules.
pub(super) fn of_core_group(note: &Note, instance: &str, now: Timestamp) -> CoreEvent {
    CoreEvent {
        metadata: metadata(note, now),
        involved_object: note.regarding.clone(),
        related: note.related.clone(),
        type_: Some(note.type_.as_str().to_owned()),
        reason: Some(note.reason.to_owned()),
        action: Some(note.action.to_owned()),
        message: Some(note.note.clone()),
        source: Some(EventSource { component: Some(MANAGER.to_owned()), host: None }),
        reporting_component: Some(MANAGER.to_owned()),
        reporting_instance: Some(instance.to_owned()),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..CoreEvent::default()
    }
}

/// Named uniquely by time, as client-go does; an object's name may leave no room for that.
fn metadata(note: &Note, now: Timestamp) -> ObjectMeta {
    let unique = format!(".{:x}", now.as_nanosecond());
    let mut name = note.regarding.name.clone().unwrap_or_else(|| MANAGER.to_owned());
    name.truncate(name.floor_char_boundary(OBJECT_NAME_LIMIT - unique.len()));
    // What is left of a name that was cut ends as a name does.
    let name = name.trim_end_matches(['.', '-']);
    ObjectMeta {
        name: Some(format!("{name}{unique}")),
        namespace: Some(namespace(&note.regarding).to_owned()),
        ..ObjectMeta::default()
    }
}
