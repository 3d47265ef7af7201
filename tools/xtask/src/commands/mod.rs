//! One file for each command.

pub mod build;
pub mod chaos;
pub mod check;
pub mod controlplane;
pub mod docker;
pub mod election_proof;
pub mod helm_package;
pub mod install_crds;
pub mod manifests;
pub mod model;
pub mod run;
pub mod simulate;
pub mod test;
pub mod walk;
