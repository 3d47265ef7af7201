//! Ends the children of a test process that was itself killed.
//!
//! Destructors do not run for statics, nor on SIGKILL. So one small shell sits beside the test
//! process, reading from a pipe which processes to end and which folders to remove; the pipe's end is
//! the test process's end, however it came about.

use std::{
    io::Write,
    path::Path,
    process::{ChildStdin, Command, Stdio},
    sync::OnceLock,
};

use parking_lot::Mutex;

/// `+ PID` and `- PID` for processes, `d PATH` and `k PATH` for folders to remove and to keep.
/// A pid leaves the list before it is waited for, so that it cannot be another's by the time it is used.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
pids= dirs=
while read -r verb what; do
  case $verb in
    +) pids="$pids $what" ;;
    d) dirs="$dirs $what" ;;
    -) left=; for x in $pids; do [ "$x" = "$what" ] || left="$left $x"; done; pids=$left ;;
    k) left=; for x in $dirs; do [ "$x" = "$what" ] || left="$left $x"; done; dirs=$left ;;
  esac
done
[ -z "$pids" ] || kill -KILL $pids 2>/dev/null
[ -z "$dirs" ] || { sleep 0.2; rm -rf $dirs; }
"#;

fn pipe() -> Option<&'static Mutex<ChildStdin>> {
    static PIPE: OnceLock<Option<Mutex<ChildStdin>>> = OnceLock::new();
    PIPE.get_or_init(|| {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        shell.stdin.take().map(Mutex::new)
    })
    .as_ref()
}

fn say(verb: char, what: &dyn std::fmt::Display) {
    if let Some(pipe) = pipe() {
        // Without its watchdog a test still works: it only leaves things behind when it is killed.
        let _ = writeln!(pipe.lock(), "{verb} {what}");
    }
}

/// The process ends with this one.
pub(crate) fn end_with_us(pid: u32) {
    say('+', &pid);
}

/// The process has been ended already.
pub(crate) fn forget(pid: u32) {
    say('-', &pid);
}

/// The folder is removed when this process ends. Paths with white space are left alone.
pub(crate) fn remove_with_us(folder: &Path) {
    if !folder.to_string_lossy().contains(char::is_whitespace) {
        say('d', &folder.display());
    }
}

/// The folder is kept after all, for somebody to read the logs in it.
pub(crate) fn keep(folder: &Path) {
    say('k', &folder.display());
}
