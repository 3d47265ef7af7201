//! Each rule, broken by hand and kept by hand: a check that cannot fire proves nothing.

mod address;
mod claim;
mod rest;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time},
    jiff::Timestamp,
};

use super::{
    Actor, Change, Checker, Object, Precondition, Rule, Unreadable, Verb, Versions, Violation,
    WriteFacts,
};
use crate::api::{
    AddressPhase, AddressSource, ClaimFamily, ClaimPhase, ClaimReference, ClaimedAddress,
    FromClass, IPAddress, IPAddressClaim, IPAddressClaimSpec, IPAddressClass, IPAddressClassSpec,
    IPAddressSpec, ReclaimPolicy,
    well_known::{
        ADDRESS_FINALIZER, CLAIM_FINALIZER, PROVISIONER_ANNOTATION, SELECTED_ADDRESSES_ANNOTATION,
    },
};

const FENCED: Precondition = Precondition { resource_version: true, uid: true };

/// The author whose writes are judged.
fn controller() -> Actor {
    Actor::Controller("address-controller/one".to_owned())
}

fn time() -> Time {
    Time(Timestamp::UNIX_EPOCH)
}

/// A step of a story, for tables of them.
type Step<'a> = &'a dyn Fn(&mut Story);

/// A history in the making. Claims live in namespace `t1`; the uid of claim `web` is `web-uid`.
struct Story {
    checker: Checker,
    revision: u64,
    found: Vec<Violation>,
    precondition: Precondition,
}

impl Story {
    /// Class `public`, and nothing else.
    fn new() -> Self {
        let checker = Checker::new();
        let mut story = Self { checker, revision: 0, found: Vec::new(), precondition: FENCED };
        story.class("public");
        story
    }

    /// Class `public`, claim `web`, protected and with its choice of `a1` on record, and `a1` free.
    fn selected() -> Self {
        let mut story = Self::new();
        story.claim(&Actor::Tenant, "web", |_| {});
        story.claim(&controller(), "web", |c| select(c, "IPv4=a1"));
        story.address(&Actor::Administrator, "a1", |_| {});
        story
    }

    /// As [`Self::selected`], and `a1` is matched, `Bound` and published.
    fn bound() -> Self {
        let mut story = Self::selected();
        story.address(&controller(), "a1", hold("web"));
        story.address(&controller(), "a1", phase(AddressPhase::Bound));
        story.claim(&controller(), "web", |c| publish(c, &[("a1", "192.0.2.1")]));
        assert_eq!(story.rules(), [], "the prologue is right");
        story
    }

    fn commit(&mut self, object: Object, actor: Option<&Actor>, verb: Verb) {
        self.revision += 1;
        let write = WriteFacts { verb, precondition: self.precondition, subresource: None };
        let change =
            Change { revision: self.revision, object, actor: actor.cloned(), write: Some(write) };
        self.found.extend(self.checker.apply(&change));
    }

    fn class(&mut self, name: &str) {
        let new = class(name);
        self.commit(Object::Class(Versions::new(None, Some(new))), None, Verb::Create);
    }

    /// Creates the address, or changes it.
    fn address(&mut self, actor: &Actor, name: &str, edit: impl FnOnce(&mut IPAddress)) {
        let old = self.checker.world().address(name).cloned();
        let mut new = old.clone().unwrap_or_else(|| address(name));
        edit(&mut new);
        self.commit(Object::Address(Versions::new(old, Some(new))), Some(actor), Verb::Patch);
    }

    /// Creates the claim, or changes it.
    fn claim(&mut self, actor: &Actor, name: &str, edit: impl FnOnce(&mut IPAddressClaim)) {
        let old = self.checker.world().claim("t1", name).cloned();
        let mut new = old.clone().unwrap_or_else(|| claim(name));
        edit(&mut new);
        self.commit(Object::Claim(Versions::new(old, Some(new))), Some(actor), Verb::Patch);
    }

    fn address_gone(&mut self, actor: &Actor, name: &str) {
        let old = self.checker.world().address(name).cloned();
        self.commit(Object::Address(Versions::new(old, None)), Some(actor), Verb::Delete);
    }

    fn claim_gone(&mut self, actor: &Actor, name: &str) {
        let old = self.checker.world().claim("t1", name).cloned();
        self.commit(Object::Claim(Versions::new(old, None)), Some(actor), Verb::Patch);
    }

    /// The rules broken so far, each once.
    fn rules(&self) -> Vec<Rule> {
        let mut rules: Vec<_> = self.found.iter().map(|v| v.rule).collect();
        rules.sort();
        rules.dedup();
        rules
    }

    /// That exactly these rules were broken.
    #[track_caller]
    fn broke(&self, rules: &[Rule]) {
        assert_eq!(self.rules(), rules, "{:#?}", self.found);
    }

    /// That the world is at rest but for one thing, which its message names.
    #[track_caller]
    fn unrest(&self, part: &str) {
        let all = self.checker.world().at_rest();
        let texts: Vec<_> = all.iter().map(ToString::to_string).collect();
        assert!(texts.len() == 1 && texts[0].contains(part), "{part:?} in {texts:#?}");
    }

    /// That nothing is left to do.
    #[track_caller]
    fn rests(&self) {
        let all = self.checker.world().at_rest();
        assert!(all.is_empty() && self.found.is_empty(), "{all:#?} {:#?}", self.found);
    }
}

