//! The rules on writes to claims.

use super::*;

/// I5: the finalizer goes while the claim still holds an address.
#[test]
fn letting_go_before_everything_is_reclaimed() {
    let released = |s: &mut Story| s.address(&controller(), "a1", phase(AddressPhase::Released));
    let going = |s: &mut Story| s.address(&controller(), "a1", |a| deleting(&mut a.metadata));
    let gone = |s: &mut Story| s.address_gone(&controller(), "a1");
    let conflict = |s: &mut Story| s.address(&Actor::Driver, "a1", phase(AddressPhase::Conflict));
    let moved = |s: &mut Story| s.address(&Actor::Administrator, "a1", |a| a.spec.claim_ref = None);
    let refused = |s: &mut Story| s.checker.refused(["a1".to_owned()].into());
    let another_refused = |s: &mut Story| s.checker.refused(["a2".to_owned()].into());
    let nothing = |_: &mut Story| {};
    let rows: [(Step, &[Rule]); 8] = [
        (&refused, &[]),
        (&another_refused, &[Rule::I5]),
        (&nothing, &[Rule::I5]),
        (&released, &[]),
        (&going, &[]),
        (&gone, &[]),
        (&conflict, &[]),
        (&moved, &[]),
    ];
    for (row, (step, broken)) in rows.into_iter().enumerate() {
        let mut story = Story::bound();
        story.claim(&Actor::Tenant, "web", |c| deleting(&mut c.metadata));
        step(&mut story);
        story.claim_gone(&controller(), "web");
        assert_eq!(story.rules(), broken, "row {row}");
    }
}

/// I5: so it is when another finalizer keeps the object, and for a claim that was never deleted.
#[test]
fn letting_go_of_an_object_that_stays() {
    for (actor, broken) in [(controller(), &[Rule::I5][..]), (Actor::Tenant, &[])] {
        let mut story = Story::bound();
        story.claim(&actor, "web", |c| c.metadata.finalizers = None);
        story.broke(broken);
    }
}

/// I7: somebody else's finalizer keeps an object that still shows what was reclaimed.
#[test]
fn letting_go_of_what_still_publishes() {
    for (withdrawn, broken) in [(false, &[Rule::I7][..]), (true, &[])] {
        let mut story = Story::bound();
        let theirs = "example.org/dns";
        story.claim(&Actor::Tenant, "web", |c| {
            deleting(&mut c.metadata);
            c.metadata.finalizers.get_or_insert_default().push(theirs.to_owned());
        });
        story.address(&controller(), "a1", phase(AddressPhase::Released));
        if withdrawn {
            story.claim(&controller(), "web", |c| c.status = None);
        }
        story.claim(&controller(), "web", |c| {
            c.metadata.finalizers = Some(vec![theirs.to_owned()]);
        });
        story.broke(broken);
    }
}

/// I5: what a driver binds after the deletion was asked for may come too late for the claim's pass,
/// also where the address's pass has seen to it in between.
#[test]
fn letting_go_while_a_driver_binds() {
    let late = |s: &mut Story| {
        s.address(&Actor::Driver, "a1", hold("web"));
        s.address(&controller(), "a1", phase(AddressPhase::Bound));
    };
    let matched = |s: &mut Story| s.address(&controller(), "a1", hold("web"));
    let rows: [(Step, &[Rule]); 2] = [(&late, &[]), (&matched, &[Rule::I5])];
    for (row, (step, broken)) in rows.into_iter().enumerate() {
        let mut story = Story::selected();
        story.claim(&Actor::Tenant, "web", |c| deleting(&mut c.metadata));
        step(&mut story);
        story.claim_gone(&controller(), "web");
        assert_eq!(story.rules(), broken, "row {row}");
    }
}

/// I5: what another replica has seen of a driver's address is not known to this one, before it is
/// published; and a mark that a driver takes back at that moment comes too late for the claim's pass.
#[test]
fn letting_go_of_what_could_not_be_known() {
    let two = Actor::Controller("address-controller/two".to_owned());
    let bound = |s: &mut Story, by: &Actor| {
        s.address(&Actor::Driver, "a1", hold("web"));
        s.address(by, "a1", phase(AddressPhase::Bound));
    };
    let going = |s: &mut Story| s.claim(&Actor::Tenant, "web", |c| deleting(&mut c.metadata));
    let seen_by_another = |s: &mut Story| {
        bound(s, &two);
        going(s);
    };
    let seen = |s: &mut Story| {
        bound(s, &controller());
        going(s);
    };
    let seen_when_letting_go_was_asked_for = |s: &mut Story| {
        s.address(&Actor::Driver, "a1", hold("web"));
        going(s);
        s.address(&controller(), "a1", phase(AddressPhase::Bound));
    };
    let unmarked = |s: &mut Story| {
        bound(s, &controller());
        s.address(&Actor::Driver, "a1", phase(AddressPhase::Lost));
        going(s);
        s.address(&Actor::Driver, "a1", phase(AddressPhase::Bound));
    };
    let unmarked_before = |s: &mut Story| {
        bound(s, &controller());
        s.address(&Actor::Driver, "a1", phase(AddressPhase::Conflict));
        s.address(&Actor::Driver, "a1", phase(AddressPhase::Bound));
        going(s);
    };
    let rows: [(Step, &[Rule]); 5] = [
        (&seen_by_another, &[]),
        (&seen, &[Rule::I5]),
        (&seen_when_letting_go_was_asked_for, &[]),
        (&unmarked, &[]),
        (&unmarked_before, &[Rule::I5]),
    ];
    for (row, (step, broken)) in rows.into_iter().enumerate() {
        let mut story = Story::new();
        story.claim(&Actor::Tenant, "web", |_| {});
        story.claim(&controller(), "web", |c| select(c, ""));
        step(&mut story);
        story.claim_gone(&controller(), "web");
        assert_eq!(story.rules(), broken, "row {row}");
    }
}

