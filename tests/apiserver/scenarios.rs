//! Whole stories, each played as often as there are points in it at which it can be disturbed.
//!
//! Every run has names and IPs of its own, so that one controller can play them one after the
//! other; what is compared is without them.

use std::{ops::RangeFrom, time::Instant};

use address_controller::api::{
    AddressPhase, ClaimFamily, ClaimPhase, IPAddress, IPAddressClaim, ReclaimPolicy,
    well_known::{PROVISIONER_ANNOTATION, SELECTED_ADDRESSES_ANNOTATION},
};
use anyhow::{Result, ensure};
use kube::{Resource, ResourceExt, api::DeleteParams};
use serde::Serialize;
use serde_json::{Value, json};
use testbed::{
    make::{self, Make, MakeAddress, MakeClaim},
    proxy::{Match, RuleHandle},
};

use crate::{
    points::Point,
    support::{Bench, PATIENCE, shown},
};

/// A driver's own finalizer.
pub(crate) const DRIVERS: &str = "fake.example.org/teardown";

/// How often a point is looked for that a run may go around.
const TRIES: usize = 3;

/// A story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// An address is created, then a claim that gets it.
    Static,
    /// A claim gets an address of each family.
    Dual,
    /// A claim gets the address that it names.
    Pin,
    /// A claim waits, and a driver creates an address for it.
    Provisioned,
    /// A claim is deleted, and its address retained.
    Retain,
    /// A claim is deleted, and its address with it.
    Delete,
    /// A claim is deleted after somebody has deleted its address.
    AddressFirst,
}

/// One run of a story.
pub(crate) struct Run<'a> {
    pub(crate) bench: &'a mut Bench,
    number: u32,
    name: String,
    claim: Option<String>,
}

impl<'a> Run<'a> {
    /// Numbers are not used twice on a bench.
    pub(crate) fn new(bench: &'a mut Bench, number: u32) -> Self {
        Self { bench, number, name: format!("run{number:03}-"), claim: None }
    }

    fn of(&self, short: &str) -> String {
        format!("{}{short}", self.name)
    }

    fn prefixes(&self) -> (String, String) {
        let n = self.number;
        (format!("10.{}.{}.", n / 250, n % 250), format!("2001:db8:{n:x}::"))
    }

    fn v4(&self, last: u8) -> String {
        format!("{}{last}", self.prefixes().0)
    }

    fn v6(&self, last: u8) -> String {
        format!("{}{last}", self.prefixes().1)
    }

    fn new_address(&self, short: &str, ip: &str) -> IPAddress {
        make::address(&self.of(short), &self.of("public"), ip)
    }

    fn new_claim(&self) -> IPAddressClaim {
        make::claim(self.bench.namespace(), &self.of("web"), &self.of("public"))
    }

    /// A class that the controller has seen: a story that begins before it goes another way.
    async fn create_class(&mut self) {
        let class = self.of("public");
        self.bench.create(&make::class(&class)).await.unwrap();
        let (claims, probe) = (self.bench.claims(), format!("probe-{class}"));
        self.bench.create(&make::claim(self.bench.namespace(), &probe, &class)).await.unwrap();
        self.bench
            .until("the class to be seen", || async {
                let claim = claims.get(&probe).await?;
                let resolved = claim.status.and_then(|status| status.class_name);
                ensure!(resolved.as_ref() == Some(&class), "{resolved:?}");
                Ok(())
            })
            .await;
        claims.delete(&probe, &DeleteParams::default()).await.unwrap();
        self.bench
            .until("the probe to be gone", || async {
                ensure!(claims.get_opt(&probe).await?.is_none(), "{probe} is there");
                Ok(())
            })
            .await;
    }

    async fn create_claim(&mut self, claim: &IPAddressClaim) {
        self.claim = self.bench.create(claim).await.unwrap().uid();
    }

    async fn create_free(&mut self, address: IPAddress) {
        self.bench.create(&address).await.unwrap();
        self.address_is(&address.name_any(), AddressPhase::Available).await;
    }

    async fn address_is(&mut self, name: &str, phase: AddressPhase) {
        let addresses = self.bench.addresses();
        let what = format!("{name} to be {phase:?}");
        self.bench
            .until(&what, || async {
                let address = addresses.get(name).await?;
                let is = address.status.as_ref().and_then(|s| s.phase);
                ensure!(is == Some(phase), "{:?} {:?}", address.spec.claim_ref, address.status);
                Ok(())
            })
            .await;
    }

