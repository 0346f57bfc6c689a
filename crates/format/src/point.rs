//! A retained point of a checkpoint: an older state whose blocks are kept; and the retention, which says which of them stay.
//!
//! Caller: `checkpoint`, which also re-exports everything here. The checksum of the slot covers these bytes.

use crate::checkpoint::TableRoot;
use crate::error::{DecodeError, ensure};
use crate::layout::layout;
use crate::pointer::BlockPtr;
use crate::units::{Epoch, InodeNo, TimeNs};
use zerocopy::byteorder::little_endian::{I64, U32, U64};

/// Bytes of a point's name at most.
pub const POINT_NAME_MAX: usize = 80;
/// Bytes of a point, in a checkpoint slot and in the file of points.
pub const POINT_BYTES: usize = 192;
/// Rules of a retention at most.
pub const RULES_MAX: usize = 6;

layout! {
    /// A retained point: an older state of the volume whose blocks are kept. In a checkpoint slot they are in the order of epochs after the
    /// counters; in the file of points they are in any order, and what has epoch 0 is none.
    PointRaw = 192 {
        /// Number of the checkpoint that has this state
        epoch: U32,
        /// Flags: 1 = being dropped, everything up to the cursor is done; 2 = automatic: dropped when retention says so
        flags: U32,
        /// When it was made, ns since 1970
        time_ns: I64,
        /// Root of the inode map then: a block pointer
        imap_root: [u8; 16],
        /// Height of its tree
        imap_height: U32,
        /// Length of the name in bytes; only an automatic point may have none
        name_len: U32,
        /// Inodes in use then
        imap_used: U64,
        /// First inode number never used then
        next_ino: U64,
        /// Live bytes then
        live_bytes: U64,
        /// Cursor: inode
        cursor_ino: U64,
        /// Cursor: stage within the inode: 0 = blocks, 1 = its record, 2 = the inode map up to it
        cursor_stage: U32,
        /// Cursor: fork
        cursor_fork: U32,
        /// Cursor: last data block that the block leads to
        cursor_last: U64,
        /// Cursor: level
        cursor_level: U32,
        /// Zero
        reserved: [u8; 20],
        /// Name, UTF-8, zeros after it
        name: [u8; 80],
    }
}

/// Where the walk that drops a point is, in the order in which it meets blocks: those of an inode, its record, then the blocks of
/// the inode map after the last inode that they lead to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct PointCursor {
    /// Inode; for a block of the inode map the last one that it leads to.
    pub ino: u64,
    /// 0 = blocks, 1 = the record, 2 = the inode map.
    pub stage: u32,
    /// Fork.
    pub fork: u32,
    /// The last data block that the block leads to.
    pub last: u64,
    /// Level.
    pub level: u32,
}

/// A retained point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point {
    /// Number of the checkpoint that has this state.
    pub epoch: Epoch,
    /// When it was made.
    pub time: TimeNs,
    /// The inode map then; without the count of orphans.
    pub imap: TableRoot,
    /// First inode number never used then.
    pub next_ino: InodeNo,
    /// Live bytes then.
    pub live_bytes: u64,
    /// While it is being dropped: everything up to there is done.
    pub dropped_to: Option<PointCursor>,
    /// Made by itself, and dropped when retention says so or space is short.
    pub is_automatic: bool,
    /// At most [`POINT_NAME_MAX`] bytes; only an automatic point may have none.
    pub name: String,
}

/// Which automatic points are kept.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Retention {
    /// Share of the volume that they may hold, in percent; 0: no points are made.
    pub percent: u32,
    /// At most [`RULES_MAX`]; a point stays if one of them keeps it.
    pub rules: Vec<Rule>,
}

/// Keeps the first point of each period, for some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Length of a period in seconds; 0 keeps every point.
    pub every_s: u32,
    /// How long it keeps them, in seconds.
    pub for_s: u32,
}

