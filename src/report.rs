//! What is told to those who describe an object: the binder's events as Kubernetes events.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;

use crate::{
    api::well_known::{GROUP, VERSION},
    binder::{
        plan::{Event, EventReason, Subject},
        view::Name,
    },
    telemetry::{Events, Note, NoteType},
    world::World,
};

/// Tells, without ever failing or waiting.
#[derive(Clone, Debug)]
pub struct Reporter {
    world: Arc<World>,
    events: Events,
}

impl Reporter {
    /// Tells through `events`; what was told is remembered in the world.
    pub fn new(world: Arc<World>, events: Events) -> Self {
        Self { world, events }
    }

    /// Tells of something that was just written.
    pub fn tell(&self, event: Event) {
        self.events.publish(note(event));
    }

    /// Tells what an address's pass found without writing anything: once, until it is over.
    pub fn notices(&self, address: &Name, notices: Vec<Event>) {
        let mut memory = self.world.memory();
        for reason in [EventReason::DeletionBlocked, EventReason::DuplicateAddress] {
            if !notices.iter().any(|n| n.reason == reason) {
                memory.is_over(address, reason.as_str());
            }
        }
        for notice in notices {
            if memory.is_news(address, notice.reason.as_str(), &notice.note) {
                self.events.publish(note(notice));
            }
        }
    }
}

fn note(event: Event) -> Note {
    Note {
        regarding: reference(&event.about),
        related: event.related.as_ref().map(reference),
        type_: if event.reason.is_warning() { NoteType::Warning } else { NoteType::Normal },
        reason: event.reason.as_str(),
        action: action(event.reason),
        note: event.note,
    }
}

/// What the controller did or tried.
fn action(reason: EventReason) -> &'static str {
    match reason {
        EventReason::Matched | EventReason::Pending | EventReason::Bound | EventReason::Lost => {
            "Bind"
        }
        EventReason::AddressDeleted | EventReason::AddressReleased | EventReason::Reclaimed => {
            "Reclaim"
        }
        EventReason::DeletionBlocked => "Delete",
        EventReason::InvalidAddress | EventReason::DuplicateAddress => "Check",
        EventReason::ClassNotFound
        | EventReason::NoDefaultClass
        | EventReason::MultipleDefaultClasses => "ResolveClass",
    }
}

fn reference(subject: &Subject) -> ObjectReference {
    let (kind, namespace, name, uid) = match subject {
        Subject::Claim { key, uid } => {
            ("IPAddressClaim", Some(key.namespace.to_string()), &key.name, uid)
        }
        Subject::Address { name, uid } => ("IPAddress", None, name, uid),
    };
    ObjectReference {
        api_version: Some(format!("{GROUP}/{VERSION}")),
        kind: Some(kind.to_owned()),
        namespace,
        name: Some(name.to_string()),
        uid: Some(uid.to_string()),
        ..ObjectReference::default()
    }
}
