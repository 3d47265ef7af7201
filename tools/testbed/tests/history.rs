//! A real history, read back: right and wrong writes by a client that introduces itself as the
//! controller, and what the checks make of them.

use address_controller::{
    api::{
        AddressPhase, IPAddress, IPAddressClaim,
        well_known::{ADDRESS_FINALIZER, CLAIM_FINALIZER, SELECTED_ADDRESSES_ANNOTATION},
    },
    binder::invariants::{Actor, Change, Object, Rule, Verb},
};
use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};
use testbed::{
    ControlPlane, Options,
    controlplane::ADMIN_TOKEN,
    history::{Actors, Effect, History, Scope, Source, check},
    make::{self, MakeAddress},
};

const AGENT: &str = "address-controller/0.1.0 (stand-in)";

fn addresses(client: &Client) -> Api<IPAddress> {
    Api::all(client.clone())
}

fn claims(client: &Client) -> Api<IPAddressClaim> {
    Api::namespaced(client.clone(), "t1")
}

/// A control plane with the two sides of the story: the stand-in for the controller, and everybody
/// else.
struct Stage {
    controlplane: ControlPlane,
    source: Source,
    controller: Client,
    others: Client,
}

impl Stage {
    async fn new() -> Result<Self> {
        let controlplane = ControlPlane::start(Options::default()).await?;
        controlplane.install_crds().await?;
        let others = controlplane.admin()?;
        let mut config = controlplane.config()?;
        config.auth_info.token = Some(ADMIN_TOKEN.to_owned().into());
        config.headers.retain(|(name, _)| name != http::header::USER_AGENT);
        config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(AGENT)));
        let controller = Client::try_from(config)?;
        let actors = Actors::default().agent("testbed", Actor::Administrator);
        let source = Source::of(&controlplane).with(actors);
        let stage = Self { controlplane, source, controller, others };
        let metadata = ObjectMeta { name: Some("t1".to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        Api::all(stage.others.clone()).create(&PostParams::default(), &namespace).await?;
        testbed::sandbox::create(&stage.others, &make::class("public")).await?;
        Ok(stage)
    }

    /// As the controller, on the version given.
    async fn write(&self, address: &IPAddress, body: Value) -> Result<IPAddress> {
        let body = on_version(body, address.resource_version());
        let api = addresses(&self.controller);
        let name = address.name_any();
        Ok(api.patch(&name, &PatchParams::default(), &Patch::Merge(body)).await?)
    }

    async fn write_phase(&self, address: &IPAddress, phase: AddressPhase) -> Result<IPAddress> {
        let body = on_version(json!({ "status": { "phase": phase } }), address.resource_version());
        let api = addresses(&self.controller);
        let name = address.name_any();
        Ok(api.patch_status(&name, &PatchParams::default(), &Patch::Merge(body)).await?)
    }

    async fn write_claim(&self, claim: &IPAddressClaim, body: Value) -> Result<IPAddressClaim> {
        let body = on_version(body, claim.resource_version());
        let api = claims(&self.controller);
        Ok(api.patch(&claim.name_any(), &PatchParams::default(), &Patch::Merge(body)).await?)
    }

    /// A claim and an address, bound and published as it should be.
    async fn bind(
        &self,
        claim: &str,
        address: &str,
        ip: &str,
    ) -> Result<(IPAddressClaim, IPAddress)> {
        let claim = self.claim(claim, address).await?;
        let new = make::address(address, "public", ip).delete_policy();
        let address = testbed::sandbox::create(&self.others, &new).await?;
        let address = self
            .write(&address, json!({ "metadata": { "finalizers": [ADDRESS_FINALIZER] } }))
            .await?;
        let address = self.write_phase(&address, AddressPhase::Available).await?;
        let address = self.write(&address, claim_ref(&claim)).await?;
        let address = self.write_phase(&address, AddressPhase::Bound).await?;
        let body = json!({ "status": { "phase": "Bound",
            "addresses": [{ "name": address.name_any(), "address": ip }] } });
        let body = on_version(body, claim.resource_version());
        let api = claims(&self.controller);
        let params = PatchParams::default();
        let claim = api.patch_status(&claim.name_any(), &params, &Patch::Merge(body)).await?;
        Ok((claim, address))
    }

    /// A claim with the finalizer and its choice.
    async fn claim(&self, name: &str, choice: &str) -> Result<IPAddressClaim> {
        let claim =
            testbed::sandbox::create(&self.others, &make::claim("t1", name, "public")).await?;
        let body = json!({ "metadata": { "finalizers": [CLAIM_FINALIZER],
            "annotations": { SELECTED_ADDRESSES_ANNOTATION: format!("IPv4={choice}") } } });
        self.write_claim(&claim, body).await
    }

    /// The reclaim of a bound pair with the policy `Delete`, as it should be.
    async fn reclaim(&self, claim: &IPAddressClaim, address: &IPAddress) -> Result<()> {
        let name = claim.name_any();
        claims(&self.others).delete(&name, &DeleteParams::default()).await?;
        let preconditions =
            Preconditions { uid: address.uid(), resource_version: address.resource_version() };
        let params = DeleteParams::default().preconditions(preconditions);
        let api = addresses(&self.controller);
        let left = api.delete(&address.name_any(), &params).await?.left();
        let left = left.context("our finalizer keeps it")?;
        let claim = claims(&self.controller).get(&name).await?;
        self.write_claim(&claim, json!({ "metadata": { "finalizers": null } })).await?;
        self.write(&left, json!({ "metadata": { "finalizers": null } })).await?;
        Ok(())
    }
}

