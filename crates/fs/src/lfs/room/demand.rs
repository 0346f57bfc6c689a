//! What an operation needs before it may begin: blocks and inodes in memory, room on the volume, room in the log.
//!
//! It changes nothing but caches, and chooses the number of a new inode. Caller: `store`, in `begin`, with each intent that the
//! operation declares.

use crate::bmap::Parent;
use crate::error::{FsError, Outcome, Stop, gather_needs};
use crate::fetch::Fetch;
use crate::inode::{Body, Inode, Kind};
use crate::lfs::Lfs;
use crate::lfs::base::damage::Thing;
use crate::lfs::map::blockmap::{Pruning, ptr_in};
use crate::lfs::room::space::INODE_EXTRA_BYTES;
use crate::states::branch_of;
use crate::store::{BlockKey, Buf, Charge, Fork, Intent, Owner};
use firnfs_format::inode::INODE_HEADER_BYTES;
use firnfs_format::{BlockPtr, InodeNo, SECTOR_BYTES};
use std::ops::Range;

/// Blocks that one operation may drop; more are left to the background.
pub(in crate::lfs) const PRUNE_AT_ONCE: u64 = 2048;
/// Inodes waiting to be freed in the background before operations wait for it.
const REAP_BACKLOG: usize = 4096;

/// What an operation needs: the sum over its intents.
#[derive(Default)]
pub(in crate::lfs) struct Demand {
    /// Blocks to be read first.
    pub needs: Vec<Fetch>,
    /// Additional live bytes.
    pub growth_bytes: u64,
    /// More bytes in what files are said to have ([`Charge::allocated_bytes`]).
    pub allocated_bytes: u64,
    /// What each owner pays.
    pub charges: Vec<Charge>,
    /// The indirect blocks above the last new block that are charged whole while they are dirty.
    counted_parents: Vec<BlockKey>,
    /// Bytes that turn dirty.
    pub log_bytes: u64,
    /// The indirect block that the last new block brings with it.
    missing_parent: Option<(u8, u64)>,
    /// The indirect block right above the last new block: what is above it has been counted.
    looked_parent: Option<BlockKey>,
}

impl Lfs {
    fn look_create(&mut self, parent: InodeNo, bytes: u64, demand: &mut Demand) -> Outcome<()> {
        assert!(self.operation.chosen_ino.is_none(), "one new inode an operation");
        let files = &self.files;
        let busy = |ino: InodeNo| files.has(ino) || files.is_freed(ino);
        let found = match branch_of(parent) {
            0 => self.tables.imap.find_free(&mut self.shelf, &busy)?,
            branch => self.tables.imap.find_free_in(&mut self.shelf, branch, &busy)?,
        };
        self.operation.chosen_ino = Some((found.0, found.1.version.wrapping_add(1)));
        let inline = bytes <= u64::from(self.sb.inline_max_bytes);
        let blocks = if inline { 0 } else { bytes.next_multiple_of(u64::from(self.geo.block_bytes)) };
        let record = INODE_HEADER_BYTES as u64 + SECTOR_BYTES as u64 + if inline { bytes } else { 512 };
        demand.growth_bytes += INODE_EXTRA_BYTES;
        demand.growth_bytes += record + blocks;
        demand.allocated_bytes +=
            if inline { bytes.next_multiple_of(u64::from(SECTOR_BYTES)) } else { blocks };
        demand.log_bytes += record + blocks;
        Ok(())
    }

    /// The background must not still have to drop blocks of the inode that the operation could meet.
    fn look_inode(&mut self, ino: InodeNo) -> Outcome<()> {
        let core = self.load_inode(ino)?;
        if core.freed {
            return Err(FsError::NotFound.into());
        }
        if core.reap_from.is_none() {
            return Ok(());
        }
        Err(self.why_quarantined(Thing::Inode(ino)).map_or(Stop::Room, |why| Stop::Fail(why.clone())))
    }

