//! The metrics: names, units and values, all from the data that `firn stat --json` shows.
//!
//! Names are part of the command's interface: metrics may be added, but existing ones stay. Counters of the log count since mkfs,
//! those of requests and stalls since the mount. Every sample has the label `source`.

use super::Snapshot;
use crate::stat::fast::FastView;
use crate::stat::view::{BUCKETS, LogView, StatView};
use firnfs_fuse::counters::RequestCount;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// Prefix of all names.
pub const PREFIX: &str = "firnfs";
/// The reason of a volume that was opened for reading only; every other reason is a failure.
const OPENED_READ_ONLY: &str = "mounted read-only";

/// A value, as exactly as it is known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    Whole(u64),
    Real(f64),
}

/// Labels and value.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    pub labels: Vec<(&'static str, String)>,
    pub value: Value,
}

/// Samples of one name.
#[derive(Debug)]
pub struct Family {
    /// Without prefix, unit and `_total`.
    pub name: String,
    pub help: &'static str,
    pub unit: Option<Unit>,
    pub kind: MetricType,
    pub samples: Vec<Sample>,
}

/// Collects families, and gives each sample the label of the volume.
struct Families {
    source: String,
    families: Vec<Family>,
}

/// Everything about a volume.
pub fn families(snapshot: &Snapshot) -> Vec<Family> {
    let mut all = Families { source: snapshot.source.clone(), families: Vec::new() };
    all.volume(&snapshot.stat);
    let help = "1 while changes wait for firn thaw";
    all.gauge("frozen", None, help, snapshot.is_frozen.into());
    if let Some(log) = &snapshot.stat.log {
        all.log(log);
        all.stalls(log);
    }
    if let Some(fast) = &snapshot.stat.ffs {
        all.fast(fast);
    }
    all.requests(snapshot);
    all.families
}

