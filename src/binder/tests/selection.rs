//! The selection's text: what is written is read back, and what somebody else wrote harms nobody.

use proptest::prelude::*;
use rstest::rstest;

use crate::{
    api::IpFamily::{self, IPv4, IPv6},
    binder::selection::{Selection, Selections},
};

fn entry(name: &str, counter: u32, held: bool) -> Selection {
    Selection { name: name.into(), counter, held }
}

/// The text of each form.
#[rstest]
#[case("IPv4=a1/1", IPv4, entry("a1", 1, false))]
#[case("IPv6=a1/1", IPv6, entry("a1", 1, false))]
#[case("IPv4=a1/7/held", IPv4, entry("a1", 7, true))]
#[case("IPv4=a.b-c/4294967295", IPv4, entry("a.b-c", u32::MAX, false))]
fn a_text_is_read_and_written_alike(
    #[case] text: &str,
    #[case] family: IpFamily,
    #[case] expected: Selection,
) {
    let selections = Selections::parse(text);
    assert_eq!(selections.get(family), Some(&expected));
    assert_eq!(selections.names().count(), 1);
    assert!(!selections.is_empty());
    assert_eq!(selections.to_string(), text);
}

/// Both families, in whatever order; written IPv4 first.
#[test]
fn both_families_are_kept_apart() {
    let selections = Selections::parse("IPv6=b/2/held, IPv4=a/1");
    assert_eq!(selections.get(IPv4), Some(&entry("a", 1, false)));
    assert_eq!(selections.get(IPv6), Some(&entry("b", 2, true)));
    assert_eq!(selections.to_string(), "IPv4=a/1,IPv6=b/2/held");
}

/// What does not parse is left out.
#[rstest]
#[case::empty("")]
#[case::spaces("   ")]
#[case::commas(",,,")]
#[case::word("a1")]
#[case::no_counter("IPv4=a1")]
#[case::empty_counter("IPv4=a1/")]
#[case::no_name("IPv4=/1")]
#[case::no_family("=a1/1")]
#[case::other_family("IPv5=a1/1")]
#[case::lower_case("ipv4=a1/1")]
#[case::negative("IPv4=a1/-1")]
#[case::too_large("IPv4=a1/4294967296")]
#[case::not_a_number("IPv4=a1/one")]
#[case::other_mark("IPv4=a1/1/lost")]
#[case::empty_mark("IPv4=a1/1/")]
#[case::one_part_too_many("IPv4=a1/1/held/x")]
#[case::a_query("IPv4=?watch=true/1")]
#[case::a_query_behind_a_name("IPv4=a1?x=/1")]
#[case::the_folder_above("IPv4=../1")]
#[case::this_folder("IPv4=./1")]
#[case::an_escape("IPv4=%2e%2e/1")]
#[case::a_space("IPv4=a 1/1")]
#[case::upper_case("IPv4=A1/1")]
fn a_malformed_entry_is_left_out(#[case] text: &str) {
    assert!(Selections::parse(text).is_empty());
    let beside = format!("{text},IPv6=b/3");
    let selections = Selections::parse(&beside);
    assert_eq!(selections.to_string(), "IPv6=b/3", "and takes nothing else with it");
}

/// Each choice counts, of another name and of the same one.
#[test]
fn every_choice_changes_the_text() {
    let mut selections = Selections::default();
    let mut texts = Vec::new();
    for name in ["a1", "a1", "a2", "a1"] {
        selections.select(IPv4, &name.into());
        texts.push(selections.to_string());
    }
    assert_eq!(texts, ["IPv4=a1/1", "IPv4=a1/2", "IPv4=a2/3", "IPv4=a1/4"]);
}

/// The other family is not counted.
#[test]
fn a_choice_for_one_family_leaves_the_other() {
    let mut selections = Selections::parse("IPv4=a1/5,IPv6=b1/9");
    selections.select(IPv6, &"b2".into());
    assert_eq!(selections.to_string(), "IPv4=a1/5,IPv6=b2/10");
}