    fn look_write(
        &mut self,
        ino: InodeNo,
        fork: Fork,
        range: Range<u64>,
        demand: &mut Demand,
    ) -> Outcome<()> {
        let block_bytes = u64::from(self.geo.block_bytes);
        let tariff = self.tariff(ino, fork, range.end);
        // Existing metadata blocks may grow by the bytes that `Change` declares, no matter how much they are charged
        // until the layout: otherwise a name could not be removed from a full volume.
        let is_metadata = fork == Fork::Index || fork == Fork::Data && self.is_directory(ino);
        let mut above = None;
        for index in self.blocks_of(range.start, range.end - range.start) {
            let key = Self::data_key(ino, fork, index);
            let looked = self.look_ptr(key, &mut above, &mut demand.needs)?;
            let Some(ptr) = looked else { continue };
            let charge = u64::from(tariff.of(index));
            let had = match self.shelf.cache.dirty(&key) {
                Some(dirty) => u64::from(dirty.charged_bytes),
                None => u64::from(self.charge_of(&ptr)),
            };
            let had = had.max(u64::from(self.operation.paid_for_tail(&key)));
            if had == 0 || !is_metadata {
                // What a retained point sees gives no room back.
                let given_bytes = if self.stays_for_points(&key, &ptr) { 0 } else { had };
                demand.growth_bytes += charge.saturating_sub(given_bytes);
            }
            demand.allocated_bytes += charge.saturating_sub(had);
            demand.log_bytes += block_bytes + 64;
            if ptr.is_hole() {
                self.look_parents(key, demand)?;
            }
            let whole = range.start <= index * block_bytes && range.end >= (index + 1) * block_bytes;
            if !whole && ptr.is_stored() {
                gather_needs(self.load(key), &mut demand.needs)?;
            }
        }
        Ok(())
    }

    /// True if the stored version of a block stays for a retained point when the block is overwritten.
    fn stays_for_points(&self, key: &BlockKey, ptr: &BlockPtr) -> bool {
        let moves = self.shelf.cache.dirty(key).and_then(|dirty| dirty.moves);
        if moves.is_none() && self.tables.branches.is_shared(key.ino, ptr) {
            return true;
        }
        let stored = moves.or_else(|| Some(*ptr).filter(BlockPtr::is_stored));
        stored.is_some_and(|stored| self.tables.points.hold(&self.place_of(key), stored.birth))
    }

    /// The last block of a file that grows, if it waits to be laid out: it will be stored up to the new end. One that is stored stays as it
    /// is, and so does its charge.
    fn look_tail(&mut self, ino: InodeNo, size_bytes: u64, demand: &mut Demand) {
        let inode = &self.core(ino).inode;
        if inode.kind == Kind::Directory || inode.size_bytes == 0 || size_bytes <= inode.size_bytes {
            return;
        }
        let key = Self::data_key(ino, Fork::Data, (inode.size_bytes - 1) / u64::from(self.geo.block_bytes));
        let had = match (&inode.body, self.shelf.cache.dirty(&key)) {
            // Its move into a block is declared as a write, up to its end.
            (Body::Inline(_), _) => self.tariff(ino, Fork::Data, 0).of(key.index.0),
            (Body::Blocks, Some(dirty)) => dirty.charged_bytes,
            (Body::Blocks, None) => return,
        };
        let charge_bytes = self.tariff(ino, Fork::Data, size_bytes).of(key.index.0);
        let more_bytes = u64::from(charge_bytes.saturating_sub(had));
        if more_bytes > 0 {
            demand.growth_bytes += more_bytes;
            demand.allocated_bytes += more_bytes;
            self.operation.note_tail(key, charge_bytes);
        }
    }

    /// The pointer to a block that will be written; brings the blocks above it that turn dirty into memory. `above` is the
    /// indirect block above the block examined last, without content if it does not exist yet: neighbours share it.
    fn look_ptr(
        &mut self,
        key: BlockKey,
        above: &mut Option<(BlockKey, Option<Buf>)>,
        needs: &mut Vec<Fetch>,
    ) -> Outcome<Option<BlockPtr>> {
        let parent = self.geo.map.parent(0, key.index).ok_or(FsError::TooLarge)?;
        let Parent::Indirect { level, index, slot } = parent else {
            return Ok(Some(self.core(key.ino).root(key.fork, key.index.0 as usize)));
        };
        let parent = BlockKey { level, index, ..key };
        if let Some((last, block)) = above
            && *last == parent
        {
            return Ok(Some(block.as_ref().map_or(BlockPtr::HOLE, |block| ptr_in(block, slot))));
        }
        gather_needs(self.load_parents(key), needs)?;
        let ptr = gather_needs(self.ptr(key), needs)?;
        *above = match self.shelf.cache.peek(&parent) {
            Some(block) => Some((parent, Some(block.buf.clone()))),
            None => (ptr.is_some() && self.ptr(parent)?.is_hole()).then_some((parent, None)),
        };
        Ok(ptr)
    }