fn class(name: &str) -> IPAddressClass {
    let provisioner = "fake.example.org".to_owned();
    IPAddressClass::new(
        name,
        IPAddressClassSpec { provisioner, reclaim_policy: ReclaimPolicy::Retain, parameters: None },
    )
}

/// A free, protected address of class `public`; `a1` is `192.0.2.1`, and so on.
fn address(name: &str) -> IPAddress {
    let last: String = name.chars().filter(char::is_ascii_digit).collect();
    let mut address = IPAddress::new(
        name,
        IPAddressSpec {
            class_name: "public".to_owned(),
            address: format!("192.0.2.{last}"),
            reclaim_policy: ReclaimPolicy::Retain,
            claim_ref: None,
            source: AddressSource { from_class: Some(FromClass {}), provider_ref: None },
        },
    );
    address.metadata.finalizers = Some(vec![ADDRESS_FINALIZER.to_owned()]);
    phase(AddressPhase::Available)(&mut address);
    address
}

fn claim(name: &str) -> IPAddressClaim {
    let spec = IPAddressClaimSpec {
        class_name: Some("public".to_owned()),
        family: ClaimFamily::IPv4,
        address_name: None,
    };
    let mut claim = IPAddressClaim::new(name, spec);
    claim.metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("t1".to_owned()),
        uid: Some(format!("{name}-uid")),
        ..ObjectMeta::default()
    };
    claim
}

fn phase(phase: AddressPhase) -> impl FnOnce(&mut IPAddress) {
    move |a| a.status.get_or_insert_default().phase = Some(phase)
}

/// `claimRef` to the claim, in full.
fn hold(claim: &str) -> impl FnOnce(&mut IPAddress) {
    reference(claim, Some(format!("{claim}-uid")))
}

fn reference(claim: &str, uid: Option<String>) -> impl FnOnce(&mut IPAddress) {
    let reference = ClaimReference { namespace: "t1".to_owned(), name: claim.to_owned(), uid };
    move |a| a.spec.claim_ref = Some(reference)
}

fn deleting(meta: &mut ObjectMeta) {
    meta.deletion_timestamp = Some(time());
}

/// The finalizer, and a choice on record.
fn select(claim: &mut IPAddressClaim, selection: &str) {
    claim.metadata.finalizers = Some(vec![CLAIM_FINALIZER.to_owned()]);
    annotate(claim, SELECTED_ADDRESSES_ANNOTATION, selection);
}

fn stamp(claim: &mut IPAddressClaim) {
    annotate(claim, PROVISIONER_ANNOTATION, "fake.example.org");
}

fn annotate(claim: &mut IPAddressClaim, key: &str, value: &str) {
    let annotations = claim.metadata.annotations.get_or_insert_default();
    annotations.insert(key.to_owned(), value.to_owned());
}

/// The status of a claim that holds these, and nothing is missing.
fn publish(claim: &mut IPAddressClaim, addresses: &[(&str, &str)]) {
    let status = claim.status.get_or_insert_default();
    status.addresses = addresses
        .iter()
        .map(|(name, ip)| ClaimedAddress { name: (*name).to_owned(), address: (*ip).to_owned() })
        .collect();
    stand(claim, ClaimPhase::Bound, "Bound");
}

fn stand(claim: &mut IPAddressClaim, phase: ClaimPhase, reason: &str) {
    claim.status.get_or_insert_default().phase = Some(phase);
    let is = if phase == ClaimPhase::Bound { "True" } else { "False" };
    condition(claim, "Bound", is, reason);
}

fn condition(claim: &mut IPAddressClaim, kind: &str, is: &str, reason: &str) {
    let conditions = &mut claim.status.get_or_insert_default().conditions;
    conditions.retain(|c| c.type_ != kind);
    conditions.push(Condition {
        type_: kind.to_owned(),
        status: is.to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        last_transition_time: time(),
        observed_generation: Some(1),
    });
}

/// Others are not judged, whatever they do, and an unknown author is not accused.
#[test]
fn only_the_controller_is_judged() {
    for actor in [None, Some(Actor::Tenant), Some(Actor::Driver), Some(Actor::Other)] {
        let mut story = Story::bound();
        let mut taken = story.checker.world().address("a1").cloned();
        let old = taken.clone();
        taken.as_mut().map(hold("other"));
        let object = Object::Address(Versions::new(old, taken));
        story.commit(object, actor.as_ref(), Verb::Patch);
        story.broke(&[]);
    }
}

/// Classes are read, never written; nor is what cannot be read.
#[test]
fn writing_a_class_or_what_cannot_be_read() {
    let mut story = Story::new();
    let object = Object::Class(Versions::new(None, Some(class("other"))));
    story.commit(object, Some(&controller()), Verb::Create);
    story.broke(&[Rule::WhoWritesWhat]);

    let mut story = Story::new();
    let strange = Unreadable {
        kind: super::Kind::Address,
        namespace: None,
        name: "a1".to_owned(),
        exists: true,
    };
    story.commit(Object::Unreadable(strange.clone()), Some(&Actor::Driver), Verb::Update);
    story.broke(&[]);
    story.commit(Object::Unreadable(strange), Some(&controller()), Verb::Patch);
    story.broke(&[Rule::WhoWritesWhat]);
}

/// A violation says what, when and where, and what is wrong.
#[test]
fn a_violation_names_the_object_and_the_revision() {
    let mut story = Story::bound();
    story.address(&controller(), "a1", phase(AddressPhase::Released));
    let text = story.found[0].to_string();
    assert!(text.starts_with("I3 at revision 8: IPAddress a1: released while live claim t1/web"));
}