/// A counter at its end goes on from the start: what counts is that it differs.
#[test]
fn a_counter_at_its_end_still_changes() {
    let mut selections = Selections::parse("IPv4=a1/4294967295");
    selections.select(IPv4, &"a1".into());
    assert_eq!(selections.to_string(), "IPv4=a1/0");
}

/// Held is set by a loss and stays through every later choice.
#[test]
fn held_stays() {
    let mut selections = Selections::parse("IPv4=a1/1");
    selections.lose(IPv4, &"a1".into());
    assert_eq!(selections.to_string(), "IPv4=a1/2/held");
    selections.select(IPv4, &"a2".into());
    assert_eq!(selections.to_string(), "IPv4=a2/3/held");
    selections.lose(IPv4, &"a2".into());
    assert_eq!(selections.to_string(), "IPv4=a2/4/held");
    assert!(selections.get(IPv6).is_none());
}

/// What was lost without ever having been chosen is told from what was.
#[test]
fn a_loss_of_what_was_given_is_not_a_choice() {
    let mut selections = Selections::default();
    selections.lose(IPv4, &"p1".into());
    assert_eq!(selections.to_string(), "IPv4=p1/0/held");
    assert!(!selections.chose(IPv4, &"p1".into()));
    selections.select(IPv4, &"p1".into());
    assert!(selections.chose(IPv4, &"p1".into()), "and then it was");
    assert!(!selections.chose(IPv6, &"p1".into()));
    assert!(!selections.chose(IPv4, &"a1".into()));
    selections.lose(IPv4, &"p2".into());
    assert_eq!(selections.to_string(), "IPv4=p2/0/held");
}

fn any_selections() -> impl Strategy<Value = Selections> {
    let name = "[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?";
    let one = (name, any::<u32>(), any::<bool>());
    let two = (proptest::option::of(one), proptest::option::of(one));
    two.prop_map(|(v4, v6)| {
        let entries = [(IPv4, v4), (IPv6, v6)];
        let text: Vec<_> = entries
            .into_iter()
            .filter_map(|(f, e)| {
                e.map(|(n, c, h)| format!("{f}={n}/{c}{}", if h { "/held" } else { "" }))
            })
            .collect();
        Selections::parse(&text.join(","))
    })
}

proptest! {
    /// What is written is read back, for every name that an object can have.
    #[test]
    fn a_selection_survives_the_annotation(selections in any_selections()) {
        prop_assert_eq!(Selections::parse(&selections.to_string()), selections);
    }

    /// A choice always changes what is written, and is what is read back.
    #[test]
    fn a_choice_always_changes_the_annotation(
        before in any_selections(), name in "[a-z0-9]{1,10}", v6 in any::<bool>(),
    ) {
        let family = if v6 { IPv6 } else { IPv4 };
        let mut after = before.clone();
        after.select(family, &name.as_str().into());
        prop_assert_ne!(before.to_string(), after.to_string());
        prop_assert_eq!(&*after.get(family).unwrap().name, name.as_str());
    }

    /// No text that a tenant can write does anything but be left out, and what was understood of it
    /// is understood again.
    #[test]
    fn any_text_is_harmless(text in "\\PC{0,60}") {
        let once = Selections::parse(&text);
        prop_assert_eq!(Selections::parse(&once.to_string()), once);
    }

    /// The same for texts that are nearly right.
    #[test]
    fn nearly_right_texts_are_harmless(text in "((IPv4|IPv6|IPv5)?=?[a,/= ]{0,4}/?[0-9]{0,11}(/held)?,?){0,4}") {
        let once = Selections::parse(&text);
        prop_assert_eq!(Selections::parse(&once.to_string()), once);
    }
}

/// Longer than any object's name: left out as well.
#[test]
fn a_name_that_is_too_long_is_left_out() {
    assert!(Selections::parse(&format!("IPv4={}/1", "a".repeat(254))).is_empty());
    assert!(!Selections::parse(&format!("IPv4={}/1", "a".repeat(253))).is_empty());
}
