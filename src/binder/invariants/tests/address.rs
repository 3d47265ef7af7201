//! The rules on writes to addresses.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::*;
use crate::api::AssociatedTo;

type Edit<'a> = &'a dyn Fn(&mut IPAddress);

/// I1, I3: the address of one live claim is written over to another.
#[test]
fn handing_a_bound_address_to_another_claim() {
    let mut story = Story::bound();
    story.claim(&Actor::Tenant, "api", |_| {});
    story.claim(&controller(), "api", |c| select(c, "IPv4=a1"));
    story.address(&controller(), "a1", hold("api"));
    story.broke(&[Rule::I1, Rule::I3]);
}

/// I1: so it is when the claim that had it is gone. An administrator may (B04).
#[test]
fn handing_on_what_a_gone_claim_had() {
    for (actor, broken) in [(controller(), &[Rule::I1][..]), (Actor::Administrator, &[])] {
        let mut story = Story::bound();
        story.claim_gone(&Actor::Tenant, "web");
        story.claim(&Actor::Tenant, "api", |_| {});
        story.claim(&controller(), "api", |c| select(c, "IPv4=a1"));
        story.address(&actor, "a1", hold("api"));
        story.broke(broken);
    }
}

/// I1: a completion that also changes whom it names.
#[test]
fn completing_a_reservation_for_somebody_else() {
    for (claim, broken) in [("api", &[Rule::I1][..]), ("web", &[])] {
        let mut story = Story::selected();
        story.claim(&Actor::Tenant, "api", |_| {});
        story.claim(&controller(), "api", |c| select(c, ""));
        story.address(&Actor::Driver, "a1", reference("web", None));
        story.address(&controller(), "a1", hold(claim));
        story.broke(broken);
    }
}

/// I2: a second match for one family, from a cache that lacks the first.
#[test]
fn a_second_match_for_one_family() {
    let mut story = Story::bound();
    story.address(&Actor::Administrator, "a2", |_| {});
    story.claim(&controller(), "web", |c| select(c, "IPv4=a2"));
    story.address(&controller(), "a2", hold("web"));
    story.broke(&[Rule::I2]);
}

/// The same is right for the other family, and after the first was `Lost` or taken away.
#[test]
fn a_second_match_where_nothing_is_held() {
    let other_family = |s: &mut Story| {
        s.address(&Actor::Administrator, "a2", |a| a.spec.address = "2001:db8::2".to_owned());
    };
    let lost = |s: &mut Story| {
        s.address(&Actor::Driver, "a1", phase(AddressPhase::Lost));
        s.address(&Actor::Administrator, "a2", |_| {});
    };
    let taken = |s: &mut Story| {
        s.address(&Actor::Administrator, "a1", |a| a.spec.claim_ref = None);
        s.address(&Actor::Administrator, "a2", |_| {});
    };
    let steps: [&dyn Fn(&mut Story); 3] = [&other_family, &lost, &taken];
    for step in steps {
        let mut story = Story::bound();
        step(&mut story);
        story.claim(&controller(), "web", |c| select(c, "IPv4=a2"));
        story.address(&controller(), "a2", hold("web"));
        story.broke(&[]);
    }
}

/// I2: a driver's address counts once the claim published it before the choice was made; one that
/// arrives after the choice could not be known.
#[test]
fn a_match_beside_a_drivers_address() {
    for (published_first, broken) in [(true, &[Rule::I2][..]), (false, &[])] {
        let mut story = Story::new();
        story.claim(&Actor::Tenant, "web", |_| {});
        if !published_first {
            story.claim(&controller(), "web", |c| select(c, "IPv4=a2"));
        }
        story.claim(&controller(), "web", |c| {
            c.metadata.finalizers = Some(vec![CLAIM_FINALIZER.to_owned()]);
        });
        story.address(&Actor::Driver, "a1", hold("web"));
        story.claim(&controller(), "web", |c| publish(c, &[("a1", "192.0.2.1")]));
        story.address(&Actor::Administrator, "a2", |_| {});
        story.claim(&controller(), "web", |c| select(c, "IPv4=a2"));
        story.address(&controller(), "a2", hold("web"));
        story.broke(broken);
    }
}

/// I2: a match whose choice is not on the claim. Whoever removes it by hand is to blame.
#[test]
fn a_match_without_a_selection() {
    for (actor, broken) in [(controller(), &[Rule::I2][..]), (Actor::Tenant, &[])] {
        let mut story = Story::selected();
        story.claim(&actor, "web", |c| select(c, "IPv4=other"));
        story.address(&controller(), "a1", hold("web"));
        story.broke(broken);
    }
}

