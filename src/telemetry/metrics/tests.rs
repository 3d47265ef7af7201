//! What the metrics look like to those who read them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::*;
use crate::api::{AddressPhase, ClaimPhase};

/// Counts everything once.
fn everything() -> Metrics {
    let metrics = Metrics::new();
    let ms = Duration::from_millis;
    metrics.pass(Kind::Claim, Outcome::Written, ms(3));
    metrics.queued(Kind::Claim, ms(1));
    metrics.bound(ms(40));
    metrics.conflict(Kind::Address);
    metrics.write(Kind::Address, Verb::Patch, Status::Ok);
    metrics.read(Kind::Claim, Status::NotFound);
    metrics.event(EventResult::Sent);
    metrics.watch_problem(Kind::Class, Problem::Gone);
    metrics.watch_list(Kind::Class);
    metrics.unparsed(Kind::Address, 2);
    metrics.missing_fields(Kind::Address, 1);
    metrics.depth_from(Kind::Claim, || 5);
    metrics.census_from(|| {
        let mut census = Census::of_classes(["public".to_owned()]);
        census.add_claims(Some(ClaimPhase::Bound), "public", 3);
        census.add_addresses(Some(AddressPhase::Available), "public", 4);
        census
    });
    metrics
}

/// The samples in a page: everything that is not a comment.
fn samples(page: &str) -> BTreeMap<String, String> {
    page.lines()
        .filter(|l| !l.starts_with('#'))
        .filter_map(|l| l.rsplit_once(' '))
        .map(|(series, value)| (series.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn what_is_counted_is_read() {
    let page = everything().encode();
    let samples = samples(&page);
    for (series, value) in [
        (r#"passes_total{kind="claim",outcome="written"}"#, "1"),
        (r#"passes_total{kind="claim",outcome="conflict"}"#, "0"),
        (r#"pass_duration_seconds_count{kind="claim"}"#, "1"),
        (r#"queue_duration_seconds_count{kind="claim"}"#, "1"),
        (r#"queue_depth{kind="claim"}"#, "5"),
        (r"bind_duration_seconds_count", "1"),
        (r#"conflicts_total{kind="address"}"#, "1"),
        (r#"writes_total{kind="address",verb="patch",status="ok"}"#, "1"),
        (r#"reads_total{kind="claim",status="not_found"}"#, "1"),
        (r#"events_total{result="sent"}"#, "1"),
        (r#"watch_problems_total{kind="class",problem="gone"}"#, "1"),
        (r#"watch_lists_total{kind="class"}"#, "1"),
        (r#"unparsed_objects{kind="address"}"#, "2"),
        (r#"crd_missing_fields{kind="address"}"#, "1"),
        (r#"claims{phase="Bound",class="public"}"#, "3"),
        (r#"addresses{phase="Available",class="public"}"#, "4"),
    ] {
        let series = format!("address_controller_{series}");
        assert_eq!(samples.get(&series).map(String::as_str), Some(value), "{series} in\n{page}");
    }
}

/// The description is of what is exposed: same names, types and labels.
#[test]
fn what_is_described_is_what_is_exposed() {
    let page = everything().encode();
    let exposed: BTreeSet<(String, String)> = page
        .lines()
        .filter_map(|l| l.strip_prefix("# TYPE "))
        .filter_map(|l| l.split_once(' '))
        .map(|(name, type_)| (name.to_owned(), type_.to_owned()))
        .collect();
    let described: BTreeSet<(String, String)> =
        describe().into_iter().map(|d| (d.name, d.type_.as_str().to_owned())).collect();
    assert_eq!(exposed, described);

    for family in describe() {
        let help = format!("# HELP {} {}.", family.name, family.help);
        assert!(page.lines().any(|l| l == help), "{help}");
        let starts = |s: &&String| {
            s.strip_prefix(family.name.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['{', '_']))
        };
        let samples = samples(&page);
        let series = samples.keys().find(starts).unwrap_or_else(|| panic!("{}", family.name));
        let labels: Vec<&str> = series
            .split_once('{')
            .map(|(_, l)| l.trim_end_matches('}').split(',').filter_map(|l| l.split('=').next()))
            .map(|l| l.filter(|l| *l != "le").collect())
            .unwrap_or_default();
        assert_eq!(labels, family.labels, "{series}");
    }
}

/// X5: a thousand claims that come, name a thousand classes, and go leave no series behind.
#[test]
fn x5_claims_that_come_and_go_leave_no_series() {
    let metrics = Metrics::new();
    let present = Arc::new(parking_lot::Mutex::new(Vec::<String>::new()));
    let seen = Arc::clone(&present);
    metrics.census_from(move || {
        let mut census = Census::of_classes(["public".to_owned()]);
        for class in seen.lock().iter() {
            census.add_claims(Some(ClaimPhase::Pending), class, 1);
        }
        census
    });
    let work = || {
        metrics.pass(Kind::Claim, Outcome::Written, Duration::from_millis(1));
        metrics.write(Kind::Claim, Verb::Patch, Status::Ok);
        metrics.event(EventResult::Sent);
    };
    work();
    let series = |metrics: &Metrics| samples(&metrics.encode()).into_keys().collect::<Vec<_>>();
    let before = series(&metrics);

    for n in 0..1000 {
        present.lock().push(format!("class-{n}"));
        work();
    }
    let during = series(&metrics);
    assert_eq!(during.len(), before.len() + 1, "all share the row without a class");
    assert!(!metrics.encode().contains("class-7"));

    present.lock().clear();
    assert_eq!(series(&metrics), before);
}

#[test]
fn a_class_name_cannot_break_the_page() {
    let metrics = Metrics::new();
    let name = "a\"b\\c\nd";
    metrics.census_from(move || {
        let mut census = Census::of_classes([name.to_owned()]);
        census.add_claims(None, name, 1);
        census
    });
    let page = metrics.encode();
    assert!(page.contains(r#"class="a\"b\\c\nd"} 1"#), "{page}");
}
