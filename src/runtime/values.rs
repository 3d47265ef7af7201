//! The values that flags take: how each is written, and what is said of one that is not.
//!
//! Messages say what is right, not only what is wrong; clap puts the flag's name before them.

use std::{fmt, str::FromStr, time::Duration};

use tracing_subscriber::EnvFilter;

use crate::api::is_namespace_name;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Bind {
    /// Nowhere.
    Off,
    /// On all interfaces.
    All {
        /// The port; 0 for any that is free.
        port: u16,
    },
    /// On one address.
    Host {
        /// An IP, or a name that is looked up when the listener starts.
        host: String,
        /// The port; 0 for any that is free.
        port: u16,
    },
}

impl Bind {
    /// Whether a listener on `self` may take the port that one on `other` needs.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Off, _) | (_, Self::Off) => false,
            (Self::All { port: a }, Self::All { port: b } | Self::Host { port: b, .. })
            | (Self::Host { port: a, .. }, Self::All { port: b }) => a == b && *a != 0,
            (Self::Host { .. }, Self::Host { .. }) => self == other,
        }
    }
}

impl FromStr for Bind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self::Off);
        }
        let wrong =
            || "write 0 (off), :8080 (all interfaces), 127.0.0.1:8080 or [::1]:8080".to_owned();
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        if host.is_empty() {
            return Ok(Self::All { port });
        }
        // A bare IPv6 address would lose its last group to the port.
        let bracketed = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        match bracketed.unwrap_or(host) {
            h if bracketed.is_none() && h.contains([':', '[', ']']) => Err(wrong()),
            "" => Err(wrong()),
            h => Ok(Self::Host { host: h.to_owned(), port }),
        }
    }
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::All { port } => write!(f, ":{port}"),
            Self::Host { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Host { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// A length of time such as `500ms`, `20s`, `5m`, `1h30m`.
pub fn length(text: &str) -> Result<Duration, String> {
    text.parse::<jiff::SignedDuration>()
        .ok()
        .and_then(|d| Duration::try_from(d).ok())
        .ok_or_else(|| "write a length of time with its unit, such as 500ms, 20s or 5m".to_owned())
}

/// A parser for lengths of time between two, both included.
pub fn between(
    min: &'static str,
    max: &'static str,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let negative = text.trim_start().starts_with('-');
        let outside = || format!("write a length of time from {min} to {max}");
        let value = length(text).map_err(|e| if negative { outside() } else { e })?;
        if (length(min)?..=length(max)?).contains(&value) { Ok(value) } else { Err(outside()) }
    }
}

/// A boolean in the spellings that Go's flag package knows.
pub fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}

/// A log filter; kept as text, since the subscriber makes it its own.
pub fn filter(text: &str) -> Result<String, String> {
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|e| {
        format!("{e}; write a level (error, warn, info, debug, trace), or module=level, with commas between")
    })
}

/// A replica's name: it goes into a header and into names of objects.
pub fn identity(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if !text.is_empty() && text.len() <= 253 && text.chars().all(fits) {
        Ok(text.to_owned())
    } else {
        Err("write 1 to 253 letters, digits, '-', '.' or '_'".to_owned())
    }
}

/// A release's name, as helm limits it.
pub fn release(text: &str) -> Result<String, String> {
    namespace(text).ok().filter(|text| text.len() <= 53).ok_or_else(|| {
        "write 1 to 53 lower-case letters, digits or '-', with no '-' at either end".to_owned()
    })
}

/// A namespace's name.
pub fn namespace(text: &str) -> Result<String, String> {
    if is_namespace_name(text) {
        Ok(text.to_owned())
    } else {
        Err("write 1 to 63 lower-case letters, digits or '-', with no '-' at either end".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0", Bind::Off)]
    #[case(":8080", Bind::All { port: 8080 })]
    #[case("127.0.0.1:9", Bind::Host { host: "127.0.0.1".into(), port: 9 })]
    #[case("[::1]:8081", Bind::Host { host: "::1".into(), port: 8081 })]
    #[case("localhost:0", Bind::Host { host: "localhost".into(), port: 0 })]
    fn addresses_are_read_and_written_alike(#[case] text: &str, #[case] bind: Bind) {
        assert_eq!(text.parse(), Ok(bind.clone()));
        assert_eq!(bind.to_string(), text);
    }

    #[rstest]
    #[case("")]
    #[case("8080")]
    #[case(":")]
    #[case("::1:8080")]
    #[case("[]:80")]
    #[case("[::1:80")]
    #[case("host:70000")]
    #[case("host:-1")]
    fn what_is_no_address_is_refused(#[case] text: &str) {
        assert!(text.parse::<Bind>().is_err());
    }

    #[rstest]
    #[case("500ms", Some(500))]
    #[case("20s", Some(20_000))]
    #[case("1m30s", Some(90_000))]
    #[case("PT5M", Some(300_000))]
    #[case("20", None)]
    #[case("", None)]
    #[case("-5s", None)]
    #[case("five minutes", None)]
    fn lengths_of_time(#[case] text: &str, #[case] millis: Option<u64>) {
        assert_eq!(length(text).ok(), millis.map(Duration::from_millis));
    }

    #[test]
    fn two_listeners_that_need_one_port_overlap() {
        let bind = |t: &str| t.parse::<Bind>().expect("an address");
        assert!(bind(":80").overlaps(&bind("127.0.0.1:80")));
        assert!(bind("127.0.0.1:80").overlaps(&bind(":80")));
        assert!(!bind(":80").overlaps(&bind(":81")));
        assert!(!bind(":0").overlaps(&bind(":0")));
        assert!(!bind("0").overlaps(&bind("0")));
        assert!(!bind("127.0.0.1:80").overlaps(&bind("127.0.0.2:80")));
    }

    #[test]
    fn namespaces_are_labels() {
        assert!(namespace("kube-system").is_ok());
        for wrong in ["", "-a", "a-", "A", "a.b", &"a".repeat(64)] {
            assert!(namespace(wrong).is_err(), "{wrong}");
        }
    }
}
