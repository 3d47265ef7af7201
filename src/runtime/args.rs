//! What the program can be told: every setting is a flag and an environment variable.
//!
//! Values are checked here, all of them, before anything starts. This file knows no client and
//! starts nothing.

#![expect(
    clippy::doc_markdown,
    reason = "these docs are the text of --help, where backticks are noise"
)]

use std::{path::PathBuf, time::Duration};

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, error::ErrorKind};

use super::{
    host,
    values::{Bind, between, filter, go_bool, identity, namespace, release},
};
use crate::lease::Times;

/// Binds IPAddressClaims to IPAddresses in a Kubernetes cluster.
///
/// Without a command it runs the controller until it is told to stop (SIGTERM or SIGINT).
/// Lengths of time are written with their unit: 500ms, 20s, 5m, 1h.
#[derive(Parser, Debug)]
#[command(name = "address-controller", version, max_term_width = 100)]
#[command(after_help = "Every flag can be set by the environment variable named beside it; \
                        the flag wins.")]
pub struct Cli {
    /// What to do instead of running the controller.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The settings of the controller.
    #[command(flatten)]
    pub settings: Settings,
}

/// What the program does other than run.
#[derive(Subcommand, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Print the CustomResourceDefinitions of the three kinds as YAML
    PrintCrds,
    /// Print the program's name and version
    Version,
}

