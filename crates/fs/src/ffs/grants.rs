//! Places for new blocks, by the rules of allocation: `ffs_balloc` and `ffs_realloccg` of 4.4BSD.

use super::Ffs;
use super::alloc::{Miss, NewBlock, Run, Wish};
use super::base::addr_of;
use super::map::{data_key, pointer_at};
use super::operation::Grant;
use crate::bmap::{DIRECT, Parent};
use crate::error::{Outcome, Stop};
use crate::store::{BlockKey, Fork};
use firnfs_format::ffs::Dinode;
use firnfs_format::ffs::inode::DINODE_BYTES;
use firnfs_format::{BlockIndex, InodeNo};

impl Ffs {
    /// Chooses the new inode, and reads its block of the table, which remembers its generation.
    pub(super) fn take_inode(&mut self, parent: InodeNo, is_dir: bool) -> Outcome<InodeNo> {
        assert!(self.operation.new_inode.is_none(), "one new inode an operation");
        let taken = self.groups.take_inode(parent.0 as u32, is_dir);
        let ino = InodeNo(taken.map_err(|miss| self.overcome_miss(miss))?.into());
        self.operation.new_inode = Some((ino, 0, is_dir));
        let (number, at) = self.geo.inode_block(ino);
        let block = self.load_inode_block(number)?;
        let old = Dinode::decode(&block[at..at + DINODE_BYTES]).unwrap_or_default();
        self.operation.new_inode = Some((ino, old.generation.wrapping_add(1).max(1), is_dir));
        Ok(ino)
    }

    fn group_of_inode(&self, ino: InodeNo) -> u32 {
        (ino.0 / u64::from(self.geo.layout.group_inodes)) as u32
    }

    /// Takes a place for a new block, and for the indirect blocks above it that are missing, from the top down.
    pub(super) fn take_block(&mut self, key: &BlockKey, frags: u32, ino: InodeNo) -> Outcome<()> {
        let way: Vec<_> = self.geo.map.path(key.index).skip(1).collect();
        let mut above = 0;
        for (level, index) in way.into_iter().rev() {
            let parent = BlockKey { level, index, ..*key };
            above = self.granted_or_known(&parent);
            if above == 0 {
                above = self.take_one(&parent, self.geo.block_frags(), ino, 0)?;
            }
        }
        self.take_one(key, frags, ino, above).map(drop)
    }

    /// The place of a block, whether it is there or granted; 0 if it is neither. Attributes are always new.
    fn granted_or_known(&mut self, key: &BlockKey) -> u32 {
        if let Some(grant) = self.operation.grants.get(key) {
            return grant.run.addr;
        }
        let is_new = key.fork == Fork::Xattr || self.files.peek(key.ino).is_none();
        if is_new { 0 } else { addr_of(self.known_ptr(key)) }
    }

    /// Takes a place for one block; `above`: the place of its indirect block.
    fn take_one(&mut self, key: &BlockKey, frags: u32, ino: InodeNo, above: u32) -> Outcome<u32> {
        let before = self.places_before(key);
        let wish = self.wish(key, ino, above, &before);
        let taken = match before.last() {
            Some(&last) if self.sb.tuning.smart_frag && frags < self.geo.block_frags() && last != 0 => {
                self.take_behind(last, frags, wish)
            }
            _ => self.groups.take(frags, wish),
        };
        let addr = taken.map_err(|miss| self.overcome_miss(miss))?;
        self.operation.grants.insert(*key, Grant { run: Run { addr, frags }, had: 0 });
        Ok(addr)
    }

    /// *SmartFrag*: the first fragments of the block after the last one if that is free, else as usual.
    fn take_behind(&mut self, last: u32, frags: u32, wish: Wish) -> Result<u32, Miss> {
        let block = Run { addr: last + self.geo.block_frags(), frags: self.geo.block_frags() };
        if self.groups.take_exactly(block)? {
            let rest = Run { addr: block.addr + frags, frags: block.frags - frags };
            self.groups.give(rest)?;
            return Ok(block.addr);
        }
        self.groups.take(frags, wish)
    }

