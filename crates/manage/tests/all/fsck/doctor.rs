//! Ways to damage a volume: change bytes of a block, or change any structure and update all checksums above
//! it.

use crate::fsck::fixture::{BLOCK, Fixture};
use firnfs::lfs::Geometry;
use firnfs::lfs::view::Placed;
use firnfs::store::{Fork, Intent, Op, OpKind, Store};
use firnfs_device::{AlignedBuf, Device};
use firnfs_format::checkpoint::{Checkpoint, TableRoot};
use firnfs_format::superblock::{CHECKPOINT_SLOT_BYTES, CHECKPOINT_SLOTS_AT, Superblock};
use firnfs_format::table::{ImapEntry, TABLE_ENTRY_BYTES, TableEntry, UsageEntry};
use firnfs_format::{BlockPtr, InodeNo};
use std::sync::Arc;

/// One of the two tables.
#[derive(Clone, Copy)]
pub enum Table {
    Imap,
    Usage,
}

impl Fixture {
    pub fn read(&self, at_bytes: u64, len_bytes: usize) -> Vec<u8> {
        self.device.read(at_bytes, len_bytes as u32).unwrap().to_vec()
    }

    pub fn write(&self, at_bytes: u64, bytes: &[u8]) {
        self.device.write(at_bytes, Arc::new(AlignedBuf::copy_of(bytes))).unwrap();
    }

    pub fn geometry(&self) -> Geometry {
        Geometry::new(&self.superblock(), crate::fsck::fixture::SIZE_BYTES)
    }

    fn superblock(&self) -> Superblock {
        Superblock::decode(&self.read(Superblock::places(0)[0], 4096)).unwrap()
    }

    /// Flips a bit in the target of a pointer.
    pub fn damage(&self, ptr: &BlockPtr) {
        let at_bytes = self.geometry().device_bytes(ptr.addr);
        let mut bytes = self.read(at_bytes, ptr.stored_bytes() as usize);
        bytes[7] ^= 0x10;
        self.write(at_bytes, &bytes);
    }

    /// All blocks of a path's inode.
    pub fn blocks(&self, path: &str) -> Vec<Placed> {
        let ino = self.ino(path);
        self.with_volume(|volume| volume.run(|vfs, _| vfs.store_mut().inode_blocks(ino)).unwrap())
    }

    /// One block of a path's inode.
    pub fn block(&self, path: &str, fork: Fork, level: u8, index: u64) -> BlockPtr {
        let blocks = self.blocks(path);
        let wanted = |b: &&Placed| (b.key.fork, b.key.level, b.key.index.0) == (fork, level, index);
        blocks.iter().find(wanted).unwrap_or_else(|| panic!("{path} has no such block")).ptr
    }

    fn newest_slot(&self) -> (u64, Checkpoint) {
        let uuid = self.superblock().uuid;
        let slots = CHECKPOINT_SLOTS_AT.map(|at| {
            let bytes = self.read(at, CHECKPOINT_SLOT_BYTES as usize);
            (at, Checkpoint::decode(&bytes, &uuid).ok())
        });
        let valid = slots.into_iter().filter_map(|(at, slot)| Some((at, slot?)));
        valid.max_by_key(|(_, slot)| slot.epoch).unwrap()
    }

    pub fn checkpoint(&self) -> Checkpoint {
        self.newest_slot().1
    }

    /// Changes the newest checkpoint.
    pub fn edit_checkpoint(&self, edit: impl FnOnce(&mut Checkpoint)) {
        let (at_bytes, mut slot) = self.newest_slot();
        edit(&mut slot);
        self.write(at_bytes, &slot.encode(4096));
    }

    fn root_of(slot: &mut Checkpoint, table: Table) -> &mut TableRoot {
        match table {
            Table::Imap => &mut slot.imap,
            Table::Usage => &mut slot.usage,
        }
    }

    /// Changes the root of a table in the newest checkpoint.
    pub fn edit_table_root(&self, table: Table, edit: impl FnOnce(&mut TableRoot)) {
        self.edit_checkpoint(|slot| edit(Self::root_of(slot, table)));
    }