/// I3: a live claim's address is released, deleted, unprotected, cleared.
#[test]
fn harming_the_address_of_a_live_claim() {
    let released = |s: &mut Story| s.address(&controller(), "a1", phase(AddressPhase::Released));
    let deleted = |s: &mut Story| s.address(&controller(), "a1", |a| deleting(&mut a.metadata));
    let deleted_at_once = |s: &mut Story| s.address_gone(&controller(), "a1");
    let unprotected =
        |s: &mut Story| s.address(&controller(), "a1", |a| a.metadata.finalizers = None);
    let let_go = |s: &mut Story| {
        s.address(&Actor::Administrator, "a1", |a| deleting(&mut a.metadata));
        s.address_gone(&controller(), "a1");
    };
    let steps: [&dyn Fn(&mut Story); 5] =
        [&released, &deleted, &deleted_at_once, &unprotected, &let_go];
    for (row, step) in steps.iter().enumerate() {
        let mut story = Story::bound();
        step(&mut story);
        assert_eq!(story.rules(), [Rule::I3], "row {row}");

        let mut story = Story::bound();
        story.claim(&Actor::Tenant, "web", |c| deleting(&mut c.metadata));
        step(&mut story);
        assert_eq!(story.rules(), [], "row {row}, the claim is being deleted");

        let mut story = Story::bound();
        story.claim_gone(&Actor::Other, "web");
        story.claim(&Actor::Tenant, "web", |c| c.metadata.uid = Some("a namesake".to_owned()));
        step(&mut story);
        assert_eq!(story.rules(), [], "row {row}, only a namesake lives");
    }
}

/// I3: an address in `Lost` that an administrator deletes is let go; one in `Conflict` is not.
#[test]
fn letting_go_of_what_a_driver_lost() {
    for (theirs, broken) in [(AddressPhase::Lost, &[][..]), (AddressPhase::Conflict, &[Rule::I3])] {
        let mut story = Story::bound();
        story.address(&Actor::Driver, "a1", phase(theirs));
        story.address(&Actor::Administrator, "a1", |a| deleting(&mut a.metadata));
        story.address_gone(&controller(), "a1");
        story.broke(broken);
    }
}

/// X3, I3: between the match and the phase the address is as much the claim's as after.
#[test]
fn x3_letting_go_before_the_phase_is_written() {
    let mut story = Story::selected();
    story.address(&controller(), "a1", hold("web"));
    story.address(&Actor::Administrator, "a1", |a| deleting(&mut a.metadata));
    story.broke(&[]);
    story.address_gone(&controller(), "a1");
    story.broke(&[Rule::I3]);
}

/// B03, I4: a retained address is taken from its gone claim; with its uid cleared, it is anybody's
/// of that name; with its `claimRef` cleared and the phase written, anybody's.
#[test]
fn b03_taking_a_retained_address() {
    let retained = || {
        let mut story = Story::bound();
        story.claim(&Actor::Tenant, "web", |c| deleting(&mut c.metadata));
        story.address(&controller(), "a1", phase(AddressPhase::Released));
        story.claim_gone(&controller(), "web");
        story.claim(&Actor::Tenant, "web", |c| c.metadata.uid = Some("second".to_owned()));
        story.claim(&controller(), "web", |c| select(c, "IPv4=a1"));
        story.broke(&[]);
        story
    };
    let second = || reference("web", Some("second".to_owned()));

    let mut story = retained();
    story.address(&controller(), "a1", second());
    story.broke(&[Rule::I1, Rule::I4]);

    let mut story = retained();
    story.address(&controller(), "a1", |a| a.spec.claim_ref = None);
    story.broke(&[Rule::I4, Rule::WhoWritesWhat]);

    let mut story = retained();
    story.address(&Actor::Administrator, "a1", reference("web", None));
    story.address(&controller(), "a1", second());
    story.broke(&[]);

    let mut story = retained();
    story.address(&Actor::Administrator, "a1", |a| a.spec.claim_ref = None);
    story.address(&controller(), "a1", phase(AddressPhase::Available));
    story.address(&controller(), "a1", second());
    story.broke(&[]);
}

/// I5: a match or a completion for a claim that is not there, not the same, or not protected.
#[test]
fn naming_a_claim_that_is_not_protected() {
    let missing = |s: &mut Story| {
        s.claim(&Actor::Tenant, "web", |c| deleting(&mut c.metadata));
        s.claim_gone(&controller(), "web");
    };
    let namesake = |s: &mut Story| {
        s.claim(&Actor::Tenant, "web", |c| c.metadata.uid = Some("second".to_owned()));
    };
    let unprotected =
        |s: &mut Story| s.claim(&controller(), "web", |c| c.metadata.finalizers = None);
    let by_hand = |s: &mut Story| s.claim(&Actor::Tenant, "web", |c| c.metadata.finalizers = None);
    let on_its_way_out =
        |s: &mut Story| s.claim(&Actor::Tenant, "web", |c| deleting(&mut c.metadata));
    let rows: [(Step, &[Rule]); 5] = [
        (&missing, &[Rule::I5]),
        (&namesake, &[Rule::I5]),
        (&unprotected, &[Rule::I5]),
        (&by_hand, &[]),
        (&on_its_way_out, &[]),
    ];
    for (row, (step, broken)) in rows.into_iter().enumerate() {
        for reserved in [false, true] {
            let mut story = Story::selected();
            if reserved {
                story.address(&Actor::Driver, "a1", reference("web", None));
            }
            step(&mut story);
            story.address(&controller(), "a1", hold("web"));
            assert_eq!(story.rules(), broken, "row {row}, reserved: {reserved}");
        }
    }
}

