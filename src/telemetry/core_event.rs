//! Events as the core group knows them, for clusters that allow only those.

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};

use super::events::Note;
use crate::api::well_known::MANAGER;

/// Where events about an object are kept: beside it, or in `default` when it has no namespace.
pub(super) fn namespace(regarding: &ObjectReference) -> &str {
    regarding.namespace.as_deref().filter(|n| !n.is_empty()).unwrap_or("default")
}

/// The note as an event of the core group. `event_time` stays empty: it marks the newer form, with
/// other rules.
pub(super) fn from_note(note: &Note, instance: &str, now: Timestamp) -> Event {
    let name = note.regarding.name.as_deref().unwrap_or(MANAGER);
    Event {
        metadata: ObjectMeta {
            // Unique by time, as client-go names them.
            name: Some(format!("{name}.{:x}", now.as_nanosecond())),
            namespace: Some(namespace(&note.regarding).to_owned()),
            ..ObjectMeta::default()
        },
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
        ..Event::default()
    }
}
