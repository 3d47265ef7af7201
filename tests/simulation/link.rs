//! A replica's way to the API server: where requests are delayed, lost and refused, and where
//! watches lag, each kind on its own.
//!
//! It knows nothing of what is written.

use std::{
    collections::BTreeMap,
    future::pending,
    io,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Body as AnswerBody, Bytes, to_bytes};
use futures::{FutureExt, future::BoxFuture, stream};
use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep, sleep_until},
};
use tower::{BoxError, Service};

use crate::{
    apiserver::{ApiServer, Reply, ask::Ask, reads::Follow, refusal::Refusal},
    gate::{Gate, Verdict},
};

/// How the way is at the moment.
#[derive(Clone, Debug)]
pub struct Weather {
    /// The longest that a request or its answer is under way.
    pub slow: Duration,
    /// How often a request fails, of a thousand.
    pub failing: u16,
    /// How far each kind's watch is behind, by its plural.
    pub lag: BTreeMap<&'static str, Duration>,
    /// Watches of these kinds pass nothing, though their connections are open.
    pub frozen: Vec<&'static str>,
    /// Nothing passes at all.
    pub down: bool,
    /// Counts up when open watches are cut.
    pub cut: u64,
}

impl Default for Weather {
    fn default() -> Self {
        Self {
            slow: Duration::from_millis(4),
            failing: 0,
            lag: BTreeMap::new(),
            frozen: Vec::new(),
            down: false,
            cut: 0,
        }
    }
}

impl Weather {
    /// Whether requests are answered, and in time.
    pub fn is_fair(&self) -> bool {
        !self.down && self.failing == 0 && self.slow <= FAIR
    }

    /// Whether the watch of a kind shows at once what happens.
    pub fn shows(&self, plural: &str) -> bool {
        !self.down
            && self.lag.get(plural).is_none_or(Duration::is_zero)
            && !self.frozen.contains(&plural)
    }
}

/// How long a request may be under way each way for its sender to count as served: there and back it
/// is well below the time that a Lease's renewal has.
const FAIR: Duration = Duration::from_millis(200);

/// At which point of a write its sender dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// It is never sent.
    Before,
    /// It takes effect, and the answer reaches nobody.
    Committed,
    /// The answer is there.
    Answered,
}

/// The end of a replica at one of its next writes.
#[derive(Clone, Copy, Debug)]
pub struct Doom {
    pub writes: u32,
    pub moment: Moment,
}

/// What became of a request.
#[derive(Clone, Debug)]
pub struct Sent {
    pub by: String,
    pub ask: Ask,
    pub code: Option<u16>,
}

#[derive(Debug)]
struct State {
    random: fastrand::Rng,
    doom: Option<Doom>,
}

/// The way of one replica. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Link {
    api: ApiServer,
    by: Arc<str>,
    weather: Arc<watch::Sender<Weather>>,
    state: Arc<Mutex<State>>,
    died: Arc<watch::Sender<bool>>,
    told: Arc<dyn Fn(&Sent) + Send + Sync>,
    /// Where requests are held when it is shut.
    pub gate: Gate,
}

