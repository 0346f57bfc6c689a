//! Opening a volume: superblock, newest valid checkpoint, roll-forward. Reads a bounded number of blocks plus the log's
//! tail; nothing that grows with the volume.

use crate::device_reader::{DeviceReader, Extent};
use crate::error::FsError;
use crate::lfs::base::accounts::Accounts;
use crate::lfs::base::counters::Counters;
use crate::lfs::base::geometry::Geometry;
use crate::lfs::base::standing::Standing;
use crate::lfs::map::files::Files;
use crate::lfs::map::shelf::Shelf;
use crate::lfs::past::rows::{is_possible, map_height_max};
use crate::lfs::past::states::PastBlocks;
use crate::lfs::past::views::{Views, title};
use crate::lfs::recover::recovery::RollForward;
use crate::lfs::room::operation::OpenOperation;
use crate::lfs::tables::Tables;
use crate::lfs::upkeep::Upkeep;
use crate::lfs::upkeep::discard::Discard;
use crate::lfs::write::LogWriter;
use crate::lfs::write::due::Due;
use crate::lfs::write::log::{Log, LogEnd};
use crate::lfs::write::sorting::Sorting;
use crate::lfs::{Lfs, Options};
use crate::mutation::{Mutation, is_on};
use crate::store::recharges::Recharges;
use firnfs_format::checkpoint::{
    BRANCH_BITS, Checkpoint, MAX_SPANS, Point, Span, TableRoot, Tail, UNKNOWN_FEATURES,
};
use firnfs_format::superblock::{
    CHECKPOINT_SLOT_BYTES, FORMAT_VERSION, NO_MAGIC, SIZE_LIMIT_BYTES, SUPERBLOCK_BYTES, SUPERBLOCK_MAGIC,
    Superblock,
};
use firnfs_format::{DecodeError, Epoch, Incarnation, TimeNs};
use std::collections::BTreeSet;

/// After this many mounts in a row without a complete checkpoint one is due at once: a checkpoint has room for [`MAX_SPANS`].
const SPANS_DUE: usize = 16;

/// Why bytes are not a volume that can be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFirnfs {
    /// There is no superblock in any of its places.
    #[error("not a firnfs volume{}", more_about(.0))]
    NoSuperblock(DecodeError),
    /// Made by another version of the format.
    #[error("format version {0}; this program reads version {FORMAT_VERSION}")]
    Version(u32),
    /// The device is smaller than the volume.
    #[error("the volume has {volume_bytes} bytes, the device only {device_bytes}: the image was cut short")]
    Truncated {
        /// Size that the superblock states.
        volume_bytes: u64,
        /// Size of the device.
        device_bytes: u64,
    },
    /// The device failed.
    #[error("{0}")]
    Io(FsError),
}

/// Why the bytes are no superblock. If nothing there looks like one, there is no more to say.
fn more_about(why: &DecodeError) -> String {
    if why.what == NO_MAGIC { String::new() } else { format!(" ({why})") }
}

/// Reads the superblock, from a replica if the first copy is damaged.
///
/// # Errors
/// See [`NotFirnfs`].
pub fn read_superblock(read: &mut dyn DeviceReader, device_bytes: u64) -> Result<Superblock, NotFirnfs> {
    let copies = Superblock::places(device_bytes).into_iter();
    let copies: Vec<Extent> = copies
        .map(|at_bytes| Extent::new(at_bytes, SUPERBLOCK_BYTES as u32))
        .filter(|copy| copy.end_bytes() <= device_bytes)
        .collect();
    let mut first_error = None;
    // The other copies are read only if they are needed: they lie far away.
    let (first, others) = copies.split_at(copies.len().min(1));
    for copies in [first, others] {
        for bytes in read.read_all(copies) {
            match bytes.map_err(NotFirnfs::Io).and_then(|bytes| verdict_of(&bytes, device_bytes)) {
                Ok(verdict) => return verdict,
                Err(why) => _ = first_error.get_or_insert(why),
            }
        }
    }
    let empty = || NotFirnfs::NoSuperblock(DecodeError::new("device", "at least 2 MiB", device_bytes));
    Err(first_error.unwrap_or_else(empty))
}

