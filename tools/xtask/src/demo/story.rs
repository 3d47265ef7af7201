//! The story: who does what, what becomes of it, and that it is so.

use address_controller::api::{
    AddressPhase, ClaimFamily, ClaimPhase, IPAddress, IPAddressClaim, IPAddressClass,
    ReclaimPolicy, well_known::PROVISIONER_ANNOTATION,
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use testbed::make::{self, MakeAddress, MakeClaim, MakeClass};

use super::{
    driver::PROVISIONER,
    voice::{Listing, expect, show, step},
};

const TENANT: &str = "team-a";

/// The addresses of the class `public`, by name.
const LAID_OUT: [(&str, &str); 6] = [
    ("public-v4-1", "203.0.113.11"),
    ("public-v4-2", "203.0.113.12"),
    ("public-v4-9", "203.0.113.19"),
    ("public-v6-1", "2001:db8:113::11"),
    ("public-v6-2", "2001:db8:113::12"),
    (RESERVED, "203.0.113.80"),
];

/// The one that is kept for a claim.
const RESERVED: &str = "shop-reserved";

fn names() -> impl Iterator<Item = &'static str> {
    LAID_OUT.into_iter().map(|(name, _)| name)
}

/// Tells it all.
///
/// # Errors
/// When something does not come true in time: what was expected and what was seen.
pub async fn tell(client: Client) -> Result<()> {
    let story = Story::new(client);
    story.an_administrator_offers_addresses().await?;
    story.claims_are_bound().await?;
    story.a_driver_provisions().await?;
    story.a_claim_waits().await?;
    story.a_retained_address_is_released().await?;
    story.a_provisioned_address_is_deleted().await?;
    story.a_released_address_is_recycled().await
}

/// The administrator and the tenant.
struct Story {
    client: Client,
    classes: Api<IPAddressClass>,
    addresses: Api<IPAddress>,
    claims: Api<IPAddressClaim>,
}

impl Story {
    fn new(client: Client) -> Self {
        Self {
            classes: Api::all(client.clone()),
            addresses: Api::all(client.clone()),
            claims: Api::namespaced(client.clone(), TENANT),
            client,
        }
    }

