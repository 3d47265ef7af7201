//! One claim's name, and the lives of the claims under it, one after the other.

use std::time::Duration;

use address_controller::api::{ClaimFamily, IPAddressClaim};
use fastrand::Rng;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{CLOUD, Hands, POOLS, SHELVES, is_code, is_there, shelf_name};
use crate::chaos::pace::percent;

/// How long to wait before a refused request is made again.
const AGAIN: Duration = Duration::from_millis(150);

/// All that is random in one claim's life, drawn before it begins: so it does not depend on how
/// long things take.
#[derive(Clone, Debug, PartialEq)]
struct Life {
    class: Option<&'static str>,
    family: ClaimFamily,
    pin: Option<String>,
    /// An edit of its spec, and when.
    edit: Option<(Duration, Value)>,
    /// How long it is left alone after that.
    then: Duration,
    /// Whoever ends it takes off its finalizers.
    forced: bool,
    /// How long the name is left unused.
    after: Duration,
}

impl Life {
    fn draw(rng: &mut Rng) -> Self {
        let class = match rng.u8(0..100) {
            0..45 => Some(POOLS[0]),
            45..65 => Some(POOLS[1]),
            65..85 => Some(CLOUD),
            _ => None,
        };
        let family = match rng.u8(0..10) {
            0..6 => ClaimFamily::IPv4,
            6..8 => ClaimFamily::IPv6,
            _ => ClaimFamily::Dual,
        };
        let pin = (percent(rng, 10) && family != ClaimFamily::Dual)
            .then(|| shelf_name(rng.usize(0..SHELVES)));
        let edit = percent(rng, 30).then(|| (millis(rng, 0, 3_000), edit(rng)));
        // Some are gone before anybody has looked at them.
        let then = if percent(rng, 10) { Duration::ZERO } else { millis(rng, 200, 9_000) };
        let forced = percent(rng, 1);
        let after = if rng.bool() { Duration::ZERO } else { millis(rng, 0, 2_000) };
        Self { class, family, pin, edit, then, forced, after }
    }

    fn claim(&self, name: &str) -> IPAddressClaim {
        let mut claim = IPAddressClaim::new(
            name,
            address_controller::api::IPAddressClaimSpec {
                class_name: self.class.map(str::to_owned),
                family: self.family,
                address_name: self.pin.clone(),
            },
        );
        claim.metadata.annotations = Some([("chaos".to_owned(), "claim".to_owned())].into());
        claim
    }
}

fn millis(rng: &mut Rng, from: u64, to: u64) -> Duration {
    Duration::from_millis(rng.u64(from..=to))
}

fn edit(rng: &mut Rng) -> Value {
    match rng.u8(0..10) {
        0..6 => json!({ "family": "Dual" }),
        6 => json!({ "family": "IPv6" }),
        7 => json!({ "className": POOLS[rng.usize(0..POOLS.len())] }),
        8 => json!({ "addressName": shelf_name(rng.usize(0..SHELVES)) }),
        _ => json!({ "addressName": null }),
    }
}

/// Lives under one name until the end; what is there then is left there.
pub(super) async fn run(api: Api<IPAddressClaim>, name: String, mut hands: Hands) {
    while live(&api, &name, &mut hands).await.is_some() {}
}

/// One life. Nothing: the end came.
async fn live(api: &Api<IPAddressClaim>, name: &str, hands: &mut Hands) -> Option<()> {
    let life = Life::draw(&mut hands.rng);
    // While the one before is on its way out, the name is taken.
    while !create(api, &life.claim(name)).await {
        go_on(hands, AGAIN).await?;
    }
    hands.tally.add("claim created");
    if let Some((when, spec)) = &life.edit {
        go_on(hands, *when).await?;
        let body = Patch::Merge(json!({ "spec": spec }));
        if api.patch(name, &PatchParams::default(), &body).await.is_ok() {
            hands.tally.add("claim edited");
        }
    }
    go_on(hands, life.then).await?;
    if life.forced {
        let body = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        if api.patch(name, &PatchParams::default(), &body).await.is_ok() {
            hands.tally.add("claim force-deleted");
        }
    }
    loop {
        let answer = api.delete(name, &DeleteParams::default()).await;
        if answer.is_ok() || is_code(&answer, 404) {
            break;
        }
        go_on(hands, AGAIN).await?;
    }
    hands.tally.add("claim deleted");
    go_on(hands, life.after).await
}

/// Whether the claim is made. One that an earlier try made without an answer is this life's too;
/// one that is being deleted is not.
async fn create(api: &Api<IPAddressClaim>, claim: &IPAddressClaim) -> bool {
    let answer = api.create(&PostParams::default(), claim).await;
    if !is_code(&answer, 409) {
        return is_there(&answer);
    }
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let there = api.get_opt(name).await;
    matches!(there, Ok(Some(there)) if there.metadata.deletion_timestamp.is_none())
}

async fn go_on(hands: &mut Hands, time: Duration) -> Option<()> {
    hands.until.wait(time).await.then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same seed, the same lives; and every kind of life is among them.
    #[test]
    fn lives_follow_from_the_seed() {
        let lives = |seed| {
            let mut rng = Rng::with_seed(seed);
            (0..300).map(|_| Life::draw(&mut rng)).collect::<Vec<_>>()
        };
        let (one, other) = (lives(1), lives(2));
        assert_eq!(one, lives(1));
        assert_ne!(one, other);
        let any = |what: fn(&Life) -> bool| assert!(one.iter().chain(&other).any(what));
        any(|l| l.family == ClaimFamily::Dual);
        any(|l| l.class.is_none());
        any(|l| l.pin.is_some());
        any(|l| l.edit.is_some());
        any(|l| l.forced);
        any(|l| l.then.is_zero() && l.after.is_zero());
    }
}