/// The settings of the controller, checked one by one and against each other.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// The kubeconfig to read [default: $KUBECONFIG, ~/.kube/config, then the pod's service account]
    #[arg(long, env = "ADDRESS_CONTROLLER_KUBECONFIG", value_name = "FILE")]
    #[arg(help_heading = "API server")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig to use [default: its current one]
    #[arg(long, env = "ADDRESS_CONTROLLER_CONTEXT", value_name = "NAME")]
    #[arg(help_heading = "API server")]
    pub context: Option<String>,

    /// How long one request may take, its answer included (1s to 60s)
    #[arg(long, env = "ADDRESS_CONTROLLER_REQUEST_TIMEOUT", value_name = "TIME")]
    #[arg(default_value = "15s", value_parser = between("1s", "60s"))]
    #[arg(help_heading = "API server")]
    pub request_timeout: Duration,

    /// How many requests may be in flight at once, watches aside (1 to 1000)
    #[arg(long, env = "ADDRESS_CONTROLLER_MAX_REQUESTS_IN_FLIGHT", value_name = "NUMBER")]
    #[arg(default_value = "64", value_parser = clap::value_parser!(u16).range(1..=1000))]
    #[arg(help_heading = "API server")]
    pub max_requests_in_flight: u16,

    /// After how long a watch is asked for anew; a connection that died silently is noticed by
    /// then (30s to 60s)
    #[arg(long, env = "ADDRESS_CONTROLLER_WATCH_TIMEOUT", value_name = "TIME")]
    #[arg(default_value = "45s", value_parser = between("30s", "60s"))]
    #[arg(help_heading = "API server")]
    pub watch_timeout: Duration,

    /// How many claims may be worked on at once (1 to 1000)
    #[arg(long, env = "ADDRESS_CONTROLLER_CLAIM_CONCURRENCY", value_name = "NUMBER")]
    #[arg(default_value = "16", value_parser = clap::value_parser!(u16).range(1..=1000))]
    #[arg(help_heading = "Work")]
    pub claim_concurrency: u16,

    /// How many addresses may be worked on at once (1 to 1000)
    #[arg(long, env = "ADDRESS_CONTROLLER_ADDRESS_CONCURRENCY", value_name = "NUMBER")]
    #[arg(default_value = "16", value_parser = clap::value_parser!(u16).range(1..=1000))]
    #[arg(help_heading = "Work")]
    pub address_concurrency: u16,

    /// The pause after an object's first failure; it doubles with each that follows (10ms to 10s)
    #[arg(long, env = "ADDRESS_CONTROLLER_QUEUE_BACKOFF_BASE", value_name = "TIME")]
    #[arg(default_value = "200ms", value_parser = between("10ms", "10s"))]
    #[arg(help_heading = "Work")]
    pub queue_backoff_base: Duration,

    /// The longest pause between two tries of one object (1s to 10m)
    #[arg(long, env = "ADDRESS_CONTROLLER_QUEUE_BACKOFF_MAX", value_name = "TIME")]
    #[arg(default_value = "30s", value_parser = between("1s", "10m"))]
    #[arg(help_heading = "Work")]
    pub queue_backoff_max: Duration,

    /// How old an address that is reserved for a claim which does not exist must be before it is
    /// reclaimed (1s to 24h)
    #[arg(long, env = "ADDRESS_CONTROLLER_RESERVATION_GRACE", value_name = "TIME")]
    #[arg(default_value = "5m", value_parser = between("1s", "24h"))]
    #[arg(help_heading = "Work")]
    pub reservation_grace: Duration,

    /// Where /metrics is served: 0 (nowhere), :8080 (all interfaces), 127.0.0.1:8080 (one; an IPv6 address in brackets)
    #[arg(long, env = "ADDRESS_CONTROLLER_METRICS_BIND_ADDRESS", value_name = "ADDRESS")]
    #[arg(default_value = ":8080", help_heading = "Listeners")]
    pub metrics_bind_address: Bind,

    /// Where /livez, /readyz and /healthz are served, written likewise; where it is the address of
    /// /metrics, one listener serves both
    #[arg(long, env = "ADDRESS_CONTROLLER_HEALTH_PROBE_BIND_ADDRESS", value_name = "ADDRESS")]
    #[arg(default_value = ":8081", help_heading = "Listeners")]
    pub health_probe_bind_address: Bind,

    /// Whether other replicas may run beside this one. false: this one does everything
    #[arg(long, env = "ADDRESS_CONTROLLER_LEADER_ELECT", value_name = "true|false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(default_value = "false", value_parser = go_bool, action = clap::ArgAction::Set)]
    #[arg(help_heading = "Process")]
    pub leader_elect: bool,

    /// What this replica is called in events and to the API server [default: $POD_NAME, then the
    /// host name]
    #[arg(long, env = "ADDRESS_CONTROLLER_IDENTITY", value_name = "NAME")]
    #[arg(default_value_t = host::identity(), hide_default_value = true, value_parser = identity)]
    #[arg(help_heading = "Process")]
    pub identity: String,

    /// The namespace the controller runs in [default: $POD_NAMESPACE, then the service account's,
    /// then "default"]
    #[arg(long, env = "ADDRESS_CONTROLLER_NAMESPACE", value_name = "NAME")]
    #[arg(default_value_t = host::namespace(), hide_default_value = true, value_parser = namespace)]
    #[arg(help_heading = "Process")]
    pub namespace: String,

    /// What this installation is called: its Leases' names begin with it, and replicas of one
    /// installation find each other by it (1 to 53 lower-case letters, digits and '-')
    #[arg(long, env = "ADDRESS_CONTROLLER_RELEASE", value_name = "NAME")]
    #[arg(default_value = "address-controller", value_parser = release)]
    #[arg(help_heading = "Replicas")]
    pub release: String,

    /// How long another replica is taken for alive after its Lease was last seen to change, in whole
    /// seconds (2s to 60s)
    #[arg(long, env = "ADDRESS_CONTROLLER_LEASE_DURATION", value_name = "TIME")]
    #[arg(default_value = "5s", value_parser = between("2s", "60s"))]
    #[arg(help_heading = "Replicas")]
    pub lease_duration: Duration,

    /// How often this replica renews its Leases (100ms to 20s)
    #[arg(long, env = "ADDRESS_CONTROLLER_LEASE_RENEW_PERIOD", value_name = "TIME")]
    #[arg(default_value = "1s", value_parser = between("100ms", "20s"))]
    #[arg(help_heading = "Replicas")]
    pub lease_renew_period: Duration,

    /// How long after it was last renewed this replica acts by a Lease; shorter than the duration
    /// (1s to 50s)
    #[arg(long, env = "ADDRESS_CONTROLLER_LEASE_RENEW_DEADLINE", value_name = "TIME")]
    #[arg(default_value = "3500ms", value_parser = between("1s", "50s"))]
    #[arg(help_heading = "Replicas")]
    pub lease_renew_deadline: Duration,

    /// How long one request about a Lease may take; it is tried again until the deadline (100ms to
    /// 20s)
    #[arg(long, env = "ADDRESS_CONTROLLER_LEASE_ATTEMPT_TIMEOUT", value_name = "TIME")]
    #[arg(default_value = "1s", value_parser = between("100ms", "20s"))]
    #[arg(help_heading = "Replicas")]
    pub lease_attempt_timeout: Duration,

    /// How long running work may go on after the first signal to stop; a second signal ends the
    /// process at once (1s to 10m)
    #[arg(long, env = "ADDRESS_CONTROLLER_SHUTDOWN_BUDGET", value_name = "TIME")]
    #[arg(default_value = "20s", value_parser = between("1s", "10m"))]
    #[arg(help_heading = "Process")]
    pub shutdown_budget: Duration,

    /// What is logged: error, warn, info, debug or trace, and finer by module, such as
    /// info,address_controller::claim=debug
    #[arg(long, env = "ADDRESS_CONTROLLER_LOG", value_name = "FILTER")]
    #[arg(default_value = "info", value_parser = filter, help_heading = "Logs")]
    pub log: String,

    /// How a log line looks. auto: text on a terminal, JSON otherwise
    #[arg(long, env = "ADDRESS_CONTROLLER_LOG_FORMAT", value_name = "FORMAT")]
    #[arg(default_value = "auto", value_enum, help_heading = "Logs")]
    pub log_format: LogFormat,
}

