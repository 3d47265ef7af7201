//! etcd, kube-apiserver and, if asked for, kube-controller-manager: started here, on loopback.
//!
//! Everything is thrown away with the value: data, certificates, logs. A test that fails keeps the
//! folder and says where it is.

mod access;
mod crds;
mod programs;
mod second;
mod service_account;

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

pub use access::{ADMIN_TOKEN, USER_AGENT};
pub use crds::install_crds;
pub use second::SecondApiServer;
pub use service_account::rule;

use anyhow::{Context, Result};
use parking_lot::Mutex;

use crate::{
    binaries::{Binaries, find_or_build_saying_so},
    ports::free_port,
    process::{Process, Signal},
    wait::try_eventually,
    watchdog,
};

/// How long the API server may take to be ready: 3 s where it was tried, much more on a busy machine.
const READY: Duration = Duration::from_mins(2);

/// What the API server says goes here.
const APISERVER_LOG: &str = "kube-apiserver.log";

/// How a control plane is started.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether kube-controller-manager runs: namespaces that terminate, garbage collection, Deployments.
    pub controller_manager: bool,
    /// A folder to keep everything in, in place of a temporary one that is removed.
    pub folder: Option<PathBuf>,
    /// Whether the processes outlive this value and this process.
    pub detached: bool,
}

/// A running control plane.
#[derive(Debug)]
pub struct ControlPlane {
    folder: PathBuf,
    temporary: Mutex<Option<tempfile::TempDir>>,
    binaries: Binaries,
    detached: bool,
    ports: Ports,
    config: OnceLock<kube::Config>,
    etcd: Mutex<Process>,
    apiserver: Mutex<Process>,
    manager: Mutex<Option<Process>>,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    etcd: u16,
    etcd_peer: u16,
    apiserver: u16,
}

impl ControlPlane {
    /// Builds the programs if need be, starts them, and waits until the API server is ready.
    ///
    /// # Errors
    /// When a program cannot be built or started, or is not ready in time.
    pub async fn start(options: Options) -> Result<Self> {
        let binaries = tokio::task::spawn_blocking(find_or_build_saying_so).await??;
        // A free port can be taken by another process before it is listened on: try with others.
        let mut attempts = 0;
        loop {
            attempts += 1;
            match Self::try_start(&options, &binaries).await {
                Err(error) if attempts < 3 && format!("{error:#}").contains("in use") => {}
                result => break result,
            }
        }
    }

    async fn try_start(options: &Options, binaries: &Binaries) -> Result<Self> {
        let temporary = match options.folder {
            Some(_) => None,
            None => Some(tempfile::Builder::new().prefix("controlplane-").tempdir()?),
        };
        let folder = match (&options.folder, &temporary) {
            (Some(folder), _) => folder.clone(),
            (None, Some(temporary)) => temporary.path().to_owned(),
            (None, None) => unreachable!("a folder is either given or temporary"),
        };
        if temporary.is_some() {
            watchdog::remove_with_us(&folder);
        }
        std::fs::create_dir_all(&folder)?;
        programs::write_files(&folder)?;
        let ports = Ports { etcd: free_port(), etcd_peer: free_port(), apiserver: free_port() };
        let guarded = !options.detached;
        let etcd = programs::etcd(binaries, &folder, ports, guarded)?;
        let apiserver = programs::apiserver(binaries, &folder, ports, guarded, APISERVER_LOG)?;
        let this = Self {
            folder,
            temporary: Mutex::new(temporary),
            binaries: binaries.clone(),
            detached: options.detached,
            ports,
            config: OnceLock::new(),
            etcd: Mutex::new(etcd),
            apiserver: Mutex::new(apiserver),
            manager: Mutex::new(None),
        };
        this.wait_ready().await?;
        if options.controller_manager {
            let kubeconfig = this.kubeconfig(access::ADMIN_TOKEN, None)?;
            let manager = programs::manager(&this.binaries, &this.folder, &kubeconfig, guarded)?;
            *this.manager.lock() = Some(manager);
        }
        Ok(this)
    }

    async fn wait_ready(&self) -> Result<()> {
        // A program that has ended will not be ready however long one waits: the inner result.
        try_eventually(READY, "the API server to be ready", || async {
            if let Err(error) = self.check_runs() {
                return Ok(Err(error));
            }
            if self.config.get().is_none() {
                self.learn_certificate().await?;
            }
            let request = http::Request::get("/readyz").body(Vec::new())?;
            self.admin()?.request_text(request).await?;
            anyhow::Ok(Ok(()))
        })
        .await?
    }

    /// Whether etcd and the API server run.
    ///
    /// # Errors
    /// Names the one that has ended, with the end of its log.
    pub fn check_runs(&self) -> Result<()> {
        self.etcd.lock().check_runs()?;
        self.apiserver.lock().check_runs()
    }

    /// The API server's URL.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.apiserver)
    }

    /// etcd's client URL, plain HTTP.
    pub fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.etcd)
    }

    /// The port of [`etcd_url`](Self::etcd_url).
    pub fn etcd_port(&self) -> u16 {
        self.ports.etcd
    }

    /// The API server's audit log: one JSON event a line, complete before a request is answered.
    pub fn audit_log(&self) -> PathBuf {
        self.folder.join("audit.log")
    }

    /// Where logs, data and kubeconfigs are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The processes, by program and pid.
    pub fn pids(&self) -> Vec<(&'static str, u32)> {
        let mut pids =
            vec![("etcd", self.etcd.lock().pid()), ("kube-apiserver", self.apiserver.lock().pid())];
        pids.extend(self.manager.lock().as_ref().map(|m| ("kube-controller-manager", m.pid())));
        pids
    }

    /// Ends the API server at once, as a crash does. Clients meet a closed port.
    pub fn stop_apiserver(&self) {
        self.apiserver.lock().kill();
    }

    /// Starts the API server again on the same port, after ending it if it runs, and waits until it is ready.
    ///
    /// # Errors
    /// When it cannot be started or is not ready in time.
    pub async fn restart_apiserver(&self) -> Result<()> {
        self.stop_apiserver();
        *self.apiserver.lock() = programs::apiserver(
            &self.binaries,
            &self.folder,
            self.ports,
            !self.detached,
            APISERVER_LOG,
        )
        .context("starting the API server again")?;
        self.wait_ready().await
    }

    /// Pauses the API server: connections stay open and nothing is answered.
    pub fn pause_apiserver(&self) {
        self.apiserver.lock().signal(Signal::Stop);
    }

    /// Lets the API server go on.
    pub fn resume_apiserver(&self) {
        self.apiserver.lock().signal(Signal::Cont);
    }

    /// Pauses etcd: the API server answers what its caches know, and nothing else.
    pub fn pause_etcd(&self) {
        self.etcd.lock().signal(Signal::Stop);
    }

    /// Lets etcd go on.
    pub fn resume_etcd(&self) {
        self.etcd.lock().signal(Signal::Cont);
    }

    /// Keeps the folder with the logs, whatever happens, and says where it is.
    pub fn keep_logs(&self) {
        if let Some(temporary) = self.temporary.lock().take() {
            watchdog::keep(&self.folder);
            let _ = temporary.keep();
        }
        eprintln!("The control plane's logs are in {}", self.folder.display());
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if self.detached {
            return;
        }
        if std::thread::panicking() {
            self.keep_logs();
        }
        // Those that write first, the store last. Nothing in it is worth an orderly end.
        if let Some(manager) = self.manager.lock().as_mut() {
            manager.kill();
        }
        self.apiserver.lock().kill();
        self.etcd.lock().kill();
    }
}