    /// A block that will be changed in place.
    fn look_block(&mut self, key: BlockKey, demand: &mut Demand) -> Outcome<()> {
        gather_needs(self.load_parents(key), &mut demand.needs)?;
        gather_needs(self.load(key), &mut demand.needs)?;
        Ok(())
    }

    /// Counts the indirect blocks that a new block brings with it (neighbours share them).
    fn look_parents(&mut self, key: BlockKey, demand: &mut Demand) -> Outcome<()> {
        if let Some(Parent::Indirect { level, index, .. }) = self.geo.map.parent(0, key.index) {
            let parent = BlockKey { level, index, ..key };
            if demand.looked_parent.replace(parent) == Some(parent) {
                return Ok(());
            }
        }
        self.count_parents(key, demand)?;
        let path: Vec<_> = self.geo.map.path(key.index).skip(1).collect();
        demand.growth_bytes += if path.is_empty() { 16 } else { 0 };
        for (level, index) in path {
            if demand.missing_parent == Some((level, index.0)) {
                break;
            }
            let parent = BlockKey { level, index, ..key };
            let Some(ptr) = gather_needs(self.ptr(parent), &mut demand.needs)? else { break };
            if !ptr.is_hole() {
                break;
            }
            if level == 1 {
                demand.missing_parent = Some((level, index.0));
            }
            demand.growth_bytes += u64::from(self.geo.block_bytes) + 512;
            demand.log_bytes += u64::from(self.geo.block_bytes);
        }
        Ok(())
    }

    /// Counts what the indirect blocks above a new block are charged beyond what they have, while they are dirty.
    fn count_parents(&mut self, key: BlockKey, demand: &mut Demand) -> Outcome<()> {
        let block_bytes = u64::from(self.geo.block_bytes);
        let path: Vec<_> = self.geo.map.path(key.index).skip(1).collect();
        for (level, index) in path {
            let parent = BlockKey { level, index, ..key };
            if demand.counted_parents.contains(&parent) {
                break;
            }
            let Some(ptr) = gather_needs(self.ptr(parent), &mut demand.needs)? else { break };
            let had = match self.shelf.cache.dirty(&parent) {
                Some(dirty) => u64::from(dirty.charged_bytes),
                None => u64::from(self.charge_of(&ptr)),
            };
            demand.allocated_bytes += block_bytes.saturating_sub(had);
            demand.counted_parents.push(parent);
        }
        Ok(())
    }

    fn look_punch(
        &mut self,
        ino: InodeNo,
        fork: Fork,
        at_bytes: u64,
        len_bytes: u64,
        demand: &mut Demand,
    ) -> Outcome<()> {
        let (edges, whole) = self.punch_parts(at_bytes, len_bytes);
        for edge in edges.into_iter().flatten() {
            self.look_block(Self::data_key(ino, fork, edge.0), demand)?;
            demand.log_bytes += u64::from(self.geo.block_bytes);
        }
        let in_background = len_bytes == u64::MAX && fork == Fork::Data;
        let budget = if in_background { PRUNE_AT_ONCE } else { u64::MAX };
        let mut pruning = Pruning::new(whole, budget);
        self.survey(ino, fork, &mut pruning)?;
        if in_background {
            // A truncate leaves blocks that are not in memory to the background.
            return if self.files.reap_len() > REAP_BACKLOG { Err(Stop::Room) } else { Ok(()) };
        }
        demand.needs.append(&mut pruning.needs);
        Ok(())
    }

    /// The parts of a punched range: up to two blocks cut (with the bytes to clear in them), and the whole blocks.
    #[allow(clippy::type_complexity)] // (block, bytes in it) twice, and a range of blocks
    pub(in crate::lfs) fn punch_parts(
        &self,
        at_bytes: u64,
        len_bytes: u64,
    ) -> ([Option<(u64, Range<usize>)>; 2], Range<u64>) {
        let block = u64::from(self.geo.block_bytes);
        let end = at_bytes.saturating_add(len_bytes);
        let (first, last) = (at_bytes / block, end / block);
        let (skip, rest) = ((at_bytes % block) as usize, (end % block) as usize);
        let full = block as usize;
        if end == u64::MAX {
            let head = (skip > 0).then_some((first, skip..full));
            return ([head, None], at_bytes.div_ceil(block)..u64::MAX);
        }
        if first == last {
            return ([Some((first, skip..rest)), None], first..first);
        }
        let head = (skip > 0).then_some((first, skip..full));
        let tail = (rest > 0).then_some((last, 0..rest));
        ([head, tail], at_bytes.div_ceil(block)..last)
    }

