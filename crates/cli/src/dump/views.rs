//! The output of `firn dump` as data: the JSON output consists of these structs, and the text output is made
//! from them.
//!
//! Field names are part of the command's interface: fields may be added, but existing ones stay.

use super::SegmentOrder;
use super::tables::Tables;
use crate::failure::Done;
use crate::image::Image;
use firnfs_format::checkpoint::{Checkpoint, TableRoot};
use firnfs_format::inode::FORKS;
use firnfs_format::summary::{
    Entry, EntryKind, FLAG_CHECKPOINT, FLAG_CLEANER, FLAG_END, FLAG_HELD, FLAG_PAST,
};
use firnfs_format::table::{ImapEntry, UsageEntry};
use firnfs_format::{BlockIndex, BlockPtr, InodeNo, PtrKind, SECTOR_BYTES, SegmentId};
use firnfs_lab::calendar::rfc3339;
use serde::Serialize;

/// A block pointer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PtrView {
    /// `hole`, `plain`, `reserved` or `unknown-N`.
    pub kind: String,
    /// Segment that holds it.
    pub segment: u64,
    /// First sector in the segment.
    pub sector: u64,
    /// Stored length in bytes.
    pub stored_bytes: u32,
    /// CRC-32C of the stored bytes, in hex.
    pub crc: String,
    /// Epoch in which it was written.
    pub birth: u32,
}

impl PtrView {
    pub(super) fn new(image: &Image, ptr: &BlockPtr) -> Self {
        let sectors = u64::from(image.superblock.segment_bytes / SECTOR_BYTES);
        let kind = match ptr.kind {
            PtrKind::Hole => "hole".to_owned(),
            PtrKind::Plain => "plain".to_owned(),
            PtrKind::Reserved => "reserved".to_owned(),
            PtrKind::Unknown(code) => format!("unknown-{code}"),
        };
        Self {
            kind,
            segment: ptr.addr.0 / sectors,
            sector: ptr.addr.0 % sectors,
            stored_bytes: ptr.stored_bytes(),
            crc: format!("{:08x}", ptr.crc),
            birth: ptr.birth.0,
        }
    }
}

/// The superblock.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SuperblockView {
    /// Format version.
    pub format_version: u32,
    /// Volume uuid.
    pub uuid: String,
    /// Label.
    pub label: String,
    /// Time of mkfs.
    pub created: String,
    /// Volume size at mkfs.
    pub size_bytes: u64,
    /// Block size.
    pub block_bytes: u32,
    /// Segment size.
    pub segment_bytes: u32,
    /// Unit of log writes.
    pub write_unit_bytes: u32,
    /// Start of segment 0.
    pub log_start_bytes: u64,
    /// Largest file kept in its inode.
    pub inline_max_bytes: u32,
    /// Which copies are good: primary, second, last.
    pub good_copies: [bool; 3],
}

/// Shows 16 bytes as a uuid.
#[must_use]
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

impl SuperblockView {
    /// Of an image.
    #[must_use]
    pub fn new(image: &Image) -> Self {
        let sb = &image.superblock;
        Self {
            format_version: firnfs_format::superblock::FORMAT_VERSION,
            uuid: uuid_text(&sb.uuid),
            label: sb.label.clone(),
            created: rfc3339(sb.created_ns),
            size_bytes: sb.size_bytes,
            block_bytes: sb.block_bytes,
            segment_bytes: sb.segment_bytes,
            write_unit_bytes: sb.write_unit_bytes,
            log_start_bytes: sb.log_start_bytes,
            inline_max_bytes: sb.inline_max_bytes,
            good_copies: image.good_copies,
        }
    }
}

/// The root of one of the two tables.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TableView {
    /// Root block.
    pub root: PtrView,
    /// Levels above the leaves.
    pub height: u32,
    /// Entries in use.
    pub used: u64,
    /// Inode map: orphans.
    pub special: u64,
}

/// The tail of an open log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TailView {
    /// Number of the log.
    pub log_number: usize,
    /// Segment being written.
    pub segment: u64,
    /// First sector not yet written.
    pub sector: u32,
    /// Segment after it.
    pub next_segment: u64,
}

