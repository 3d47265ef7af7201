//! Whatever the world looks like: a pass keeps the rules that tables cannot list exhaustively.
//! `PROPTEST_CASES=20000` looks longer.

use proptest::{collection::vec, option, prelude::*, sample::select};

use super::claim_world::{World, look, steps};
use crate::{
    api::{AddressPhase, ClaimPhase},
    binder::{
        plan::{ClaimPlan, ClaimStep},
        testing::{Object, address, claim, class, free, key},
    },
};

const IPS: [&str; 7] = [
    "192.0.2.1",
    "192.0.2.2",
    "::ffff:192.0.2.1",
    "2001:db8::1",
    "2001:DB8:0::1",
    "2001:db8::2",
    "192.0.2.1/32",
];
const NAMES: [&str; 5] = ["a1", "a2", "a3", "a4", "a5"];

/// An address in any state that an administrator, a driver or this controller can leave it in.
fn any_address(name: &'static str) -> impl Strategy<Value = Object> {
    let phases = ["", "Pending", "Available", "Bound", "Released", "Conflict", "Lost"];
    let refs = [
        None,
        Some(("t1/web", None)),
        Some(("t1/web", Some("uid-web"))),
        Some(("t1/web", Some("earlier"))),
        Some(("t2/api", Some("uid-api"))),
    ];
    (
        select(&IPS[..]),
        select(phases.to_vec()),
        select(refs.to_vec()),
        select(vec!["public", "public", "lab"]),
        any::<(bool, bool)>(),
    )
        .prop_map(move |(ip, phase, reference, class, (deleting, protected))| {
            let mut o = if protected { free(name, ip) } else { address(name, ip) }.class(class);
            o = match phase {
                "" => o.set("/status/phase", serde_json::Value::Null),
                phase => o.phase(phase),
            };
            if let Some((claim, uid)) = reference {
                o = o.held_by(claim, uid);
            }
            if deleting && protected { o.deleting() } else { o }
        })
}

fn any_claim() -> impl Strategy<Value = Object> {
    let selections =
        ["", "IPv4=a1/1", "IPv4=a2/4294967295", "IPv6=a3/2/held", "IPv4=a4/2/held,IPv6=a5/1", "x"];
    (
        select(vec!["IPv4", "IPv6", "Dual"]),
        select(vec!["public", "lab", "gone", ""]),
        option::of(select(&NAMES[..])),
        select(selections.to_vec()),
        select(vec!["", "Pending", "Bound", "Lost"]),
        vec(select(&NAMES[..]), 0..3),
        any::<bool>(),
    )
        .prop_map(|(family, class, pin, selected, phase, shown, protected)| {
            let mut o = claim("t1/web").family(family).class(class).selected(selected);
            if let Some(pin) = pin {
                o = o.pin(pin);
            }
            if !phase.is_empty() {
                o = o.phase(phase).resolved("public");
            }
            let mut shown = shown;
            shown.sort_unstable();
            shown.dedup();
            let shown = shown.iter().map(|n| (*n, IPS[usize::from(n.as_bytes()[1]) % 6]));
            o = o.published(&shown.collect::<Vec<_>>());
            if protected { o.protected() } else { o }
        })
}

prop_compose! {
    fn any_world()(
        a1 in option::of(any_address("a1")),
        a2 in option::of(any_address("a2")),
        a3 in option::of(any_address("a3")),
        a4 in option::of(any_address("a4")),
        a5 in option::of(any_address("a5")),
        claim in any_claim(),
        strange in vec(select(&NAMES[..]), 0..2),
    ) -> World {
        let mut world = World::of(&[class("public"), class("lab").default_class(), claim]);
        let addresses = [a1, a2, a3, a4, a5];
        let there: Vec<bool> = addresses.iter().map(Option::is_some).collect();
        addresses.into_iter().flatten().for_each(|o| world.put(o));
        for name in strange {
            if there[usize::from(name.as_bytes()[1] - b'1')] {
                world.make_strange(name);
            }
        }
        world
    }
}

fn binds(plan: &ClaimPlan) -> Vec<(usize, &str)> {
    let at = plan.steps.iter().enumerate();
    at.filter_map(|(i, p)| match &p.step {
        ClaimStep::Bind { address, .. } => Some((i, &*address.name)),
        _ => None,
    })
    .collect()
}

