//! Test objects, each with one line for what matters in a test.

use std::collections::BTreeMap;

use address_controller::api::{
    AddressSource, ClaimFamily, ClaimReference, FromClass, IPAddress, IPAddressClaim,
    IPAddressClaimSpec, IPAddressClass, IPAddressClassSpec, IPAddressSpec, ProviderRef,
    ReclaimPolicy, well_known::DEFAULT_CLASS_ANNOTATION,
};
use kube::{Resource, api::ObjectMeta};

/// The provisioner of a test's class, unless it names another.
pub const PROVISIONER: &str = "fake.example.org";

/// A class with the provisioner `fake.example.org` and the policy `Retain`.
pub fn class(name: &str) -> IPAddressClass {
    let spec = IPAddressClassSpec {
        provisioner: PROVISIONER.to_owned(),
        reclaim_policy: ReclaimPolicy::Retain,
        parameters: None,
    };
    IPAddressClass::new(name, spec)
}

/// An address of a class, from the class's pool, with the policy `Retain` and no claim.
pub fn address(name: &str, class: &str, ip: &str) -> IPAddress {
    let spec = IPAddressSpec {
        class_name: class.to_owned(),
        address: ip.to_owned(),
        reclaim_policy: ReclaimPolicy::Retain,
        claim_ref: None,
        source: AddressSource { from_class: Some(FromClass {}), provider_ref: None },
    };
    IPAddress::new(name, spec)
}

/// A claim for one IPv4 address of a class.
pub fn claim(namespace: &str, name: &str, class: &str) -> IPAddressClaim {
    let spec =
        IPAddressClaimSpec { class_name: Some(class.to_owned()), ..IPAddressClaimSpec::default() };
    let mut claim = IPAddressClaim::new(name, spec);
    claim.metadata.namespace = Some(namespace.to_owned());
    claim
}

/// Changes that any test object can be made with.
pub trait Make: Sized {
    /// The object's metadata.
    fn metadata(&mut self) -> &mut ObjectMeta;

    /// With one more finalizer.
    #[must_use]
    fn finalizer(mut self, name: &str) -> Self {
        self.metadata().finalizers.get_or_insert_default().push(name.to_owned());
        self
    }

    /// With one more annotation.
    #[must_use]
    fn annotation(mut self, name: &str, value: &str) -> Self {
        let annotations = self.metadata().annotations.get_or_insert_with(BTreeMap::new);
        annotations.insert(name.to_owned(), value.to_owned());
        self
    }
}

impl<K: Resource> Make for K {
    fn metadata(&mut self) -> &mut ObjectMeta {
        self.meta_mut()
    }
}

/// Changes to a class under construction.
pub trait MakeClass {
    /// Annotated as the default.
    #[must_use]
    fn default_class(self) -> Self;
    /// With another provisioner.
    #[must_use]
    fn provisioner(self, name: &str) -> Self;
    /// With parameters for the driver.
    #[must_use]
    fn parameters(self, parameters: serde_json::Value) -> Self;
}

impl MakeClass for IPAddressClass {
    fn default_class(self) -> Self {
        self.annotation(DEFAULT_CLASS_ANNOTATION, "true")
    }

    fn provisioner(mut self, name: &str) -> Self {
        name.clone_into(&mut self.spec.provisioner);
        self
    }

    fn parameters(mut self, parameters: serde_json::Value) -> Self {
        self.spec.parameters = Some(parameters);
        self
    }
}

/// Changes to an address under construction.
pub trait MakeAddress {
    /// With the policy `Delete`.
    #[must_use]
    fn delete_policy(self) -> Self;
    /// Reserved for a claim, whichever uid it will have.
    #[must_use]
    fn reserved_for(self, namespace: &str, claim: &str) -> Self;
    /// Naming a claim with its uid.
    #[must_use]
    fn bound_to(self, namespace: &str, claim: &str, uid: &str) -> Self;
    /// Standing for a thing at a provider.
    #[must_use]
    fn provider_ref(self, id: &str) -> Self;
}

impl MakeAddress for IPAddress {
    fn delete_policy(mut self) -> Self {
        self.spec.reclaim_policy = ReclaimPolicy::Delete;
        self
    }

    fn reserved_for(mut self, namespace: &str, claim: &str) -> Self {
        self.spec.claim_ref =
            Some(ClaimReference { namespace: namespace.into(), name: claim.into(), uid: None });
        self
    }

    fn bound_to(self, namespace: &str, claim: &str, uid: &str) -> Self {
        let mut this = self.reserved_for(namespace, claim);
        if let Some(reference) = &mut this.spec.claim_ref {
            reference.uid = Some(uid.to_owned());
        }
        this
    }

    fn provider_ref(mut self, id: &str) -> Self {
        let provider_ref = Some(ProviderRef { id: id.to_owned() });
        self.spec.source = AddressSource { from_class: None, provider_ref };
        self
    }
}

/// Changes to a claim under construction.
pub trait MakeClaim {
    /// Asking for another family.
    #[must_use]
    fn family(self, family: ClaimFamily) -> Self;
    /// Pinned to one address.
    #[must_use]
    fn pinned_to(self, address: &str) -> Self;
    /// Naming no class.
    #[must_use]
    fn without_class(self) -> Self;
}

impl MakeClaim for IPAddressClaim {
    fn family(mut self, family: ClaimFamily) -> Self {
        self.spec.family = family;
        self
    }

    fn pinned_to(mut self, address: &str) -> Self {
        self.spec.address_name = Some(address.to_owned());
        self
    }

    fn without_class(mut self) -> Self {
        self.spec.class_name = None;
        self
    }
}
