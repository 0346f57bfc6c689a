//! Salvage: reconstructs a volume whose superblocks, checkpoints and tables may all be lost, from the segment summaries
//! (BSD-LFS, section 4.2: the ifile can be reconstructed from them).
//!
//! The damaged volume is only read. The result is a checkpoint without tables, and the tables for it. The driver copies the
//! live segments to another place, opens the copy with this checkpoint and these tables, and repairs it like any other
//! volume.

use super::log_scan::LogScan;
use super::state::{Check, Progress};
use super::{Facts, Report, open};
use crate::device_reader::{DeviceReader, Extent};
use crate::error::FsError;
use crate::lfs::past::is_unseen;
use crate::lfs::{Geometry, Lfs, NotFirnfs, Options, read_superblock};
use firnfs_format::checkpoint::{COUNTERS, Checkpoint, Features, Retention, Span, TableRoot, Tail};
use firnfs_format::summary::{EntryKind, Summary};
use firnfs_format::superblock::{
    CHECKPOINT_SLOTS_AT, LOG_START_BYTES, SEGMENT_BYTES_RANGE, SUPERBLOCK_BYTES, Superblock,
};
use firnfs_format::{BlockPtr, Epoch, InodeNo, SECTOR_BYTES, SegmentId, Serial, TimeNs};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Assumptions for a device without any superblock.
#[derive(Clone, Debug)]
pub struct Assumed {
    /// Block size in bytes, if known.
    pub block_bytes: Option<u32>,
    /// Segment size in bytes, if known.
    pub segment_bytes: Option<u32>,
    /// Random key of directory hashes; the old one is lost with the superblock, so all indexes are rebuilt.
    pub hash_key: [u64; 2],
    /// The present time.
    pub now: TimeNs,
}

/// A reconstructed volume.
pub struct Salvaged {
    /// Its superblock.
    pub superblock: Superblock,
    /// Segments with live data.
    pub segments: Vec<SegmentId>,
    /// The damage of the reconstructed volume; the repair of the copy handles it.
    pub report: Report,
    base: Checkpoint,
    facts: Facts,
}

/// Largest step between two probes for a summary, in bytes: the unit of writing is at least that.
const LOOK_EVERY_BYTES: u64 = 4096;
/// Length of a read while probing, in bytes.
const LOOK_BYTES: u64 = 1 << 20;
/// Summaries that suffice to determine the geometry.
const SUMMARIES_ENOUGH: u64 = 512;

/// Reconstructs the volume on a device.
///
/// # Errors
/// `Corrupt` if the device has no summary at all; `Io`.
pub fn salvage(
    read: &mut dyn DeviceReader,
    device_bytes: u64,
    assumed: &Assumed,
    watch: &mut dyn FnMut(Progress),
) -> Result<Salvaged, FsError> {
    let superblock = superblock(read, device_bytes, assumed)?;
    let geo = Geometry::new(&superblock, superblock.size_bytes);
    let scan = LogScan::run(read, &superblock.uuid, &geo, None, watch);
    let imap = scan.inode_map(&geo, |ino| !is_unseen(ino) && ino >= InodeNo::ROOT);
    let base = checkpoint(&superblock, &geo, &scan, &imap, assumed.now)?;
    let (mut lfs, _) = open(read, superblock.clone(), base.clone())?;
    lfs.overlay_inodes(&imap);
    let mut check = Check::new(&mut lfs, read, watch);
    check.imap = imap;
    check.phase_1();
    check.phases_of_names();
    check.name_findings();
    let segments = check.claims.segments();
    let facts = check.all_facts();
    check.totals.live_bytes = check.claims.live_bytes;
    check.totals.segments = segments.len() as u64;
    let report = Report { rolled_forward: scan.partials, ..check.finish() };
    Ok(Salvaged { superblock, segments, report, base, facts })
}

impl Salvaged {
    /// Opens a copy that holds the live segments; its tables must be restated ([`Salvaged::facts`]) before anything else.
    ///
    /// # Errors
    /// `Io`.
    pub fn open(&self, read: &mut dyn DeviceReader, options: Options, now: TimeNs) -> Result<Lfs, FsError> {
        Lfs::open_at(read, self.superblock.clone(), self.base.clone(), options, now)
    }

