//! IP families, and what counts as one IP address.

use std::{fmt, net::IpAddr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a claim asks for.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClaimFamily {
    /// One IPv4 address.
    #[default]
    IPv4,
    /// One IPv6 address.
    IPv6,
    /// One address of each family.
    Dual,
}

impl ClaimFamily {
    /// The families to be held, in the order in which they are matched.
    pub fn wanted(self) -> &'static [IpFamily] {
        match self {
            Self::IPv4 => &[IpFamily::IPv4],
            Self::IPv6 => &[IpFamily::IPv6],
            Self::Dual => &[IpFamily::IPv4, IpFamily::IPv6],
        }
    }
}

/// The family of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IpFamily {
    /// 32-bit addresses, and those written as IPv4-mapped IPv6.
    IPv4,
    /// 128-bit addresses.
    IPv6,
}

impl IpFamily {
    /// The family of an IP in canonical form.
    pub fn of(ip: IpAddr) -> Self {
        if ip.is_ipv4() { Self::IPv4 } else { Self::IPv6 }
    }

    /// The family as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IPv4 => "IPv4",
            Self::IPv6 => "IPv6",
        }
    }
}

impl fmt::Display for IpFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Text that is not exactly one IP address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "spec.address {0:?} is not one IP address: write it without leading zeros, prefix length, zone, port, brackets or spaces"
)]
pub struct InvalidAddress(pub String);

/// Parses the text of `spec.address` into its canonical form: IPv4-mapped IPv6 is IPv4.
///
/// # Errors
/// [`InvalidAddress`] for anything but one address in the notation of RFC 4291 or dotted decimal.
pub fn parse_ip(text: &str) -> Result<IpAddr, InvalidAddress> {
    text.parse::<IpAddr>().map(|ip| ip.to_canonical()).map_err(|_| InvalidAddress(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A01: an IPv4-mapped IPv6 address is IPv4; an IPv4-compatible one is IPv6.
    #[test]
    fn a01_mapped_is_ipv4_and_compatible_is_ipv6() {
        let family = |t: &str| IpFamily::of(parse_ip(t).expect("an address"));
        assert_eq!(family("::ffff:192.0.2.7"), IpFamily::IPv4);
        assert_eq!(family("::FFFF:c000:0207"), IpFamily::IPv4);
        assert_eq!(family("::192.0.2.7"), IpFamily::IPv6);
        assert_eq!(parse_ip("::ffff:192.0.2.7"), parse_ip("192.0.2.7"));
    }

    /// A02: what is not exactly one address is refused, and the message names it.
    #[test]
    fn a02_text_that_is_not_one_address() {
        for text in [
            "192.168.010.1",
            "203.0.113.7/32",
            " 203.0.113.7",
            "203.0.113.7 ",
            "203.0.113",
            "0x7f.0.0.1",
            "3405803783",
            "[2001:db8::1]",
            "fe80::1%eth0",
            "2001:db8::7::",
            "203.0.113.256",
            "",
            "::1:80:",
            "203.0.113.7:80",
            "localhost",
            "192.0.2.1,192.0.2.2",
            "１.2.3.4",
        ] {
            let error = parse_ip(text).expect_err(text);
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }

    /// A03: spellings of one IP are one IP.
    #[test]
    fn a03_spellings_of_one_ip_are_equal() {
        assert_eq!(parse_ip("2001:DB8::7"), parse_ip("2001:0db8:0:0:0:0:0:7"));
    }

    #[test]
    fn dual_wants_one_of_each() {
        assert_eq!(ClaimFamily::Dual.wanted(), [IpFamily::IPv4, IpFamily::IPv6]);
        assert_eq!(ClaimFamily::default().wanted(), [IpFamily::IPv4]);
        assert_eq!(ClaimFamily::IPv6.wanted(), [IpFamily::IPv6]);
    }
}
