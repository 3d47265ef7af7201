//! Every development command of address-controller: `cargo xtask help` lists them, and the Makefile
//! has a target for most.

mod commands;
mod demo;
mod report;
mod run;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Development commands of address-controller.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A control plane, the controller, and claims being bound, released and recycled.
    Demo(demo::Args),
    /// All checks and all tests, or some of the tests.
    Test(commands::test::Args),
    /// Replicas at work while everything that can go wrong does; then the history is judged.
    Chaos(commands::chaos::Args),
    /// The controller's own code in a simulated world, from seeds; `simulate -- --help` says more.
    Simulate(commands::simulate::Args),
    /// What two candidates for one Lease are told, by kube-leader-election and by our own module.
    ElectionProof,
    /// The binding protocol in a large world, exhaustively.
    Model(commands::model::Args),
    /// Random walks over the binder's decisions alone, millions of steps a minute.
    Walk(commands::walk::Args),
    /// Formatting, lints, documents, dependencies, layering, lengths, generated files.
    Check,
    /// Writes the generated files of the chart: definitions and roles.
    Manifests,
    /// Builds the control plane; starts and ends one to try things on.
    Controlplane(commands::controlplane::Args),
    /// Applies the definitions to the cluster of the current kubeconfig.
    InstallCrds,
    /// Builds the controller for release.
    Build,
    /// Runs the controller here, against the cluster of the current kubeconfig.
    Run(commands::run::Args),
    /// Builds the image.
    DockerBuild(commands::docker::Args),
    /// Pushes the image.
    DockerPush(commands::docker::Args),
    /// Packages the chart into `target/`.
    HelmPackage,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Test(args) => commands::test::run(&args),
        Command::Chaos(args) => commands::chaos::run(&args),
        Command::Simulate(args) => commands::simulate::run(&args),
        Command::ElectionProof => commands::election_proof::run(),
        Command::Model(args) => commands::model::run(&args),
        Command::Walk(args) => commands::walk::run(&args),
        Command::Check => commands::check::run(),
        Command::Manifests => commands::manifests::run(),
        Command::Controlplane(args) => commands::controlplane::run(&args),
        Command::InstallCrds => commands::install_crds::run(),
        Command::Build => commands::build::run(),
        Command::Run(args) => commands::run::run(&args),
        Command::DockerBuild(args) => commands::docker::build(&args),
        Command::DockerPush(args) => commands::docker::push(&args),
        Command::HelmPackage => commands::helm_package::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