    fn look_reserve(
        &mut self,
        ino: InodeNo,
        at_bytes: u64,
        len_bytes: u64,
        demand: &mut Demand,
    ) -> Outcome<()> {
        let mut above = None;
        for index in self.blocks_of(at_bytes, len_bytes) {
            let key = Self::data_key(ino, Fork::Data, index);
            let Some(ptr) = self.look_ptr(key, &mut above, &mut demand.needs)? else { continue };
            if ptr.is_hole() {
                demand.growth_bytes += u64::from(self.geo.block_bytes);
                demand.allocated_bytes += u64::from(self.geo.block_bytes);
                self.look_parents(key, demand)?;
            }
        }
        Ok(())
    }

    /// What one intent needs, and who pays for the space.
    ///
    /// # Errors
    /// As [`Self::look`].
    pub(in crate::lfs) fn look_and_charge(&mut self, intent: &Intent, demand: &mut Demand) -> Outcome<()> {
        let before = (demand.growth_bytes, demand.allocated_bytes);
        self.look(intent, demand)?;
        let bytes = demand.growth_bytes - before.0;
        let allocated_bytes = demand.allocated_bytes - before.1;
        if bytes == 0 && allocated_bytes == 0 {
            return Ok(());
        }
        let (owner, inodes) = match (intent, intent.ino()) {
            (_, Some(ino)) => {
                let Inode { uid, gid, .. } = self.core(ino).inode;
                (Owner { uid, gid }, 0)
            }
            (Intent::Create { owner, .. }, None) => (*owner, 1),
            (_, None) => return Ok(()),
        };
        demand.charges.push(Charge { owner, bytes, allocated_bytes, inodes });
        Ok(())
    }

    /// What one intent needs.
    ///
    /// # Errors
    /// `Need`, `Room` if the background has to work first; the error that makes the intent impossible.
    fn look(&mut self, intent: &Intent, demand: &mut Demand) -> Outcome<()> {
        match *intent {
            Intent::Create { parent, bytes, .. } => self.look_create(parent, bytes, demand),
            Intent::Change { ino, grow_bytes } => {
                self.look_inode(ino)?;
                let grow = if grow_bytes > 0 { grow_bytes + u64::from(SECTOR_BYTES) } else { 0 };
                demand.growth_bytes += grow;
                demand.allocated_bytes += inline_growth_bytes(&self.core(ino).inode, grow_bytes);
                demand.log_bytes += 1024 + grow;
                Ok(())
            }
            Intent::Resize { ino, size_bytes } => {
                self.look_inode(ino)?;
                self.look_tail(ino, size_bytes, demand);
                Ok(())
            }
            Intent::Write { ino, fork, at_bytes, len_bytes } => {
                self.look_inode(ino)?;
                self.look_write(ino, fork, at_bytes..at_bytes.saturating_add(len_bytes), demand)
            }
            Intent::Edit { ino, fork, at_bytes } => {
                self.look_inode(ino)?;
                let block_bytes = u64::from(self.geo.block_bytes);
                self.look_block(Self::data_key(ino, fork, at_bytes / block_bytes), demand)?;
                // While dirty it is charged as a whole block; the commit gives back the unused part, and what
                // remains is no more than before.
                demand.log_bytes += block_bytes + 64;
                Ok(())
            }
            Intent::Punch { ino, fork, at_bytes, len_bytes } => {
                self.look_inode(ino)?;
                self.look_punch(ino, fork, at_bytes, len_bytes, demand)
            }
            Intent::Reserve { ino, .. } if branch_of(ino) != 0 => {
                Err(FsError::Unsupported("to reserve room in a clone").into())
            }
            Intent::Reserve { ino, at_bytes, len_bytes } => {
                self.look_inode(ino)?;
                self.look_reserve(ino, at_bytes, len_bytes, demand)
            }
            Intent::Free { ino } => {
                if self.load_inode(ino)?.freed {
                    return Err(FsError::NotFound.into());
                }
                if self.files.reap_len() > REAP_BACKLOG { Err(Stop::Room) } else { Ok(()) }
            }
        }
    }
}

/// By how much more inline content of an inode counts as allocated if it grows.
fn inline_growth_bytes(inode: &Inode, grow_bytes: u64) -> u64 {
    match &inode.body {
        Body::Inline(content) => {
            let (len, sector) = (content.len() as u64, u64::from(SECTOR_BYTES));
            (len + grow_bytes).next_multiple_of(sector) - len.next_multiple_of(sector)
        }
        Body::Blocks => 0,
    }
}
