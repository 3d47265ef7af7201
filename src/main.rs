//! The program: reads what it is told, and does it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use address_controller::{
    controllers,
    runtime::{Cli, Command, print, run},
};

fn main() -> ExitCode {
    let cli = Cli::read();
    match cli.command {
        None => run(cli.settings, controllers::tasks),
        Some(Command::PrintCrds) => print::crds(),
        Some(Command::Version) => print::version(),
    }
}
