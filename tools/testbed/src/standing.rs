//! A control plane that is left running for a person to try things on, one for each user.
//!
//! Its state is a file in the cache folder: which processes, by pid and program, and where they keep
//! their data. Ending it ends those and no others: a pid that has become another program's is left alone.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{
    binaries::cache_folder,
    controlplane::{ControlPlane, Options},
    process::{Signal, signal},
};

/// How long processes may take to end by themselves.
const GRACE: Duration = Duration::from_secs(10);

/// What is running.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Standing {
    /// The API server's URL.
    pub url: String,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// Data and logs.
    pub folder: PathBuf,
    /// The processes, those that write first.
    pub processes: Vec<StandingProcess>,
}

/// One process of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StandingProcess {
    /// The program's name.
    pub name: String,
    /// Its process id.
    pub pid: u32,
}

impl StandingProcess {
    /// Whether the process runs, and still is that program with that folder.
    fn runs(&self, folder: &Path) -> bool {
        let command = command_line(self.pid).unwrap_or_default();
        command.contains(&self.name) && command.contains(&*folder.to_string_lossy())
    }
}

impl Standing {
    fn state_file() -> Result<PathBuf> {
        Ok(cache_folder()?.join("controlplane/running.json"))
    }

    /// The one that was started, while all of its processes run.
    ///
    /// # Errors
    /// When its state cannot be read.
    pub fn find() -> Result<Option<Self>> {
        let standing = Self::read()?;
        Ok(standing.filter(|s| s.processes.iter().all(|process| process.runs(&s.folder))))
    }

    fn read() -> Result<Option<Self>> {
        match std::fs::read(Self::state_file()?) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context("reading which control plane runs"),
        }
    }
}

/// Starts one, kube-controller-manager included if there is one, ending what is left of an earlier one.
///
/// # Errors
/// When it cannot be started.
pub async fn up() -> Result<Standing> {
    down()?;
    let folder = cache_folder()?.join("controlplane/running");
    let binaries = tokio::task::spawn_blocking(crate::binaries::find_or_build_saying_so).await??;
    let options = Options {
        controller_manager: binaries.manager.is_some(),
        folder: Some(folder.clone()),
        detached: true,
    };
    let controlplane = ControlPlane::start(options).await?;
    let mut processes: Vec<_> = controlplane
        .pids()
        .into_iter()
        .map(|(name, pid)| StandingProcess { name: name.to_owned(), pid })
        .collect();
    processes.reverse();
    let standing = Standing {
        url: controlplane.url(),
        kubeconfig: controlplane.admin_kubeconfig()?,
        folder,
        processes,
    };
    std::fs::write(Standing::state_file()?, serde_json::to_vec_pretty(&standing)?)?;
    Ok(standing)
}

/// Ends the one that was started, and removes its data. Whether there was one.
///
/// # Errors
/// When its state cannot be read or its data not removed.
pub fn down() -> Result<bool> {
    let Some(standing) = Standing::read()? else { return Ok(false) };
    let mut any = false;
    for process in &standing.processes {
        if process.runs(&standing.folder) {
            any = true;
            end(process, &standing.folder);
        }
    }
    std::fs::remove_file(Standing::state_file()?)?;
    if standing.folder.is_dir() {
        std::fs::remove_dir_all(&standing.folder).context("removing the control plane's data")?;
    }
    Ok(any)
}

fn end(process: &StandingProcess, folder: &Path) {
    signal(process.pid, Signal::Term);
    let begin = Instant::now();
    while process.runs(folder) {
        if begin.elapsed() > GRACE {
            signal(process.pid, Signal::Kill);
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The command line of a process, or nothing when there is none.
fn command_line(pid: u32) -> Option<String> {
    if let Ok(bytes) = std::fs::read(format!("/proc/{pid}/cmdline")) {
        return Some(String::from_utf8_lossy(&bytes).replace('\0', " "));
    }
    // Without /proc (macOS): the same from ps.
    let pid = pid.to_string();
    let output =
        std::process::Command::new("ps").args(["-o", "args=", "-p", &pid]).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
