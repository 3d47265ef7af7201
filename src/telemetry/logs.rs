//! Log lines: to standard error, as text for people or as JSON for machines.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// kube's HTTP layer reports each failed request as an error, and each connection to a server whose
/// certificate is not checked as a warning. Both are said by this program, where their meaning is
/// known, once and not for each try.
const QUIET: (&str, &str) =
    ("kube_client", "kube_client::client::builder=off,kube_client::client::tls=error");

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text, in colours when it goes to a terminal.
    Text,
    /// One JSON object a line.
    Json,
}

impl Format {
    /// Text when standard error is a terminal, JSON otherwise.
    pub fn automatic() -> Self {
        if stderr().is_terminal() { Self::Text } else { Self::Json }
    }
}

/// Starts logging. `filter` is in tracing's directive syntax, such as `info` or
/// `info,address_controller=debug`.
///
/// # Errors
/// The filter does not parse, or something else logs already.
pub fn install(filter: &str, format: Format) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(with_quiet(filter))?;
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        Format::Text => {
            let colours = stderr().is_terminal();
            registry.with(fmt::layer().with_ansi(colours).with_writer(stderr)).try_init()?;
        }
        Format::Json => {
            let lines = fmt::layer().json().flatten_event(true).with_current_span(false);
            registry.with(lines.with_writer(stderr)).try_init()?;
        }
    }
    Ok(())
}

/// Silences kube's own reports of failures unless the filter speaks of them.
fn with_quiet(filter: &str) -> String {
    let (module, directive) = QUIET;
    if filter.contains(module) { filter.to_owned() } else { format!("{filter},{directive}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubes_own_lines_are_silent_unless_asked_for() {
        assert!(with_quiet("info").starts_with("info,kube_client::client::builder=off,"));
        assert_eq!(with_quiet("info,kube_client=debug"), "info,kube_client=debug");
        assert!(EnvFilter::try_new(with_quiet("info,address_controller::claim=debug")).is_ok());
    }
}
