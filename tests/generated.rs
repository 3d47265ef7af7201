//! The files that are generated from code are as the code has them.

#[test]
fn the_committed_files_are_those_that_the_code_generates() {
    let stale = testbed::manifests::stale(&testbed::manifests::repository()).unwrap();
    assert!(stale.is_empty(), "run `make manifests` and commit: {stale:?}");
}
