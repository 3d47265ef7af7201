//! How many claims and addresses there are, by phase and class: counted when metrics are read.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::api::{AddressPhase, ClaimPhase};

/// The class label of what names a class that does not exist, or none.
///
/// Anybody who may create a claim can write any class name on it: only names of classes that exist
/// become label values, or tenants would choose the number of series.
pub const NO_CLASS: &str = "";

/// A count of everything, taken at one moment.
#[derive(Clone, Debug, Default)]
pub struct Census {
    classes: FxHashSet<String>,
    claims: FxHashMap<(&'static str, String), u64>,
    addresses: FxHashMap<(&'static str, String), u64>,
}

impl Census {
    /// A count of nothing yet, in a cluster with these classes.
    pub fn of_classes(names: impl IntoIterator<Item = String>) -> Self {
        Self { classes: names.into_iter().collect(), ..Self::default() }
    }

    /// Counts claims. No phase counts as `Pending`: they have not been looked at yet.
    pub fn add_claims(&mut self, phase: Option<ClaimPhase>, class: &str, count: u64) {
        let phase = phase.unwrap_or(ClaimPhase::Pending).as_str();
        let class = self.label(class);
        *self.claims.entry((phase, class)).or_default() += count;
    }

    /// Counts addresses. No phase counts as `Pending`.
    pub fn add_addresses(&mut self, phase: Option<AddressPhase>, class: &str, count: u64) {
        let phase = phase.unwrap_or(AddressPhase::Pending).as_str();
        let class = self.label(class);
        *self.addresses.entry((phase, class)).or_default() += count;
    }

    fn label(&self, class: &str) -> String {
        if self.classes.contains(class) { class.to_owned() } else { NO_CLASS.to_owned() }
    }

    /// Claims by (phase, class), in order.
    pub(super) fn claims(&self) -> Vec<(&'static str, &str, u64)> {
        sorted(&self.claims)
    }

    /// Addresses by (phase, class), in order.
    pub(super) fn addresses(&self) -> Vec<(&'static str, &str, u64)> {
        sorted(&self.addresses)
    }
}

fn sorted<'a>(
    counts: &'a FxHashMap<(&'static str, String), u64>,
) -> Vec<(&'static str, &'a str, u64)> {
    let mut rows: Vec<_> =
        counts.iter().map(|((phase, class), count)| (*phase, class.as_str(), *count)).collect();
    rows.sort_unstable();
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_unknown_classes_share_a_row() {
        let mut census = Census::of_classes(["public".to_owned()]);
        census.add_claims(None, "public", 1);
        census.add_claims(Some(ClaimPhase::Pending), "public", 2);
        census.add_claims(Some(ClaimPhase::Pending), "typo-1", 1);
        census.add_claims(Some(ClaimPhase::Pending), "typo-2", 1);
        census.add_addresses(Some(AddressPhase::Available), "public", 7);
        assert_eq!(census.claims(), [("Pending", "", 2), ("Pending", "public", 3)]);
        assert_eq!(census.addresses(), [("Available", "public", 7)]);
    }
}
