//! Which class serves a claim.

use address_controller::api::{
    AddressPhase, ClaimPhase, ConditionType, IPAddressClaim, well_known::DEFAULT_CLASS_ANNOTATION,
};
use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;
use testbed::make::{self, MakeClaim, MakeClass, PROVISIONER};
use tokio::sync::Mutex;

use crate::support::{Corner, condition, stamp};

/// Which class is the default is the whole cluster's business: one test at a time.
static DEFAULTS: Mutex<()> = Mutex::const_new(());

fn resolved_to(claim: &IPAddressClaim) -> Option<&str> {
    claim.status.as_ref().and_then(|s| s.class_name.as_deref())
}

impl Corner {
    async fn default_class(&self, short: &str, is: bool) {
        let value = if is { json!("true") } else { json!(null) };
        let body = json!({ "metadata": { "annotations": { DEFAULT_CLASS_ANNOTATION: value } } });
        self.edit_class(short, body).await;
    }

    async fn unresolved(&self, claim: &str, reason: &str, parts: &[&str]) {
        self.claim_when(claim, &format!("{reason} {parts:?}"), |c| {
            let resolved = condition(c, ConditionType::ClassResolved);
            (&*resolved.status, &*resolved.reason) == ("False", reason)
                && parts.iter().all(|p| resolved.message.contains(p))
        })
        .await;
    }

    async fn resolved(&self, claim: &str, class: &str) -> IPAddressClaim {
        let class = self.name(class);
        self.claim_when(claim, &format!("resolved to {class}"), |c| {
            let resolved = condition(c, ConditionType::ClassResolved);
            (&*resolved.status, &*resolved.reason) == ("True", "Resolved")
                && resolved_to(c) == Some(&class)
        })
        .await
    }
}

#[tokio::test]
async fn a_claim_without_a_class_waits_for_the_one_default() {
    let _turn = DEFAULTS.lock().await;
    let corner = Corner::bare("default").await;
    for class in ["b", "a", "c"] {
        corner.class(class).await.unwrap();
    }
    let claim = corner.create(&corner.new_claim("web").without_class()).await.unwrap();
    corner.unresolved("web", "NoDefaultClass", &["no IPAddressClass is annotated"]).await;
    corner.events_of(&claim, "NoDefaultClass").await;

    corner.default_class("b", true).await;
    corner.resolved("web", "b").await;
    corner.default_class("a", true).await;
    corner.seen_to().await;
    let claim = corner.create(&corner.new_claim("api").without_class()).await.unwrap();
    let names = format!("{}, {}", corner.name("a"), corner.name("b"));
    corner.unresolved("api", "MultipleDefaultClasses", &[&names]).await;
    corner.events_of(&claim, "MultipleDefaultClasses").await;
    assert_eq!(stamp(&corner.see_claim("api").await), None, "no driver is asked by accident");

    corner.default_class("b", false).await;
    corner.resolved("api", "a").await;
    corner.default_class("a", false).await;
    corner.end().await;
}

/// The default moves; who has resolved to the old one stays there.
#[tokio::test]
async fn a_claim_keeps_the_default_that_it_resolved_to() {
    let _turn = DEFAULTS.lock().await;
    let corner = Corner::bare("sticky").await;
    for class in ["old", "new"] {
        corner.class(class).await.unwrap();
    }
    corner.default_class("old", true).await;
    corner.create(&corner.new_claim("web").without_class()).await.unwrap();
    corner.resolved("web", "old").await;
    corner.default_class("old", false).await;
    corner.default_class("new", true).await;
    corner.seen_to().await;
    corner.address("a1", "new", &corner.v4(1)).await.unwrap();
    corner.create(&corner.new_claim("api").without_class()).await.unwrap();
    corner.bound_to("api", "a1").await;
    corner.resolved("web", "old").await;
    corner.address("a2", "old", &corner.v4(2)).await.unwrap();
    corner.bound_to("web", "a2").await;
    corner.resolved("api", "new").await;
    corner.default_class("new", false).await;
    corner.end().await;
}

#[tokio::test]
async fn a_class_that_is_created_later_is_found() {
    let corner = Corner::bare("class-later").await;
    corner.free(1).await;
    let claim = corner.claim("web", "public").await.unwrap();
    corner.unresolved("web", "ClassNotFound", &[&corner.name("public"), "does not exist"]).await;
    corner.waits_because("web", &["IPv4 is missing", "the class is not resolved"]).await;
    corner.events_of(&claim, "ClassNotFound").await;
    corner.class("public").await.unwrap();
    corner.bound_to("web", "a1").await;
    corner.resolved("web", "public").await;
    corner.end().await;
}

/// A class that goes disturbs no binding: not a write.
#[tokio::test]
async fn a_class_deleted_while_its_claim_is_bound_changes_nothing() {
    let corner = Corner::new("class-deleted").await;
    corner.bound().await;
    corner.claim_when("web", "stamped", |c| stamp(c).is_some()).await;
    corner.classes().delete(&corner.name("public"), &DeleteParams::default()).await.unwrap();
    let claim = corner.see_claim("web").await;
    let touched = json!({ "metadata": { "annotations": { "example.org/touched": "1" } } });
    let touched = corner.edit_claim("web", touched).await;
    corner.seen_to().await;
    let after = corner.see_claim("web").await;
    assert_eq!(after.resource_version(), touched.resource_version(), "no write by the controller");
    assert_eq!(after.status, claim.status);
    assert_eq!(after.status.unwrap().phase, Some(ClaimPhase::Bound));
    corner.end().await;
}

/// Before it is bound, a claim follows its class: the stamp names the new class's driver.
#[tokio::test]
async fn the_stamp_follows_a_class_changed_before_binding() {
    let corner = Corner::new("retarget").await;
    let other = make::class(&corner.name("other")).provisioner("other.example.org");
    corner.create(&other).await.unwrap();
    corner.claim("web", "public").await.unwrap();
    corner.waits_because("web", &[PROVISIONER, "is asked to provision"]).await;
    corner.claim_when("web", "stamped", |c| stamp(c) == Some(PROVISIONER)).await;
    corner.edit_claim("web", json!({ "spec": { "className": corner.name("other") } })).await;
    corner.claim_when("web", "stamped anew", |c| stamp(c) == Some("other.example.org")).await;
    corner.resolved("web", "other").await;
    corner.waits_because("web", &["other.example.org is asked"]).await;
    corner.address("a1", "public", &corner.v4(1)).await.unwrap();
    corner.address("a2", "other", &corner.v4(2)).await.unwrap();
    corner.bound_to("web", "a2").await;
    corner.address_is("a1", AddressPhase::Available).await;
    corner.end().await;
}
