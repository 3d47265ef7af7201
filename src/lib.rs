//! Binds `IPAddressClaim`s to `IPAddress`es, as Kubernetes' own binder does for volumes.

pub mod api;
pub mod binder;
pub mod queue;
pub mod runtime;
pub mod telemetry;
pub mod watch;
