//! The JSON of `firn watch`: a tick with its rates, in the words of the other commands. The segments' changes are left out; their
//! totals are in it.
//!
//! Caller: `print` in the module above, once for each tick.

use crate::stat::RequestView;
use crate::stat::cleaning::StallsView;
use firnfs_fuse::counters::RequestCount;
use firnfs_watch::state::{Latency, Rates, State};
use firnfs_watch::tick::{BUCKETS, Counters, Marks, Requests, Stalls, Victim, Would};
use serde::Serialize;

/// A moment of a watched volume.
#[derive(Serialize)]
pub struct WatchView {
    /// The mountpoint, or what is simulated.
    name: String,
    /// The image or device, or a word for a memory volume.
    image: String,
    /// The daemon's time, in milliseconds since 1970; of a simulation, since its start.
    clock_ms: f64,
    /// Why the volume is not writable; null if it is.
    read_only_reason: Option<String>,
    /// Changes wait until `firn thaw`, or until the time of the freeze is over.
    frozen: bool,
    /// Space for users, in bytes.
    total_bytes: u64,
    /// The unused part of it, in bytes.
    free_bytes: u64,
    /// Inodes in use.
    used_inodes: u64,
    /// Share of the space that is used.
    fullness: f64,
    /// Time until it is full if it goes on growing like this, in milliseconds; null if it does not grow.
    full_in_ms: Option<f64>,
    /// How victims are chosen.
    policy: String,
    /// Segment size in bytes.
    segment_bytes: u32,
    /// Segments of the volume.
    segments: u64,
    /// Segments with data, heads of logs included.
    segments_in_use: u64,
    /// Clean segments that can be written now.
    segments_ready: u64,
    /// Clean segments that wait for a checkpoint.
    segments_waiting: u64,
    /// Clean segments kept for checkpoints and the cleaner: users' writes wait there.
    segments_reserved: u64,
    /// The cleaner starts below this many clean segments.
    segments_low: u64,
    /// The cleaner stops at this many while users are active.
    segments_high: u64,
    /// The cleaner stops at this many in idle time.
    segments_idle_target: u64,
    /// Live bytes in segments.
    live_bytes: u64,
    /// Segments in use by utilisation: below 10%, below 20%, ... up to 100%.
    utilisation_histogram: [u64; BUCKETS],
    /// Content that users wrote since mkfs, in bytes.
    user_bytes: u64,
    /// Bytes written to the log since mkfs.
    log_bytes: u64,
    /// The part of the log that users caused and that is no content of files, in bytes.
    metadata_bytes: u64,
    /// Live bytes that cleaning and coalescing moved.
    moved_bytes: u64,
    /// The part of the log that they wrote, metadata included, in bytes.
    upkeep_bytes: u64,
    /// Bytes that the cleaner read.
    read_bytes: u64,
    /// Checkpoints since mkfs.
    checkpoints: u64,
    /// Segments that the cleaner emptied.
    segments_emptied: u64,
    /// Those of them that it emptied while users were active.
    segments_emptied_on_demand: u64,
    /// Segments that became empty by themselves.
    segments_found_empty: u64,
    /// How long operations waited for room since the mount.
    stalls: StallsView,
    /// Requests of the kernel since the mount, by kind.
    by_request: Vec<RequestView>,
    /// Since the tick before.
    rates: RatesView,
    /// Requests since the tick before, by kind.
    latency: Vec<LatencyView>,
    /// Damage that the mount has met.
    damage: Vec<String>,
    /// Victims of the cleaner since the mount.
    victims_taken: u64,
    /// Those of them since the tick before, oldest first.
    victims: Vec<VictimView>,
    /// What other policies would take now.
    would_take: Vec<WouldView>,
}

/// Rates between two ticks.
#[derive(Serialize)]
struct RatesView {
    /// Time between them, in milliseconds; 0 for the first.
    interval_ms: f64,
    /// Content that users wrote, in bytes a second.
    user_bytes_per_s: f64,
    /// Live bytes that the cleaner moved, a second.
    moved_bytes_per_s: f64,
    /// What cleaning and coalescing wrote, metadata included, in bytes a second.
    upkeep_bytes_per_s: f64,
    /// What users caused that is no content of files, in bytes a second.
    metadata_bytes_per_s: f64,
    /// Everything written to the log, in bytes a second.
    log_bytes_per_s: f64,
    /// Bytes that the cleaner read, a second.
    read_bytes_per_s: f64,
    /// Used space, in bytes a second; negative while it shrinks.
    growth_bytes_per_s: f64,
    /// Log bytes for each byte that users wrote, over the last ten ticks; null if they wrote none.
    write_amplification: Option<f64>,
    /// Segments that the cleaner emptied.
    segments_emptied: u64,
    /// Requests a second.
    requests_per_s: f64,
    /// Mean time of a request in the daemon, in milliseconds; null if there was none.
    request_ms: Option<f64>,
    /// Operations that waited for room and went on.
    stalled: u64,
    /// Their mean wait, in milliseconds; null if there was none.
    stall_ms: Option<f64>,
}

