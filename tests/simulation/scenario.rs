//! What the model found with a guard left out (`tests/scenarios`), replayed with the real code, which
//! has it: nothing may break.
//!
//! Each step is forced as far as it can be from outside: watches stand still until a replica is to see,
//! and requests are held until they are to be made. What a pass decides is its own. A pass that began
//! before its replica saw something newer is sent back by a broken connection when it is to look again.
//! Where the code takes another way than the scenario, that is the guard: what it asks for then, it
//! gets, and the step is not made.

use std::{fs, path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    apiserver::{
        ask::{Ask, Verb},
        writes::text,
    },
    checks::Checks,
    gate::Verdict,
    link::Weather,
    oracle::{ADMINISTRATOR, DRIVER, TENANT},
    replica::{Election, Replica},
    run::Outcome,
    stage::Stage,
};

/// How long a request may take to be there.
const PATIENCE: Duration = Duration::from_secs(1);

/// Long enough for everything that can happen by itself.
const MOMENT: Duration = Duration::from_millis(20);

/// Nobody writes any more when nobody has for so long.
const QUIET: Duration = Duration::from_secs(90);

/// How many requests that are not in the scenario are let through in place of one that is.
const DETOUR: usize = 4;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

/// The names of all scenarios.
pub fn all() -> Vec<String> {
    let files = fs::read_dir(folder()).expect("tests/scenarios").flatten();
    let names = files.filter_map(|file| {
        let name = file.file_name().into_string().ok()?;
        name.strip_suffix(".json").map(str::to_owned)
    });
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Replays one.
pub async fn run(name: &str, trace: bool) -> Outcome {
    let text = fs::read_to_string(folder().join(format!("{name}.json"))).expect("a scenario");
    let scenario: Value = serde_json::from_str(&text).expect("JSON");
    let mut play = Play::new(&scenario, trace).await;
    for step in scenario["steps"].as_array().into_iter().flatten() {
        let made = play.step(step).await;
        play.steps.0 += u64::from(made);
        play.steps.1 += 1;
        if trace {
            let (made, says) = (if made { "made" } else { "NOT MADE" }, &step["says"]);
            let mut oracle = play.stage.oracle.lock();
            oracle.trace.get_or_insert_default().push(format!("{made}: {says}"));
        }
    }
    play.end().await
}

struct Play {
    stage: Arc<Stage>,
    replicas: Vec<Replica>,
    /// When each replica last learned anything.
    learned: Vec<Instant>,
    /// The object of the pass that each replica is in.
    passes: Vec<Target>,
    checks: Checks,
    begin: Instant,
    /// How many were made, and how many there are.
    steps: (u64, u64),
}

impl Play {
    async fn new(scenario: &Value, trace: bool) -> Self {
        let stage = Arc::new(Stage::new(0, trace));
        let objects = || {
            let all = ["around", "start"].into_iter().map(|part| scenario[part].as_array());
            all.flatten().flatten()
        };
        for namespace in objects().filter_map(|o| o["metadata"]["namespace"].as_str()) {
            let body = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
            });
            stage.ask(ADMINISTRATOR, Verb::Create, "namespaces", "", "", body);
        }
        for object in objects() {
            stage.put(plural(object["kind"].as_str().unwrap_or_default()), object.clone());
        }
        // What never changes in the scenario wants nothing here.
        let around = scenario["around"].as_array().into_iter().flatten();
        let idle: Vec<_> = around.filter(|o| o["kind"] == "IPAddressClaim").cloned().collect();
        let mut free = Vec::new();
        for mut claim in idle {
            claim["spec"]["className"] = "elsewhere".into();
            let place = |field: &str| text(&claim, field).to_owned();
            free.push((place("namespace"), place("name")));
            stage.put("ipaddressclaims", claim);
        }
        let replicas: Vec<_> = (1..=2).map(|number| replica(&stage, number, &free)).collect();
        sleep(PATIENCE).await;
        replicas.iter().for_each(freeze);
        let begin = Instant::now();
        let (learned, checks) = (vec![begin; replicas.len()], Checks::default());
        let passes = replicas.iter().map(|_| Target::of(&Value::Null)).collect();
        Self { stage, replicas, learned, passes, checks, begin, steps: (0, 0) }
    }

    /// Does a step. Whether it could be done.
    async fn step(&mut self, step: &Value) -> bool {
        let made = match step["replica"].as_u64().and_then(|number| usize::try_from(number).ok()) {
            Some(number) => self.replica_does(number - 1, step).await,
            None => self.other_does(step),
        };
        sleep(MOMENT).await;
        self.checks.look(&self.stage, &mut self.replicas);
        made
    }

    async fn replica_does(&mut self, who: usize, step: &Value) -> bool {
        match step["does"].as_str() {
            Some("see") => {
                let kind = if step["kind"] == "claims" { "ipaddressclaims" } else { "ipaddresses" };
                self.replicas[who].link.set(|w| w.frozen.retain(|frozen| *frozen != kind));
                sleep(MOMENT).await;
                freeze(&self.replicas[who]);
                self.learned[who] = Instant::now();
                true
            }
            Some("look") => {
                self.passes[who] = Target::of(&step["object"]);
                self.looks(who, &step["then"][0]).await
            }
            Some("read") => {
                let object = Target::of(&step["object"]);
                let gate = &self.replicas[who].link.gate;
                let is = |ask: &Ask, _| ask.verb == Verb::Get && object.is(ask, &self.stage);
                wait_for(|| gate.holds(is)).await;
                // The decision comes in a step of its own.
                let later = step["then"].as_array().is_some_and(Vec::is_empty);
                if later { gate.keep(is) } else { gate.release(is, Verdict::Go) }
            }
            Some("decide") => {
                self.replicas[who].link.gate.answer();
                true
            }
            Some("write") => self.writes(who, step).await,
            Some("end") => {
                self.replicas[who].kill();
                self.replicas[who].start();
                self.learned[who] = Instant::now();
                true
            }
            other => panic!("no step of a replica: {other:?}"),
        }
    }

    /// The pass is there with its first request, decided on what the replica knows now.
    async fn looks(&mut self, who: usize, first: &Value) -> bool {
        let gate = &self.replicas[who].link.gate;
        let learned = self.learned[who];
        while gate.release(|_, since| since < learned, Verdict::Cut) {}
        let wanted = match (&first["read"], &first["object"]) {
            (Value::Null, Value::Null) => return true,
            (Value::Null, written) => (Target::of(written), false),
            (read, _) => (Target::of(read), true),
        };
        let (object, reads) = wanted;
        let is = |ask: &Ask, _| ask.is_write() != reads && object.is(ask, &self.stage);
        wait_for(|| gate.holds(is)).await
    }

    async fn writes(&mut self, who: usize, step: &Value) -> bool {
        let gate = &self.replicas[who].link.gate;
        let object = Target::of(&step["object"]);
        let is = |ask: &Ask, _| object.is(ask, &self.stage) && is_alike(&step["asks"], ask);
        let verdict = || if step["answer"] == "lost" { Verdict::Lose } else { Verdict::Go };
        let mut made = wait_for(|| gate.holds(is)).await && gate.release(is, verdict());
        let detour = |ask: &Ask, _| self.passes[who].is_passed_by(ask, &self.stage);
        for _ in 0..DETOUR {
            if made || !gate.release(detour, Verdict::Go) {
                break;
            }
            made = wait_for(|| gate.holds(is)).await && gate.release(is, verdict());
        }
        // What began before this is answered is as old as what has not been seen.
        self.learned[who] = Instant::now();
        sleep(MOMENT).await;
        made
    }

    fn other_does(&self, step: &Value) -> bool {
        let Target { plural, namespace, name } = Target::of(&step["object"]);
        let is = &step["is"];
        let by = if plural == "ipaddresses" { ADMINISTRATOR } else { TENANT };
        let patch = |by, body| self.stage.ask(by, Verb::Patch, plural, &namespace, &name, body);
        match step["does"].as_str() {
            Some("create") => {
                let by = if by == ADMINISTRATOR { DRIVER } else { by };
                let body = json!({
                    "apiVersion": is["apiVersion"], "kind": is["kind"], "spec": is["spec"],
                    "metadata": { "name": name, "finalizers": is["metadata"]["finalizers"] },
                });
                self.stage.ask(by, Verb::Create, plural, &namespace, "", body);
            }
            Some("delete") => {
                self.stage.ask(by, Verb::Delete, plural, &namespace, &name, json!({}));
            }
            Some("take" | "clear") => {
                // A patch of what is not there takes it away.
                patch(by, json!({ "spec": { "claimRef": is["spec"].get("claimRef") } }));
            }
            Some("clear-uid") => patch(by, json!({ "spec": { "claimRef": { "uid": null } } })),
            Some("pin") => {
                patch(by, json!({ "spec": { "addressName": is["spec"]["addressName"] } }));
            }
            Some("widen") => patch(by, json!({ "spec": { "family": is["spec"]["family"] } })),
            Some("lost" | "conflict" | "mend") => {
                let phase = is["status"].get("phase");
                let body = json!({ "status": { "phase": phase } });
                self.stage.ask_status(DRIVER, plural, &name, body);
            }
            other => panic!("no step of others: {other:?}"),
        }
        true
    }

    /// Everything goes on by itself, until nobody writes any more.
    async fn end(mut self) -> Outcome {
        for replica in &self.replicas {
            replica.link.gate.open();
            replica.link.set(|w| *w = Weather { cut: w.cut, ..Weather::default() });
        }
        let freed = self.begin.elapsed();
        let (mut last, mut since) = (0, freed);
        while self.begin.elapsed() < since + QUIET {
            sleep(MOMENT * 5).await;
            self.checks.look(&self.stage, &mut self.replicas);
            let newest = self.stage.oracle.lock().last;
            if newest != last {
                (last, since) = (newest, self.begin.elapsed());
            }
        }
        let epoch = self.stage.api.elapsed().saturating_sub(self.begin.elapsed());
        self.checks.at_rest(&self.stage, (epoch + since, epoch + freed), Duration::ZERO);
        let (made, all) = self.steps;
        if made * 2 < all {
            let what = format!("only {made} of {all} steps were made: the code goes another way");
            self.checks.found.push(what);
        }
        let mut oracle = self.stage.oracle.lock();
        let broken = oracle.violations.iter().map(|violation| format!("{violation:?}"));
        let found = broken.chain(self.checks.found.clone()).collect();
        Outcome {
            hash: oracle.hash(),
            found,
            trace: oracle.trace.take().unwrap_or_default(),
            requests: oracle.requests,
            commits: oracle.commits,
            conflicts: oracle.conflicts,
            time: self.stage.api.elapsed(),
            steps: self.steps,
            ..Outcome::default()
        }
    }
}

