//! A wall clock that is wrong, and jumps: libfaketime, where the machine has it.
//!
//! The replica reads how wrong its clock is from a file, at each look. Its monotonic clock is left
//! alone, as it is when an administrator or NTP sets a machine's time.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Where Debian and others put it.
const PLACES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// The clock of one replica.
#[derive(Debug)]
pub(super) struct ShiftedClock {
    library: &'static Path,
    file: PathBuf,
}

impl ShiftedClock {
    /// A clock that is right until it is set. Nothing: the machine has no libfaketime.
    ///
    /// # Errors
    /// When its file cannot be written.
    pub(super) fn find(folder: &Path) -> Result<Option<Self>> {
        let Some(library) = PLACES.iter().map(Path::new).find(|p| p.exists()) else {
            return Ok(None);
        };
        let clock = Self { library, file: folder.join("clock") };
        clock.set(0)?;
        Ok(Some(clock))
    }

    /// So many seconds ahead, or behind.
    ///
    /// # Errors
    /// When its file cannot be written.
    pub(super) fn set(&self, seconds: i64) -> Result<()> {
        // In one step: it is read all the time.
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("{seconds:+}s\n"))?;
        std::fs::rename(&new, &self.file).context("setting a replica's clock")
    }

    /// What a process that is to have this clock needs.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let file = self.file.to_string_lossy().into_owned();
        [
            ("LD_PRELOAD", &*self.library.to_string_lossy()),
            ("FAKETIME_TIMESTAMP_FILE", &file),
            ("FAKETIME_CACHE_DURATION", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("DONT_FAKE_MONOTONIC", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Where there is a libfaketime, `date` believes it.
    #[test]
    fn a_process_believes_the_clock_it_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let Some(clock) = ShiftedClock::find(folder.path()).unwrap() else { return };
        let seconds = || {
            let output =
                Command::new("date").arg("+%s").envs(clock.environment()).output().unwrap();
            String::from_utf8_lossy(&output.stdout).trim().parse::<i64>().unwrap()
        };
        let now = jiff::Timestamp::now().as_second();
        assert!((seconds() - now).abs() < 5);
        clock.set(-3600).unwrap();
        assert!((seconds() + 3600 - now).abs() < 5);
    }
}