/// I5: two replicas at once. One binds on the address as it was while the claim was protected; the
/// other lets the claim go in between, which the first cannot know, and nothing refuses it.
#[test]
fn naming_a_claim_that_another_replica_has_just_let_go() {
    for (decided_on, broken) in [(4, &[][..]), (6, &[Rule::I5])] {
        let mut story = Story::selected();
        story.claim(&Actor::Tenant, "web", |c| deleting(&mut c.metadata));
        story.claim_gone(&Actor::Controller("address-controller/two".to_owned()), "web");
        assert_eq!(story.revision, 6);
        let version = |a: &mut IPAddress| {
            a.metadata.resource_version = Some(u64::to_string(&decided_on));
        };
        story.address(&Actor::Driver, "a1", version);
        story.address(&controller(), "a1", hold("web"));
        assert_eq!(story.rules(), broken, "{decided_on}");
    }
}

/// A claim that is deleted in the moment of its marking goes with the finalizer on it, and another
/// takes its name before the address is bound. That one has chosen nothing, and nothing is asked of it.
#[test]
fn naming_a_claim_whose_name_is_another_s_by_now() {
    let mut story = Story::selected();
    story.claim_gone(&Actor::Tenant, "web");
    story.claim(&Actor::Tenant, "web", |c| c.metadata.uid = Some("second".to_owned()));
    story.address(&controller(), "a1", hold("web"));
    story.broke(&[]);
}

/// I5: a `claimRef` written by the controller is never without a uid.
#[test]
fn matching_by_name_alone() {
    let mut story = Story::selected();
    story.address(&controller(), "a1", reference("web", None));
    assert!(story.rules().contains(&Rule::I5), "{:?}", story.found);
}

/// I6, B11: into a driver's phase, out of it, from one to the other.
#[test]
fn b11_writing_a_drivers_phase() {
    use AddressPhase::{Available, Bound, Conflict, Lost, Pending};
    for (before, after) in
        [(Bound, Conflict), (Available, Lost), (Conflict, Bound), (Lost, Conflict)]
    {
        for (actor, broken) in [(controller(), &[Rule::I6][..]), (Actor::Driver, &[])] {
            let mut story = Story::new();
            story.address(&Actor::Driver, "a1", phase(before));
            story.address(&actor, "a1", phase(after));
            story.broke(broken);
        }
    }
    let mut story = Story::new();
    story.address(&Actor::Driver, "a1", phase(Pending));
    story.address(&controller(), "a1", phase(Available));
    story.broke(&[]);
    story.address(&Actor::Driver, "a1", phase(Conflict));
    story.address(&controller(), "a1", |a| a.metadata.finalizers = None);
    story.broke(&[]);
}

/// I8: a match on nothing, or on the uid alone, which says nothing about who took it since.
#[test]
fn writing_claim_ref_unconditionally() {
    for (resource_version, uid, broken) in [
        (false, false, &[Rule::I8][..]),
        (false, true, &[Rule::I8]),
        (true, false, &[]),
        (true, true, &[]),
    ] {
        let mut story = Story::selected();
        story.precondition = Precondition { resource_version, uid };
        story.address(&controller(), "a1", hold("web"));
        story.broke(broken);
    }
}

/// B10, I8: a DELETE without either of its preconditions; other writes need none by this rule.
#[test]
fn b10_deleting_unconditionally() {
    for (resource_version, uid, broken) in [
        (false, false, &[Rule::I8][..]),
        (false, true, &[Rule::I8]),
        (true, false, &[Rule::I8]),
        (true, true, &[]),
    ] {
        let mut story = Story::bound();
        story.claim(&Actor::Tenant, "web", |c| deleting(&mut c.metadata));
        story.precondition = Precondition { resource_version, uid };
        story.address(&controller(), "a1", |a| deleting(&mut a.metadata));
        story.broke(broken);
        story.address_gone(&controller(), "a1");
        story.broke(broken);
    }
}

