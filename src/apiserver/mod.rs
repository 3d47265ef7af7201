//! Every request that passes make: one function for each, each write conditional, each answer
//! brought into the world at once, so that a replica reads its own writes.
//!
//! It decides nothing. What is written, and on which state, is handed in.

mod refusal;

use std::sync::Arc;

use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use self::refusal::Refusal;
use crate::{
    api::{IPAddress, IPAddressClaim, is_namespace_name, is_object_name, well_known::MANAGER},
    binder::{
        index::{Gone, Seen, Wakes},
        plan::Target,
        view::{AddressView, ClaimKey, ClaimView, Name},
    },
    telemetry::{Kind, Metrics, Status, Verb},
    watch::{Guarded, unparsed},
    world::{Learner, World, strange},
};

/// The part of an object that a patch is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Metadata and spec.
    Main,
    /// The status sub-resource.
    Status,
}

/// The API server, for passes.
#[derive(Clone)]
pub struct ApiServer {
    client: Client,
    world: Arc<World>,
    metrics: Arc<Metrics>,
    fence: Fence,
}

/// Whether this replica may write at this moment: asked before each write.
pub type Fence = Arc<dyn Fn() -> bool + Send + Sync>;

impl ApiServer {
    /// Requests go through the client, and what they bring goes into the world. No write is sent
    /// while `fence` says no.
    pub fn new(client: Client, world: Arc<World>, metrics: Arc<Metrics>, fence: Fence) -> Self {
        Self { client, world, metrics, fence }
    }

    fn fence(&self) -> Result<(), Refusal> {
        if (self.fence)() { Ok(()) } else { Err(Refusal::Fenced) }
    }

    /// Patches a claim that has this resourceVersion. Returns the one that it has then.
    ///
    /// # Errors
    /// [`Refusal`]; after [`Refusal::Unanswered`] the patch may have taken effect.
    pub async fn patch_claim(
        &self,
        key: &ClaimKey,
        version: &Name,
        part: Part,
        body: Value,
    ) -> Result<Name, Refusal> {
        self.fence()?;
        let api = Api::<Guarded<IPAddressClaim>>::namespaced(self.client.clone(), &key.namespace);
        let answer = patch(&api, &key.name, version, part, body).await;
        self.count_write(Kind::Claim, verb(part), &answer);
        let object = answer.map_err(|e| Refusal::of(&e))?;
        let version = version_of(&object);
        self.bring_claim(Learner::Claim(key), object);
        Ok(version)
    }

    /// Patches an address that is as the target says. Returns its next resourceVersion.
    ///
    /// # Errors
    /// As [`Self::patch_claim`].
    pub async fn patch_address(
        &self,
        learner: Learner<'_>,
        name: &Name,
        version: &Name,
        part: Part,
        body: Value,
    ) -> Result<Name, Refusal> {
        self.fence()?;
        let answer = patch(&self.addresses(), name, version, part, body).await;
        self.count_write(Kind::Address, verb(part), &answer);
        let object = answer.map_err(|e| Refusal::of(&e))?;
        let version = version_of(&object);
        self.bring_address(learner, object);
        Ok(version)
    }

