//! Tenants, administrators and a driver: what they do, in no order that anybody planned.
//!
//! They use few names, so that one name is many objects in turn, and addresses with smaller names
//! come and go while claims wait.

use std::{sync::Arc, time::Duration};

use address_controller::api::well_known::{
    DEFAULT_CLASS_ANNOTATION, GROUP, PROVISIONER_ANNOTATION,
};
use serde_json::{Value, json};

use crate::{
    apiserver::{
        ask::Verb,
        writes::{finalizers, is_deleting, text},
    },
    oracle::{ADMINISTRATOR, DRIVER, TENANT},
    stage::Stage,
};

/// The driver's own finalizer.
const TEARDOWN: &str = "driver.example.org/teardown";

/// The driver's name.
const PROVISIONER: &str = "driver.example.org";

pub const NAMESPACES: [&str; 2] = ["t1", "t2"];
const CLAIMS: [&str; 5] = ["api", "db", "mail", "shop", "web"];
const CLASSES: [&str; 2] = ["cloud", "public"];

/// How many names there are for static addresses.
const ADDRESSES: u8 = 9;

/// Somebody acting at random.
pub struct People {
    stage: Arc<Stage>,
    random: fastrand::Rng,
    /// Whether they still begin anything new; they always finish what they owe.
    pub busy: bool,
}

impl People {
    pub fn new(stage: Arc<Stage>, seed: u64) -> Self {
        Self { stage, random: fastrand::Rng::with_seed(seed), busy: true }
    }

    /// The classes, before anything else.
    pub fn begin(&mut self) {
        for class in CLASSES {
            self.create_class(class);
        }
    }

    /// What happens next, and how long after it the next thing does.
    pub fn act(&mut self) -> Duration {
        if self.busy {
            match self.random.u8(0..100) {
                0..36 => self.tenant(),
                36..66 => self.administrator(),
                _ => self.driver(),
            }
        } else {
            self.tear_down();
            self.unmark();
        }
        let busy = self.busy && self.random.u8(0..4) > 0;
        Duration::from_millis(if busy {
            self.random.u64(1..400)
        } else {
            self.random.u64(400..4000)
        })
    }

