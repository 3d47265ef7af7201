//! Small worlds, and exploring them to the end.

use serde_json::json;
use stateright::{Checker, HasDiscoveries, Model};

use super::{
    super::{checks, store::Id},
    model::{NAMES, Protocol, REACHED},
    mutant::Mutant,
    others::Births,
    scenario::Scenario,
    space::{Contents, Mask, Past, SLOTS, Space},
    state::{Budget, State},
};
use crate::binder::testing::{Object, claim, class};

/// Every rule, by bits.
pub(super) const ALL: u16 = u16::MAX;

/// A small world.
pub(super) struct World {
    pub(super) claims: Vec<Object>,
    pub(super) addresses: Vec<Object>,
    /// The objects that do not exist yet, by name.
    pub(super) absent: Vec<&'static str>,
    pub(super) budget: Budget,
}

/// What came of it.
pub(super) struct Report {
    pub(super) states: usize,
    /// The longest of the shortest ways to a state.
    pub(super) depth: usize,
    /// Whether any state was quiescent.
    pub(super) rested: bool,
    /// A rule that is broken, and the shortest way there.
    pub(super) found: Option<Scenario>,
}

impl World {
    pub(super) fn of(claims: &[Object], addresses: &[Object], budget: Budget) -> Self {
        Self { claims: claims.to_vec(), addresses: addresses.to_vec(), absent: Vec::new(), budget }
    }

    fn objects(&self) -> impl Iterator<Item = &Object> {
        self.claims.iter().chain(&self.addresses)
    }

    pub(super) fn protocol(&self, mutant: Mutant, rules: u16) -> Protocol {
        let other = claim("t9/other").protected();
        let slots = self.objects().map(|o| Id::of(&o.0)).collect();
        let space = Space::new(mutant, slots, vec![class("public"), other]);
        let mut truth: Contents = [0; SLOTS];
        let mut past = Past::default();
        for (slot, object) in self.objects().enumerate() {
            if self.absent.contains(&checks::name(&object.0)) {
                continue;
            }
            truth[slot] = space.number(object.0.clone());
            past.matched |= Mask::from(!checks::holder(&object.0).is_empty()) << slot;
            past.released |= Mask::from(checks::phase(&object.0) == "Released") << slot;
        }
        let births = self.births(&space);
        Protocol::new(space, State::new(truth, self.budget, past), births, rules)
    }

    /// Claims as they are created again, and addresses as a driver makes them for each claim.
    fn births(&self, space: &Space) -> Births {
        let mut births = Births::default();
        for (slot, object) in self.objects().enumerate() {
            let (is_claim, budget) = (slot < self.claims.len(), self.budget);
            let often = if is_claim { budget.creations } else { budget.drivers };
            births[slot].push(Vec::new());
            for left in 1..=often {
                let new = object.clone().uid(&format!("uid-again-{slot}-{left}"));
                let made = if is_claim { vec![new] } else { self.made(&new) };
                births[slot].push(made.into_iter().map(|o| space.number(o.0)).collect());
            }
        }
        births
    }

    fn made(&self, address: &Object) -> Vec<Object> {
        let for_claim = |c: &Object| {
            let Id::Claim(key) = Id::of(&c.0) else { unreachable!("the claims are claims") };
            let bare =
                address.clone().set("/status", json!({})).set("/metadata/finalizers", json!([]));
            bare.held_by(&format!("{}/{}", key.namespace, key.name), None)
        };
        self.claims.iter().map(for_claim).collect()
    }

    /// Explores until nothing is left, or one of the rules is broken.
    pub(super) fn explore(&self, mutant: Mutant, rules: u16) -> Report {
        let checker = self.protocol(mutant, rules).checker();
        let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        let found = NAMES.iter().find_map(|name| Some((*name, checker.discovery(name)?)));
        let model = checker.model();
        Report {
            states: checker.unique_state_count(),
            depth: checker.max_depth(),
            rested: checker.discovery(REACHED).is_some(),
            found: found.map(|(rule, path)| Scenario::of(model, rule, path.into_vec())),
        }
    }

    pub(super) fn assert_sound(&self) {
        let report = self.explore(Mutant::None, ALL);
        println!("{} states, {} steps deep", report.states, report.depth);
        if let Some(found) = &report.found {
            panic!("{found}")
        }
        assert!(report.rested, "it never comes to rest");
    }

    /// Without this guard the rule is broken; with it, it is not.
    pub(super) fn assert_needs(&self, mutant: Mutant, rule: u8) {
        let report = self.explore(mutant, 1 << rule);
        let Some(found) = &report.found else { panic!("not found in {} states", report.states) };
        println!("{} states: {found}", report.states);
        found.assert_kept();
        let sound = self.explore(Mutant::None, 1 << rule);
        println!("{} states", sound.states);
        assert!(sound.found.is_none(), "{:#?}", sound.found);
    }
}
