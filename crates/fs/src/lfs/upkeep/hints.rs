//! Reports users' operations to `seams` from which it learns where files may be scattered. Caller: `store`, in those
//! operations. Clones are left as they are: what they share with their origins does not move with them.

use crate::inode::Kind;
use crate::lfs::Lfs;
use crate::states::branch_of;
use crate::store::Fork;
use firnfs_format::{BlockPtr, InodeNo};

impl Lfs {
    /// Notes the places of the blocks of a read, from a block of a file on; `None` for those that are not read from the
    /// device.
    pub(in crate::lfs) fn note_read(&mut self, ino: InodeNo, first_block: u64, places: &[Option<BlockPtr>]) {
        if branch_of(ino) != 0 {
            return;
        }
        let places = places.iter().map(|place| place.map(|ptr| (ptr.addr, ptr.len_sectors)));
        let grid = self.grid();
        self.upkeep.coalescing.seams.note_read(&grid, ino, first_block, places);
    }

    /// Notes a write to a part of a file; its inode is in memory.
    pub(in crate::lfs) fn note_write(&mut self, ino: InodeNo, fork: Fork, at_bytes: u64) {
        let inode = &self.core(ino).inode;
        if branch_of(ino) == 0
            && fork == Fork::Data
            && inode.kind == Kind::Regular
            && at_bytes < inode.size_bytes
        {
            self.upkeep.coalescing.seams.note_overwrite(ino);
        }
    }

    /// Notes that a lookup found an inode in a directory.
    pub(in crate::lfs) fn note_found(&mut self, dir: InodeNo, ino: InodeNo) {
        let record = self.files.peek(ino).map(|core| core.record);
        let Some(record) = record.filter(|ptr| ptr.is_stored() && branch_of(ino) == 0) else {
            return;
        };
        let grid = self.grid();
        self.upkeep.coalescing.seams.note_child(&grid, dir, ino, (record.addr, record.len_sectors));
    }
}