    /// The pointers before a block in the inode or in its indirect block, as many as `maxcontig`, the last one last.
    fn places_before(&mut self, key: &BlockKey) -> Vec<u32> {
        if key.level > 0 {
            return Vec::new();
        }
        let in_array = match self.geo.map.parent(0, key.index) {
            Some(Parent::Inode(slot)) | Some(Parent::Indirect { slot, .. }) => slot as u64,
            None => 0,
        };
        let count = in_array.min(self.sb.tuning.maxcontig.into());
        let first = key.index.0 - count;
        (first..key.index.0).map(|index| self.granted_or_known(&data_key(key.ino, key.fork, index))).collect()
    }

    fn wish(&mut self, key: &BlockKey, ino: InodeNo, above: u32, before: &[u32]) -> Wish {
        let group = self.group_of_inode(ino);
        let first_indirect = key.index.0 == 0 && key.level == 1;
        let first_below = key.level == 0 && key.index.0 == DIRECT;
        let follows = match key.fork {
            Fork::Data if self.sb.tuning.no_switch && first_indirect => {
                Some(self.granted_or_known(&data_key(key.ino, Fork::Data, DIRECT - 1)))
            }
            Fork::Data if self.sb.tuning.no_switch && first_below => Some(above),
            _ => None,
        };
        let slot = match self.geo.map.parent(0, key.index) {
            _ if key.level > 0 => None,
            Some(Parent::Inode(slot)) | Some(Parent::Indirect { slot, .. }) => Some(slot as u32),
            None => None,
        };
        let new = NewBlock {
            block: self.geo.map.first_data(key.level, key.index).0,
            slot,
            before,
            is_direct: key.level == 0 && key.index.0 < DIRECT,
            follows: follows.filter(|addr| *addr != 0),
        };
        self.groups.wish(&new, group)
    }

    /// Takes the larger places of tails that grow: in place if the fragments after them are free, else elsewhere.
    pub(super) fn take_tails(&mut self, ino: InodeNo) -> Outcome<()> {
        let found = self.operation.reshapes.iter().find(|reshape| reshape.ino == ino);
        let changes = found.map_or(Vec::new(), |reshape| reshape.changes.clone());
        for (index, from, to) in changes {
            let key = data_key(ino, Fork::Data, index);
            if to > from && !self.operation.grants.contains_key(&key) {
                self.take_tail(&key, from, to)?;
            }
        }
        Ok(())
    }

    fn take_tail(&mut self, key: &BlockKey, from: u32, to: u32) -> Outcome<()> {
        let old = Run { addr: addr_of(self.known_ptr(key)), frags: from };
        let missed = |this: &Self, miss| -> Stop { this.overcome_miss(miss) };
        let extended = self.groups.extend(old, to).map_err(|miss| missed(self, miss))?;
        if extended {
            let grant = Grant { run: Run { addr: old.addr, frags: to }, had: from };
            self.operation.grants.insert(*key, grant);
            return Ok(());
        }
        let before = self.places_before(key);
        let wish = self.wish(key, key.ino, 0, &before);
        let whole = self.geo.block_frags();
        // A whole block, of which the rest stays free: the next growth is in place. Else what there is.
        let taken = match self.groups.take(whole, wish) {
            Ok(addr) if to < whole => {
                let rest = Run { addr: addr + to, frags: whole - to };
                self.groups.give(rest).map(|_| addr)
            }
            Err(Miss::Full) if to < whole => self.groups.take(to, wish),
            other => other,
        };
        let addr = taken.map_err(|miss| missed(self, miss))?;
        self.operation.grants.insert(*key, Grant { run: Run { addr, frags: to }, had: 0 });
        Ok(())
    }

    /// The content of an indirect block that is in memory.
    pub(super) fn known_pointer_in(&mut self, block: &BlockKey, ptr: u32, slot: usize) -> u32 {
        self.load_at(block, ptr).map_or(0, |content| pointer_at(&content, slot))
    }

    /// The block that a pointer of another one leads to.
    pub(super) fn child_of(&self, parent: &BlockKey, slot: usize) -> BlockKey {
        let index: BlockIndex = self.geo.map.child(parent.level, parent.index, slot);
        BlockKey { level: parent.level - 1, index, ..*parent }
    }
}
