//! The checkpoint: the structure from which every mount starts. Two slots of 64 KiB alternate; the newer valid one counts.

pub use crate::branch::{BRANCH_BITS, BRANCH_NAME_MAX, Branch, BranchRaw, MAX_BRANCHES};
use crate::error::{DecodeError, ensure};
use crate::layout::layout;
pub use crate::point::{
    POINT_BYTES, POINT_NAME_MAX, Point, PointCursor, PointRaw, RULES_MAX, Retention, Rule,
};
use crate::pointer::BlockPtr;
use crate::superblock::CHECKPOINT_SLOT_BYTES;
use crate::units::{Epoch, Incarnation, InodeNo, SegmentId, Serial, TimeNs};
use zerocopy::byteorder::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// First bytes of a checkpoint slot.
pub const CHECKPOINT_MAGIC: [u8; 8] = *b"firnckpt";
/// Logs that may be open at once.
pub const MAX_LOGS: usize = 8;
/// Incarnations whose log roll-forward may still have to accept.
pub const MAX_SPANS: usize = 64;
/// Counters kept since mkfs.
pub const COUNTERS: usize = 64;
/// Retained points in a checkpoint slot: as many as fit into it beside everything else.
pub const MAX_SLOT_POINTS: usize = 256;
/// Retained points of a volume. All of them are in memory, some 200 bytes each.
pub const MAX_POINTS: usize = 1 << 20;

layout! {
    /// Checkpoint header; log tails, incarnation spans and counters follow it.
    CheckpointRaw = 512 {
        /// `firnckpt`
        magic: [u8; 8],
        /// CRC-32C of the whole used part of the slot with this field zero
        crc: U32,
        /// Used part of the slot in bytes
        len_bytes: U32,
        /// Volume uuid
        uuid: [u8; 16],
        /// Number of this checkpoint; the slot is epoch mod 2
        epoch: U32,
        /// Incarnation of the mount that wrote it
        incarnation: U32,
        /// Flags: 1 = clean unmount, nothing to roll forward
        flags: U32,
        /// Number of log tails that follow (96 bytes each)
        tails: U32,
        /// Number of incarnation spans that follow (16 bytes each)
        spans: U32,
        /// Zero
        reserved: U32,
        /// Time, ns since 1970
        time_ns: I64,
        /// Last serial that this checkpoint covers
        serial: U64,
        /// CRC of that serial's summary
        serial_crc: U32,
        /// Height of the inode map's tree; 0 = the root is a leaf
        imap_height: U32,
        /// Height of the usage table's tree
        usage_height: U32,
        /// Segments found empty by this checkpoint; they stay unused until the next one is durable
        emptied: U32,
        /// Root of the inode map: a block pointer
        imap_root: [u8; 16],
        /// Entries in use below it
        imap_used: U64,
        /// Orphans below it
        imap_orphans: U64,
        /// Root of the usage table: a block pointer
        usage_root: [u8; 16],
        /// Segments in use below it
        usage_used: U64,
        /// First inode number never used
        next_ino: U64,
        /// Volume size in bytes
        size_bytes: U64,
        /// Segments of the volume
        segments: U64,
        /// Live bytes in all segments
        live_bytes: U64,
        /// Entries of the segment map; 0 = identity
        segment_map: U64,
        /// Features that code which does not know them may ignore
        features_compat: U64,
        /// Features that code which does not know them may ignore when it only reads
        features_ro_compat: U64,
        /// Features that code which does not know them must refuse
        features_incompat: U64,
        /// Number of retained points that follow the counters (192 bytes each)
        points: U32,
        /// Share of the volume that automatic points may hold, in percent; 0: there are none
        history_percent: U32,
        /// Up to six rules, each two u32: seconds between the points that it keeps, seconds for which it keeps them; zeros end the list
        history_rules: [u8; 48],
        /// Number of clones that follow the points (128 bytes each)
        branches: U32,
        /// Number of retained points that are not in the slot, but rows of the file of points
        point_rows: U32,
        /// Zero
        reserved2: [u8; 240],
    }
}

