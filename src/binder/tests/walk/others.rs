//! What tenants, administrators and drivers do.

use serde_json::{Value, json};

use super::{
    super::{
        checks,
        store::{Id, What},
    },
    Walk,
};
use crate::binder::testing::{Object, address, claim, class};

const CLAIMS: [&str; 3] = ["t1/c1", "t1/c2", "t2/c3"];
const ADDRESSES: [&str; 5] = ["a1", "a2", "a3", "a4", "a5"];
const CLASSES: [&str; 2] = ["public", "lab"];
/// Few, so that objects record the same IP; one that is none.
const IPS: [&str; 6] =
    ["192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1", "2001:db8::2", "192.0.2.01"];
const BACKEND: &str = "fake.example.org/backend";

impl Walk {
    /// A first world: both classes, some addresses and claims.
    pub(super) fn begin(&mut self) {
        self.create(class("public").default_class());
        self.create(class("lab"));
        for name in ADDRESSES {
            if self.rng.u32(0..4) > 0 {
                let object = self.some_address(name);
                self.create(object);
            }
        }
        for key in &CLAIMS[..2] {
            let object = self.some_claim(key);
            self.create(object);
        }
    }

    pub(super) fn others(&mut self) {
        match self.rng.u32(0..20) {
            0..5 => self.claims_come_and_go(),
            5..9 => self.addresses_come_and_go(),
            9..12 => self.a_tenant_edits(),
            12..16 => self.a_driver_acts(),
            16..19 => self.an_administrator_acts(),
            _ => self.classes_change(),
        }
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.rng.usize(0..of.len())]
    }

    fn some_claim(&mut self, key: &str) -> Object {
        let family = self.one(&["IPv4", "IPv4", "IPv6", "Dual"]);
        let mut object =
            claim(key).family(family).class(self.one(&["public", "public", "lab", ""]));
        if family != "Dual" && self.rng.u32(0..4) == 0 {
            object = object.pin(self.one(&ADDRESSES));
        }
        object
    }

    fn some_address(&mut self, name: &str) -> Object {
        let mut object = address(name, self.one(&IPS))
            .class(self.one(&["public", "public", "lab"]))
            .policy(self.one(&["Retain", "Delete"]));
        if self.rng.u32(0..4) == 0 {
            object = object.finalizer(BACKEND);
        }
        if self.rng.u32(0..4) == 0 {
            let key = self.one(&CLAIMS);
            let uid = self.uid_of(key).filter(|_| self.rng.bool());
            object = object.held_by(key, uid.as_deref());
        }
        object
    }

    fn uid_of(&self, key: &str) -> Option<String> {
        self.store.get(&Id::claim(key)).map(|o| checks::uid(o).to_owned())
    }

    fn claims_come_and_go(&mut self) {
        let key = self.one(&CLAIMS);
        let id = Id::claim(key);
        if self.store.get(&id).is_none() {
            let object = self.some_claim(key);
            self.create(object);
        } else if self.rng.bool() {
            self.change(&id, &What::Delete);
        }
    }

    fn addresses_come_and_go(&mut self) {
        let name = self.one(&ADDRESSES);
        let id = Id::address(name);
        if self.store.get(&id).is_none() {
            let object = self.some_address(name);
            self.create(object);
        } else if self.rng.u32(0..3) == 0 {
            self.change(&id, &What::Delete);
        }
    }

    fn a_tenant_edits(&mut self) {
        let id = Id::claim(self.one(&CLAIMS));
        let pin = match self.rng.u32(0..3) {
            0 => Value::Null,
            _ => json!(self.one(&ADDRESSES)),
        };
        let spec = match self.rng.u32(0..4) {
            0 => json!({"className": self.one(&CLASSES)}),
            1 => json!({"family": self.one(&["IPv4", "IPv6", "Dual"])}),
            _ => json!({"addressName": pin}),
        };
        self.change(&id, &What::Patch(json!({"spec": spec})));
    }

    /// It reports, takes the report back, and lets go of what is being deleted.
    fn a_driver_acts(&mut self) {
        let id = Id::address(self.one(&ADDRESSES));
        let Some(object) = self.store.get(&id) else { return };
        if checks::deleting(object) && self.rng.bool() {
            self.lets_go(&id);
            return;
        }
        let phase = match checks::phase(object) {
            "Conflict" | "Lost" => Value::Null,
            _ => json!(self.one(&["Conflict", "Lost"])),
        };
        self.change(&id, &What::Status(json!({"phase": phase})));
    }

    fn lets_go(&mut self, id: &Id) {
        let object = self.store.get(id).unwrap();
        let all = object["metadata"]["finalizers"].as_array().unwrap();
        let rest: Vec<_> = all.iter().filter(|f| *f != BACKEND).cloned().collect();
        if rest.len() < all.len() {
            self.change(id, &What::Patch(json!({"metadata": {"finalizers": rest}})));
        }
    }

    /// Recycles what was released; and now and then takes an address away, or gives it to another.
    fn an_administrator_acts(&mut self) {
        let id = Id::address(self.one(&ADDRESSES));
        let Some(object) = self.store.get(&id) else { return };
        let released = checks::phase(object) == "Released";
        let to = match self.rng.u32(0..8) {
            0..4 if released => Value::Null,
            4..6 if released => json!({"uid": null}),
            6 => Value::Null,
            7 => {
                let key = self.one(&CLAIMS);
                let (namespace, name) = key.split_once('/').unwrap();
                json!({"namespace": namespace, "name": name, "uid": self.uid_of(key)})
            }
            _ => return,
        };
        if to == json!({"uid": null}) && self.store.get(&id).unwrap()["spec"]["claimRef"].is_null()
        {
            return;
        }
        self.change(&id, &What::Patch(json!({"spec": {"claimRef": to}})));
    }

    fn classes_change(&mut self) {
        let name = self.one(&CLASSES);
        let id = Id::Class(name.into());
        if self.store.get(&id).is_some() {
            self.change(&id, &What::Delete);
        } else {
            let object = if self.rng.bool() { class(name).default_class() } else { class(name) };
            self.create(object);
        }
    }

    /// Every driver lets go of what is being deleted, and every class is there. Says whether
    /// anything was left to do.
    pub(super) fn drivers_finish(&mut self) -> bool {
        let before = self.store.revision();
        for name in ADDRESSES {
            let id = Id::address(name);
            if self.store.get(&id).is_some_and(checks::deleting) {
                self.lets_go(&id);
            }
        }
        for name in CLASSES {
            if self.store.get(&Id::Class(name.into())).is_none() {
                self.create(class(name));
            }
        }
        self.store.revision() != before
    }
}
