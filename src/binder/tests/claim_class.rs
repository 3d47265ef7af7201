//! Which class a claim resolves to, when it is asked for, and what is said when there is none.

use rstest::rstest;

use super::claim_world::{DRIVER, World, condition, why};
use crate::{
    api::{ClaimPhase, ConditionType::ClassResolved},
    binder::{
        index::Strange,
        plan::{EventReason, Waiting},
        testing::{Object, claim, class, free, plan_claim, world},
    },
};

/// A class of its own driver, so that the stamp tells which one was resolved to.
fn served(name: &str) -> Object {
    class(name).set("/spec/provisioner", format!("{name}.example.org"))
}

/// The claim names a class, has resolved to one, there are defaults: the first of these that says
/// anything decides, and nothing falls through to the next because a class is missing.
#[rstest]
#[case::explicit("public", "", &[], Ok("public"))]
#[case::explicit_before_sticky("public", "lab", &[], Ok("public"))]
#[case::explicit_before_default("public", "", &["lab"], Ok("public"))]
#[case::explicit_before_two_defaults("public", "", &["lab", "public"], Ok("public"))]
#[case::explicit_and_absent("gone", "", &["lab"], Err("ClassNotFound"))]
#[case::explicit_and_absent_though_resolved_before("gone", "public", &[], Err("ClassNotFound"))]
#[case::sticky("", "public", &[], Ok("public"))]
#[case::sticky_before_another_default("", "public", &["lab"], Ok("public"))]
#[case::sticky_before_two_defaults("", "public", &["lab", "public"], Ok("public"))]
#[case::sticky_and_absent("", "gone", &["lab"], Err("ClassNotFound"))]
#[case::default("", "", &["lab"], Ok("lab"))]
#[case::no_default("", "", &[], Err("NoDefaultClass"))]
#[case::two_defaults("", "", &["public", "lab"], Err("MultipleDefaultClasses"))]
fn the_class_is_the_first_that_is_named(
    #[case] named: &str,
    #[case] resolved: &str,
    #[case] defaults: &[&str],
    #[case] expected: Result<&str, &str>,
) {
    let mut world = World::of(&[claim("t1/web").class(named).resolved(resolved)]);
    for name in ["lab", "public"] {
        let class = served(name);
        world.put(if defaults.contains(&name) { class.default_class() } else { class });
    }
    world.pass("t1/web");
    let claim = world.claim("t1/web");
    match expected {
        Ok(name) => {
            assert_eq!(condition(&claim, ClassResolved).unwrap(), "True/Resolved");
            assert_eq!(claim.resolved_class.as_deref(), Some(name));
            assert_eq!(claim.stamp.as_deref(), Some(format!("{name}.example.org").as_str()));
        }
        Err(reason) => {
            assert_eq!(condition(&claim, ClassResolved).unwrap(), format!("False/{reason}"));
            let before = Some(resolved).filter(|r| !r.is_empty());
            assert_eq!(claim.resolved_class.as_deref(), before, "written only when resolved");
            assert_eq!(claim.stamp, None, "nobody is asked to provision");
        }
    }
    assert_eq!(claim.phase, Some(ClaimPhase::Pending));
}

/// An empty text is no name: in the spec as in the status.
#[test]
fn an_empty_class_name_is_the_same_as_none() {
    let absent = claim("t1/web").set("/spec", serde_json::json!({}));
    let empty = claim("t1/web").class("").resolved("");
    for object in [absent, empty] {
        let mut world = World::of(&[object, served("lab").default_class()]);
        world.pass("t1/web");
        assert_eq!(world.claim("t1/web").resolved_class.as_deref(), Some("lab"));
    }
}

/// Only the value "true" makes a default.
#[rstest]
#[case("false")]
#[case("")]
#[case("True")]
#[case("1")]
fn another_value_of_the_default_annotation_is_no_default(#[case] value: &str) {
    let path = "/metadata/annotations/ipaddressclass.local.sdn.cozystack.io~1is-default-class";
    let mut world = World::of(&[claim("t1/web").class(""), class("public").set(path, value)]);
    world.pass("t1/web");
    let resolved = condition(&world.claim("t1/web"), ClassResolved);
    assert_eq!(resolved.unwrap(), "False/NoDefaultClass");
}

/// What is said names what to mend.
#[rstest]
#[case::absent("gone", &[], &["IPAddressClass gone does not exist"])]
#[case::no_default("", &[], &["no IPAddressClass is annotated as the default"])]
#[case::two("", &["zulu", "alpha"], &["several", "alpha, zulu"])]
#[case::three("", &["m", "z", "a"], &["a, m, z"])]
fn the_message_names_what_is_wrong(
    #[case] named: &str,
    #[case] defaults: &[&str],
    #[case] parts: &[&str],
) {
    let mut world = World::of(&[claim("t1/web").class(named)]);
    for name in defaults {
        world.put(class(name).default_class());
    }
    let pass = world.pass("t1/web");
    let conditions = &pass.status().conditions;
    let message = &conditions.iter().find(|c| c.type_ == "ClassResolved").unwrap().message;
    for part in parts {
        assert!(message.contains(part), "{message:?} says {part:?}");
    }
    let told: Vec<_> = pass.told().iter().map(|e| e.note.clone()).collect();
    assert!(told.contains(message), "the event says the same: {told:?}");
    assert!(why(&world.claim("t1/web")).contains("the class is not resolved"));
}

