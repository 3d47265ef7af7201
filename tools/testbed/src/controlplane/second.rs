//! A second API server over the same etcd.
//!
//! It has the first one's certificate, keys and tokens, and writes to the same audit log (each line
//! is one write to a file opened for appending). Reached through a [`crate::freezer::Freezer`], it
//! can be made to live in the past.

use anyhow::Result;
use parking_lot::Mutex;

use super::{ControlPlane, Ports, READY, programs};
use crate::{ports::free_port, process::Process, wait::try_eventually};

/// A second API server. Ended when dropped.
#[derive(Debug)]
pub struct SecondApiServer {
    url: String,
    process: Mutex<Process>,
}

impl SecondApiServer {
    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether it runs.
    ///
    /// # Errors
    /// When it has ended, with the end of its log.
    pub fn check_runs(&self) -> Result<()> {
        self.process.lock().check_runs()
    }
}

impl ControlPlane {
    /// Starts a second API server that finds etcd on this port, and waits until it is ready.
    ///
    /// # Errors
    /// When it cannot be started or is not ready in time.
    pub async fn second_apiserver(&self, etcd: u16) -> Result<SecondApiServer> {
        let ports = Ports { etcd, apiserver: free_port(), ..self.ports };
        let log = "kube-apiserver-2.log";
        let process =
            programs::apiserver(&self.binaries, &self.folder, ports, !self.detached, log)?;
        let url = format!("https://127.0.0.1:{}", ports.apiserver);
        let second = SecondApiServer { url, process: Mutex::new(process) };
        try_eventually(READY, "the second API server to be ready", || async {
            if let Err(error) = second.check_runs() {
                return Ok(Err(error));
            }
            let request = http::Request::get("/readyz").body(Vec::new())?;
            self.admin_at(second.url())?.request_text(request).await?;
            anyhow::Ok(Ok(()))
        })
        .await??;
        Ok(second)
    }
}
