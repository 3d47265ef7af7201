//! One replica: its proxy, and its processes, one after the other.
//!
//! It is what a kubelet is to a pod's container: it starts it, ends it, and starts again what ended
//! by itself, which is told as a finding.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use fastrand::Rng;
use tokio::sync::Mutex;

use super::{clock::ShiftedClock, findings::Findings};
use crate::{Controller, ControllerOptions, Proxy, wait::try_eventually};

/// How long a replica may go on after SIGTERM: its own budget, and a little.
const GRACE: Duration = Duration::from_secs(25);

/// How a replica's processes are started.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    pub(super) binary: PathBuf,
    pub(super) kubeconfig: PathBuf,
    pub(super) flags: Vec<String>,
}

/// A replica behind its proxy.
pub(super) struct Replica {
    pub(super) number: usize,
    pub(super) proxy: Arc<Proxy>,
    /// Held by whoever does something to the process.
    pub(super) process: Mutex<Process>,
}

/// The process of a replica, and those that were before it.
pub(super) struct Process {
    recipe: Recipe,
    clock: Option<Arc<ShiftedClock>>,
    rng: Rng,
    number: usize,
    generation: u32,
    identity: String,
    pod_uid: String,
    running: Option<Controller>,
    ended: Vec<Controller>,
}

impl Replica {
    pub(super) fn new(
        number: usize,
        proxy: Proxy,
        recipe: Recipe,
        clock: Option<Arc<ShiftedClock>>,
        rng: Rng,
    ) -> Self {
        let mut process = Process {
            recipe,
            clock,
            rng,
            number,
            generation: 0,
            identity: String::new(),
            pod_uid: String::new(),
            running: None,
            ended: Vec::new(),
        };
        process.renew();
        Self { number, proxy: Arc::new(proxy), process: Mutex::new(process) }
    }
}

impl Process {
    /// From now on another pod: another name, another uid.
    pub(super) fn renew(&mut self) {
        self.generation += 1;
        self.identity = format!("chaos-{}-{}", self.number, self.generation);
        let digits = format!("{:032x}", self.rng.u128(..));
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
        self.pod_uid = parts.join("-");
    }

    /// What it is called.
    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    /// Starts it, unless it runs.
    pub(super) fn start(&mut self) -> Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        let mut options = ControllerOptions::new(&self.recipe.binary, &self.recipe.kubeconfig)
            .arg(format!("--identity={}", self.identity))
            .env("POD_UID", &self.pod_uid);
        options.args.extend(self.recipe.flags.iter().cloned());
        options.env.extend(self.clock.iter().flat_map(|clock| clock.environment()));
        self.running = Some(Controller::start(&options).context("starting a replica")?);
        Ok(())
    }

    /// What runs, to be paused and resumed.
    pub(super) fn running(&self) -> Option<&Controller> {
        self.running.as_ref()
    }

    /// Ends it at once.
    pub(super) fn kill(&mut self) {
        if let Some(mut controller) = self.running.take() {
            controller.sigkill();
            self.ended.push(controller);
        }
    }

    /// SIGTERM, and waits for its end.
    pub(super) async fn terminate(&mut self, findings: &Findings) {
        let Some(mut controller) = self.running.take() else { return };
        crate::process::signal(controller.pid(), crate::process::Signal::Term);
        let ended =
            try_eventually(GRACE, "its end", || std::future::ready(controller.exit_status()));
        match ended.await {
            Ok(status) if status.success() => {}
            // Another signal or code than the program promises.
            Ok(status) if status.code() == Some(143) => {}
            Ok(status) => {
                findings.add(format!("{} ended with {status} after SIGTERM", self.identity));
            }
            Err(_) => {
                findings.add(format!("{} runs on, {GRACE:?} after SIGTERM", self.identity));
                controller.sigkill();
            }
        }
        self.ended.push(controller);
    }

    /// Starts it again if it ended by itself.
    pub(super) fn revive(&mut self, findings: &Findings) -> Result<()> {
        let status = self.running.as_mut().and_then(Controller::exit_status);
        let Some(status) = status else { return Ok(()) };
        if let Some(controller) = self.running.take() {
            let log = controller.log();
            let lines: Vec<_> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(10)..].join("\n    ");
            findings.add(format!("{} ended by itself ({status}):\n    {tail}", self.identity));
            self.ended.push(controller);
        }
        self.start()
    }

    /// Waits until it is ready.
    pub(super) async fn wait_ready(&mut self) -> Result<()> {
        let controller = self.running.as_mut().context("the replica does not run")?;
        controller.wait_ready().await
    }

    /// Keeps all logs, and says where they are.
    pub(super) fn keep_logs(&mut self) {
        for controller in self.ended.iter_mut().chain(&mut self.running) {
            controller.keep_log();
        }
    }
}