    /// The claim is bound to these, has its stamp, and the addresses say so too.
    async fn is_bound(&mut self, shorts: &[&str]) {
        let (claims, web) = (self.bench.claims(), self.of("web"));
        let names: Vec<_> = shorts.iter().map(|short| self.of(short)).collect();
        self.bench
            .until("the claim to be bound", || async {
                let claim = claims.get(&web).await?;
                let bound = claim.status.as_ref().and_then(|s| s.phase) == Some(ClaimPhase::Bound);
                let stamped = claim.annotations().contains_key(PROVISIONER_ANNOTATION);
                ensure!(bound && stamped && shown(&claim) == names, "{claim:?}");
                Ok(())
            })
            .await;
        for name in names {
            self.address_is(&name, AddressPhase::Bound).await;
        }
    }

    async fn bind_one(&mut self, policy: ReclaimPolicy) {
        self.create_class().await;
        let mut address = self.new_address("a1", &self.v4(1));
        address.spec.reclaim_policy = policy;
        self.create_free(address).await;
        let claim = self.new_claim();
        self.create_claim(&claim).await;
        self.is_bound(&["a1"]).await;
    }

    async fn delete_claim(&self) {
        let web = self.of("web");
        self.bench.claims().delete(&web, &DeleteParams::default()).await.unwrap();
    }

    /// The claim is gone, and of the addresses these.
    async fn are_gone(&mut self, shorts: &[&str]) {
        let (claims, web) = (self.bench.claims(), self.of("web"));
        let (addresses, names) = (self.bench.addresses(), shorts.iter().map(|s| self.of(s)));
        let names: Vec<_> = names.collect();
        self.bench
            .until("the claim and what goes with it to be gone", || async {
                ensure!(claims.get_opt(&web).await?.is_none(), "the claim is there");
                for name in &names {
                    ensure!(addresses.get_opt(name).await?.is_none(), "{name} is there");
                }
                Ok(())
            })
            .await;
    }

    /// What exists of this run, without what differs from run to run: names and IPs, uids,
    /// resource versions, times, and how often a selection was made.
    pub(crate) async fn outcome(&self) -> Result<Value> {
        let mut objects = Vec::new();
        for short in ["a1", "a2", "a4", "a6"] {
            objects.extend(self.bench.addresses().get_opt(&self.of(short)).await?.map(plain));
        }
        objects.extend(self.bench.claims().get_opt(&self.of("web")).await?.map(plain));
        let mut text = serde_json::to_string(&objects)?;
        let (v4, v6) = self.prefixes();
        for (own, instead) in [(&self.name, ""), (&v4, "ip4."), (&v6, "ip6:")] {
            text = text.replace(own, instead);
        }
        if let Some(uid) = &self.claim {
            text = text.replace(uid, "the claim's uid");
        }
        Ok(serde_json::from_str(&text)?)
    }
}

/// An object without what differs from run to run.
fn plain<K: Resource + Serialize>(object: K) -> Value {
    let mut value = serde_json::to_value(object).unwrap();
    let metadata = value["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        metadata.remove(field);
    }
    if let Some(at) = metadata.get_mut("deletionTimestamp") {
        *at = json!("some time");
    }
    if let Some(selection) = value
        .pointer_mut("/metadata/annotations")
        .and_then(|annotations| annotations.as_object_mut()?.get_mut(SELECTED_ADDRESSES_ANNOTATION))
    {
        let entries = selection.as_str().unwrap_or_default().split(',').map(|entry| {
            let mut parts: Vec<_> = entry.split('/').collect();
            parts.remove(1);
            parts.join("/")
        });
        *selection = json!(entries.collect::<Vec<_>>());
    }
    let conditions = value.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        condition["lastTransitionTime"] = json!("some time");
    }
    value
}

impl Scenario {
    /// What is there before the story begins; nothing is disturbed meanwhile.
    pub(crate) async fn prepare(self, run: &mut Run<'_>) {
        match self {
            Self::Static | Self::Provisioned => run.create_class().await,
            Self::Dual => {
                run.create_class().await;
                run.create_free(run.new_address("a4", &run.v4(4))).await;
                run.create_free(run.new_address("a6", &run.v6(6))).await;
            }
            Self::Pin => {
                run.create_class().await;
                run.create_free(run.new_address("a1", &run.v4(1))).await;
                run.create_free(run.new_address("a2", &run.v4(2))).await;
            }
            Self::Retain => run.bind_one(ReclaimPolicy::Retain).await,
            Self::Delete => run.bind_one(ReclaimPolicy::Delete).await,
            Self::AddressFirst => {
                run.bind_one(ReclaimPolicy::Retain).await;
                let name = run.of("a1");
                run.bench.addresses().delete(&name, &DeleteParams::default()).await.unwrap();
            }
        }
    }