/// One checkpoint slot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SlotView {
    /// 0 or 1.
    pub slot: usize,
    /// Why it cannot be used, or null.
    pub error: Option<String>,
    /// Its content, or null.
    pub checkpoint: Option<CheckpointView>,
}

/// A checkpoint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CheckpointView {
    /// Number.
    pub epoch: u32,
    /// Whether this is the checkpoint that a mount uses.
    pub newest: bool,
    /// Mount that wrote it.
    pub incarnation: u32,
    /// Whether there is nothing to roll forward.
    pub cleanly_unmounted: bool,
    /// Time of writing.
    pub time: String,
    /// Last serial covered.
    pub serial: u64,
    /// CRC of that serial's summary, in hex.
    pub serial_crc: String,
    /// Volume size.
    pub size_bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Segments found empty by this checkpoint.
    pub emptied: u32,
    /// Live bytes in all segments.
    pub live_bytes: u64,
    /// First inode number never used.
    pub next_inode: u64,
    /// Inode map.
    pub inode_map: TableView,
    /// Segment usage table.
    pub segment_usage: TableView,
    /// Open logs.
    pub tails: Vec<TailView>,
    /// Incarnations that roll-forward accepts, as (first serial, incarnation).
    pub spans: Vec<(u64, u32)>,
    /// Counts since mkfs, by name.
    pub counters: Vec<(&'static str, u64)>,
}

impl CheckpointView {
    fn new(image: &Image, checkpoint: &Checkpoint, newest: bool) -> Self {
        let table = |root: &TableRoot| TableView {
            root: PtrView::new(image, &root.ptr),
            height: root.height,
            used: root.used,
            special: root.special,
        };
        let open = checkpoint.tails.iter().enumerate().filter_map(|(log, tail)| Some((log, tail.as_ref()?)));
        let tails = open.map(|(log, tail)| TailView {
            log_number: log,
            segment: tail.segment.0,
            sector: tail.sector,
            next_segment: tail.next_segment.0,
        });
        Self {
            epoch: checkpoint.epoch.0,
            newest,
            incarnation: checkpoint.incarnation.0,
            cleanly_unmounted: checkpoint.clean,
            time: rfc3339(checkpoint.time.0),
            serial: checkpoint.serial.0,
            serial_crc: format!("{:08x}", checkpoint.serial_crc),
            size_bytes: checkpoint.size_bytes,
            segments: checkpoint.segments,
            emptied: checkpoint.emptied,
            live_bytes: checkpoint.live_bytes,
            next_inode: checkpoint.next_ino.0,
            inode_map: table(&checkpoint.imap),
            segment_usage: table(&checkpoint.usage),
            tails: tails.collect(),
            spans: checkpoint.spans.iter().map(|span| (span.from.0, span.incarnation.0)).collect(),
            counters: firnfs::lfs::Counters::decode(&checkpoint.counters).list(),
        }
    }
}

/// Both slots.
#[must_use]
pub fn slots(image: &Image) -> Vec<SlotView> {
    let newest = image.slots.iter().flatten().map(|checkpoint| checkpoint.epoch).max();
    let view = |(slot, content): (usize, &Result<Checkpoint, _>)| SlotView {
        slot,
        error: content.as_ref().err().map(ToString::to_string),
        checkpoint: content
            .as_ref()
            .ok()
            .map(|checkpoint| CheckpointView::new(image, checkpoint, Some(checkpoint.epoch) == newest)),
    };
    image.slots.iter().enumerate().map(view).collect()
}

/// An entry of the segment usage table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct UsageView {
    /// Segment.
    pub segment: u64,
    /// Live bytes.
    pub live_bytes: u32,
    /// Whether it holds data, or did until the last checkpoint.
    pub in_use: bool,
    /// Youngest modification time of its blocks; null if nothing was written into it since it was last cleaned.
    pub youngest: Option<String>,
    /// Last log write into it; null if there was none.
    pub written: Option<String>,
    /// Clean segments: the checkpoint that found it empty.
    pub epoch: u32,
    /// Log that wrote it.
    pub log_number: u8,
}

