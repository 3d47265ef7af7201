//! A process that ends before or after any write, and another that starts over: the same end.

use serde_json::{Value, json};

use super::{
    harness::Replica,
    store::{Id, Run, Store, What, without_counters},
};
use crate::binder::testing::{Object, address, claim, class, free};

/// When the process ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Crash {
    Before(usize),
    After(usize),
}

/// A world, what others do to it whenever it has come to rest, and how it ends.
struct Scenario {
    start: Vec<Object>,
    others: Vec<fn(&mut Store)>,
    end: &'static [&'static str],
}

struct Machine {
    store: Store,
    replica: Replica,
    crash: Option<Crash>,
    writes: usize,
}

impl Machine {
    fn start(scenario: &Scenario, crash: Option<Crash>) -> Self {
        let store = Store::of(&scenario.start);
        let replica = Replica::fresh(&store);
        let mut machine = Self { store, replica, crash, writes: 0 };
        machine.settle();
        for others in &scenario.others {
            others(&mut machine.store);
            machine.replica.sync(&machine.store);
            machine.settle();
        }
        machine
    }

    /// Passes of every object until one round writes nothing.
    fn settle(&mut self) {
        for _ in 0..30 {
            let before = self.writes;
            let crash = self.crash;
            for id in self.store.ids() {
                self.pass(&id);
                if self.crash != crash {
                    // Started anew: it looks at everything from the beginning.
                    break;
                }
            }
            if self.writes == before {
                return;
            }
        }
        panic!("never comes to rest: {:#?}", summary(&self.store));
    }

    fn pass(&mut self, id: &Id) {
        let writes = self.replica.pass(&self.store, id);
        let mut run = Run::new(writes.clone(), self.store.revision());
        while let Some(write) = run.next().cloned() {
            self.writes += 1;
            if self.crash == Some(Crash::Before(self.writes)) {
                return self.restart();
            }
            let answer = run.step(&mut self.store);
            if self.crash == Some(Crash::After(self.writes)) {
                return self.restart();
            }
            match answer {
                Ok(Some(object)) => self.replica.see(&object),
                Ok(None) => self.replica.gone(&write.id, &write.uid),
                Err(refusal) => panic!("{} of {:?}: {refusal:?}", write.step, write.id),
            }
        }
        self.replica.ended(&writes);
    }

    fn restart(&mut self) {
        self.crash = None;
        self.replica = Replica::fresh(&self.store);
    }
}

/// The objects without what may differ: versions, times, and how often a choice was made.
fn essence(store: &Store) -> Vec<Value> {
    let strip = |object: &Value| {
        let mut o = object.clone();
        let meta = o["metadata"].as_object_mut().unwrap();
        for field in ["resourceVersion", "creationTimestamp"] {
            meta.remove(field);
        }
        let conditions = o.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten() {
            condition.as_object_mut().unwrap().remove("lastTransitionTime");
        }
        without_counters(o)
    };
    store.objects().map(strip).collect()
}

/// `a1 Bound web`, `web Bound a1`: each address and claim, its phase, and what it names.
fn summary(store: &Store) -> Vec<String> {
    let line = |o: &Value| {
        let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
        let mut words = vec![text(&o["metadata"]["name"]), text(&o["status"]["phase"])];
        words.extend(o["spec"]["claimRef"]["name"].as_str().map(str::to_owned));
        let published = o["status"]["addresses"].as_array();
        words.extend(published.into_iter().flatten().map(|a| text(&a["name"])));
        words.join(" ")
    };
    store.objects().filter(|o| o["kind"] != "IPAddressClass").map(line).collect()
}

/// Runs a scenario without a crash, then with one at every write, before it and after it.
fn check(scenario: &Scenario) {
    let mut calm = Machine::start(scenario, None);
    assert_eq!(summary(&calm.store), scenario.end);
    let expected = essence(&calm.store);
    let writes = calm.writes;
    assert_at_rest(&mut calm);
    for write in 1..=writes {
        for crash in [Crash::Before(write), Crash::After(write)] {
            let mut crashed = Machine::start(scenario, Some(crash));
            assert_eq!(crashed.crash, None, "{crash:?} never happened");
            assert_eq!(essence(&crashed.store), expected, "{crash:?} of {writes} ends elsewhere");
            assert_at_rest(&mut crashed);
        }
    }
}

