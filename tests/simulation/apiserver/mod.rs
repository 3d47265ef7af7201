//! A model of the Kubernetes API server, in process: what the controller relies on, exactly.
//!
//! It speaks to any kube client as a tower service does. It has no clock of its own and no
//! randomness that is not seeded. What it answers is compared with a real kube-apiserver
//! (`tests/model_api.rs`): a difference is a bug of this model.

pub mod ask;
pub mod kinds;
pub mod reads;
pub mod refusal;
pub mod schema;
pub mod store;
pub mod writes;

use std::{sync::Arc, time::Duration};

use http::request::Parts;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use self::{
    ask::{Ask, Verb},
    kinds::Resource,
    reads::Follow,
    refusal::Refusal,
    store::Store,
    writes::{Answer, Write},
};

/// The server. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct ApiServer {
    served: Arc<Vec<Resource>>,
    store: Arc<Mutex<Store>>,
    /// The newest revision.
    head: watch::Sender<u64>,
    /// The wall clock at the simulation's beginning.
    epoch: Timestamp,
    /// The simulation's beginning.
    begin: tokio::time::Instant,
}

/// What a request comes to.
#[derive(Debug)]
pub enum Reply {
    /// An answer.
    Answer(Answer),
    /// A watch.
    Follow(Follow),
}

impl ApiServer {
    /// A server with nothing in it.
    pub fn new(seed: u64, epoch: Timestamp) -> Self {
        let store = Store::new(seed);
        Self {
            served: Arc::new(kinds::all()),
            head: watch::Sender::new(store.revision()),
            store: Arc::new(Mutex::new(store)),
            epoch,
            begin: tokio::time::Instant::now(),
        }
    }

    pub fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock()
    }

    pub fn served(&self) -> &[Resource] {
        &self.served
    }

    /// Tells of the newest revision whenever there is one.
    pub fn head(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }

    /// How long the simulation has run.
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// A moment of the simulation, as the runtime's.
    pub fn time(&self, elapsed: Duration) -> tokio::time::Instant {
        self.begin + elapsed
    }

    /// The server's wall clock.
    pub fn wall(&self) -> Timestamp {
        self.epoch + self.elapsed()
    }

    /// Takes a request apart.
    ///
    /// # Errors
    /// As [`Ask::of`].
    pub fn understand(&self, parts: &Parts, body: &[u8]) -> Result<Ask, Refusal> {
        Ask::of(parts, body, &self.served)
    }

    /// Does what is asked, at once.
    pub fn handle(&self, ask: &Ask, by: &str) -> Reply {
        let resource = &self.served[ask.resource];
        let (wall, at) = (self.wall(), self.elapsed());
        let mut store = self.store.lock();
        match ask.verb {
            Verb::Get => Reply::Answer(reads::get(&store, resource, ask)),
            Verb::List => Reply::Answer(reads::list(&store, resource, ask)),
            Verb::Watch => match Follow::new(&store, resource, ask) {
                Ok(follow) => Reply::Follow(follow),
                Err(refusal) => Reply::Answer(Err(refusal)),
            },
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => {
                let write = Write { store: &mut store, resource, ask, wall, at, by };
                let answer = write.carry_out();
                let revision = store.revision();
                drop(store);
                self.head.send_if_modified(|head| std::mem::replace(head, revision) != revision);
                Reply::Answer(answer)
            }
        }
    }
}
