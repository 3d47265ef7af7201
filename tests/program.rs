//! The program as its users meet it: arguments, what it prints, and how it starts and ends.

#![expect(clippy::expect_used, reason = "helpers of tests fail the test that calls them")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Output, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use address_controller::{api::crd, runtime::Cli};
use clap::CommandFactory;
use serde_json::Value;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_address-controller"));
    // No kubeconfig of whoever runs the tests is to be found.
    command.args(args).env_clear().env("HOME", "/nonexistent");
    command
}

fn output(args: &[&str]) -> Output {
    program(args).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

#[test]
fn help_names_every_flag_with_its_variable() {
    let help = output(&["--help"]);
    assert!(help.status.success());
    let help = text(&help.stdout);
    for arg in Cli::command().get_arguments() {
        let Some(long) = arg.get_long() else { continue };
        assert!(help.contains(&format!("--{long}")), "--{long} is not in:\n{help}");
        if let Some(env) = arg.get_env() {
            assert!(help.contains(&*env.to_string_lossy()), "{} is not in:\n{help}", env.display());
        }
    }
    for heading in ["API server:", "Work:", "Listeners:", "Process:", "Logs:"] {
        assert!(help.contains(heading), "{heading} is not in:\n{help}");
    }
}

#[test]
fn version_is_the_packages() {
    let version = format!("address-controller {}\n", env!("CARGO_PKG_VERSION"));
    for arg in ["version", "--version"] {
        let printed = output(&[arg]);
        assert!(printed.status.success());
        assert_eq!(text(&printed.stdout), version);
    }
}

#[test]
fn print_crds_prints_the_three_definitions() {
    use serde::Deserialize;
    let printed = output(&["print-crds"]);
    assert!(printed.status.success());
    let documents: Vec<Value> = serde_yaml_ng::Deserializer::from_slice(&printed.stdout)
        .map(|document| Value::deserialize(document).expect("YAML"))
        .collect();
    let known: Vec<Value> =
        crd::all().iter().map(|c| serde_json::to_value(c).expect("JSON")).collect();
    assert_eq!(documents, known);
}

#[test]
fn a_wrong_value_is_refused_with_the_right_ones() {
    for (flag, variable, value, right) in [
        ("--watch-timeout", "WATCH_TIMEOUT", "5m", "30s to 60s"),
        ("--metrics-bind-address", "METRICS_BIND_ADDRESS", "8080", ":8080"),
        ("--log-format", "LOG_FORMAT", "xml", "auto, text, json"),
    ] {
        let variable = format!("ADDRESS_CONTROLLER_{variable}");
        for refused in [
            output(&[&format!("{flag}={value}")]),
            program(&[]).env(variable, value).output().expect("the program runs"),
        ] {
            assert_eq!(refused.status.code(), Some(2));
            let message = text(&refused.stderr);
            for part in [flag, value, right] {
                assert!(message.contains(part), "{part} is not in: {message}");
            }
        }
    }
}

#[test]
fn without_any_way_to_an_api_server_it_says_so_and_ends() {
    let refused = output(&["--log-format=json"]);
    assert_eq!(refused.status.code(), Some(2));
    let lines: Vec<&str> = text(&refused.stderr).lines().collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("no way to the API server"), "{lines:?}");
}

/// A running program whose log lines are read as they come.
struct Running {
    child: Child,
    lines: Receiver<Value>,
    seen: Vec<Value>,
}

impl Running {
    fn start(args: &[&str]) -> Self {
        let mut child = program(args).stderr(Stdio::piped()).spawn().expect("the program starts");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines, seen: Vec::new() }
    }

    /// The next line that `is` it; panics when none comes.
    fn line(&mut self, is: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|e| panic!("no such line ({e}): {:#?}", self.seen));
            self.seen.push(line.clone());
            if is(&line) {
                return line;
            }
        }
    }

    /// The address that the listener of a flag got.
    fn listener(&mut self, flag: &str) -> String {
        let line = self.line(|l| l["message"] == "listening" && l["flag"] == flag);
        line["address"].as_str().expect("an address").to_owned()
    }

    fn signal(&self, name: &str) {
        let kill = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(kill.expect("kill runs").success());
    }

    /// The exit code, and every line that was written.
    fn ended(mut self) -> (Option<i32>, Vec<Value>) {
        // The pipe closes when the process ends, and with it the channel.
        let deadline = Instant::now() + PATIENCE;
        while let Ok(line) = {
            let left = deadline.saturating_duration_since(Instant::now());
            self.lines.recv_timeout(left)
        } {
            self.seen.push(line);
        }
        assert!(Instant::now() < deadline, "it goes on: {:#?}", self.seen);
        let code = self.child.wait().expect("it has ended").code();
        (code, std::mem::take(&mut self.seen))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Of a test that failed half-way; an error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let code = head.split(' ').nth(1).and_then(|c| c.parse().ok()).expect("a status");
    (code, body.to_owned())
}

