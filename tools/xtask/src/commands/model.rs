//! `cargo xtask model`: the binding protocol in one large world, to the end; see `docs/testing.md`.

use anyhow::Result;

use crate::run::{cargo, finish};

/// Which world, and how often others do what in it.
#[derive(clap::Args)]
pub struct Args {
    /// One claim for both families, two IPv4 addresses and an IPv6 address, in place of two claims
    /// and two addresses.
    #[arg(long)]
    dual: bool,
    /// Another claim takes a free address, or an administrator clears a claimRef.
    #[arg(long, default_value_t = 0)]
    others: u8,
    /// A claim or an address is deleted.
    #[arg(long, default_value_t = 1)]
    deletions: u8,
    /// A claim is created again under its name.
    #[arg(long, default_value_t = 0)]
    creations: u8,
    /// A tenant pins a claim to an address.
    #[arg(long, default_value_t = 0)]
    edits: u8,
    /// A process ends in the middle of a pass, or an answer is lost.
    #[arg(long, default_value_t = 1)]
    crashes: u8,
    /// A driver makes an address for a claim, or enters or leaves Conflict or Lost.
    #[arg(long, default_value_t = 0)]
    drivers: u8,
}

/// Builds the model with optimisation and explores it.
///
/// # Errors
/// When it cannot be built, or a rule is broken.
pub fn run(args: &Args) -> Result<()> {
    let Args { dual, others, deletions, creations, edits, crashes, drivers } = args;
    let budget = format!(
        "others={others},deletions={deletions},creations={creations},edits={edits},\
         crashes={crashes},drivers={drivers}"
    );
    println!("Building it with optimisation: some minutes on two cores the first time.");
    let name = if *dual {
        "a_claim_for_both_families_and_what_others_do"
    } else {
        "two_claims_two_addresses_and_what_others_do"
    };
    let test = &format!("binder::tests::protocol::large::{name}");
    let mut command = cargo(&["test", "--quiet", "--profile", "model", "--lib"]);
    command.args(["--package", "address-controller", "--", "--exact", test]);
    command.args(["--ignored", "--nocapture"]);
    finish(command.env("MODEL_BUDGET", budget))
}
