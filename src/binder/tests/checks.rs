//! The invariants of binding, looked at whenever the controller commits a write.
//!
//! Worked out from the objects alone, without the binder's help.

use serde_json::Value;

use crate::api::{
    parse_ip,
    well_known::{ADDRESS_FINALIZER, CLAIM_FINALIZER},
};

/// What the objects themselves do not tell.
pub(super) trait History {
    /// Whether the address (uid) holds the claim (uid) through a match, and nobody interfered since.
    fn matched(&self, address: &str, claim: &str) -> bool;
    /// Whether the controller released the address after that claim, and nobody interfered since.
    fn released(&self, address: &str, claim: &str) -> bool;
    /// Whether the claim was there when the address came to its present state, naming it without a
    /// uid.
    fn named(&self, _address: &str) -> bool {
        true
    }
    /// Whether the object is as it was when the plan was decided.
    fn unchanged(&self, object: &Value) -> bool;
}

/// A write of the controller's: the object before and after, and all objects before it.
pub(super) struct Commit<'a> {
    pub(super) step: &'static str,
    pub(super) before: &'a Value,
    pub(super) after: Option<&'a Value>,
    pub(super) all: &'a [&'a Value],
}

/// What a commit breaks, if anything.
pub(super) fn broken(commit: &Commit<'_>, history: &impl History) -> Option<String> {
    let found = if commit.before["kind"] == "IPAddress" {
        on_address(commit, history)
    } else {
        on_claim(commit, history)
    };
    found.map(|what| format!("{what}: {} of {}", commit.step, name(commit.before)))
}

fn on_address(commit: &Commit<'_>, history: &impl History) -> Option<&'static str> {
    let Commit { before, after, all, .. } = *commit;
    let (old, new) = (holder(before), after.map_or("", holder));
    let holder_of_old = all.iter().find(|o| is_claim(o) && uid(o) == old && !old.is_empty());
    let live = holder_of_old.is_some_and(|c| !deleting(c));
    if !old.is_empty() && after.is_some() && new != old {
        return Some("I1 a claimRef with a uid is changed");
    }
    let taken_away = match after {
        None => !going(before),
        Some(after) => {
            let phase = phase(after);
            deleting(after) && !deleting(before)
                || phase != self::phase(before) && phase != "Bound" && !phase.is_empty()
        }
    };
    if live
        && !family(before).is_empty()
        && (taken_away
            || after.is_some_and(|a| protected(before) && !protected(a) && !going(before)))
    {
        return Some("I3 the address of a live claim is taken away");
    }
    let driver = |o: &Value| matches!(phase(o), "Conflict" | "Lost");
    if after.is_some_and(|a| phase(a) != phase(before) && (driver(a) || driver(before))) {
        return Some("I6 a driver's phase is entered or left");
    }
    if let Some(after) = after
        && phase(before) == "Released"
        && phase(after) != "Released"
        && !old.is_empty()
        && history.released(uid(before), old)
    {
        return Some("I4 a released address comes back unasked");
    }
    if old.is_empty() && !new.is_empty() {
        return gets_a_claim(commit, new, history);
    }
    None
}

fn gets_a_claim(commit: &Commit<'_>, new: &str, history: &impl History) -> Option<&'static str> {
    let Commit { step, before, all, .. } = *commit;
    let claim = all.iter().find(|o| is_claim(o) && uid(o) == new);
    if step == "bind" {
        if phase(before) != "Available" || !before["spec"]["claimRef"].is_null() {
            return Some("I4 an address that is not free is matched");
        }
        let second = all.iter().any(|o| {
            is_address(o)
                && uid(o) != uid(before)
                && holder(o) == new
                && family(o) == family(before)
                && phase(o) != "Lost"
                && !going(o)
                && history.matched(uid(o), new)
        });
        if second && claim.is_some() {
            return Some("I2 a second address of the family is matched");
        }
    }
    if step == "complete" && claim.is_none() && !history.named(uid(before)) {
        return Some("I5 a claim that was gone already is named");
    }
    let unprotected = claim.is_some_and(|c| !carries(c, CLAIM_FINALIZER));
    unprotected.then_some("I5 an unprotected claim is named")
}

fn on_claim(commit: &Commit<'_>, history: &impl History) -> Option<&'static str> {
    let Commit { before, after, all, .. } = *commit;
    let claim = uid(before);
    let of_claim = || all.iter().filter(|o| is_address(o) && holder(o) == claim);
    let published = |o: &Value, name: &str| {
        o["status"]["addresses"].as_array().into_iter().flatten().any(|p| p["name"] == name)
    };
    let lets_go =
        carries(before, CLAIM_FINALIZER) && after.is_none_or(|a| !carries(a, CLAIM_FINALIZER));
    if lets_go {
        let mut left = of_claim().filter(|o| {
            let known = published(before, name(o)) && history.unchanged(o);
            let reclaimed = deleting(o) || matches!(phase(o), "Released" | "Conflict" | "Lost");
            !reclaimed && (known || history.matched(uid(o), claim))
        });
        return left.next().map(|_| "I5 a claim is let go before its address is reclaimed");
    }
    let after = after?;
    let mut withdrawn = of_claim().filter(|o| {
        published(before, name(o))
            && !published(after, name(o))
            && !going(o)
            && history.unchanged(o)
    });
    withdrawn.next().map(|_| "I7 a published address is withdrawn while it is held")
}

pub(super) fn is_address(o: &Value) -> bool {
    o["kind"] == "IPAddress"
}
pub(super) fn is_claim(o: &Value) -> bool {
    o["kind"] == "IPAddressClaim"
}
pub(super) fn name(o: &Value) -> &str {
    o["metadata"]["name"].as_str().unwrap_or_default()
}
pub(super) fn uid(o: &Value) -> &str {
    o["metadata"]["uid"].as_str().unwrap_or_default()
}
pub(super) fn phase(o: &Value) -> &str {
    o["status"]["phase"].as_str().unwrap_or_default()
}
/// The uid of the claim that an address names.
pub(super) fn holder(o: &Value) -> &str {
    o["spec"]["claimRef"]["uid"].as_str().unwrap_or_default()
}
pub(super) fn deleting(o: &Value) -> bool {
    !o["metadata"]["deletionTimestamp"].is_null()
}
pub(super) fn family(o: &Value) -> &'static str {
    match o["spec"]["address"].as_str().map(parse_ip) {
        Some(Ok(ip)) if ip.is_ipv4() => "IPv4",
        Some(Ok(_)) => "IPv6",
        Some(Err(_)) | None => "",
    }
}
pub(super) fn free(o: &Value) -> bool {
    is_address(o)
        && phase(o) == "Available"
        && o["spec"]["claimRef"].is_null()
        && !deleting(o)
        && !family(o).is_empty()
}
fn carries(o: &Value, finalizer: &str) -> bool {
    o["metadata"]["finalizers"].as_array().into_iter().flatten().any(|f| f == finalizer)
}
fn protected(o: &Value) -> bool {
    carries(o, ADDRESS_FINALIZER)
}
/// Whether nothing of the controller's holds up its deletion.
fn going(o: &Value) -> bool {
    deleting(o) && (phase(o) == "Lost" || !protected(o))
}
