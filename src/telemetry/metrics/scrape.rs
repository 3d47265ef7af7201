//! What is counted only when metrics are read: nothing is kept, so nothing goes stale.

use std::{fmt, sync::Arc};

use parking_lot::RwLock;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
    registry::Registry,
};

use super::{
    super::{Census, Kind, Replicas},
    as_gauge,
    families::{PREFIX, help},
};

type Depth = Box<dyn Fn() -> usize + Send + Sync>;
type TakeCensus = Box<dyn Fn() -> Census + Send + Sync>;
type TakeReplicas = Box<dyn Fn() -> Replicas + Send + Sync>;

#[derive(Default)]
struct Sources {
    depths: Vec<(Kind, Depth)>,
    census: Option<TakeCensus>,
    replicas: Option<TakeReplicas>,
}

/// Where the numbers come from, once somebody has said so.
#[derive(Clone, Default)]
pub(super) struct Scraped(Arc<RwLock<Sources>>);

impl Scraped {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let scraped = Self::default();
        registry.register_collector(Box::new(scraped.clone()));
        scraped
    }

    pub(super) fn depth_from(&self, kind: Kind, depth: Depth) {
        let mut sources = self.0.write();
        sources.depths.retain(|(k, _)| *k != kind);
        sources.depths.push((kind, depth));
    }

    pub(super) fn census_from(&self, census: TakeCensus) {
        self.0.write().census = Some(census);
    }

    pub(super) fn replicas_from(&self, replicas: TakeReplicas) {
        self.0.write().replicas = Some(replicas);
    }
}

impl fmt::Debug for Scraped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scraped")
    }
}

impl Collector for Scraped {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sources = self.0.read();
        let depths =
            sources.depths.iter().map(|(k, depth)| ([("kind", k.as_str())], as_gauge(depth())));
        gauges(&mut encoder, "queue_depth", depths)?;
        let census = sources.census.as_ref().map(|take| take()).unwrap_or_default();
        for (name, rows) in [("claims", census.claims()), ("addresses", census.addresses())] {
            let rows = rows.into_iter().map(|(phase, class, count)| {
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                ([("phase", phase), ("class", class)], count)
            });
            gauges(&mut encoder, name, rows)?;
        }
        let replicas = sources.replicas.as_ref().map(|take| take()).unwrap_or_default();
        encode_replicas(&mut encoder, &replicas)
    }
}

fn encode_replicas(encoder: &mut DescriptorEncoder<'_>, replicas: &Replicas) -> fmt::Result {
    gauges(encoder, "leading", [([], i64::from(replicas.leads))])?;
    gauges(encoder, "members", [([], as_gauge(replicas.members))])?;
    gauges(encoder, "buckets_held", [([], as_gauge(replicas.buckets))])?;
    let left = [("member", replicas.member_left), ("leader", replicas.leader_left)];
    let left = left.map(|(lease, left)| ([("lease", lease)], left.as_secs_f64()));
    gauges(encoder, "lease_left_seconds", left)
}

/// Writes a family of gauges.
fn gauges<'a, const N: usize, V: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    rows: impl IntoIterator<Item = ([(&'a str, &'a str); N], V)>,
) -> fmt::Result {
    let name = format!("{PREFIX}{name}");
    // The registry ends a help text with a full stop; a collector has to do so itself.
    let help = format!("{}.", help(&name[PREFIX.len()..]));
    let mut family = encoder.encode_descriptor(&name, &help, None, MetricType::Gauge)?;
    for (labels, value) in rows {
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
