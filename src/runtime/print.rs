//! What the program prints instead of running.

use std::{
    io::{self, Write, stdout},
    process::ExitCode,
};

use crate::api::crd;

/// Prints the program's name and version.
pub fn version() -> ExitCode {
    print(|out| writeln!(out, "address-controller {}", env!("CARGO_PKG_VERSION")))
}

/// Prints the definitions of the three kinds as YAML documents.
pub fn crds() -> ExitCode {
    print(|out| {
        for definition in crd::all() {
            let yaml = serde_yaml_ng::to_string(&definition).map_err(io::Error::other)?;
            write!(out, "---\n{yaml}")?;
        }
        Ok(())
    })
}

fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> ExitCode {
    let mut out = stdout().lock();
    match write(&mut out).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read it has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("address-controller: {error}");
            ExitCode::FAILURE
        }
    }
}
