//! Kubernetes events: said without waiting, sent by a task of their own.
//!
//! Saying something never fails and never blocks: a queue of bounded length takes it, and what does
//! not fit is dropped and counted. A failing event is counted too and fails nothing. Whether
//! something is worth saying again is for [`Memory`](super::Memory) to tell.

use std::sync::Arc;

use k8s_openapi::{
    api::core::v1::{Event as CoreEvent, ObjectReference},
    jiff::Timestamp,
};
use kube::{
    Api, Client,
    api::PostParams,
    core::Status,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{EventResult, Metrics, core_event};
use crate::api::well_known::MANAGER;

/// How many events may wait to be sent.
const QUEUE: usize = 1024;
/// The longest note that the API server takes, in bytes.
const NOTE_LIMIT: usize = 1024;

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
        truncate(&mut note.note);
        if self.queue.try_send(note).is_err() {
            self.metrics.event(EventResult::Dropped);
        }
    }
}

/// Cuts a note to what the API server takes, between two characters.
fn truncate(note: &mut String) {
    const MARK: &str = "…";
    if note.len() > NOTE_LIMIT {
        note.truncate(note.floor_char_boundary(NOTE_LIMIT - MARK.len()));
        note.push_str(MARK);
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
            let answer = match self.via {
                Via::EventsGroup => self.send_to_events_group(note).await,
                Via::CoreGroup => self.send_to_core_group(note).await,
                Via::Nothing => return self.metrics.event(EventResult::Dropped),
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

    async fn send_to_events_group(&self, note: &Note) -> Result<(), kube::Error> {
        // A recorder for each: one that is kept answers a repetition by counting up its first
        // event, with the first note, and needs the right to patch for that.
        let reporter =
            Reporter { controller: MANAGER.to_owned(), instance: Some(self.instance.clone()) };
        let event = Event {
            type_: match note.type_ {
                NoteType::Normal => EventType::Normal,
                NoteType::Warning => EventType::Warning,
            },
            reason: note.reason.to_owned(),
            note: Some(note.note.clone()),
            action: note.action.to_owned(),
            secondary: note.related.clone(),
        };
        Recorder::new(self.client.clone(), reporter).publish(&event, &note.regarding).await
    }

    async fn send_to_core_group(&self, note: &Note) -> Result<(), kube::Error> {
        let namespace = core_event::namespace(&note.regarding);
        let event = core_event::from_note(note, &self.instance, Timestamp::now());
        let api: Api<CoreEvent> = Api::namespaced(self.client.clone(), namespace);
        api.create(&PostParams::default(), &event).await.map(drop)
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
