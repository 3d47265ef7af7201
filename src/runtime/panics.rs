//! A panic anywhere ends the process: with one line, and before anything else goes on.
//!
//! The line is logged where the panic happens, so it carries the spans that the panicking code ran
//! in: for a pass, the object's kind, namespace and name.

use std::{panic::PanicHookInfo, process};

use super::tasks::text_of;

/// From now on a panic is logged in one line and ends the process with exit code 1.
pub fn end_the_process() {
    std::panic::set_hook(Box::new(|info| {
        report(info);
        process::exit(1);
    }));
}

fn report(info: &PanicHookInfo<'_>) {
    let why = text_of(info.payload());
    let at = info.location().map(ToString::to_string).unwrap_or_default();
    if tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!(why, at, "panicked, and the process ends");
    } else {
        eprintln!("panicked, and the process ends: {why} ({at})");
    }
}

#[cfg(test)]
mod tests {
    use std::{env, process::Command};

    use tracing::Instrument;

    use crate::telemetry::logs;

    const CHILD: &str = "ADDRESS_CONTROLLER_TEST_PANICS";
    const THIS: &str =
        "runtime::panics::tests::a_panic_in_a_pass_ends_the_process_and_names_the_object";

    /// Runs itself as a process of its own, in which a task panics that nobody waits for.
    #[test]
    fn a_panic_in_a_pass_ends_the_process_and_names_the_object() {
        if env::var_os(CHILD).is_some() {
            panic_in_a_pass();
        }
        let child = Command::new(env::current_exe().expect("the test's own path"))
            .args(["--exact", THIS, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .expect("a child");
        assert_eq!(child.status.code(), Some(1));
        let stderr = String::from_utf8_lossy(&child.stderr);
        let lines: Vec<_> = stderr.lines().collect();
        let [line] = lines[..] else { panic!("not one line: {stderr}") };
        for part in ["half a state", "IPAddressClaim", "t1/web", "panics.rs"] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }

    fn panic_in_a_pass() {
        logs::install("info", logs::Format::Json).expect("logs");
        super::end_the_process();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let span = tracing::info_span!("pass", kind = "IPAddressClaim", object = "t1/web");
            let pass = async { panic!("half a state") };
            let _: Result<(), _> = tokio::spawn(pass.instrument(span)).await;
        });
    }
}
