//! How the demo speaks: steps, tables under the command that shows the same, and what was seen.

use std::{
    io::{IsTerminal, stdout},
    time::{Duration, Instant},
};

use anyhow::Result;
use kube::Client;
use testbed::wait::{Look, try_eventually};

use super::table;

/// How long a step may take to come true. It takes milliseconds; a busy machine may be slow.
const BOUND: Duration = Duration::from_secs(20);

/// What `kubectl get` is asked for, and where the API server has it.
#[derive(Clone, Copy)]
pub enum Listing {
    /// The classes.
    Classes,
    /// The addresses.
    Addresses,
    /// The claims of the demo's tenant.
    Claims,
}

impl Listing {
    fn command(self) -> &'static str {
        match self {
            Self::Classes => "kubectl get ipaddressclasses",
            Self::Addresses => "kubectl get ipaddresses.local.sdn.cozystack.io",
            Self::Claims => "kubectl get ipaddressclaims -n team-a",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Classes => "/apis/local.sdn.cozystack.io/v1alpha1/ipaddressclasses",
            Self::Addresses => "/apis/local.sdn.cozystack.io/v1alpha1/ipaddresses",
            Self::Claims => {
                "/apis/local.sdn.cozystack.io/v1alpha1/namespaces/team-a/ipaddressclaims"
            }
        }
    }
}

/// Begins a step.
pub fn step(text: &str) {
    println!("\n{}", styled("1", text));
}

/// Waits until something has come true, and says so with the time that it took.
///
/// # Errors
/// When it does not come true: what was expected, and what was seen.
pub async fn expect<L, F, Fut>(what: &str, look: F) -> Result<L::Value>
where
    L: Look,
    F: FnMut() -> Fut,
    Fut: Future<Output = L>,
{
    let begin = Instant::now();
    let seen = try_eventually(BOUND, what, look).await;
    let value = seen.inspect_err(|_| println!("  {} {what}", styled("31", "✗")))?;
    println!("  {} {what} ({} ms)", styled("32", "✓"), begin.elapsed().as_millis());
    Ok(value)
}

/// Shows a table under the command for it.
///
/// # Errors
/// When the API server refuses.
pub async fn show(client: &Client, listing: Listing) -> Result<()> {
    let text = table::get(client, listing.path()).await?;
    println!("\n  {}", styled("2", &format!("$ {}", listing.command())));
    for line in text.lines() {
        println!("  {line}");
    }
    Ok(())
}

/// With the colours of a terminal, where there is one.
fn styled(style: &str, text: &str) -> String {
    if stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        format!("\x1b[{style}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}
