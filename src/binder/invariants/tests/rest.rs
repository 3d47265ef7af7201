//! What must hold when the writes have stopped.

use super::*;

type Edit<'a> = &'a dyn Fn(&mut IPAddressClaim);

fn waiting() -> Story {
    let mut story = Story::new();
    story.claim(&Actor::Tenant, "web", |_| {});
    story.claim(&controller(), "web", |c| {
        stamp(c);
        condition(c, "ClassResolved", "True", "Resolved");
        stand(c, ClaimPhase::Pending, "WaitingForProvisioning");
    });
    story.rests();
    story
}

/// As [`Story::bound`], and `a1` was taken away, and the claim says so.
fn lost() -> Story {
    let mut story = Story::bound();
    story.address_gone(&Actor::Other, "a1");
    story.claim(&controller(), "web", |c| {
        publish(c, &[]);
        condition(c, "ClassResolved", "True", "Resolved");
        stand(c, ClaimPhase::Lost, "AddressLost");
    });
    story.rests();
    story
}

#[test]
fn a_bound_pair_rests() {
    Story::bound().rests();
    Story::new().rests();
}

/// I9: a claim waits although an address can be had.
#[test]
fn a_claim_that_could_be_bound() {
    let mut story = waiting();
    story.address(&Actor::Administrator, "a1", |_| {});
    story.unrest("waits for IPv4, and a1 can be had");
}

/// What cannot be had is no reason: each obstacle by itself.
#[test]
fn a_claim_that_could_not_be_bound() {
    let rows: [&dyn Fn(&mut IPAddress); 4] = [
        &|a| a.spec.class_name = "other".to_owned(),
        &|a| a.spec.address = "2001:db8::1".to_owned(),
        &|a| phase(AddressPhase::Conflict)(a),
        &|a| {
            a.metadata.finalizers = Some(vec!["driver.example.org/x".to_owned()]);
            deleting(&mut a.metadata);
        },
    ];
    for edit in rows {
        let mut story = waiting();
        story.address(&Actor::Administrator, "a1", edit);
        story.rests();
    }
}

/// A03: neither of two objects with one IP is matched, nor is one beside a bound twin.
#[test]
fn a03_duplicates_are_not_to_be_had() {
    let mut story = waiting();
    story.address(&Actor::Administrator, "a1", |_| {});
    story.address(&Actor::Administrator, "b1", |_| {});
    story.rests();
    story.address_gone(&Actor::Administrator, "b1");
    story.unrest("a1 can be had");
}

/// B05: a pin is to be had or nothing is.
#[test]
fn b05_a_pinned_claim_waits_for_its_pin() {
    let mut story = waiting();
    story.claim(&Actor::Tenant, "web", |c| c.spec.address_name = Some("a9".to_owned()));
    story.address(&Actor::Administrator, "a1", |_| {});
    story.rests();
    story.address(&Actor::Administrator, "a9", |_| {});
    story.unrest("a9 can be had");
}

/// A family held before waits for its own address, unless its owner asks for another.
#[test]
fn a_lost_claim_waits_for_its_own() {
    let mut story = lost();
    story.address(&Actor::Administrator, "a2", |_| {});
    story.rests();
    story.claim(&Actor::Tenant, "web", |c| c.spec.address_name = Some("a2".to_owned()));
    story.unrest("a2 can be had");
}

/// Each family by itself: the one that was never held is matched.
#[test]
fn a_lost_claim_widened_to_dual() {
    let mut story = lost();
    story.claim(&Actor::Tenant, "web", |c| {
        c.spec.family = ClaimFamily::Dual;
        stamp(c);
    });
    story.rests();
    story.address(&Actor::Administrator, "a6", |a| a.spec.address = "2001:db8::6".to_owned());
    story.unrest("waits for IPv6, and a6 can be had");
}

/// The class that serves a waiting claim is the one it names, the one it had, or the one default,
/// and its condition says which, or why none.
#[test]
fn class_resolution_is_up_to_date() {
    let default = "ipaddressclass.local.sdn.cozystack.io/is-default-class";
    let of_default = |defaults: &[&str], reason: &str| {
        let mut story = Story::new();
        for name in defaults {
            let mut new = class(name);
            let annotations = new.metadata.annotations.get_or_insert_default();
            annotations.insert(default.to_owned(), "true".to_owned());
            story.commit(Object::Class(Versions::new(None, Some(new))), None, Verb::Create);
        }
        story.claim(&Actor::Tenant, "web", |c| c.spec.class_name = None);
        story.claim(&controller(), "web", |c| {
            stamp(c);
            let is = if reason == "Resolved" { "True" } else { "False" };
            condition(c, "ClassResolved", is, reason);
            stand(c, ClaimPhase::Pending, "WaitingForProvisioning");
        });
        story
    };
    for (defaults, reason) in
        [(&[][..], "NoDefaultClass"), (&["x"], "Resolved"), (&["x", "y"], "MultipleDefaultClasses")]
    {
        of_default(defaults, reason).rests();
        of_default(defaults, "ClassNotFound").unrest(reason);
    }
    let mut story = of_default(&["x", "y"], "Resolved");
    story.unrest("MultipleDefaultClasses");
    story.claim(&controller(), "web", |c| {
        c.status.get_or_insert_default().class_name = Some("x".to_owned());
    });
    story.rests();
    story.claim(&Actor::Tenant, "web", |c| c.spec.class_name = Some("absent".to_owned()));
    story.unrest("ClassNotFound");
}

/// A waiting claim is stamped for the driver, for the class that it is of now.
#[test]
fn a_waiting_claim_without_its_stamp() {
    let mut story = waiting();
    story.claim(&controller(), "web", |c| annotate(c, PROVISIONER_ANNOTATION, "other"));
    story.unrest("stamped");
}