/// The verdict of one copy on the volume; `Err` if this copy may be damaged and another copy should decide.
fn verdict_of(bytes: &[u8], device_bytes: u64) -> Result<Result<Superblock, NotFirnfs>, NotFirnfs> {
    let why = match Superblock::decode(bytes) {
        Ok(sb) if sb.size_bytes > device_bytes => {
            return Ok(Err(NotFirnfs::Truncated { volume_bytes: sb.size_bytes, device_bytes }));
        }
        Ok(sb) => return Ok(Ok(sb)),
        Err(why) => why,
    };
    let version = u32::from_le_bytes(bytes[8..12].try_into().expect("4 bytes"));
    let is_ours = bytes[..8] == SUPERBLOCK_MAGIC;
    if !is_ours || version == FORMAT_VERSION {
        return Err(NotFirnfs::NoSuperblock(why));
    }
    let other = NotFirnfs::Version(version);
    // Without a checksum that this version can verify, the copy may be damaged.
    if Superblock::is_sealed(bytes) { Ok(Err(other)) } else { Err(other) }
}

/// Both checkpoint slots as they are.
///
/// # Errors
/// `Io` if neither can be read.
pub(crate) fn read_slots(
    read: &mut dyn DeviceReader,
    sb: &Superblock,
) -> [Result<Checkpoint, DecodeError>; 2] {
    let slots = sb.checkpoint_at_bytes.map(|at_bytes| Extent::new(at_bytes, CHECKPOINT_SLOT_BYTES));
    let posted = slots.map(|slot| read.post(slot));
    posted.map(|slot| {
        let bytes =
            read.finish(slot).map_err(|e| DecodeError::new("checkpoint slot", "readable sectors", e))?;
        Checkpoint::decode(&bytes, &sb.uuid)
    })
}

/// The checkpoint that counts.
///
/// # Errors
/// `Corrupt` if neither slot holds one; `Unsupported` if either has features that this code does not know: the log after
/// the other one may use them.
pub(crate) fn newest(slots: &[Result<Checkpoint, DecodeError>; 2]) -> Result<Checkpoint, FsError> {
    let is_newer = |slot: &Result<_, DecodeError>| slot.as_ref().is_err_and(|e| e.what == UNKNOWN_FEATURES);
    if slots.iter().any(is_newer) {
        return Err(FsError::Unsupported("a volume with features of a newer version of firn"));
    }
    let valid = slots.iter().filter_map(|s| s.as_ref().ok());
    valid.max_by_key(|c| c.epoch).cloned().ok_or_else(|| {
        let reasons: Vec<String> =
            slots.iter().filter_map(|s| s.as_ref().err()).map(ToString::to_string).collect();
        FsError::Corrupt {
            what: "checkpoint".to_owned(),
            at: "both slots".to_owned(),
            expected: "at least one valid slot".to_owned(),
            found: reasons.join("; "),
        }
    })
}

/// True if all logs are open, within the volume, on boundaries of write units, and in different segments.
fn are_sound(tails: &[Option<Tail>], geo: &Geometry) -> bool {
    let mut segments = BTreeSet::new();
    tails.len() >= 2
        && tails.iter().all(|tail| {
            tail.is_some_and(|t| {
                let inside = t.segment.0 < geo.segments && t.next_segment.0 < geo.segments;
                let on_boundary = t.sector <= geo.segment_sectors && t.sector % geo.unit_sectors == 0;
                // A log that is about to enter its first segment names it twice.
                let own = BTreeSet::from([t.segment, t.next_segment]);
                inside && on_boundary && own.into_iter().all(|segment| segments.insert(segment))
            })
        })
}