fn on_version(mut body: Value, version: Option<String>) -> Value {
    body["metadata"]["resourceVersion"] = version.into();
    body
}

fn claim_ref(claim: &IPAddressClaim) -> Value {
    json!({ "spec": { "claimRef": {
        "namespace": "t1", "name": claim.name_any(), "uid": claim.uid() } } })
}

fn rules(history: &History) -> Vec<Rule> {
    let mut rules: Vec<_> = check(history).violations.iter().map(|v| v.rule).collect();
    rules.sort();
    rules.dedup();
    rules
}

/// `verb/subresource`, with `!` for a precondition on the version.
fn how(change: &Change) -> String {
    let Some(write) = &change.write else { return "?".to_owned() };
    let who = if matches!(change.actor, Some(Actor::Controller(_))) { "c" } else { "o" };
    let subresource = write.subresource.as_deref().map_or(String::new(), |s| format!("/{s}"));
    let fenced = if write.precondition.resource_version { "!" } else { "" };
    format!("{who}:{:?}{subresource}{fenced}", write.verb)
}

/// A right life of a claim and its address is read back commit by commit, and is clean.
async fn a_right_life(stage: &Stage) -> Result<()> {
    let (claim, address) = stage.bind("web", "a1", "192.0.2.1").await?;
    // Changes nothing, and is refused: neither is a commit, both are writes.
    stage.write_phase(&address, AddressPhase::Bound).await?;
    let refused = stage.write(&address.clone_with_version("1"), json!({})).await;
    assert!(refused.is_err(), "an old version");
    stage.reclaim(&claim, &address).await?;

    let history = stage.source.read().await?;
    let of = |name: &str| -> Vec<String> {
        history.changes.iter().filter(|c| c.object.name() == name).map(how).collect()
    };
    let status = "c:Patch/status!";
    assert_eq!(
        of("a1"),
        ["o:Create", "c:Patch!", status, "c:Patch!", status, "c:Delete!", "c:Patch!"]
    );
    assert_eq!(of("web"), ["o:Create", "c:Patch!", status, "o:Delete", "c:Patch!"]);
    assert_eq!(of("public"), ["o:Create"]);
    assert!(history.changes.is_sorted_by_key(|c| c.revision));
    assert!(history.changes.iter().all(|c| match &c.object {
        Object::Address(v) => v.new.is_some() || v.old.is_some(),
        Object::Class(_) | Object::Claim(_) => true,
        Object::Unreadable(_) => false,
    }));
    let report = check(&history);
    report.assert_clean();
    assert_eq!(report.counts.by_controller, 9);
    let writes = history.writes_by_controller(&Scope::everything());
    assert_eq!(writes.len(), 11, "with the one that changed nothing and the one refused");
    assert_eq!(writes.iter().filter(|w| w.request.effect == Effect::Refused).count(), 1);
    assert_eq!(history.writes_by_controller(&Scope::everything().namespace("t1")).len(), 3);
    assert_eq!(history.reads_by_controller(&Scope::everything()).len(), 1);
    Ok(())
}

trait CloneWithVersion {
    fn clone_with_version(&self, version: &str) -> Self;
}

impl CloneWithVersion for IPAddress {
    fn clone_with_version(&self, version: &str) -> Self {
        let mut clone = self.clone();
        clone.metadata.resource_version = Some(version.to_owned());
        clone
    }
}

