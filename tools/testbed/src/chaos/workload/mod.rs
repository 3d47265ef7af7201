//! What people and drivers do while things break: three classes, a pool of addresses, claims that
//! come and go.
//!
//! Nobody here goes through a fault proxy: what they want happens, or is refused by the real API
//! server. Each introduces themselves by a user agent of their own, by which the history tells them
//! apart. It must not know what goes wrong around it, nor what the controller makes of it.

mod addresses;
mod claims;
mod classes;
mod driver;

use std::{sync::Arc, time::Duration};

use address_controller::binder::invariants::Actor;
use anyhow::Result;
use fastrand::Rng;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, api::ObjectMeta};
use tokio::task::JoinSet;

use super::{
    pace::{End, Until},
    tally::Tally,
};
use crate::{
    controlplane::{ADMIN_TOKEN, ControlPlane, USER_AGENT},
    history::Actors,
    sandbox::create,
    wait::try_eventually,
};

const TENANT: &str = "chaos-tenant";
const ADMINISTRATOR: &str = "chaos-administrator";
const DRIVER: &str = "chaos-driver";

/// The classes of static addresses.
const POOLS: [&str; 2] = ["pool-a", "pool-b"];
/// The class of the driver's addresses.
const CLOUD: &str = "cloud";
/// By which name the driver goes.
const PROVISIONER: &str = "chaos.example.org";

const NAMESPACES: [&str; 3] = ["team-a", "team-b", "team-c"];

/// How many static addresses there may be at once: their names are numbered.
const SHELVES: usize = 120;

/// How long a request of theirs may take, on a server that may be paused.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a new API server may take to accept namespaces.
const BEGIN: Duration = Duration::from_secs(30);

/// Who is who, for the history.
pub(super) fn actors() -> Actors {
    Actors::default()
        .agent(TENANT, Actor::Tenant)
        .agent(ADMINISTRATOR, Actor::Administrator)
        .agent(DRIVER, Actor::Driver)
        .agent(USER_AGENT, Actor::Administrator)
}

/// The name of the static address with a number. Of two neighbours one is IPv4 and one IPv6.
fn shelf_name(number: usize) -> String {
    format!("s-{number:03}")
}

/// Everybody, at work.
pub(super) struct Workload {
    /// What they did.
    pub(super) tally: Arc<Tally>,
    people: JoinSet<()>,
    driver: JoinSet<()>,
    people_end: End,
    driver_end: End,
}

impl Workload {
    /// Makes namespaces and classes, and begins. `slots` claims exist at once, or are about to.
    pub(super) async fn begin(
        controlplane: &ControlPlane,
        slots: usize,
        rng: &mut Rng,
    ) -> Result<Self> {
        let tally = Arc::new(Tally::new());
        let (people_end, driver_end) = (End::new(), End::new());
        let (mut people, mut driver) = (JoinSet::new(), JoinSet::new());
        let administrator = client(controlplane, ADMINISTRATOR)?;
        for name in NAMESPACES {
            let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
            let namespace = Namespace { metadata, ..Namespace::default() };
            let what = format!("namespace {name}");
            try_eventually(BEGIN, &what, || create(&administrator, &namespace)).await?;
        }
        classes::begin(&administrator).await?;

        let with = |rng: &mut Rng, end: &End| Hands {
            rng: rng.fork(),
            until: end.until(),
            tally: tally.clone(),
        };
        people.spawn(classes::run(administrator.clone(), with(rng, &people_end)));
        people.spawn(addresses::run(administrator, with(rng, &people_end)));
        let tenant = client(controlplane, TENANT)?;
        for slot in 0..slots {
            let namespace = NAMESPACES[slot % NAMESPACES.len()];
            let claims = Api::namespaced(tenant.clone(), namespace);
            let hands = with(rng, &people_end);
            people.spawn(claims::run(claims, format!("c-{slot:02}"), hands));
        }
        let client = client(controlplane, DRIVER)?;
        let marking = people_end.until();
        driver.spawn(driver::run(client, with(rng, &driver_end), marking));
        Ok(Self { tally, people, driver, people_end, driver_end })
    }

    /// Tenants and administrators stop; the driver finishes what was begun, and begins nothing new
    /// of its own.
    pub(super) async fn people_stop(&mut self) {
        self.people_end.now();
        while self.people.join_next().await.is_some() {}
    }

    /// The driver stops too.
    pub(super) async fn stop(mut self) {
        self.people_stop().await;
        self.driver_end.now();
        while self.driver.join_next().await.is_some() {}
    }
}

/// What each of them works with.
struct Hands {
    rng: Rng,
    until: Until,
    tally: Arc<Tally>,
}

fn client(controlplane: &ControlPlane, agent: &'static str) -> Result<Client> {
    let mut config = controlplane.config()?;
    config.auth_info.token = Some(ADMIN_TOKEN.to_owned().into());
    config.connect_timeout = Some(PATIENCE);
    config.read_timeout = Some(PATIENCE);
    config.headers.retain(|(name, _)| name != http::header::USER_AGENT);
    config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(agent)));
    Ok(Client::try_from(config)?)
}

fn is_code<T>(answer: &kube::Result<T>, code: u16) -> bool {
    matches!(answer, Err(kube::Error::Api(status)) if status.code == code)
}

/// Whether a creation left an object there, whoever made it.
fn is_there<T>(answer: &kube::Result<T>) -> bool {
    answer.is_ok() || is_code(answer, 409)
}