/// How a log line looks.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Cli {
    /// Reads the program's arguments and environment. Ends the process with a message and exit
    /// code 2 where they are wrong, and with code 0 after `--help`.
    pub fn read() -> Self {
        let cli = Self::parse();
        if let Err(message) = cli.settings.check() {
            Self::command().error(ErrorKind::ValueValidation, message).exit();
        }
        cli
    }
}

impl Settings {
    /// The settings of a controller that was told nothing; for tests.
    ///
    /// # Errors
    /// What is wrong with `flags`, as the program would say it.
    pub fn from_flags<'a>(flags: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let flags = std::iter::once("address-controller").chain(flags);
        let settings = Cli::try_parse_from(flags).map_err(|e| e.to_string())?.settings;
        settings.check()?;
        Ok(settings)
    }

    /// The lengths of time that Leases go by.
    pub fn lease_times(&self) -> Times {
        Times {
            duration: self.lease_duration,
            period: self.lease_renew_period,
            deadline: self.lease_renew_deadline,
            attempt: self.lease_attempt_timeout,
        }
    }

    /// Checks the settings against each other.
    fn check(&self) -> Result<(), String> {
        if self.queue_backoff_base > self.queue_backoff_max {
            return Err(format!(
                "--queue-backoff-base ({:?}) is longer than --queue-backoff-max ({:?}): \
                 write a base of at most the maximum",
                self.queue_backoff_base, self.queue_backoff_max
            ));
        }
        self.lease_times().check()?;
        if self.metrics_bind_address != self.health_probe_bind_address
            && self.metrics_bind_address.overlaps(&self.health_probe_bind_address)
        {
            return Err(format!(
                "--metrics-bind-address ({}) and --health-probe-bind-address ({}) claim the same \
                 port: write the same address twice to serve both there, or two ports",
                self.metrics_bind_address, self.health_probe_bind_address
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(flags: &[&str]) -> Settings {
        Settings::from_flags(flags.iter().copied()).expect("good flags")
    }

    fn refused(flags: &[&str]) -> String {
        Settings::from_flags(flags.iter().copied()).expect_err("bad flags")
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_arguments_of_the_go_original_are_understood() {
        for (flags, leader_elect) in [
            (&["--leader-elect"][..], true),
            (&["--leader-elect=true"], true),
            (&["--leader-elect=false"], false),
            (&["--leader-elect=1"], true),
            (&["--leader-elect=F"], false),
            (&[], false),
        ] {
            assert_eq!(settings(flags).leader_elect, leader_elect, "{flags:?}");
        }
        let of = settings(&[
            "--leader-elect",
            "--metrics-bind-address=:8443",
            "--health-probe-bind-address=:8081",
        ]);
        assert!(of.leader_elect);
        assert_eq!(of.metrics_bind_address, Bind::All { port: 8443 });
        assert_eq!(of.health_probe_bind_address, Bind::All { port: 8081 });
        assert_eq!(settings(&["--metrics-bind-address=0"]).metrics_bind_address, Bind::Off);
    }

    #[test]
    fn defaults_are_as_the_help_says() {
        let of = settings(&[]);
        assert_eq!(of.metrics_bind_address, Bind::All { port: 8080 });
        assert_eq!(of.reservation_grace, Duration::from_mins(5));
        assert_eq!(of.shutdown_budget, Duration::from_secs(20));
        assert_eq!(of.watch_timeout, Duration::from_secs(45));
        assert_eq!(of.log, "info");
        assert_eq!(of.lease_times(), Times::default());
        assert!(!of.identity.is_empty());
        assert!(!of.namespace.is_empty());
    }

    /// Each refusal names the flag, what was written, and what may be written instead.
    #[test]
    fn a_wrong_value_is_refused_with_the_right_ones() {
        for (flag, value, right) in [
            ("--watch-timeout", "29s", "30s to 60s"),
            ("--watch-timeout", "61s", "30s to 60s"),
            ("--watch-timeout", "45", "500ms, 20s"),
            ("--reservation-grace", "-5m", "1s to 24h"),
            ("--shutdown-budget", "soon", "500ms, 20s"),
            ("--claim-concurrency", "0", "1..=1000"),
            ("--metrics-bind-address", "8080", ":8080"),
            ("--health-probe-bind-address", "host:99999", ":8080"),
            ("--leader-elect", "maybe", "true or false"),
            ("--log", "loud=very", "debug"),
            ("--log-format", "xml", "json"),
            ("--identity", "two words", "letters"),
            ("--namespace", "Default", "lower-case"),
            ("--release", "My_Release", "lower-case"),
            ("--lease-duration", "1s", "2s to 60s"),
        ] {
            let message = refused(&[&format!("{flag}={value}")]);
            for part in [flag, value, right] {
                assert!(message.contains(part), "{part} is not in: {message}");
            }
        }
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let message = refused(&["--queue-backoff-base=5s", "--queue-backoff-max=2s"]);
        assert!(message.contains("--queue-backoff-base (5s)"), "{message}");
        let message = refused(&["--lease-duration=3s"]);
        assert!(message.contains("--lease-renew-deadline (3.5s)"), "{message}");
        let message =
            refused(&["--metrics-bind-address=:8081", "--health-probe-bind-address=0.0.0.0:8081"]);
        assert!(message.contains("same port"), "{message}");
        settings(&["--metrics-bind-address=:8081"]);
        settings(&["--metrics-bind-address=:0", "--health-probe-bind-address=127.0.0.1:0"]);
    }

    #[test]
    fn every_setting_has_an_environment_variable_and_a_heading() {
        for arg in Cli::command().get_arguments() {
            let Some(long) = arg.get_long().filter(|l| !["help", "version"].contains(l)) else {
                continue;
            };
            let env = format!("ADDRESS_CONTROLLER_{}", long.replace('-', "_").to_uppercase());
            assert_eq!(arg.get_env().and_then(|e| e.to_str()), Some(env.as_str()));
            assert!(arg.get_help_heading().is_some(), "{long} has no heading");
            assert!(arg.get_help().is_some(), "{long} has no help");
        }
    }
}