/// One that does everything, as those of the model do.
fn replica(stage: &Stage, number: u64, free: &[(String, String)]) -> Replica {
    let name = format!("replica-{number}");
    let link = stage.link(&name, number);
    link.set(|w| w.slow = Duration::ZERO);
    link.gate.shut(free.to_vec());
    let mut replica = Replica::new(&name, stage.api.clone(), link, Election::Nobody);
    // What is held is held for long; what is sent back is there again at once.
    let flags = ["--request-timeout=60s", "--queue-backoff-base=10ms", "--queue-backoff-max=1s"];
    replica.flags = flags.map(str::to_owned).into();
    replica.start();
    replica
}

/// Its watches stand still.
fn freeze(replica: &Replica) {
    replica.link.set(|w| w.frozen = vec!["ipaddresses", "ipaddressclaims"]);
}

/// Waits until it is so. Whether it is.
async fn wait_for(so: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while !so() && begin.elapsed() < PATIENCE {
        sleep(MOMENT / 4).await;
    }
    so()
}

/// Whether a request asks for what a step's does, as far as that tells it from others to its object: in
/// the scenario a guard is missing, and some of what it writes with it.
fn is_alike(asks: &Value, ask: &Ask) -> bool {
    let deletes = *asks == "deletion";
    let (patch, status) = match asks.get("patch of status") {
        Some(status) => (json!({ "status": status }), true),
        None => (asks["patch"].clone(), false),
    };
    let same = |pointer: &str| patch.pointer(pointer) == ask.body.pointer(pointer);
    let binds = |value: &Value| !value["spec"]["claimRef"].is_null();
    ask.is_write()
        && deletes == (ask.verb == Verb::Delete)
        && status == ask.status
        && same("/status/phase")
        && binds(&patch) == binds(&ask.body)
}

