//! How long to pause after failures in a row.
//!
//! Pure arithmetic: it knows no clock and no source of randomness; the jitter is handed in.

use std::time::Duration;

/// Pauses that grow by a factor up to a ceiling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The ceiling of the first pause.
    pub base: Duration,
    /// What each further failure multiplies the pause by; at least 1.
    pub factor: f64,
    /// No pause is longer, jitter included.
    pub max: Duration,
}

impl Default for Backoff {
    /// 50 ms, doubled up to a minute.
    fn default() -> Self {
        Self { base: Duration::from_millis(50), factor: 2.0, max: Duration::from_mins(1) }
    }
}

impl Backoff {
    /// The pause after `failures` failures in a row (the first is 1; 0 means no pause).
    ///
    /// `jitter`, from 0 to 1, places it between half of what the failures call for and all of it:
    /// objects that failed together come apart, and with a factor of 2 or more no pause is shorter
    /// than the one before it until the ceiling is reached.
    pub fn pause(&self, failures: u32, jitter: f64) -> Duration {
        if failures == 0 {
            return Duration::ZERO;
        }
        let exponent = i32::try_from(failures - 1).unwrap_or(i32::MAX);
        let grown = self.base.as_secs_f64() * self.factor.powi(exponent);
        // `min` before the conversion: the power may well be infinite.
        let full = grown.min(self.max.as_secs_f64());
        Duration::try_from_secs_f64(full * (0.5 + 0.5 * jitter.clamp(0.0, 1.0))).unwrap_or(self.max)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn doubles_from_the_base_to_the_ceiling_and_stays_there() {
        let full: Vec<u128> =
            (0..13).map(|n| Backoff::default().pause(n, 1.0).as_millis()).collect();
        assert_eq!(
            full,
            [0, 50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 60_000]
        );
        assert_eq!(Backoff::default().pause(u32::MAX, 1.0), Duration::from_mins(1));
    }

    #[test]
    fn jitter_takes_at_most_half() {
        assert_eq!(Backoff::default().pause(2, 0.0), Duration::from_millis(50));
        assert_eq!(Backoff::default().pause(2, 0.5), Duration::from_millis(75));
    }

    proptest! {
        #[test]
        fn no_pause_is_shorter_than_the_last_below_the_ceiling(
            failures in 1_u32..10, one in 0.0..1.0, other in 0.0..1.0
        ) {
            let backoff = Backoff::default();
            prop_assert!(backoff.pause(failures, one) <= backoff.pause(failures + 1, other));
        }

        #[test]
        fn any_settings_give_a_pause_within_the_ceiling(
            base in 0_u64..100_000, factor in prop::num::f64::ANY, max in 0_u64..100_000,
            failures: u32, jitter in prop::num::f64::ANY
        ) {
            let max = Duration::from_millis(max);
            let backoff = Backoff { base: Duration::from_millis(base), factor, max };
            prop_assert!(backoff.pause(failures, jitter) <= max);
        }
    }
}
