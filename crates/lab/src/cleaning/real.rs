//! The file system's side of [`super::crosscheck`]: one file on a volume in memory, overwritten block by block in virtual time.

use super::crosscheck::Setup;
use super::workload::{Op, Stream};
use crate::error::LabError;
use firnfs::FsError;
use firnfs::clean::PlacementName;
use firnfs::inode::Kind;
use firnfs::lfs::scan::partials;
use firnfs::lfs::{Counters, Lfs, LogKind, MkfsOptions, Options};
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{Device, MemDevice};
use firnfs_format::summary::EntryKind;
use firnfs_format::{InodeNo, SegmentId, TimeNs};
use firnfs_manage::{format, open};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use rand::seq::SliceRandom;
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Block size of the volume.
pub(super) const BLOCK_BYTES: u32 = 4096;
/// When the volume is made, in nanoseconds since 1970.
const START_NS: i64 = 1_000_000_000_000_000_000;
/// Virtual time of a block write: the shortest age that the file system's policies distinguish.
const WRITE_NS: i64 = 1_000_000_000;
/// Longer than any run: nothing falls due by time.
const NEVER_MS: u64 = 1 << 50;
/// How often the segments are examined while measuring.
const LOOKS: usize = 200;

/// Measurements of the file system.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// Data blocks written to the log for each that users wrote.
    #[serde(skip)]
    pub amplification: f64,
    /// The placement with as many logs as the volume has.
    #[serde(skip)]
    pub placement: PlacementName,
    /// Blocks of the file.
    pub data_blocks: u32,
    /// Writes that reached the log while measuring.
    pub measured_writes: usize,
    /// Share of the writes that a later write to the same block replaced in memory.
    pub absorbed: f64,
    /// Closed segments with data, on average.
    pub data_segments: f64,
    /// Segments with metadata, on average.
    pub metadata_segments: f64,
    /// Segments clean or about to be, on average; the rest of all segments is open.
    pub clean_segments: f64,
    /// Data blocks with which closed segments were written, on average.
    pub blocks_per_segment: f64,
    /// Victims of one pass of the cleaner, on average.
    pub victims_at_a_time: f64,
    /// Share of the passes that took the emptiest segments instead of the policy's, because users were waiting.
    pub emptiest_share: f64,
    /// Bytes in the log by kind, for each byte of data that users wrote.
    pub metadata: BTreeMap<&'static str, f64>,
}

/// A volume in memory with one file.
struct Rig {
    device: Arc<MemDevice>,
    clock: Arc<VirtualClock>,
    volume: Volume<Lfs>,
    file: InodeNo,
    content: Vec<u8>,
}

fn failed(action: &'static str) -> impl Fn(FsError) -> LabError {
    move |source| LabError::Volume { action, source }
}

