//! The address's pass over every combination of what it decides on: once against the contract's
//! rules written down a second time, in the contract's order, and once as a table for readers.

use std::time::Duration;

use rstest::rstest;

use super::address_world::{Cluster, acted, strange, words};
use crate::{
    api::{AddressPhase, well_known::ADDRESS_FINALIZER},
    binder::{
        address::{self, Facts},
        index::Index,
        plan::{AddressPlan, AddressStep, Decision},
        testing::{Object, address, claim, key, now, world},
        view::ClaimKey,
    },
};

const PHASES: [Option<&str>; 7] = [
    None,
    Some("Pending"),
    Some("Available"),
    Some("Bound"),
    Some("Released"),
    Some("Conflict"),
    Some("Lost"),
];
const REFERENCES: [Ref; 4] = [Ref::None, Ref::Open, Ref::This, Ref::Earlier];
const CLAIMS: [Claim; 6] = [
    Claim::Absent,
    Claim::Live,
    Claim::Deleting,
    Claim::Other,
    Claim::Strange,
    Claim::StrangeOther,
];
const BOTH: [bool; 2] = [false, true];

/// What the address says of its claim.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ref {
    None,
    /// `t1/web` without a uid.
    Open,
    /// `t1/web` with the uid that `Claim::Live` has.
    This,
    /// `t1/web` with the uid of a claim that went before.
    Earlier,
}

/// What is known of `t1/web`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Claim {
    Absent,
    Live,
    Deleting,
    /// Exists with a uid that no address names.
    Other,
    /// Does not parse.
    Strange,
    /// Does not parse, and has a uid that no address names.
    StrangeOther,
}

#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a column of the table")]
struct Row {
    phase: Option<&'static str>,
    reference: Ref,
    claim: Claim,
    confirmed: bool,
    policy: &'static str,
    deleting: bool,
    protected: bool,
    valid: bool,
    old: bool,
}

fn every_row() -> Vec<Row> {
    let mut rows = Vec::new();
    for phase in PHASES {
        for reference in REFERENCES {
            for claim in CLAIMS {
                for bits in 0..64u32 {
                    let bit = |n: u32| bits & (1 << n) != 0;
                    rows.push(Row {
                        phase,
                        reference,
                        claim,
                        confirmed: bit(0),
                        policy: if bit(1) { "Delete" } else { "Retain" },
                        deleting: bit(2),
                        protected: bit(3),
                        valid: bit(4),
                        old: bit(5),
                    });
                }
            }
        }
    }
    // The age matters to reservations alone, and of text that is no IP one age and policy will do.
    rows.retain(|r| r.old || r.reference == Ref::Open && r.valid);
    rows.retain(|r| r.valid || r.policy == "Delete");
    rows
}

impl Row {
    fn address(&self) -> Object {
        let text = if self.valid { "192.0.2.1" } else { "192.0.2.1/32" };
        let mut object = address("a1", text)
            .policy(self.policy)
            .finalizer("fake.example.org/driver")
            .created(if self.old { "2026-01-01T11:00:00Z" } else { "2026-01-01T11:59:00Z" });
        if let Some(phase) = self.phase {
            object = object.phase(phase);
        }
        if self.protected {
            object = object.protected();
        }
        if self.deleting {
            object = object.deleting();
        }
        match self.reference {
            Ref::None => object,
            Ref::Open => object.held_by("t1/web", None),
            Ref::This => object.held_by("t1/web", Some("uid-web")),
            Ref::Earlier => object.held_by("t1/web", Some("uid-before")),
        }
    }

    fn add_claim(&self, index: &mut Index) {
        let web = claim("t1/web").protected();
        match self.claim {
            Claim::Absent => {}
            Claim::Live => drop(index.apply_claim(web.claim())),
            Claim::Deleting => drop(index.apply_claim(web.deleting().claim())),
            Claim::Other => drop(index.apply_claim(web.uid("uid-next").claim())),
            Claim::Strange => drop(index.strange_claim(&key("t1/web"), strange("uid-web", 1))),
            Claim::StrangeOther => {
                drop(index.strange_claim(&key("t1/web"), strange("uid-next", 1)));
            }
        }
    }

    fn decide(&self, object: &Object) -> Decision<AddressPlan, ClaimKey> {
        let mut index = world(std::slice::from_ref(object));
        self.add_claim(&mut index);
        decide(&index, self.confirmed)
    }

    /// Whether a claim that exists and is not being deleted has the uid that the address names.
    fn held(&self) -> bool {
        self.reference == Ref::This && matches!(self.claim, Claim::Live | Claim::Strange)
    }

