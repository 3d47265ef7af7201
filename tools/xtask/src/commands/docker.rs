//! `cargo xtask docker-build` and `docker-push`: the image.

use anyhow::Result;

use crate::run::{finish, need, program};

/// Which image.
#[derive(clap::Args)]
pub struct Args {
    /// The image's name and tag.
    #[arg(long, env = "IMG", default_value = "address-controller:dev")]
    image: String,
}

/// Builds the image.
pub fn build(args: &Args) -> Result<()> {
    docker("to build the image")?;
    finish(&mut program("docker", &["build", "--tag", &args.image, "."]))
}

/// Pushes the image.
pub fn push(args: &Args) -> Result<()> {
    docker("to push the image")?;
    finish(&mut program("docker", &["push", &args.image]))
}

fn docker(what_for: &str) -> Result<()> {
    need("docker", &["--version"], what_for, "https://docs.docker.com/engine/install/")
}