/// Fifty more looks at every object, by this process and by one just started: no write (O02).
fn assert_at_rest(machine: &mut Machine) {
    let mut restarted = Replica::fresh(&machine.store);
    for id in machine.store.ids() {
        for replica in [&mut machine.replica, &mut restarted] {
            for _ in 0..50 {
                assert_eq!(replica.pass(&machine.store, &id), [], "{id:?} is at rest");
            }
        }
    }
}

fn status(store: &mut Store, address: &str, phase: &Value) {
    let phase = json!({"phase": phase});
    store.others(&Id::address(address), &What::Status(phase));
}

fn delete_web(store: &mut Store) {
    store.others(&Id::claim("t1/web"), &What::Delete);
}

fn bound_to_a1(policy: &str) -> Vec<Object> {
    vec![class("public"), free("a1", "192.0.2.1").policy(policy), claim("t1/web")]
}

/// Two addresses that nobody looked at yet, and a claim.
#[test]
fn a_static_bind_survives_every_crash() {
    check(&Scenario {
        start: vec![
            class("public"),
            address("a1", "192.0.2.1"),
            address("a2", "192.0.2.2"),
            claim("t1/web"),
        ],
        others: vec![],
        end: &["a1 Bound web", "a2 Available", "web Bound a1"],
    });
}

#[test]
fn a_pinned_bind_survives_every_crash() {
    let pinned = claim("t1/web").pin("a2");
    check(&Scenario {
        start: vec![class("public"), free("a1", "192.0.2.1"), free("a2", "192.0.2.2"), pinned],
        others: vec![],
        end: &["a1 Available", "a2 Bound web", "web Bound a2"],
    });
}

#[test]
fn a_dual_bind_survives_every_crash() {
    let dual = claim("t1/web").family("Dual");
    check(&Scenario {
        start: vec![class("public"), free("a4", "192.0.2.1"), free("a6", "2001:db8::1"), dual],
        others: vec![],
        end: &["a4 Bound web", "a6 Bound web", "web Bound a4 a6"],
    });
}

/// One half is there, the other is provisioned by the driver once the claim is stamped.
#[test]
fn a_dual_bind_with_a_driver_survives_every_crash() {
    let dual = claim("t1/web").family("Dual");
    check(&Scenario {
        start: vec![class("public"), free("a4", "192.0.2.1"), dual],
        others: vec![|store| {
            store.create(&address("a6", "2001:db8::1").held_by("t1/web", Some("uid-web")));
        }],
        end: &["a4 Bound web", "a6 Bound web", "web Bound a4 a6"],
    });
}

#[test]
fn a_drivers_address_with_the_uid_survives_every_crash() {
    check(&Scenario {
        start: vec![class("public"), claim("t1/web")],
        others: vec![|store| {
            store.create(&address("a1", "192.0.2.1").held_by("t1/web", Some("uid-web")));
        }],
        end: &["a1 Bound web", "web Bound a1"],
    });
}

#[test]
fn a_drivers_address_without_the_uid_survives_every_crash() {
    check(&Scenario {
        start: vec![class("public"), claim("t1/web")],
        others: vec![|store| {
            store.create(&address("a1", "192.0.2.1").held_by("t1/web", None));
        }],
        end: &["a1 Bound web", "web Bound a1"],
    });
}

#[test]
fn a_deletion_with_retain_survives_every_crash() {
    check(&Scenario {
        start: bound_to_a1("Retain"),
        others: vec![delete_web],
        end: &["a1 Released web"],
    });
}

#[test]
fn a_deletion_with_delete_survives_every_crash() {
    check(&Scenario { start: bound_to_a1("Delete"), others: vec![delete_web], end: &[] });
}