layout! {
    /// Tail of an open log.
    TailRaw = 96 {
        /// Segment being written; all ones = the log is not open
        segment: U64,
        /// First sector not yet written in it; a whole segment = about to enter `next_segment`
        sector: U32,
        /// Zero
        reserved: U32,
        /// Segment that the log goes on in
        next_segment: U64,
        /// Zero
        reserved2: [u8; 72],
    }
}

layout! {
    /// From that serial on, partial segments carry that incarnation.
    SpanRaw = 16 {
        /// First serial
        from_serial: U64,
        /// Incarnation
        incarnation: U32,
        /// Zero
        reserved: U32,
    }
}

/// Incompatible feature: pairs may wait in the interior nodes of directory indexes. Every checkpoint that this code writes
/// has it set, so a read-write mount sets it before it writes anything else.
pub const FEATURE_WAITING_PAIRS: u64 = 1;

/// Incompatible feature: there are retained points, whose blocks count as live. Set while there is one; code that does not know it
/// would reuse their segments.
pub const FEATURE_POINTS: u64 = 2;

/// Incompatible feature: there are clones. Set while there is one; code that does not know it would take blocks that a clone shares with
/// its origin for the clone's own.
pub const FEATURE_BRANCHES: u64 = 4;

/// Incompatible feature: some retained points are rows of the file of points. Set while there are such rows; code that does not know it
/// would take what they hold for dead.
pub const FEATURE_POINT_ROWS: u64 = 8;

/// Compatible feature: quotas may be on; the root directory's attributes say whether. Without it no mount looks for them.
pub const FEATURE_QUOTAS: u64 = 1;

/// [`DecodeError::what`] of an intact checkpoint with incompatible features that this code does not know.
pub const UNKNOWN_FEATURES: &str = "incompatible features";

/// Feature bits that code may ignore if it does not know them. Other unknown bits make [`Checkpoint::decode`] refuse the
/// checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// Code that does not know one may ignore it.
    pub compat: u64,
    /// Code that does not know one may ignore it when it only reads.
    pub ro_compat: u64,
}

/// Tail of one open log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tail {
    /// Segment being written.
    pub segment: SegmentId,
    /// First sector not yet written.
    pub sector: u32,
    /// Segment after it.
    pub next_segment: SegmentId,
}

/// From `from` on, partial segments carry `incarnation`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// First serial.
    pub from: Serial,
    /// Incarnation.
    pub incarnation: Incarnation,
}

/// Root of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableRoot {
    /// Root block; a hole if the table is empty.
    pub ptr: BlockPtr,
    /// 0: the root is a leaf.
    pub height: u32,
    /// Entries in use.
    pub used: u64,
    /// Special entries (orphans).
    pub special: u64,
}

/// A checkpoint, decoded and checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// Volume uuid.
    pub uuid: [u8; 16],
    /// Number.
    pub epoch: Epoch,
    /// Mount that wrote it.
    pub incarnation: Incarnation,
    /// Nothing to roll forward.
    pub clean: bool,
    /// Time of writing.
    pub time: TimeNs,
    /// Last serial covered.
    pub serial: Serial,
    /// CRC of that serial's summary.
    pub serial_crc: u32,
    /// Inode map.
    pub imap: TableRoot,
    /// Segment usage table.
    pub usage: TableRoot,
    /// Segments found empty by this checkpoint.
    pub emptied: u32,
    /// First inode number never used.
    pub next_ino: InodeNo,
    /// Volume size in bytes.
    pub size_bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Live bytes.
    pub live_bytes: u64,
    /// Open logs by number; `None` where a log is not open.
    pub tails: Vec<Option<Tail>>,
    /// Incarnations that roll-forward accepts, by serial.
    pub spans: Vec<Span>,
    /// Features in use.
    pub features: Features,
    /// Retained points that are in the slot, oldest first.
    pub points: Vec<Point>,
    /// Retained points that are rows of the file of points.
    pub point_rows: u32,
    /// Which of them are kept.
    pub retention: Retention,
    /// Clones, by number.
    pub branches: Vec<Branch>,
    /// Counters since mkfs; their meaning is defined in `fs`.
    pub counters: [u64; COUNTERS],
}

