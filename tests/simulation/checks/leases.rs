//! Who acts: never two leaders, and each bucket and the addresses never without anybody, nor with two,
//! for longer than Leases take, as long as the API server is within everybody's reach. And whoever
//! writes had the right to.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use address_controller::{
    api::well_known::ADDRESS_FINALIZER,
    lease::Times,
    shard::buckets::{BUCKETS, Table, bucket},
};
use serde_json::Value;

use crate::{
    apiserver::{
        store::Commit,
        writes::{finalizers, text},
    },
    replica::{Replica, Standing},
};

/// How long after a Lease was written its writer has surely heard of it, on a fair way.
pub const GRANTED: Duration = Duration::from_millis(10);

/// What a takeover takes beside the Lease's duration: a renewal under way at the end, and the read of
/// the Lease before its holder is called dead.
const MARGIN: Duration = Duration::from_millis(1500);

/// What it takes at worst where the watch of Leases does not show what happens: noticing that, and a
/// list, each time that it happens again meanwhile.
const BLIND: Duration = Duration::from_secs(8);

/// How long ago, at most, whoever writes had the right to: a pass that began with it may go on.
const PASS: Duration = Duration::from_secs(15);

/// A replica as it is seen at a moment.
pub struct Sighting {
    name: String,
    runs: bool,
    /// Runs and is not stopped.
    up: bool,
    lives: u32,
    /// Its requests are answered in time.
    fair: bool,
    /// Its watch of Leases shows what happens, and how often watches were cut.
    shown: (bool, u64),
    standing: Option<Standing>,
}

impl Sighting {
    pub fn of(replica: &Replica) -> Self {
        let weather = replica.link.weather();
        Self {
            name: replica.name.clone(),
            runs: replica.runs(),
            up: replica.is_up(),
            lives: replica.lives,
            fair: weather.is_fair(),
            shown: (weather.shows("leases"), weather.cut),
            standing: replica.standing().filter(|_| !replica.without_leases()),
        }
    }

    /// What it holds, if it acts.
    fn acts(&self) -> Option<&Standing> {
        self.standing.as_ref().filter(|s| self.up && s.member_seconds_left > 0.0)
    }
}

/// Something that may last for so long and no longer.
#[derive(Clone, Copy, Default)]
struct Lasting(Option<Duration>);

impl Lasting {
    /// For how long it has, not counting what was before `from`.
    fn is(&mut self, so: bool, now: Duration, from: Duration) -> Duration {
        if !so {
            self.0 = None;
            return Duration::ZERO;
        }
        now.saturating_sub((*self.0.get_or_insert(now)).max(from))
    }
}

/// What a replica had the right to, and when last.
#[derive(Default)]
struct Rights {
    tables: Vec<(Arc<Table>, Duration)>,
    led: Option<Duration>,
    /// When requests did not pass as they should, or it stood still.
    unfair: Duration,
}

#[derive(Default)]
pub struct Leases {
    times: Times,
    /// Who was up, in which life, and how often watches were cut.
    before: Vec<(bool, u32, u64)>,
    /// Nothing is promised from before this moment: somebody came or went, or was out of reach.
    upset: Duration,
    /// Nothing is promised for the watch of Leases from before this moment.
    unseen: Duration,
    unheld: BTreeMap<u8, Lasting>,
    twice: BTreeMap<u8, Lasting>,
    headless: Lasting,
    tables: BTreeMap<Vec<String>, Arc<Table>>,
    rights: BTreeMap<String, Rights>,
    /// The longest without a holder, with two, without a leader.
    pub worst: [Duration; 3],
}

impl Leases {
    /// How the replicas stand now.
    pub fn look(&mut self, now: Duration, all: &[Sighting], found: &mut Vec<String>) {
        if all.iter().all(|s| s.standing.is_none()) {
            self.upset = now;
            return;
        }
        let leads = |s: &&Sighting| s.standing.as_ref().is_some_and(|s| s.leads);
        let leaders: Vec<_> = all.iter().filter(leads).map(|s| s.name.as_str()).collect();
        if leaders.len() > 1 {
            found.push(format!("{leaders:?} all act as the leader"));
        }
        self.circumstances(now, all);
        let mut acting = Vec::new();
        for sighting in all {
            let rights = self.rights.entry(sighting.name.clone()).or_default();
            if !sighting.fair || sighting.runs && !sighting.up {
                rights.unfair = now;
            }
            let Some(standing) = sighting.acts() else { continue };
            let names: Vec<_> = standing.members.iter().map(|m| m.name.clone()).collect();
            let new = || Arc::new(Table::of(names.iter().map(|name| name.as_str().into())));
            let table = Arc::clone(self.tables.entry(names.clone()).or_insert_with(new));
            rights.held(&table, now);
            if standing.leads {
                rights.led = Some(now);
            }
            acting.push((standing.me.as_str(), table));
        }
        let limit = self.times.duration + MARGIN + self.blindness(now);
        let headless = self.headless.is(leaders.is_empty(), now, self.upset);
        self.buckets(now, &acting, limit, found);
        self.worst[2] = self.worst[2].max(headless);
        if headless > limit + self.times.period {
            found.push(format!("nobody has led for {headless:?}, though the API server answers"));
        }
    }

