//! The process around the controllers: settings, the client, listeners, tasks, and the end.
//!
//! It knows no rule of binding. What it runs is handed in: see [`run`].

use std::{process::ExitCode, sync::Arc};

use futures::Stream;
use kube::Client;
use tokio_util::sync::CancellationToken;

pub mod args;
pub mod client;
pub mod debug;
pub mod health;
pub mod host;
mod panics;
mod patience;
pub mod preflight;
pub mod print;
pub mod server;
pub mod shutdown;
pub mod tasks;
mod values;

pub use self::{
    args::{Cli, Command, LogFormat, Settings},
    client::Clients,
    debug::Debug,
    health::{Health, HealthPart},
    patience::Unanswered,
    tasks::{Ending, Task},
    values::Bind,
};
use self::{shutdown::Signal, tasks::Process};
use crate::{
    clock::Clocks,
    shard::Pod,
    telemetry::{Events, Metrics, logs},
};

/// The exit code for settings that cannot work.
const BAD_SETTINGS: u8 = 2;

/// What a controller is given.
#[derive(Clone)]
pub struct Context {
    /// The settings of the process.
    pub settings: Arc<Settings>,
    /// The API server.
    pub client: Client,
    /// The same, for Leases.
    pub leases: Client,
    /// Where things are counted.
    pub metrics: Arc<Metrics>,
    /// Where things are said to users.
    pub events: Events,
    /// Where it is said whether the controllers serve. They say so when they do.
    pub health: Health,
    /// Where pages for people are offered.
    pub debug: Debug,
    /// What time it is.
    pub clocks: Clocks,
    /// The pod that the process runs in, if it does.
    pub pod: Option<Pod>,
    /// Cancelled when running work is to end and no more is to begin.
    pub stop: CancellationToken,
}

/// Runs the controller until it is told to stop; the whole of the program but for its arguments.
///
/// `controllers` makes the tasks that do the work. It is called once, when the API server can be
/// reached and has everything that is needed. Until one of them calls [`Health::set_ready`], the
/// process is not ready.
pub fn run(settings: Settings, controllers: impl FnOnce(Context) -> Vec<Task>) -> ExitCode {
    let format = match settings.log_format {
        LogFormat::Auto => logs::Format::automatic(),
        LogFormat::Text => logs::Format::Text,
        LogFormat::Json => logs::Format::Json,
    };
    if let Err(error) = logs::install(&settings.log, format) {
        eprintln!("address-controller: {error:#}");
        return ExitCode::from(BAD_SETTINGS);
    }
    panics::end_the_process();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "cannot start");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(start(settings, controllers));
    // A look-up of a name that hangs must not hold up the end.
    runtime.shutdown_background();
    ExitCode::from(code)
}

async fn start(settings: Settings, controllers: impl FnOnce(Context) -> Vec<Task>) -> u8 {
    let made = match shutdown::signals() {
        Ok(signals) => client::build(&settings).await.map(|clients| (signals, clients)),
        Err(error) => Err(error.into()),
    };
    let ending = match made {
        Ok((signals, clients)) => serve(settings, clients, signals, controllers).await,
        Err(error) => Err(error),
    };
    ending.map_or_else(
        |error| {
            tracing::error!("cannot start: {error:#}");
            BAD_SETTINGS
        },
        |ending| ending.exit_code(),
    )
}

/// Runs the controllers against the API server behind `clients` until `signals` says to stop.
///
/// This is [`run`] with its surroundings handed in: it installs no log, no signal handler and no
/// panic hook, and ends no process.
///
/// # Errors
/// It could not start: an address cannot be listened on.
pub async fn serve(
    settings: Settings,
    clients: Clients,
    signals: impl Stream<Item = Signal> + Unpin,
    controllers: impl FnOnce(Context) -> Vec<Task>,
) -> anyhow::Result<Ending> {
    let (health, debug, metrics) = (Health::new(), Debug::default(), Arc::new(Metrics::new()));
    let mut process = Process::new(health.clone(), signals, settings.shutdown_budget);
    let (events, publisher) =
        Events::new(clients.work.clone(), &settings.identity, Arc::clone(&metrics));
    let context = Context {
        settings: Arc::new(settings),
        client: clients.work,
        leases: clients.leases,
        metrics,
        events,
        health,
        debug,
        clocks: Clocks::system(),
        pod: host::pod(),
        stop: process.stop.clone(),
    };
    start_support(&context, &mut process, publisher).await?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        identity = context.settings.identity,
        namespace = context.settings.namespace,
        "starting"
    );
    let wait = preflight::wait(&context.client, &context.health, &context.metrics);
    if let Err(ending) = process.run(wait).await {
        return Ok(ending);
    }
    context.health.not_ready("reading classes, addresses and claims");
    for task in controllers(context) {
        process.spawn(task);
    }
    match process.run(std::future::pending::<std::convert::Infallible>()).await {
        Err(ending) => Ok(ending),
        Ok(never) => match never {},
    }
}

/// What the controllers rely on: it starts before them and ends after them.
async fn start_support<S: Stream<Item = Signal> + Unpin>(
    context: &Context,
    process: &mut Process<S>,
    publisher: crate::telemetry::Publisher,
) -> anyhow::Result<()> {
    let stop = process.stop_support.clone();
    let probes = server::probes(context.health.clone());
    let inspection = server::inspection(Arc::clone(&context.metrics), context.debug.clone());
    for task in server::listen(&context.settings, probes, inspection, &stop).await? {
        process.spawn_support(task);
    }
    process.spawn_support(Task::new("events", async move {
        publisher.run(stop).await;
        Ok(())
    }));
    Ok(())
}

#[cfg(test)]
mod tests;
