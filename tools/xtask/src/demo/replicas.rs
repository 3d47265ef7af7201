//! The replicas of the demo: who there is, who leads, and what becomes of their work when one ends.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use address_controller::api::{AddressPhase, IPAddress};
use anyhow::{Context, Result, ensure};
use kube::{Api, Client, api::PostParams};
use serde_json::Value;
use testbed::{Controller, ControllerOptions, make};

use super::{stage::NAMESPACE, table::aligned, voice::expect};

/// How many there are.
const COUNT: usize = 3;

/// How long one may take to end its work.
const GRACE: Duration = Duration::from_secs(10);

/// One of them.
struct Replica {
    identity: String,
    controller: Controller,
}

/// Those that run.
pub struct Replicas(Vec<Replica>);

impl Replicas {
    /// Starts them, and waits until all are ready.
    ///
    /// # Errors
    /// When one does not become ready in time.
    pub async fn start(binary: &Path, kubeconfig: PathBuf) -> Result<Self> {
        let mut replicas = Vec::new();
        for number in 0..COUNT {
            let identity = format!("demo-{number}");
            let options = ControllerOptions::new(binary, &kubeconfig)
                .arg("--leader-elect=true")
                .arg(format!("--identity={identity}"))
                .arg(format!("--namespace={NAMESPACE}"));
            replicas.push(Replica { identity, controller: Controller::start(&options)? });
        }
        for replica in &mut replicas {
            replica.controller.wait_ready().await?;
        }
        Ok(Self(replicas))
    }

    /// Waits until all agree on who there is, and shows who holds what.
    ///
    /// # Errors
    /// When they do not agree in time.
    pub async fn show(&self) -> Result<()> {
        let what = format!("{} replicas know each other, and one leads", self.0.len());
        let shard = expect(&what, || self.agreed()).await?;
        let leader = shard["leader"].as_str().unwrap_or_default();
        let mut rows = vec![["REPLICA", "BUCKETS", "LEADS"].map(str::to_owned).to_vec()];
        for member in shard["members"].as_array().into_iter().flatten() {
            let name = member["name"].as_str().unwrap_or_default();
            // The holder is the replica's name and what tells the process from others.
            let leads = leader.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'));
            let leads = if leads { "yes" } else { "" };
            rows.push(vec![
                name.to_owned(),
                format!("{} of 256", member["buckets"]),
                leads.to_owned(),
            ]);
        }
        println!(
            "\n  from {}, as a table:",
            self.0[0].controller.metrics_url().replace("/metrics", "/debug/shard")
        );
        aligned(&rows).lines().for_each(|line| println!("  {line}"));
        Ok(())
    }

    /// What the first says, once all say that there are as many members as run, and one leads.
    async fn agreed(&self) -> Result<Value> {
        let mut leading = 0;
        for replica in &self.0 {
            let shard = replica.controller.debug("shard").await?;
            let members = shard["members"].as_array().map_or(0, Vec::len);
            ensure!(members == self.0.len(), "{} knows {members}", replica.identity);
            leading += usize::from(shard["leads"] == true);
        }
        ensure!(leading == 1, "{leading} lead");
        let shard = self.0[0].controller.debug("shard").await?;
        ensure!(shard["leader"].is_string(), "{} has not heard who", self.0[0].identity);
        Ok(shard)
    }

    async fn leader(&self) -> Result<Option<usize>> {
        for (place, replica) in self.0.iter().enumerate() {
            if replica.controller.debug("shard").await?["leads"] == true {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Kills the one that leads, and shows how long it takes until its work is done by another.
    ///
    /// # Errors
    /// When nobody leads, or nobody follows in time.
    pub async fn kill_leader(&mut self, client: &Client) -> Result<()> {
        let place = self.leader().await?.context("nobody leads")?;
        let mut killed = self.0.remove(place);
        killed.controller.sigkill();
        let begin = Instant::now();
        println!("  {} is killed (SIGKILL)", killed.identity);
        let addresses = Api::<IPAddress>::all(client.clone());
        let address = make::address("after-the-kill", "public", "203.0.113.99");
        addresses.create(&PostParams::default(), &address).await?;
        expect("another leads", || async { self.leader().await?.context("nobody leads") }).await?;
        expect("an address that was made meanwhile is Available", || async {
            let status = addresses.get("after-the-kill").await?.status.unwrap_or_default();
            ensure!(status.phase == Some(AddressPhase::Available), "{:?}", status.phase);
            anyhow::Ok(())
        })
        .await?;
        println!("  taken over {:.1} s after the kill", begin.elapsed().as_secs_f64());
        self.show().await
    }

    /// Whether all of them still run.
    ///
    /// # Errors
    /// Names one that has ended.
    pub fn check_runs(&mut self) -> Result<()> {
        for replica in &mut self.0 {
            if let Some(status) = replica.controller.exit_status() {
                anyhow::bail!("replica {} has ended ({status})", replica.identity);
            }
        }
        Ok(())
    }

    /// Where to look at them: a line for each, by the first of which the others are to be read.
    pub fn where_to_look(&self) -> String {
        let line = |replica: &Replica| {
            let (identity, controller) = (&replica.identity, &replica.controller);
            format!(
                "  {identity}\n    metrics    curl {}\n    readiness  curl {}\n    log        {}\n",
                controller.metrics_url(),
                controller.probe_url("/readyz"),
                controller.log_path().display(),
            )
        };
        self.0.iter().map(line).collect()
    }

    /// Keeps their logs, and says where they are.
    pub fn keep_logs(&mut self) {
        self.0.iter_mut().for_each(|replica| replica.controller.keep_log());
    }

    /// Ends them in their own way.
    ///
    /// # Errors
    /// When one does not end in time, or not with success.
    pub fn end(mut self) -> Result<()> {
        self.0.iter().for_each(|replica| replica.controller.ask_to_stop());
        for replica in &mut self.0 {
            let (identity, controller) = (&replica.identity, &mut replica.controller);
            let status = controller.wait(GRACE)?;
            ensure!(status.success(), "{identity} ended with {status}:\n{}", controller.log());
        }
        Ok(())
    }
}
