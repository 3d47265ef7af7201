//! How long things take that concern Leases.

use std::time::Duration;

/// The lengths of time that Leases go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// How long a Lease counts after it was last seen to change. Whole seconds: that is how a Lease
    /// says it.
    pub duration: Duration,
    /// How often it is renewed.
    pub period: Duration,
    /// How long after sending the last request that was granted its holder may act.
    pub deadline: Duration,
    /// How long one request may take. Not the budget: a slower renewal is tried again until the
    /// deadline.
    pub attempt: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(5),
            period: Duration::from_secs(1),
            deadline: Duration::from_millis(3_500),
            attempt: Duration::from_secs(1),
        }
    }
}

impl Times {
    /// How long a Lease that nobody renews is left lying: ten durations.
    pub fn forgotten(&self) -> Duration {
        self.duration * 10
    }

    /// Checks them against each other.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn check(&self) -> Result<(), String> {
        let Self { duration, period, deadline, attempt } = *self;
        if duration.subsec_nanos() != 0 {
            return Err(format!(
                "--lease-duration ({duration:?}) is not a whole number of seconds: a Lease cannot say it"
            ));
        }
        if deadline >= duration {
            return Err(format!(
                "--lease-renew-deadline ({deadline:?}) is not below --lease-duration ({duration:?}): \
                 a holder would act after others have taken over"
            ));
        }
        if period + attempt > deadline {
            return Err(format!(
                "--lease-renew-period ({period:?}) and --lease-attempt-timeout ({attempt:?}) together \
                 are longer than --lease-renew-deadline ({deadline:?}): one slow answer would lose the Lease"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_agree_and_each_contradiction_is_named() {
        let times = Times::default();
        assert_eq!(times.check(), Ok(()));
        let s = Duration::from_secs_f64;
        for (wrong, named) in [
            (Times { duration: s(5.5), ..times }, "--lease-duration (5.5s)"),
            (Times { deadline: s(5.0), ..times }, "--lease-renew-deadline (5s)"),
            (Times { period: s(3.0), ..times }, "--lease-renew-period (3s)"),
            (Times { attempt: s(2.6), ..times }, "--lease-attempt-timeout (2.6s)"),
        ] {
            let message = wrong.check().expect_err(named);
            assert!(message.contains(named), "{message}");
        }
    }
}
