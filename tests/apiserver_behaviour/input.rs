//! What is not one IP address, and what is one twice.

use address_controller::api::{
    AddressPhase, ClaimPhase, ClaimReference, well_known::SELECTED_ADDRESSES_ANNOTATION,
};
use kube::ResourceExt;
use serde_json::json;
use testbed::make::MakeAddress;

use crate::support::{Corner, phase_of};

const NOT_ONE_ADDRESS: [&str; 10] = [
    "192.168.010.1",
    "203.0.113.7/32",
    " 203.0.113.7",
    "203.0.113",
    "0x7f.0.0.1",
    "3405803783",
    "[2001:db8::1]",
    "fe80::1%eth0",
    "2001:db8::7::",
    "203.0.113.256",
];

/// A02: `Pending`, never matched, and one event however often it is looked at.
#[tokio::test]
async fn a02_text_that_is_not_one_address() {
    let corner = Corner::new("a02").await;
    corner.claim("web", "public").await.unwrap();
    let mut made = Vec::new();
    for (n, text) in NOT_ONE_ADDRESS.into_iter().enumerate() {
        made.push(corner.address(&format!("x{n}"), "public", text).await.unwrap());
    }
    for round in 0..3 {
        for n in 0..made.len() {
            let touched = json!({ "metadata": { "annotations": { "n": round.to_string() } } });
            corner.edit_address(&format!("x{n}"), touched).await;
        }
        corner.seen_to().await;
    }
    corner.events_are_out().await;
    for (n, (address, text)) in made.iter().zip(NOT_ONE_ADDRESS).enumerate() {
        let now = corner.see_address(&format!("x{n}")).await;
        assert_eq!((phase_of(&now), now.spec.claim_ref), (Some(AddressPhase::Pending), None));
        let events = corner.events_of(address, "InvalidAddress").await;
        assert_eq!(events.len(), 1, "{text}");
        let note = events[0].message.clone().unwrap();
        assert!(note.contains(&format!("{text:?}")), "{note}");
    }
    corner.waits_because("web", &["IPv4 is missing"]).await;
    corner.end().await;
}

/// A02: a claim that such an address names says why it waits.
#[tokio::test]
async fn a02_a_claim_named_by_an_invalid_address_says_so() {
    let corner = Corner::new("a02-named").await;
    let made = corner.new_address("x1", "203.0.113.7/32");
    corner.create(&made.reserved_for(corner.namespace(), "web")).await.unwrap();
    corner.claim("web", "public").await.unwrap();
    corner.waits_because("web", &[&corner.name("x1"), "\"203.0.113.7/32\"", "not one IP"]).await;
    corner.address_is("x1", AddressPhase::Pending).await;
    // It is no obstacle to what is right.
    corner.address("a1", "public", &corner.v4(1)).await.unwrap();
    corner.bound_to("web", "a1").await;
    corner.end().await;
}

/// A03: one IP in two spellings. Of two claims at most one gets it; here none while both objects
/// exist, each of which says so, and deleting one clears it.
#[tokio::test]
async fn a03_one_ip_in_two_spellings() {
    let corner = Corner::new("a03").await;
    let spelt = corner.v6(7);
    let other = spelt.to_uppercase().replace("::", ":0:0:0:0000:");
    assert_ne!(spelt, other);
    for claim in ["one", "two"] {
        corner.claim(claim, "public").await.unwrap();
        corner.edit_claim(claim, json!({ "spec": { "family": "IPv6" } })).await;
    }
    // Together, so that neither is free for a moment.
    let (first, second) = (corner.new_address("d1", &spelt), corner.new_address("d2", &other));
    let (first, second) = tokio::join!(corner.create(&first), corner.create(&second));
    let (first, second) = (first.unwrap(), second.unwrap());
    corner.seen_to().await;
    corner.events_are_out().await;
    for (address, twin) in [(&first, "d2"), (&second, "d1")] {
        let events = corner.events_of(address, "DuplicateAddress").await;
        assert_eq!(events.len(), 1);
        let note = events[0].message.clone().unwrap();
        assert!(note.contains(&corner.name(twin)), "{note}");
    }
    let mut bound = 0;
    for claim in ["one", "two"] {
        let phase = corner.see_claim(claim).await.status.and_then(|s| s.phase);
        bound += usize::from(phase == Some(ClaimPhase::Bound));
    }
    assert!(bound <= 1, "two claims have one IP");
    let free = corner.see_address("d1").await.spec.claim_ref.is_none();
    let (gone, left) = if free { ("d1", "d2") } else { ("d2", "d1") };
    corner.delete_address(gone).await;
    corner.address_gone(gone).await;
    corner.address_is(left, AddressPhase::Bound).await;
    corner.end().await;
}