proptest! {
    /// A pass carried out leaves nothing to do (checked by `pass` itself), whatever was there.
    #[test]
    fn a_pass_carried_out_leaves_nothing_to_plan(mut world in any_world()) {
        world.pass("t1/web");
    }

    /// The same facts always give the same plan.
    #[test]
    fn a_decision_depends_on_the_facts_alone(world in any_world()) {
        let (a, b) = (look(&world.index(), "t1/web"), look(&world.index(), "t1/web"));
        prop_assert_eq!(a.plan, b.plan);
    }

    /// Only what is free is bound, at most one for each family and never for a family that is
    /// satisfied; and only after the selection that names it.
    #[test]
    fn only_free_addresses_are_bound_and_only_after_their_selection(world in any_world()) {
        let plan = world.look("t1/web").plan;
        let claim = world.claim("t1/web");
        let bound = binds(&plan);
        let mut families: Vec<_> = plan.chosen().map(|(_, f)| f).collect();
        families.dedup();
        prop_assert_eq!(families.len(), bound.len());
        for (at, name) in bound {
            let address = world.address(name);
            prop_assert!(address.matchable(), "{address:?}");
            prop_assert!(claim.pin.as_deref().is_none_or(|p| p == name));
            let ClaimStep::Mark { selections: Some(selections), .. } = &plan.steps[0].step else {
                panic!("{:?}", steps(&plan))
            };
            prop_assert!(at > 0 && selections.names().any(|n| &**n == name));
            prop_assert!(*selections != claim.selections, "the claim changes with each attempt");
        }
        for family in plan.chosen().map(|(_, f)| f) {
            let index = world.index();
            let satisfied = index
                .claimed_by(&key("t1/web"))
                .filter(|a| a.claim_ref.as_ref().unwrap().uid.as_deref().is_none_or(|u| u == "uid-web"))
                .any(|a| a.family() == Some(family) && !a.id.deleting && a.phase != Some(AddressPhase::Lost));
            prop_assert!(!satisfied, "{family} is held already");
            prop_assert!(claim.pin.is_some() || !claim.has_held(family), "{family} was held before");
        }
    }

    /// What is published exists, carries the claim's uid and was neither invented nor respelled: I7.
    #[test]
    fn what_is_published_is_held(mut world in any_world()) {
        let before = world.claim("t1/web");
        world.pass("t1/web");
        let after = world.claim("t1/web");
        let index = world.index();
        for shown in &after.published {
            match index.address(&shown.name.as_str().into()).known() {
                Some(a) => {
                    prop_assert_eq!(a.claim_ref.as_ref().unwrap().uid.as_deref(), Some("uid-web"));
                    prop_assert_eq!(&*a.text, shown.address.as_str());
                }
                None => prop_assert!(before.published.contains(shown), "unreadable, and kept"),
            }
        }
        prop_assert!(after.published.is_sorted());
        let missing = after.phase != Some(ClaimPhase::Bound);
        let was = matches!(before.phase, Some(ClaimPhase::Bound | ClaimPhase::Lost));
        let expected = if missing && was { ClaimPhase::Lost } else { ClaimPhase::Pending };
        prop_assert!(!missing || after.phase == Some(expected));
        prop_assert!(after.protected());
    }

    /// Lost and Conflict are neither entered nor left, and nobody else's address is written to: I3, I6.
    #[test]
    fn only_its_own_and_what_it_binds_is_written(mut world in any_world()) {
        let before = world.clone();
        let pass = world.pass("t1/web");
        let chosen = pass.chosen();
        for address in before.index().addresses() {
            let after = world.address(&address.name);
            // A free choice that is given up goes back to Pending, and nothing else of it changes.
            if pass.steps().contains(&format!("give-up {}", address.name)) {
                prop_assert!(address.matchable());
                prop_assert_eq!(after.phase, Some(AddressPhase::Pending));
                prop_assert_eq!(after.claim_ref, None);
                continue;
            }
            prop_assert_eq!(after.phase, address.phase, "phases are the address's own pass's");
            let open = address.claim_ref.as_ref()
                .is_some_and(|r| r.key == key("t1/web") && r.uid.is_none());
            if !open && !chosen.contains(&&*address.name) {
                prop_assert_eq!(&after, address);
            }
        }
    }

    /// What was held is remembered: once a family was published, no pass forgets it.
    #[test]
    fn what_was_published_is_never_forgotten(mut world in any_world()) {
        let before = world.claim("t1/web");
        world.pass("t1/web");
        let after = world.claim("t1/web");
        for family in [crate::api::IpFamily::IPv4, crate::api::IpFamily::IPv6] {
            prop_assert!(!before.has_held(family) || after.has_held(family), "{family}");
        }
    }
}
