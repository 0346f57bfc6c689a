//! The messages of the cleaner's port, for both sides. docs/internals/cleaner-port.md describes them for authors of other
//! cleaners. The names here are part of that protocol: members may be added, but existing ones stay.

use firnfs::lfs::port::{self, BlockInfo, Emptiness, Fate, SegmentInfo};
use firnfs_format::summary::{Entry, EntryKind};
use firnfs_format::{InodeNo, SectorAddr};
use serde::{Deserialize, Serialize};

/// The part of a file that a block belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Content.
    Data,
    /// A directory's hash index.
    Index,
    /// Extended attributes.
    Xattr,
    /// The inode record itself; level and index are 0.
    Inode,
}

/// A block: BSD-LFS's `BLOCK_INFO`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Block {
    /// Inode; 2 and 3 are not files but the two tables.
    pub ino: u64,
    /// Its version when the block was written.
    pub version: u32,
    /// The part of the inode.
    pub part: Part,
    /// 0 data, 1 and up indirect.
    #[serde(default)]
    pub level: u8,
    /// Index at that level.
    #[serde(default)]
    pub index: u64,
    /// Its place, in sectors from the start of the log.
    pub addr: u64,
    /// Its length in bytes; ignored in requests.
    #[serde(default)]
    pub bytes: u64,
}

impl Block {
    /// An entry of a summary; `None` for an entry that only says that an inode was freed.
    #[must_use]
    pub fn of(entry: &Entry) -> Option<Self> {
        let (part, level, index) = match entry.kind {
            EntryKind::Block { fork, level, index } => {
                (*[Part::Data, Part::Index, Part::Xattr].get(usize::from(fork))?, level, index)
            }
            EntryKind::Inode { .. } => (Part::Inode, 0, 0),
            EntryKind::Freed => return None,
        };
        let bytes = u64::from(entry.ptr.stored_bytes());
        Some(Self {
            ino: entry.ino.0,
            version: entry.version,
            part,
            level,
            index,
            addr: entry.ptr.addr.0,
            bytes,
        })
    }

    /// Converts it for the store.
    #[must_use]
    pub fn info(&self) -> BlockInfo {
        let block = |fork| EntryKind::Block { fork, level: self.level, index: self.index };
        let kind = match self.part {
            Part::Data => block(0),
            Part::Index => block(1),
            Part::Xattr => block(2),
            Part::Inode => EntryKind::Inode { orphan: false },
        };
        BlockInfo { ino: InodeNo(self.ino), version: self.version, kind, addr: SectorAddr(self.addr) }
    }
}

/// A segment, as in the ifile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Segment {
    /// Its number.
    pub segment: u64,
    /// In use; otherwise it is clean.
    pub in_use: bool,
    /// It is being written, or damaged: cleaners do not touch it.
    pub busy: bool,
    /// Live bytes.
    pub live_bytes: u32,
    /// Last write to it, in nanoseconds since 1970.
    pub written_ns: i64,
    /// Youngest modification time in it, in nanoseconds since 1970.
    pub youngest_ns: i64,
    /// The log that wrote it.
    pub log: u8,
}

impl From<&SegmentInfo> for Segment {
    fn from(info: &SegmentInfo) -> Self {
        Self {
            segment: info.segment.0,
            in_use: info.usage.in_use,
            busy: info.is_busy,
            live_bytes: info.usage.live_bytes,
            written_ns: info.usage.written.0,
            youngest_ns: info.usage.youngest.0,
            log: info.usage.log,
        }
    }
}

/// How much room there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Room {
    /// Bytes written to the log since mkfs.
    pub log_bytes: u64,
    /// Segments of the volume.
    pub segments: u64,
    /// Clean segments.
    pub clean: u64,
    /// Clean segments that can be written now; the others wait for a checkpoint.
    pub ready: u64,
    /// The daemon cleans by itself below this many.
    pub low: u64,
}

impl From<port::Room> for Room {
    fn from(room: port::Room) -> Self {
        Self {
            log_bytes: room.log_bytes,
            segments: room.segments,
            clean: room.ready_segments + room.waiting_segments,
            ready: room.ready_segments,
            low: room.low_segments,
        }
    }
}

/// Answer to `segments`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Segments {
    /// Size of each.
    pub segment_bytes: u32,
    /// The time of the daemon's clock, in nanoseconds since 1970.
    pub now_ns: i64,
    /// How much room there is.
    pub room: Room,
    /// The segments of this page.
    pub list: Vec<Segment>,
    /// Where the next page begins; null after the last.
    pub next: Option<u64>,
}