/// What no object can be called, and what would be something else in a request's path.
const NO_NAMES: [&str; 9] =
    ["?watch=true", "..", ".", "%2e%2e", "%zz", "a b", "a1?x=", "A1", "\u{e9}"];

/// Tenants write annotations as they like: a selection that was not made here is as good as none.
#[tokio::test]
async fn a_selection_that_names_what_cannot_be_is_none() {
    let corner = Corner::new("no-names").await;
    corner.free(u8::try_from(NO_NAMES.len()).unwrap()).await;
    for (n, name) in NO_NAMES.into_iter().enumerate() {
        let mut claim = corner.new_claim(&format!("odd-{n}"));
        let selection = format!("IPv4={name}/1");
        claim.annotations_mut().insert(SELECTED_ADDRESSES_ANNOTATION.to_owned(), selection);
        corner.create(&claim).await.unwrap();
    }
    for n in 0..NO_NAMES.len() {
        corner.claim_is(&format!("odd-{n}"), ClaimPhase::Bound).await;
    }
    corner.end().await;
}

/// A claim that cannot be is a claim that is gone.
#[tokio::test]
async fn an_address_that_names_what_cannot_be_is_reclaimed() {
    let corner = Corner::new("no-claims").await;
    for (n, name) in NO_NAMES.into_iter().enumerate() {
        let mut address =
            corner.new_address(&format!("x{n}"), &corner.v4(u8::try_from(n).unwrap()));
        let namespace = if n % 2 == 0 { corner.namespace() } else { name };
        address.spec.claim_ref = Some(ClaimReference {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: Some("5a1d3f0e".to_owned()),
        });
        corner.create(&address).await.unwrap();
    }
    for n in 0..NO_NAMES.len() {
        corner.address_is(&format!("x{n}"), AddressPhase::Released).await;
    }
    corner.end().await;
}

/// A claim whose annotations leave no room says what the API server says of it, and is bound once
/// there is room.
#[tokio::test]
async fn annotations_that_leave_no_room_are_said_on_the_claim() {
    const ROOM: usize = 256 * 1024;
    let corner = Corner::new("no-room").await;
    corner.free(1).await;
    let mut claim = corner.new_claim("full");
    claim.annotations_mut().insert("note".to_owned(), "x".repeat(ROOM - "note".len()));
    corner.create(&claim).await.unwrap();
    corner.waits_because("full", &["metadata.annotations", "Too long"]).await;
    corner.edit_claim("full", json!({ "metadata": { "annotations": { "note": "short" } } })).await;
    corner.bound_to("full", "a1").await;
    corner.end().await;
}

/// Events about the longest names arrive as all others do.
#[tokio::test]
async fn the_longest_names_are_told_of() {
    let corner = Corner::new("long-names").await;
    let prefix = corner.name("");
    let long = "l".repeat(253 - prefix.len());
    let address = corner.address(&long, "public", "203.0.113.7/32").await.unwrap();
    corner.address_is(&long, AddressPhase::Pending).await;
    corner.events_are_out().await;
    assert_eq!(corner.events_of(&address, "InvalidAddress").await.len(), 1);
    corner.end().await;
}
