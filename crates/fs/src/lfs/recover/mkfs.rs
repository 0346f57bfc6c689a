//! mkfs: the bytes of an empty volume (4BSD's newfs).

use crate::engine::Engine;
use crate::error::FsError;
use crate::inode::{Body, Inode, Kind};
use crate::lfs::base::geometry::Geometry;
use crate::lfs::map::inode::CoreInode;
use crate::lfs::room::space::{MIN_SEGMENTS, data_logs_for, segments_of_more};
use crate::lfs::tables::table::Table;
use crate::lfs::write::log::{DATA_LOGS_MAX, DATA_LOGS_MIN};
use crate::lfs::{Lfs, Options};
use firnfs_device::Request;
use firnfs_format::checkpoint::{Checkpoint, Features, Retention, Span, Tail};
use firnfs_format::inode::record_bytes;
use firnfs_format::summary::{Entry, EntryKind, FLAG_END, Summary, summary_sectors};
use firnfs_format::superblock::{
    CHECKPOINT_SLOTS_AT, LABEL_MAX_BYTES, LOG_START_BYTES, SEGMENT_BYTES_RANGE, SIZE_LIMIT_BYTES, Superblock,
};
use firnfs_format::{
    BlockPtr, Epoch, Incarnation, InodeNo, PtrKind, SECTOR_BYTES, SegmentId, Serial, TimeNs,
};

/// The options of mkfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsOptions {
    /// Volume size in bytes.
    pub size_bytes: u64,
    /// Block size in bytes: a power of two, 4096 to 65536.
    pub block_bytes: u32,
    /// Segment size in bytes: a power of two, 256 KiB to 64 MiB.
    pub segment_bytes: u32,
    /// Physical block of the device in bytes: log writes are multiples of it, aligned to it.
    pub physical_block_bytes: u32,
    /// Largest file kept in its inode, 0 to 2048 bytes.
    pub inline_max_bytes: u32,
    /// At most 64 bytes.
    pub label: String,
    /// Random.
    pub uuid: [u8; 16],
    /// Random: key of the directory hash.
    pub hash_key: [u64; 2],
    /// Now.
    pub now: TimeNs,
    /// Owner and group of the root directory.
    pub root_owner: (u32, u32),
}

fn check(options: &MkfsOptions) -> Result<(), FsError> {
    let block_ok = options.block_bytes.is_power_of_two() && (4096..=65536).contains(&options.block_bytes);
    let segment_ok =
        options.segment_bytes.is_power_of_two() && SEGMENT_BYTES_RANGE.contains(&options.segment_bytes);
    match () {
        () if !block_ok => Err(FsError::Invalid("block size: a power of two from 4096 to 65536")),
        () if !segment_ok => Err(FsError::Invalid("segment size: a power of two from 256 KiB to 64 MiB")),
        () if options.segment_bytes < options.block_bytes * 16 => {
            Err(FsError::Invalid("segment size: at least 16 blocks"))
        }
        () if !options.physical_block_bytes.is_power_of_two() || options.physical_block_bytes > 65536 => {
            Err(FsError::Invalid("physical block: a power of two, at most 65536 bytes"))
        }
        () if options.inline_max_bytes > 2048 => Err(FsError::Invalid("inline limit: at most 2048 bytes")),
        () if options.label.len() > LABEL_MAX_BYTES => Err(FsError::Invalid("label: at most 64 bytes")),
        () if options.size_bytes >= SIZE_LIMIT_BYTES => Err(FsError::Invalid("size: less than 128 PiB")),
        () => Ok(()),
    }
}

/// The writes that make an empty volume, in order: (place on the device in bytes, bytes). The caller flushes before and
/// after the last one (the superblock at its primary place), so that an interrupted mkfs leaves no volume.
///
/// # Errors
/// `Invalid` for options out of range, or a size too small for [`MIN_SEGMENTS`] segments.
pub fn mkfs(options: &MkfsOptions) -> Result<Vec<(u64, Vec<u8>)>, FsError> {
    mkfs_with_logs(options, None)
}

