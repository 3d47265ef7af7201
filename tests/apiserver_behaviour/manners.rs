//! What belongs to others survives everything that the controller writes.

use address_controller::api::{AddressPhase, IPAddress, IPAddressClaim};
use kube::{
    Api, Resource, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    core::ApiResource,
};
use serde_json::{Value, json};
use testbed::{eventually, wait::BOUNDED};

use crate::support::{Corner, FUTURE_FIELD};

/// The stored object, and not what this version of the API makes of it.
fn raw<K: Resource<DynamicType = ()>>(corner: &Corner, namespaced: bool) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<K>(&());
    if namespaced {
        Api::namespaced_with(corner.client(), corner.namespace(), &resource)
    } else {
        Api::all_with(corner.client(), &resource)
    }
}

/// What others write on an object: metadata, and a field that a later version of the API has.
async fn adorn(api: &Api<DynamicObject>, name: &str) {
    let adorned = json!({
        "metadata": {
            "labels": { "example.org/team": "blue" },
            "annotations": { "example.org/note": "ours" },
            "finalizers": ["example.org/slow"],
            "ownerReferences": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
                "uid": "00000000-0000-0000-0000-000000000001" }],
        },
        "spec": { FUTURE_FIELD: 42 },
    });
    // Until the definition with the field is served, it is dropped in silence.
    eventually(BOUNDED, "the field of the future to be stored", || async {
        let params = PatchParams::default();
        let stored = api.patch(name, &params, &Patch::Merge(adorned.clone())).await?;
        anyhow::ensure!(stored.data["spec"][FUTURE_FIELD] == 42);
        anyhow::Ok(())
    })
    .await;
}

#[track_caller]
fn still_adorned(object: &DynamicObject) {
    assert_eq!(object.labels()["example.org/team"], "blue");
    assert_eq!(object.annotations()["example.org/note"], "ours");
    assert!(object.finalizers().iter().any(|f| f == "example.org/slow"), "{object:?}");
    assert_eq!(object.owner_references().len(), 1);
    assert_eq!(object.data["spec"][FUTURE_FIELD], 42);
}

fn theirs() -> Value {
    json!({ "type": "Reachable", "status": "True", "reason": "Probed", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z" })
}

fn conditions(object: &DynamicObject) -> Vec<&Value> {
    let all = object.data["status"]["conditions"].as_array();
    all.into_iter().flatten().filter(|c| c["type"] == "Reachable").collect()
}

/// Through a whole life: free, bound, and released; waiting, bound, and being deleted.
#[tokio::test]
async fn what_others_wrote_survives() {
    let corner = Corner::new("manners").await;
    let (addresses, claims) =
        (raw::<IPAddress>(&corner, false), raw::<IPAddressClaim>(&corner, true));
    corner.claim("web", "public").await.unwrap();
    adorn(&claims, "web").await;
    corner.waits_because("web", &["is free"]).await;
    corner.address("a1", "public", "203.0.113.7/32").await.unwrap();
    corner.address("a2", "public", &corner.v4(2)).await.unwrap();
    let name = corner.name("a2");
    adorn(&addresses, &name).await;
    let mut status = json!({ "conditions": [theirs()] });
    status["associatedTo"] = json!({ "kind": "Service", "name": "front" });
    corner.driver_says("a2", status).await;
    corner.bound_to("web", "a2").await;
    still_adorned(&claims.get("web").await.unwrap());
    let bound = addresses.get(&name).await.unwrap();
    still_adorned(&bound);
    assert_eq!(conditions(&bound), [&theirs()]);
    assert_eq!(bound.data["status"]["associatedTo"]["name"], "front");
    assert_eq!(bound.data["spec"]["source"], json!({ "fromClass": {} }));

    corner.delete_claim("web").await;
    corner.address_is("a2", AddressPhase::Released).await;
    let released = addresses.get(&name).await.unwrap();
    still_adorned(&released);
    assert_eq!(conditions(&released), [&theirs()]);
    let ours = |c: &IPAddressClaim| c.finalizers().iter().any(|f| f.ends_with("/claim-protection"));
    corner.claim_when("web", "let go", |c| !ours(c)).await;
    still_adorned(&claims.get("web").await.unwrap());
    corner.edit_claim("web", json!({ "metadata": { "finalizers": null } })).await;
    corner.claim_gone("web").await;
    corner.end().await;
}

/// A condition of another type on a claim is kept beside ours.
#[tokio::test]
async fn a_foreign_condition_on_a_claim_survives() {
    let corner = Corner::new("conditions").await;
    corner.claim("web", "public").await.unwrap();
    let waiting = corner.waits_because("web", &["is free"]).await;
    let mut conditions = serde_json::to_value(waiting.status.unwrap().conditions).unwrap();
    conditions.as_array_mut().unwrap().insert(0, theirs());
    let patch = Patch::Merge(json!({ "status": { "conditions": conditions } }));
    corner.claims().patch_status("web", &PatchParams::default(), &patch).await.unwrap();
    corner.address("a1", "public", &corner.v4(1)).await.unwrap();
    let (_, claim) = corner.bound_to("web", "a1").await;
    let types: Vec<_> = claim.status.unwrap().conditions.into_iter().map(|c| c.type_).collect();
    assert_eq!(types, ["Reachable", "ClassResolved", "Bound"]);
    corner.end().await;
}
