//! What two candidates for one Lease are told: by kube-leader-election, and by our own module.
//!
//! On a real API server. What is counted are candidates that believe that they lead, not what the
//! Lease says. Exit code 1 when ours do what they must not; what the crate does is only told.

mod candidate;
mod rows;

use anyhow::{Result, ensure};
use candidate::{Ours, Theirs};
use testbed::{ControlPlane, Options};

/// How often two race.
const TIMES: usize = 200;

#[tokio::main]
async fn main() -> Result<()> {
    let controlplane = ControlPlane::start(Options::default()).await?;
    let stage = rows::Stage::set(&controlplane).await?;
    println!(
        "{TIMES} times: two read one expired Lease, and then both write. How often both lead:"
    );
    let theirs = stage.race::<Theirs, Theirs>(TIMES).await?;
    println!("  two of kube-leader-election:      {theirs}");
    let ours = stage.race::<Ours, Ours>(TIMES).await?;
    println!("  two of ours:                      {ours}");
    let mixed = stage.race::<Ours, Theirs>(TIMES).await?;
    println!("  one of each, ours writes first:   {mixed}");
    let mixed_after = stage.race::<Theirs, Ours>(TIMES).await?;
    println!("  one of each, ours writes second:  {mixed_after}");

    println!("{:57}kube-leader-election  ours", "");
    // Ours, when it wrote first, is told as soon as it asks.
    let wrong = [ours.at_once, ours.asked_again, mixed.asked_again, mixed_after.at_once];
    let mut right = wrong.iter().all(|&times| times == 0) && mixed_after.asked_again == 0;
    let row = |what: &str, theirs: bool, ours: bool| {
        let word = |yes: bool| if yes { "yes" } else { "no" };
        println!("{what:57}{:22}{}", word(theirs), word(ours));
    };
    let stalled = "a holder that stalled is told that it leads after all";
    let (theirs, ours) = (stage.stalled::<Theirs>().await?, stage.stalled::<Ours>().await?);
    row(stalled, theirs, ours);
    right &= !ours;
    let late = "a late step-down clears the one that followed";
    let (theirs, ours) = (stage.late::<Theirs>().await?, stage.late::<Ours>().await?);
    row(late, theirs, ours);
    right &= !ours;
    for free in &rows::FREE {
        let (theirs, ours) = (stage.free::<Theirs>(free).await?, stage.free::<Ours>(free).await?);
        row(free.what, theirs == Ok(true), ours == Ok(true));
        if let Err(error) = theirs {
            println!("  kube-leader-election: {error}");
        }
        right &= ours == Ok(true);
    }
    ensure!(right, "ours did what it must not");
    Ok(())
}
