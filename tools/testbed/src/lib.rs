//! A real control plane, a fault proxy and the oracles for the tests of address-controller.
//!
//! What a test reads first: [`Sandbox`] (a namespace and names of one's own on the control plane
//! that a test binary shares), [`Controller`] (the real binary as a process), [`eventually`] (wait
//! for a condition instead of sleeping) and [`make`] (test objects). It must not know how the
//! controller decides anything: it sees what a cluster sees.

pub mod binaries;
pub mod chaos;
pub mod controller;
pub mod controlplane;
pub mod freezer;
pub mod history;
pub mod house;
pub mod http;
pub mod make;
pub mod manifests;
pub mod ports;
pub mod process;
pub mod proxy;
pub mod sandbox;
pub mod standing;
pub mod wait;
mod watchdog;

pub use controller::{Controller, ControllerOptions};
pub use controlplane::{ControlPlane, Options};
pub use proxy::Proxy;
pub use sandbox::{Sandbox, shared};
pub use wait::eventually;