/// I5: an address that a driver bound and that the controller has not touched is its own pass's to
/// finish; once it was touched, or published, it is the claim's.
#[test]
fn letting_go_of_what_was_never_seen() {
    let touched = |s: &mut Story| s.address(&controller(), "a1", phase(AddressPhase::Bound));
    let published =
        |s: &mut Story| s.claim(&controller(), "web", |c| publish(c, &[("a1", "192.0.2.1")]));
    let nothing = |_: &mut Story| {};
    let rows: [(Step, &[Rule]); 3] =
        [(&touched, &[Rule::I5]), (&published, &[Rule::I5]), (&nothing, &[])];
    for (step, broken) in rows {
        let mut story = Story::new();
        story.claim(&Actor::Tenant, "web", |_| {});
        story.claim(&controller(), "web", |c| select(c, ""));
        story.address(&Actor::Driver, "a1", hold("web"));
        step(&mut story);
        story.claim(&Actor::Tenant, "web", |c| deleting(&mut c.metadata));
        story.claim_gone(&controller(), "web");
        story.broke(broken);
    }
}

/// I5: the address that is published is gone, and a driver makes another of its name at that moment.
#[test]
fn letting_go_while_what_was_published_is_made_anew() {
    let mut story = Story::bound();
    story.claim(&Actor::Tenant, "web", |c| deleting(&mut c.metadata));
    story.address_gone(&Actor::Administrator, "a1");
    story.address(&Actor::Driver, "a1", hold("web"));
    story.claim_gone(&controller(), "web");
    assert_eq!(story.rules(), []);
}

/// I7: an address in `status.addresses` that does not exist, is another's, is free, or has another
/// IP. What others took away since is excused.
#[test]
fn publishing_what_is_not_its_own() {
    let free = |_: &mut Story| {};
    let anothers = |s: &mut Story| s.address(&Actor::Administrator, "a1", hold("api"));
    let absent = |s: &mut Story| s.address_gone(&Actor::Administrator, "a1");
    let own = |s: &mut Story| s.address(&controller(), "a1", hold("web"));
    let taken_since = |s: &mut Story| {
        s.address(&controller(), "a1", hold("web"));
        s.address(&Actor::Administrator, "a1", hold("api"));
    };
    let rows: [(Step, &[Rule]); 5] = [
        (&free, &[Rule::I7]),
        (&anothers, &[Rule::I7]),
        (&absent, &[Rule::I7]),
        (&own, &[]),
        (&taken_since, &[]),
    ];
    for (row, (step, broken)) in rows.into_iter().enumerate() {
        let mut story = Story::selected();
        step(&mut story);
        story.claim(&controller(), "web", |c| publish(c, &[("a1", "192.0.2.1")]));
        assert_eq!(story.rules(), broken, "row {row}");
    }
    let mut story = Story::selected();
    own(&mut story);
    story.claim(&controller(), "web", |c| publish(c, &[("a1", "192.0.2.99")]));
    story.broke(&[Rule::I7]);
}

/// I7: what was withdrawn because it was gone is not published again while it is.
#[test]
fn publishing_again_what_is_known_to_be_gone() {
    let mut story = Story::bound();
    story.address_gone(&Actor::Other, "a1");
    story.claim(&controller(), "web", |c| publish(c, &[]));
    story.broke(&[]);
    story.claim(&controller(), "web", |c| publish(c, &[("a1", "192.0.2.1")]));
    story.broke(&[Rule::I7]);
}

