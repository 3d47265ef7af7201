//! Open watches: bodies that can be frozen, thawed and cut.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};

use axum::body::{Body, Bytes};
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Which watches are frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freeze {
    /// Those that are open: the half-open connection. One that is opened afterwards works.
    OpenOnes,
    /// Those opened later too: a replica's view stands still.
    NewOnesToo,
}

/// What a watch's body does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Passing,
    Frozen,
    Cut,
}

/// One open watch. It is gone when its body is.
struct Open {
    resource: String,
    flow: watch::Sender<Flow>,
}

/// The open watches of a proxy.
#[derive(Default)]
pub(super) struct Watches(Mutex<State>);

/// Under one lock: a watch that opens while its resource is frozen is on one side or the other.
#[derive(Default)]
struct State {
    open: Vec<Weak<Open>>,
    frozen: BTreeSet<String>,
}

impl State {
    /// Sets what the open watches of a resource do; gives how many there are.
    fn set(&mut self, resource: &str, flow: Flow) -> usize {
        let open = self.of(resource);
        for one in &open {
            one.flow.send_replace(flow);
        }
        open.len()
    }

    fn of(&mut self, resource: &str) -> Vec<Arc<Open>> {
        self.open.retain(|one| one.strong_count() > 0);
        self.open.iter().filter_map(Weak::upgrade).filter(|one| one.resource == resource).collect()
    }
}

impl Watches {
    pub(super) fn freeze(&self, resource: &str, freeze: Freeze) {
        let mut state = self.0.lock();
        if freeze == Freeze::NewOnesToo {
            state.frozen.insert(resource.to_owned());
        }
        state.set(resource, Flow::Frozen);
    }

    pub(super) fn thaw(&self, resource: &str) {
        let mut state = self.0.lock();
        state.frozen.remove(resource);
        state.set(resource, Flow::Passing);
    }

    pub(super) fn cut(&self, resource: &str) -> usize {
        self.0.lock().set(resource, Flow::Cut)
    }

    pub(super) fn open(&self, resource: &str) -> usize {
        self.0.lock().of(resource).len()
    }

    fn begin(&self, resource: &str) -> (Arc<Open>, watch::Receiver<Flow>) {
        let mut state = self.0.lock();
        let frozen = state.frozen.contains(resource);
        let flow = if frozen { Flow::Frozen } else { Flow::Passing };
        let (flow, receiver) = watch::channel(flow);
        let open = Arc::new(Open { resource: resource.to_owned(), flow });
        state.open.push(Arc::downgrade(&open));
        (open, receiver)
    }

    /// The body of a watch's answer, as the caller gets it.
    pub(super) fn pass(&self, resource: &str, body: Body) -> Body {
        let (open, state) = self.begin(resource);
        let start = (body.into_data_stream(), state, open);
        Body::from_stream(futures::stream::unfold(start, |(mut body, mut state, open)| async {
            let chunk: Result<Bytes, axum::BoxError> = loop {
                let flow = *state.borrow_and_update();
                match flow {
                    Flow::Cut => break Err("cut by the fault proxy".into()),
                    Flow::Frozen => {
                        let _ = state.changed().await;
                    }
                    Flow::Passing => tokio::select! {
                        biased;
                        _ = state.changed() => {}
                        chunk = body.next() => break chunk?.map_err(Into::into),
                    },
                }
            };
            Some((chunk, (body, state, open)))
        }))
    }
}
