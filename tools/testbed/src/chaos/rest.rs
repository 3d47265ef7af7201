//! The end of all writes: how it is known that there are no more.

use std::time::{Duration, Instant};

use address_controller::api::well_known::GROUP;
use anyhow::{Result, ensure};

use super::{stage::Stage, tally::Tally};
use crate::{
    proxy::{Match, Proxy},
    wait::try_eventually,
};

/// How long the last write must be past: longer than any pause that the replicas are told to make.
const QUIET: Duration = Duration::from_secs(8);

/// How long it may take until then, on a busy machine. A watch that died silently is noticed after
/// 35 s, and a stream that failed often pauses for 30 s.
const BOUND: Duration = Duration::from_mins(3);

/// Waits until each replica watches all three kinds and nobody has written to them for a while. How
/// long that took.
///
/// # Errors
/// When the writes do not end: who still wrote.
pub(super) async fn wait(stage: &Stage, workload: &Tally) -> Result<Duration> {
    let begin = Instant::now();
    try_eventually(BOUND, "everything to come to rest", || async {
        ensure!(workload.idle() > QUIET, "the driver wrote {:?} ago", workload.idle());
        for replica in &stage.replicas {
            is_quiet(replica.number, &replica.proxy)?;
        }
        // Not more often: there is no hurry.
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok(())
    })
    .await?;
    Ok(begin.elapsed())
}

fn is_quiet(number: usize, proxy: &Proxy) -> Result<()> {
    for resource in ["ipaddresses", "ipaddressclaims", "ipaddressclasses"] {
        ensure!(proxy.open_watches(resource) > 0, "replica {number} watches no {resource}");
    }
    let writes = Match::writes().when(|request| request.group == GROUP);
    let since = proxy.since_last(&writes);
    ensure!(since.is_none_or(|since| since > QUIET), "replica {number} wrote {since:?} ago");
    Ok(())
}
