//! The cleaner's port on the control socket (BSD-LFS, section 3.5): a cleaner is an ordinary process of the mount's owner.
//!
//! `wire` declares the messages; `firnfs::lfs::port` documents what the requests guarantee. The daemon trusts no cleaner.
//!
//! Caller: `mounting::operations`.
//!
//! Invariants: the daemon holds segments in memory for one request at a time, however many cleaners ask; no request delays
//! closing the volume for longer than its own work, `segwait` for at most a tenth of a second.

pub mod wire;

use crate::socket::{self, answer, arguments};
use firnfs::lfs::Lfs;
use firnfs::lfs::port::BlockInfo;
use firnfs_format::table::TableEntry;
use firnfs_format::{InodeNo, SegmentId};
use firnfs_fuse::control::{ErrorKind, OpError, Registry};
use firnfs_manage::LogVolume;
use firnfs_volume::Volume;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use wire::{Block, Cleaned, Coalesced, Contents, Inode, Inodes, Marked, Room, Segment, Segments, Trimmed};

/// Most segments in one answer.
const SEGMENTS_MAX: u64 = 4096;
/// Most inode numbers examined for one answer.
const INODES_MAX: u64 = 4096;
/// Most blocks in one answer to `segment_read`.
const BLOCKS_MAX: usize = 16 << 10;
/// How long `segwait` may delay closing the volume.
const WAIT_SLICE: Duration = Duration::from_millis(100);
/// How long `segwait` waits by default, in milliseconds.
const WAIT_MS: u64 = 60_000;

/// Registers the operations for cleaners. The volume is held weakly: it must close after the unmount.
pub fn register(registry: &mut Registry, volume: Weak<Volume<Lfs>>) {
    let port = Arc::new(Port { volume, turn: Mutex::new(()) });
    port.register(registry, "segments", "lists segments from 'from' on, as in the ifile", segments);
    port.register(registry, "inodes", "lists inodes in use from 'from' on, as in the ifile", inodes);
    port.register(registry, "segment_read", "lists the blocks in the summaries of 'segment'", segment_read);
    port.register(registry, "bmapv", "returns the present places of 'blocks'", bmapv);
    port.register(registry, "markv", "moves those of 'blocks' that are live at the given places", markv);
    port.register(
        registry,
        "segclean",
        "says whether 'segments' are empty; a checkpoint frees them",
        segclean,
    );
    port.register(
        registry,
        "coalesce",
        "rewrites in order a part of 'ino', a file or the small files of a directory, from 'from' on",
        coalesce,
    );
    port.register(
        registry,
        "trim",
        "discards the clean segments in a part of the volume, from 'from' on",
        trim,
    );
    let help =
        "waits until a segment's worth of log was written since 'log_bytes', at most timeout_ms (60000)";
    registry.register("segwait", help, move |request| segwait(&port, request));
}

struct Port {
    volume: Weak<Volume<Lfs>>,
    /// A request holds this while it holds segments in memory, or gathers blocks for a move.
    turn: Mutex<()>,
}

type Answer<T> = Result<T, OpError>;

impl Port {
    fn register<R: DeserializeOwned + 'static, T: Serialize + 'static>(
        self: &Arc<Self>,
        registry: &mut Registry,
        name: &'static str,
        help: &'static str,
        operation: fn(&Self, &Volume<Lfs>, R) -> Answer<T>,
    ) {
        let port = Arc::clone(self);
        registry.register(name, help, move |request| {
            let request = arguments(request)?;
            answer(&operation(&port, &*port.volume()?, request)?)
        });
    }

    fn volume(&self) -> Answer<Arc<Volume<Lfs>>> {
        socket::open(&self.volume)
    }
}

/// The request is invalid, or the volume failed.
fn refusal(error: &firnfs::FsError) -> OpError {
    let kind = match error {
        firnfs::FsError::Invalid(_) => ErrorKind::InvalidArgument,
        _ => ErrorKind::Failed,
    };
    OpError { kind, ..OpError::from(error) }
}

fn room(volume: &Volume<Lfs>) -> Answer<Room> {
    volume.run_quietly(|vfs, _| Ok(vfs.store().room().into())).map_err(|e| refusal(&e))
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    from: u64,
    #[serde(default)]
    count: Option<u64>,
}

fn segments(_: &Port, volume: &Volume<Lfs>, page: Page) -> Answer<Segments> {
    let (segment_bytes, now) = volume
        .run_quietly(|vfs, now| Ok((vfs.store().geometry().segment_bytes, now)))
        .map_err(|e| refusal(&e))?;
    let room = room(volume)?;
    let count = page.count.unwrap_or(SEGMENTS_MAX).clamp(1, SEGMENTS_MAX);
    let end = page.from.saturating_add(count).min(room.segments);
    let mut list: Vec<Segment> = Vec::new();
    let mut at = page.from;
    while at < end {
        let infos = volume
            .run_quietly(|vfs, _| {
                let lfs = vfs.store_mut();
                let leaf = lfs.usage_leaf_of(SegmentId(at));
                lfs.segment_infos(leaf)
            })
            .map_err(|e| refusal(&e))?;
        let Some(last) = infos.last().map(|info| info.segment.0) else { break };
        let wanted = infos.iter().filter(|info| (at..end).contains(&info.segment.0));
        list.extend(wanted.map(Segment::from));
        at = last + 1;
    }
    Ok(Segments { segment_bytes, now_ns: now.0, room, list, next: (end < room.segments).then_some(end) })
}