/// An object that a step names.
struct Target {
    plural: &'static str,
    namespace: String,
    name: String,
}

impl Target {
    /// `IPAddress a1`, `IPAddressClaim t1/web`.
    fn of(named: &Value) -> Self {
        let text = named.as_str().unwrap_or_default();
        let (kind, path) = text.split_once(' ').unwrap_or_default();
        let (namespace, name) = path.split_once('/').unwrap_or(("", path));
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Self { plural: plural(kind), namespace, name }
    }

    fn is(&self, ask: &Ask, stage: &Stage) -> bool {
        stage.api.served()[ask.resource].plural == self.plural
            && ask.namespace == self.namespace
            && ask.name == self.name
    }
}

impl Target {
    /// Whether the pass over it may ask for this, as far as it can be told from passes over others.
    fn is_passed_by(&self, ask: &Ask, stage: &Stage) -> bool {
        let own = self.is(ask, stage);
        let claims = self.plural == "ipaddressclaims";
        let about_claims = stage.api.served()[ask.resource].plural == "ipaddressclaims";
        match ask.verb {
            Verb::Get => own || claims != about_claims,
            _ if own => true,
            Verb::Delete => claims && !about_claims,
            // What else is written to addresses is written by passes of their own.
            _ => {
                let phase = &ask.body["status"]["phase"];
                let of_claims = *phase == "Released" || *phase == "Pending";
                let binds = !ask.body["spec"]["claimRef"].is_null();
                claims && !about_claims && (of_claims || binds)
            }
        }
    }
}

fn plural(kind: &str) -> &'static str {
    match kind {
        "IPAddress" => "ipaddresses",
        "IPAddressClaim" => "ipaddressclaims",
        "IPAddressClass" => "ipaddressclasses",
        "" => "",
        other => panic!("no kind of a scenario: {other:?}"),
    }
}
