//! `cargo xtask controlplane`: a control plane to try things on.

use anyhow::Result;
use testbed::standing::{self, Standing};

use crate::report::controlplane_binaries;

/// What to do with it.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Builds etcd, kube-apiserver and kube-controller-manager, if they are not there.
    Build,
    /// Starts one and leaves it running; says which kubeconfig to use.
    Up,
    /// Ends the one that was started by `up`.
    Down,
}

/// Does it.
pub fn run(args: &Args) -> Result<()> {
    match args.what {
        What::Build => {
            let binaries = controlplane_binaries()?;
            let programs = [Some(binaries.etcd), Some(binaries.apiserver), binaries.manager];
            for path in programs.into_iter().flatten() {
                println!("{}", path.display());
            }
            Ok(())
        }
        What::Up => up(),
        What::Down => {
            if standing::down()? {
                println!("ended");
            } else {
                println!("none is running");
            }
            Ok(())
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn up() -> Result<()> {
    let standing = if let Some(standing) = Standing::find()? {
        println!("One is running already.");
        standing
    } else {
        controlplane_binaries()?;
        standing::up().await?
    };
    println!("The API server answers at {}.", standing.url);
    for process in &standing.processes {
        println!("  {} has pid {}", process.name, process.pid);
    }
    println!("Data and logs are in {}.", standing.folder.display());
    println!("To use it:\n\n  export KUBECONFIG={}\n", standing.kubeconfig.display());
    println!("`cargo xtask controlplane down` ends it.");
    Ok(())
}