/// The same with this many logs for data, 2 to 5, instead of the number that suits the volume's size. Each additional log
/// needs two more segments.
///
/// # Errors
/// As [`mkfs`].
pub fn mkfs_with_logs(options: &MkfsOptions, data_logs: Option<u8>) -> Result<Vec<(u64, Vec<u8>)>, FsError> {
    check(options)?;
    let sb = Superblock {
        uuid: options.uuid,
        label: options.label.clone(),
        created_ns: options.now.0,
        size_bytes: options.size_bytes,
        block_bytes: options.block_bytes,
        segment_bytes: options.segment_bytes,
        write_unit_bytes: options.physical_block_bytes.max(4096),
        log_start_bytes: LOG_START_BYTES,
        checkpoint_at_bytes: CHECKPOINT_SLOTS_AT,
        inline_max_bytes: options.inline_max_bytes,
        hash_key: options.hash_key,
    };
    let geo = Geometry::new(&sb, options.size_bytes);
    if geo.segments < MIN_SEGMENTS {
        return Err(FsError::Invalid(
            "size: too small for 28 segments and 2 MiB (try a smaller segment size)",
        ));
    }
    let data_logs = data_logs.unwrap_or_else(|| data_logs_for(&geo));
    if !(DATA_LOGS_MIN..=DATA_LOGS_MAX).contains(&data_logs) {
        return Err(FsError::Invalid("logs for data: from 2 to 5"));
    }
    if geo.segments < MIN_SEGMENTS + segments_of_more(data_logs) {
        return Err(FsError::Invalid(
            "size: too small for that many logs (try fewer, or a smaller segment size)",
        ));
    }
    let (root_write, mut checkpoint) = first_write(options, &sb, &geo, data_logs);
    let mut writes = vec![root_write];
    // Both slots are valid from the start, so that damage to either does no harm.
    for epoch in 1..=2 {
        checkpoint.epoch = Epoch(epoch);
        writes.push((CHECKPOINT_SLOTS_AT[epoch as usize % 2], checkpoint.encode(sb.write_unit_bytes)));
    }
    complete(&sb, options.now, &mut writes)?;
    // The primary superblock last: only with it the bytes are a volume.
    writes.extend(Superblock::places(options.size_bytes).iter().rev().map(|&at| (at, sb.encode())));
    Ok(writes)
}

/// Mounts and unmounts the volume once, in memory: a fresh volume has a whole checkpoint and nothing to recover.
fn complete(sb: &Superblock, now: TimeNs, writes: &mut Vec<(u64, Vec<u8>)>) -> Result<(), FsError> {
    let mut lfs = Lfs::open(
        &mut |at: u64, len: u32| Ok(written(writes, at, len)),
        sb.clone(),
        Options::default(),
        now,
    )?;
    // The checkpoint cannot be laid out before the incarnation is durable, so this ends.
    while !lfs.is_drained() {
        carry_out(&mut lfs, writes);
    }
    lfs.drive(&mut |at: u64, len: u32| Ok(written(writes, at, len)), |lfs| lfs.clean_checkpoint(now))?;
    while !lfs.is_drained() {
        carry_out(&mut lfs, writes);
    }
    Ok(())
}

/// Collects the writes of the store.
fn carry_out(lfs: &mut Lfs, writes: &mut Vec<(u64, Vec<u8>)>) {
    while let Some(job) = lfs.next_job() {
        if let Request::Write { at_bytes, data } = job.request() {
            writes.push((at_bytes, data.whole().to_vec()));
        }
        lfs.job_done(job.id, Ok(()));
    }
}