/// A checkpoint with a correct checksum may still have impossible values, if it was made on purpose.
fn check_bounds(base: &Checkpoint, geo: &Geometry) -> Result<(), FsError> {
    let height_max = map_height_max(geo);
    let root_ok = |root: &TableRoot| {
        let sums_ok = root.special <= root.used && (root.used == 0 || !root.ptr.is_hole());
        root.height <= height_max && sums_ok
    };
    let point_ok = |point: &Point| is_possible(point, height_max, base.epoch);
    let roots_ok = root_ok(&base.imap) && root_ok(&base.usage) && base.points.iter().all(point_ok);
    // Each inode in use has a record of a sector at least.
    let sectors = geo.segments * u64::from(geo.segment_sectors);
    let in_clones: u64 = base.branches.iter().map(|branch| branch.next_ino.0).sum();
    let numbers = base.next_ino.0.saturating_add(in_clones);
    let used_ok = base.usage.used <= geo.segments && base.imap.used <= numbers.min(sectors);
    let numbers_ok = base.epoch.0 < u32::MAX - 8
        && base.incarnation.0 < u32::MAX - 8
        && base.serial.0 < 1 << 62
        && base.next_ino.0 < 1 << BRANCH_BITS;
    let live_ok = base.live_bytes <= geo.segments * u64::from(geo.segment_bytes);
    if roots_ok && used_ok && numbers_ok && live_ok && are_sound(&base.tails, geo) {
        return Ok(());
    }
    let wrong_points: String = base
        .points
        .iter()
        .filter(|point| !point_ok(point))
        .map(|point| format!("; snapshot '{}' of height {}", title(point), point.imap.height))
        .collect();
    Err(FsError::Corrupt {
        what: "checkpoint".to_owned(),
        at: format!("epoch {}", base.epoch),
        expected: format!("tables, logs and counts within {} segments", geo.segments),
        found: format!(
            "heights {}, {}; {} segments and {} inodes in use, next inode {}; logs {:?}{wrong_points}",
            base.imap.height, base.usage.height, base.usage.used, base.imap.used, base.next_ino, base.tails
        ),
    })
}

impl Lfs {
    /// Opens a volume and rolls forward. Nothing is written yet; unless read-only, the first jobs make a new
    /// incarnation durable.
    ///
    /// # Errors
    /// `Corrupt` if both checkpoints are damaged, or the log contradicts itself; `ReadOnly` if it is to be written and has
    /// features that only a reader may ignore; `Io`.
    pub fn open(
        read: &mut dyn DeviceReader,
        sb: Superblock,
        options: Options,
        now: TimeNs,
    ) -> Result<Self, FsError> {
        let base = newest(&read_slots(read, &sb))?;
        Self::open_at(read, sb, base, options, now)
    }

    /// Opens a volume at one of its checkpoints and rolls forward from there.
    ///
    /// # Errors
    /// `Corrupt` if the checkpoint has impossible values, or if the log contradicts it; `Io`.
    pub(crate) fn open_at(
        read: &mut dyn DeviceReader,
        sb: Superblock,
        base: Checkpoint,
        options: Options,
        now: TimeNs,
    ) -> Result<Self, FsError> {
        if base.size_bytes >= SIZE_LIMIT_BYTES {
            return Err(FsError::Corrupt {
                what: "checkpoint".to_owned(),
                at: format!("epoch {}", base.epoch),
                expected: "a volume below 128 PiB".to_owned(),
                found: format!("{} bytes", base.size_bytes),
            });
        }
        if base.size_bytes > sb.size_bytes {
            return Err(FsError::Corrupt {
                what: "checkpoint".to_owned(),
                at: format!("epoch {}", base.epoch),
                expected: format!("a volume of at most {} bytes, as the superblock says", sb.size_bytes),
                found: format!("{} bytes", base.size_bytes),
            });
        }
        let geo = Geometry::new(&sb, base.size_bytes);
        if base.segments != geo.segments {
            return Err(FsError::Corrupt {
                what: "checkpoint".to_owned(),
                at: format!("epoch {}", base.epoch),
                expected: format!("{} segments", geo.segments),
                found: base.segments.to_string(),
            });
        }
        check_bounds(&base, &geo)?;
        if !options.read_only && base.features.ro_compat != 0 {
            return Err(FsError::ReadOnly(format!(
                "features {:#x} of a newer version must not be written; mount it read-only",
                base.features.ro_compat
            )));
        }
        let mut lfs = Self::at_checkpoint(sb, geo, options, &base, now);
        if lfs.tables.points.needs_rows() {
            lfs.read_rows(read);
            // Roll-forward begins with nothing in memory.
            lfs.files = Files::default();
            lfs.shelf = Shelf::new(lfs.geo.clone());
        }
        lfs.roll_forward(read, &base)?;
        if options.read_only {
            lfs.standing.give_up("mounted read-only".to_owned());
        } else if lfs.recovered.lost.is_none() {
            lfs.drive(read, Self::resume_reaping)?;
            lfs.begin_incarnation(base)?;
        }
        Ok(lfs)
    }

