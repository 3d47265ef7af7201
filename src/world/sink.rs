//! What the watches tell, brought into the index.

use kube::ResourceExt;

use super::{Learner, Own, World};
use crate::{
    api::{IPAddress, IPAddressClaim, IPAddressClass, parse_ip},
    binder::{
        index::{Gone, IndexedKind, Strange},
        view::{AddressView, ClaimKey, ClaimView, ClassView, Name},
    },
    watch::{Change, Unparsed},
};

impl World {
    /// Takes what the watch of classes tells.
    pub fn class_changed(&self, change: Change<IPAddressClass>) {
        self.told(IndexedKind::Class, &change);
        match change {
            Change::ListStarted => self.index().begin_list(IndexedKind::Class),
            Change::ListEnded => self.list_ended(IndexedKind::Class),
            Change::Applied(class) => {
                let view = ClassView::from(&class);
                self.learn(Learner::Watch, |index, _| index.apply_class(view));
            }
            Change::Unparsed(object) => {
                let name = Name::from(object.name.as_str());
                let strange = strange(&object);
                self.tell_strange("IPAddressClass", &name, &strange);
                self.learn(Learner::Watch, |index, _| index.strange_class(&name, strange));
            }
            Change::Deleted(gone) => {
                let name = Name::from(gone.name.as_str());
                let gone = Gone::Object { uid: gone.uid.as_str().into() };
                self.learn(Learner::Watch, |index, _| index.remove_class(&name, &gone));
            }
        }
    }

    /// Takes what the watch of addresses tells.
    pub fn address_changed(&self, change: Change<IPAddress>) {
        self.told(IndexedKind::Address, &change);
        match change {
            Change::ListStarted => self.index().begin_list(IndexedKind::Address),
            Change::ListEnded => self.list_ended(IndexedKind::Address),
            Change::Applied(address) => {
                let name = Name::from(address.name_any());
                let view = AddressView::from(&address);
                let moment = self.clock().now().elapsed;
                let wakes = self.index().apply_address(view, moment);
                self.wake_changed(wakes, &Own::Address(name));
            }
            Change::Unparsed(object) => {
                let name = Name::from(object.name.as_str());
                let strange = strange(&object);
                self.tell_strange("IPAddress", &name, &strange);
                self.learn(Learner::Watch, |index, _| index.strange_address(&name, strange));
            }
            Change::Deleted(gone) => {
                let name = Name::from(gone.name.as_str());
                self.memory().forget(&gone.uid);
                let gone = Gone::Object { uid: gone.uid.as_str().into() };
                self.learn(Learner::Watch, |index, _| index.remove_address(&name, &gone));
            }
        }
    }

    /// Takes what the watch of claims tells.
    pub fn claim_changed(&self, change: Change<IPAddressClaim>) {
        self.told(IndexedKind::Claim, &change);
        match change {
            Change::ListStarted => self.index().begin_list(IndexedKind::Claim),
            Change::ListEnded => self.list_ended(IndexedKind::Claim),
            Change::Applied(claim) => {
                let view = ClaimView::from(&claim);
                let key = view.key.clone();
                let wakes = self.index().apply_claim(view);
                self.wake_changed(wakes, &Own::Claim(key));
            }
            Change::Unparsed(object) => {
                let key = ClaimKey::new(object.namespace.as_deref().unwrap_or(""), &object.name);
                let strange = strange(&object);
                self.tell_strange("IPAddressClaim", &key, &strange);
                self.learn(Learner::Watch, |index, _| index.strange_claim(&key, strange));
            }
            Change::Deleted(gone) => {
                let key = ClaimKey::new(gone.namespace.as_deref().unwrap_or(""), &gone.name);
                self.memory().forget(&gone.uid);
                let gone = Gone::Object { uid: gone.uid.as_str().into() };
                self.learn(Learner::Watch, |index, _| index.remove_claim(&key, &gone));
            }
        }
    }

    /// Records how far a watch has come. First: between an object's end and this, an answer about it
    /// would bring it back.
    fn told<K: ResourceExt>(&self, kind: IndexedKind, change: &Change<K>) {
        let version = match change {
            Change::Applied(object) => object.meta().resource_version.as_deref(),
            Change::Unparsed(object) => Some(&*object.resource_version),
            Change::Deleted(gone) => Some(&*gone.resource_version),
            Change::ListStarted | Change::ListEnded => None,
        };
        if let Some(version) = version {
            self.index().told(kind, version);
        }
    }

    /// Logs an object that does not parse, once for each thing that is wrong with it.
    fn tell_strange(&self, kind: &str, name: &impl std::fmt::Display, strange: &Strange) {
        if self.memory().is_news(&strange.uid, "Unparsed", &strange.error) {
            tracing::warn!(
                kind,
                %name,
                error = strange.error,
                "object does not parse: it is left alone, and nothing else is"
            );
        }
    }
}

/// What can be used of an object that does not parse.
pub fn strange(object: &Unparsed) -> Strange {
    let text = |path: &str| object.raw.pointer(path).and_then(serde_json::Value::as_str);
    let claim = text("/spec/claimRef/namespace")
        .zip(text("/spec/claimRef/name"))
        .map(|(namespace, name)| ClaimKey::new(namespace, name));
    Strange {
        uid: object.uid.as_str().into(),
        resource_version: object.resource_version.as_str().into(),
        error: object.error.clone(),
        ip: text("/spec/address").and_then(|t| parse_ip(t).ok()),
        claim,
    }
}
