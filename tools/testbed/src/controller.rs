//! The real binary as a process, as a Deployment would run it.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::Duration,
};

use anyhow::{Context, Result};

use crate::{
    http,
    ports::free_port,
    process::{Process, Signal},
    wait::try_eventually,
};

/// How long the controller may take to be ready.
const READY: Duration = Duration::from_secs(30);

/// How the controller is started.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// The program: `env!("CARGO_BIN_EXE_address-controller")` in an integration test.
    pub binary: PathBuf,
    /// Who it is and which server it talks to; see [`crate::ControlPlane::kubeconfig`].
    pub kubeconfig: PathBuf,
    /// Arguments after those that this module gives.
    pub args: Vec<String>,
    /// Environment variables.
    pub env: Vec<(String, String)>,
}

impl ControllerOptions {
    /// The program and its kubeconfig, with nothing else set.
    pub fn new(binary: impl Into<PathBuf>, kubeconfig: impl Into<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
            kubeconfig: kubeconfig.into(),
            args: Vec::new(),
            env: Vec::new(),
        }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// One more environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }
}

/// A running controller. Killed when dropped; its log is shown when a test fails.
#[derive(Debug)]
pub struct Controller {
    process: Process,
    probe: u16,
    metrics: u16,
    folder: Option<tempfile::TempDir>,
}