/// The content of a zeroed device after those writes.
fn written(writes: &[(u64, Vec<u8>)], at_bytes: u64, len_bytes: u32) -> Vec<u8> {
    let mut out = vec![0; len_bytes as usize];
    let end = at_bytes + u64::from(len_bytes);
    for (start, bytes) in writes {
        let (from, to) = (at_bytes.max(*start), end.min(start + bytes.len() as u64));
        if from < to {
            let part = &bytes[(from - start) as usize..(to - start) as usize];
            out[(from - at_bytes) as usize..(to - at_bytes) as usize].copy_from_slice(part);
        }
    }
    out
}

/// The root directory as the first partial segment, and a checkpoint from which roll-forward finds it.
fn first_write(
    options: &MkfsOptions,
    sb: &Superblock,
    geo: &Geometry,
    data_logs: u8,
) -> ((u64, Vec<u8>), Checkpoint) {
    let root = Inode {
        mode: 0o755,
        uid: options.root_owner.0,
        gid: options.root_owner.1,
        nlink: 2,
        generation: 1,
        parent: InodeNo::ROOT,
        body: if options.inline_max_bytes > 0 { Body::Inline(Vec::new()) } else { Body::Blocks },
        ..Inode::new(Kind::Directory, options.now)
    };
    let core = CoreInode::fresh(root, 1);
    let record_len = record_bytes(&core.roots.each_ref(), 0);
    let summary_len = summary_sectors(1) * SECTOR_BYTES;
    let len_sectors =
        (summary_len / SECTOR_BYTES + record_len as u32 / SECTOR_BYTES).next_multiple_of(geo.unit_sectors);
    let mut bytes = vec![0; (len_sectors * SECTOR_BYTES) as usize];
    let record = &mut bytes[summary_len as usize..][..record_len];
    core.encode(InodeNo::ROOT, record);
    let ptr = BlockPtr {
        addr: geo.addr(SegmentId(0), summary_len / SECTOR_BYTES),
        len_sectors: (record_len as u32 / SECTOR_BYTES) as u8,
        kind: PtrKind::Plain,
        crc: firnfs_format::crc32c(record),
        birth: Epoch(1),
    };
    // All logs are about to enter their first segment.
    let about_to_enter = |segment| Some(Tail { segment, sector: geo.segment_sectors, next_segment: segment });
    // The first log continues in segment 1.
    let others = (2..=1 + u64::from(data_logs)).map(|segment| about_to_enter(SegmentId(segment)));
    let tails = std::iter::once(about_to_enter(SegmentId(0))).chain(others).collect();
    let checkpoint = Checkpoint {
        uuid: sb.uuid,
        epoch: Epoch(1),
        incarnation: Incarnation(1),
        clean: false,
        time: options.now,
        serial: Serial(0),
        serial_crc: 0,
        imap: Table::EMPTY,
        usage: Table::EMPTY,
        emptied: 0,
        next_ino: InodeNo::FIRST_USER,
        size_bytes: options.size_bytes,
        segments: geo.segments,
        live_bytes: 0,
        tails,
        spans: vec![Span { from: Serial(1), incarnation: Incarnation(1) }],
        features: Features::default(),
        branches: Vec::new(),
        points: Vec::new(),
        point_rows: 0,
        retention: Retention::default(),
        counters: [0; firnfs_format::checkpoint::COUNTERS],
    };
    let mut summary = Summary {
        crc: 0,
        uuid: sb.uuid,
        serial: Serial(1),
        prev_crc: 0,
        incarnation: Incarnation(1),
        durable_through: Serial(0),
        epoch: Epoch(1),
        flags: FLAG_END,
        time: options.now,
        segment: SegmentId(0),
        next_segment: SegmentId(1),
        start_sector: 0,
        len_sectors,
        entries: 0,
        log: 0,
    };
    let entry = Entry { ino: InodeNo::ROOT, version: 1, kind: EntryKind::Inode { orphan: false }, ptr };
    summary.encode_into(&[entry], &mut bytes);
    ((geo.device_bytes(geo.addr(SegmentId(0), 0)), bytes), checkpoint)
}