    /// Changes the only leaf of a table.
    fn edit_leaf(&self, table: Table, edit: impl FnOnce(&mut [u8])) {
        self.edit_checkpoint(|slot| {
            let root = Self::root_of(slot, table);
            assert_eq!(root.height, 0, "the volume is small");
            let at_bytes = self.geometry().device_bytes(root.ptr.addr);
            let mut bytes = self.read(at_bytes, root.ptr.stored_bytes() as usize);
            edit(&mut bytes);
            self.write(at_bytes, &bytes);
            root.ptr.crc = firnfs_format::crc32c(&bytes);
        });
    }

    fn edit_entry<E: TableEntry>(&self, table: Table, n: u64, edit: impl FnOnce(&mut E)) {
        self.edit_leaf(table, |bytes| {
            let bytes = &mut bytes[n as usize * TABLE_ENTRY_BYTES..][..TABLE_ENTRY_BYTES];
            let mut entry = E::decode((&*bytes).try_into().unwrap());
            edit(&mut entry);
            bytes.copy_from_slice(&entry.encode());
        });
    }

    pub fn edit_imap(&self, ino: InodeNo, edit: impl FnOnce(&mut ImapEntry)) {
        self.edit_entry(Table::Imap, ino.0, edit);
    }

    pub fn edit_usage(&self, segment: u64, edit: impl FnOnce(&mut UsageEntry)) {
        self.edit_entry(Table::Usage, segment, edit);
    }

    /// Usage entries by segment.
    pub fn usage(&self) -> Vec<UsageEntry> {
        let mut found = Vec::new();
        let ptr = self.checkpoint().usage.ptr;
        let bytes = self.read(self.geometry().device_bytes(ptr.addr), ptr.stored_bytes() as usize);
        found.extend(bytes.as_chunks().0.iter().map(UsageEntry::decode));
        found
    }

    pub fn record_ptr(&self, ino: InodeNo) -> BlockPtr {
        let mut ptr = BlockPtr::HOLE;
        self.edit_imap(ino, |entry| ptr = entry.ptr);
        ptr
    }

    /// Changes an inode's record.
    pub fn edit_record(&self, path: &str, edit: impl FnOnce(&mut [u8])) {
        let ino = self.ino(path);
        let ptr = self.record_ptr(ino);
        let at_bytes = self.geometry().device_bytes(ptr.addr);
        let mut bytes = self.read(at_bytes, ptr.stored_bytes() as usize);
        edit(&mut bytes);
        self.write(at_bytes, &bytes);
        self.edit_imap(ino, |entry| entry.ptr.crc = firnfs_format::crc32c(&bytes));
    }

    /// Changes an inode in a way that an operation could.
    pub fn edit_inode(&self, path: &str, edit: impl FnOnce(&mut firnfs::inode::Inode)) {
        let ino = self.ino(path);
        let look = |volume: &firnfs_volume::Volume<firnfs::lfs::Lfs>| {
            volume.run(|vfs, _| Ok(vfs.store_mut().inode(ino)?.clone()))
        };
        let mut edited = self.with_volume(look).unwrap();
        edit(&mut edited);
        let size_bytes = edited.size_bytes;
        let intents = [Intent::Change { ino, grow_bytes: 512 }, Intent::Resize { ino, size_bytes }];
        self.operate(&intents, |store, op| *store.inode_mut(op, ino) = edited);
    }

    /// Changes a block in place.
    pub fn edit_block(&self, path: &str, fork: Fork, index: u64, edit: impl FnOnce(&mut [u8])) {
        let ino = self.ino(path);
        let at_bytes = index * BLOCK as u64;
        let intents = [Intent::Edit { ino, fork, at_bytes }, Intent::Change { ino, grow_bytes: 0 }];
        self.operate(&intents, |store, op| {
            edit(store.block_mut(op, ino, fork, firnfs_format::BlockIndex(index)));
        });
    }

    /// Runs any operation on the store.
    pub fn operate(&self, intents: &[Intent], work: impl FnOnce(&mut firnfs::lfs::Lfs, &mut Op)) {
        self.with_volume(|volume| {
            let mut work = Some(work);
            volume
                .run(|vfs, now| {
                    let store = vfs.store_mut();
                    let mut op = store.begin(now, OpKind::Names, intents)?;
                    (work.take().expect("begun once"))(store, &mut op);
                    store.end(op);
                    Ok(())
                })
                .unwrap();
        });
    }
}