impl UsageView {
    fn new(segment: u64, entry: &UsageEntry) -> Self {
        Self {
            segment,
            live_bytes: entry.live_bytes,
            in_use: entry.in_use,
            youngest: (entry.written.0 != 0).then(|| rfc3339(entry.youngest.0)),
            written: (entry.written.0 != 0).then(|| rfc3339(entry.written.0)),
            epoch: entry.epoch.0,
            log_number: entry.log,
        }
    }
}

/// A summary's entry for one block, inode record or freed inode.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct EntryView {
    /// Inode.
    pub inode: u64,
    /// `data`, `index`, `xattr`, `inode`, `orphan` or `freed`.
    pub what: &'static str,
    /// BSD-LFS's block number: indirect blocks are negative. Null for inodes.
    pub block: Option<i64>,
    /// Version of the inode.
    pub inode_version: u32,
    /// Place of the bytes, or null for a freed inode.
    pub ptr: Option<PtrView>,
    /// Whether the stored bytes match the pointer's checksum.
    pub good: bool,
}

pub(super) const FORK_NAMES: [&str; FORKS] = ["data", "index", "xattr"];

impl EntryView {
    fn new(image: &Image, entry: &Entry, good: bool) -> Self {
        let map = firnfs::bmap::Geometry::new(
            image.superblock.block_bytes,
            firnfs_format::pointer::POINTER_BYTES as u32,
        );
        let is_table = entry.ino == InodeNo::INODE_MAP || entry.ino == InodeNo::SEGMENT_USAGE;
        let (what, block) = match entry.kind {
            // The tables have trees of their own, without the block map's numbering.
            EntryKind::Block { level, index, .. } if is_table => {
                let name = if entry.ino == InodeNo::INODE_MAP { "inode_map" } else { "usage_table" };
                (name, if level == 0 { i64::try_from(index).ok() } else { None })
            }
            EntryKind::Block { fork, level, index } => {
                let name = FORK_NAMES.get(usize::from(fork)).copied().unwrap_or("unknown");
                let in_reach = level <= firnfs::bmap::LEVELS && index < map.blocks_at(level);
                (name, in_reach.then(|| map.lbn(level, BlockIndex(index))))
            }
            EntryKind::Inode { orphan: false } => ("inode", None),
            EntryKind::Inode { orphan: true } => ("orphan", None),
            EntryKind::Freed => ("freed", None),
        };
        let ptr = (entry.kind != EntryKind::Freed).then(|| PtrView::new(image, &entry.ptr));
        Self { inode: entry.ino.0, what, block, inode_version: entry.version, ptr, good }
    }
}

/// One partial segment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PartialView {
    /// First sector in the segment.
    pub sector: u32,
    /// Length in sectors.
    pub len_sectors: u32,
    /// Position among all log writes.
    pub serial: u64,
    /// Mount that wrote it.
    pub incarnation: u32,
    /// Number of the checkpoint that will cover it.
    pub epoch: u32,
    /// Names of the flags set.
    pub flags: Vec<&'static str>,
    /// Time of writing.
    pub time: String,
    /// Log that it belongs to.
    pub log_number: u8,
    /// Segment in which the log continues.
    pub next_segment: u64,
    /// Highest serial known durable when it was written.
    pub durable_through: u64,
    /// CRC of the summary, in hex.
    pub crc: String,
    /// CRC of the previous serial's summary, in hex.
    pub prev_crc: String,
    /// Blocks, inode records and freed inodes.
    pub summary_entries: Vec<EntryView>,
}

/// One segment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SegmentView {
    /// Its usage.
    pub usage: UsageView,
    /// Sectors written in its present use.
    pub used_sectors: u32,
    /// Partial segments in their order.
    pub partials: Vec<PartialView>,
}

