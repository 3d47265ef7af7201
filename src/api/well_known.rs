//! The names that tenants, administrators, drivers and the controller agree on.

/// The API group of the three kinds.
pub const GROUP: &str = "local.sdn.cozystack.io";
/// The version of the three kinds.
pub const VERSION: &str = "v1alpha1";

/// On a class, with the value `"true"`: claims that name no class resolve to it.
pub const DEFAULT_CLASS_ANNOTATION: &str = "ipaddressclass.local.sdn.cozystack.io/is-default-class";
/// The stamp, on a claim: the provisioner of the class it resolved to. Drivers read it.
pub const PROVISIONER_ANNOTATION: &str = "local.sdn.cozystack.io/provisioner";
/// The selection, on a claim: which address was chosen for each family, and how often.
/// The controller's own; see [`crate::binder::selection`].
pub const SELECTED_ADDRESSES_ANNOTATION: &str = "local.sdn.cozystack.io/selected-addresses";
/// On a Service: the claim whose address it wants. Drivers read it; the controller never does.
pub const SERVICE_CLAIM_ANNOTATION: &str = "local.sdn.cozystack.io/ip-address-claim";

/// On a claim, before an address is bound to it and until the last of them is reclaimed.
pub const CLAIM_FINALIZER: &str = "local.sdn.cozystack.io/claim-protection";
/// On an address, until no live claim holds it.
pub const ADDRESS_FINALIZER: &str = "local.sdn.cozystack.io/address-protection";

/// The name under which the controller writes: field manager and event source.
pub const MANAGER: &str = "address-controller";
