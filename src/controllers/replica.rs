//! This replica among others: its gates, and the tasks that keep its Leases.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::{
    leader::{self, Leadership},
    lease::LeaseClient,
    runtime::{Context, HealthPart, Task},
    shard::{self, Names, Roster, Shard},
    telemetry::Replicas,
    watch::{Problem, Standing},
    world::World,
};

/// What decides over the work of this replica, and what it waits for at its end.
pub(super) struct Replica {
    /// None: it runs alone, without Leases.
    roster: Option<Arc<Roster>>,
    pub shard: Shard,
    pub leadership: Leadership,
    /// The last pass over a claim has ended.
    pub claims_done: CancellationToken,
    /// The last pass over an address has ended.
    pub addresses_done: CancellationToken,
}

impl Replica {
    pub fn new(context: &Context) -> Self {
        let settings = &context.settings;
        let (claims_done, addresses_done) = (CancellationToken::new(), CancellationToken::new());
        if !settings.leader_elect {
            let (shard, leadership) = (Shard::alone(), Leadership::alone());
            return Self { roster: None, shard, leadership, claims_done, addresses_done };
        }
        let times = settings.lease_times();
        let process = format!("{:016x}", fastrand::u64(..));
        let names =
            Names::new(&settings.release, &settings.identity, &process, context.pod.clone());
        let api = LeaseClient::new(context.leases.clone(), &settings.namespace, times.attempt);
        let roster = Arc::new(Roster::new(names, times, context.clocks.leases.clone(), api));
        let shard = Shard::among_others(&roster.names.member(), roster.member.clone());
        let leadership = Leadership::among_others(roster.leader.clone(), roster.member.clone());
        Self { roster: Some(roster), shard, leadership, claims_done, addresses_done }
    }

    /// The tasks that keep the Leases, and what is shown of them.
    pub fn tasks(self, context: &Context, world: &Arc<World>) -> Vec<Task> {
        let (roster, shard, leadership) =
            (self.roster.clone(), self.shard.clone(), self.leadership.clone());
        context.debug.offer("shard", move || leader::page(roster.as_deref(), &shard, &leadership));
        self.measure(context);
        let Some(roster) = &self.roster else { return Vec::new() };
        let led = CancellationToken::new();
        vec![
            listening(context, roster),
            self.judging(context, roster, world),
            self.leading(context, roster, world, led.clone()),
            self.keeping(context, roster, world, led),
        ]
    }

    fn judging(&self, context: &Context, roster: &Arc<Roster>, world: &Arc<World>) -> Task {
        let judge = shard::judge(
            Arc::clone(roster),
            self.shard.clone(),
            Arc::clone(world),
            context.stop.clone(),
        );
        Task::new("judgement of members", async move {
            judge.await;
            Ok(())
        })
    }

    /// Leads until the last pass over an address has ended; `led` is cancelled then.
    fn leading(
        &self,
        context: &Context,
        roster: &Arc<Roster>,
        world: &Arc<World>,
        led: CancellationToken,
    ) -> Task {
        let done = self.addresses_done.clone();
        let leading =
            leader::lead(Arc::clone(roster), self.leadership.clone(), Arc::clone(world), done);
        let (world, stop) = (Arc::clone(world), context.stop.clone());
        Task::new("leadership", async move {
            if stop.run_until_cancelled(world.complete()).await.is_some() {
                leading.await;
            }
            led.cancel();
            Ok(())
        })
    }

    /// Is a member from when everything is known until nothing is done any more.
    fn keeping(
        &self,
        context: &Context,
        roster: &Arc<Roster>,
        world: &Arc<World>,
        led: CancellationToken,
    ) -> Task {
        let part = context.health.part("membership");
        part.not_ready("not a member yet");
        let done = CancellationToken::new();
        let keep = shard::keep(Arc::clone(roster), done.clone(), told(part));
        let claims_done = self.claims_done.clone();
        let (world, stop) = (Arc::clone(world), context.stop.clone());
        Task::new("membership", async move {
            if stop.run_until_cancelled(world.complete()).await.is_none() {
                return Ok(());
            }
            let ended = async {
                claims_done.cancelled().await;
                led.cancelled().await;
                done.cancel();
            };
            tokio::join!(keep, ended);
            Ok(())
        })
    }

    fn measure(&self, context: &Context) {
        let (roster, shard, leadership) =
            (self.roster.clone(), self.shard.clone(), self.leadership.clone());
        context.metrics.replicas_from(move || {
            let leads = leadership.is_held();
            match (&roster, shard.table()) {
                (Some(roster), Some(table)) => Replicas {
                    leads,
                    members: table.members().len(),
                    buckets: table.held_by(&roster.names.member()),
                    member_left: roster.member.left(),
                    leader_left: roster.leader.left(),
                },
                _ => Replicas { leads, ..Replicas::alone() },
            }
        });
    }
}

fn listening(context: &Context, roster: &Arc<Roster>) -> Task {
    let namespace = context.settings.namespace.clone();
    let part = context.health.part("watch of Leases");
    let standing = move |standing| match standing {
        Standing::Watching => part.set_ready(""),
        Standing::Failed(Problem::Gone) => {}
        Standing::Failed(problem) => {
            part.not_ready(format!("the watch of Leases is down ({})", problem.as_str()));
        }
    };
    let (roster, leases, stop) = (Arc::clone(roster), context.leases.clone(), context.stop.clone());
    Task::new("watch of leases", async move {
        shard::listen(roster, leases, namespace, stop, standing).await;
        Ok(())
    })
}

/// Says of each change of membership what it is, in the log and to readiness.
fn told(part: HealthPart) -> impl FnMut(Result<(), &str>) + Send {
    let mut last: Option<Result<(), String>> = None;
    move |standing| {
        let now = standing.map_err(str::to_owned);
        if last.as_ref() == Some(&now) {
            return;
        }
        match &now {
            Ok(()) => {
                tracing::info!("a member of this installation");
                part.set_ready("");
            }
            Err(why) => {
                tracing::warn!(why, "not a member of this installation, trying again");
                part.not_ready(format!("not a member of this installation: {why}"));
            }
        }
        last = Some(now);
    }
}
