//! At rest, what objects say of themselves is what the cluster demands: worked out from the objects as
//! they are stored, by the words of the contract, and not with the controller's functions.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use address_controller::api::well_known::{
    ADDRESS_FINALIZER, CLAIM_FINALIZER, DEFAULT_CLASS_ANNOTATION, PROVISIONER_ANNOTATION,
};
use serde_json::{Value, json};

use crate::apiserver::{
    store::{Commit, Store},
    writes::{finalizers, is_deleting, text},
};

/// How old a reservation is before it is reclaimed.
const GRACE: Duration = Duration::from_mins(5);

/// What is known of the past, by the uids of claims.
#[derive(Default)]
pub struct Statuses {
    /// Was bound, or lost since.
    was_bound: BTreeSet<String>,
    /// Got an address by a match.
    matched: BTreeSet<String>,
}

impl Statuses {
    /// Something was committed.
    pub fn saw(&mut self, commit: &Commit) {
        let Some(new) = &commit.new else { return };
        match commit.key.0 {
            "ipaddressclaims" if new["status"]["phase"] == "Bound" => {
                self.was_bound.insert(text(new, "uid").to_owned());
            }
            "ipaddresses" => {
                let before =
                    commit.old.as_ref().map_or(&Value::Null, |old| &old["spec"]["claimRef"]);
                let uid = new["spec"]["claimRef"]["uid"].as_str();
                let by_controller = commit.by.starts_with("address-controller/");
                if let Some(uid) = uid.filter(|_| before.is_null() && by_controller) {
                    self.matched.insert(uid.to_owned());
                }
            }
            _ => {}
        }
    }

    /// What is not as it should be.
    pub fn judge(&self, store: &Store, reservations: Duration) -> Vec<String> {
        let world = World::of(store, reservations);
        let mut found = Vec::new();
        for (key, claim) in store.of("ipaddressclaims").filter(|(_, claim)| !is_deleting(claim)) {
            let mut said = Said { claim, wrong: Vec::new() };
            self.claim(&world, &mut said);
            let told = said.wrong.into_iter();
            found.extend(told.map(|wrong| format!("claim {}/{}: {wrong}", key.1, key.2)));
        }
        for (key, address) in store.of("ipaddresses").filter(|(_, a)| !is_deleting(a)) {
            found.extend(world.address(address).map(|wrong| format!("address {}: {wrong}", key.2)));
        }
        found
    }

    fn claim<'b>(&self, world: &'b World<'_>, said: &mut Said<'b>) {
        let (claim, uid) = (said.claim, text(said.claim, "uid"));
        let held = world.held_by(claim);
        let families = || held.iter().filter(|a| a["status"]["phase"] != "Lost").map(|a| family(a));
        let wanted = match claim["spec"]["family"].as_str() {
            Some("Dual") => vec!["IPv4", "IPv6"],
            Some("IPv6") => vec!["IPv6"],
            _ => vec!["IPv4"],
        };
        let missing: Vec<_> =
            wanted.into_iter().filter(|w| !families().any(|has| has == *w)).collect();
        let (phase, reason) = match (missing.is_empty(), self.was_bound.contains(uid)) {
            (true, _) => ("Bound", "Bound"),
            (false, true) => ("Lost", "AddressLost"),
            (false, false) => ("Pending", "WaitingForProvisioning"),
        };
        said.is("phase", &claim["status"]["phase"], &phase.into());
        let entry =
            |a: &&Value| json!({ "name": text(a, "name"), "address": a["spec"]["address"] });
        let listed: Vec<_> = held.iter().map(entry).collect();
        let shown = claim["status"].get("addresses").cloned().unwrap_or_else(|| json!([]));
        said.is("addresses", &shown, &listed.into());
        let message = said.condition("Bound", missing.is_empty(), reason);
        for family in &missing {
            if !message.contains(&format!("{family} is missing")) {
                said.wrong.push(format!("{family} is missing, and it says {message:?}"));
            }
        }
        if !finalizers(claim).contains(&CLAIM_FINALIZER) {
            said.wrong.push("it is not protected".to_owned());
        }
        if !missing.is_empty() {
            world.class_of(said);
        } else if self.matched.contains(uid) && claim["status"]["className"].is_null() {
            said.wrong.push("it was matched, and does not say of which class".to_owned());
        }
    }
}

/// A claim, and what is wrong with what it says.
struct Said<'a> {
    claim: &'a Value,
    wrong: Vec<String>,
}

impl Said<'_> {
    fn is(&mut self, what: &str, is: &Value, wanted: &Value) {
        if is != wanted {
            self.wrong.push(format!("{what} should be {wanted}, and is {is}"));
        }
    }

    /// The condition is so, decided on the claim as it is. Its message.
    fn condition(&mut self, kind: &str, holds: bool, reason: &str) -> String {
        let all = self.claim["status"]["conditions"].as_array().into_iter().flatten();
        let of_kind: Vec<_> = all.filter(|c| c["type"] == kind).collect();
        let [one] = of_kind[..] else {
            self.wrong.push(format!("{} conditions {kind}", of_kind.len()));
            return String::new();
        };
        let wanted = json!({
            "status": if holds { "True" } else { "False" }, "reason": reason,
            "observedGeneration": self.claim["metadata"]["generation"],
        });
        let mut is = one.clone();
        if let Some(fields) = is.as_object_mut() {
            fields.retain(|field, _| wanted.get(field).is_some());
        }
        self.is(kind, &is, &wanted);
        one["message"].as_str().unwrap_or_default().to_owned()
    }
}

