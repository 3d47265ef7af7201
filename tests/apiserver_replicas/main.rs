//! Several replicas at once on a real API server, and what becomes of their work when they end, stand
//! still, or are cut off. All tests here share one control plane, each alone in it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

mod comings;
mod fleet;
mod leases;
mod takeover;
mod work;