fn flag_names(flags: u16) -> Vec<&'static str> {
    const NAMES: [(u16, &str); 5] = [
        (FLAG_END, "END"),
        (FLAG_CHECKPOINT, "CHECKPOINT"),
        (FLAG_CLEANER, "CLEANER"),
        (FLAG_PAST, "PAST"),
        (FLAG_HELD, "HELD"),
    ];
    NAMES.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect()
}

impl SegmentView {
    /// Reads a segment.
    ///
    /// # Errors
    /// There is no such segment, or the device fails.
    pub fn new(image: &Image, tables: &Tables<'_>, id: SegmentId) -> Done<Self> {
        let found = image.segment(id)?;
        let usage = tables.segment(id)?;
        let partials = found.partials.iter().map(|partial| {
            let s = &partial.summary;
            let entries = partial.entries.iter().enumerate();
            PartialView {
                sector: s.start_sector,
                len_sectors: s.len_sectors,
                serial: s.serial.0,
                incarnation: s.incarnation.0,
                epoch: s.epoch.0,
                flags: flag_names(s.flags),
                time: rfc3339(s.time.0),
                log_number: s.log,
                next_segment: s.next_segment.0,
                durable_through: s.durable_through.0,
                crc: format!("{:08x}", s.crc),
                prev_crc: format!("{:08x}", s.prev_crc),
                summary_entries: entries
                    .map(|(at, entry)| EntryView::new(image, entry, !partial.bad_blocks.contains(&at)))
                    .collect(),
            }
        });
        Ok(Self {
            usage: UsageView::new(id.0, &usage),
            used_sectors: found.end_sector,
            partials: partials.collect(),
        })
    }
}

/// A line of the ifile's inode part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ImapView {
    /// Inode.
    pub inode: u64,
    /// Version.
    pub inode_version: u32,
    /// Without names, or with blocks still to be freed.
    pub orphan: bool,
    /// Last access.
    pub atime: String,
    /// Place of its record.
    pub record: PtrView,
}

impl ImapView {
    fn new(image: &Image, ino: u64, entry: &ImapEntry) -> Self {
        Self {
            inode: ino,
            inode_version: entry.version,
            orphan: entry.orphan,
            atime: rfc3339(entry.atime.0),
            record: PtrView::new(image, &entry.ptr),
        }
    }
}

/// The segments in use, in an order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SegmentsView {
    /// Segment size.
    pub segment_bytes: u32,
    /// Segments in use, in the order asked for.
    pub segment_entries: Vec<UsageView>,
}

impl SegmentsView {
    /// The view of a volume.
    ///
    /// # Errors
    /// A block of the segment usage table is damaged.
    pub fn new(image: &Image, tables: &Tables<'_>, order: SegmentOrder) -> Done<Self> {
        let mut segments = Vec::new();
        tables.each_segment(&mut |segment, entry| segments.push((segment, entry)))?;
        // They come by number, and equal ones stay in that order.
        match order {
            SegmentOrder::Segment => {}
            SegmentOrder::Live => segments.sort_by_key(|(_, entry)| entry.live_bytes),
            SegmentOrder::Age => segments.sort_by_key(|(_, entry)| entry.written),
        }
        let segment_entries =
            segments.iter().map(|(segment, entry)| UsageView::new(*segment, entry)).collect();
        Ok(Self { segment_bytes: image.superblock.segment_bytes, segment_entries })
    }
}

/// The readable view of inode map and segment usage: the content of BSD-LFS's ifile.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct IfileView {
    /// Segments in use.
    pub segment_entries: Vec<UsageView>,
    /// Inodes in use.
    pub inode_entries: Vec<ImapView>,
}

impl IfileView {
    /// The view of a volume.
    ///
    /// # Errors
    /// A block of the tables is damaged.
    pub fn new(image: &Image, tables: &Tables<'_>) -> Done<Self> {
        let mut segments = Vec::new();
        tables.each_segment(&mut |segment, entry| segments.push(UsageView::new(segment, &entry)))?;
        let mut inodes = Vec::new();
        tables.each_inode(&mut |ino, entry| inodes.push(ImapView::new(image, ino, &entry)))?;
        Ok(Self { segment_entries: segments, inode_entries: inodes })
    }
}
