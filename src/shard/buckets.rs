//! Which claims are whose: uid → bucket → member.
//!
//! Pure, and part of the protocol between replicas, also between versions: it never changes. The
//! hash and its ranges are those of Kubernetes' own sharded lists (KEP-5866), so that a replica can
//! one day ask for its claims alone. By uid and not by namespace: names that differ in their last
//! characters fall side by side in this hash, uids do not.

use std::{hash::Hasher, sync::Arc};

use fnv::FnvHasher;

use crate::rendezvous::winner;

/// How many buckets there are.
pub const BUCKETS: usize = 256;

/// A claim's bucket: the top eight bits of FNV-1a-64 of its uid.
pub fn bucket(uid: &str) -> u8 {
    let mut hasher = FnvHasher::default();
    hasher.write(uid.as_bytes());
    hasher.finish().to_be_bytes()[0]
}

/// Who holds which bucket, among certain members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    members: Vec<Arc<str>>,
    /// By bucket, the holder's place among the members.
    holders: Vec<usize>,
}

impl Table {
    /// Shares the buckets out; the members' order does not matter. Without members nobody holds any.
    pub fn of(members: impl IntoIterator<Item = Arc<str>>) -> Self {
        let mut members: Vec<_> = members.into_iter().collect();
        members.sort();
        members.dedup();
        let holders = (0..=u8::MAX).filter_map(|bucket| winner(&members, &[bucket])).collect();
        Self { members, holders }
    }

    /// The members, sorted.
    pub fn members(&self) -> &[Arc<str>] {
        &self.members
    }

    /// Who holds a bucket.
    pub fn holder(&self, bucket: u8) -> Option<&str> {
        let place = *self.holders.get(usize::from(bucket))?;
        self.members.get(place).map(|member| &**member)
    }

    /// How many buckets a member holds.
    pub fn held_by(&self, member: &str) -> usize {
        (0..=u8::MAX).filter(|bucket| self.holder(*bucket) == Some(member)).count()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn table<S: AsRef<str>>(names: &[S]) -> Table {
        Table::of(names.iter().map(|n| n.as_ref().into()))
    }

    fn counts(table: &Table) -> Vec<usize> {
        table.members().iter().map(|m| table.held_by(m)).collect()
    }

    /// As a Deployment names its pods.
    fn pods(random: &mut fastrand::Rng, count: usize) -> Vec<String> {
        let letters = b"bcdfghjklmnpqrstvwxz2456789";
        let mut word =
            |length| (0..length).map(|_| char::from(*random.choice(letters).unwrap())).collect();
        let set: String = word(10);
        (0..count).map(|_| format!("address-controller-{set}-{}", word(5) as String)).collect()
    }

    /// FNV-1a-64, by the test vectors of its authors; the top eight bits of it.
    #[test]
    fn a_bucket_is_the_top_of_fnv_1a() {
        for (text, hash) in [
            ("", 0xcbf2_9ce4_8422_2325_u64),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(bucket(text), hash.to_be_bytes()[0], "{text}");
        }
    }

    #[test]
    fn with_three_members_each_holds_a_third() {
        let mut random = fastrand::Rng::with_seed(40);
        let mut sets: Vec<_> = (0..40).map(|_| pods(&mut random, 3)).collect();
        sets.push((0..3).map(|n| format!("address-controller-{n}")).collect());
        sets.push((0..3).map(|n| format!("b-{n}")).collect());
        for set in sets {
            for count in counts(&table(&set)) {
                assert!(count.abs_diff(85) <= 25, "{count} in {set:?}");
            }
        }
    }

    /// Nobody but the one who comes or goes gives or gets a bucket.
    #[test]
    fn one_more_or_less_moves_only_its_own() {
        let mut random = fastrand::Rng::with_seed(41);
        for _ in 0..40 {
            let names = pods(&mut random, 4);
            let (four, three) = (table(&names), table(&names[..3]));
            for bucket in 0..=u8::MAX {
                let (before, after) = (three.holder(bucket), four.holder(bucket));
                assert!(before == after || after == Some(&*names[3]), "bucket {bucket}");
            }
            assert!(four.held_by(&names[3]) > 0);
        }
    }

    /// Uids are what is shared out, so one namespace with every claim is as good as many.
    #[test]
    fn uids_spread_evenly() {
        let mut random = fastrand::Rng::with_seed(42);
        let table = table(&["a-0", "a-1", "a-2"]);
        let mut claims = BTreeMap::new();
        for _ in 0..1_900 {
            let bits = random.u128(..);
            let hex = format!("{bits:032x}");
            let uid = format!(
                "{}-{}-{}-{}-{}",
                &hex[..8],
                &hex[8..12],
                &hex[12..16],
                &hex[16..20],
                &hex[20..]
            );
            *claims.entry(table.holder(bucket(&uid)).unwrap().to_owned()).or_insert(0_usize) += 1;
        }
        for (member, count) in claims {
            // As many as its share of the buckets, give or take.
            let share = table.held_by(&member) * 1_900 / BUCKETS;
            assert!(count.abs_diff(share) < 100, "{member}: {count} of {share}");
        }
    }

    #[test]
    fn without_members_nobody_holds_anything() {
        let nobody = table::<&str>(&[]);
        assert_eq!(nobody.holder(0), None);
        assert_eq!(counts(&nobody), Vec::<usize>::new());
        assert_eq!(counts(&table(&["a"])), [BUCKETS]);
    }
}
