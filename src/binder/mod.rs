//! Every decision the controller makes, as functions of what is known.
//!
//! [`index`] is the world as seen; [`claim`] and [`address`] decide what a pass does about one
//! object and answer with a [`plan`]. Nothing here reads, writes, waits, looks at a clock or rolls
//! dice: the same facts always give the same plan, and a plan carried out leaves nothing to plan.
//!
//! [`invariants`] checks a history of changes against what must always hold.
//!
//! Where to look: which address a claim gets is [`matching`]; what its status says is [`status`].

pub mod address;
pub mod claim;
mod holding;
pub mod index;
pub mod invariants;
pub mod matching;
pub mod plan;
mod reclaim;
pub mod selection;
pub mod status;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod view;
