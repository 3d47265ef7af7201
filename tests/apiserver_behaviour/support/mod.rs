//! A corner of the cluster with the controller running, and what is done and looked at in it.

mod controller;
mod history;
mod look;

use std::{
    ops::Deref,
    sync::atomic::{AtomicU32, Ordering},
};

use address_controller::api::{AddressPhase, ClaimPhase, IPAddress, IPAddressClaim};
use kube::{
    Resource,
    api::{Api, DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use testbed::{
    Sandbox, eventually,
    history::{Bookmark, Source},
    make,
    wait::BOUNDED,
};

pub(crate) use controller::{CONTROLLER, FUTURE_FIELD};
pub(crate) use look::{bound_because, condition, held_by, phase_of, shown, stamp, uid};

/// A sandbox in which the controller works, with IPs that no other test uses.
pub(crate) struct Corner {
    sandbox: Sandbox,
    number: u32,
    source: Source,
    before: Bookmark,
    ended: bool,
}

impl Deref for Corner {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl Corner {
    /// A corner for the test of this name, with the class `public`.
    pub(crate) async fn new(test: &str) -> Self {
        let corner = Self::bare(test).await;
        corner.class("public").await.unwrap();
        // Seen by the controller: whoever comes before it is told that there is no such class.
        corner.claim("before", "public").await.unwrap();
        let resolved = |c: &IPAddressClaim| c.status.iter().any(|s| s.class_name.is_some());
        corner.claim_when("before", "of a class that is seen", resolved).await;
        corner.delete_claim("before").await;
        corner.claim_gone("before").await;
        corner
    }

    /// A corner without a class.
    pub(crate) async fn bare(test: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let sandbox = Sandbox::new(test).await.unwrap();
        CONTROLLER.get_or_init(controller::start).await;
        let source = Source::of(sandbox.controlplane());
        let before = source.bookmark().await.unwrap();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self { sandbox, number, source, before, ended: false }
    }

    /// An IPv4 address of this corner. Two tests with one IP would be each other's duplicates.
    pub(crate) fn v4(&self, n: u8) -> String {
        format!("10.{}.{}.{n}", self.number / 256, self.number % 256)
    }

    /// An IPv6 address of this corner.
    pub(crate) fn v6(&self, n: u8) -> String {
        format!("2001:db8:{:x}::{n:x}", self.number)
    }

    /// Free addresses `a1`, `a2`, … of the class `public`, all IPv4, once the controller knows that
    /// they are `Available`.
    pub(crate) async fn free(&self, count: u8) {
        for n in 1..=count {
            self.address(&format!("a{n}"), "public", &self.v4(n)).await.unwrap();
        }
        for n in 1..=count {
            self.address_is(&format!("a{n}"), AddressPhase::Available).await;
        }
        // That the controller wrote it does not say that it has read the answer.
        self.seen_to().await;
    }

    /// The free address `a1` and the claim `web`, bound to each other.
    pub(crate) async fn bound(&self) -> (IPAddress, IPAddressClaim) {
        self.free(1).await;
        self.claim("web", "public").await.unwrap();
        self.bound_to("web", "a1").await
    }

    /// An address of the class `public`, with whatever else it is to have.
    pub(crate) fn new_address(&self, short: &str, ip: &str) -> IPAddress {
        make::address(&self.name(short), &self.name("public"), ip)
    }

    /// A claim for the class `public`, with whatever else it is to have.
    pub(crate) fn new_claim(&self, name: &str) -> IPAddressClaim {
        make::claim(self.namespace(), name, &self.name("public"))
    }

    /// Edits a claim, as its tenant.
    pub(crate) async fn edit_claim(&self, name: &str, body: Value) -> IPAddressClaim {
        edit(&self.claims(), name, body).await
    }

    /// Edits an address, as an administrator.
    pub(crate) async fn edit_address(&self, short: &str, body: Value) -> IPAddress {
        edit(&self.addresses(), &self.name(short), body).await
    }

    /// Edits a class, as an administrator.
    pub(crate) async fn edit_class(&self, short: &str, body: Value) {
        edit(&self.classes(), &self.name(short), body).await;
    }

    /// Writes an address's status, as its driver.
    pub(crate) async fn driver_says(&self, short: &str, status: Value) -> IPAddress {
        let patch = Patch::Merge(json!({ "status": status }));
        let api = self.addresses();
        api.patch_status(&self.name(short), &PatchParams::default(), &patch).await.unwrap()
    }

    /// Asks for a claim's deletion.
    pub(crate) async fn delete_claim(&self, name: &str) {
        self.claims().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Asks for an address's deletion.
    pub(crate) async fn delete_address(&self, short: &str) {
        self.addresses().delete(&self.name(short), &DeleteParams::default()).await.unwrap();
    }

    /// Takes an address away, finalizers or not.
    pub(crate) async fn destroy_address(&self, short: &str) {
        self.delete_address(short).await;
        self.edit_address(short, json!({ "metadata": { "finalizers": null } })).await;
        self.address_gone(short).await;
    }

    /// Looks at a claim without waiting.
    pub(crate) async fn see_claim(&self, name: &str) -> IPAddressClaim {
        self.claims().get(name).await.unwrap()
    }

    /// Looks at an address without waiting.
    pub(crate) async fn see_address(&self, short: &str) -> IPAddress {
        self.addresses().get(&self.name(short)).await.unwrap()
    }

    /// Waits until a claim is as said.
    pub(crate) async fn claim_when(
        &self,
        name: &str,
        what: &str,
        is: impl Fn(&IPAddressClaim) -> bool,
    ) -> IPAddressClaim {
        when(&self.claims(), name, what, is).await
    }

    /// Waits until an address is as said.
    pub(crate) async fn address_when(
        &self,
        short: &str,
        what: &str,
        is: impl Fn(&IPAddress) -> bool,
    ) -> IPAddress {
        when(&self.addresses(), &self.name(short), what, is).await
    }

    /// Waits until a claim is in a phase.
    pub(crate) async fn claim_is(&self, name: &str, phase: ClaimPhase) -> IPAddressClaim {
        let is = |c: &IPAddressClaim| c.status.as_ref().and_then(|s| s.phase) == Some(phase);
        self.claim_when(name, phase.as_str(), is).await
    }

    /// Waits until an address is in a phase.
    pub(crate) async fn address_is(&self, short: &str, phase: AddressPhase) -> IPAddress {
        self.address_when(short, phase.as_str(), |a| phase_of(a) == Some(phase)).await
    }

    /// Waits until a claim and an address are bound to each other and both say so.
    pub(crate) async fn bound_to(&self, claim: &str, short: &str) -> (IPAddress, IPAddressClaim) {
        let name = self.name(short);
        let bound = format!("bound to {short}");
        let claim = self
            .claim_when(claim, &bound, |c| {
                c.status.as_ref().and_then(|s| s.phase) == Some(ClaimPhase::Bound)
                    && shown(c).contains(&name)
            })
            .await;
        let address = self.address_is(short, AddressPhase::Bound).await;
        assert_eq!(held_by(&address), uid(&claim));
        (address, claim)
    }

    /// Waits until a claim waits, with a message that contains each of these.
    pub(crate) async fn waits_because(&self, name: &str, parts: &[&str]) -> IPAddressClaim {
        let what = format!("Pending because {parts:?}");
        let because = |c: &IPAddressClaim| {
            let said = bound_because(c);
            c.status.as_ref().and_then(|s| s.phase) == Some(ClaimPhase::Pending)
                && parts.iter().all(|p| said.contains(p))
        };
        self.claim_when(name, &what, because).await
    }

    /// Waits until there is no such claim.
    pub(crate) async fn claim_gone(&self, name: &str) {
        gone(&self.claims(), name).await;
    }

    /// Waits until there is no such address.
    pub(crate) async fn address_gone(&self, short: &str) {
        gone(&self.addresses(), &self.name(short)).await;
    }

    /// Waits until the controller has seen to everything that was written before. It learns of
    /// each kind's changes in their order and begins passes in that order, so what is made here of
    /// each kind is seen to last. Gives the claim that was made.
    pub(crate) async fn seen_to(&self) -> IPAddressClaim {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let fence = format!("fence-{number}");
        let ip = format!("2001:db8:ffff::{number:x}");
        self.create(&make::address(&self.name(&fence), "fence", &ip)).await.unwrap();
        self.claim(&fence, &fence).await.unwrap();
        self.claim_is(&fence, ClaimPhase::Pending).await;
        self.class(&fence).await.unwrap();
        self.address_is(&fence, AddressPhase::Available).await;
        self.claim_when(&fence, "stamped", |c| stamp(c).is_some()).await
    }
}

impl Drop for Corner {
    fn drop(&mut self) {
        if std::thread::panicking() {
            controller::show_log(self.sandbox.namespace());
        } else {
            assert!(self.ended, "a test ends with Corner::end");
        }
    }
}

/// Whether an object is one of those that [`Corner::seen_to`] makes.
pub(crate) fn is_fence(name: &str) -> bool {
    name.contains("fence-")
}

async fn edit<K>(api: &Api<K>, name: &str, body: Value) -> K
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(body)).await.unwrap()
}

async fn when<K>(api: &Api<K>, name: &str, what: &str, is: impl Fn(&K) -> bool) -> K
where
    K: Resource + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    eventually(BOUNDED, &format!("{name} to be {what}"), || async {
        let object = api.get(name).await.map_err(|e| e.to_string())?;
        if is(&object) { Ok(object) } else { Err(serde_json::to_string(&object).unwrap()) }
    })
    .await
}

async fn gone<K>(api: &Api<K>, name: &str)
where
    K: Resource + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    eventually(BOUNDED, &format!("{name} to be gone"), || async {
        match api.get_opt(name).await.map_err(|e| e.to_string())? {
            None => Ok(()),
            Some(object) => Err(serde_json::to_string(&object).unwrap()),
        }
    })
    .await;
}