impl Rig {
    fn new(setup: &Setup) -> Result<Self, LabError> {
        // The log, the area before it, and the superblock's copy after it.
        let size_bytes = (2 << 20) + u64::from(setup.segments) * u64::from(setup.segment_bytes) + 4096;
        let device = Arc::new(MemDevice::new(size_bytes));
        let mkfs = MkfsOptions {
            size_bytes,
            block_bytes: BLOCK_BYTES,
            segment_bytes: setup.segment_bytes,
            physical_block_bytes: BLOCK_BYTES,
            inline_max_bytes: 0,
            label: "crosscheck".to_owned(),
            uuid: [9; 16],
            hash_key: [1, 2],
            now: TimeNs(START_NS),
            root_owner: (0, 0),
        };
        format(&*device, &mkfs).map_err(failed("making the volume"))?;
        let options = Options {
            cache_bytes: 64 << 20,
            write_threshold_bytes: u64::from(setup.segment_bytes) * 2,
            commit_interval_ms: NEVER_MS,
            checkpoint_interval_ms: NEVER_MS,
            cache_file_data: false,
            cleaning_policy: setup.policy,
            placement: Some(setup.placement),
            ..Options::default()
        };
        let clock = Arc::new(VirtualClock::at(START_NS));
        let volume = open(device.clone(), options, AtimeMode::Noatime, clock.clone())
            .map_err(|e| LabError::Setup(e.to_string()))?;
        let caller = Caller { uid: 0, gid: 0, umask: 0o022 };
        let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: &[] };
        let file = volume
            .run(|vfs, now| vfs.make(now, caller, InodeNo::ROOT, b"file", node, false))
            .map_err(failed("making the file"))?
            .ino;
        Ok(Self { device, clock, volume, file, content: vec![7; BLOCK_BYTES as usize] })
    }

    fn write(&self, block: u32) -> Result<(), LabError> {
        let at_bytes = u64::from(block) * u64::from(BLOCK_BYTES);
        self.volume
            .write_all(self.file, at_bytes, &self.content, false)
            .map_err(failed("overwriting the file"))?;
        self.clock.advance_ns(WRITE_NS);
        Ok(())
    }

    fn look<T>(&self, look: impl Fn(&mut Lfs) -> firnfs::Outcome<T>) -> Result<T, LabError> {
        self.volume.run(|vfs, _| look(vfs.store_mut())).map_err(failed("looking at the volume"))
    }

    fn counters(&self) -> Result<Counters, LabError> {
        self.look(|lfs| Ok(*lfs.counters()))
    }

    /// All segments, with whether a log is in them or data is on its way to them.
    fn segments(&self) -> Result<Vec<firnfs::lfs::port::SegmentInfo>, LabError> {
        let mut all = Vec::new();
        for leaf in 0.. {
            let infos = self.look(|lfs| lfs.segment_infos(leaf))?;
            if infos.is_empty() {
                break;
            }
            all.extend(infos);
        }
        Ok(all)
    }

    /// Number of data blocks with which a segment was written.
    fn blocks_of(&self, segment: SegmentId, uuid: &[u8; 16]) -> Result<usize, LabError> {
        let geo = self.look(|lfs| Ok(lfs.geometry()))?;
        let at_bytes = geo.device_bytes(geo.addr(segment, 0));
        let bytes =
            self.device.read(at_bytes, geo.segment_bytes).map_err(|e| LabError::Setup(e.to_string()))?;
        let is_data = |kind: EntryKind| matches!(kind, EntryKind::Block { fork: 0, level: 0, .. });
        let found = partials(&bytes, uuid, &geo, segment);
        let entries = found.iter().flat_map(|partial| &partial.entries);
        Ok(entries.filter(|entry| entry.ino == self.file && is_data(entry.kind)).count())
    }
}

/// Segments by their content, summed over the examinations.
#[derive(Default)]
struct Looks {
    data: u64,
    metadata: u64,
    clean: u64,
    count: u64,
}

impl Looks {
    fn add(&mut self, rig: &Rig) -> Result<(), LabError> {
        for info in rig.segments()? {
            match info {
                _ if info.is_busy => {}
                _ if !info.usage.in_use || info.usage.live_bytes == 0 => self.clean += 1,
                _ if info.usage.log == firnfs::lfs::META_LOG => self.metadata += 1,
                _ => self.data += 1,
            }
        }
        self.count += 1;
        Ok(())
    }
}

/// Fills the file, runs the workload, and measures its last part. Also returns the writes that reached the log, from the
/// first on.
///
/// # Errors
/// The volume cannot be set up as requested; the file system failed.
pub(super) fn measure(setup: &Setup, progress: &mut dyn FnMut(f64)) -> Result<(Measured, Vec<Op>), LabError> {
    let rig = Rig::new(setup)?;
    let offered = rig.volume.run(|vfs, _| Ok(vfs.statfs())).map_err(failed("looking at the volume"))?;
    let blocks = (offered.total_bytes as f64 * setup.utilisation / f64::from(BLOCK_BYTES)) as u32;
    let measuring = (f64::from(blocks) * setup.measured_volumes) as usize;
    let ops = operations(setup, blocks, measuring)?;
    let all = ops.len();
    let mut run = Run {
        rig: &rig,
        places: places(setup, blocks),
        reached: Vec::with_capacity(all),
        dirty: HashSet::new(),
        seen: rig.counters()?,
    };
    let (first, measured_ops) = ops.split_at(all - measuring);
    for (n, part) in first.chunks(4096).enumerate() {
        run.carry_out(part)?;
        progress((n * 4096) as f64 / all as f64);
    }
    let (before, reached_before) = (run.seen, run.reached.len());
    let mut looks = Looks::default();
    for (n, part) in measured_ops.chunks((measuring / LOOKS).max(1)).enumerate() {
        run.carry_out(part)?;
        looks.add(&rig)?;
        progress((first.len() + n * measuring / LOOKS) as f64 / all as f64);
    }
    let written = run.seen.since(&before);
    let reached = run.reached;
    let measured_writes = reached.len() - reached_before;
    let user_bytes = (measured_writes as u64 * u64::from(BLOCK_BYTES)) as f64;
    let mean = |sum: u64| sum as f64 / looks.count as f64;
    let measured = Measured {
        amplification: written.log_file_bytes as f64 / user_bytes,
        placement: rig.look(|lfs| Ok(lfs.placement()))?,
        data_blocks: blocks,
        measured_writes,
        absorbed: 1.0 - measured_writes as f64 / measuring as f64,
        data_segments: mean(looks.data),
        metadata_segments: mean(looks.metadata),
        clean_segments: mean(looks.clean),
        blocks_per_segment: blocks_per_segment(&rig)?,
        victims_at_a_time: written.segments_cleaned as f64 / (written.cleaner_passes as f64).max(1.0),
        emptiest_share: written.cleaner_passes_emptiest as f64 / (written.cleaner_passes as f64).max(1.0),
        metadata: metadata(&written, user_bytes),
    };
    Ok((measured, reached))
}

