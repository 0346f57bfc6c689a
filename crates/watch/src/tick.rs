//! A tick: what a daemon answers to `watch`, what a recording keeps, and what the page gets. JSON on all three ways.
//!
//! Counts are totals since mkfs or since the mount, so a watcher that misses ticks loses only resolution. Field names are an
//! interface: fields may be added, but existing ones stay.

use serde::{Deserialize, Serialize};

/// Segments of the largest volume that can be watched: a watcher keeps 16 bytes for each.
pub const SEGMENTS_MAX: u64 = 1 << 21;
/// Changed segments in one tick at most: some 60 KB as text. The others follow in the next tick.
pub const CHANGES_MAX: usize = 8192;
/// Victims in one tick at most.
pub const VICTIMS_MAX: usize = 1024;
/// Policies that are asked what they would take, at most.
pub const POLICIES_MAX: usize = 4;
/// Victims that each of them names.
pub const WOULD_MAX: usize = 16;
/// Messages about damage in one tick at most.
pub const DAMAGE_MAX: usize = 20;
/// Parts of a histogram of live shares: a tenth each.
pub const BUCKETS: usize = 10;

/// What a watcher asks for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Request {
    /// The revision of the map that the watcher has; 0 if it has none.
    #[serde(default)]
    pub revision: u64,
    /// The last victim that it has seen.
    #[serde(default)]
    pub taken: u64,
    /// Policies that are asked what they would take now.
    #[serde(default)]
    pub policies: Vec<String>,
}

/// See the module's head.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Tick {
    /// The daemon's time, in nanoseconds since 1970; of a simulation, since its start.
    pub now_ns: i64,
    /// What is watched.
    pub volume: Volume,
    /// Why the volume is not writable; null if it is.
    pub read_only: Option<String>,
    /// Changes wait until somebody thaws the volume, or its time is over.
    #[serde(default)]
    pub is_frozen: bool,
    /// Space as df shows it.
    pub space: Space,
    /// Clean segments, and the marks of the cleaner.
    pub marks: Marks,
    /// What was written and cleaned since mkfs.
    pub counters: Counters,
    /// Segments in use, heads of logs included.
    pub segments_in_use: u64,
    /// Live bytes in them.
    pub live_bytes: u64,
    /// Segments in use by live share: below 10%, below 20%, ... up to 100%.
    pub utilisation: [u64; BUCKETS],
    /// Waits for room since the mount.
    pub stalls: Stalls,
    /// Requests of the kernel since the mount, by kind.
    #[serde(default)]
    pub requests: Vec<Requests>,
    /// Damage that the mount has met.
    #[serde(default)]
    pub damage: Vec<String>,
    /// Segments that changed.
    pub map: MapUpdate,
    /// Victims since the mount.
    pub taken: u64,
    /// Those of them that are new to the watcher, oldest first.
    pub victims: Vec<Victim>,
    /// What other policies would take now.
    #[serde(default)]
    pub would: Vec<Would>,
}

impl Tick {
    /// True if no kernel makes requests: a mount has had one at least, as it began.
    #[must_use]
    pub fn is_of_simulation(&self) -> bool {
        self.requests.is_empty()
    }
}

/// What is watched.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Volume {
    /// A name for people: the mountpoint, or what is simulated.
    #[serde(default)]
    pub name: String,
    /// The image or device.
    #[serde(default)]
    pub source: String,
    /// Bytes of a segment.
    pub segment_bytes: u32,
    /// Segments of the volume.
    pub segments: u64,
    /// How victims are chosen.
    pub policy: String,
}

/// Space as df shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Space {
    /// For users.
    pub total_bytes: u64,
    /// The unused part of it.
    pub free_bytes: u64,
    /// Inodes in use.
    pub inodes_used: u64,
}

/// Clean segments, and the marks between which the cleaner works. All are counts of segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Marks {
    /// Clean, and may be written now.
    pub ready: u64,
    /// Clean, but to be written only after checkpoints.
    pub waiting: u64,
    /// Kept for checkpoints and the cleaner: users' writes wait here.
    pub reserve: u64,
    /// The cleaner starts below it.
    pub low: u64,
    /// The cleaner stops at it while users are active.
    pub high: u64,
    /// The cleaner stops at it in idle time.
    pub idle_target: u64,
}

/// Totals since mkfs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Bytes of content that users wrote.
    pub user_bytes: u64,
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// The part of them that users caused and that is no content of files: directories, inodes, tables, summaries and padding.
    pub metadata_bytes: u64,
    /// Live bytes that the cleaner and coalescing moved; they are in `log_bytes` too.
    pub moved_bytes: u64,
    /// All that cleaning and coalescing wrote to the log: what they moved, and its metadata.
    #[serde(default)]
    pub upkeep_bytes: u64,
    /// Bytes that the cleaner read.
    pub read_bytes: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Segments that the cleaner emptied.
    pub cleaned: u64,
    /// Those of them that it emptied while users were active.
    pub cleaned_on_demand: u64,
    /// Segments that became empty by themselves.
    pub emptied: u64,
}

/// Waits for room since the mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Stalls {
    /// Operations that waited.
    pub count: u64,
    /// All their waiting, in nanoseconds.
    pub total_ns: u64,
    /// The longest wait, in nanoseconds.
    pub longest_ns: u64,
    /// The wait, in nanoseconds, that half of them did not exceed, at most a quarter too large; `None` before the first, and
    /// from a daemon or a recording of an older version.
    #[serde(default)]
    pub p50_ns: Option<u64>,
    /// The same of 99 in 100.
    #[serde(default)]
    pub p99_ns: Option<u64>,
}

/// Requests of one kind since the mount.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Requests {
    /// The kernel's name for the kind.
    pub name: String,
    /// How many.
    pub requests: u64,
    /// How many failed.
    pub errors: u64,
    /// Time in the daemon, in nanoseconds.
    pub busy_ns: u64,
    /// Time in the daemon, in nanoseconds, that half of them did not exceed, at most a quarter too large; `None` from a daemon or a
    /// recording of an older version.
    #[serde(default)]
    pub p50_ns: Option<u64>,
    /// The same of 99 in 100.
    #[serde(default)]
    pub p99_ns: Option<u64>,
}

/// Segments that changed since a revision; `map.rs` packs them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MapUpdate {
    /// The revision on which it builds; 0 begins with a volume whose segments are all clean.
    pub from: u64,
    /// The revision after it.
    pub revision: u64,
    /// More segments have changed: ask again.
    pub more: bool,
    /// The changes, packed, in base64.
    pub changes: String,
}

/// A segment that the cleaner took, or would take.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Victim {
    /// Counts the victims from 1; 0 for one that would be taken.
    #[serde(default)]
    pub serial: u64,
    /// Which segment.
    pub segment: u64,
    /// Its live bytes when it was chosen.
    pub live_bytes: u32,
    /// Time since it was written, in milliseconds; in a simulation, in blocks written.
    pub age_ms: u64,
    /// `policy`, `idle`, `emptiest`, `leaving` or `asked`.
    #[serde(default)]
    pub why: String,
}

/// What a policy would take now.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Would {
    /// The policy.
    pub policy: String,
    /// Its victims, best first.
    pub victims: Vec<Victim>,
}

/// The part of a histogram to which a live share belongs.
#[must_use]
pub fn bucket(live_bytes: u64, segment_bytes: u64) -> usize {
    (live_bytes.saturating_mul(BUCKETS as u64) / segment_bytes.max(1)).min(BUCKETS as u64 - 1) as usize
}
