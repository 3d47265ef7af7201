//! Guarded streams: every object of a kind, and every change, into a sink.
//!
//! kube's watcher lists and watches; here, one object that does not parse is a change like any
//! other, and no error ends the stream: it is told of, counted, and tried again after pauses that
//! grow. What a list no longer has is not known here: whoever holds the objects drops, at
//! [`Change::ListEnded`], what it was not given since [`Change::ListStarted`].
//!
//! It must not know what the objects mean, nor who keeps them.

mod begin;
pub mod guard;
mod pace;
pub mod problem;

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

pub use guard::{Guarded, Strange};
pub use pace::MAX_PAUSE;
pub use problem::Problem;

use pace::Pace;
use problem::{News, words};

/// What a stream tells its sink, in order.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// Everything is listed from here on. When this comes again before
    /// [`ListEnded`](Self::ListEnded), the list before it came to nothing.
    ListStarted,
    /// The object is as it is here: listed, created or changed.
    Applied(K),
    /// The same for an object that does not parse.
    Unparsed(Unparsed),
    /// The object is gone.
    Deleted(Gone),
    /// Every object that exists was given since [`ListStarted`](Self::ListStarted).
    ListEnded,
}

/// An object that does not parse. Texts that it lacks are empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Unparsed {
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its resource version.
    pub resource_version: String,
    /// What could not be read.
    pub error: String,
    /// The object, `metadata.managedFields` excepted.
    pub raw: Value,
}

/// An object that is gone. Texts that it lacked are empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Its namespace, if it had one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The resource version of its deletion.
    pub resource_version: String,
}

/// How a kind is listed and watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long one watch request lasts, in seconds; from 30 to 60, which the caller checks. A
    /// connection that passes nothing is noticed 5 s after it.
    pub timeout_seconds: u32,
    /// How many objects a page of a list has at most.
    pub page_size: u32,
    /// Selects objects by their labels; all of them without it.
    pub labels: Option<String>,
    /// No pause between two attempts is longer.
    pub longest_pause: Duration,
}

impl Default for Settings {
    /// 45 s, 500 objects a page, all of them, and [`MAX_PAUSE`].
    fn default() -> Self {
        Self { timeout_seconds: 45, page_size: 500, labels: None, longest_pause: MAX_PAUSE }
    }
}

/// How a stream fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The API server has granted a watch: what changes from now on will be heard.
    Watching,
    /// An attempt failed.
    Failed(Problem),
}

/// Lists and watches the objects that `api` reaches until `stop`, telling `sink` what there is and what
/// changes, and `standing` how it fares: each attempt that failed, repeated ones included, and each
/// watch that begins.
///
/// A problem is logged once until the stream goes on. While one lasts, it is told of at least
/// every [`Settings::longest_pause`] and the time that a request takes.
///
/// The client should have a read time-out a little longer than a watch: the watch time-out
/// sees a dead connection only once the API server has begun to answer.
pub async fn run<K>(
    client: Client,
    api: impl FnOnce(Client) -> Api<Guarded<K>>,
    settings: Settings,
    stop: CancellationToken,
    mut sink: impl FnMut(Change<K>) + Send,
    mut standing: impl FnMut(Standing) + Send,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let begun = Arc::new(Notify::new());
    let api = api(begin::heard(client, &begun));
    let mut stream = open(&api, &settings);
    let mut pace = Pace::new(Instant::now());
    let mut news = News::default();
    loop {
        let event = tokio::select! {
            // A watch that begins and breaks at once has begun first.
            biased;
            () = stop.cancelled() => return,
            () = begun.notified() => {
                standing(Standing::Watching);
                continue;
            }
            event = stream.next() => event,
        };
        match event {
            // kube's stream has no end.
            None => return,
            Some(Ok(event)) => {
                // A list that has only begun says nothing yet about the API server's health.
                if !matches!(event, Event::Init | Event::InitApply(_)) && news.well() {
                    tracing::info!(resource = %K::plural(&()), "the watch goes on");
                }
                sink(change(event));
            }
            Some(Err(error)) => {
                let problem = Problem::of(&error);
                standing(Standing::Failed(problem));
                if pace.is_steady(Instant::now()) {
                    // It went on, and nothing changed meanwhile that would have said so.
                    news.well();
                }
                tell(&K::plural(&()), problem, &words(&error), &mut news);
                if needs_list(&error) {
                    stream = open(&api, &settings);
                }
                let pause = pace.failed(Instant::now(), fastrand::f64());
                let pause = pause.min(settings.longest_pause);
                stop.run_until_cancelled(sleep(pause)).await;
            }
        }
    }
}

type Events<K> = Pin<Box<dyn Stream<Item = watcher::Result<Event<Guarded<K>>>> + Send>>;

fn open<K>(api: &Api<Guarded<K>>, settings: &Settings) -> Events<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut config =
        watcher::Config::default().timeout(settings.timeout_seconds).page_size(settings.page_size);
    config.label_selector.clone_from(&settings.labels);
    watcher(api.clone(), config).boxed()
}

/// Whether something may have been missed, so that only a list tells what there is.
///
/// kube's watcher lists again only after a 410 inside a watch. A 410 in place of a watch, an API
/// server that is behind what we have seen (restored from a backup), or a line that is no event
/// would have it ask for the same again for ever, or go on as if nothing had been lost.
fn needs_list(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(_) => Problem::of(error) == Problem::Gone,
        watcher::Error::WatchFailed(_) => Problem::of(error) != Problem::Unreachable,
        watcher::Error::WatchError(_)
        | watcher::Error::InitialListFailed(_)
        | watcher::Error::NoResourceVersion => true,
    }
}

fn tell(resource: &str, problem: Problem, error: &str, news: &mut News) {
    if !news.is_new(problem, error) {
        return;
    }
    match problem {
        Problem::Gone => tracing::info!(resource, error, "the watch fell behind: listing again"),
        Problem::Refused
        | Problem::NotFound
        | Problem::Unreachable
        | Problem::Throttled
        | Problem::Other => {
            let problem = problem.as_str();
            tracing::warn!(resource, problem, error, "cannot watch, trying again until it works");
        }
    }
}

fn change<K: Resource>(event: Event<Guarded<K>>) -> Change<K> {
    match event {
        Event::Init => Change::ListStarted,
        Event::InitDone => Change::ListEnded,
        Event::InitApply(Guarded::Parsed(object)) | Event::Apply(Guarded::Parsed(object)) => {
            Change::Applied(object)
        }
        Event::InitApply(Guarded::Unparsed(strange)) | Event::Apply(Guarded::Unparsed(strange)) => {
            Change::Unparsed(unparsed(*strange))
        }
        Event::Delete(guarded) => Change::Deleted(gone(guarded.meta())),
    }
}

/// An object that does not parse, as a [`Change`] tells of it.
pub fn unparsed(Strange { metadata, error, raw }: Strange) -> Unparsed {
    Unparsed {
        namespace: metadata.namespace,
        name: metadata.name.unwrap_or_default(),
        uid: metadata.uid.unwrap_or_default(),
        resource_version: metadata.resource_version.unwrap_or_default(),
        error,
        raw,
    }
}

fn gone(metadata: &ObjectMeta) -> Gone {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    Gone {
        namespace: metadata.namespace.clone(),
        name: text(&metadata.name),
        uid: text(&metadata.uid),
        resource_version: text(&metadata.resource_version),
    }
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