    /// What is promised now.
    fn circumstances(&mut self, now: Duration, all: &[Sighting]) {
        let lives: Vec<_> = all.iter().map(|s| (s.up, s.lives, s.shown.1)).collect();
        let same = |(a, b): (&(bool, u32, u64), &(bool, u32, u64))| (a.0, a.1) == (b.0, b.1);
        let changed = lives.len() != self.before.len() || !lives.iter().zip(&self.before).all(same);
        // Who runs and is not within reach keeps its Lease, perhaps, and cannot act.
        let apart = all.iter().any(|s| s.runs && !s.fair);
        if changed || apart || !all.iter().any(|s| s.up) {
            self.upset = now;
        }
        if lives != self.before || all.iter().any(|s| s.up && !s.shown.0) {
            self.unseen = now;
        }
        self.before = lives;
    }

    /// How much longer everything may take because somebody did not see the Leases lately.
    fn blindness(&self, now: Duration) -> Duration {
        let lately = self.times.duration + MARGIN + BLIND;
        if now.saturating_sub(self.unseen) < lately { BLIND } else { Duration::ZERO }
    }

    fn buckets(
        &mut self,
        now: Duration,
        acting: &[(&str, Arc<Table>)],
        limit: Duration,
        found: &mut Vec<String>,
    ) {
        let agreed = acting.first().is_some_and(|(_, first)| {
            acting.iter().all(|(_, table)| Arc::ptr_eq(table, first))
                && first.members().iter().map(|m| &**m).eq(acting.iter().map(|(me, _)| *me))
        });
        if agreed {
            self.unheld.clear();
            self.twice.clear();
            return;
        }
        let holds = |(me, table): &&(&str, Arc<Table>), b| table.holder(b) == Some(*me);
        let (mut gap, mut overlap) = (Duration::ZERO, Duration::ZERO);
        for b in 0..=u8::MAX {
            let holders = acting.iter().filter(|one| holds(one, b)).count();
            let unheld = self.unheld.entry(b).or_default();
            gap = gap.max(unheld.is(holders == 0, now, self.upset));
            let twice = self.twice.entry(b).or_default();
            overlap = overlap.max(twice.is(holders > 1, now, self.upset));
        }
        self.worst[0] = self.worst[0].max(gap);
        self.worst[1] = self.worst[1].max(overlap);
        if gap > limit {
            found.push(format!("a bucket of {BUCKETS} is nobody's since {gap:?}"));
        }
        if overlap > limit {
            found.push(format!("a bucket of {BUCKETS} has had two holders for {overlap:?}"));
        }
    }

    /// Whoever writes held the claim, or led, when the pass began.
    pub fn wrote(&mut self, now: Duration, commit: &Commit, found: &mut Vec<String>) {
        let Some(replica) = commit.by.strip_prefix("address-controller/") else { return };
        let Some(rights) = self.rights.get_mut(replica) else { return };
        if commit.key.0 == "leases" && commit.key.2.ends_with("-leader") {
            // It may have ended again before anybody looked.
            rights.led = Some(now);
        }
        if now.saturating_sub(rights.unfair) < PASS || now < PASS {
            return;
        }
        let lately = |at: Duration| now.saturating_sub(at) < PASS;
        let object = commit.new.as_ref().or(commit.old.as_ref()).unwrap_or(&Value::Null);
        let (right, what) = match commit.key.0 {
            "ipaddressclaims" => {
                let b = bucket(text(object, "uid"));
                let mut lately = rights.tables.iter().filter(|(_, at)| lately(*at));
                (lately.any(|(table, _)| table.holder(b) == Some(replica)), "does not hold it")
            }
            "ipaddresses" if is_leaders(commit) => {
                (rights.led.is_some_and(lately), "does not lead")
            }
            _ => return,
        };
        if !right {
            let (plural, namespace, name) = &commit.key;
            found.push(format!("{replica} writes {plural} {namespace}/{name} and {what}"));
        }
    }
}

impl Rights {
    fn held(&mut self, table: &Arc<Table>, now: Duration) {
        self.tables.retain(|(_, at)| now.saturating_sub(*at) < PASS);
        match self.tables.iter_mut().find(|(known, _)| Arc::ptr_eq(known, table)) {
            Some((_, at)) => *at = now,
            None => self.tables.push((Arc::clone(table), now)),
        }
    }
}

/// Whether a write to an address is one that only the address's own pass makes.
fn is_leaders(commit: &Commit) -> bool {
    let (Some(old), Some(new)) = (&commit.old, &commit.new) else { return false };
    let protected = |object: &Value| finalizers(object).contains(&ADDRESS_FINALIZER);
    let phase = &new["status"]["phase"];
    let entered = *phase != old["status"]["phase"] && (*phase == "Available" || *phase == "Bound");
    let bare = old["spec"]["claimRef"] == new["spec"]["claimRef"];
    entered || bare && protected(old) != protected(new)
}

/// Whether a Lease has another holder by this.
pub fn changes_hands(commit: &Commit) -> bool {
    let holder = |object: &Option<Value>| {
        object.as_ref().map(|object| object["spec"]["holderIdentity"].clone())
    };
    commit.key.0 == "leases" && holder(&commit.old) != holder(&commit.new)
}
