//! The rules of the house that no compiler knows; `cargo xtask check` uses the same ones.

use testbed::{
    house::{self, BINDER_RATIO},
    manifests::repository,
};

#[track_caller]
fn none(found: &[String]) {
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn rooms_know_only_what_is_below_them_and_the_pure_ones_are_pure() {
    none(&house::layering(&repository()).unwrap());
}

#[test]
fn files_and_functions_are_short() {
    none(&house::lengths(&repository()).unwrap());
}

#[test]
fn each_file_begins_with_what_it_is() {
    none(&house::headers(&repository()).unwrap());
}

#[test]
fn the_binder_has_more_tests_than_code() {
    let ratio = house::binder_ratio(&repository()).unwrap();
    let value = ratio.value();
    println!("{} lines of test for {} of code: {value:.2}", ratio.test, ratio.code);
    assert!(value >= BINDER_RATIO, "{value:.2} lines of test for a line of code: {ratio:?}");
}