/// Everything that is there.
struct World<'a> {
    store: &'a Store,
    /// The addresses by the claim that they name.
    by_claim: BTreeMap<(&'a str, &'a str), Vec<&'a Value>>,
    /// For how long at least every replica has seen every reservation.
    reservations: Duration,
}

impl<'a> World<'a> {
    fn of(store: &'a Store, reservations: Duration) -> Self {
        let mut by_claim: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (_, address) in store.of("ipaddresses") {
            let named = |field: &str| address["spec"]["claimRef"][field].as_str();
            if let (Some(namespace), Some(name)) = (named("namespace"), named("name")) {
                by_claim.entry((namespace, name)).or_default().push(address);
            }
        }
        Self { store, by_claim, reservations }
    }

    /// What a claim holds, sorted by name. What is deleted and lost is as good as gone.
    fn held_by(&self, claim: &Value) -> Vec<&'a Value> {
        let uid = &claim["metadata"]["uid"];
        let named = self.by_claim.get(&(text(claim, "namespace"), text(claim, "name")));
        let going = |a: &Value| is_deleting(a) && a["status"]["phase"] == "Lost";
        let own =
            |a: &&&Value| a["spec"]["claimRef"]["uid"] == *uid && ip(a).is_some() && !going(a);
        named.into_iter().flatten().filter(own).copied().collect()
    }

    /// The class that a waiting claim is to be served by, and what it says of that.
    fn class_of<'b>(&'b self, said: &mut Said<'b>) {
        let claim = said.claim;
        let given = |value: &'b Value| value.as_str().filter(|name| !name.is_empty());
        let named = given(&claim["spec"]["className"]).or(given(&claim["status"]["className"]));
        let classes = || self.store.of("ipaddressclasses").map(|(_, class)| class);
        let default = |c: &&Value| c["metadata"]["annotations"][DEFAULT_CLASS_ANNOTATION] == "true";
        let named_so = |c: &&Value| named.is_some_and(|name| text(c, "name") == name);
        let candidates: Vec<_> =
            classes().filter(|c| if named.is_some() { named_so(c) } else { default(c) }).collect();
        let reason = match (named.is_some(), candidates.is_empty()) {
            (true, _) => "ClassNotFound",
            (false, true) => "NoDefaultClass",
            (false, false) => "MultipleDefaultClasses",
        };
        let [class] = candidates[..] else {
            said.condition("ClassResolved", false, reason);
            return;
        };
        said.condition("ClassResolved", true, "Resolved");
        said.is("className", &claim["status"]["className"], &class["metadata"]["name"]);
        let stamp = &claim["metadata"]["annotations"][PROVISIONER_ANNOTATION];
        said.is("the stamp", stamp, &class["spec"]["provisioner"]);
    }

    /// What is wrong with an address.
    fn address(&self, address: &Value) -> Option<String> {
        let phase = address["status"]["phase"].as_str().unwrap_or("none");
        if !finalizers(address).contains(&ADDRESS_FINALIZER) {
            return Some("it is not protected".to_owned());
        }
        if ["Conflict", "Lost"].contains(&phase) {
            return None;
        }
        let wanted = self.phases(address);
        (!wanted.contains(&phase)).then(|| format!("it is {phase}, and should be {wanted:?}"))
    }

    /// The phases that it may be in; none where it should not be there.
    fn phases(&self, address: &Value) -> &'static [&'static str] {
        let reference = &address["spec"]["claimRef"];
        if ip(address).is_none() {
            return &["Pending"];
        }
        let named = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
        if reference.is_null() {
            return &["Available"];
        }
        let claim = self.store.get(&("ipaddressclaims", named("namespace"), named("name")));
        let retained = address["spec"]["reclaimPolicy"] == "Retain";
        match (claim, named("uid")) {
            // What goes and does not is found elsewhere; meanwhile its own are as they were.
            (Some(claim), _) if is_deleting(claim) => {
                &["Pending", "Available", "Bound", "Released"]
            }
            // Completed, or nobody's.
            (Some(_), uid) if uid.is_empty() => &[],
            (Some(claim), uid) if text(claim, "uid") == uid => &["Bound"],
            (_, uid) if !uid.is_empty() || self.reservations > GRACE => {
                if retained {
                    &["Released"]
                } else {
                    &[]
                }
            }
            // Before the time is up, one that was released for its last claim says so still.
            (_, _) => &["Pending", "Released"],
        }
    }
}

fn ip(address: &Value) -> Option<IpAddr> {
    address["spec"]["address"].as_str()?.parse().ok()
}

fn family(address: &Value) -> &'static str {
    match ip(address) {
        Some(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_none() => "IPv6",
        _ => "IPv4",
    }
}
