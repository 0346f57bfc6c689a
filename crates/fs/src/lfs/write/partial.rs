//! `PartialWriter`: fills a partial segment that has its place, item by item.
//!
//! Content of files is shared with the cache; records and metadata are copied, since they change again soon. Callers: `commit` and
//! `checkpoint`, which then put it in line ([`Lfs::finish_partial`](crate::lfs::Lfs::finish_partial)).

use crate::lfs::base::geometry::Geometry;
use crate::lfs::base::kinds::{KindBytes, LogKind};
use crate::lfs::map::parcel::Parcel;
use crate::lfs::write::log::Planned;
use crate::store::Buf;
use firnfs_format::summary::Entry;
use firnfs_format::{BlockPtr, PtrKind, SECTOR_BYTES, SectorAddr, TimeNs};

/// See the module's head.
pub(in crate::lfs) struct PartialWriter {
    /// What was put so far.
    pub parcel: Parcel,
    /// Entries of what was put so far.
    pub entries: Vec<Entry>,
    /// Where the partial segment begins.
    start: SectorAddr,
    /// Where the next block goes, from the beginning.
    sector: u32,
    /// What was put so far, in bytes.
    pub placed: KindBytes,
    /// Youngest modification time of that.
    pub youngest: TimeNs,
}

impl PartialWriter {
    /// `own_sectors` is how much will be copied or made in it, beside the summary and the blocks that it shares.
    pub(in crate::lfs) fn new(geo: &Geometry, plan: &Planned, own_sectors: u32) -> Self {
        let bytes = |sectors: u32| (sectors * SECTOR_BYTES) as usize;
        Self {
            parcel: Parcel::new(
                bytes(plan.len_sectors),
                bytes(plan.summary_sectors),
                bytes(own_sectors),
                plan.items.len(),
            ),
            entries: Vec::with_capacity(plan.items.len()),
            start: geo.addr(plan.segment, plan.start_sector),
            sector: plan.summary_sectors,
            placed: KindBytes::default(),
            youngest: TimeNs::default(),
        }
    }

    fn at_bytes(&self) -> usize {
        (self.sector * SECTOR_BYTES) as usize
    }

    /// Gives what was just put its address.
    fn place(&mut self, ptr: BlockPtr, crc: u32) -> BlockPtr {
        let addr = SectorAddr(self.start.0 + u64::from(self.sector));
        self.sector += u32::from(ptr.len_sectors);
        BlockPtr { addr, kind: PtrKind::Plain, crc, ..ptr }
    }

    /// Puts the next stored block; `fill` gets zeros to fill in. Returns the pointer with address and checksum.
    pub(in crate::lfs) fn put_own(&mut self, ptr: BlockPtr, fill: impl FnOnce(&mut [u8])) -> BlockPtr {
        let out = self.parcel.add_zeros(self.at_bytes(), ptr.stored_bytes() as usize);
        fill(out);
        let crc = firnfs_format::crc32c(out);
        self.place(ptr, crc)
    }

    /// Puts the next stored block, a copy: metadata changes again soon.
    pub(in crate::lfs) fn put_copy(&mut self, ptr: BlockPtr, block: &[u8]) -> BlockPtr {
        let stored = &block[..ptr.stored_bytes() as usize];
        self.parcel.add_copy(self.at_bytes(), stored);
        self.place(ptr, firnfs_format::crc32c(stored))
    }

    /// Puts the next stored block, shared with the cache. `crc` is that of the whole block, if it is known.
    pub(in crate::lfs) fn put_data(&mut self, ptr: BlockPtr, block: Buf, crc: Option<u32>) -> BlockPtr {
        let len = ptr.stored_bytes() as usize;
        let crc = crc.filter(|_| len == block.len()).unwrap_or_else(|| firnfs_format::crc32c(&block[..len]));
        self.parcel.add_block(self.at_bytes(), len, block);
        self.place(ptr, crc)
    }

    /// Counts what was just put.
    pub(in crate::lfs) fn adds_live(&mut self, kind: LogKind, ptr: &BlockPtr, mtime: TimeNs) {
        self.placed.add(kind, ptr.stored_bytes());
        self.youngest = self.youngest.max(mtime);
    }
}