/// Each wrong write is found, by its rule, in a history that begins in the middle.
async fn wrong_writes(stage: &Stage) -> Result<()> {
    let (_, address) = stage.bind("one", "b1", "192.0.2.11").await?;
    let before = stage.source.bookmark().await?;
    stage.write_phase(&address, AddressPhase::Released).await?;
    assert_eq!(rules(&stage.source.read_since(&before).await?), [Rule::I3]);

    let (claim, _) = stage.bind("two", "b2", "192.0.2.12").await?;
    let new = make::address("b3", "public", "192.0.2.13");
    let spare = testbed::sandbox::create(&stage.others, &new).await?;
    let spare = stage.write_phase(&spare, AddressPhase::Available).await?;
    stage
        .write_claim(
            &claim,
            json!({ "metadata": { "annotations": {
        SELECTED_ADDRESSES_ANNOTATION: "IPv4=b3" } } }),
        )
        .await?;
    let before = stage.source.bookmark().await?;
    let params = PatchParams::default();
    let unconditional = Patch::Merge(claim_ref(&claim));
    addresses(&stage.controller).patch(&spare.name_any(), &params, &unconditional).await?;
    // That the first was matched lies before the bookmark; that it was published does not matter
    // then, since the choice does too. So only the missing condition is found here,
    assert_eq!(rules(&stage.source.read_since(&before).await?), [Rule::I8]);
    // and the second match in the whole history.
    let whole = rules(&stage.source.read().await?);
    assert_eq!(whole, [Rule::I2, Rule::I3, Rule::I8]);

    let (_, address) = stage.bind("three", "b4", "192.0.2.14").await?;
    let before = stage.source.bookmark().await?;
    let api = addresses(&stage.controller);
    api.delete(&address.name_any(), &DeleteParams::default()).await?;
    let history = stage.source.read_since(&before).await?;
    assert_eq!(rules(&history), [Rule::I3, Rule::I8]);
    let verbs: Vec<_> = history
        .writes_by_controller(&Scope::everything().class("public"))
        .iter()
        .filter_map(|w| w.change.and_then(|c| c.write.as_ref()).map(|w| w.verb))
        .collect();
    assert_eq!(verbs, [Verb::Delete]);
    let report = check(&history);
    assert!(report.text().contains("> "), "the change is marked: {}", report.text());
    assert!(report.text().contains("deleted while live claim t1/three"), "{}", report.text());
    Ok(())
}

/// Deletions of others are joined too: of one without finalizers, and of a collection.
async fn deletions_by_others(stage: &Stage) -> Result<()> {
    let before = stage.source.bookmark().await?;
    for (name, finalizers) in [("d1", vec![]), ("d2", vec![]), ("d3", vec!["x.example.org/y"])] {
        let mut new = make::address(name, "other", "192.0.2.20");
        new.metadata.finalizers = Some(finalizers.into_iter().map(str::to_owned).collect());
        new.metadata.labels = Some([("in".to_owned(), "collection".to_owned())].into());
        testbed::sandbox::create(&stage.others, &new).await?;
    }
    let api = addresses(&stage.others);
    api.delete("d1", &DeleteParams::default()).await?;
    let collection = ListParams::default().labels("in=collection");
    api.delete_collection(&DeleteParams::default(), &collection).await?;
    let history = stage.source.read_since(&before).await?;
    assert_eq!(history.unattributed().count(), 0, "{}", check(&history).text());
    let deletions: Vec<_> = history
        .changes
        .iter()
        .filter_map(|c| Some((c.object.name().to_owned(), c.write.as_ref()?.verb)))
        .filter(|(_, verb)| *verb != Verb::Create)
        .collect();
    let of = |name: &str, verb| deletions.iter().filter(|d| **d == (name.to_owned(), verb)).count();
    assert_eq!(of("d1", Verb::Delete), 1);
    assert_eq!(of("d2", Verb::DeleteCollection) + of("d3", Verb::DeleteCollection), 2);
    Ok(())
}

/// A watch from far back answers with batches of a thousand revisions; these do not fit into what
/// gRPC takes as one message unless told otherwise.
async fn a_long_history(stage: &Stage) -> Result<()> {
    let before = stage.source.bookmark().await?;
    let ballast = "x".repeat(8_000);
    let creates = (0..1_200).map(|i| {
        let mut new = make::address(&format!("long-{i}"), "other", "192.0.2.30");
        new.metadata.annotations = Some([("ballast".to_owned(), ballast.clone())].into());
        let client = stage.others.clone();
        async move { testbed::sandbox::create(&client, &new).await.map(drop) }
    });
    stream::iter(creates).buffer_unordered(16).try_collect::<()>().await?;
    let history = stage.source.read_since(&before).await?;
    assert_eq!(history.changes.len() - before.existing(), 1_200);
    check(&history).assert_clean();
    Ok(())
}

#[tokio::test]
async fn a_real_history_is_read_back_and_judged() -> Result<()> {
    let stage = Stage::new().await?;
    a_right_life(&stage).await?;
    wrong_writes(&stage).await?;
    deletions_by_others(&stage).await?;
    a_long_history(&stage).await?;
    drop(stage.controlplane);
    Ok(())
}