fn short(_: &impl std::fmt::Display) -> DecodeError {
    DecodeError::new("checkpoint", "tails, spans, counters, points and clones", "a shorter slot")
}

const NOT_OPEN: u64 = u64::MAX;
const HEADER: usize = 512;

impl Checkpoint {
    /// Bytes for the slot, a multiple of `unit_bytes`.
    #[must_use]
    pub fn encode(&self, unit_bytes: u32) -> Vec<u8> {
        let mut out = vec![0; HEADER];
        for tail in &self.tails {
            let raw = match tail {
                Some(t) => TailRaw {
                    segment: t.segment.0.into(),
                    sector: t.sector.into(),
                    reserved: 0.into(),
                    next_segment: t.next_segment.0.into(),
                    reserved2: [0; 72],
                },
                None => TailRaw {
                    segment: NOT_OPEN.into(),
                    sector: 0.into(),
                    reserved: 0.into(),
                    next_segment: NOT_OPEN.into(),
                    reserved2: [0; 72],
                },
            };
            out.extend_from_slice(raw.as_bytes());
        }
        for span in &self.spans {
            let raw = SpanRaw {
                from_serial: span.from.0.into(),
                incarnation: span.incarnation.0.into(),
                reserved: 0.into(),
            };
            out.extend_from_slice(raw.as_bytes());
        }
        for counter in self.counters {
            out.extend_from_slice(&counter.to_le_bytes());
        }
        for point in &self.points {
            out.extend_from_slice(point.encode().as_bytes());
        }
        for branch in &self.branches {
            out.extend_from_slice(branch.encode().as_bytes());
        }
        let header = self.header(out.len());
        out[..HEADER].copy_from_slice(header.as_bytes());
        let crc = crate::crc32c(&out);
        out[8..12].copy_from_slice(&crc.to_le_bytes());
        out.resize(out.len().next_multiple_of(unit_bytes as usize), 0);
        out
    }

    /// Incompatible features in use.
    #[must_use]
    pub fn features_incompat(&self) -> u64 {
        let set = |is_used: bool, feature: u64| if is_used { feature } else { 0 };
        FEATURE_WAITING_PAIRS
            | set(!self.points.is_empty() || self.point_rows > 0, FEATURE_POINTS)
            | set(!self.branches.is_empty(), FEATURE_BRANCHES)
            | set(self.point_rows > 0, FEATURE_POINT_ROWS)
    }

    fn header(&self, len_bytes: usize) -> CheckpointRaw {
        CheckpointRaw {
            magic: CHECKPOINT_MAGIC,
            crc: 0.into(),
            len_bytes: (len_bytes as u32).into(),
            uuid: self.uuid,
            epoch: self.epoch.0.into(),
            incarnation: self.incarnation.0.into(),
            flags: u32::from(self.clean).into(),
            tails: (self.tails.len() as u32).into(),
            spans: (self.spans.len() as u32).into(),
            reserved: 0.into(),
            time_ns: self.time.0.into(),
            serial: self.serial.0.into(),
            serial_crc: self.serial_crc.into(),
            imap_height: self.imap.height.into(),
            usage_height: self.usage.height.into(),
            emptied: self.emptied.into(),
            imap_root: self.imap.ptr.encode(),
            imap_used: self.imap.used.into(),
            imap_orphans: self.imap.special.into(),
            usage_root: self.usage.ptr.encode(),
            usage_used: self.usage.used.into(),
            next_ino: self.next_ino.0.into(),
            size_bytes: self.size_bytes.into(),
            segments: self.segments.into(),
            live_bytes: self.live_bytes.into(),
            segment_map: 0.into(),
            features_compat: self.features.compat.into(),
            features_ro_compat: self.features.ro_compat.into(),
            features_incompat: self.features_incompat().into(),
            points: (self.points.len() as u32).into(),
            history_percent: self.retention.percent.into(),
            history_rules: self.retention.encode_rules(),
            branches: (self.branches.len() as u32).into(),
            point_rows: self.point_rows.into(),
            reserved2: [0; 240],
        }
    }

