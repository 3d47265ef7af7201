//! What tenants, administrators and drivers see: one controller on a real API server, shared by all
//! tests here, each of which works in a corner of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod binding;
mod support;
