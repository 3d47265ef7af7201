//! Binds `IPAddressClaim`s to `IPAddress`es, as Kubernetes' own binder does for volumes.

pub mod api;
pub mod binder;