/// I7: what a live claim holds disappears from its status.
#[test]
fn withdrawing_what_is_held() {
    let nothing = |_: &mut Story| {};
    let conflict = |s: &mut Story| s.address(&Actor::Driver, "a1", phase(AddressPhase::Conflict));
    let blocked =
        |s: &mut Story| s.address(&Actor::Administrator, "a1", |a| deleting(&mut a.metadata));
    let unprotected = |s: &mut Story| {
        s.address(&Actor::Administrator, "a1", |a| {
            deleting(&mut a.metadata);
            a.metadata.finalizers = Some(vec!["fake.example.org/teardown".to_owned()]);
        });
    };
    let lost = |s: &mut Story| s.address(&Actor::Driver, "a1", phase(AddressPhase::Lost));
    let found_again = |s: &mut Story| {
        s.address(&Actor::Driver, "a1", phase(AddressPhase::Lost));
        s.address(&Actor::Driver, "a1", phase(AddressPhase::Bound));
    };
    let gone = |s: &mut Story| s.address_gone(&Actor::Other, "a1");
    let anothers = |s: &mut Story| s.address(&Actor::Administrator, "a1", hold("api"));
    let going = |s: &mut Story| s.claim(&Actor::Tenant, "web", |c| deleting(&mut c.metadata));
    let rows: [(Step, &[Rule]); 9] = [
        (&nothing, &[Rule::I7]),
        (&conflict, &[Rule::I7]),
        (&blocked, &[Rule::I7]),
        (&unprotected, &[]),
        (&lost, &[]),
        (&found_again, &[]),
        (&gone, &[]),
        (&anothers, &[]),
        (&going, &[]),
    ];
    for (row, (step, broken)) in rows.into_iter().enumerate() {
        let mut story = Story::bound();
        step(&mut story);
        story.claim(&controller(), "web", |c| publish(c, &[]));
        assert_eq!(story.rules(), broken, "row {row}");
    }
}

/// The excuse of [`withdrawing_what_is_held`] ends with the claim's next version.
#[test]
fn withdrawing_long_after_it_was_found_again() {
    let mut story = Story::bound();
    story.address(&Actor::Driver, "a1", phase(AddressPhase::Lost));
    story.address(&Actor::Driver, "a1", phase(AddressPhase::Bound));
    story.claim(&controller(), "web", |c| {
        c.status.get_or_insert_default().class_name = Some("public".to_owned());
    });
    story.claim(&controller(), "web", |c| publish(c, &[]));
    story.broke(&[Rule::I7]);
}

/// A plan writes the selection and then the status: what was so when it was decided excuses both. What
/// another replica wrote in between was another plan.
#[test]
fn withdrawing_what_was_found_again_in_the_middle_of_a_plan() {
    let another = Actor::Controller("another".to_owned());
    for (marks, broken) in [(controller(), &[][..]), (another, &[Rule::I7])] {
        let mut story = Story::bound();
        story.address(&Actor::Driver, "a1", phase(AddressPhase::Lost));
        story.address(&Actor::Driver, "a1", phase(AddressPhase::Bound));
        let selection = |c: &mut _| annotate(c, SELECTED_ADDRESSES_ANNOTATION, "IPv4=a1/2/held");
        story.claim(&marks, "web", selection);
        story.claim(&controller(), "web", |c| publish(c, &[]));
        assert_eq!(story.rules(), broken, "{marks:?}");
    }
}

/// The fields of a claim that are the tenant's, each by itself.
#[test]
fn writing_others_fields_of_a_claim() {
    let theirs: [&dyn Fn(&mut IPAddressClaim); 5] = [
        &|c| c.spec.family = ClaimFamily::Dual,
        &|c| c.spec.class_name = None,
        &|c| c.metadata.finalizers = Some(vec!["theirs.example.org/x".to_owned()]),
        &|c| annotate(c, "theirs", "x"),
        &|c| c.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into()),
    ];
    for (row, edit) in theirs.iter().enumerate() {
        for (actor, broken) in [(controller(), &[Rule::WhoWritesWhat][..]), (Actor::Tenant, &[])] {
            let mut story = Story::new();
            story.claim(&Actor::Tenant, "web", |_| {});
            story.claim(&actor, "web", edit);
            assert_eq!(story.rules(), broken, "row {row} {actor:?}");
        }
    }
    let mut story = Story::new();
    story.claim(&Actor::Tenant, "web", |_| {});
    story.claim(&controller(), "web", |c| select(c, "IPv4=a1"));
    story.claim(&controller(), "web", stamp);
    story.claim(&controller(), "web", |c| stand(c, ClaimPhase::Pending, "WaitingForProvisioning"));
    story.broke(&[]);
}

/// Claims are created and deleted by tenants.
#[test]
fn creating_or_deleting_a_claim() {
    let mut story = Story::new();
    story.claim(&controller(), "web", |_| {});
    story.broke(&[Rule::WhoWritesWhat]);
    for (actor, broken) in [(controller(), &[Rule::WhoWritesWhat][..]), (Actor::Tenant, &[])] {
        let mut story = Story::new();
        story.claim(&Actor::Tenant, "web", |_| {});
        story.claim_gone(&actor, "web");
        story.broke(broken);
        let mut story = Story::selected();
        story.claim(&actor, "web", |c| deleting(&mut c.metadata));
        story.broke(broken);
    }
}