impl Controller {
    /// Starts the controller and does not wait for anything.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(options: &ControllerOptions) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("controller-").tempdir()?;
        crate::watchdog::remove_with_us(folder.path());
        let (probe, metrics) = (free_port(), free_port());
        let mut command = Command::new(&options.binary);
        command
            .arg("--kubeconfig")
            .arg(&options.kubeconfig)
            .arg(format!("--health-probe-bind-address=127.0.0.1:{probe}"))
            .arg(format!("--metrics-bind-address=127.0.0.1:{metrics}"))
            .args(&options.args)
            // What the machine's user has set up for their own clusters is none of a test's business.
            .env_remove("KUBECONFIG")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env("RUST_BACKTRACE", "1")
            .envs(options.env.iter().map(|(name, value)| (name, value)));
        let process = Process::spawn(&mut command, &folder.path().join("controller.log"), true)?;
        Ok(Self { process, probe, metrics, folder: Some(folder) })
    }

    /// Starts the controller and waits until `/readyz` says yes.
    ///
    /// # Errors
    /// When it cannot be started, ends by itself, or is not ready in time.
    pub async fn start_ready(options: &ControllerOptions) -> Result<Self> {
        let mut this = Self::start(options)?;
        this.wait_ready().await?;
        Ok(this)
    }

    /// Waits until `/readyz` says yes.
    ///
    /// # Errors
    /// When the controller ends by itself, or is not ready in time; with the end of its log.
    pub async fn wait_ready(&mut self) -> Result<()> {
        let url = self.probe_url("/readyz");
        let process = parking_lot::Mutex::new(&mut self.process);
        let ready = try_eventually(READY, "the controller to be ready", || async {
            if let Err(error) = process.lock().check_runs() {
                return Ok(Err(error));
            }
            let (status, text) = http::get(&url).await?;
            anyhow::ensure!(status == 200, "{status} {text}");
            anyhow::Ok(Ok(()))
        });
        let ready = ready.await;
        ready.with_context(|| format!("its log ends:\n{}", self.process.log_tail()))?
    }

    /// The status and text of a path on the probes' port, such as `/livez`.
    ///
    /// # Errors
    /// When nobody answers.
    pub async fn probe(&self, path: &str) -> Result<(u16, String)> {
        http::get(&self.probe_url(path)).await
    }

    /// The URL of a path on the probes' port.
    pub fn probe_url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.probe)
    }

    /// The URL of `/metrics`.
    pub fn metrics_url(&self) -> String {
        format!("http://127.0.0.1:{}/metrics", self.metrics)
    }

    /// The text of `/metrics`.
    ///
    /// # Errors
    /// When nobody answers, or not with 200.
    pub async fn metrics(&self) -> Result<String> {
        let (status, text) = http::get(&self.metrics_url()).await?;
        anyhow::ensure!(status == 200, "/metrics answers {status}: {text}");
        Ok(text)
    }

    /// A page under `/debug`, such as `shard`, which must be JSON.
    ///
    /// # Errors
    /// When nobody answers, or not with such a page.
    pub async fn debug(&self, page: &str) -> Result<serde_json::Value> {
        let url = format!("http://127.0.0.1:{}/debug/{page}", self.metrics);
        let (status, text) = http::get(&url).await?;
        anyhow::ensure!(status == 200, "/debug/{page} answers {status}: {text}");
        Ok(serde_json::from_str(&text)?)
    }

    /// The sum of the samples of one metric whose labels contain all of `labels` (as in `kind="IPAddress"`).
    /// Nothing when there is no such sample.
    ///
    /// # Errors
    /// When `/metrics` does not answer.
    pub async fn metric(&self, name: &str, labels: &[&str]) -> Result<Option<f64>> {
        Ok(sum_of_samples(&self.metrics().await?, name, labels))
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Sends SIGTERM and waits until the controller has ended by itself.
    ///
    /// # Errors
    /// When it runs on after `bound`.
    pub fn sigterm(&mut self, bound: Duration) -> Result<ExitStatus> {
        self.ask_to_stop();
        self.wait(bound)
    }

    /// Waits until the controller has ended by itself, as it was asked to.
    ///
    /// # Errors
    /// When it runs on after `bound`.
    pub fn wait(&mut self, bound: Duration) -> Result<ExitStatus> {
        let ended = self.process.wait(bound);
        ended.with_context(|| format!("the controller runs on, {bound:?} after SIGTERM"))
    }

    /// Sends SIGTERM and waits for nothing.
    pub fn ask_to_stop(&self) {
        self.process.signal(Signal::Term);
    }

    /// Ends the controller at once, as a crash does, and waits until it is gone.
    pub fn sigkill(&mut self) {
        self.process.kill();
    }

    /// Pauses the controller.
    pub fn sigstop(&self) {
        self.process.signal(Signal::Stop);
    }

    /// Lets it go on.
    pub fn sigcont(&self) {
        self.process.signal(Signal::Cont);
    }

    /// How it ended, or nothing while it runs.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.process.exit_status()
    }

    /// Everything it has logged.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Keeps the log when this value is dropped, and says where it is.
    pub fn keep_log(&mut self) {
        if let Some(folder) = self.folder.take() {
            crate::watchdog::keep(folder.path());
            let _ = folder.keep();
        }
        eprintln!("The controller's log is {}", self.process.log_path().display());
    }

    /// The file that it logs to.
    pub fn log_path(&self) -> &Path {
        self.process.log_path()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.keep_log();
        }
    }
}

fn sum_of_samples(text: &str, name: &str, labels: &[&str]) -> Option<f64> {
    text.lines()
        .filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let (metric, given) = series.split_once('{').unwrap_or((series, ""));
            let is_it = metric == name && labels.iter().all(|label| given.contains(label));
            is_it.then(|| value.parse::<f64>().ok()).flatten()
        })
        .reduce(|sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_by_name_and_labels() {
        let text = "# HELP writes Writes\nwrites_total{kind=\"A\",verb=\"patch\"} 2\nwrites_total{kind=\"A\",verb=\"delete\"} 3\nwrites_total{kind=\"B\",verb=\"patch\"} 5\nup 1\n";
        assert_eq!(sum_of_samples(text, "writes_total", &[]), Some(10.0));
        assert_eq!(sum_of_samples(text, "writes_total", &["kind=\"A\""]), Some(5.0));
        assert_eq!(sum_of_samples(text, "up", &[]), Some(1.0));
        assert_eq!(sum_of_samples(text, "writes", &[]), None);
    }
}
