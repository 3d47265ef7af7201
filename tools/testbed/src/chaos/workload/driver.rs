//! A driver that is sometimes slow, sometimes does a thing twice, and changes its mind.
//!
//! It knows the controller by the stamp on claims alone, and writes what is a driver's to write.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use address_controller::api::{
    AddressPhase, ClaimReference, IPAddress, IPAddressClaim, IPAddressClass, IpFamily,
    ReclaimPolicy, parse_ip,
    well_known::{ADDRESS_FINALIZER, PROVISIONER_ANNOTATION},
};
use fastrand::Rng;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{CLOUD, Hands, PROVISIONER, is_there};
use crate::{
    chaos::pace::{Until, percent},
    make::{self, Make, MakeAddress},
};

/// What keeps an address until its backend is taken down.
const FINALIZER: &str = "chaos.example.org/teardown";

/// Serves claims and addresses until the end; has ideas of its own while `marking` goes on.
pub(super) async fn run(client: Client, hands: Hands, mut marking: Until) {
    let mut driver = Driver {
        claims: Api::all(client.clone()),
        addresses: Api::all(client.clone()),
        classes: Api::all(client),
        hands,
        known: BTreeSet::new(),
        due: Vec::new(),
        number: 0,
    };
    let mut marks = true;
    while driver.hands.until.pause(&mut driver.hands.rng, 150..=350).await {
        marks = marks && marking.wait(Duration::ZERO).await;
        if let Ok(claims) = driver.claims.list(&ListParams::default()).await {
            driver.learn(&claims.items);
        }
        driver.provision().await;
        if let Ok(addresses) = driver.addresses.list(&ListParams::default()).await {
            for address in &addresses.items {
                driver.tear_down(address).await;
                if marks {
                    driver.mark(address).await;
                }
            }
        }
    }
}

/// An address that is to be made.
struct Due {
    at: Instant,
    claim: ClaimReference,
    family: IpFamily,
    name: String,
}

struct Driver {
    claims: Api<IPAddressClaim>,
    addresses: Api<IPAddress>,
    classes: Api<IPAddressClass>,
    hands: Hands,
    /// The claims, by uid, and families that it has seen to.
    known: BTreeSet<(String, &'static str)>,
    due: Vec<Due>,
    /// Each address that it makes has another IP.
    number: u32,
}

impl Driver {
    /// Plans what stamped claims miss.
    fn learn(&mut self, claims: &[IPAddressClaim]) {
        for claim in claims {
            let stamp = claim.annotations().get(PROVISIONER_ANNOTATION);
            let deleting = claim.metadata.deletion_timestamp.is_some();
            if deleting || stamp.is_none_or(|stamp| stamp != PROVISIONER) {
                continue;
            }
            let uid = claim.uid().unwrap_or_default();
            for family in missing(claim) {
                if self.known.insert((uid.clone(), family.as_str())) {
                    self.plan(claim, &uid, family);
                }
            }
        }
    }

    fn plan(&mut self, claim: &IPAddressClaim, uid: &str, family: IpFamily) {
        let rng = &mut self.hands.rng;
        let times = if percent(rng, 5) { 2 } else { 1 };
        let with_uid = percent(rng, 60);
        for time in 0..times {
            let wait = match rng.u8(0..100) {
                0..50 => 0,
                50..95 => rng.u64(0..2_500),
                _ => rng.u64(4_000..10_000),
            };
            let short = uid.split('-').next().unwrap_or_default();
            self.due.push(Due {
                at: Instant::now() + Duration::from_millis(wait),
                claim: ClaimReference {
                    namespace: claim.namespace().unwrap_or_default(),
                    name: claim.name_any(),
                    uid: with_uid.then(|| uid.to_owned()),
                },
                family,
                name: format!("d-{short}-{}-{time}", family.as_str().to_lowercase()),
            });
        }
    }

    /// Makes what is due, whatever has become of the claim meanwhile.
    async fn provision(&mut self) {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.due).into_iter().partition(|d| d.at <= now);
        self.due = later;
        let due: Vec<Due> = due;
        if due.is_empty() {
            return;
        }
        let class = self.classes.get(CLOUD).await.ok();
        let policy = class.map_or(ReclaimPolicy::Delete, |c| c.spec.reclaim_policy);
        for due in due {
            self.number += 1;
            let mut address = make::address(&due.name, CLOUD, &ip(due.family, self.number))
                .provider_ref(&due.name)
                .finalizer(FINALIZER);
            address.spec.reclaim_policy = policy;
            address.spec.claim_ref = Some(due.claim.clone());
            if is_there(&self.addresses.create(&PostParams::default(), &address).await) {
                self.hands.tally.add("driver's address created");
            } else {
                self.due.push(due);
            }
        }
    }

    /// Lets a deleted address go, after a pause, when the controller has.
    async fn tear_down(&mut self, address: &IPAddress) {
        let finalizers = address.finalizers();
        let has = |name: &str| finalizers.iter().any(|f| f == name);
        let waits = address.metadata.deletion_timestamp.is_none() || has(ADDRESS_FINALIZER);
        if waits || !has(FINALIZER) || !percent(&mut self.hands.rng, 40) {
            return;
        }
        let kept: Vec<_> = finalizers.iter().filter(|f| *f != FINALIZER).collect();
        let version = address.resource_version();
        let body = json!({ "metadata": { "finalizers": kept, "resourceVersion": version } });
        let name = address.name_any();
        let params = PatchParams::default();
        if self.addresses.patch(&name, &params, &Patch::Merge(body)).await.is_ok() {
            self.hands.tally.add("driver let an address go");
        }
    }

    /// Says what became of an address at its backend, and takes it back some time later.
    async fn mark(&mut self, address: &IPAddress) {
        let phase = address.status.as_ref().and_then(|s| s.phase);
        let rng = &mut self.hands.rng;
        let (status, what) = match phase {
            Some(AddressPhase::Conflict | AddressPhase::Lost) if percent(rng, 8) => {
                (json!({ "phase": null }), "mark cleared")
            }
            Some(AddressPhase::Bound | AddressPhase::Available) => match rng.u16(0..1000) {
                0 => (json!({ "phase": "Conflict" }), "marked Conflict"),
                1 => (json!({ "phase": "Lost" }), "marked Lost"),
                2..4 => (associated(rng), "attached"),
                _ => return,
            },
            _ => return,
        };
        let body = Patch::Merge(json!({ "status": status }));
        let name = address.name_any();
        if self.addresses.patch_status(&name, &PatchParams::default(), &body).await.is_ok() {
            self.hands.tally.add(what);
        }
    }
}

fn associated(rng: &mut Rng) -> Value {
    let name = format!("lb-{}", rng.u8(0..10));
    json!({ "associatedTo": { "kind": "Service", "namespace": "team-a", "name": name } })
}

fn ip(family: IpFamily, number: u32) -> String {
    match family {
        IpFamily::IPv4 => std::net::Ipv4Addr::from(0x6440_0000 + number).to_string(),
        IpFamily::IPv6 => format!("2001:db8:100::{:x}:{:x}", number >> 16, number & 0xffff),
    }
}

/// The families that a claim asks for and does not show.
fn missing(claim: &IPAddressClaim) -> Vec<IpFamily> {
    let shown = claim.status.iter().flat_map(|s| &s.addresses);
    let held: Vec<_> = shown.filter_map(|a| parse_ip(&a.address).ok()).map(IpFamily::of).collect();
    claim.spec.family.wanted().iter().copied().filter(|f| !held.contains(f)).collect()
}
