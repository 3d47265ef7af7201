//! What tenants, administrators and drivers see: one controller on a real API server, shared by all
//! tests here, each of which works in a corner of its own.
//!
//! A test plays everybody but the controller, and waits for what it is to see: nothing here sleeps.
//! Each ends with [`Corner::end`](support::Corner::end), which holds everything that was written in
//! its corner against the invariants.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod binding;
mod classes;
mod editing;
mod input;
mod losing;
mod manners;
mod pinning;
mod protection;
mod provisioning;
mod reclaim;
mod recycling;
mod reporting;
mod support;