    /// Deletes an address that is as the target says.
    ///
    /// # Errors
    /// As [`Self::patch_claim`].
    pub async fn delete_address(
        &self,
        learner: Learner<'_>,
        address: &Target,
    ) -> Result<(), Refusal> {
        self.fence()?;
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(address.uid.to_string()),
                resource_version: Some(address.version.to_string()),
            }),
            ..DeleteParams::default()
        };
        let answer = self.addresses().delete(&address.name, &parameters).await;
        self.count_write(Kind::Address, Verb::Delete, &answer);
        if let Some(object) = answer.map_err(|e| Refusal::of(&e))?.left() {
            self.bring_address(learner, object);
        } else {
            let gone = Gone::Object { uid: address.uid.clone() };
            self.world.learn(learner, |index, _| index.remove_address(&address.name, &gone));
        }
        Ok(())
    }

    /// Reads an address and brings in what is found, be it that it is gone. For what no address can
    /// be called, nobody is asked: it does not exist.
    ///
    /// # Errors
    /// [`Refusal::Denied`] or [`Refusal::Unanswered`]: nothing is known then.
    pub async fn read_address(&self, learner: Learner<'_>, name: &Name) -> Result<(), Refusal> {
        if !is_object_name(name) {
            return Ok(());
        }
        let known = match self.world.index().address(name) {
            Seen::Known(address) => Some(address.id.resource_version.clone()),
            Seen::Strange(address) => Some(address.resource_version.clone()),
            Seen::Absent => None,
        };
        let answer = self.addresses().get(name).await;
        self.metrics.read(Kind::Address, Status::of(&answer));
        match answer.map_err(|e| Refusal::of(&e)) {
            Ok(object) => self.bring_address(learner, object),
            Err(Refusal::Absent) => {
                if let Some(version) = known {
                    let gone = Gone::AsOf { version };
                    self.world.learn(learner, |index, _| index.remove_address(name, &gone));
                }
            }
            Err(refusal) => return Err(refusal),
        }
        Ok(())
    }

    /// Reads a claim and brings in what is found, be it that it is gone; as [`Self::read_address`].
    ///
    /// # Errors
    /// As [`Self::read_address`].
    pub async fn read_claim(&self, learner: Learner<'_>, key: &ClaimKey) -> Result<(), Refusal> {
        if !(is_namespace_name(&key.namespace) && is_object_name(&key.name)) {
            return Ok(());
        }
        let known = match self.world.index().claim(key) {
            Seen::Known(claim) => Some(claim.id.resource_version.clone()),
            Seen::Strange(claim) => Some(claim.resource_version.clone()),
            Seen::Absent => None,
        };
        let api = Api::<Guarded<IPAddressClaim>>::namespaced(self.client.clone(), &key.namespace);
        let answer = api.get(&key.name).await;
        self.metrics.read(Kind::Claim, Status::of(&answer));
        match answer.map_err(|e| Refusal::of(&e)) {
            Ok(object) => self.bring_claim(learner, object),
            Err(Refusal::Absent) => {
                if let Some(version) = known {
                    let gone = Gone::AsOf { version };
                    self.world.learn(learner, |index, _| index.remove_claim(key, &gone));
                }
            }
            Err(refusal) => return Err(refusal),
        }
        Ok(())
    }

    fn addresses(&self) -> Api<Guarded<IPAddress>> {
        Api::all(self.client.clone())
    }

    /// An answer is about a moment in the past: the watch may have told of the object's end since.
    fn bring_address(&self, learner: Learner<'_>, object: Guarded<IPAddress>) {
        let version = version_of(&object);
        let name = Name::from(object.name_any());
        self.world.learn(learner, |index, moment| match object {
            _ if index.is_address_over(&name, &version) => Wakes::default(),
            Guarded::Parsed(address) => index.apply_address(AddressView::from(&address), moment),
            Guarded::Unparsed(object) => index.strange_address(&name, strange(&unparsed(*object))),
        });
    }

    fn bring_claim(&self, learner: Learner<'_>, object: Guarded<IPAddressClaim>) {
        let version = version_of(&object);
        let key = ClaimKey::new(&object.namespace().unwrap_or_default(), &object.name_any());
        self.world.learn(learner, |index, _| match object {
            _ if index.is_claim_over(&key, &version) => Wakes::default(),
            Guarded::Parsed(claim) => index.apply_claim(ClaimView::from(&claim)),
            Guarded::Unparsed(object) => index.strange_claim(&key, strange(&unparsed(*object))),
        });
    }

    fn count_write<T>(&self, kind: Kind, verb: Verb, answer: &kube::Result<T>) {
        let status = Status::of(answer);
        self.metrics.write(kind, verb, status);
        if status == Status::Conflict {
            self.metrics.conflict(kind);
        }
    }
}

fn verb(part: Part) -> Verb {
    match part {
        Part::Main => Verb::Patch,
        Part::Status => Verb::PatchStatus,
    }
}

fn version_of<K: Resource>(object: &K) -> Name {
    object.meta().resource_version.as_deref().unwrap_or_default().into()
}

/// A merge patch with the resourceVersion in it: the API server answers 409 when it is another.
async fn patch<K: Resource + Clone + DeserializeOwned + std::fmt::Debug>(
    api: &Api<K>,
    name: &str,
    version: &Name,
    part: Part,
    mut body: Value,
) -> kube::Result<K> {
    body["metadata"]["resourceVersion"] = json!(version);
    let parameters =
        PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    match part {
        Part::Main => api.patch(name, &parameters, &Patch::Merge(&body)).await,
        Part::Status => api.patch_status(name, &parameters, &Patch::Merge(&body)).await,
    }
}

#[cfg(test)]
mod tests;
