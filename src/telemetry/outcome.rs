//! How a pass ended: a closed set.

use super::labels::labels;

labels! {
    /// How a pass over one object ended.
    Outcome {
        /// There was nothing to do and there is nothing to wait for.
        Settled = "settled",
        /// There was nothing to do until something else changes.
        Waiting = "waiting",
        /// Something was written, and all of it was taken.
        Written = "written",
        /// A write met an object that had changed; everything is looked at again.
        Conflict = "conflict",
        /// It failed for a reason that passes; it is tried again after a pause.
        Retry = "retry",
        /// It failed for a reason that trying again does not mend.
        Refused = "refused",
        /// The object is no more.
        Gone = "gone",
        /// The work on it is another replica's, or not this one's any more.
        Elsewhere = "elsewhere",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_spelt_in_lower_case() {
        for outcome in Outcome::ALL {
            assert_eq!(outcome.as_str(), format!("{outcome:?}").to_lowercase());
        }
    }
}