/// A claim's status, each part wrong by itself.
#[test]
fn a_claim_whose_status_is_wrong() {
    let rows: [(Edit, &str); 6] = [
        (&|c| c.status.get_or_insert_default().phase = Some(ClaimPhase::Pending), "not Bound"),
        (&|c| c.status.get_or_insert_default().phase = None, "not Bound"),
        (&|c| c.status.get_or_insert_default().addresses.clear(), "it publishes []"),
        (&|c| c.status.get_or_insert_default().addresses[0].address.clear(), "it publishes"),
        (&|c| condition(c, "Bound", "False", "Bound"), "should be True"),
        (&|c| c.status.get_or_insert_default().conditions.clear(), "should be True"),
    ];
    for (edit, part) in rows {
        let mut story = Story::bound();
        story.claim(&Actor::Driver, "web", edit);
        story.unrest(part);
    }
    let mut story = lost();
    story.claim(&Actor::Driver, "web", |c| {
        stand(c, ClaimPhase::Pending, "WaitingForProvisioning");
    });
    assert_eq!(story.checker.world().at_rest().len(), 2, "phase and condition");
}

/// An address's phase, where the facts say otherwise.
#[test]
fn an_address_whose_phase_is_wrong() {
    use AddressPhase::{Available, Bound, Conflict, Pending, Released};
    let rows: [(Step, AddressPhase, AddressPhase); 4] = [
        (&|_| {}, Available, Pending),
        (
            &|s| s.address(&Actor::Driver, "a1", |a| a.spec.address = "::x".into()),
            Pending,
            Available,
        ),
        (&|s| s.address(&Actor::Driver, "a1", hold("gone")), Released, Bound),
        (&|_| {}, Conflict, Released),
    ];
    for (row, (step, right, wrong)) in rows.into_iter().enumerate() {
        let mut story = Story::new();
        story.address(&Actor::Administrator, "a1", |_| {});
        step(&mut story);
        story.address(&Actor::Driver, "a1", phase(right));
        story.rests();
        story.address(&Actor::Driver, "a1", phase(wrong));
        assert_eq!(story.checker.world().at_rest().len(), 1, "row {row}");
    }
    let mut story = Story::bound();
    story.address(&Actor::Driver, "a1", phase(Pending));
    story.unrest("it is Some(Pending), not Bound");
}

/// B10: what is left of a gone claim goes with policy `Delete`, whatever its phase.
#[test]
fn b10_an_address_that_should_have_been_deleted() {
    let mut story = Story::new();
    story.address(&Actor::Driver, "a1", |a| {
        hold("gone")(a);
        phase(AddressPhase::Released)(a);
    });
    story.rests();
    story.address(&Actor::Administrator, "a1", |a| a.spec.reclaim_policy = ReclaimPolicy::Delete);
    story.unrest("its policy is Delete");
}

/// A `claimRef` without a uid is completed when its claim exists, and else waits.
#[test]
fn a_reservation_that_was_not_completed() {
    let mut story = Story::new();
    story.address(&Actor::Driver, "a1", reference("web", None));
    story.rests();
    story.claim(&Actor::Tenant, "web", |c| {
        condition(c, "ClassResolved", "True", "Resolved");
        stamp(c);
        stand(c, ClaimPhase::Pending, "WaitingForProvisioning");
    });
    story.unrest("still has no uid");
}

/// Deletions that our finalizers hold up for no reason; a blocked one has a reason (B09).
#[test]
fn b09_a_deletion_that_is_stuck() {
    let mut story = Story::new();
    story.address(&Actor::Administrator, "a1", |a| deleting(&mut a.metadata));
    story.unrest("IPAddress a1: its deletion is stuck");
    let mut story = Story::selected();
    story.address_gone(&Actor::Administrator, "a1");
    story.claim(&Actor::Tenant, "web", |c| deleting(&mut c.metadata));
    story.unrest("IPAddressClaim t1/web: its deletion is stuck");
    story.claim(&Actor::Tenant, "web", |c| {
        c.metadata.finalizers = Some(vec!["theirs.example.org/x".to_owned()]);
    });
    story.rests();

    let mut story = Story::bound();
    story.address(&Actor::Administrator, "a1", |a| deleting(&mut a.metadata));
    story.rests();
    story.address(&Actor::Driver, "a1", phase(AddressPhase::Lost));
    assert!(!story.checker.world().at_rest().is_empty(), "Lost and let go");
}

/// Protection that is missing on either side.
#[test]
fn unprotected_at_rest() {
    let mut story = Story::bound();
    story.address(&Actor::Administrator, "a1", |a| a.metadata.finalizers = None);
    story.unrest("IPAddress a1: it is not protected");
    let mut story = Story::bound();
    story.claim(&Actor::Tenant, "web", |c| c.metadata.finalizers = None);
    story.unrest("holds addresses and is not protected");
}

/// A06: what cannot be read makes nothing else wrong.
#[test]
fn a06_unreadable_objects_accuse_nobody() {
    let strange = |kind, namespace: Option<&str>, name: &str| {
        let namespace = namespace.map(str::to_owned);
        Object::Unreadable(Unreadable { kind, namespace, name: name.to_owned(), exists: true })
    };
    for object in [
        strange(super::super::Kind::Claim, Some("t1"), "web"),
        strange(super::super::Kind::Address, None, "a1"),
        strange(super::super::Kind::Class, None, "public"),
    ] {
        let mut story = Story::bound();
        story.commit(object, Some(&Actor::Driver), Verb::Update);
        story.rests();
    }
    let mut story = waiting();
    story.commit(strange(super::super::Kind::Class, None, "public"), None, Verb::Update);
    story.rests();
}
