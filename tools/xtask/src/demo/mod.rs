//! `cargo xtask demo`: what the controller does, shown on a control plane of its own.
//!
//! It tells a story in steps ([`story`]) on a stage that it builds first ([`stage`]), with a driver
//! of its own ([`driver`]), and checks each step: what does not come true ends it with exit code 1.

mod driver;
mod replicas;
mod stage;
mod story;
mod table;
mod voice;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use tokio::signal::unix::{SignalKind, signal};

use self::stage::Stage;
use crate::report::minutes;

/// How often it is looked whether everything still runs.
const LOOK: Duration = Duration::from_millis(500);

/// How to end.
#[derive(clap::Args)]
pub struct Args {
    /// End after the last step in place of staying for you to try.
    #[arg(long)]
    once: bool,
    /// After the story, kill the replica that leads, and show how long it takes until another has
    /// taken over.
    #[arg(long)]
    kill_leader: bool,
}

/// Builds what is needed, and shows it.
///
/// # Errors
/// When something cannot be built or started, or a step does not come true.
pub fn run(args: &Args) -> Result<()> {
    let begin = Instant::now();
    let binary = stage::build_all()?;
    play(args, &binary, begin)
}

#[tokio::main]
async fn play(args: &Args, binary: &Path, begin: Instant) -> Result<()> {
    let mut stop = std::pin::pin!(told_to_stop()?);
    let mut stage = tokio::select! {
        stage = Stage::set(binary) => stage?,
        () = &mut stop => return Ok(()),
    };
    // The driver serves the story, and whoever tries by hand afterwards.
    let driver = driver::run(stage.driver()?);
    let played = tokio::select! {
        played = show(args, &mut stage, begin) => played,
        () = driver => Err(anyhow!("the demo's driver has ended")),
        () = &mut stop => {
            println!("\nEnding what was started.");
            Ok(())
        }
    };
    if let Err(error) = played {
        stage.keep_logs();
        return Err(error);
    }
    stage.end()
}

/// Tells the story, and unless it is for once, stays for as long as everything runs.
async fn show(args: &Args, stage: &mut Stage, begin: Instant) -> Result<()> {
    story::tell(stage.client()?).await?;
    if args.kill_leader {
        voice::step("8. The replica that leads is killed; another does its work.");
        let client = stage.client()?;
        stage.replicas.kill_leader(&client).await?;
    }
    println!("\nAll of it came true, {} after the start.", minutes(begin.elapsed()));
    if args.once {
        return Ok(());
    }
    println!("{}", stage.how_to_try()?);
    loop {
        tokio::time::sleep(LOOK).await;
        stage.check_runs()?;
    }
}

/// Comes true with Ctrl-C, and with SIGTERM.
fn told_to_stop() -> Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
