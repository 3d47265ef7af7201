//! Holds the documents to the code: what the controller can say has an entry, and links lead
//! somewhere.

#![expect(clippy::unwrap_used, reason = "a test: what is not there fails it")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use address_controller::{
    api::{
        BoundReason::{AddressLost, Bound, WaitingForProvisioning},
        ClassResolvedReason::{ClassNotFound, MultipleDefaultClasses, NoDefaultClass, Resolved},
        well_known,
    },
    binder::plan::EventReason,
};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Markdown file that people are led to.
fn documents() -> Vec<PathBuf> {
    let mut files = vec![root().join("README.md")];
    for folder in ["docs", "docs/adr", ".github"] {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        files.extend(
            entries.map(|e| e.unwrap().path()).filter(|p| p.extension() == Some("md".as_ref())),
        );
    }
    files
}

/// The lines of a document outside code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|l| l.starts_with('#'));
    headings.map(|h| anchor(h.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// The targets of a document's links.
fn links(text: &str) -> Vec<&str> {
    let parts = text.split("](").skip(1);
    parts.filter_map(|rest| rest.split_once(')').map(|(target, _)| target)).collect()
}

/// What is wrong with the link `target` in the document at `from`.
fn broken(from: &Path, target: &str) -> Option<&'static str> {
    if target.starts_with("https://") {
        return None;
    }
    let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
    let file = if path.is_empty() { from.to_owned() } else { from.parent().unwrap().join(path) };
    if !file.exists() {
        return Some("no such file");
    }
    let missing =
        !fragment.is_empty() && !anchors(&fs::read_to_string(file).unwrap()).contains(fragment);
    missing.then_some("no such heading")
}

#[test]
fn every_link_leads_somewhere() {
    let mut wrong = Vec::new();
    for file in documents() {
        let text = fs::read_to_string(&file).unwrap();
        let targets = links(&text);
        wrong.extend(
            targets.iter().filter_map(|t| {
                broken(&file, t).map(|why| format!("{}: {t}: {why}", file.display()))
            }),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The check above can fail.
#[test]
fn a_link_that_leads_nowhere_is_found() {
    let from = root().join("docs/README.md");
    assert_eq!(broken(&from, "contract.md#invariants"), None);
    assert_eq!(broken(&from, "contract.md#invariant"), Some("no such heading"));
    assert_eq!(broken(&from, "contracts.md"), Some("no such file"));
    assert_eq!(anchor("What happens when…"), "what-happens-when");
    assert_eq!(links("a [b](c) d [e](#f)"), ["c", "#f"]);
}

#[test]
fn troubleshooting_has_an_entry_for_every_reason_and_event() {
    let text = fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap();
    let entries: BTreeSet<_> = prose(&text).filter_map(|l| l.strip_prefix("### ")).collect();
    let class_resolved = [Resolved, ClassNotFound, NoDefaultClass, MultipleDefaultClasses];
    let bound = [Bound, WaitingForProvisioning, AddressLost];
    let reasons = class_resolved.iter().map(|r| r.as_str());
    let reasons = reasons.chain(bound.iter().map(|r| r.as_str()));
    let reasons = reasons.chain(EventReason::ALL.iter().map(|r| r.as_str()));
    for reason in reasons {
        assert!(entries.contains(reason), "docs/troubleshooting.md has no entry for {reason}");
    }
}

#[test]
fn the_contract_spells_every_name_as_the_code_does() {
    let text = fs::read_to_string(root().join("docs/contract.md")).unwrap();
    for name in [
        well_known::DEFAULT_CLASS_ANNOTATION,
        well_known::PROVISIONER_ANNOTATION,
        well_known::SELECTED_ADDRESSES_ANNOTATION,
        well_known::SERVICE_CLAIM_ANNOTATION,
        well_known::CLAIM_FINALIZER,
        well_known::ADDRESS_FINALIZER,
    ] {
        assert!(text.contains(&format!("`{name}`")), "docs/contract.md does not name {name}");
    }
}

/// `ipaddress` without its group is the kind that is built into Kubernetes.
#[test]
fn no_command_in_the_documents_means_the_namesake() {
    for file in documents() {
        let text = fs::read_to_string(&file).unwrap();
        for line in text.lines().filter(|l| l.trim_start().starts_with("kubectl")) {
            let bare = line.split_whitespace().any(|w| w == "ipaddress" || w == "ipaddresses");
            assert!(!bare, "{}: write the kind with its group: {line}", file.display());
        }
    }
}

/// The counterexamples are told as they are in the scenarios, which the model's tests write.
#[test]
fn counterexamples_are_those_of_the_model() {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let page = words(&fs::read_to_string(root().join("docs/testing.md")).unwrap());
    for file in ["I2-without-the-selection", "I2-without-the-counter"] {
        let path = root().join("tests/scenarios").join(file).with_extension("json");
        let scenario: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let says = scenario["steps"].as_array().unwrap().iter().map(|step| &step["says"]);
        let told: Vec<_> =
            (1..).zip(says).map(|(n, says)| format!("{n}. {}", says.as_str().unwrap())).collect();
        assert!(
            page.contains(&told.join(" ")),
            "docs/testing.md tells {file} otherwise: {told:#?}"
        );
    }
}