/// Every block once, then the workload, of which this many writes at the end are measured.
fn operations(setup: &Setup, blocks: u32, measuring: usize) -> Result<Vec<Op>, LabError> {
    let mut stream = Stream::new(&setup.workload.workload, blocks, setup.seed);
    let all = blocks as usize + (f64::from(blocks) * setup.warm_up_volumes) as usize + measuring;
    let mut ops: Vec<Op> = (0..blocks).map(Op::write).collect();
    let mut chunk = Vec::new();
    while ops.len() < all {
        stream.fill(&mut chunk, 4096);
        if chunk.iter().any(|op| op.is_delete() || op.block() >= blocks) {
            let why = "only workloads that overwrite the blocks of one file can be compared";
            return Err(LabError::Setup(why.to_owned()));
        }
        ops.extend_from_slice(&chunk);
    }
    ops.truncate(all);
    Ok(ops)
}

/// All writes of the users, by place in a file of this many blocks, and how many at the end are measured.
///
/// # Errors
/// The workload does not only overwrite.
pub(super) fn all_writes(setup: &Setup, blocks: u32) -> Result<(Vec<Op>, usize), LabError> {
    let measuring = (f64::from(blocks) * setup.measured_volumes) as usize;
    let places = places(setup, blocks);
    let ops = operations(setup, blocks, measuring)?;
    let by_place = ops.iter().map(|op| Op::write(places[op.block() as usize])).collect();
    Ok((by_place, measuring))
}

/// The place in the file of each block of the workload.
fn places(setup: &Setup, blocks: u32) -> Vec<u32> {
    let mut places: Vec<u32> = (0..blocks).collect();
    if setup.scattered {
        places.shuffle(&mut firnfs_sim::seeded(setup.seed, "places in a file"));
    }
    places
}

/// Bytes for each byte that users wrote, by kind.
fn metadata(written: &Counters, user_bytes: f64) -> BTreeMap<&'static str, f64> {
    let kinds = LogKind::ALL.into_iter().filter(|kind| *kind != LogKind::File);
    let shares = kinds.map(|kind| (kind.name(), written.log_kind_bytes(kind)));
    let all = shares.chain([("summary", written.log_summary_bytes)]);
    all.map(|(name, bytes)| (name, bytes as f64 / user_bytes)).filter(|(_, share)| *share > 0.0).collect()
}

/// Data blocks with which closed segments were written, on average.
fn blocks_per_segment(rig: &Rig) -> Result<f64, LabError> {
    let uuid = rig.look(|lfs| Ok(lfs.superblock().uuid))?;
    let (mut blocks, mut segments) = (0, 0);
    for info in rig.segments()? {
        let has_data =
            info.usage.in_use && info.usage.live_bytes > 0 && info.usage.log != firnfs::lfs::META_LOG;
        if has_data && !info.is_busy {
            blocks += rig.blocks_of(info.segment, &uuid)?;
            segments += 1;
        }
    }
    Ok(blocks as f64 / f64::from(segments.max(1)))
}

/// The writes under way.
struct Run<'a> {
    rig: &'a Rig,
    places: Vec<u32>,
    /// Writes that have reached the log, or will, by place in the file.
    reached: Vec<Op>,
    /// Places written since the last commit.
    dirty: HashSet<u32>,
    seen: Counters,
}

impl Run<'_> {
    fn carry_out(&mut self, ops: &[Op]) -> Result<(), LabError> {
        for op in ops {
            let place = self.places[op.block() as usize];
            self.rig.write(place)?;
            if self.dirty.insert(place) {
                self.reached.push(Op::write(place));
            }
            let now = self.rig.counters()?;
            if now.log_file_bytes > self.seen.log_file_bytes {
                self.dirty.clear();
            }
            self.seen = now;
        }
        Ok(())
    }
}