/// An inode in the inode map.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Inode {
    /// Its number.
    pub ino: u64,
    /// Bumped when it is deleted or truncated to zero.
    pub version: u32,
    /// Place of its record, in sectors from the start of the log; null while the record is only in memory.
    pub addr: Option<u64>,
    /// It has no names, or its blocks are being freed.
    pub orphan: bool,
    /// Last access, in nanoseconds since 1970.
    pub atime_ns: i64,
}

/// Answer to `inodes`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Inodes {
    /// The inodes in use among the numbers of this page.
    pub list: Vec<Inode>,
    /// Where the next page begins; null after the last.
    pub next: Option<u64>,
}

/// Answer to `segment_read`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Contents {
    /// The blocks that the summaries list, live or not.
    pub blocks: Vec<Block>,
    /// Where the next page begins; null after the last.
    pub next: Option<u64>,
}

/// Answer to `markv`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Marked {
    /// For each block: `moved`, `dead`, `unknown`, `busy`, `damaged` or `no_room`.
    pub fates: Vec<WireFate>,
    /// Stored bytes of the blocks that moved.
    pub moved_bytes: u64,
}

/// See [`Fate`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // those of `Fate`
pub enum WireFate {
    Moved,
    Dead,
    Unknown,
    Busy,
    Damaged,
    NoRoom,
}

impl From<Fate> for WireFate {
    fn from(fate: Fate) -> Self {
        match fate {
            Fate::Moved => Self::Moved,
            Fate::Dead => Self::Dead,
            Fate::Unknown => Self::Unknown,
            Fate::Busy => Self::Busy,
            Fate::Damaged => Self::Damaged,
            Fate::NoRoom => Self::NoRoom,
        }
    }
}

/// Whether a segment is clean.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is clean.
    Clean,
    /// The next checkpoint will find it empty.
    Empty,
    /// This many of its bytes are live.
    Live(u32),
    /// It is being written, or there is no such segment.
    Busy,
}

impl From<Emptiness> for State {
    fn from(emptiness: Emptiness) -> Self {
        match emptiness {
            Emptiness::Clean => Self::Clean,
            Emptiness::Empty => Self::Empty,
            Emptiness::Live(bytes) => Self::Live(bytes),
            Emptiness::Busy => Self::Busy,
        }
    }
}

/// Answer to `segclean`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cleaned {
    /// One for each segment in the request.
    pub states: Vec<State>,
    /// How much room there is.
    pub room: Room,
}

/// Answer to `coalesce`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Coalesced {
    /// Bytes examined, as stored.
    pub bytes: u64,
    /// Places in them where a reader had to seek.
    pub seams_before: u64,
    /// Places where a reader still has to seek.
    pub seams_after: u64,
    /// Bytes rewritten, as stored.
    pub moved_bytes: u64,
    /// There was too little room to rewrite them.
    pub short: bool,
    /// Why, and what would help; null if there was room.
    #[serde(default)]
    pub short_because: Option<Shortage>,
    /// Where the next request continues, the same place if this one only made room; null after the last.
    pub next: Option<u64>,
}

/// Why there was too little room to put something in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shortage {
    /// Too much of the volume is live.
    Full,
    /// Cleaning gained no segments any more.
    NoGain,
}

/// Answer to `trim`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Trimmed {
    /// Clean segments of this part that were discarded, in bytes.
    pub bytes: u64,
    /// Where the next request continues; null after the last.
    pub next: Option<u64>,
    /// Parts of the volume.
    pub parts: u64,
}

impl From<firnfs::lfs::Trimmed> for Trimmed {
    fn from(done: firnfs::lfs::Trimmed) -> Self {
        Self { bytes: done.bytes, next: done.next, parts: done.parts }
    }
}

impl From<firnfs::lfs::Coalesced> for Coalesced {
    fn from(done: firnfs::lfs::Coalesced) -> Self {
        Self {
            bytes: done.bytes,
            seams_before: done.seams_before,
            seams_after: done.seams_after,
            moved_bytes: done.moved_bytes,
            short: done.shortage.is_some(),
            short_because: done.shortage.map(|why| match why {
                firnfs::lfs::Shortage::Full => Shortage::Full,
                firnfs::lfs::Shortage::NoGain => Shortage::NoGain,
            }),
            next: done.next,
        }
    }
}