impl Link {
    pub fn new(
        api: ApiServer,
        by: &str,
        seed: u64,
        told: Arc<dyn Fn(&Sent) + Send + Sync>,
    ) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self {
            api,
            by: by.into(),
            weather: Arc::new(watch::Sender::new(Weather::default())),
            state: Arc::new(Mutex::new(State { random, doom: None })),
            died: Arc::new(watch::Sender::new(false)),
            told,
            gate: Gate::default(),
        }
    }

    /// Changes the weather.
    pub fn set(&self, change: impl FnOnce(&mut Weather)) {
        self.weather.send_modify(change);
    }

    /// How it is at the moment.
    pub fn weather(&self) -> Weather {
        self.weather.borrow().clone()
    }

    /// The replica dies at one of its next writes.
    pub fn doom(&self, doom: Doom) {
        self.state.lock().doom = Some(doom);
    }

    /// It no longer dies.
    pub fn spare(&self) {
        self.state.lock().doom = None;
    }

    /// It may live again.
    pub fn revive(&self) {
        self.died.send_replace(false);
    }

    /// Becomes true when the replica has died as it was doomed to.
    pub fn died(&self) -> watch::Receiver<bool> {
        self.died.subscribe()
    }

    fn random<T>(&self, of: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        of(&mut self.state.lock().random)
    }

    /// When this write is the one to die at.
    fn strikes(&self) -> Option<Moment> {
        let mut state = self.state.lock();
        let doom = state.doom.as_mut()?;
        doom.writes = doom.writes.saturating_sub(1);
        let strikes = (doom.writes == 0).then_some(doom.moment);
        if strikes.is_some() {
            state.doom = None;
        }
        strikes
    }

    async fn die(&self) -> ! {
        self.died.send_replace(true);
        pending().await
    }

    async fn under_way(&self) {
        let slow = self.weather.borrow().slow;
        let micros = u64::try_from(slow.as_micros()).unwrap_or(u64::MAX);
        let delay = self.random(|r| r.u64(0..=micros.max(1)));
        sleep(Duration::from_micros(delay)).await;
        let mut weather = self.weather.subscribe();
        // The sender lives in `self`.
        let _ = weather.wait_for(|weather| !weather.down).await;
    }

    async fn call(self, request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
        let (parts, body) = request.into_parts();
        let bytes = to_bytes(AnswerBody::new(body), usize::MAX).await?;
        let ask = match self.api.understand(&parts, &bytes) {
            Ok(ask) => ask,
            Err(refusal) => return Ok(answer(refusal.code, &refusal.status)),
        };
        let verdict = self.gate.pass(&ask).await;
        let strikes = if ask.is_write() { self.strikes() } else { None };
        if strikes == Some(Moment::Before) {
            self.die().await;
        }
        let failing = self.weather.borrow().failing;
        let fate = match verdict {
            Verdict::Cut => Some(Fate::Cut),
            Verdict::Lose => Some(Fate::Lost),
            Verdict::Go | Verdict::Keep(_) => {
                self.random(|r| (r.u16(0..1000) < failing).then(|| Fate::any(r)))
            }
        };
        if let Some(refusal) = fate.and_then(Fate::instead) {
            self.under_way().await;
            return refusal;
        }
        // Once it is sent it takes effect, whatever becomes of the sender.
        let (there, answered) = oneshot::channel();
        tokio::spawn(self.clone().carry_out(ask, there));
        if strikes == Some(Moment::Committed) {
            let _ = answered.await;
            self.die().await;
        }
        let Ok(reply) = answered.await else { return Err(broken()) };
        if let Verdict::Keep(until) = verdict {
            // The gate may be gone by then.
            let _ = until.await;
        }
        let reply = match fate.and_then(Fate::afterwards) {
            Some(instead) => instead,
            None => Ok(self.answer(reply)),
        };
        if strikes == Some(Moment::Answered) {
            self.died.send_replace(true);
        }
        reply
    }

    async fn carry_out(self, ask: Ask, there: oneshot::Sender<Reply>) {
        self.under_way().await;
        let reply = self.api.handle(&ask, &self.by);
        let code = match &reply {
            Reply::Answer(Ok((code, _))) => Some(*code),
            Reply::Answer(Err(refusal)) => Some(refusal.code),
            Reply::Follow(_) => None,
        };
        (self.told)(&Sent { by: self.by.to_string(), ask, code });
        self.under_way().await;
        // Nobody waits any more: the replica has gone on or died.
        let _ = there.send(reply);
    }

    fn answer(&self, reply: Reply) -> Response<AnswerBody> {
        match reply {
            Reply::Answer(Ok((code, body))) => answer(code, &body),
            Reply::Answer(Err(refusal)) => answer(refusal.code, &refusal.status),
            Reply::Follow(follow) => {
                let events = Events::new(self.clone(), follow);
                let body = AnswerBody::from_stream(stream::unfold(events, Events::next));
                let mut response = Response::new(body);
                *response.status_mut() = http::StatusCode::OK;
                response
            }
        }
    }
}

impl Service<Request<Body>> for Link {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.clone().call(request).boxed()
    }
}

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is refused with this code.
    Refused(u16),
    /// The connection ends before it is sent.
    Cut,
    /// It takes effect, and this code is the answer.
    Afterwards(u16),
    /// It takes effect, and the connection ends.
    Lost,
}