/// B07: one address goes with its driver's finalizer, the other is kept.
#[test]
fn a_deletion_with_mixed_policies_survives_every_crash() {
    check(&Scenario {
        start: vec![
            class("public"),
            free("a4", "192.0.2.1").policy("Delete").finalizer("fake.example.org/backend"),
            free("a6", "2001:db8::1"),
            claim("t1/web").family("Dual"),
        ],
        others: vec![delete_web, |store| {
            let none = json!({"metadata": {"finalizers": []}});
            store.others(&Id::address("a4"), &What::Patch(none));
        }],
        end: &["a6 Released web"],
    });
}

#[test]
fn lost_and_back_survives_every_crash() {
    check(&Scenario {
        start: bound_to_a1("Retain"),
        others: vec![|store| status(store, "a1", &json!("Lost")), |store| {
            status(store, "a1", &Value::Null);
        }],
        end: &["a1 Bound web", "web Bound a1"],
    });
}

/// The published address is taken away by an administrator: Lost, and nothing in its place.
#[test]
fn a_claim_that_lost_its_address_survives_every_crash() {
    let mut start = bound_to_a1("Retain");
    start.push(free("a2", "192.0.2.2"));
    check(&Scenario {
        start,
        others: vec![|store| {
            let cleared = json!({"spec": {"claimRef": null}});
            store.others(&Id::address("a1"), &What::Patch(cleared));
        }],
        end: &["a1 Available", "a2 Available", "web Lost"],
    });
}

/// Nobody came for it in its time.
#[test]
fn an_unclaimed_reservation_survives_every_crash() {
    check(&Scenario {
        start: vec![
            class("public"),
            address("a1", "192.0.2.1").held_by("t1/web", None),
            address("a2", "192.0.2.2").held_by("t1/api", None).policy("Delete"),
        ],
        others: vec![],
        end: &["a1 Released web"],
    });
}

/// B09: the address waits for its claim, and goes with it.
#[test]
fn an_address_deleted_before_its_claim_survives_every_crash() {
    let mut start = bound_to_a1("Retain");
    start.push(free("a2", "192.0.2.2"));
    check(&Scenario {
        start,
        others: vec![|store| store.others(&Id::address("a1"), &What::Delete), delete_web],
        end: &["a2 Available"],
    });
}

/// B03: released, recycled by an administrator, and bound to the next claim.
#[test]
fn recycling_survives_every_crash() {
    check(&Scenario {
        start: bound_to_a1("Retain"),
        others: vec![
            delete_web,
            |store| {
                let cleared = json!({"spec": {"claimRef": null}});
                store.others(&Id::address("a1"), &What::Patch(cleared));
            },
            |store| {
                store.create(&claim("t2/api"));
            },
        ],
        end: &["a1 Bound api", "api Bound a1"],
    });
}

/// B03: released, and given to the next claim of that name by clearing the uid alone.
#[test]
fn handing_on_to_the_next_claim_of_the_name_survives_every_crash() {
    check(&Scenario {
        start: bound_to_a1("Retain"),
        others: vec![
            delete_web,
            |store| {
                store.create(&claim("t1/web").uid("uid-web-2"));
            },
            |store| {
                let cleared = json!({"spec": {"claimRef": {"uid": null}}});
                store.others(&Id::address("a1"), &What::Patch(cleared));
            },
        ],
        end: &["a1 Bound web", "web Bound a1"],
    });
}

/// The process before this one chose a1 and went no further; by now the claim asks for a2.
#[test]
fn a_choice_that_is_given_up_survives_every_crash() {
    check(&Scenario {
        start: vec![
            class("public"),
            free("a1", "192.0.2.1"),
            free("a2", "192.0.2.2"),
            claim("t1/web").protected().selected("IPv4=a1/1").pin("a2"),
        ],
        others: vec![],
        end: &["a1 Available", "a2 Bound web", "web Bound a2"],
    });
}

/// The same, and by now the claim is to go.
#[test]
fn a_choice_of_a_claim_that_goes_survives_every_crash() {
    check(&Scenario {
        start: vec![
            class("public"),
            free("a1", "192.0.2.1").policy("Delete"),
            claim("t1/web").protected().selected("IPv4=a1/1").deleting(),
        ],
        others: vec![],
        end: &["a1 Available"],
    });
}