    /// Reads and checks a slot.
    ///
    /// # Errors
    /// [`DecodeError`]: no checkpoint, damaged, another volume's, or features that this code does not know.
    pub fn decode(bytes: &[u8], uuid: &[u8; 16]) -> Result<Self, DecodeError> {
        let (raw, _) = CheckpointRaw::read_from_prefix(bytes)
            .map_err(|_| DecodeError::new("checkpoint", "512 bytes", bytes.len()))?;
        ensure(
            raw.magic == CHECKPOINT_MAGIC,
            "checkpoint magic",
            "\"firnckpt\"",
            format_args!("{:02x?}", raw.magic),
        )?;
        let len = raw.len_bytes.get() as usize;
        let len_ok = (HEADER..=(CHECKPOINT_SLOT_BYTES as usize).min(bytes.len())).contains(&len);
        ensure(len_ok, "checkpoint length", "512 to 65536", len)?;
        let mut zeroed = bytes[..len].to_vec();
        zeroed[8..12].fill(0);
        let crc = crate::crc32c(&zeroed);
        ensure(crc == raw.crc.get(), "checkpoint checksum", raw.crc.get(), crc)?;
        ensure(raw.uuid == *uuid, "checkpoint volume", "this volume's uuid", "another")?;
        let known = FEATURE_WAITING_PAIRS | FEATURE_POINTS | FEATURE_BRANCHES | FEATURE_POINT_ROWS;
        let unknown = raw.features_incompat.get() & !known;
        ensure(unknown == 0, UNKNOWN_FEATURES, "those of this version", format_args!("{unknown:#x}"))?;
        ensure(raw.segment_map.get() == 0, "segment map", "identity", raw.segment_map.get())?;
        Self::decode_body(&raw, &bytes[HEADER..len])
    }

    fn decode_points(raw: &CheckpointRaw, rest: &mut &[u8]) -> Result<Vec<Point>, DecodeError> {
        // Versions that did not know points left other bytes of the header zero, too.
        let count = raw.points.get() as usize;
        ensure(count <= MAX_SLOT_POINTS, "retained points", MAX_SLOT_POINTS, count)?;
        let is_told = raw.features_incompat.get() & FEATURE_POINTS != 0;
        ensure(is_told || count == 0, "retained points", "none without their feature bit", count)?;
        let rows = raw.point_rows.get() as usize;
        ensure(rows <= MAX_POINTS - count, "rows of points", MAX_POINTS - count, rows)?;
        let is_told = raw.features_incompat.get() & FEATURE_POINT_ROWS != 0;
        ensure(is_told || rows == 0, "rows of points", "none without their feature bit", rows)?;
        let mut points: Vec<Point> = Vec::with_capacity(count);
        for _ in 0..count {
            let (point, after) = PointRaw::read_from_prefix(rest).map_err(|e| short(&e))?;
            *rest = after;
            let point = Point::decode(&point)?;
            let is_in_order = points.last().is_none_or(|last| last.epoch < point.epoch);
            let epoch = point.epoch.0;
            ensure(
                is_in_order && epoch <= raw.epoch.get(),
                "epoch of a point",
                "an older one, in order",
                epoch,
            )?;
            points.push(point);
        }
        Ok(points)
    }