    fn drivers(&self) -> bool {
        matches!(self.phase, Some("Conflict" | "Lost"))
    }

    /// The contract's rules for an address, in its order.
    fn expected(&self) -> String {
        if self.deleting {
            return self.expected_of_deletion().to_owned();
        }
        let rest = self.expected_phase();
        match (self.protected, rest.as_str()) {
            (_, "read") => "read t1/web".to_owned(),
            (true, _) => rest,
            (false, "-") => "protect".to_owned(),
            (false, _) => format!("protect, {rest}"),
        }
    }

    fn expected_of_deletion(&self) -> &'static str {
        if !self.protected {
            return "-";
        }
        let names_a_uid = matches!(self.reference, Ref::This | Ref::Earlier);
        if self.phase == Some("Lost") || !names_a_uid {
            return "unprotect";
        }
        match (self.held(), self.confirmed) {
            (true, _) => "DeletionBlocked",
            (false, false) => "read t1/web",
            (false, true) => "unprotect",
        }
    }

    fn expected_phase(&self) -> String {
        let be = |phase: &str| {
            let same = self.phase == Some(phase);
            if same { "-".to_owned() } else { format!("phase {phase}") }
        };
        if self.drivers() {
            return "-".to_owned();
        }
        if !self.valid {
            return be("Pending");
        }
        let parses = !matches!(self.claim, Claim::Strange | Claim::StrangeOther);
        match self.reference {
            Ref::None => be("Available"),
            _ if !parses => "-".to_owned(),
            Ref::Open if self.claim != Claim::Absent => "-".to_owned(),
            Ref::Open if self.old => self.expected_reclaim(),
            Ref::Open => match self.phase {
                Some("Pending" | "Released") => "wait 240s".to_owned(),
                _ => "phase Pending, wait 240s".to_owned(),
            },
            Ref::This if self.claim == Claim::Deleting => "-".to_owned(),
            // Back to Bound from Released only after a read.
            Ref::This if self.claim == Claim::Live => match (self.phase, self.confirmed) {
                (Some("Released"), false) => "read".to_owned(),
                _ => be("Bound"),
            },
            Ref::This | Ref::Earlier => self.expected_reclaim(),
        }
    }

    fn expected_reclaim(&self) -> String {
        match (self.policy, self.phase, self.confirmed) {
            ("Retain", Some("Released"), _) => "-",
            (_, _, false) => "read",
            ("Retain", _, true) => "phase Released",
            (_, _, true) => "delete",
        }
        .to_owned()
    }
}

fn decide(index: &Index, confirmed: bool) -> Decision<AddressPlan, ClaimKey> {
    address::decide(&Facts {
        index,
        address: index.address(&"a1".into()).known().expect("a1 is in the world"),
        confirmed,
        now: now(),
        moment: Duration::from_hours(2),
        grace: Duration::from_mins(5),
    })
}

/// Every arm: the decision is the one that the contract's order of rules gives.
#[test]
fn every_combination_is_decided_by_the_contracts_order() {
    let rows = every_row();
    assert_eq!(rows.len(), 7 * 6 * (3 * 16 + 32 + 4 * 8));
    for row in rows {
        assert_eq!(words(&row.decide(&row.address())), row.expected(), "{row:?}");
    }
}

/// I3: nothing of a live claim's is released, deleted or let go; and where a cache does not show
/// the claim, that takes a read.
#[test]
fn nothing_is_destroyed_that_is_held_or_was_not_asked_about() {
    let mut destroyed = 0;
    for row in every_row() {
        let Decision::Act(plan) = row.decide(&row.address()) else { continue };
        for planned in &plan.steps {
            match &planned.step {
                AddressStep::Delete | AddressStep::Phase(AddressPhase::Released) => {
                    destroyed += 1;
                    assert!(row.confirmed && !row.held() && row.reference != Ref::None, "{row:?}");
                    assert!(matches!(
                        row.claim,
                        Claim::Absent | Claim::Live | Claim::Deleting | Claim::Other
                    ));
                    assert!(row.reference != Ref::Open || row.claim == Claim::Absent && row.old);
                }
                AddressStep::Unprotect { .. } => {
                    destroyed += 1;
                    let unasked =
                        row.phase == Some("Lost") || matches!(row.reference, Ref::None | Ref::Open);
                    assert!(row.deleting && (unasked || row.confirmed && !row.held()), "{row:?}");
                }
                AddressStep::Protect { .. } | AddressStep::Phase(_) => {}
            }
        }
    }
    assert!(destroyed > 100, "the check looked at {destroyed} steps");
}

