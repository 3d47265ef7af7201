//! The three kinds, the names that everybody who works with them must agree on, and their rules.
//!
//! This room is the wire: what is written here is what the API server stores and what tenants,
//! administrators and drivers read. The field docs are the descriptions in the generated
//! `CustomResourceDefinition`s. It knows no client, no runtime and no clock.

pub mod address;
pub mod claim;
pub mod class;
pub mod conditions;
pub mod crd;
pub mod family;
pub mod limits;
pub mod names;
pub mod well_known;

pub use address::{
    AddressPhase, AddressSource, AssociatedTo, ClaimReference, FromClass, IPAddress, IPAddressSpec,
    IPAddressStatus, ProviderRef,
};
pub use claim::{
    ClaimPhase, ClaimedAddress, IPAddressClaim, IPAddressClaimSpec, IPAddressClaimStatus,
};
pub use class::{IPAddressClass, IPAddressClassSpec, ReclaimPolicy};
pub use conditions::{BoundReason, ClassResolvedReason, ConditionType};
pub use family::{ClaimFamily, InvalidAddress, IpFamily, parse_ip};
pub use names::{is_namespace_name, is_object_name};
