//! Before anything is controlled: what must be there, and the wait for it.
//!
//! Whatever is missing is said once, in one line, shown by readiness, and waited for: an
//! administrator who mends it need not restart anything, and a process that restarts in a loop
//! would say less.

mod fields;
mod needs;

use std::{collections::BTreeSet, time::Duration};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use kube::{Api, Client, Resource, api::ListParams};

pub use self::fields::missing_fields;
use super::health::Health;
use crate::{
    api::{IPAddress, IPAddressClaim, IPAddressClass},
    telemetry::{Metrics, Status},
};

/// The oldest API server that is served, as (major, minor): that which the k8s-openapi feature
/// `v1_33` speaks to.
pub const MIN_SERVER: (u32, u32) = (1, 33);

/// What keeps the controllers from starting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// No answer.
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
    /// An answer that is the server's own fault, or that it is busy.
    #[error("the API server does not serve: {0}")]
    Failing(String),
    /// It does not know who is asking.
    #[error("the API server does not accept the credentials: {0}")]
    Unauthorized(String),
    /// It is older than what is served.
    #[error(
        "the API server is {0}: version {major}.{minor} or later is needed",
        major = MIN_SERVER.0, minor = MIN_SERVER.1
    )]
    TooOld(String),
    /// A kind is not installed.
    #[error(
        "{0} is not installed: install the CustomResourceDefinitions \
         (address-controller print-crds | kubectl apply --server-side -f -)"
    )]
    NotInstalled(String),
    /// Rights are missing: all of them, as `resource (verb, verb)`.
    #[error("the service account lacks rights: {0}: install the ClusterRole")]
    NotAllowed(String),
}

impl Obstacle {
    fn of(error: &kube::Error) -> Self {
        let text = root_cause(error);
        match (Status::of_error(error), error) {
            (_, kube::Error::Api(s)) if s.code == 401 => Self::Unauthorized(text),
            (Status::Unreachable, kube::Error::Auth(_)) => Self::Unauthorized(text),
            (Status::Unreachable, _) => Self::Unreachable(text),
            _ => Self::Failing(text),
        }
    }

    /// What makes two obstacles the same, however often and in whatever words it is met.
    fn key(&self) -> String {
        match self {
            Self::Unreachable(_) | Self::Failing(_) | Self::Unauthorized(_) => {
                format!("{:?}", std::mem::discriminant(self))
            }
            Self::TooOld(what) | Self::NotInstalled(what) | Self::NotAllowed(what) => {
                format!("{:?} {what}", std::mem::discriminant(self))
            }
        }
    }
}

/// The innermost text of an error: what was refused, without the layers that it went through.
fn root_cause(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    let mut error: &dyn std::error::Error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// Waits until nothing is in the way. Can be dropped at any time.
pub async fn wait(client: &Client, health: &Health, metrics: &Metrics) {
    let mut said = BTreeSet::new();
    let mut pauses = pauses();
    loop {
        let obstacles = look(client).await;
        if obstacles.is_empty() {
            break;
        }
        health.not_ready(join(&obstacles));
        for obstacle in obstacles {
            if said.insert(obstacle.key()) {
                tracing::error!("waiting: {obstacle}");
            }
        }
        tokio::time::sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
    }
    if !said.is_empty() {
        tracing::info!("nothing is in the way any more");
    }
    missing_fields(client, metrics).await;
}

/// No pause grows beyond this: who mended the last obstacle is watching.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

fn pauses() -> ExponentialBackoff {
    ExponentialBuilder::new()
        .with_min_delay(Duration::from_millis(500))
        .with_max_delay(LONGEST_PAUSE)
        .with_jitter()
        .without_max_times()
        .build()
}

fn join(obstacles: &[Obstacle]) -> String {
    obstacles.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Everything that is in the way, as far as it can be told: nothing is asked of a server that does
/// not answer or is too old.
async fn look(client: &Client) -> Vec<Obstacle> {
    if let Some(obstacle) = version(client).await {
        return vec![obstacle];
    }
    let mut rights = needs::not_allowed(client).await;
    let kinds = [
        installed::<IPAddressClass>(client).await,
        installed::<IPAddress>(client).await,
        installed::<IPAddressClaim>(client).await,
    ];
    let (refused, mut obstacles): (Vec<_>, Vec<_>) =
        kinds.into_iter().flatten().partition(|o| matches!(o, Obstacle::NotAllowed(_)));
    // A list that is refused is among the rights already, when they could be asked for.
    if rights.is_empty() {
        rights.extend(refused.into_iter().filter_map(|o| match o {
            Obstacle::NotAllowed(right) => Some(right),
            _ => None,
        }));
    }
    if !rights.is_empty() {
        obstacles.push(Obstacle::NotAllowed(rights.join(", ")));
    }
    obstacles
}

async fn version(client: &Client) -> Option<Obstacle> {
    let version = match client.apiserver_version().await {
        Ok(version) => version,
        // A cluster may hide its version; what is too old will show in other ways.
        Err(kube::Error::Api(s)) if s.is_forbidden() => return None,
        Err(error) => return Some(Obstacle::of(&error)),
    };
    // Some providers write a minor version such as `33+`.
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok()
    };
    let known = number(&version.major).zip(number(&version.minor));
    known.filter(|v| *v < MIN_SERVER).map(|_| Obstacle::TooOld(version.git_version))
}

/// Whether a kind is served, and may be listed. Only metadata is asked for: an object that cannot
/// be parsed is no obstacle.
async fn installed<K>(client: &Client) -> Option<Obstacle>
where
    K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all(client.clone());
    match api.list_metadata(&ListParams::default().limit(1)).await {
        Ok(_) => None,
        Err(kube::Error::Api(s)) if s.code == 404 => {
            Some(Obstacle::NotInstalled(format!("{}.{}", K::plural(&()), K::group(&()))))
        }
        Err(kube::Error::Api(s)) if s.is_forbidden() => {
            Some(Obstacle::NotAllowed(format!("{} (list)", K::plural(&()))))
        }
        Err(error) => Some(Obstacle::of(&error)),
    }
}

#[cfg(test)]
mod tests;