/// A03: one IP in two objects: two live claims get it by matches.
#[test]
fn a03_one_ip_for_two_claims() {
    let bind_second = |story: &mut Story, ip: &str| {
        story.address(&Actor::Administrator, "b1", |a| a.spec.address = ip.to_owned());
        story.claim(&Actor::Tenant, "api", |_| {});
        story.claim(&controller(), "api", |c| select(c, "IPv4=b1"));
        story.address(&controller(), "b1", hold("api"));
    };
    let mut story = Story::bound();
    bind_second(&mut story, "::ffff:192.0.2.1");
    story.broke(&[Rule::OneIpOneClaim]);

    let mut story = Story::bound();
    bind_second(&mut story, "192.0.2.11");
    story.broke(&[]);

    // What somebody else bound is not by the controller's doing, nor held once its claim is gone.
    let mut story = Story::selected();
    story.address(&Actor::Administrator, "a1", hold("web"));
    bind_second(&mut story, "192.0.2.1");
    story.broke(&[]);
    let mut story = Story::bound();
    story.claim_gone(&Actor::Other, "web");
    bind_second(&mut story, "192.0.2.1");
    story.broke(&[]);
}

/// A match of what is not to be had: not `Available`, being deleted, not one IP.
#[test]
fn matching_what_is_not_to_be_had() {
    let edits: [(Edit, &[Rule]); 5] = [
        (&|a| a.status = None, &[Rule::WhoWritesWhat]),
        (&|a| phase(AddressPhase::Released)(a), &[Rule::WhoWritesWhat]),
        (&|a| deleting(&mut a.metadata), &[Rule::WhoWritesWhat]),
        (&|a| a.spec.address = "192.0.2.1/32".to_owned(), &[Rule::WhoWritesWhat]),
        (&|_| {}, &[]),
    ];
    for (row, (edit, broken)) in edits.into_iter().enumerate() {
        let mut story = Story::selected();
        story.address(&Actor::Administrator, "a1", edit);
        story.address(&controller(), "a1", hold("web"));
        assert_eq!(story.rules(), broken, "row {row}");
    }
}

/// The fields of an address that are somebody else's, each by itself.
#[test]
fn writing_others_fields_of_an_address() {
    let theirs: [&dyn Fn(&mut IPAddress); 8] = [
        &|a| a.spec.class_name = "other".to_owned(),
        &|a| a.spec.reclaim_policy = ReclaimPolicy::Delete,
        &|a| {
            let nothing = AssociatedTo { kind: None, namespace: None, name: None };
            a.status.get_or_insert_default().associated_to = Some(nothing);
        },
        &|a| {
            let mut donor = claim("donor");
            condition(&mut donor, "Checked", "True", "Checked");
            let status = donor.status.unwrap_or_default();
            a.status.get_or_insert_default().conditions = status.conditions;
        },
        &|a| a.metadata.finalizers.get_or_insert_default().push("theirs.example.org/x".to_owned()),
        &|a| a.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into()),
        &|a| a.metadata.annotations = Some([("a".to_owned(), "b".to_owned())].into()),
        &|a| {
            a.metadata.owner_references = Some(vec![OwnerReference::default()]);
        },
    ];
    for (row, edit) in theirs.iter().enumerate() {
        for (actor, broken) in [(controller(), &[Rule::WhoWritesWhat][..]), (Actor::Driver, &[])] {
            let mut story = Story::new();
            story.address(&Actor::Administrator, "a1", |_| {});
            story.address(&actor, "a1", edit);
            assert_eq!(story.rules(), broken, "row {row} {actor:?}");
        }
    }
    let own: [&dyn Fn(&mut IPAddress); 3] = [
        &|a| a.metadata.finalizers = Some(vec![ADDRESS_FINALIZER.to_owned()]),
        &|a| phase(AddressPhase::Pending)(a),
        &|a| a.metadata.resource_version = Some("9".to_owned()),
    ];
    for edit in own {
        let mut story = Story::new();
        story.address(&Actor::Administrator, "a1", |_| {});
        story.address(&controller(), "a1", edit);
        story.broke(&[]);
    }
}

/// Creating an address; ending one that a driver's finalizer still keeps (B07).
#[test]
fn creating_an_address_and_ending_a_drivers() {
    let mut story = Story::new();
    story.address(&controller(), "a1", |_| {});
    story.broke(&[Rule::WhoWritesWhat]);

    let theirs = "driver.example.org/teardown".to_owned();
    for (finalizers, broken) in [
        (vec![ADDRESS_FINALIZER.to_owned(), theirs], &[Rule::WhoWritesWhat][..]),
        (vec![ADDRESS_FINALIZER.to_owned()], &[]),
    ] {
        let mut story = Story::new();
        story.address(&Actor::Driver, "a1", |a| {
            a.metadata.finalizers = Some(finalizers);
            deleting(&mut a.metadata);
        });
        story.address_gone(&controller(), "a1");
        story.broke(broken);
    }
}
