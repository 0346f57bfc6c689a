//! Walks the inode map and the segment usage table of a checkpoint, and the block maps of inodes.

use super::Image;
use crate::failure::Done;
use firnfs::bmap::Geometry;
use firnfs_format::checkpoint::TableRoot;
use firnfs_format::inode::{DIRECT_POINTERS, FORKS, Roots};
use firnfs_format::pointer::POINTER_BYTES;
use firnfs_format::table::{Node, TABLE_ENTRY_BYTES, TableEntry};
use firnfs_format::{BlockIndex, BlockPtr};

/// Trees are never higher than this: with 128 children per node, height 8 reaches 2^63 entries.
const MAX_HEIGHT: u32 = 8;

impl Image {
    /// Calls `visit` with the number and content of every used entry of a table, in order.
    ///
    /// # Errors
    /// Reading or checking a block of the table fails.
    pub fn walk_table<E: TableEntry>(
        &self,
        root: &TableRoot,
        what: &str,
        visit: &mut dyn FnMut(u64, E),
    ) -> Done {
        if root.height > MAX_HEIGHT {
            return Err(
                self.damaged(format_args!("{what} has height {}, at most {MAX_HEIGHT} can be", root.height))
            );
        }
        self.walk_below(&root.ptr, root.height, 0, what, visit)
    }

    fn walk_below<E: TableEntry>(
        &self,
        ptr: &BlockPtr,
        height: u32,
        index: u64,
        what: &str,
        visit: &mut dyn FnMut(u64, E),
    ) -> Done {
        if !ptr.is_stored() {
            return Ok(());
        }
        let block = self.read(ptr, &format!("{what} block {index} of level {height}"))?;
        for (slot, bytes) in block.as_chunks::<TABLE_ENTRY_BYTES>().0.iter().enumerate() {
            let below = index * self.table_fan() + slot as u64;
            if height == 0 {
                let entry = E::decode(bytes);
                if entry.is_used() || entry.is_special() {
                    visit(below, entry);
                }
            } else {
                self.walk_below(&Node::decode(bytes).ptr, height - 1, below, what, visit)?;
            }
        }
        Ok(())
    }

    /// One entry of a table; the default beyond the end of the table.
    ///
    /// # Errors
    /// Reading or checking a block of the table fails.
    pub fn table_entry<E: TableEntry>(&self, root: &TableRoot, number: u64, what: &str) -> Done<E> {
        let fan = self.table_fan();
        let mut ptr = root.ptr;
        for height in (0..=root.height.min(MAX_HEIGHT)).rev() {
            let below = fan.saturating_pow(height);
            let slot = number / below;
            // Only in the root can the slot exceed its entries; further down the remainder is taken.
            let slot = if height == root.height { slot } else { slot % fan };
            if slot >= fan || !ptr.is_stored() {
                return Ok(E::default());
            }
            let block = self.read(&ptr, &format!("{what} level {height}"))?;
            let entries = block.as_chunks::<TABLE_ENTRY_BYTES>().0;
            let Some(bytes) = entries.get(slot as usize) else { return Ok(E::default()) };
            if height == 0 {
                return Ok(E::decode(bytes));
            }
            ptr = Node::decode(bytes).ptr;
        }
        Ok(E::default())
    }

    fn table_fan(&self) -> u64 {
        u64::from(self.superblock.block_bytes) / TABLE_ENTRY_BYTES as u64
    }

    /// Calls `visit` with every stored or reserved block of a fork: BSD-LFS's block number and the pointer. Indirect
    /// blocks come before the blocks that they point to.
    ///
    /// # Errors
    /// Reading or checking an indirect block fails.
    pub fn walk_blocks(&self, roots: &Roots, visit: &mut dyn FnMut(i64, u8, &BlockPtr)) -> Done {
        let map = Geometry::new(self.superblock.block_bytes, POINTER_BYTES as u32);
        for (slot, ptr) in roots.direct.iter().chain(&roots.indirect).enumerate() {
            let (level, index) = Geometry::root(slot);
            self.walk_blocks_below(map, ptr, level, index, visit)?;
        }
        Ok(())
    }

    fn walk_blocks_below(
        &self,
        map: Geometry,
        ptr: &BlockPtr,
        level: u8,
        index: BlockIndex,
        visit: &mut dyn FnMut(i64, u8, &BlockPtr),
    ) -> Done {
        if ptr.is_hole() {
            return Ok(());
        }
        let number = map.lbn(level, index);
        visit(number, level, ptr);
        if level == 0 || !ptr.is_stored() {
            return Ok(());
        }
        let block = self.read(ptr, &format!("indirect block {number}"))?;
        for (slot, bytes) in block.as_chunks::<POINTER_BYTES>().0.iter().enumerate() {
            let child = map.child(level, index, slot);
            self.walk_blocks_below(map, &BlockPtr::decode(bytes), level - 1, child, visit)?;
        }
        Ok(())
    }
}

// The walk relies on the inode's pointers being the slots of the block map.
const _: () = assert!(DIRECT_POINTERS as u64 == firnfs::bmap::DIRECT && FORKS == 3);