    /// The tables of the copy.
    pub fn facts(&mut self) -> Facts {
        std::mem::take(&mut self.facts)
    }

    /// Places and bytes of the copies of the superblock, in the order in which they must be written: the last one makes the
    /// copy a volume.
    #[must_use]
    pub fn superblock_writes(&self) -> Vec<(u64, Vec<u8>)> {
        let places = Superblock::places(self.superblock.size_bytes);
        places.iter().rev().map(|&at_bytes| (at_bytes, self.superblock.encode())).collect()
    }
}

/// A checkpoint without tables, after the end of the log. Its logs are about to enter placeholder segments: they move
/// before the first write.
fn checkpoint(
    sb: &Superblock,
    geo: &Geometry,
    scan: &LogScan,
    imap: &[(u64, firnfs_format::table::ImapEntry)],
    now: TimeNs,
) -> Result<Checkpoint, FsError> {
    let (incarnation, serial) = scan.last.ok_or_else(|| nothing("any segment"))?;
    let table = TableRoot { ptr: BlockPtr::HOLE, height: 0, used: 0, special: 0 };
    let tail = |segment| {
        Some(Tail {
            segment: SegmentId(segment),
            sector: geo.segment_sectors,
            next_segment: SegmentId(segment),
        })
    };
    let next = imap.last().map_or(0, |last| last.0 + 1).max(InodeNo::FIRST_USER.0);
    Ok(Checkpoint {
        uuid: sb.uuid,
        epoch: Epoch(scan.epoch.0.saturating_add(1)),
        incarnation,
        // The log ends with it.
        clean: true,
        time: now,
        serial,
        serial_crc: 0,
        imap: table,
        usage: table,
        emptied: 0,
        next_ino: InodeNo(next),
        size_bytes: sb.size_bytes,
        segments: geo.segments,
        live_bytes: 0,
        features: Features::default(),
        branches: Vec::new(),
        points: Vec::new(),
        point_rows: 0,
        retention: Retention::default(),
        tails: vec![tail(0), tail(1)],
        spans: vec![Span { from: Serial(serial.0.saturating_add(1)), incarnation }],
        counters: [0; COUNTERS],
    })
}

fn nothing(at: &str) -> FsError {
    FsError::Corrupt {
        what: "log".to_owned(),
        at: at.to_owned(),
        expected: "segment summaries of a firnfs volume".to_owned(),
        found: "none".to_owned(),
    }
}

/// The superblock: a surviving copy, cut to the device, or one that is reconstructed from the summaries.
fn superblock(
    read: &mut dyn DeviceReader,
    device_bytes: u64,
    assumed: &Assumed,
) -> Result<Superblock, FsError> {
    match read_superblock(read, device_bytes) {
        Ok(sb) => return Ok(sb),
        Err(NotFirnfs::Truncated { .. }) => {
            for at in Superblock::places(device_bytes) {
                let bytes = read.read(Extent::new(at, SUPERBLOCK_BYTES as u32)).ok();
                let copy = bytes.and_then(|bytes| Superblock::decode(&bytes).ok());
                if let Some(sb) = copy {
                    return Ok(Superblock { size_bytes: device_bytes, ..sb });
                }
            }
        }
        Err(_) => {}
    }
    let seen = look_for_summaries(read, device_bytes)?;
    let most = |votes: &BTreeMap<u32, u64>| votes.iter().max_by_key(|(_, count)| **count).map(|(v, _)| *v);
    let block_bytes = assumed.block_bytes.unwrap_or_else(|| seen.longest_bytes.next_power_of_two());
    let block_bytes = block_bytes.clamp(4096, 65536);
    // A log that never left its first segment does not reveal the segment size, and nothing depends on it.
    let at_least = seen.first_segment_bytes.max(block_bytes * 16).max(*SEGMENT_BYTES_RANGE.start());
    let segment_bytes = assumed.segment_bytes.or_else(|| most(&seen.segment_bytes));
    let segment_bytes = segment_bytes.unwrap_or_else(|| at_least.next_power_of_two());
    let sb = Superblock {
        uuid: seen.uuid,
        label: "salvaged".to_owned(),
        created_ns: assumed.now.0,
        size_bytes: device_bytes,
        block_bytes,
        segment_bytes,
        write_unit_bytes: seen.unit_bytes.clamp(4096, 65536),
        log_start_bytes: LOG_START_BYTES,
        checkpoint_at_bytes: CHECKPOINT_SLOTS_AT,
        inline_max_bytes: 2048,
        hash_key: assumed.hash_key,
    };
    // The rules for superblocks apply to this one, too.
    Superblock::decode(&sb.encode()).map_err(|e| FsError::Corrupt {
        what: "geometry".to_owned(),
        at: "segment summaries".to_owned(),
        expected: e.expected.clone(),
        found: e.to_string(),
    })
}