/// I6: a driver's phase is neither entered nor left.
#[test]
fn conflict_and_lost_are_neither_entered_nor_left() {
    for row in every_row() {
        let Decision::Act(plan) = row.decide(&row.address()) else { continue };
        for planned in &plan.steps {
            let AddressStep::Phase(to) = &planned.step else { continue };
            assert!(!to.is_drivers(), "{row:?} enters {to:?}");
            assert!(!row.drivers(), "{row:?} leaves its driver's phase");
        }
    }
}

/// I4, and the phases mean what they say: `Available` names no claim, `Bound` names a live one.
#[test]
fn available_names_nobody_and_bound_names_a_live_claim() {
    for row in every_row() {
        let Decision::Act(plan) = row.decide(&row.address()) else { continue };
        for planned in &plan.steps {
            match planned.step {
                AddressStep::Phase(AddressPhase::Available) => {
                    assert!(row.reference == Ref::None && row.valid, "{row:?}");
                }
                AddressStep::Phase(AddressPhase::Bound) => {
                    assert!(row.held() && row.claim == Claim::Live && row.valid, "{row:?}");
                }
                _ => {}
            }
        }
    }
}

/// I8: writes carry the state that was decided on, and touch no finalizer but ours.
#[test]
fn every_plan_is_bound_to_the_state_it_was_decided_on_and_keeps_others_finalizers() {
    for row in every_row() {
        let Decision::Act(plan) = row.decide(&row.address().version(77)) else { continue };
        assert_eq!((&*plan.address.uid, &*plan.address.version), ("uid-a1", "77"));
        for planned in &plan.steps {
            let (finalizers, ours) = match &planned.step {
                AddressStep::Protect { finalizers } => (finalizers, true),
                AddressStep::Unprotect { finalizers } => (finalizers, false),
                AddressStep::Phase(_) | AddressStep::Delete => continue,
            };
            assert!(ours != row.deleting, "no finalizer onto what is being deleted: {row:?}");
            assert!(finalizers.iter().any(|f| &**f == "fake.example.org/driver"), "{row:?}");
            assert_eq!(finalizers.iter().any(|f| &**f == ADDRESS_FINALIZER), ours, "{row:?}");
        }
    }
}

/// I9, O02: a plan that was carried out leaves nothing to plan.
#[test]
fn a_plan_carried_out_leaves_nothing_to_plan() {
    for row in every_row() {
        let object = row.address();
        let Decision::Act(plan) = row.decide(&object) else { continue };
        let mut cluster = Cluster::of(&[object]);
        cluster.carry_out(&plan);
        let after = cluster.address("a1").expect("the driver's finalizer keeps it");
        let again = words(&row.decide(after));
        // What was just deleted is let go by the pass after, and that is all.
        let deleted = plan.steps.iter().any(|p| p.step == AddressStep::Delete);
        if deleted {
            let Decision::Act(last) = row.decide(after) else { panic!("{row:?}: {again}") };
            assert!(again == "unprotect", "{row:?}: {again}");
            cluster.carry_out(&last);
            let gone = cluster.address("a1").expect("the driver's finalizer keeps it");
            assert_eq!(words(&row.decide(gone)), "-", "{row:?}");
        } else {
            let settled = again == "-" || again == "DeletionBlocked" || again == "wait 240s";
            assert!(settled, "{row:?}: {} and then {again}", words(&Decision::Act(plan)));
        }
    }
}

/// A read answers what was asked: there is no second one.
#[test]
fn nothing_is_read_twice_and_nothing_but_the_claim_that_is_named() {
    for row in every_row() {
        let Decision::Read(keys) = row.decide(&row.address()) else { continue };
        assert!(!row.confirmed, "{row:?}");
        assert_eq!(keys, [key("t1/web")]);
        acted(Row { confirmed: true, ..row }.decide(&row.address()));
    }
}

/// An older cache's word is never worth less than a read's: confirming changes a decision only
/// where a read was asked for.
#[test]
fn a_read_that_nobody_asked_for_changes_nothing() {
    for row in every_row().into_iter().filter(|r| !r.confirmed) {
        let before = row.decide(&row.address());
        let after = Row { confirmed: true, ..row }.decide(&row.address());
        if matches!(before, Decision::Act(_)) {
            assert_eq!(before, after, "{row:?}");
        }
    }
}

