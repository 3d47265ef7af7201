//! Kubernetes events: said without waiting, sent by a task of their own.
//!
//! Saying something never fails and never blocks: a queue of bounded length takes it, and what does
//! not fit is dropped and counted. A failing event is counted too and fails nothing. Whether
//! something is worth saying again is for [`Memory`](super::Memory) to tell.

use std::{fmt::Debug, sync::Arc};

use k8s_openapi::{api::core::v1::ObjectReference, jiff::Timestamp};
use kube::{
    Api, Client, Resource,
    api::PostParams,
    core::{NamespaceResourceScope, Status},
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{EventResult, Metrics, event_object};
use crate::api::limits::{EVENT_NOTE_LIMIT, cut};

/// How many events may wait to be sent.
const QUEUE: usize = 1024;

/// Whether an event tells of something expected or of something to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteType {
    /// As it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

impl NoteType {
    /// The type as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// One thing to be said about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The object it is about.
    pub regarding: ObjectReference,
    /// Another object that has to do with it.
    pub related: Option<ObjectReference>,
    /// Expected or not.
    pub type_: NoteType,
    /// Why, in one `CamelCase` word; at most 128 bytes.
    pub reason: &'static str,
    /// What the controller did or tried, in one word; at most 128 bytes.
    pub action: &'static str,
    /// The sentence for people. What is beyond 1024 bytes is cut off.
    pub note: String,
}

/// Takes what is to be said. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Events {
    queue: mpsc::Sender<Note>,
    metrics: Arc<Metrics>,
}

impl Events {
    /// A handle, and the publisher that sends what it takes. `instance` names this replica.
    pub fn new(client: Client, instance: &str, metrics: Arc<Metrics>) -> (Self, Publisher) {
        let (events, waiting) = Self::captured(Arc::clone(&metrics));
        let instance = instance.to_owned();
        (events, Publisher { client, instance, metrics, waiting, via: Via::EventsGroup })
    }

    /// A handle, and what it took: for tests of those who say something.
    pub fn captured(metrics: Arc<Metrics>) -> (Self, mpsc::Receiver<Note>) {
        let (queue, waiting) = mpsc::channel(QUEUE);
        (Self { queue, metrics }, waiting)
    }

    /// Says something. Returns at once.
    pub fn publish(&self, mut note: Note) {
        cut(&mut note.note, EVENT_NOTE_LIMIT);
        if self.queue.try_send(note).is_err() {
            self.metrics.event(EventResult::Dropped);
        }
    }
}

/// Which API takes events. It only moves on, for the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Via {
    /// `events.k8s.io/v1`.
    EventsGroup,
    /// `v1`, where the role grants only that.
    CoreGroup,
    /// Neither.
    Nothing,
}

/// Sends what was said, one after the other: events are the least of what the API server is asked.
pub struct Publisher {
    client: Client,
    instance: String,
    metrics: Arc<Metrics>,
    waiting: mpsc::Receiver<Note>,
    via: Via,
}

impl Publisher {
    /// Sends until `stop`, and then what still waits. Never fails.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                note = self.waiting.recv() => match note {
                    Some(note) => self.send(&note).await,
                    // Nobody is left to say anything; the end is still the process's to call.
                    None => return stop.cancelled().await,
                },
                () = stop.cancelled() => return,
            }
        }
    }

    async fn send(&mut self, note: &Note) {
        let answer = loop {
            let Some(answer) = self.send_via(self.via, note).await else {
                return self.metrics.event(EventResult::Dropped);
            };
            match &answer {
                Err(kube::Error::Api(status)) if is_refused(status) => self.move_on(status),
                _ => break answer,
            }
        };
        match answer {
            Ok(()) => self.metrics.event(EventResult::Sent),
            Err(error) => {
                self.metrics.event(EventResult::Failed);
                tracing::debug!(reason = note.reason, %error, "an event was not taken");
            }
        }
    }

    fn move_on(&mut self, status: &Status) {
        self.via = match self.via {
            Via::EventsGroup => {
                tracing::debug!(why = %status, "events.k8s.io is refused: events go to the core group");
                Via::CoreGroup
            }
            Via::CoreGroup | Via::Nothing => {
                tracing::warn!(
                    why = %status,
                    "no events will be published: neither events.k8s.io nor the core group takes \
                     them; allow create on events and restart"
                );
                Via::Nothing
            }
        };
    }

    async fn send_via(&self, via: Via, note: &Note) -> Option<kube::Result<()>> {
        let (instance, now) = (&self.instance, Timestamp::now());
        match via {
            Via::EventsGroup => {
                let event = event_object::of_events_group(note, instance, now);
                Some(self.create(note, &event).await)
            }
            Via::CoreGroup => {
                let event = event_object::of_core_group(note, instance, now);
                Some(self.create(note, &event).await)
            }
            Via::Nothing => None,
        }
    }

    async fn create<E>(&self, note: &Note, event: &E) -> kube::Result<()>
    where
        E: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let namespace = event_object::namespace(&note.regarding);
        let api: Api<E> = Api::namespaced(self.client.clone(), namespace);
        api.create(&PostParams::default(), event).await.map(drop)
    }
}

/// Whether an answer says that events of this group are not to be had at all, rather than that
/// this one is not: a namespace that terminates or is gone, a quota and an admission webhook all
/// refuse with the same codes, and speak for one namespace only.
fn is_refused(status: &Status) -> bool {
    match status.code {
        403 => status.message.contains("cannot create resource"),
        404 => status.details.as_ref().is_none_or(|d| d.kind != "namespaces"),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
