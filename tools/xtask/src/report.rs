//! What people see of things that take a while.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use testbed::binaries::{Binaries, Progress, find_or_build};

/// Finds or builds the control plane, with a bar for each program that is built.
///
/// # Errors
/// When a program is missing and cannot be built.
pub fn controlplane_binaries() -> anyhow::Result<Binaries> {
    let mut bar: Option<ProgressBar> = None;
    find_or_build(&mut |progress| match progress {
        Progress::Begin { folder, programs } => eprintln!(
            "Building {programs} programs of a control plane into {}.\nThis happens once: about 5 minutes on two cores, and 700 MB of sources to download.",
            folder.display()
        ),
        Progress::Waiting => eprintln!("Another process is building the control plane: waiting."),
        Progress::Building { program, number, of, elapsed, usually } => {
            let bar = bar.get_or_insert_with(|| new_bar(usually));
            // Slower than usual: the bar stays short of its end.
            bar.set_position(elapsed.min(usually).as_secs());
            bar.set_message(format!("{number}/{of} {program}, about {}", minutes(usually)));
        }
        Progress::Built { program, took } => {
            if let Some(bar) = bar.take() {
                bar.finish_and_clear();
            }
            eprintln!("  {program}: {}", minutes(took));
        }
    })
}

fn new_bar(usually: Duration) -> ProgressBar {
    let style = ProgressStyle::with_template("  {msg} {bar:30} {elapsed_precise}");
    ProgressBar::new(usually.as_secs().max(1))
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// A duration in minutes and seconds.
pub fn minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}
