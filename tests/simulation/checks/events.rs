//! Events tell of changes, not of passes: there are never more of them than there was to tell.
//!
//! What is told of a write is told by who made it, at most once for each. What an address's pass finds
//! without writing is told once by each process, until it is over.

use std::{collections::BTreeMap, net::IpAddr};

use address_controller::telemetry::Note;
use serde_json::Value;

use crate::apiserver::{
    store::Commit,
    writes::{is_deleting, text},
};

/// What writes there are to be told of: a replica's, to an object by its uid, of a kind.
type Write = (String, String, &'static str);

/// What was told, and what there was to tell.
#[derive(Default)]
pub struct Events {
    writes: BTreeMap<Write, u64>,
    told: BTreeMap<Write, u64>,
    /// By process, object and note.
    notices: BTreeMap<(String, u32, String, String), u64>,
    /// How often an object with an IP came or went.
    by_ip: BTreeMap<IpAddr, u64>,
    /// The IP of each address, by its uid.
    ips: BTreeMap<String, IpAddr>,
    /// How often there was something new about the deletion of an address, by its uid.
    held: BTreeMap<String, u64>,
    /// How often a claim came, began to go, and went, by its name.
    claims: BTreeMap<String, u64>,
}

impl Events {
    /// Something was committed.
    pub fn saw(&mut self, commit: &Commit) {
        let nothing = Value::Null;
        let (old, new) =
            (commit.old.as_ref().unwrap_or(&nothing), commit.new.as_ref().unwrap_or(&nothing));
        match commit.key.0 {
            "ipaddressclaims" => self.claim(commit, old, new),
            "ipaddresses" => self.address(commit, old, new),
            _ => {}
        }
    }

    fn claim(&mut self, commit: &Commit, old: &Value, new: &Value) {
        if old.is_null() || new.is_null() || is_deleting(old) != is_deleting(new) {
            let (_, namespace, name) = &commit.key;
            *self.claims.entry(format!("{namespace}/{name}")).or_default() += 1;
        }
        if new.is_null() {
            return;
        }
        if old["status"]["phase"] != new["status"]["phase"] {
            self.wrote(commit, new, phase_event(&new["status"]["phase"]));
        }
        if old["status"]["addresses"] != new["status"]["addresses"] {
            self.wrote(commit, new, "Matched");
        }
        if class_reason(old) != class_reason(new) {
            self.wrote(commit, new, "class");
        }
    }

    fn address(&mut self, commit: &Commit, old: &Value, new: &Value) {
        let object = if new.is_null() { old } else { new };
        let uid = text(object, "uid").to_owned();
        let ip = object["spec"]["address"].as_str().and_then(|text| text.parse().ok());
        if let Some(ip) = ip.map(|ip: IpAddr| ip.to_canonical()) {
            if old.is_null() || new.is_null() {
                *self.by_ip.entry(ip).or_default() += 1;
            }
            self.ips.insert(uid.clone(), ip);
        }
        let (was, is) = (&old["status"]["phase"], &new["status"]["phase"]);
        if was != is || old["spec"]["claimRef"] != new["spec"]["claimRef"] {
            *self.held.entry(uid).or_default() += 1;
        }
        if was != is && *is == "Pending" {
            self.wrote(commit, object, "InvalidAddress");
        }
        let goes = is_deleting(new) || new.is_null();
        if was != is && *is == "Released" || goes && !is_deleting(old) {
            self.wrote(commit, object, "reclaim");
        }
    }

    fn wrote(&mut self, commit: &Commit, object: &Value, what: &'static str) {
        let write = (commit.by.clone(), text(object, "uid").to_owned(), what);
        *self.writes.entry(write).or_default() += 1;
    }

    /// A replica, in one of its lives, told something.
    pub fn told(&mut self, replica: &str, life: u32, note: &Note, found: &mut Vec<String>) {
        let uid = note.regarding.uid.clone().unwrap_or_default();
        let (told, allowed) = match note.reason {
            "DuplicateAddress" | "DeletionBlocked" => {
                let allowed = self.notices_of(note, &uid);
                let key = (replica.to_owned(), life, uid, note.note.clone());
                let told = self.notices.entry(key).or_default();
                *told += 1;
                (*told, allowed)
            }
            reason => {
                let what = match reason {
                    "AddressReleased" | "AddressDeleted" | "Reclaimed" => "reclaim",
                    "ClassNotFound" | "NoDefaultClass" | "MultipleDefaultClasses" => "class",
                    reason => reason,
                };
                let write = (format!("address-controller/{replica}"), uid, what);
                let allowed = self.writes.get(&write).copied().unwrap_or_default();
                let told = self.told.entry(write).or_default();
                *told += 1;
                (*told, allowed)
            }
        };
        if told > allowed {
            let Note { regarding, reason, note, .. } = note;
            let name = regarding.name.as_deref().unwrap_or_default();
            found.push(format!(
                "{replica} tells {reason} of {name} for the {told}. time, and there was cause for \
                 {allowed}: {note}"
            ));
        }
    }

    /// How often this may be told by one process at most: each time it was over, something came or
    /// went.
    fn notices_of(&self, note: &Note, uid: &str) -> u64 {
        if note.reason == "DuplicateAddress" {
            return self.ips.get(uid).and_then(|ip| self.by_ip.get(ip)).copied().unwrap_or(0);
        }
        let claim = note.note.split(' ').nth(1).unwrap_or_default();
        let of = |map: &BTreeMap<String, u64>, key: &str| map.get(key).copied().unwrap_or(0);
        of(&self.held, uid) + of(&self.claims, claim)
    }
}

fn phase_event(phase: &Value) -> &'static str {
    match phase.as_str() {
        Some("Bound") => "Bound",
        Some("Lost") => "Lost",
        _ => "Pending",
    }
}

fn class_reason(claim: &Value) -> Option<&str> {
    let conditions = claim["status"]["conditions"].as_array()?;
    conditions.iter().find(|c| c["type"] == "ClassResolved")?["reason"].as_str()
}
