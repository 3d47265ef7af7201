//! An administrator's pool of static addresses: filled while claims arrive, recycled, taken down.

use address_controller::api::{AddressPhase, IPAddress, IpFamily, parse_ip};
use fastrand::Rng;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{CLOUD, Hands, POOLS, SHELVES, is_code, shelf_name};
use crate::{
    chaos::pace::percent,
    make::{self, MakeAddress},
};

/// So many addresses of a class and a family are to be free.
const FREE: usize = 5;

/// Looks after the pool until the end.
pub(super) async fn run(client: Client, hands: Hands) {
    let mut pool = Pool { api: Api::all(client), hands };
    loop {
        if let Ok(addresses) = pool.api.list(&ListParams::default()).await {
            pool.fill(&addresses.items).await;
            pool.recycle(&addresses.items).await;
            pool.disturb(&addresses.items).await;
        }
        if !pool.hands.until.pause(&mut pool.hands.rng, 200..=500).await {
            return;
        }
    }
}

struct Pool {
    api: Api<IPAddress>,
    hands: Hands,
}

impl Pool {
    /// Makes addresses where few are free, and now and then where enough are: names anywhere
    /// among those that exist, smaller and larger.
    async fn fill(&mut self, addresses: &[IPAddress]) {
        let taken = |number: usize| addresses.iter().any(|a| a.name_any() == shelf_name(number));
        for class in POOLS {
            for family in [IpFamily::IPv4, IpFamily::IPv6] {
                let free = addresses.iter().filter(|a| is_free(a, class, family)).count();
                if free >= FREE && !percent(&mut self.hands.rng, 5) {
                    continue;
                }
                let vacant: Vec<_> = (0..SHELVES)
                    .filter(|n| class_of(*n) == class && family_of(*n) == family && !taken(*n))
                    .collect();
                if let Some(number) = self.hands.rng.choice(vacant) {
                    let address = address(number, &mut self.hands.rng);
                    if self.api.create(&PostParams::default(), &address).await.is_ok() {
                        self.hands.tally.add("static address created");
                    }
                }
            }
        }
    }

    /// What is released becomes somebody's again: by clearing the claimRef, or its uid alone, or
    /// as a new object.
    async fn recycle(&mut self, addresses: &[IPAddress]) {
        for address in addresses.iter().filter(|a| phase(a) == Some(AddressPhase::Released)) {
            if address.metadata.deletion_timestamp.is_some() || !percent(&mut self.hands.rng, 60) {
                continue;
            }
            let retire = address.spec.class_name == CLOUD;
            match self.hands.rng.u8(0..10) {
                0 => self.delete(address, "released address deleted").await,
                1..4 if retire => self.delete(address, "released address deleted").await,
                // A uid that was taken out waits for a claim of that name.
                4 => self.clear(address, json!({ "uid": null }), "uid cleared").await,
                _ => self.clear(address, Value::Null, "claimRef cleared").await,
            }
        }
    }

    /// Deletions of whatever is there, other policies, and the rude things that administrators do.
    async fn disturb(&mut self, addresses: &[IPAddress]) {
        let Some(address) = self.hands.rng.choice(addresses) else { return };
        match self.hands.rng.u16(0..1000) {
            0..40 => self.delete(address, "any address deleted").await,
            40..80 => {
                let policy = if self.hands.rng.bool() { "Retain" } else { "Delete" };
                let body = json!({ "spec": { "reclaimPolicy": policy } });
                self.patch(address, body, "address policy edited").await;
            }
            80..84 => {
                let body = json!({ "metadata": { "finalizers": null } });
                self.patch(address, body, "address force-deleted").await;
                let _ = self.api.delete(&address.name_any(), &DeleteParams::default()).await;
            }
            84..88 => {
                let body = json!({ "spec": { "claimRef": null } });
                self.patch(address, body, "claimRef taken from a live claim").await;
            }
            _ => {}
        }
    }

    async fn delete(&self, address: &IPAddress, what: &str) {
        let answer = self.api.delete(&address.name_any(), &DeleteParams::default()).await;
        if answer.is_ok() {
            self.hands.tally.add(what);
        }
    }

    /// On the version that was seen: an address may be somebody's again by now.
    async fn clear(&self, address: &IPAddress, claim_ref: Value, what: &str) {
        let version = address.resource_version();
        let body = json!({ "metadata": { "resourceVersion": version },
                           "spec": { "claimRef": claim_ref } });
        self.patch(address, body, what).await;
    }

    async fn patch(&self, address: &IPAddress, body: Value, what: &str) {
        let name = address.name_any();
        let answer = self.api.patch(&name, &PatchParams::default(), &Patch::Merge(body)).await;
        if answer.is_ok() {
            self.hands.tally.add(what);
        } else if is_code(&answer, 409) {
            self.hands.tally.add("administrator met a conflict");
        }
    }
}

fn phase(address: &IPAddress) -> Option<AddressPhase> {
    address.status.as_ref().and_then(|s| s.phase)
}

fn is_free(address: &IPAddress, class: &str, family: IpFamily) -> bool {
    address.spec.class_name == class
        && phase(address) == Some(AddressPhase::Available)
        && parse_ip(&address.spec.address).ok().map(IpFamily::of) == Some(family)
}

fn class_of(number: usize) -> &'static str {
    POOLS[usize::from((number / 2).is_multiple_of(3))]
}

fn family_of(number: usize) -> IpFamily {
    if number.is_multiple_of(2) { IpFamily::IPv4 } else { IpFamily::IPv6 }
}

/// The address on a shelf: one of a few IPs of its own, rarely one that its neighbour may have.
fn address(number: usize, rng: &mut Rng) -> IPAddress {
    let life = rng.u8(1..6);
    let (shelf, strange) =
        if percent(rng, 3) { (number.max(6) - 6, true) } else { (number, false) };
    let ip = match (family_of(number), strange) {
        (IpFamily::IPv4, false) => format!("10.77.{shelf}.{life}"),
        (IpFamily::IPv4, true) => format!("::ffff:10.77.{shelf}.{life}"),
        (IpFamily::IPv6, false) => format!("2001:db8:77:{shelf:x}::{life:x}"),
        (IpFamily::IPv6, true) => format!("2001:DB8:77:{shelf:X}:0:0:0:{life:X}"),
    };
    let address = make::address(&shelf_name(number), class_of(number), &ip);
    if percent(rng, 30) { address.delete_policy() } else { address }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is drawn is one IP of the shelf's family, and both classes have both families.
    #[test]
    fn every_shelf_has_an_address_of_its_family() {
        let mut rng = Rng::with_seed(1);
        let mut seen = std::collections::BTreeSet::new();
        for number in (0..SHELVES).cycle().take(SHELVES * 20) {
            let address = address(number, &mut rng);
            let ip = parse_ip(&address.spec.address).unwrap();
            assert_eq!(IpFamily::of(ip), family_of(number), "{}", address.spec.address);
            seen.insert((class_of(number), family_of(number).as_str()));
        }
        assert_eq!(seen.len(), 4);
    }
}