impl Families {
    fn add(
        &mut self,
        kind: MetricType,
        name: &str,
        unit: Option<Unit>,
        help: &'static str,
        samples: impl IntoIterator<Item = (Vec<(&'static str, String)>, Value)>,
    ) {
        let source = || ("source", self.source.clone());
        let samples = samples.into_iter().map(|(labels, value)| Sample {
            labels: std::iter::once(source()).chain(labels).collect(),
            value,
        });
        let samples: Vec<Sample> = samples.collect();
        if !samples.is_empty() {
            self.families.push(Family { name: name.to_owned(), help, unit, kind, samples });
        }
    }

    fn gauge(&mut self, name: &str, unit: Option<Unit>, help: &'static str, value: u64) {
        self.add(MetricType::Gauge, name, unit, help, [(Vec::new(), Value::Whole(value))]);
    }

    fn volume(&mut self, stat: &StatView) {
        let (kind, uuid, label) = match (&stat.log, &stat.ffs) {
            (Some(log), _) => ("log", log.uuid.as_str(), log.label.as_str()),
            (None, Some(fast)) => ("ffs", fast.uuid.as_str(), fast.label.as_str()),
            (None, None) => ("memory", "", ""),
        };
        let labels =
            [("kind", kind), ("uuid", uuid), ("label", label), ("version", env!("CARGO_PKG_VERSION"))];
        let labels = labels.map(|(name, value)| (name, value.to_owned())).to_vec();
        self.add(
            MetricType::Gauge,
            "volume",
            None,
            "What the volume is; always 1",
            [(labels, Value::Whole(1))],
        );
        let space = &stat.space;
        self.gauge("size", Some(Unit::Bytes), "Space for files, as df shows it", space.total_bytes);
        self.gauge("free", Some(Unit::Bytes), "Unused space for files", space.free_bytes);
        self.gauge("inodes_used", None, "Inodes in use", space.used_inodes);
        self.gauge("inodes_free", None, "Inodes that can still be made", space.free_inodes);
        let why = stat.read_only_reason.as_deref();
        self.gauge("read_only", None, "1 if the volume cannot be written", why.is_some().into());
        let has_failed = why.is_some_and(|why| why != OPENED_READ_ONLY);
        let help = "1 if the volume turned read-only because of damage or a failed device";
        self.gauge("failed", None, help, has_failed.into());
    }

    fn log(&mut self, log: &LogView) {
        let help = "Damaged parts of the volume that the mount has met";
        self.gauge("damaged_parts", None, help, log.damage.len() as u64);
        self.gauge("segment_size", Some(Unit::Bytes), "Size of a segment", log.segment_bytes.into());
        self.gauge("segments", None, "Segments of the volume", log.segments);
        self.gauge("segments_in_use", None, "Segments that hold data", log.segments_in_use);
        let buckets = log.utilisation_histogram.iter().enumerate().map(|(bucket, count)| {
            let below = format!("{:.1}", (bucket + 1) as f64 / BUCKETS as f64);
            (vec![("below", below)], Value::Whole(*count))
        });
        let help = "Segments in use by their share of live bytes: less than that, and not less than the bucket before";
        self.add(MetricType::Gauge, "segments_by_utilisation", None, help, buckets);
        if let Some(room) = &log.room {
            let places = [
                ("live", room.live_bytes),
                ("history", room.history_bytes),
                ("reclaimable", room.reclaimable_bytes),
                ("pinned", room.pinned_bytes),
                ("clean", room.clean_bytes),
                ("reserve", room.reserve_bytes),
                ("fixed", room.fixed_bytes),
            ];
            let places =
                places.map(|(place, bytes)| (vec![("place", place.to_owned())], Value::Whole(bytes)));
            let help = "Where the bytes of the volume are; they add up to its size";
            self.add(MetricType::Gauge, "room", Some(Unit::Bytes), help, places);
        }
        if let Some(power_cut) = &log.power_cut {
            let help = "A power cut would lose no change older than this; 0 if it would lose none";
            let seconds = power_cut.loses_up_to_ms.unwrap_or(0) as f64 / 1e3;
            let samples = [(Vec::new(), Value::Real(seconds))];
            self.add(MetricType::Gauge, "oldest_volatile_change", Some(Unit::Seconds), help, samples);
            let help = "Changes in memory that are not in the log yet";
            self.gauge("dirty", Some(Unit::Bytes), help, power_cut.dirty_bytes);
        }
        for (name, value) in &log.counters {
            let (name, unit) = match name.strip_suffix("_bytes") {
                Some(name) => (name, Some(Unit::Bytes)),
                None => (name.as_str(), None),
            };
            let help = "Count since mkfs (firn stat --json: counters)";
            self.add(MetricType::Counter, name, unit, help, [(Vec::new(), Value::Whole(*value))]);
        }
    }

    fn stalls(&mut self, log: &LogView) {
        let Some(stalls) = log.cleaning.as_ref().and_then(|cleaning| cleaning.stalls) else { return };
        let count = [(Vec::new(), Value::Whole(stalls.count))];
        self.add(
            MetricType::Counter,
            "stalls",
            None,
            "Operations that waited for room, since the mount",
            count,
        );
        let seconds = |ms: f64| [(Vec::new(), Value::Real(ms / 1e3))];
        let help = "Time that operations waited for room, since the mount";
        self.add(MetricType::Counter, "stall", Some(Unit::Seconds), help, seconds(stalls.total_ms));
        let help = "The longest wait of one operation for room, since the mount";
        self.add(MetricType::Gauge, "longest_stall", Some(Unit::Seconds), help, seconds(stalls.longest_ms));
        let help = "Wait for room that half of the operations that waited did not exceed, since the mount";
        if let Some(p50_ms) = stalls.p50_ms {
            self.add(MetricType::Gauge, "stall_p50", Some(Unit::Seconds), help, seconds(p50_ms));
        }
        if let Some(p99_ms) = stalls.p99_ms {
            self.add(
                MetricType::Gauge,
                "stall_p99",
                Some(Unit::Seconds),
                "The same of 99 in 100",
                seconds(p99_ms),
            );
        }
    }

    fn fast(&mut self, fast: &FastView) {
        self.gauge("ffs_groups", None, "Groups of the Fast File System", fast.groups.into());
        self.gauge("ffs_directories", None, "Directories", fast.directories);
        self.gauge("ffs_free_blocks", None, "Free whole blocks", fast.free_blocks);
        self.gauge(
            "ffs_free_fragments",
            None,
            "Free fragments in blocks that are in part used",
            fast.free_frags,
        );
    }

    fn requests(&mut self, snapshot: &Snapshot) {
        let of = |value: fn(&RequestCount) -> Value| {
            let each = snapshot.requests.iter();
            each.map(move |count| (vec![("request", count.name.clone())], value(count))).collect::<Vec<_>>()
        };
        let counter = MetricType::Counter;
        let help = "Requests of the kernel, since the mount";
        self.add(counter, "requests", None, help, of(|count| Value::Whole(count.requests)));
        let help =
            "Requests answered with an error (ENOENT of a lookup and ENODATA of getxattr do not count)";
        self.add(counter, "request_errors", None, help, of(|count| Value::Whole(count.errors)));
        let help = "Time in the daemon, including waits for the device";
        let seconds = of(|count| Value::Real(count.busy_ns as f64 / 1e9));
        self.add(counter, "request", Some(Unit::Seconds), help, seconds);
        self.request_quantile(
            snapshot,
            "request_p50",
            "Time in the daemon that half of the requests did not exceed",
            |c| c.p50_ns,
        );
        self.request_quantile(snapshot, "request_p99", "The same of 99 in 100", |c| c.p99_ns);
    }

    /// A gauge in seconds for each kind of request of which the daemon knows it.
    fn request_quantile(
        &mut self,
        snapshot: &Snapshot,
        name: &str,
        help: &'static str,
        ns: fn(&RequestCount) -> Option<u64>,
    ) {
        let known = snapshot.requests.iter().filter_map(|count| Some((count.name.clone(), ns(count)?)));
        let samples = known.map(|(name, ns)| (vec![("request", name)], Value::Real(ns as f64 / 1e9)));
        self.add(MetricType::Gauge, name, Some(Unit::Seconds), help, samples);
    }
}