    /// Whether this mount should write a checkpoint at once, because many mounts crashed before their first one.
    #[must_use]
    pub fn needs_checkpoint_at_mount(&self) -> bool {
        self.tables.spans().len() > SPANS_DUE
    }

    pub(in crate::lfs) fn at_checkpoint(
        sb: Superblock,
        geo: Geometry,
        options: Options,
        base: &Checkpoint,
        now: TimeNs,
    ) -> Self {
        let end = LogEnd { serial: base.serial, crc: base.serial_crc };
        let log = Log::new(base.tails.clone(), end, base.incarnation);
        let tables = Tables::at(base, &geo);
        let mut lfs = Self {
            size_bytes: base.size_bytes,
            standing: Standing::default(),
            accounts: Accounts::new(base.live_bytes, Counters::decode(&base.counters)),
            shelf: Shelf::new(geo.clone()),
            past_blocks: PastBlocks::new(options.cache_bytes),
            views: Views::default(),
            files: Files::default(),
            tables,
            sorting: Sorting::new(options.placement, log.data_logs(), TimeNs(sb.created_ns)),
            writer: LogWriter::new(log, base.serial),
            due: Due::new(now),
            operation: OpenOperation::default(),
            recharges: Recharges::default(),
            upkeep: Upkeep::new(now, Discard::from(base)),
            next_generation: 0,
            recovered: RollForward::default(),
            sb,
            geo,
            wanted_threshold_bytes: options.write_threshold_bytes,
            options: options.within_bounds(),
        };
        lfs.begin_era(base.time);
        lfs
    }

    /// Makes a new incarnation durable in both slots, one after the other, before the first log write: the old
    /// checkpoint under new numbers, from which roll-forward accepts the old and the new incarnation's log.
    pub(in crate::lfs) fn begin_incarnation(&mut self, base: Checkpoint) -> Result<(), FsError> {
        let incarnation = Incarnation(base.incarnation.0 + 1);
        let from = self.writer.log.end().serial.next();
        let mut spans = base.spans.clone();
        spans.retain(|s| s.from < from);
        spans.push(Span { from, incarnation });
        if spans.len() > MAX_SPANS {
            return Err(FsError::Corrupt {
                what: "checkpoint".to_owned(),
                at: format!("epoch {}", base.epoch),
                expected: format!("at most {MAX_SPANS} mounts without a complete checkpoint"),
                found: "more: mount read-only and copy the data".to_owned(),
            });
        }
        self.writer.log.begin_incarnation(incarnation);
        self.next_generation = u64::from(incarnation.0) << 32;
        if spans.len() > SPANS_DUE {
            self.due.note_log(self.options.checkpoint_bytes);
        }
        self.tables.note_spans(spans.clone());
        let first = Checkpoint {
            epoch: Epoch(base.epoch.0 + 1),
            incarnation,
            clean: false,
            spans,
            emptied: 0,
            ..base
        };
        self.push_checkpoint(&first);
        if !is_on(Mutation::IncarnationInOneSlot) {
            self.tables.slots.repeat(first);
        }
        Ok(())
    }
}