impl Retention {
    pub(crate) fn encode_rules(&self) -> [u8; RULES_MAX * 8] {
        let mut out = [0; RULES_MAX * 8];
        for (rule, place) in self.rules.iter().zip(out.as_chunks_mut::<8>().0) {
            place[..4].copy_from_slice(&rule.every_s.to_le_bytes());
            place[4..].copy_from_slice(&rule.for_s.to_le_bytes());
        }
        out
    }

    pub(crate) fn decode(percent: u32, rules: &[u8; RULES_MAX * 8]) -> Result<Self, DecodeError> {
        ensure(percent <= 100, "share of history", "at most 100 %", percent)?;
        let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let rules = rules.as_chunks::<8>().0.iter();
        let rules = rules.map(|rule| Rule { every_s: word(&rule[..4]), for_s: word(&rule[4..]) });
        Ok(Self { percent, rules: rules.take_while(|rule| rule.for_s > 0).collect() })
    }
}

impl Point {
    /// As a row of the file of points.
    #[must_use]
    pub fn encode_row(&self) -> [u8; POINT_BYTES] {
        zerocopy::transmute!(self.encode())
    }

    /// A row of the file of points; `None` where there is none.
    ///
    /// # Errors
    /// [`DecodeError`]: a name that is not one.
    pub fn decode_row(row: &[u8; POINT_BYTES]) -> Result<Option<Self>, DecodeError> {
        let raw: PointRaw = zerocopy::transmute!(*row);
        if raw.epoch.get() == 0 { Ok(None) } else { Self::decode(&raw).map(Some) }
    }

    pub(crate) fn encode(&self) -> PointRaw {
        let cursor = self.dropped_to.unwrap_or_default();
        let mut name = [0; POINT_NAME_MAX];
        name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        PointRaw {
            epoch: self.epoch.0.into(),
            flags: (u32::from(self.dropped_to.is_some()) | u32::from(self.is_automatic) << 1).into(),
            time_ns: self.time.0.into(),
            imap_root: self.imap.ptr.encode(),
            imap_height: self.imap.height.into(),
            name_len: (self.name.len() as u32).into(),
            imap_used: self.imap.used.into(),
            next_ino: self.next_ino.0.into(),
            live_bytes: self.live_bytes.into(),
            cursor_ino: cursor.ino.into(),
            cursor_stage: cursor.stage.into(),
            cursor_fork: cursor.fork.into(),
            cursor_last: cursor.last.into(),
            cursor_level: cursor.level.into(),
            reserved: [0; 20],
            name,
        }
    }

    pub(crate) fn decode(raw: &PointRaw) -> Result<Self, DecodeError> {
        let is_automatic = raw.flags.get() & 2 != 0;
        let name = raw.name.get(..raw.name_len.get() as usize);
        let name = name.filter(|name| is_automatic || !name.is_empty());
        let name = name.and_then(|name| std::str::from_utf8(name).ok());
        let name = name.ok_or_else(|| {
            DecodeError::new("name of a point", "1 to 80 bytes of UTF-8", raw.name_len.get())
        })?;
        let cursor = PointCursor {
            ino: raw.cursor_ino.get(),
            stage: raw.cursor_stage.get(),
            fork: raw.cursor_fork.get(),
            last: raw.cursor_last.get(),
            level: raw.cursor_level.get(),
        };
        Ok(Self {
            epoch: Epoch(raw.epoch.get()),
            time: TimeNs(raw.time_ns.get()),
            imap: TableRoot {
                ptr: BlockPtr::decode(&raw.imap_root),
                height: raw.imap_height.get(),
                used: raw.imap_used.get(),
                special: 0,
            },
            next_ino: InodeNo(raw.next_ino.get()),
            live_bytes: raw.live_bytes.get(),
            dropped_to: (raw.flags.get() & 1 != 0).then_some(cursor),
            is_automatic,
            name: name.to_owned(),
        })
    }
}
