//! Classes: the default moves, is missing, or is doubled; one is deleted and made again.

use address_controller::api::{
    IPAddressClass, ReclaimPolicy, well_known::DEFAULT_CLASS_ANNOTATION,
};
use anyhow::Result;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{BEGIN, CLOUD, Hands, POOLS, PROVISIONER};
use crate::{
    make::{self, MakeClass},
    wait::try_eventually,
};

/// Makes the classes that there are.
pub(super) async fn begin(client: &Client) -> Result<()> {
    let api = Api::all(client.clone());
    for class in [
        make::class(POOLS[0]).default_class(),
        make::class(POOLS[1]),
        make::class(CLOUD).provisioner(PROVISIONER),
    ] {
        let params = PostParams::default();
        try_eventually(BEGIN, "a class", || api.create(&params, &class)).await?;
    }
    Ok(())
}

/// Edits, deletes and makes classes until the end; all of them are there then.
pub(super) async fn run(client: Client, mut hands: Hands) {
    let api: Api<IPAddressClass> = Api::all(client);
    while hands.until.pause(&mut hands.rng, 1_000..=4_000).await {
        match hands.rng.u8(0..10) {
            0..5 => default(&api, &mut hands).await,
            5..8 => policy(&api, &mut hands).await,
            _ => away(&api, &mut hands).await,
        }
    }
}

async fn default(api: &Api<IPAddressClass>, hands: &mut Hands) {
    let name = POOLS[hands.rng.usize(0..POOLS.len())];
    // Mostly there is one.
    let value = hands.rng.choice([Some("true"), Some("true"), Some("false"), None]).flatten();
    let body = json!({ "metadata": { "annotations": { DEFAULT_CLASS_ANNOTATION: value } } });
    if api.patch(name, &PatchParams::default(), &Patch::Merge(body)).await.is_ok() {
        hands.tally.add("default class set or taken");
    }
}

async fn policy(api: &Api<IPAddressClass>, hands: &mut Hands) {
    let policy = if hands.rng.bool() { ReclaimPolicy::Retain } else { ReclaimPolicy::Delete };
    let body = json!({ "spec": { "reclaimPolicy": policy } });
    if api.patch(CLOUD, &PatchParams::default(), &Patch::Merge(body)).await.is_ok() {
        hands.tally.add("class policy edited");
    }
}

/// Gone for a while, and back under the same name.
async fn away(api: &Api<IPAddressClass>, hands: &mut Hands) {
    let name = POOLS[1];
    if api.delete(name, &DeleteParams::default()).await.is_err() {
        return;
    }
    hands.tally.add("class deleted and made again");
    hands.until.pause(&mut hands.rng, 0..=3_000).await;
    let class = make::class(name);
    // Also when the end has come meanwhile: the pool must not starve for good.
    while !super::is_there(&api.create(&PostParams::default(), &class).await) {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
}
