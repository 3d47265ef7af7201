//! The controllers and their watches, as the tasks of a process.

mod replica;

use std::{fmt::Debug, future::Future, sync::Arc};

use anyhow::anyhow;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use self::replica::Replica;
use crate::{
    address,
    api::{AddressPhase, ClaimPhase, IPAddress, IPAddressClaim, IPAddressClass},
    apiserver::{ApiServer, Fence},
    binder::index::{Index, IndexedKind},
    claim,
    queue::{self, Backoff, Config, Panicked},
    report::Reporter,
    runtime::{Context, Task},
    telemetry::{Census, Kind, Metrics},
    watch::{self, Change, Problem, Standing},
    world::World,
};

/// How many objects a page of a list has.
const PAGE_SIZE: u32 = 500;

/// The tasks of one replica: one of several that share the work by their Leases, or one that does all
/// of it.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the process hands it over, as to any controller"
)]
pub fn tasks(context: Context) -> Vec<Task> {
    let settings = &context.settings;
    let backoff = Backoff {
        base: settings.queue_backoff_base,
        max: settings.queue_backoff_max,
        ..Backoff::default()
    };
    let world = Arc::new(World::new(Config { backoff }, context.clocks.work.clone()));
    measure(&context.metrics, &world);
    let replica = Replica::new(&context);
    let (shard, leadership) = (replica.shard.clone(), replica.leadership.clone());
    let api = |fence: Fence| {
        let (world, metrics) = (Arc::clone(&world), Arc::clone(&context.metrics));
        ApiServer::new(context.client.clone(), world, metrics, fence)
    };
    let reporter = Reporter::new(Arc::clone(&world), context.events.clone());
    let claims = Arc::new(claim::Controller {
        world: Arc::clone(&world),
        api: api(Arc::new(move || shard.may_write())),
        reporter: reporter.clone(),
        metrics: Arc::clone(&context.metrics),
        shard: replica.shard.clone(),
    });
    let addresses = Arc::new(address::Controller {
        world: Arc::clone(&world),
        api: api(Arc::new(move || leadership.leads())),
        reporter,
        metrics: Arc::clone(&context.metrics),
        leadership: replica.leadership.clone(),
        grace: settings.reservation_grace,
    });
    let mut tasks = vec![
        watching(
            &context,
            Kind::Class,
            &world,
            World::class_changed as fn(&World, Change<IPAddressClass>),
        ),
        watching(
            &context,
            Kind::Address,
            &world,
            World::address_changed as fn(&World, Change<IPAddress>),
        ),
        watching(
            &context,
            Kind::Claim,
            &world,
            World::claim_changed as fn(&World, Change<IPAddressClaim>),
        ),
        passes("claims", &context, &world, replica.claims_done.clone(), {
            let concurrency = usize::from(settings.claim_concurrency);
            let queue = world.claims().clone();
            queue::run(queue, concurrency, move |job| Arc::clone(&claims).pass(job))
        }),
        passes("addresses", &context, &world, replica.addresses_done.clone(), {
            let concurrency = usize::from(settings.address_concurrency);
            let queue = world.addresses().clone();
            queue::run(queue, concurrency, move |job| Arc::clone(&addresses).pass(job))
        }),
        lifecycle(&context, Arc::clone(&world)),
    ];
    tasks.extend(replica.tasks(&context, &world));
    tasks
}

/// One kind's watch into the world.
fn watching<K>(
    context: &Context,
    kind: Kind,
    world: &Arc<World>,
    sink: fn(&World, Change<K>),
) -> Task
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let (world, metrics, stop) =
        (Arc::clone(world), Arc::clone(&context.metrics), context.stop.clone());
    let (client, part) = (context.client.clone(), context.health.part(part_of(kind)));
    let timeout = context.settings.watch_timeout.as_secs();
    let settings = watch::Settings {
        // Checked when the settings were read: at most 60.
        timeout_seconds: u32::try_from(timeout).unwrap_or(60),
        page_size: PAGE_SIZE,
        ..watch::Settings::default()
    };
    Task::new(format!("watch of {}", K::plural(&())), async move {
        let told = Arc::clone(&metrics);
        let sink = move |change: Change<K>| {
            if matches!(change, Change::ListStarted) {
                told.watch_list(kind);
            }
            sink(&world, change);
            told.unparsed(kind, world.index().strange_count(indexed(kind)));
        };
        let standing = move |standing| match standing {
            Standing::Watching => part.set_ready(""),
            Standing::Failed(problem) => {
                metrics.watch_problem(kind, problem);
                // What fell behind is listed again: the API server is there.
                if problem != Problem::Gone {
                    let (what, why) = (K::plural(&()), problem.as_str());
                    part.not_ready(format!("the watch of {what} is down ({why})"));
                }
            }
        };
        watch::run(client, Api::all, settings, stop, sink, standing).await;
        Ok(())
    })
}

/// The part that a kind's watch has in readiness.
fn part_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Claim => "watch of claims",
        Kind::Address => "watch of addresses",
        Kind::Class => "watch of classes",
    }
}

fn indexed(kind: Kind) -> IndexedKind {
    match kind {
        Kind::Claim => IndexedKind::Claim,
        Kind::Address => IndexedKind::Address,
        Kind::Class => IndexedKind::Class,
    }
}

/// The passes of one kind, once everything is known that they may decide on. `done` is cancelled when
/// the last of them has ended.
fn passes(
    kind: &'static str,
    context: &Context,
    world: &Arc<World>,
    done: CancellationToken,
    run: impl Future<Output = Result<(), Panicked>> + Send + 'static,
) -> Task {
    let (world, stop) = (Arc::clone(world), context.stop.clone());
    Task::new(format!("passes over {kind}"), async move {
        let ended = match stop.run_until_cancelled(world.complete()).await {
            Some(()) => run.await.map_err(|panicked| anyhow!(panicked)),
            None => Ok(()),
        };
        if ended.is_ok() {
            done.cancel();
        }
        ended
    })
}

/// Ready when everything is listed; no new passes when it is time to stop.
fn lifecycle(context: &Context, world: Arc<World>) -> Task {
    let (health, stop) = (context.health.clone(), context.stop.clone());
    Task::new("lifecycle", async move {
        if stop.run_until_cancelled(world.complete()).await.is_some() {
            health.set_ready("classes, addresses and claims are listed");
            tracing::info!("serving");
        }
        stop.cancelled().await;
        world.shut_down();
        Ok(())
    })
}

/// Says where queue depths and the counts of objects are read.
fn measure(metrics: &Metrics, world: &Arc<World>) {
    let of = Arc::clone(world);
    metrics.depth_from(Kind::Claim, move || of.claims().depth());
    let of = Arc::clone(world);
    metrics.depth_from(Kind::Address, move || of.addresses().depth());
    let of = Arc::clone(world);
    metrics.census_from(move || census(&of.index()));
}

fn census(index: &Index) -> Census {
    let mut census = Census::of_classes(index.classes().map(|c| c.name.to_string()));
    for claim in index.claims() {
        let class = claim.resolved_class.as_deref().unwrap_or_default();
        census.add_claims(claim.phase.or(Some(ClaimPhase::Pending)), class, 1);
    }
    for address in index.addresses() {
        census.add_addresses(address.phase.or(Some(AddressPhase::Pending)), &address.class, 1);
    }
    census
}
