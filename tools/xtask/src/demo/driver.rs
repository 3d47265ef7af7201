//! A driver, as small as one can be: it makes an address for each claim that is stamped for it, and
//! takes down what is deleted.
//!
//! Its backend is make-believe: numbers from a range, handed out in order. What it does in the
//! cluster is what any driver does: it knows the controller by the stamp on claims alone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use address_controller::api::{
    AddressSource, ClaimReference, IPAddress, IPAddressClaim, IPAddressClass, IPAddressSpec,
    IpFamily, ProviderRef, ReclaimPolicy, parse_ip,
    well_known::{ADDRESS_FINALIZER, PROVISIONER_ANNOTATION},
};
use futures::StreamExt;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    runtime::{
        Controller,
        controller::{self, Action},
        watcher,
    },
};

/// The name that classes and stamps know this driver by.
pub const PROVISIONER: &str = "demo.example.org";

/// What keeps an address until its backend is taken down.
const FINALIZER: &str = "demo.example.org/teardown";

/// How long a failed pass waits for its next try.
const AGAIN: Duration = Duration::from_secs(1);

/// The client, and the next number of the range.
struct Driver {
    client: Client,
    next: AtomicU8,
}

/// Serves claims and addresses until it is dropped.
pub async fn run(client: Client) {
    let driver = Arc::new(Driver { client: client.clone(), next: AtomicU8::new(1) });
    let claims: Api<IPAddressClaim> = Api::all(client.clone());
    let claims = Controller::new(claims, watcher::Config::default())
        .run(provision, |_, _, _| Action::requeue(AGAIN), Arc::clone(&driver))
        .for_each(report);
    let addresses: Api<IPAddress> = Api::all(client);
    let addresses = Controller::new(addresses, watcher::Config::default())
        .run(tear_down, |_, _, _| Action::requeue(AGAIN), driver)
        .for_each(report);
    futures::join!(claims, addresses);
}

/// Failures go to standard error; that an object goes away in between is none.
async fn report<T>(result: Result<T, controller::Error<kube::Error, watcher::Error>>) {
    match result {
        Ok(_) | Err(controller::Error::ObjectNotFound(_)) => {}
        Err(error) => eprintln!("the demo's driver: {error}"),
    }
}

/// Makes what a claim misses. Names follow from the claim, so a second try makes nothing twice.
async fn provision(claim: Arc<IPAddressClaim>, driver: Arc<Driver>) -> kube::Result<Action> {
    let stamped = claim.annotations().get(PROVISIONER_ANNOTATION);
    let class = claim.status.as_ref().and_then(|status| status.class_name.as_deref());
    let (Some(PROVISIONER), Some(class), None) =
        (stamped.map(String::as_str), class, &claim.metadata.deletion_timestamp)
    else {
        return Ok(Action::await_change());
    };
    let classes: Api<IPAddressClass> = Api::all(driver.client.clone());
    let addresses: Api<IPAddress> = Api::all(driver.client.clone());
    for family in missing(&claim) {
        let name = name_for(&claim, family);
        if addresses.get_opt(&name).await?.is_some() {
            continue;
        }
        let policy = classes.get(class).await?.spec.reclaim_policy;
        let number = driver.next.fetch_add(1, Ordering::Relaxed);
        let address = address(&claim, class, policy, family, number);
        addresses.create(&PostParams::default(), &address).await?;
    }
    Ok(Action::await_change())
}

/// The families that a claim asks for and does not show.
fn missing(claim: &IPAddressClaim) -> Vec<IpFamily> {
    let shown = claim.status.iter().flat_map(|status| &status.addresses);
    let held: Vec<_> = shown.filter_map(|a| parse_ip(&a.address).ok()).map(IpFamily::of).collect();
    claim.spec.family.wanted().iter().copied().filter(|family| !held.contains(family)).collect()
}

/// The same claim and family, the same name; another claim of that name has another.
fn name_for(claim: &IPAddressClaim, family: IpFamily) -> String {
    let uid = claim.uid().unwrap_or_default();
    let short = uid.split('-').next().unwrap_or_default();
    format!("{}-{}-{short}", claim.name_any(), family.as_str().to_lowercase())
}

