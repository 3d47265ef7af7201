//! What is looked at on an object.

use address_controller::api::{
    AddressPhase, ConditionType, IPAddress, IPAddressClaim, well_known::PROVISIONER_ANNOTATION,
};
use k8s_openapi::{
    api::core::v1::Event as CoreEvent, apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{Api, Resource, ResourceExt, api::ListParams};
use testbed::{eventually, wait::BOUNDED};

use super::Corner;

/// The addresses that a claim shows, by name.
pub(crate) fn shown(claim: &IPAddressClaim) -> Vec<String> {
    let status = claim.status.clone().unwrap_or_default();
    status.addresses.into_iter().map(|a| a.name).collect()
}

/// The uid that an address's claimRef has.
pub(crate) fn held_by(address: &IPAddress) -> Option<String> {
    address.spec.claim_ref.as_ref().and_then(|r| r.uid.clone())
}

/// The uid of a claim.
pub(crate) fn uid(claim: &IPAddressClaim) -> Option<String> {
    claim.uid()
}

/// The phase of an address.
pub(crate) fn phase_of(address: &IPAddress) -> Option<AddressPhase> {
    address.status.as_ref().and_then(|s| s.phase)
}

/// The stamp on a claim.
pub(crate) fn stamp(claim: &IPAddressClaim) -> Option<&str> {
    claim.annotations().get(PROVISIONER_ANNOTATION).map(String::as_str)
}

/// A condition of a claim. Empty while there is none.
pub(crate) fn condition(claim: &IPAddressClaim, kind: ConditionType) -> Condition {
    let mut conditions = claim.status.iter().flat_map(|s| &s.conditions);
    let found = conditions.find(|c| c.type_ == kind.as_str());
    found.cloned().unwrap_or_else(|| Condition {
        type_: kind.as_str().to_owned(),
        status: "Unknown".to_owned(),
        reason: String::new(),
        message: String::new(),
        observed_generation: None,
        last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            k8s_openapi::jiff::Timestamp::UNIX_EPOCH,
        ),
    })
}

/// The message of a claim's condition `Bound`.
pub(crate) fn bound_because(claim: &IPAddressClaim) -> String {
    condition(claim, ConditionType::Bound).message
}

impl Corner {
    /// The events about an object that have been published so far.
    pub(crate) async fn events(&self, about: &impl Resource) -> Vec<CoreEvent> {
        let namespace = about.namespace().unwrap_or_else(|| "default".to_owned());
        let events: Api<CoreEvent> = Api::namespaced(self.client(), &namespace);
        let uid = about.uid().unwrap();
        let own = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
        events.list(&own).await.unwrap().items
    }

    /// The events about an object with this reason, once there is one.
    pub(crate) async fn events_of(&self, about: &impl Resource, reason: &str) -> Vec<CoreEvent> {
        eventually(BOUNDED, &format!("{reason} of {}", about.name_any()), || async {
            let all = self.events(about).await;
            let seen: Vec<_> = all.iter().filter_map(|e| e.reason.clone()).collect();
            let some: Vec<_> =
                all.into_iter().filter(|e| e.reason.as_deref() == Some(reason)).collect();
            if some.is_empty() { Err(format!("only {seen:?}")) } else { Ok(some) }
        })
        .await
    }

    /// Waits until every event has been published that was said before: they are published one
    /// after the other, and what is made here is said last.
    pub(crate) async fn events_are_out(&self) {
        let last = self.seen_to().await;
        self.events_of(&last, "Pending").await;
    }
}