/// The duplicates' notice changes no step, whatever else is true.
#[test]
fn a_duplicate_is_told_beside_whatever_is_done() {
    for row in every_row() {
        let alone = row.decide(&row.address());
        let mut index = world(&[row.address(), address("a2", "192.0.2.1").phase("Bound")]);
        row.add_claim(&mut index);
        let both = decide(&index, row.confirmed);
        match (alone, both) {
            (Decision::Act(alone), Decision::Act(both)) => {
                assert_eq!(alone.steps, both.steps, "{row:?}");
                let more = usize::from(row.valid && !row.deleting);
                assert_eq!(both.notices.len(), alone.notices.len() + more, "{row:?}");
            }
            (alone, both) => assert_eq!(alone, both, "{row:?}"),
        }
    }
}

/// The rules by example: an address of policy Retain or Delete that is protected, an hour old, and
/// what its pass does on the cache's word and after a read.
#[rstest]
// No claim is named: anybody's, and how an administrator recycles.
#[case("-", Ref::None, Claim::Absent, "Retain", "phase Available", "phase Available")]
#[case("Pending", Ref::None, Claim::Absent, "Delete", "phase Available", "phase Available")]
#[case("Available", Ref::None, Claim::Live, "Retain", "-", "-")]
#[case("Bound", Ref::None, Claim::Live, "Retain", "phase Available", "phase Available")]
#[case("Released", Ref::None, Claim::Absent, "Retain", "phase Available", "phase Available")]
#[case("Released", Ref::None, Claim::Absent, "Delete", "phase Available", "phase Available")]
// The claim exists with that uid.
#[case("-", Ref::This, Claim::Live, "Retain", "phase Bound", "phase Bound")]
#[case("Available", Ref::This, Claim::Live, "Delete", "phase Bound", "phase Bound")]
#[case("Pending", Ref::This, Claim::Live, "Retain", "phase Bound", "phase Bound")]
#[case("Bound", Ref::This, Claim::Live, "Delete", "-", "-")]
#[case("Released", Ref::This, Claim::Live, "Retain", "read t1/web", "phase Bound")]
// Its reclaim owns what comes next.
#[case("Bound", Ref::This, Claim::Deleting, "Delete", "-", "-")]
#[case("Available", Ref::This, Claim::Deleting, "Retain", "-", "-")]
// Not completed: the claim's own pass does that.
#[case("Available", Ref::Open, Claim::Live, "Delete", "-", "-")]
#[case("Released", Ref::Open, Claim::Live, "Retain", "-", "-")]
#[case("Bound", Ref::Open, Claim::Deleting, "Delete", "-", "-")]
#[case("-", Ref::Open, Claim::Other, "Delete", "-", "-")]
// Gone, or another's uid: read first, then by the policy.
#[case("Bound", Ref::This, Claim::Absent, "Retain", "read t1/web", "phase Released")]
#[case("Bound", Ref::This, Claim::Absent, "Delete", "read t1/web", "delete")]
#[case("Bound", Ref::Earlier, Claim::Live, "Retain", "read t1/web", "phase Released")]
#[case("Bound", Ref::Earlier, Claim::Live, "Delete", "read t1/web", "delete")]
#[case("-", Ref::Earlier, Claim::Deleting, "Delete", "read t1/web", "delete")]
// Released already: no read, unless the policy became Delete.
#[case("Released", Ref::This, Claim::Absent, "Retain", "-", "-")]
#[case("Released", Ref::Earlier, Claim::Live, "Retain", "-", "-")]
#[case("Released", Ref::Earlier, Claim::Absent, "Delete", "read t1/web", "delete")]
// A driver's phase stays, reclaim or not.
#[case("Conflict", Ref::None, Claim::Absent, "Retain", "-", "-")]
#[case("Conflict", Ref::This, Claim::Absent, "Delete", "-", "-")]
#[case("Lost", Ref::Earlier, Claim::Live, "Retain", "-", "-")]
#[case("Lost", Ref::This, Claim::Live, "Retain", "-", "-")]
// A claim that does not parse: hands off.
#[case("Bound", Ref::This, Claim::Strange, "Delete", "-", "-")]
#[case("Bound", Ref::Earlier, Claim::Strange, "Delete", "-", "-")]
#[case("Available", Ref::Open, Claim::Strange, "Delete", "-", "-")]
fn rules_by_example(
    #[case] phase: &'static str,
    #[case] reference: Ref,
    #[case] claim: Claim,
    #[case] policy: &'static str,
    #[case] by_cache: &str,
    #[case] by_read: &str,
) {
    let phase = Some(phase).filter(|p| *p != "-");
    for confirmed in BOTH {
        let row = Row {
            phase,
            reference,
            claim,
            confirmed,
            policy,
            deleting: false,
            protected: true,
            valid: true,
            old: true,
        };
        let expected = if confirmed { by_read } else { by_cache };
        assert_eq!(words(&row.decide(&row.address())), expected, "confirmed: {confirmed}");
    }
}