    async fn an_administrator_offers_addresses(&self) -> Result<()> {
        step("1. An administrator offers two classes, and lays out the addresses of the first.");
        let metadata = ObjectMeta { name: Some(TENANT.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        Api::all(self.client.clone()).create(&PostParams::default(), &namespace).await?;
        let public = make::class("public").default_class().provisioner("static.example.org");
        let mut cloud = make::class("cloud").provisioner(PROVISIONER);
        cloud.spec.reclaim_policy = ReclaimPolicy::Delete;
        for class in [public, cloud] {
            self.classes.create(&PostParams::default(), &class).await?;
        }
        for (name, ip) in LAID_OUT {
            let address = make::address(name, "public", ip);
            let address = match name {
                RESERVED => address.reserved_for(TENANT, "shop"),
                _ => address,
            };
            self.addresses.create(&PostParams::default(), &address).await?;
        }
        let free: Vec<_> = names().filter(|name| *name != RESERVED).collect();
        self.addresses_become(&free, AddressPhase::Available).await?;
        show(&self.client, Listing::Classes).await?;
        show(&self.client, Listing::Addresses).await
    }

    async fn claims_are_bound(&self) -> Result<()> {
        step(
            "2. A tenant claims: anything, one by name, one of each family, an IPv6, a reserved one.",
        );
        let claim = |name| make::claim(TENANT, name, "public");
        self.claim(make::claim(TENANT, "web", "").without_class()).await?;
        self.holds("web", &["203.0.113.11"]).await?;
        self.claim(claim("mail").pinned_to("public-v4-9")).await?;
        self.holds("mail", &["203.0.113.19"]).await?;
        self.claim(claim("gateway").family(ClaimFamily::Dual)).await?;
        self.holds("gateway", &["203.0.113.12", "2001:db8:113::11"]).await?;
        self.claim(claim("web-v6").family(ClaimFamily::IPv6)).await?;
        self.holds("web-v6", &["2001:db8:113::12"]).await?;
        self.claim(claim("shop")).await?;
        self.holds("shop", &["203.0.113.80"]).await?;
        self.addresses_become(&names().collect::<Vec<_>>(), AddressPhase::Bound).await?;
        show(&self.client, Listing::Claims).await?;
        show(&self.client, Listing::Addresses).await
    }

    async fn a_driver_provisions(&self) -> Result<()> {
        step("3. A claim of a class without addresses is stamped for its driver, which makes one.");
        self.claim(make::claim(TENANT, "api", "cloud")).await?;
        expect(&format!("api is stamped for {PROVISIONER}"), || async {
            let claim = self.claims.get("api").await?;
            let stamp = claim.annotations().get(PROVISIONER_ANNOTATION);
            ensure!(stamp.is_some_and(|s| s == PROVISIONER), "the stamp is {stamp:?}");
            Ok(())
        })
        .await?;
        self.holds("api", &["198.51.100.1"]).await?;
        show(&self.client, Listing::Claims).await
    }

    async fn a_claim_waits(&self) -> Result<()> {
        step("4. Nothing is left for the next claim. It waits, and says why.");
        self.claim(make::claim(TENANT, "late", "public")).await?;
        let message = expect("late is Pending, with a reason", || async {
            let claim = self.claims.get("late").await?;
            let status = claim.status.clone().unwrap_or_default();
            ensure!(status.phase == Some(ClaimPhase::Pending), "its status is {status:?}");
            let bound = status.conditions.into_iter().find(|c| c.type_ == "Bound");
            let bound = bound.filter(|c| c.message.contains("static.example.org"));
            bound.map(|c| c.message).context("its condition Bound does not name the provisioner")
        })
        .await?;
        println!("    \"{message}\"");
        Ok(())
    }

    async fn a_retained_address_is_released(&self) -> Result<()> {
        step(
            "5. web is deleted. Its address is Retained: Released, and nobody else's, also while late waits.",
        );
        self.claims.delete("web", &DeleteParams::default()).await?;
        self.is_gone("web").await?;
        self.addresses_become(&["public-v4-1"], AddressPhase::Released).await?;
        let late = self.claims.get("late").await?;
        let phase = late.status.and_then(|status| status.phase);
        ensure!(phase == Some(ClaimPhase::Pending), "late waits no more: it is {phase:?}");
        println!("  and late still waits");
        show(&self.client, Listing::Addresses).await
    }

    async fn a_provisioned_address_is_deleted(&self) -> Result<()> {
        step("6. api is deleted. Its address goes with it, by the class's policy Delete.");
        self.claims.delete("api", &DeleteParams::default()).await?;
        self.is_gone("api").await?;
        expect("the address of api is deleted, and its driver has let it go", || async {
            let left = self.addresses.list(&ListParams::default()).await?;
            let left: Vec<_> = left
                .iter()
                .filter(|a| a.spec.class_name == "cloud")
                .map(ResourceExt::name_any)
                .collect();
            ensure!(left.is_empty(), "there still is {left:?}");
            Ok(())
        })
        .await?;
        Ok(())
    }

    async fn a_released_address_is_recycled(&self) -> Result<()> {
        step(
            "7. The administrator recycles the released address by clearing its claimRef; late gets it.",
        );
        let clear = serde_json::json!({ "spec": { "claimRef": null } });
        self.addresses.patch("public-v4-1", &PatchParams::default(), &Patch::Merge(clear)).await?;
        self.holds("late", &["203.0.113.11"]).await?;
        self.addresses_become(&["public-v4-1"], AddressPhase::Bound).await?;
        show(&self.client, Listing::Claims).await?;
        show(&self.client, Listing::Addresses).await
    }

    async fn claim(&self, claim: IPAddressClaim) -> Result<()> {
        self.claims.create(&PostParams::default(), &claim).await?;
        Ok(())
    }

    /// Expects a claim to be bound, and to show exactly these IPs.
    async fn holds(&self, claim: &str, ips: &[&str]) -> Result<()> {
        expect(&format!("{claim} is Bound to {}", ips.join(" and ")), || async {
            let status = self.claims.get(claim).await?.status.unwrap_or_default();
            let shown: Vec<_> = status.addresses.iter().map(|a| a.address.as_str()).collect();
            ensure!(
                status.phase == Some(ClaimPhase::Bound) && shown == ips,
                "its status is {status:?}"
            );
            Ok(())
        })
        .await
    }

    async fn addresses_become(&self, names: &[&str], phase: AddressPhase) -> Result<()> {
        let (verb, as_phase) = (if names.len() == 1 { "is" } else { "are" }, phase.as_str());
        expect(&format!("{} {verb} {as_phase}", names.join(", ")), || async {
            for name in names {
                let is = self.addresses.get(name).await?.status.and_then(|status| status.phase);
                ensure!(is == Some(phase), "the phase of {name} is {is:?}");
            }
            Ok(())
        })
        .await
    }

    /// Expects a deleted claim to be away, finalizer and all.
    async fn is_gone(&self, claim: &str) -> Result<()> {
        expect(&format!("{claim} is gone"), || async {
            let left = self.claims.get_opt(claim).await?;
            let left = left.map(|claim| claim.metadata.finalizers);
            ensure!(left.is_none(), "it is there with the finalizers {left:?}");
            Ok(())
        })
        .await
    }
}
