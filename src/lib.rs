//! Binds `IPAddressClaim`s to `IPAddress`es, as Kubernetes' own binder does for volumes.
//!
//! The rooms, each knowing only those in rows above its own (a test holds it; `FLOORS` in
//! `tools/testbed` is the same list):
//!
//! | room | what it is |
//! |---|---|
//! | [`api`] | the three kinds: what is on the wire |
//! | [`rights`], [`rendezvous`] | what all of it may ask of the API server; who is meant for what |
//! | [`binder`] | every decision, pure; **the matching rule is [`binder::matching::choose`], and the order among free addresses [`binder::index::Index::candidate`]** |
//! | [`clock`], [`queue`], [`telemetry`] | time; keys that need a pass; what is told |
//! | [`watch`], [`lease`] | streams of what is; who is there, who leads: (Lease, seen since, now) → state |
//! | [`world`] | what is known, in one place, and who is woken by a change |
//! | [`apiserver`], [`report`] | the requests that passes make; the events |
//! | `pass`, [`shard`] | what both kinds of passes have in common; which claims are this replica's |
//! | [`leader`] | whether addresses are this replica's |
//! | [`claim`], [`address`] | the two controllers: observe, decide, apply |
//! | [`runtime`] | the process; the controllers are handed in |
//! | [`controllers`] | both, with their watches, as tasks |
//!
//! What always holds, whatever runs beside it, however old a cache is, wherever it stops: an
//! address has at most one claim; a claim is matched to at most one address of a family; what a
//! live claim holds is neither released nor deleted nor given away. Each write carries the
//! resourceVersion it was decided on, and nothing is destroyed on a cache's word.

#![forbid(unsafe_code)]

pub mod address;
pub mod api;
pub mod apiserver;
pub mod binder;
pub mod claim;
pub mod clock;
pub mod controllers;
pub mod leader;
pub mod lease;
mod pass;
pub mod queue;
pub mod rendezvous;
pub mod report;
pub mod rights;
pub mod runtime;
pub mod shard;
pub mod telemetry;
pub mod watch;
pub mod world;
