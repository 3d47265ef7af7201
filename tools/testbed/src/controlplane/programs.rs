//! The command lines of the three programs, and the files they need.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result};

use super::{Ports, access::ADMIN_TOKEN};
use crate::{binaries::Binaries, process::Process};

const SIGNING_KEY: &str = include_str!("../../data/service-account-test-only.key");
const PUBLIC_KEY: &str = include_str!("../../data/service-account-test-only.pub");
const AUDIT_POLICY: &str = include_str!("../../data/audit-policy.yaml");

/// The issuer of service account tokens.
pub(super) const ISSUER: &str = "https://kubernetes.default.svc";

pub(super) fn write_files(folder: &Path) -> Result<()> {
    // The note above the key is for people; Go's parser skips it, openssl's too.
    fs::write(folder.join("sa.key"), SIGNING_KEY)?;
    fs::write(folder.join("sa.pub"), PUBLIC_KEY)?;
    fs::write(folder.join("audit-policy.yaml"), AUDIT_POLICY)?;
    let tokens = format!("{ADMIN_TOKEN},admin,admin,\"system:masters\"\n");
    fs::write(folder.join("tokens.csv"), tokens)?;
    Ok(())
}

pub(super) fn etcd(
    binaries: &Binaries,
    folder: &Path,
    ports: Ports,
    guarded: bool,
) -> Result<Process> {
    let client = format!("http://127.0.0.1:{}", ports.etcd);
    let peer = format!("http://127.0.0.1:{}", ports.etcd_peer);
    let mut command = Command::new(&binaries.etcd);
    command
        .arg("--data-dir")
        .arg(folder.join("etcd"))
        .args([
            "--name",
            "test",
            "--listen-client-urls",
            &client,
            "--advertise-client-urls",
            &client,
        ])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("test={peer}")])
        // Nothing here survives the machine anyway, and tests write a lot.
        .arg("--unsafe-no-fsync")
        // The whole history from revision 1 is what tests check.
        .args(["--auto-compaction-retention", "0"])
        .args(["--quota-backend-bytes", "8589934592", "--log-level", "warn"]);
    Process::spawn(&mut command, &folder.join("etcd.log"), guarded)
}

pub(super) fn apiserver(
    binaries: &Binaries,
    folder: &Path,
    ports: Ports,
    guarded: bool,
    log: &str,
) -> Result<Process> {
    let file = |flag: &str, name: &str| format!("--{flag}={}", folder.join(name).display());
    let mut command = Command::new(&binaries.apiserver);
    command
        .arg(format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd))
        // The server would compact etcd every five minutes, and with it the history.
        .arg("--etcd-compaction-interval=0")
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
        .arg(format!("--secure-port={}", ports.apiserver))
        .arg(file("cert-dir", "certs"))
        .arg("--service-cluster-ip-range=10.0.0.0/24")
        .arg("--endpoint-reconciler-type=none")
        .arg(format!("--service-account-issuer={ISSUER}"))
        .arg(file("service-account-key-file", "sa.pub"))
        .arg(file("service-account-signing-key-file", "sa.key"))
        .arg(file("token-auth-file", "tokens.csv"))
        .arg("--authorization-mode=RBAC")
        .arg(file("audit-policy-file", "audit-policy.yaml"))
        .arg(file("audit-log-path", "audit.log"))
        .args(["--audit-log-mode=blocking-strict", "--audit-log-maxsize=100000"])
        .arg("--allow-privileged=true");
    Process::spawn(&mut command, &folder.join(log), guarded)
}

pub(super) fn manager(
    binaries: &Binaries,
    folder: &Path,
    kubeconfig: &Path,
    guarded: bool,
) -> Result<Process> {
    let program = binaries
        .manager
        .as_ref()
        .context("this test needs kube-controller-manager, and KUBEBUILDER_ASSETS has none")?;
    let file = |flag: &str, name: &str| format!("--{flag}={}", folder.join(name).display());
    let mut command = Command::new(program);
    command
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(file("service-account-private-key-file", "sa.key"))
        .arg(file("root-ca-file", "certs/apiserver.crt"))
        .arg(file("cert-dir", "manager-certs"))
        .args(["--leader-elect=false", "--bind-address=127.0.0.1"])
        .arg(format!("--secure-port={}", crate::ports::free_port()));
    Process::spawn(&mut command, &folder.join("kube-controller-manager.log"), guarded)
}
