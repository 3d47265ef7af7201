//! What a world must look like once it has come to rest (I9), worked out from the objects.

use serde_json::Value;

use super::{super::checks, Walk};
use crate::api::well_known::{DEFAULT_CLASS_ANNOTATION, SELECTED_ADDRESSES_ANNOTATION};

fn text<'a>(o: &'a Value, path: &str) -> &'a str {
    o.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn ip(address: &Value) -> Option<std::net::IpAddr> {
    crate::api::parse_ip(text(address, "/spec/address")).ok()
}

impl Walk {
    pub(super) fn unfinished(&self) -> Option<String> {
        let all: Vec<&Value> = self.store.objects().collect();
        all.iter().find_map(|o| {
            let wrong = match o["kind"].as_str().unwrap_or_default() {
                "IPAddress" => address(o, &all),
                "IPAddressClaim" => claim(o, &all),
                _ => None,
            };
            wrong.map(|what| format!("I9 {} {what}", checks::name(o)))
        })
    }
}

fn live(all: &[&Value], uid: &str) -> bool {
    all.iter().any(|o| checks::is_claim(o) && checks::uid(o) == uid && !checks::deleting(o))
}

fn address(o: &Value, all: &[&Value]) -> Option<String> {
    let (phase, holder) = (checks::phase(o), checks::holder(o));
    if checks::deleting(o) {
        let held = live(all, holder) && phase != "Lost";
        return (!held).then(|| "is deleted and stays".into());
    }
    let expected = match (holder, live(all, holder)) {
        _ if matches!(phase, "Conflict" | "Lost") => phase,
        _ if ip(o).is_none() => "Pending",
        ("", _) if o["spec"]["claimRef"].is_null() => "Available",
        // Past its time, or its claim would have completed it.
        ("", _) => "Released",
        (_, true) => "Bound",
        (_, false) => "Released",
    };
    (phase != expected).then(|| format!("is {phase} and not {expected}"))
}

fn claim(o: &Value, all: &[&Value]) -> Option<String> {
    if checks::deleting(o) {
        return Some("is deleted and stays".into());
    }
    let wanted: &[&str] = match text(o, "/spec/family") {
        "Dual" => &["IPv4", "IPv6"],
        "IPv6" => &["IPv6"],
        _ => &["IPv4"],
    };
    let held: Vec<&&Value> = all
        .iter()
        .filter(|a| checks::is_address(a) && checks::holder(a) == checks::uid(o) && ip(a).is_some())
        .collect();
    let missing: Vec<&&str> = wanted
        .iter()
        .filter(|f| !held.iter().any(|a| checks::family(a) == **f && checks::phase(a) != "Lost"))
        .collect();
    let phase = checks::phase(o);
    if missing.is_empty() != (phase == "Bound") {
        return Some(format!("is {phase} and lacks {missing:?}"));
    }
    let published = o["status"]["addresses"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: Vec<_> = published.iter().map(|p| text(p, "/name")).collect();
    let expected: Vec<_> = held.iter().map(|a| checks::name(a)).collect();
    if names != expected {
        return Some(format!("publishes {names:?} and holds {expected:?}"));
    }
    let class = class_of(o, all)?;
    let found = missing.iter().find_map(|family| {
        let mine = |a: &&&Value| {
            checks::free(a)
                && checks::family(a) == **family
                && text(a, "/spec/className") == class
                && !all.iter().any(|b| {
                    checks::name(b) != checks::name(a) && ip(b) == ip(a) && ip(a).is_some()
                })
                && asked_for(o, family, a)
        };
        all.iter().find(mine)
    });
    found.map(|a| format!("is {phase} and could have {}", checks::name(a)))
}

/// Whether a missing family may be served by this address as far as the claim goes.
fn asked_for(o: &Value, family: &str, address: &Value) -> bool {
    let pin = text(o, "/spec/addressName");
    let annotations = &o["metadata"]["annotations"];
    let record = annotations[SELECTED_ADDRESSES_ANNOTATION].as_str().unwrap_or_default();
    let held = record.split(',').any(|e| e.starts_with(family) && e.ends_with("/held"));
    let published = o["status"]["addresses"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shown = published.iter().any(|p| {
        crate::api::parse_ip(text(p, "/address")).is_ok_and(|ip| ip.is_ipv4() == (family == "IPv4"))
    });
    if pin.is_empty() { !held && !shown } else { pin == checks::name(address) }
}

fn class_of<'a>(o: &'a Value, all: &[&'a Value]) -> Option<&'a str> {
    let named = [text(o, "/spec/className"), text(o, "/status/className")];
    if let Some(name) = named.into_iter().find(|n| !n.is_empty()) {
        return Some(name);
    }
    let mut defaults = all.iter().filter(|c| {
        c["kind"] == "IPAddressClass"
            && c["metadata"]["annotations"][DEFAULT_CLASS_ANNOTATION] == "true"
    });
    let first = defaults.next()?;
    defaults.next().is_none().then(|| checks::name(first))
}