/// A kubeconfig for a server at this port.
fn kubeconfig(directory: &tempfile::TempDir, port: u16) -> String {
    let file = directory.path().join("kubeconfig");
    let yaml = format!(
        "{{apiVersion: v1, kind: Config, current-context: x,
           clusters: [{{name: x, cluster: {{server: 'http://127.0.0.1:{port}'}}}}],
           users: [{{name: x, user: {{}}}}],
           contexts: [{{name: x, context: {{cluster: x, user: x}}}}]}}"
    );
    fs::write(&file, yaml).expect("written");
    file.display().to_string()
}

/// H04: no API server is one line and a readiness that says so, not a process that restarts.
#[test]
fn h04_without_an_api_server_it_waits_says_so_once_and_can_be_told_to_stop() {
    // A port that nobody listens on, and that nobody else is given meanwhile.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port();
    drop(taken);
    let directory = tempfile::tempdir().expect("a directory");
    let mut running = Running::start(&[
        "--leader-elect=true",
        "--metrics-bind-address=127.0.0.1:0",
        "--health-probe-bind-address=127.0.0.1:0",
        &format!("--kubeconfig={}", kubeconfig(&directory, port)),
    ]);
    let address = running.listener("health-probe-bind-address");
    let waiting = |l: &Value| l["message"].as_str().is_some_and(|m| m.starts_with("waiting: "));
    running.line(waiting);

    assert_eq!(get(&address, "/livez"), (200, "ok\n".to_owned()));
    assert_eq!(get(&address, "/healthz"), (200, "ok\n".to_owned()));
    let (code, reason) = get(&address, "/readyz");
    assert_eq!(code, 503);
    assert!(reason.starts_with("the API server cannot be reached: "), "{reason}");
    let (code, page) = get(&address, "/metrics");
    assert_eq!(code, 200);
    assert!(page.contains("# TYPE address_controller_passes_total counter"), "{page}");

    running.signal("-TERM");
    let told = Instant::now();
    let (code, lines) = running.ended();
    assert_eq!(code, Some(0), "{lines:#?}");
    assert!(told.elapsed() < Duration::from_secs(10), "{:?}", told.elapsed());
    assert_eq!(lines.iter().filter(|l| waiting(l)).count(), 1, "{lines:#?}");
    assert!(lines.iter().all(Value::is_object), "every line is JSON: {lines:#?}");
}

/// Several tries see one obstacle: it is said once, and kube's own reports are not heard.
#[test]
fn h04_many_tries_are_one_line() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("its address").port();
    let (asked, requests) = channel();
    thread::spawn(move || {
        for connection in server.incoming().map_while(Result::ok) {
            let mut connection = BufReader::new(connection);
            let mut line = String::new();
            while connection.read_line(&mut line).is_ok_and(|n| n > 2) {
                line.clear();
            }
            let answer = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 8\r\n\
                          Connection: close\r\n\r\nstarting";
            let _ = connection.get_mut().write_all(answer.as_bytes());
            if asked.send(()).is_err() {
                return;
            }
        }
    });
    let directory = tempfile::tempdir().expect("a directory");
    let running = Running::start(&[
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        &format!("--kubeconfig={}", kubeconfig(&directory, port)),
    ]);
    for _ in 0..3 {
        requests.recv_timeout(PATIENCE).expect("another try");
    }
    running.signal("-INT");
    let (code, lines) = running.ended();
    assert_eq!(code, Some(0), "{lines:#?}");
    let obstacles: Vec<_> = lines.iter().filter(|l| l["level"] != "INFO").collect();
    assert_eq!(obstacles.len(), 1, "{lines:#?}");
    let message = obstacles[0]["message"].as_str().expect("a message");
    assert_eq!(message, "waiting: the API server does not serve: starting");
}

#[test]
fn an_address_that_is_taken_is_named_with_its_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let flag = format!("--metrics-bind-address={}", taken.local_addr().expect("its address"));
    let directory = tempfile::tempdir().expect("a directory");
    let refused = output(&[
        &flag,
        "--health-probe-bind-address=0",
        &format!("--kubeconfig={}", kubeconfig(&directory, 1)),
    ]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains(&flag), "{}", text(&refused.stderr));
}
