//! The text format: OpenMetrics 1.0.

use super::families::{Family, PREFIX, Value};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;

/// Families as the encoder takes them.
#[derive(Debug)]
struct Ready(Arc<[Family]>);

impl Collector for Ready {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for family in self.0.iter() {
            let mut metric =
                encoder.encode_descriptor(&family.name, family.help, family.unit.as_ref(), family.kind)?;
            for sample in &family.samples {
                write_value(family.kind, sample.value, metric.encode_family(&sample.labels)?)?;
            }
        }
        Ok(())
    }
}

fn write_value(kind: MetricType, value: Value, encoder: MetricEncoder<'_>) -> fmt::Result {
    match (kind, value) {
        (MetricType::Counter, Value::Whole(value)) => ConstCounter::new(value).encode(encoder),
        (MetricType::Counter, Value::Real(value)) => ConstCounter::new(value).encode(encoder),
        (_, Value::Whole(value)) => ConstGauge::new(value).encode(encoder),
        (_, Value::Real(value)) => ConstGauge::new(value).encode(encoder),
    }
}

/// The whole text, to its `# EOF`.
pub fn render(families: Vec<Family>) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Ready(families.into())));
    let mut out = String::new();
    // A string takes all of it.
    let _complete = text::encode(&mut out, &registry);
    out
}