/// A class that does not parse resolves nothing, and its default annotation cannot be trusted.
#[test]
fn a_class_that_does_not_parse_is_not_found_and_the_message_says_which_it_is() {
    let strange = Strange {
        uid: "u".into(),
        resource_version: "5".into(),
        error: "missing field `provisioner`".to_owned(),
        ip: None,
        claim: None,
    };
    let mut index = world(&[claim("t1/web"), free("a1", "192.0.2.1")]);
    index.strange_class(&"public".into(), strange);
    let plan = plan_claim(&index, "t1/web");
    assert_eq!(plan.chosen().count(), 0);
    assert_eq!(plan.waiting, [Waiting::Class("public".into())], "it may be mended");
    let told: Vec<_> = plan.steps.iter().flat_map(|p| &p.events).collect();
    assert_eq!(told[1].reason, EventReason::ClassNotFound);
    assert!(told[1].note.contains("public does not parse"), "{}", told[1].note);
}

/// The failing class and what mends it: the class appears, a default is annotated, one of two loses
/// its annotation. The claim waits for just that.
#[rstest]
#[case::appears("gone", &[], Waiting::Class("gone".into()), served("gone"))]
#[case::annotated("", &[], Waiting::DefaultClass, served("gone").default_class())]
#[case::one_left("", &["lab", "zoo"], Waiting::DefaultClass, served("zoo"))]
fn a_failed_resolution_is_retried_when_classes_change(
    #[case] named: &str,
    #[case] defaults: &[&str],
    #[case] wait: Waiting,
    #[case] mend: Object,
) {
    let mut world = World::of(&[claim("t1/web").class(named)]);
    for name in defaults {
        world.put(served(name).default_class());
    }
    let failed = world.pass("t1/web");
    assert_eq!(failed.plan.waiting, [wait]);
    world.put(mend);
    world.pass("t1/web");
    let claim = world.claim("t1/web");
    assert_eq!(condition(&claim, ClassResolved).unwrap(), "True/Resolved");
    assert!(claim.stamp.is_some());
}

/// O01: why a class is not resolved is told when it is new, and not again because the claim's
/// state is written for another reason.
#[test]
fn o01_a_class_failure_is_told_when_it_changes() {
    let mut world = World::of(&[claim("t1/web").class("gone")]);
    let first = world.pass("t1/web");
    assert_eq!(first.events(), [EventReason::Pending, EventReason::ClassNotFound]);

    world.edit("t1/web", |o| o.set("/metadata/generation", 2));
    let touched = world.pass("t1/web");
    assert_eq!(touched.steps(), ["status Pending"], "the generation is written");
    assert_eq!(touched.events(), [], "and nobody is told again");

    world.edit("t1/web", |o| o.class(""));
    assert_eq!(world.pass("t1/web").events(), [EventReason::NoDefaultClass]);

    world.put(class("public").default_class());
    world.put(class("zoo").default_class());
    assert_eq!(world.pass("t1/web").events(), [EventReason::MultipleDefaultClasses]);

    world.remove("class zoo");
    assert_eq!(world.pass("t1/web").events(), [], "that it is resolved now needs no event");
}

/// A default that changes afterwards moves no claim: the status remembers.
#[test]
fn a_claim_stays_with_the_default_that_it_resolved_to() {
    let mut world = World::of(&[claim("t1/web").class(""), served("lab").default_class()]);
    world.pass("t1/web");
    world.put(served("lab"));
    world.put(served("zoo").default_class());
    assert_eq!(world.pass("t1/web").steps(), [""; 0]);
    assert_eq!(world.claim("t1/web").stamp.as_deref(), Some("lab.example.org"));
}

/// While nothing is missing the class is not looked at: it can be deleted, edited or unreadable.
#[rstest]
#[case::deleted(None)]
#[case::another_driver(Some("other.example.org"))]
fn a_class_that_changes_disturbs_no_binding(#[case] provisioner: Option<&str>) {
    let objects = [claim("t1/web"), free("a1", "192.0.2.1"), class("public")];
    let mut world = World::of(&objects);
    world.settle("t1/web");
    match provisioner {
        None => world.remove("class public"),
        Some(p) => world.put(class("public").set("/spec/provisioner", p)),
    }
    let pass = world.pass("t1/web");
    assert_eq!(pass.steps(), [""; 0]);
    assert_eq!(pass.plan.waiting, [], "and nothing of it is waited for");
    let claim = world.claim("t1/web");
    assert_eq!(condition(&claim, ClassResolved).unwrap(), "True/Resolved");
    assert_eq!(claim.stamp.as_deref(), Some(DRIVER));
}

/// Phase and addresses are kept up even when resolution fails: a bound claim whose address and
/// class both go is Lost, and shows no address that is not there.
#[test]
fn status_is_kept_up_when_the_class_is_gone_too() {
    let mut world = World::of(&[claim("t1/web"), free("a1", "192.0.2.1"), class("public")]);
    world.settle("t1/web");
    world.remove("class public");
    world.remove("a1");
    let pass = world.pass("t1/web");
    let claim = world.claim("t1/web");
    assert_eq!((claim.phase, claim.published.len()), (Some(ClaimPhase::Lost), 0));
    assert_eq!(condition(&claim, ClassResolved).unwrap(), "False/ClassNotFound");
    assert_eq!(claim.resolved_class.as_deref(), Some("public"), "left alone");
    assert_eq!(pass.events(), [EventReason::Lost, EventReason::ClassNotFound]);
}

/// A claim that never bound and whose class is missing still completes what names it.
#[test]
fn what_names_a_claim_is_collected_without_a_class() {
    let mut world = World::of(&[
        claim("t1/web").class("gone"),
        free("a1", "192.0.2.1").held_by("t1/web", None),
    ]);
    let pass = world.pass("t1/web");
    assert_eq!(pass.steps(), ["mark finalizer", "complete a1", "status Bound a1"]);
    let claim = world.claim("t1/web");
    assert_eq!(condition(&claim, ClassResolved), None, "it was not asked");
    assert_eq!(claim.resolved_class, None);
}
