//! Waiting for a condition, with a bound, in place of sleeping.

use std::{
    fmt::Display,
    future::Future,
    time::{Duration, Instant},
};

/// The bound that the contract's "bounded" means where a real API server is involved.
pub const BOUNDED: Duration = Duration::from_secs(5);

/// How often a condition is looked at.
const STEP: Duration = Duration::from_millis(20);

/// What one look at a condition found: its value, or what was seen instead.
pub trait Look {
    /// What the condition gives once it holds.
    type Value;

    /// The value, or what was seen instead of it.
    ///
    /// # Errors
    /// The text that a time-out reports as the last state.
    fn look(self) -> Result<Self::Value, String>;
}

impl<T> Look for Option<T> {
    type Value = T;

    fn look(self) -> Result<T, String> {
        self.ok_or_else(|| "nothing".to_owned())
    }
}

impl<T, E: Display> Look for Result<T, E> {
    type Value = T;

    fn look(self) -> Result<T, String> {
        self.map_err(|e| format!("{e:#}"))
    }
}

impl Look for bool {
    type Value = ();

    fn look(self) -> Result<(), String> {
        self.then_some(()).ok_or_else(|| "not so".to_owned())
    }
}

/// Looks every 20 ms until the condition holds, and gives its value.
///
/// # Errors
/// When the bound has passed: what was waited for, for how long, and what was seen last.
pub async fn try_eventually<L, F, Fut>(
    bound: Duration,
    what: &str,
    mut probe: F,
) -> anyhow::Result<L::Value>
where
    L: Look,
    F: FnMut() -> Fut,
    Fut: Future<Output = L>,
{
    let begin = Instant::now();
    let mut last = "nothing yet (the first look took longer than the bound)".to_owned();
    loop {
        let left = bound.saturating_sub(begin.elapsed());
        match tokio::time::timeout(left.max(STEP), probe()).await.map(Look::look) {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(seen)) => last = seen,
            Err(_) => {}
        }
        if begin.elapsed() >= bound {
            anyhow::bail!("waited {bound:?} in vain for {what}; last seen: {last}");
        }
        tokio::time::sleep(STEP).await;
    }
}

/// As [`try_eventually`], for tests: a time-out fails the test.
///
/// # Panics
/// When the bound has passed.
#[expect(clippy::panic, reason = "this is how a test fails")]
pub async fn eventually<L, F, Fut>(bound: Duration, what: &str, probe: F) -> L::Value
where
    L: Look,
    F: FnMut() -> Fut,
    Fut: Future<Output = L>,
{
    match try_eventually(bound, what, probe).await {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_value_is_given_as_soon_as_it_is_there() {
        let mut looks = 0;
        let value = eventually(BOUNDED, "three looks", || {
            looks += 1;
            let now = looks;
            async move { (now == 3).then_some(now) }
        })
        .await;
        assert_eq!(value, 3);
    }

    #[tokio::test]
    async fn a_time_out_says_what_was_seen_last() {
        let error = try_eventually(Duration::from_millis(50), "a bound claim", || async {
            Err::<(), _>("phase Pending")
        })
        .await
        .unwrap_err();
        assert!(error.to_string().contains("a bound claim"), "{error}");
        assert!(error.to_string().ends_with("last seen: phase Pending"), "{error}");
    }

    #[tokio::test]
    async fn a_look_that_hangs_is_bounded_too() {
        let error = try_eventually(Duration::from_millis(50), "an answer", || {
            std::future::pending::<bool>()
        })
        .await
        .unwrap_err();
        assert!(error.to_string().contains("in vain for an answer"), "{error}");
    }
}