/// The address for a claim: bound to it from the start, with its class's policy.
fn address(
    claim: &IPAddressClaim,
    class: &str,
    policy: ReclaimPolicy,
    family: IpFamily,
    number: u8,
) -> IPAddress {
    let ip = match family {
        IpFamily::IPv4 => format!("198.51.100.{number}"),
        IpFamily::IPv6 => format!("2001:db8:100::{number:x}"),
    };
    let spec = IPAddressSpec {
        class_name: class.to_owned(),
        address: ip,
        reclaim_policy: policy,
        claim_ref: Some(ClaimReference {
            namespace: claim.namespace().unwrap_or_default(),
            name: claim.name_any(),
            uid: claim.uid(),
        }),
        source: AddressSource {
            from_class: None,
            provider_ref: Some(ProviderRef { id: format!("demo-{number}") }),
        },
    };
    let mut address = IPAddress::new(&name_for(claim, family), spec);
    address.finalizers_mut().push(FINALIZER.to_owned());
    address
}

/// Lets a deleted address go, once no claim holds it any more and its backend is taken down.
async fn tear_down(address: Arc<IPAddress>, driver: Arc<Driver>) -> kube::Result<Action> {
    let finalizers = address.finalizers();
    let ours = finalizers.iter().any(|name| name == FINALIZER);
    let protected = finalizers.iter().any(|name| name == ADDRESS_FINALIZER);
    if address.metadata.deletion_timestamp.is_none() || !ours || protected {
        return Ok(Action::await_change());
    }
    // A real driver gives the IP back to its provider here.
    let kept: Vec<_> = finalizers.iter().filter(|name| *name != FINALIZER).collect();
    let patch = serde_json::json!({
        "metadata": { "finalizers": kept, "resourceVersion": address.resource_version() }
    });
    let addresses: Api<IPAddress> = Api::all(driver.client.clone());
    addresses.patch(&address.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(Action::await_change())
}

#[cfg(test)]
mod tests {
    use address_controller::api::{ClaimFamily, ClaimedAddress, IPAddressClaimStatus};
    use testbed::make::{self, MakeClaim};

    use super::*;

    fn claim(family: ClaimFamily, shown: &[&str]) -> IPAddressClaim {
        let mut claim = make::claim("team-a", "api", "cloud").family(family);
        claim.metadata.uid = Some("0a1b2c3d-4e5f".to_owned());
        let shown = shown.iter().map(|ip| (*ip).to_owned());
        let addresses = shown.map(|address| ClaimedAddress { name: "x".to_owned(), address });
        let status = IPAddressClaimStatus {
            addresses: addresses.collect(),
            ..IPAddressClaimStatus::default()
        };
        claim.status = Some(status);
        claim
    }

    #[test]
    fn only_the_families_that_a_claim_does_not_show_are_made() {
        assert_eq!(missing(&claim(ClaimFamily::IPv4, &[])), [IpFamily::IPv4]);
        assert_eq!(missing(&claim(ClaimFamily::Dual, &["198.51.100.1"])), [IpFamily::IPv6]);
        assert_eq!(missing(&claim(ClaimFamily::IPv6, &["2001:db8::1"])), []);
    }

    #[test]
    fn an_address_is_bound_to_its_claim_from_the_start() {
        let claim = claim(ClaimFamily::IPv4, &[]);
        let made = address(&claim, "cloud", ReclaimPolicy::Delete, IpFamily::IPv4, 7);
        assert_eq!(made.name_any(), "api-ipv4-0a1b2c3d");
        assert_eq!(made.spec.address, "198.51.100.7");
        assert_eq!(made.spec.reclaim_policy, ReclaimPolicy::Delete);
        let reference = made.spec.claim_ref.unwrap();
        assert_eq!(reference.uid, claim.uid());
        assert_eq!((&*reference.namespace, &*reference.name), ("team-a", "api"));
        assert_eq!(made.metadata.finalizers.unwrap(), [FINALIZER]);
    }
}
