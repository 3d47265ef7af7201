//! The watch of the installation's Leases.

use std::{sync::Arc, time::Duration};

use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use super::Roster;
use crate::{
    lease::{LeaseObject, Record},
    watch::{self, Change, Settings, Standing},
};

/// How long one watch request lasts, in seconds.
const TIMEOUT: u32 = 30;
/// The longest pause between two attempts: whoever waits longer hears of a death too late.
const PAUSE: Duration = Duration::from_secs(1);

/// Listens until `stop`, from the beginning whenever the watch is not to be believed.
pub async fn listen(
    roster: Arc<Roster>,
    client: Client,
    namespace: String,
    stop: CancellationToken,
    mut standing: impl FnMut(Standing) + Send,
) {
    while !stop.is_cancelled() {
        let settings = Settings {
            timeout_seconds: TIMEOUT,
            labels: Some(roster.names.selector()),
            longest_pause: PAUSE,
            ..Settings::default()
        };
        let api = |client| Api::namespaced(client, &namespace);
        let sink = |change: Change<LeaseObject>| take(&roster, change);
        watch::run(client.clone(), api, settings, roster.one_run(&stop), sink, &mut standing).await;
    }
}

fn take(roster: &Roster, change: Change<LeaseObject>) {
    roster.learn(|roll, now| match change {
        Change::ListStarted => roll.list_started(),
        Change::ListEnded => roll.list_ended(now),
        Change::Applied(object) => roll.watched(Record::new(object), now),
        Change::Deleted(gone) => roll.deleted(&gone.name, &gone.uid, now),
        // What has no metadata that can be read is nobody's Lease.
        Change::Unparsed(_) => {}
    });
}