/// Requests of one kind between two ticks.
#[derive(Serialize)]
struct LatencyView {
    /// The kernel's name of the request, in lower case.
    request: String,
    /// Requests a second.
    requests_per_s: f64,
    /// Mean time in the daemon, in milliseconds.
    mean_ms: f64,
    /// Those answered with an error.
    failed: u64,
}

/// A segment that the cleaner took, or would take.
#[derive(Serialize)]
struct VictimView {
    /// Counts the victims from 1; 0 for one that would be taken.
    number: u64,
    /// Which segment.
    segment: u64,
    /// Its live bytes when it was chosen.
    live_bytes: u64,
    /// Time since it was written, in milliseconds; in a simulation, in blocks written.
    age_ms: u64,
    /// Why it was chosen: `policy`, `idle`, `emptiest`, `leaving` or `asked`.
    reason: String,
}

/// What a policy would take now.
#[derive(Serialize)]
struct WouldView {
    /// The policy.
    policy: String,
    /// Its victims, best first.
    victims: Vec<VictimView>,
}

impl WatchView {
    /// The newest tick; `None` before the first.
    pub fn of(state: &State) -> Option<Self> {
        let tick = state.last.as_ref()?;
        let Marks { ready, waiting, reserve, low, high, idle_target } = tick.marks;
        let Counters { user_bytes, log_bytes, metadata_bytes, moved_bytes, upkeep_bytes, read_bytes, .. } =
            tick.counters;
        let victims = tick.victims.iter().map(Into::into).collect();
        Some(Self {
            name: tick.volume.name.clone(),
            image: tick.volume.source.clone(),
            clock_ms: tick.now_ns as f64 / 1e6,
            read_only_reason: tick.read_only.clone(),
            frozen: tick.is_frozen,
            total_bytes: tick.space.total_bytes,
            free_bytes: tick.space.free_bytes,
            used_inodes: tick.space.inodes_used,
            fullness: state.fullness(),
            full_in_ms: state.seconds_to_full().map(|seconds| seconds * 1e3),
            policy: tick.volume.policy.clone(),
            segment_bytes: tick.volume.segment_bytes,
            segments: tick.volume.segments,
            segments_in_use: tick.segments_in_use,
            segments_ready: ready,
            segments_waiting: waiting,
            segments_reserved: reserve,
            segments_low: low,
            segments_high: high,
            segments_idle_target: idle_target,
            live_bytes: tick.live_bytes,
            utilisation_histogram: tick.utilisation,
            user_bytes,
            log_bytes,
            metadata_bytes,
            moved_bytes,
            upkeep_bytes,
            read_bytes,
            checkpoints: tick.counters.checkpoints,
            segments_emptied: tick.counters.cleaned,
            segments_emptied_on_demand: tick.counters.cleaned_on_demand,
            segments_found_empty: tick.counters.emptied,
            stalls: stalls(tick.stalls),
            by_request: tick.requests.iter().map(request).collect(),
            rates: state.rates().into(),
            latency: state.latency.iter().map(Into::into).collect(),
            damage: tick.damage.clone(),
            victims_taken: tick.taken,
            victims,
            would_take: tick.would.iter().map(Into::into).collect(),
        })
    }
}

fn stalls(of: Stalls) -> StallsView {
    let Stalls { count, total_ns, longest_ns, p50_ns, p99_ns } = of;
    firnfs_volume::Stalls { count, total_ns, longest_ns, p50_ns, p99_ns }.into()
}

fn request(of: &Requests) -> RequestView {
    let Requests { name, requests, errors, busy_ns, p50_ns, p99_ns } = of.clone();
    RequestCount { name, requests, errors, busy_ns, p50_ns, p99_ns }.into()
}

impl From<Rates> for RatesView {
    fn from(rates: Rates) -> Self {
        Self {
            interval_ms: rates.seconds * 1e3,
            user_bytes_per_s: rates.user,
            moved_bytes_per_s: rates.moved,
            upkeep_bytes_per_s: rates.cleaner,
            metadata_bytes_per_s: rates.metadata,
            log_bytes_per_s: rates.log,
            read_bytes_per_s: rates.cleaner_read,
            growth_bytes_per_s: rates.growth,
            write_amplification: rates.write_amplification,
            segments_emptied: rates.cleaned,
            requests_per_s: rates.requests,
            request_ms: rates.request_ms,
            stalled: rates.stalls,
            stall_ms: rates.stall_ms,
        }
    }
}

impl From<&Latency> for LatencyView {
    fn from(latency: &Latency) -> Self {
        let Latency { name, rate, mean_ms, errors } = latency.clone();
        Self { request: name, requests_per_s: rate, mean_ms, failed: errors }
    }
}

impl From<&Victim> for VictimView {
    fn from(victim: &Victim) -> Self {
        let Victim { serial, segment, live_bytes, age_ms, why } = victim.clone();
        Self { number: serial, segment, live_bytes: live_bytes.into(), age_ms, reason: why }
    }
}

impl From<&Would> for WouldView {
    fn from(would: &Would) -> Self {
        Self { policy: would.policy.clone(), victims: would.victims.iter().map(Into::into).collect() }
    }
}
