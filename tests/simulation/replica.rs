//! One replica: the controllers as the program runs them, on a client of its own, with a wall clock
//! of its own, in the simulation's time.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use address_controller::{
    clock::{Clock, Clocks, Moment},
    controllers,
    runtime::{Clients, Context, Debug, Health, Settings},
    shard::Pod,
    telemetry::{Events, Metrics, Note},
};
use futures::future::BoxFuture;
use jiff::SignedDuration;
use serde::Deserialize;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{apiserver::ApiServer, link::Link};

/// The namespace that the controller runs in.
pub const NAMESPACE: &str = "system";

/// How the replicas are set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Election {
    /// They share the work by Leases.
    Leases,
    /// Each does everything.
    Nobody,
}

/// What a replica says of itself and the others.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// Its name among the members.
    pub me: String,
    /// The members in its eyes.
    pub members: Vec<Member>,
    /// Whether it leads, by its own deadline.
    pub leads: bool,
    /// How long it may still act as a member.
    pub member_seconds_left: f64,
}

/// A member, as a replica sees it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Member {
    pub name: String,
}

/// One replica.
pub struct Replica {
    pub name: String,
    pub link: Link,
    api: ApiServer,
    election: Election,
    /// What else it is told on its command line.
    pub flags: Vec<String>,
    /// How far its wall clock is off.
    pub skew: SignedDuration,
    life: Option<Life>,
    /// How often it was started.
    pub lives: u32,
}

/// A replica's process.
struct Life {
    tasks: JoinSet<Option<String>>,
    stop: CancellationToken,
    debug: Debug,
    /// What it tells users.
    notes: mpsc::Receiver<Note>,
    paused: watch::Sender<bool>,
}

impl Replica {
    pub fn new(name: &str, api: ApiServer, link: Link, election: Election) -> Self {
        let (name, flags, skew) = (name.to_owned(), Vec::new(), SignedDuration::ZERO);
        Self { name, link, api, election, flags, skew, life: None, lives: 0 }
    }

    pub fn runs(&self) -> bool {
        self.life.is_some()
    }

    pub fn without_leases(&self) -> bool {
        self.election == Election::Nobody
    }

    /// Starts its process, in its pod.
    pub fn start(&mut self) {
        self.lives += 1;
        let flags = [
            format!("--identity={}", self.name),
            format!("--namespace={NAMESPACE}"),
            format!("--leader-elect={}", self.election == Election::Leases),
        ];
        let flags = flags.iter().chain(&self.flags).map(String::as_str);
        let settings = Settings::from_flags(flags).expect("good flags");
        let clients = Clients::over(self.link.clone(), &settings);
        let metrics = Arc::new(Metrics::new());
        let (events, notes) = Events::captured(Arc::clone(&metrics));
        let (debug, stop) = (Debug::default(), CancellationToken::new());
        let context = Context {
            settings: Arc::new(settings),
            client: clients.work,
            leases: clients.leases,
            metrics,
            events,
            health: Health::new(),
            debug: debug.clone(),
            clocks: Clocks::same(self.clock()),
            pod: Some(Pod { name: None, uid: format!("pod-{}", self.name) }),
            stop: stop.clone(),
        };
        let paused = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        for task in controllers::tasks(context) {
            let (name, work) = task.into_parts();
            let (work, stopped) = (Pausable::new(work, &paused), stop.clone());
            tasks.spawn(async move {
                let end = work.await;
                match (end, stopped.is_cancelled()) {
                    (Ok(()), true) => None,
                    (Ok(()), false) => Some(format!("the task {name} ended by itself")),
                    (Err(error), _) => Some(format!("the task {name} failed: {error:#}")),
                }
            });
        }
        self.life = Some(Life { tasks, stop, debug, notes, paused });
    }

    fn clock(&self) -> Clock {
        let (api, skew, begin) = (self.api.clone(), self.skew, Instant::now());
        Clock::new(move || Moment { wall: api.wall() + skew, elapsed: begin.elapsed() })
    }

    /// Ends its process at once.
    pub fn kill(&mut self) {
        if let Some(mut life) = self.life.take() {
            life.tasks.abort_all();
        }
    }

    /// Ends its process in an orderly way. What its tasks died of, if they did.
    pub async fn stop(&mut self) -> Vec<String> {
        let Some(mut life) = self.life.take() else { return Vec::new() };
        life.stop.cancel();
        life.paused.send_replace(false);
        let mut wrong = Vec::new();
        let ended = async {
            while let Some(end) = life.tasks.join_next().await {
                wrong.extend(end.unwrap_or_else(|error| Some(error.to_string())));
            }
        };
        // The budget of the real process; what still runs then dies with it.
        let _ = timeout(Duration::from_secs(20), ended).await;
        life.tasks.abort_all();
        wrong
    }

    /// Stops its process where it stands, or lets it go on.
    pub fn pause(&self, paused: bool) {
        if let Some(life) = &self.life {
            life.paused.send_replace(paused);
        }
    }

    /// What its tasks have died of so far.
    pub fn deaths(&mut self) -> Vec<String> {
        let Some(life) = &mut self.life else { return Vec::new() };
        let mut wrong = Vec::new();
        while let Some(end) = life.tasks.try_join_next() {
            wrong.extend(end.unwrap_or_else(|error| Some(error.to_string())));
        }
        wrong
    }

    /// What it says of itself and the others; nothing where it does not run, or runs alone.
    pub fn standing(&self) -> Option<Standing> {
        let page = self.life.as_ref()?.debug.page("shard")?;
        serde_json::from_str(&page).ok()
    }

    /// Whether its process runs and is not stopped.
    pub fn is_up(&self) -> bool {
        self.life.as_ref().is_some_and(|life| !*life.paused.borrow())
    }

    /// What it has told users since it was asked last.
    pub fn notes(&mut self) -> Vec<Note> {
        let Some(life) = &mut self.life else { return Vec::new() };
        std::iter::from_fn(|| life.notes.try_recv().ok()).collect()
    }
}

/// Work that stands still while its process is paused.
struct Pausable {
    work: BoxFuture<'static, anyhow::Result<()>>,
    paused: watch::Receiver<bool>,
    resumed: Option<BoxFuture<'static, ()>>,
}

impl Pausable {
    fn new(work: BoxFuture<'static, anyhow::Result<()>>, paused: &watch::Sender<bool>) -> Self {
        Self { work, paused: paused.subscribe(), resumed: None }
    }
}

impl Future for Pausable {
    type Output = anyhow::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        if self.resumed.is_none() && *self.paused.borrow() {
            let mut paused = self.paused.clone();
            self.resumed = Some(Box::pin(async move {
                let _ = paused.wait_for(|paused| !paused).await;
            }));
        }
        if let Some(resumed) = &mut self.resumed {
            std::task::ready!(resumed.as_mut().poll(cx));
            self.resumed = None;
        }
        self.work.as_mut().poll(cx)
    }
}
