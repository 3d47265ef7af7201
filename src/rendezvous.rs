//! Who of several is meant for a thing, so that all agree without asking each other.
//!
//! The highest weight wins (rendezvous hashing): when one comes or goes, only what it wins or won
//! changes hands. The weights are part of the protocol between replicas, also between versions of
//! the program: they never change. It must not know what the things are.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

/// The weight of a candidate for a thing: `SipHash`-1-3 with a zero key over the candidate's bytes, a
/// byte that no name has, and the thing's bytes.
///
/// A plain FNV-1a would not do: names that differ in their last character alone, as a
/// `StatefulSet`'s do, get weights that lie side by side.
pub fn weight(candidate: &str, thing: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(candidate.as_bytes());
    hasher.write(&[0xff]);
    hasher.write(thing);
    hasher.finish()
}

/// Which of the candidates a thing is for, by its place among them; none without candidates. Of equal
/// weights the greater name wins.
pub fn winner<T: AsRef<str>>(candidates: &[T], thing: &[u8]) -> Option<usize> {
    let weights = candidates.iter().map(|c| (weight(c.as_ref(), thing), c.as_ref()));
    weights.enumerate().max_by_key(|(_, weighed)| *weighed).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every version of the program must give the same: replicas of two versions run side by side
    /// during an upgrade.
    #[test]
    fn weights_never_change() {
        let golden = [
            ("address-controller-0", &[0_u8][..], 0x4bba_6f4b_b1a2_d1f8_u64),
            ("address-controller-0", &[255], 0x52e7_e8d4_9357_7e65),
            ("address-controller-1", &[0], 0x2431_45b9_8971_b994),
            ("address-controller-7d9c5b6f4-x2x8z", &[17], 0x2f0a_a215_d24f_27c3),
            ("", b"public-v4-1", 0xc3d0_be75_aa61_f37a),
        ];
        for (candidate, thing, value) in golden {
            assert_eq!(weight(candidate, thing), value, "{candidate} {thing:?}");
        }
    }

    #[test]
    fn the_order_in_which_they_are_named_does_not_matter() {
        let (one, other) = (["a", "b", "c"], ["c", "a", "b"]);
        for thing in 0..=255_u8 {
            let of = |names: &[&'static str; 3]| winner(names, &[thing]).map(|i| names[i]);
            assert_eq!(of(&one), of(&other));
        }
        assert_eq!(winner::<&str>(&[], &[0]), None);
    }
}
