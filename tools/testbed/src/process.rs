//! One child process: its log, its signals, and its end, by its own pid.

use std::{
    ffi::OsStr,
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::watchdog;

/// How long a process may take to end by itself after SIGTERM before it gets SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

/// A signal, by the name that `kill` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// End in an orderly way.
    Term,
    /// End now.
    Kill,
    /// Pause.
    Stop,
    /// Go on.
    Cont,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Term => "TERM",
            Self::Kill => "KILL",
            Self::Stop => "STOP",
            Self::Cont => "CONT",
        }
    }
}

/// Sends a signal to one process. A process that is gone already is no error.
pub fn signal(pid: u32, signal: Signal) {
    // The shell's own `kill`: a small Debian has no /bin/kill.
    let _ = Command::new("sh")
        .args(["-c", &format!("kill -{} {pid}", signal.name())])
        .stderr(Stdio::null())
        .status();
}

/// The processor time that a process has had so far, its own and the system's for it. Nothing when
/// there is no such process, or the system does not tell.
///
/// Source: proc(5), fields 14 and 15 of `/proc/PID/stat`.
#[must_use]
pub fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in parentheses, may have any character in it.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()? + ticks()?;
    Some(
        Duration::from_nanos(1_000_000_000 / rustix::param::clock_ticks_per_second())
            * u32::try_from(ticks).ok()?,
    )
}

/// A child process, ended when it is dropped, and when this process ends in whatever way.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    guarded: bool,
}

impl Process {
    /// Starts `program`, with its output appended to `log`.
    ///
    /// # Errors
    /// When the log cannot be opened or the program cannot be started.
    pub fn start(
        program: &Path,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        log: &Path,
    ) -> Result<Self> {
        Self::spawn(Command::new(program).args(args), log, true)
    }

    /// Starts a command. One that is not `guarded` outlives this process and this value.
    ///
    /// # Errors
    /// When the log cannot be opened or the program cannot be started.
    pub fn spawn(command: &mut Command, log: &Path, guarded: bool) -> Result<Self> {
        use std::os::unix::process::CommandExt;
        let program = Path::new(command.get_program()).to_owned();
        let out = File::options().create(true).append(true).open(log);
        let out = out.with_context(|| format!("opening {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            // A group of its own: Ctrl-C in the terminal is for the test, which then ends its children.
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        if guarded {
            watchdog::end_with_us(child.id());
        }
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, child, log: log.to_owned(), guarded })
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where the output goes.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// All output so far.
    pub fn log(&self) -> String {
        std::fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The last lines of the output, for an error message.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// Sends a signal.
    pub fn signal(&self, what: Signal) {
        signal(self.pid(), what);
    }

    /// How the process ended, or nothing while it runs.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// An error with the end of the log, when the process has ended by itself.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn check_runs(&mut self) -> Result<()> {
        match self.exit_status() {
            None => Ok(()),
            Some(status) => {
                anyhow::bail!("{} ended ({status}); its log ends:\n{}", self.name, self.log_tail())
            }
        }
    }

    /// Waits for the process to end by itself; after `bound` there is no status.
    pub fn wait(&mut self, bound: Duration) -> Option<ExitStatus> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.exit_status() {
                return Some(status);
            }
            if begin.elapsed() >= bound {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// SIGTERM, and SIGKILL when that has not ended it within five seconds.
    pub fn end(&mut self) {
        if self.exit_status().is_none() {
            self.signal(Signal::Term);
            // One that is paused hears nothing before it goes on.
            self.signal(Signal::Cont);
            if self.wait(GRACE).is_none() {
                self.kill();
            }
        }
        self.forget();
    }

    /// SIGKILL, and waits until the process is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.forget();
        let _ = self.child.wait();
    }

    fn forget(&mut self) {
        if self.guarded {
            watchdog::forget(self.pid());
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.guarded && self.exit_status().is_none() {
            self.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> (tempfile::TempDir, Process) {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let script = "echo begun; trap 'echo ending; exit 3' TERM; while :; do sleep 0.02; done";
        let process = Process::start(Path::new("sh"), ["-c", script], &log).unwrap();
        let begin = Instant::now();
        while !process.log().contains("begun") {
            assert!(begin.elapsed() < Duration::from_secs(5), "the shell says nothing");
            std::thread::yield_now();
        }
        (folder, process)
    }

    #[test]
    fn a_process_ends_in_its_own_way_on_sigterm() {
        let (_folder, mut process) = sleeper();
        process.check_runs().unwrap();
        process.end();
        assert_eq!(process.exit_status().and_then(|s| s.code()), Some(3));
        assert!(process.log().contains("ending"));
        assert!(process.check_runs().unwrap_err().to_string().contains("ending"));
    }

    #[test]
    fn a_paused_process_can_be_ended() {
        let (_folder, mut process) = sleeper();
        process.signal(Signal::Stop);
        process.end();
        assert_eq!(process.exit_status().and_then(|s| s.code()), Some(3));
    }
}