impl Fate {
    fn any(random: &mut fastrand::Rng) -> Self {
        match random.u8(0..8) {
            0 => Self::Refused(409),
            1 => Self::Refused(429),
            2 => Self::Refused(500),
            3 => Self::Refused(503),
            4 => Self::Cut,
            5 => Self::Afterwards(500),
            6 => Self::Afterwards(504),
            _ => Self::Lost,
        }
    }

    fn instead(self) -> Option<Result<Response<AnswerBody>, BoxError>> {
        match self {
            Self::Refused(code) => Some(Ok(refused(code))),
            Self::Cut => Some(Err(broken())),
            Self::Afterwards(_) | Self::Lost => None,
        }
    }

    fn afterwards(self) -> Option<Result<Response<AnswerBody>, BoxError>> {
        match self {
            Self::Afterwards(code) => Some(Ok(refused(code))),
            Self::Lost => Some(Err(broken())),
            Self::Refused(_) | Self::Cut => None,
        }
    }
}

fn refused(code: u16) -> Response<AnswerBody> {
    let reason = match code {
        409 => "Conflict",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let refusal = Refusal::new(code, reason, "as the weather is");
    answer(refusal.code, &refusal.status)
}

fn answer(code: u16, body: &Value) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::from(body.to_string()));
    // All codes here are written in this project.
    *response.status_mut() = http::StatusCode::from_u16(code).expect("a code");
    response
}

fn broken() -> BoxError {
    io::Error::new(io::ErrorKind::ConnectionReset, "the connection is cut").into()
}

/// A watch under way to its replica.
struct Events {
    link: Link,
    follow: Follow,
    head: watch::Receiver<u64>,
    weather: watch::Receiver<Weather>,
    cut: u64,
    until: Instant,
    ended: bool,
}

/// How often a watch that allows it is told how far it has come.
const BOOKMARK: Duration = Duration::from_secs(20);

impl Events {
    fn new(link: Link, mut follow: Follow) -> Self {
        follow.first.reverse();
        let weather = link.weather.subscribe();
        let cut = weather.borrow().cut;
        let until = Instant::now() + Duration::from_secs(follow.seconds);
        Self { head: link.api.head(), weather, link, follow, cut, until, ended: false }
    }

    async fn next(mut self) -> Option<(Result<Bytes, io::Error>, Self)> {
        if self.ended {
            return None;
        }
        if self.follow.expired {
            self.ended = true;
            return Some((Ok(line(&Follow::too_old())), self));
        }
        if let Some(event) = self.follow.first.pop() {
            return Some((Ok(line(&event)), self));
        }
        let bookmark = Instant::now() + BOOKMARK;
        loop {
            let next = {
                let store = self.link.api.store();
                self.follow.peek(&store)
            };
            let plural = self.follow.plural();
            let (frozen, lag, cut) = {
                let weather = self.weather.borrow_and_update();
                let lag = weather.lag.get(plural).copied().unwrap_or_default();
                (weather.frozen.contains(&plural) || weather.down, lag, weather.cut)
            };
            if cut != self.cut {
                self.ended = true;
                return Some((Err(io::ErrorKind::ConnectionReset.into()), self));
            }
            let now = Instant::now();
            let due = next.map(|at| self.link.api.time(at) + lag);
            if !frozen && now >= self.until {
                return None;
            }
            if !frozen && due.is_some_and(|due| due <= now) {
                let event = {
                    let store = self.link.api.store();
                    self.follow.next(&store)
                };
                if let Some(event) = event {
                    return Some((Ok(line(&event)), self));
                }
            }
            if !frozen && next.is_none() && now >= bookmark && self.follow.bookmarks {
                let told = *self.head.borrow();
                self.follow.told = self.follow.told.max(told);
                return Some((Ok(line(&self.follow.bookmark())), self));
            }
            let wake = if frozen {
                now + Duration::from_hours(1)
            } else {
                due.unwrap_or(bookmark).min(self.until)
            };
            tokio::select! {
                biased;
                _ = self.weather.changed() => {}
                _ = self.head.changed(), if next.is_none() => {}
                () = sleep_until(wake) => {}
            }
        }
    }
}

fn line(event: &Value) -> Bytes {
    let mut text = event.to_string();
    text.push('\n');
    text.into()
}
