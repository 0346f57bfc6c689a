//! Entries of the two internal tables, inode map and segment usage, and of the nodes above their leaves.
//!
//! Both tables are trees of blocks: leaves hold 32-byte entries, nodes hold 32-byte [`Node`]s. A node holds sums over
//! everything below it, so that a free inode number, an orphan or a clean segment is found without a scan.

use crate::layout::layout;
use crate::pointer::BlockPtr;
use crate::units::{Epoch, TimeNs};
use zerocopy::byteorder::little_endian::{I64, U32, U64};

/// Size of a table entry or node in bytes.
pub const TABLE_ENTRY_BYTES: usize = 32;

layout! {
    /// Entry of the inode map.
    ImapRaw = 32 {
        /// Pointer to the inode record; a hole if the number is free
        ptr: [u8; 16],
        /// Version: grows with every use of the number and every truncation to zero (Sprite); stays when the number is free
        version: U32,
        /// Bits: 1 = orphan (no names, or blocks still to be freed)
        flags: U32,
        /// Access time, ns since 1970 (Sprite keeps it here)
        atime_ns: I64,
    }
}

layout! {
    /// Entry of the segment usage table. All zero: never used.
    UsageRaw = 32 {
        /// Live bytes
        live_bytes: U32,
        /// Bits: 1 = in use; else clean
        state: U32,
        /// Youngest modification time of its blocks, ns since 1970
        youngest_ns: I64,
        /// Last log write into it, ns since 1970
        written_ns: I64,
        /// Clean segments: number of the checkpoint that found it empty; 0 = never used
        epoch: U32,
        /// Log that wrote it
        log: U32,
    }
}

layout! {
    /// Node above the leaves of a table.
    NodeRaw = 32 {
        /// Pointer to the child block; a hole if nothing below is in use
        ptr: [u8; 16],
        /// Entries in use below
        used: U64,
        /// Inode map: orphans below
        special: U64,
    }
}

/// A fixed-size entry of a table's leaf.
pub trait TableEntry: Copy + Default + PartialEq {
    /// The 32 bytes on disk.
    fn encode(&self) -> [u8; TABLE_ENTRY_BYTES];
    /// Reads 32 bytes; total.
    fn decode(bytes: &[u8; TABLE_ENTRY_BYTES]) -> Self;
    /// Counts as used in the nodes above.
    fn is_used(&self) -> bool;
    /// Counts as special in the nodes above.
    fn is_special(&self) -> bool;
}

/// The place of an inode's record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImapEntry {
    /// The record; a hole if the number is free.
    pub ptr: BlockPtr,
    /// See [`ImapRaw`].
    pub version: u32,
    /// See [`ImapRaw`].
    pub orphan: bool,
    /// Last access.
    pub atime: TimeNs,
}

impl Default for ImapEntry {
    fn default() -> Self {
        Self { ptr: BlockPtr::HOLE, version: 0, orphan: false, atime: TimeNs(0) }
    }
}

impl TableEntry for ImapEntry {
    fn encode(&self) -> [u8; TABLE_ENTRY_BYTES] {
        let raw = ImapRaw {
            ptr: self.ptr.encode(),
            version: self.version.into(),
            flags: u32::from(self.orphan).into(),
            atime_ns: self.atime.0.into(),
        };
        zerocopy::transmute!(raw)
    }
    fn decode(bytes: &[u8; TABLE_ENTRY_BYTES]) -> Self {
        let raw: ImapRaw = zerocopy::transmute!(*bytes);
        Self {
            ptr: BlockPtr::decode(&raw.ptr),
            version: raw.version.get(),
            orphan: raw.flags.get() & 1 != 0,
            atime: TimeNs(raw.atime_ns.get()),
        }
    }
    fn is_used(&self) -> bool {
        !self.ptr.is_hole()
    }
    fn is_special(&self) -> bool {
        self.orphan
    }
}

/// State of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UsageEntry {
    /// Live bytes, 0 to the segment size.
    pub live_bytes: u32,
    /// Holds data, or has held data and waits for the next checkpoint; else clean.
    pub in_use: bool,
    /// Youngest modification time of its blocks.
    pub youngest: TimeNs,
    /// Last log write into it.
    pub written: TimeNs,
    /// Clean: the checkpoint that found it empty.
    pub epoch: Epoch,
    /// Log that wrote it.
    pub log: u8,
}

impl TableEntry for UsageEntry {
    fn encode(&self) -> [u8; TABLE_ENTRY_BYTES] {
        let raw = UsageRaw {
            live_bytes: self.live_bytes.into(),
            state: u32::from(self.in_use).into(),
            youngest_ns: self.youngest.0.into(),
            written_ns: self.written.0.into(),
            epoch: self.epoch.0.into(),
            log: u32::from(self.log).into(),
        };
        zerocopy::transmute!(raw)
    }
    fn decode(bytes: &[u8; TABLE_ENTRY_BYTES]) -> Self {
        let raw: UsageRaw = zerocopy::transmute!(*bytes);
        Self {
            live_bytes: raw.live_bytes.get(),
            in_use: raw.state.get() & 1 != 0,
            youngest: TimeNs(raw.youngest_ns.get()),
            written: TimeNs(raw.written_ns.get()),
            epoch: Epoch(raw.epoch.get()),
            log: raw.log.get() as u8,
        }
    }
    fn is_used(&self) -> bool {
        self.in_use
    }
    fn is_special(&self) -> bool {
        false
    }
}

/// A node above a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Node {
    /// The child block.
    pub ptr: BlockPtr,
    /// Entries in use below.
    pub used: u64,
    /// Special entries below.
    pub special: u64,
}

impl Default for Node {
    fn default() -> Self {
        Self { ptr: BlockPtr::HOLE, used: 0, special: 0 }
    }
}

impl Node {
    /// The 32 bytes on disk.
    #[must_use]
    pub fn encode(&self) -> [u8; TABLE_ENTRY_BYTES] {
        let raw = NodeRaw { ptr: self.ptr.encode(), used: self.used.into(), special: self.special.into() };
        zerocopy::transmute!(raw)
    }
    /// Reads 32 bytes; total.
    #[must_use]
    pub fn decode(bytes: &[u8; TABLE_ENTRY_BYTES]) -> Self {
        let raw: NodeRaw = zerocopy::transmute!(*bytes);
        Self { ptr: BlockPtr::decode(&raw.ptr), used: raw.used.get(), special: raw.special.get() }
    }
}
