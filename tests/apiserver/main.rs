//! What holds on a real API server. All tests here share one control plane; see `testbed::Sandbox`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod chaos;
mod controlplane;
mod crash;
mod definitions;
mod drop_in;
mod faults;
mod figures;
mod points;
mod proxy;
mod scenarios;
mod support;