    /// The story, to its end.
    pub(crate) async fn play(self, run: &mut Run<'_>) {
        match self {
            Self::Static => {
                run.create_free(run.new_address("a1", &run.v4(1))).await;
                run.create_claim(&run.new_claim()).await;
                run.is_bound(&["a1"]).await;
            }
            Self::Dual => {
                run.create_claim(&run.new_claim().family(ClaimFamily::Dual)).await;
                run.is_bound(&["a4", "a6"]).await;
            }
            Self::Pin => {
                run.create_claim(&run.new_claim().pinned_to(&run.of("a2"))).await;
                run.is_bound(&["a2"]).await;
            }
            Self::Provisioned => {
                run.create_claim(&run.new_claim()).await;
                Self::provision(run).await;
                run.is_bound(&["a1"]).await;
            }
            Self::Retain => {
                run.delete_claim().await;
                run.are_gone(&[]).await;
                run.address_is(&run.of("a1"), AddressPhase::Released).await;
            }
            Self::Delete | Self::AddressFirst => {
                run.delete_claim().await;
                run.are_gone(&["a1"]).await;
            }
        }
    }

    /// A driver sees the stamp and creates an address.
    async fn provision(run: &mut Run<'_>) {
        let (claims, web) = (run.bench.claims(), run.of("web"));
        run.bench
            .until("the claim to be stamped and waiting", || async {
                let claim = claims.get(&web).await?;
                let phase = claim.status.as_ref().and_then(|s| s.phase);
                let stamped = claim.annotations().contains_key(PROVISIONER_ANNOTATION);
                ensure!(stamped && phase == Some(ClaimPhase::Pending), "{claim:?}");
                Ok(())
            })
            .await;
        let address = run.new_address("a1", &run.v4(1)).delete_policy().finalizer(DRIVERS);
        let address = address.reserved_for(run.bench.namespace(), &web);
        run.bench.create(&address).await.unwrap();
    }

    /// The points of the story and its outcome, undisturbed.
    pub(crate) async fn reference(self, bench: &mut Bench) -> (Vec<Point>, Value) {
        let mut run = Run::new(bench, 0);
        self.prepare(&mut run).await;
        run.bench.at_rest().await;
        run.bench.proxy.forget_requests();
        self.play(&mut run).await;
        run.bench.at_rest().await;
        let writes = run.bench.writes();
        let points = Point::of_run(&writes, &run.name);
        for write in writes.iter().filter(|write| write.status != Some(200)) {
            println!(
                "{self:?}, undisturbed: {:?} to {} {:?}",
                write.status, write.path, write.body
            );
        }
        let outcome = run.outcome().await.unwrap();
        (points, outcome)
    }

    /// The story again with the rule that `disturb` gives for this run: it ends as it should.
    ///
    /// A run that goes another way past the point is made again, a few times.
    pub(crate) async fn disturbed(
        self,
        bench: &mut Bench,
        numbers: &mut RangeFrom<u32>,
        (point, how): (&Point, &str),
        expected: &Value,
        disturb: impl Fn(&Bench, Match) -> RuleHandle,
    ) {
        for _ in 0..TRIES {
            let Some(number) = numbers.next() else { return };
            let begin = Instant::now();
            let mut run = Run::new(bench, number);
            self.prepare(&mut run).await;
            run.bench.at_rest().await;
            let rule = disturb(run.bench, point.requests(&run.name));
            self.play(&mut run).await;
            self.ends_as(&mut run, expected, &format!("{how} at {point}")).await;
            if rule.hits() == 1 {
                println!("{self:?}, {how} at {point}: the same end, in {:.1?}", begin.elapsed());
                return;
            }
            rule.remove();
            assert!(point.is_raced(), "{self:?}: {point} was not met");
        }
        println!("{self:?}, {how} at {point}: not met again");
    }

    async fn ends_as(self, run: &mut Run<'_>, expected: &Value, how: &str) {
        let begin = Instant::now();
        loop {
            run.bench.revive();
            run.bench.at_rest().await;
            let seen = run.outcome().await.unwrap();
            if seen == *expected {
                return;
            }
            let late = begin.elapsed() > PATIENCE;
            assert!(!late, "{self:?}, {how}:\n{seen:#}\nin place of\n{expected:#}");
        }
    }
}