fn inodes(_: &Port, volume: &Volume<Lfs>, page: Page) -> Answer<Inodes> {
    let count = page.count.unwrap_or(INODES_MAX).clamp(1, INODES_MAX);
    let next_ino = volume.run_quietly(|vfs, _| Ok(vfs.store().next_ino().0)).map_err(|e| refusal(&e))?;
    let end = page.from.saturating_add(count).min(next_ino);
    let mut list = Vec::new();
    for ino in page.from.max(InodeNo::ROOT.0)..end {
        let entry =
            volume.run_quietly(|vfs, _| vfs.store_mut().imap_entry(InodeNo(ino))).map_err(|e| refusal(&e))?;
        if entry.is_used() {
            let addr = entry.ptr.is_stored().then_some(entry.ptr.addr.0);
            let (version, orphan, atime_ns) = (entry.version, entry.orphan, entry.atime.0);
            list.push(Inode { ino, version, addr, orphan, atime_ns });
        }
    }
    Ok(Inodes { list, next: (end < next_ino).then_some(end) })
}

#[derive(Deserialize)]
struct ReadRequest {
    segment: u64,
    #[serde(default)]
    from: usize,
}

fn segment_read(port: &Port, volume: &Volume<Lfs>, request: ReadRequest) -> Answer<Contents> {
    let entries = {
        let _turn = port.turn.lock();
        volume.segment_entries(SegmentId(request.segment)).map_err(|e| refusal(&e))?
    };
    let end = request.from.saturating_add(BLOCKS_MAX).min(entries.len());
    let page = entries.get(request.from..end).unwrap_or(&[]);
    let blocks = page.iter().filter_map(Block::of).collect();
    Ok(Contents { blocks, next: (end < entries.len()).then_some(end as u64) })
}

#[derive(Deserialize)]
struct BlocksRequest {
    blocks: Vec<Block>,
}

impl BlocksRequest {
    fn infos(&self) -> Vec<BlockInfo> {
        self.blocks.iter().map(Block::info).collect()
    }
}

fn bmapv(port: &Port, volume: &Volume<Lfs>, request: BlocksRequest) -> Answer<Vec<Option<u64>>> {
    let blocks = request.infos();
    let _turn = port.turn.lock();
    let found = volume.run_quietly(|vfs, _| vfs.store_mut().bmapv(&blocks)).map_err(|e| refusal(&e))?;
    Ok(found.into_iter().map(|ptr| ptr.is_stored().then_some(ptr.addr.0)).collect())
}

fn markv(port: &Port, volume: &Volume<Lfs>, request: BlocksRequest) -> Answer<Marked> {
    let _turn = port.turn.lock();
    let marked = volume.markv(&request.infos()).map_err(|e| refusal(&e))?;
    Ok(Marked { fates: marked.fates.into_iter().map(Into::into).collect(), moved_bytes: marked.moved_bytes })
}

#[derive(Deserialize)]
struct CoalesceRequest {
    ino: u64,
    #[serde(default)]
    from: u64,
}

fn coalesce(port: &Port, volume: &Volume<Lfs>, request: CoalesceRequest) -> Answer<Coalesced> {
    let _turn = port.turn.lock();
    volume.coalesce(InodeNo(request.ino), request.from).map(Into::into).map_err(|e| refusal(&e))
}

#[derive(Deserialize)]
struct TrimRequest {
    #[serde(default)]
    from: u64,
}

fn trim(port: &Port, volume: &Volume<Lfs>, request: TrimRequest) -> Answer<Trimmed> {
    let _turn = port.turn.lock();
    volume.trim(request.from).map(Into::into).map_err(|e| refusal(&e))
}

#[derive(Deserialize)]
struct CleanRequest {
    segments: Vec<u64>,
}

fn segclean(_: &Port, volume: &Volume<Lfs>, request: CleanRequest) -> Answer<Cleaned> {
    let segments: Vec<SegmentId> = request.segments.into_iter().map(SegmentId).collect();
    let states = volume.segclean(&segments).map_err(|e| refusal(&e))?;
    Ok(Cleaned { states: states.into_iter().map(Into::into).collect(), room: room(volume)? })
}

#[derive(Deserialize)]
struct WaitRequest {
    #[serde(default)]
    log_bytes: Option<u64>,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

fn segwait(port: &Port, request: &Value) -> Answer<Value> {
    let request: WaitRequest = arguments(request)?;
    let timeout = Duration::from_millis(request.timeout_ms.unwrap_or(WAIT_MS));
    let start = Instant::now();
    let mut until_bytes = None;
    loop {
        // Not held while waiting for the next slice: the volume can be closed in between.
        let volume = port.volume()?;
        let goal = match until_bytes {
            Some(goal) => goal,
            None => {
                let segment = volume.run_quietly(|vfs, _| Ok(vfs.store().geometry().segment_bytes));
                let since = request.log_bytes.map_or_else(|| room(&volume).map(|r| r.log_bytes), Ok)?;
                since.saturating_add(u64::from(segment.map_err(|e| refusal(&e))?))
            }
        };
        until_bytes = Some(goal);
        let left = timeout.saturating_sub(start.elapsed());
        let room: Room = volume.wait_for_log(goal, left.min(WAIT_SLICE)).map_err(|e| refusal(&e))?.into();
        if room.log_bytes >= goal || start.elapsed() >= timeout {
            return answer(&room);
        }
    }
}
