//! How to talk to the control plane: clients and kubeconfigs.

use std::path::PathBuf;

use anyhow::{Context, Result};
use kube::{
    Client, Config,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};

use super::ControlPlane;

/// The bearer token of `admin`, who is in `system:masters`.
pub const ADMIN_TOKEN: &str = "admin-of-a-test-cluster";

/// The user agent of the clients that tests get from here.
pub const USER_AGENT: &str = "testbed";

impl ControlPlane {
    /// A client with all rights. Made anew each time: a client belongs to the runtime that made it.
    ///
    /// # Errors
    /// Outside a runtime.
    pub fn admin(&self) -> Result<Client> {
        self.client(ADMIN_TOKEN)
    }

    /// A client with a bearer token.
    ///
    /// # Errors
    /// Outside a runtime.
    pub fn client(&self, token: &str) -> Result<Client> {
        let mut config = self.config()?;
        config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
        Ok(Client::try_from(config)?)
    }

    /// As [`admin`](Self::admin), at another API server with the same certificate and tokens.
    ///
    /// # Errors
    /// Outside a runtime.
    pub(super) fn admin_at(&self, url: &str) -> Result<Client> {
        let mut config = self.config()?;
        config.cluster_url = url.parse()?;
        config.auth_info.token = Some(ADMIN_TOKEN.to_owned().into());
        Ok(Client::try_from(config)?)
    }

    /// The server's address and certificate, without credentials. Nothing is retried by itself.
    ///
    /// # Errors
    /// Before the server was ready for the first time.
    pub fn config(&self) -> Result<Config> {
        self.config.get().cloned().context("the API server has not written its certificate yet")
    }

    /// Learns the server's certificate, which it writes when it starts for the first time.
    pub(super) async fn learn_certificate(&self) -> Result<()> {
        let path = self.kubeconfig(ADMIN_TOKEN, None)?;
        let kubeconfig = Kubeconfig::read_from(&path)?;
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        config.auth_info = AuthInfo::default();
        config.default_retry = false;
        // The audit log tells callers apart by it.
        let agent = http::HeaderValue::from_static(USER_AGENT);
        config.headers.push((http::header::USER_AGENT, agent));
        let _ = self.config.set(config);
        Ok(())
    }

    /// The kubeconfig of [`admin`](Self::admin).
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn admin_kubeconfig(&self) -> Result<PathBuf> {
        self.kubeconfig(ADMIN_TOKEN, None)
    }

    /// Writes a kubeconfig for a bearer token, for this server or for what stands before it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn kubeconfig(&self, token: &str, server: Option<&str>) -> Result<PathBuf> {
        let own = self.url();
        let server = server.unwrap_or(&own);
        let mut cluster = serde_json::json!({ "server": server });
        if server.starts_with("https:") {
            let path = self.folder.join("certs/apiserver.crt");
            cluster["certificate-authority"] = path.to_string_lossy().into();
        }
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "test", "cluster": cluster }],
            "users": [{ "name": "user", "user": { "token": token } }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "user" } }],
            "current-context": "test",
        });
        let folder = self.folder.join("kubeconfigs");
        std::fs::create_dir_all(&folder)?;
        // The same caller and server, the same file.
        let path = folder.join(format!("{:016x}.yaml", fnv(&format!("{server} {token}"))));
        std::fs::write(&path, serde_yaml_ng::to_string(&kubeconfig)?)?;
        Ok(path)
    }
}

/// FNV-1a: a short name for a text.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