    fn any<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        (!of.is_empty()).then(|| &of[self.random.usize(..of.len())])
    }

    fn tenant(&mut self) {
        let namespace = *self.any(&NAMESPACES).unwrap_or(&"t1");
        let name = *self.any(&CLAIMS).unwrap_or(&"web");
        let there = self.stage.get("ipaddressclaims", namespace, name);
        match (there, self.random.u8(0..10)) {
            (None, _) => self.create_claim(namespace, name),
            (Some(_), 0..5) => {
                self.stage.ask(TENANT, Verb::Delete, "ipaddressclaims", namespace, name, json!({}));
            }
            (Some(_), 5..7) => {
                let pin = self.random.bool().then(|| self.address_name());
                self.patch_claim(namespace, name, json!({ "spec": { "addressName": pin } }));
            }
            (Some(_), 7) => {
                let class = *self.any(&CLASSES).unwrap_or(&"public");
                self.patch_claim(namespace, name, json!({ "spec": { "className": class } }));
            }
            (Some(_), 8) => {
                let family = *self.any(&["IPv4", "IPv6", "Dual"]).unwrap_or(&"IPv4");
                self.patch_claim(namespace, name, json!({ "spec": { "family": family } }));
            }
            (Some(_), _) => {
                let note = self.random.u8(..).to_string();
                let body = json!({ "metadata": { "annotations": { "note": note } } });
                self.patch_claim(namespace, name, body);
            }
        }
    }

    fn patch_claim(&self, namespace: &str, name: &str, body: Value) {
        self.stage.ask(TENANT, Verb::Patch, "ipaddressclaims", namespace, name, body);
    }

    fn create_claim(&mut self, namespace: &str, name: &str) {
        let family = *self.any(&["IPv4", "IPv4", "IPv4", "IPv6", "Dual"]).unwrap_or(&"IPv4");
        let mut spec = json!({ "family": family });
        if self.random.u8(0..4) > 0 {
            spec["className"] = (*self.any(&CLASSES).unwrap_or(&"public")).into();
        }
        if family != "Dual" && self.random.u8(0..8) == 0 {
            spec["addressName"] = self.address_name().into();
        }
        let body = json!({
            "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "IPAddressClaim",
            "metadata": { "name": name }, "spec": spec,
        });
        self.stage.ask(TENANT, Verb::Create, "ipaddressclaims", namespace, "", body);
    }

    fn address_name(&mut self) -> String {
        format!("a{}", self.random.u8(0..ADDRESSES))
    }

    fn administrator(&mut self) {
        let addresses = self.stage.all("ipaddresses");
        let pick = self.any(&addresses).cloned();
        match (self.random.u8(0..24), pick) {
            (0..10, _) => self.create_address(),
            (10..14, Some(address)) if address["status"]["phase"] == "Released" => {
                let version = address["metadata"]["resourceVersion"].clone();
                let body = if self.random.bool() {
                    json!({ "metadata": { "resourceVersion": version }, "spec": { "claimRef": null } })
                } else {
                    json!({
                        "metadata": { "resourceVersion": version },
                        "spec": { "claimRef": { "uid": null } },
                    })
                };
                self.edit_address(&address, body);
            }
            (14..17, Some(address)) => self.delete_address(&address),
            (17..19, Some(address)) => {
                let policy = *self.any(&["Retain", "Delete"]).unwrap_or(&"Retain");
                self.edit_address(&address, json!({ "spec": { "reclaimPolicy": policy } }));
            }
            (19, _) => self.toggle_default(),
            (20, _) => self.replace_class(),
            (21, Some(address)) if self.random.u8(0..6) == 0 => {
                self.edit_address(&address, json!({ "metadata": { "finalizers": null } }));
            }
            (22, _) if self.random.u8(0..6) == 0 => {
                let namespace = *self.any(&NAMESPACES).unwrap_or(&"t1");
                let name = *self.any(&CLAIMS).unwrap_or(&"web");
                let body = json!({ "metadata": { "finalizers": null } });
                let by = ADMINISTRATOR;
                self.stage.ask(by, Verb::Patch, "ipaddressclaims", namespace, name, body);
            }
            _ => {}
        }
    }

    fn create_address(&mut self) {
        let name = self.address_name();
        let number = name[1..].parse::<u8>().unwrap_or(0);
        // Some spell one IP in two objects.
        let ip = match self.random.u8(0..12) {
            0 => "192.0.2.1".to_owned(),
            1..4 => format!("2001:db8::{number}"),
            _ => format!("192.0.2.{number}"),
        };
        let class = *self.any(&["public", "public", "public", "cloud"]).unwrap_or(&"public");
        let policy = *self.any(&["Retain", "Retain", "Delete"]).unwrap_or(&"Retain");
        let mut spec = json!({
            "className": class, "address": ip, "reclaimPolicy": policy, "source": { "fromClass": {} },
        });
        if self.random.u8(0..8) == 0 {
            let namespace = *self.any(&NAMESPACES).unwrap_or(&"t1");
            let claim = *self.any(&CLAIMS).unwrap_or(&"web");
            spec["claimRef"] = json!({ "namespace": namespace, "name": claim });
        }
        self.put_address(ADMINISTRATOR, &name, spec, &[]);
    }

    fn put_address(&self, by: &'static str, name: &str, spec: Value, finalizers: &[&str]) {
        let mut body = json!({
            "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "IPAddress",
            "metadata": { "name": name, "finalizers": finalizers },
        });
        body["spec"] = spec;
        self.stage.ask(by, Verb::Create, "ipaddresses", "", "", body);
    }

    fn edit_address(&self, address: &Value, body: Value) {
        let name = text(address, "name");
        self.stage.ask(ADMINISTRATOR, Verb::Patch, "ipaddresses", "", name, body);
    }

    fn delete_address(&self, address: &Value) {
        let name = text(address, "name");
        self.stage.ask(ADMINISTRATOR, Verb::Delete, "ipaddresses", "", name, json!({}));
    }

    fn create_class(&mut self, class: &str) {
        let policy = *self.any(&["Retain", "Delete"]).unwrap_or(&"Retain");
        let default = (class == "public").to_string();
        let body = json!({
            "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "IPAddressClass",
            "metadata": {
                "name": class, "annotations": { DEFAULT_CLASS_ANNOTATION: default },
            },
            "spec": { "provisioner": PROVISIONER, "reclaimPolicy": policy },
        });
        self.stage.ask(ADMINISTRATOR, Verb::Create, "ipaddressclasses", "", "", body);
    }

    fn toggle_default(&mut self) {
        let class = *self.any(&CLASSES).unwrap_or(&"public");
        let default = self.random.bool().to_string();
        let body = json!({
            "metadata": { "annotations": { DEFAULT_CLASS_ANNOTATION: default } },
        });
        self.stage.ask(ADMINISTRATOR, Verb::Patch, "ipaddressclasses", "", class, body);
    }

    fn replace_class(&mut self) {
        let class = *self.any(&CLASSES).unwrap_or(&"public");
        if self.stage.get("ipaddressclasses", "", class).is_some() && self.random.bool() {
            self.stage.ask(ADMINISTRATOR, Verb::Delete, "ipaddressclasses", "", class, json!({}));
        } else {
            self.create_class(class);
        }
    }

    /// Everything that must be there for claims to be bound in the end.
    pub fn leave(&mut self) {
        self.busy = false;
        for class in CLASSES {
            if self.stage.get("ipaddressclasses", "", class).is_none() {
                self.create_class(class);
            }
        }
    }

    fn driver(&mut self) {
        match self.random.u8(0..10) {
            0..5 => self.provision(),
            5..8 => self.tear_down(),
            8 => self.mark(),
            _ => self.unmark(),
        }
    }

    /// Makes an address for a claim that asks for one: now and then twice, late, or without the uid.
    fn provision(&mut self) {
        let mut waiting = self.stage.all("ipaddressclaims");
        waiting.retain(|claim| {
            claim["metadata"]["annotations"][PROVISIONER_ANNOTATION] == PROVISIONER
        });
        let Some(claim) = self.any(&waiting).cloned() else { return };
        let number = self.random.u8(0..40);
        let family = claim["spec"]["family"].as_str().unwrap_or("IPv4");
        let six = family == "IPv6" || (family == "Dual" && self.random.bool());
        let ip = if six { format!("2001:db8:1::{number}") } else { format!("198.51.100.{number}") };
        let mut reference =
            json!({ "namespace": text(&claim, "namespace"), "name": text(&claim, "name") });
        match self.random.u8(0..8) {
            0 => {}
            1 => reference["uid"] = "".into(),
            _ => reference["uid"] = text(&claim, "uid").into(),
        }
        let class = claim["status"]["className"].as_str().unwrap_or("cloud");
        let policy = *self.any(&["Retain", "Delete", "Delete"]).unwrap_or(&"Delete");
        let mut spec = json!({
            "className": class, "address": ip, "reclaimPolicy": policy, "claimRef": reference,
            "source": { "providerRef": { "id": format!("eip-{number}") } },
        });
        // One that the claim may be matched to.
        if self.random.u8(0..6) == 0
            && let Some(fields) = spec.as_object_mut()
        {
            fields.remove("claimRef");
        }
        self.put_address(DRIVER, &format!("d{number}"), spec, &[TEARDOWN]);
    }

    /// Lets go of what is being deleted.
    fn tear_down(&mut self) {
        for address in self.stage.all("ipaddresses") {
            let left: Vec<_> =
                finalizers(&address).into_iter().filter(|f| *f != TEARDOWN).collect();
            let ours = finalizers(&address).len() > left.len();
            // Half of the time it has not got that far.
            if is_deleting(&address) && ours && (!self.busy || self.random.bool()) {
                let version = address["metadata"]["resourceVersion"].clone();
                let body = json!({
                    "metadata": { "finalizers": left, "resourceVersion": version },
                });
                let name = text(&address, "name");
                self.stage.ask(DRIVER, Verb::Patch, "ipaddresses", "", name, body);
            }
        }
    }

    fn mark(&mut self) {
        let addresses = self.stage.all("ipaddresses");
        let Some(address) = self.any(&addresses).cloned() else { return };
        let phase = *self.any(&["Lost", "Conflict"]).unwrap_or(&"Lost");
        self.drive(&address, json!({ "status": { "phase": phase } }));
    }

    /// Takes back what it marked.
    fn unmark(&mut self) {
        for address in self.stage.all("ipaddresses") {
            let marked = ["Lost", "Conflict"].iter().any(|p| address["status"]["phase"] == *p);
            if marked && (!self.busy || self.random.bool()) {
                self.drive(&address, json!({ "status": { "phase": null } }));
            }
        }
    }

    fn drive(&self, address: &Value, mut body: Value) {
        body["metadata"]["resourceVersion"] = address["metadata"]["resourceVersion"].clone();
        let name = text(address, "name");
        self.stage.ask_status(DRIVER, "ipaddresses", name, body);
    }
}