    fn decode_branches(
        raw: &CheckpointRaw,
        rest: &mut &[u8],
        points: &[Point],
    ) -> Result<Vec<Branch>, DecodeError> {
        let count = raw.branches.get() as usize;
        ensure(count <= MAX_BRANCHES, "clones", MAX_BRANCHES, count)?;
        let is_told = raw.features_incompat.get() & FEATURE_BRANCHES != 0;
        ensure(is_told || count == 0, "clones", "none without their feature bit", count)?;
        let mut branches: Vec<Branch> = Vec::with_capacity(count);
        for _ in 0..count {
            let (branch, after) = BranchRaw::read_from_prefix(rest).map_err(|e| short(&e))?;
            *rest = after;
            let branch = Branch::decode(&branch)?;
            let is_in_order = branches.last().is_none_or(|last| last.number < branch.number);
            ensure(is_in_order, "branch of a clone", "a larger one than before", branch.number)?;
            let is_origin = |point: &Point| point.epoch == branch.origin && point.dropped_to.is_none();
            // Whether it is among the rows only their file can tell.
            let is_known = raw.point_rows.get() > 0 || points.iter().any(is_origin);
            ensure(is_known, "origin of a clone", "a retained point", branch.origin.0)?;
            branches.push(branch);
        }
        Ok(branches)
    }

    fn decode_body(raw: &CheckpointRaw, mut rest: &[u8]) -> Result<Self, DecodeError> {
        let (tail_count, span_count) = (raw.tails.get() as usize, raw.spans.get() as usize);
        ensure(tail_count <= MAX_LOGS, "log tails", MAX_LOGS, tail_count)?;
        ensure(span_count <= MAX_SPANS, "incarnation spans", MAX_SPANS, span_count)?;
        let mut tails = Vec::with_capacity(tail_count);
        for _ in 0..tail_count {
            let (tail, after) = TailRaw::read_from_prefix(rest).map_err(|e| short(&e))?;
            rest = after;
            tails.push((tail.segment.get() != NOT_OPEN).then(|| Tail {
                segment: SegmentId(tail.segment.get()),
                sector: tail.sector.get(),
                next_segment: SegmentId(tail.next_segment.get()),
            }));
        }
        let mut spans = Vec::with_capacity(span_count);
        for _ in 0..span_count {
            let (span, after) = SpanRaw::read_from_prefix(rest).map_err(|e| short(&e))?;
            rest = after;
            spans.push(Span {
                from: Serial(span.from_serial.get()),
                incarnation: Incarnation(span.incarnation.get()),
            });
        }
        let (stored, mut rest) = <[U64; COUNTERS]>::read_from_prefix(rest).map_err(|e| short(&e))?;
        let points = Self::decode_points(raw, &mut rest)?;
        let branches = Self::decode_branches(raw, &mut rest, &points)?;
        Ok(Self {
            uuid: raw.uuid,
            epoch: Epoch(raw.epoch.get()),
            incarnation: Incarnation(raw.incarnation.get()),
            clean: raw.flags.get() & 1 != 0,
            time: TimeNs(raw.time_ns.get()),
            serial: Serial(raw.serial.get()),
            serial_crc: raw.serial_crc.get(),
            imap: TableRoot {
                ptr: BlockPtr::decode(&raw.imap_root),
                height: raw.imap_height.get(),
                used: raw.imap_used.get(),
                special: raw.imap_orphans.get(),
            },
            usage: TableRoot {
                ptr: BlockPtr::decode(&raw.usage_root),
                height: raw.usage_height.get(),
                used: raw.usage_used.get(),
                special: 0,
            },
            emptied: raw.emptied.get(),
            next_ino: InodeNo(raw.next_ino.get()),
            size_bytes: raw.size_bytes.get(),
            segments: raw.segments.get(),
            live_bytes: raw.live_bytes.get(),
            tails,
            spans,
            features: Features { compat: raw.features_compat.get(), ro_compat: raw.features_ro_compat.get() },
            points,
            point_rows: raw.point_rows.get(),
            retention: Retention::decode(raw.history_percent.get(), &raw.history_rules)?,
            branches,
            counters: stored.map(U64::get),
        })
    }
}