/// The geometry according to the summaries.
#[derive(Default)]
struct Seen {
    uuid: [u8; 16],
    uuids: BTreeMap<[u8; 16], u64>,
    segment_bytes: BTreeMap<u32, u64>,
    /// Largest power of two to which all partial segments are aligned, in bytes.
    unit_bytes: u32,
    longest_bytes: u32,
    /// How much of the first segment is written.
    first_segment_bytes: u32,
    count: u64,
}

fn look_for_summaries(read: &mut dyn DeviceReader, device_bytes: u64) -> Result<Seen, FsError> {
    let mut seen = Seen { unit_bytes: 65536, ..Seen::default() };
    let starts = (LOG_START_BYTES..device_bytes).step_by(LOOK_BYTES as usize);
    let pieces = starts.map(|at_bytes| {
        let len_bytes = LOOK_BYTES.min(device_bytes - at_bytes) / LOOK_EVERY_BYTES * LOOK_EVERY_BYTES;
        (Extent::new(at_bytes, len_bytes as u32), at_bytes)
    });
    read.read_in_order(pieces.filter(|(piece, _)| piece.len_bytes > 0), |_, at_bytes, bytes| {
        let bytes = bytes.as_deref().unwrap_or(&[]);
        for from in (0..bytes.len()).step_by(LOOK_EVERY_BYTES as usize) {
            seen.look(&bytes[from..], at_bytes + from as u64);
        }
        if seen.count < SUMMARIES_ENOUGH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let uuid = seen.uuids.iter().max_by_key(|(_, count)| **count).map(|(uuid, _)| *uuid);
    seen.uuid = uuid.ok_or_else(|| nothing("the whole device"))?;
    Ok(seen)
}

impl Seen {
    fn look(&mut self, bytes: &[u8], at_bytes: u64) {
        let Ok((summary, entries)) = Summary::decode(bytes) else { return };
        self.count += 1;
        *self.uuids.entry(summary.uuid).or_insert(0) += 1;
        let before = at_bytes - LOG_START_BYTES;
        let in_segment = u64::from(summary.start_sector) * u64::from(SECTOR_BYTES);
        let whole = before.checked_sub(in_segment).and_then(|start| start.checked_div(summary.segment.0));
        let size = whole.and_then(|bytes| u32::try_from(bytes).ok()).filter(|b| b.is_power_of_two());
        if let Some(size) = size.filter(|size| SEGMENT_BYTES_RANGE.contains(size)) {
            *self.segment_bytes.entry(size).or_insert(0) += 1;
        }
        if summary.segment.0 == 0 {
            let end_sector = summary.start_sector.saturating_add(summary.len_sectors);
            let end_bytes = end_sector.saturating_mul(SECTOR_BYTES).min(*SEGMENT_BYTES_RANGE.end());
            self.first_segment_bytes = self.first_segment_bytes.max(end_bytes);
        }
        for sectors in [summary.start_sector, summary.len_sectors] {
            let bytes = sectors.saturating_mul(SECTOR_BYTES);
            self.unit_bytes = self.unit_bytes.min(1 << bytes.trailing_zeros().min(16));
        }
        let blocks = entries.iter().filter(|entry| matches!(entry.kind, EntryKind::Block { .. }));
        self.longest_bytes = blocks.map(|e| e.ptr.stored_bytes()).fold(self.longest_bytes, u32::max);
    }
}
