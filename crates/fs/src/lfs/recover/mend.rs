//! Changes that only a repair makes: replacing the tables by those that a check computed, dropping pointers and inodes, a new
//! root directory.
//!
//! All other changes of a repair are ordinary operations on the store. The changes made here turn blocks dirty like any
//! others and reach the device with the next commit or checkpoint, so a repair can be interrupted: as always, nothing
//! that a slot reaches is overwritten.
//!
//! Caller: [`crate::check`].

use crate::cache::BlockCache;
use crate::error::{FsError, Outcome};
use crate::inode::Inode;
use crate::lfs::Lfs;
use crate::lfs::base::kinds::{KindBytes, LogKind};
use crate::lfs::base::places::place_of_record;
use crate::lfs::map::blockmap::Turn;
use crate::lfs::map::inode::CoreInode;
use crate::lfs::write::log::Log;
use crate::store::BlockKey;
use firnfs_format::checkpoint::{Checkpoint, Tail};
use firnfs_format::table::{ImapEntry, TableEntry, UsageEntry};
use firnfs_format::{BlockPtr, Epoch, InodeNo, SECTOR_BYTES, TimeNs};

/// The right content of the tables, to replace the trees.
#[derive(Clone, Debug, Default)]
pub(crate) struct Restated {
    /// All entries that are not blank, by number.
    pub imap: Vec<(u64, ImapEntry)>,
    /// All entries that are not blank, by segment; the tables' own blocks are not counted, they will be rewritten.
    pub usage: Vec<(u64, UsageEntry)>,
    /// Live bytes of the volume, the tables' own blocks not counted.
    pub live_bytes: u64,
    /// The stored part of that, by kind.
    pub live_kinds: KindBytes,
    /// Retained points that cannot be read: they are given up.
    pub lost_points: Vec<Epoch>,
    /// Live blocks lie where the logs would continue.
    pub move_logs: bool,
}

impl Lfs {
    /// Replaces entries of the inode map of a store that is only read.
    pub(crate) fn overlay_inodes(&mut self, entries: &[(u64, ImapEntry)]) {
        entries.iter().for_each(|(number, entry)| self.tables.imap.set(InodeNo(*number), *entry));
    }

    /// Replaces both tables: the next checkpoint writes them whole. Nothing may be dirty.
    pub(crate) fn restate(&mut self, tables: Restated) {
        debug_assert!(!self.files.are_dirty(), "restated when nothing is dirty");
        self.shelf.cache = BlockCache::default();
        self.files.clear();
        self.tables.imap.restate(&tables.imap);
        self.tables.usage.restate(&self.geo, &tables.usage, tables.live_kinds);
        self.accounts.restate(tables.live_bytes);
        self.give_up_points(&tables.lost_points);
        // If a wrong account turned the volume read-only when it was opened: the accounts are right now.
        self.standing.reinstate();
        self.due.note_change();
    }

    /// Forgets points with their clones, without giving back what they hold.
    pub(crate) fn give_up_points(&mut self, lost: &[Epoch]) {
        self.tables.points.give_up(lost);
        for branch in self.tables.branches.give_up(lost) {
            self.tables.imap.end_branch(branch);
        }
    }

    /// Lets a volume whose log has lost a part continue from where the log ends; everything after that is dropped.
    ///
    /// # Errors
    /// `Corrupt` after too many crashed mounts.
    pub(crate) fn end_lost_log(&mut self, base: Checkpoint) -> Result<(), FsError> {
        self.recovered.lost = None;
        self.standing.reinstate();
        self.begin_incarnation(base)
    }

    /// Lets the logs continue in clean segments, because live blocks lie where they were about to write.
    ///
    /// # Errors
    /// `Need`; `NoSpace` if no segment is clean.
    pub(crate) fn move_logs(&mut self) -> Outcome<()> {
        let mut tails = self.writer.log.tails();
        let open = tails.iter().flatten().count();
        let (pins, durable) = (&self.writer.pins, self.tables.slots.durable());
        let taken = |segment| pins.is_pinned(segment);
        let found = self.tables.usage.find_ready(&mut self.shelf, durable, open, &taken)?;
        if found.len() < open {
            return Err(FsError::NoSpace.into());
        }
        for (tail, segment) in tails.iter_mut().flatten().zip(found) {
            // As after mkfs: about to enter the segment.
            *tail = Tail { segment, sector: self.geo.segment_sectors, next_segment: segment };
        }
        self.writer.log = Log::new(tails, self.writer.log.end(), self.writer.log.incarnation());
        Ok(())
    }

    /// Drops a block: its pointer becomes a hole. `counted`: the accounts include it. They must not include the
    /// blocks below it.
    ///
    /// # Errors
    /// `Need`, `Corrupt`, `NotFound`.
    pub(crate) fn cut(&mut self, key: BlockKey, counted: bool) -> Outcome<()> {
        self.load_inode(key.ino)?;
        self.load_parents(key)?;
        if self.ptr(key)?.is_hole() {
            return Ok(());
        }
        let old = self.point_parent(key, BlockPtr::HOLE, Turn::Changes);
        self.shelf.cache.remove(&key);
        if counted {
            let bytes = self.charge_of(&old);
            self.bury(&self.place_of(&key), self.kind_of(&key), &old);
            self.refund(key.ino, bytes);
        }
        self.mark_inode(key.ino, true);
        self.settle_record(key.ino);
        Ok(())
    }

    /// Gives a block that can be read a place of its own.
    ///
    /// # Errors
    /// `Need`, `Corrupt`, `NotFound`.
    pub(crate) fn relocate(&mut self, key: BlockKey) -> Outcome<()> {
        self.load_inode(key.ino)?;
        self.load_parents(key)?;
        if self.load(key)?.is_none() {
            return Ok(());
        }
        let charge = self.ptr(key)?.stored_bytes();
        self.make_dirty(key, None, charge, Turn::Changes);
        self.mark_inode(key.ino, true);
        self.settle_record(key.ino);
        Ok(())
    }

    /// Writes an inode again, with this many bytes charged to it.
    ///
    /// # Errors
    /// `Need`, `Corrupt`, `NotFound`.
    pub(crate) fn rewrite_inode(&mut self, ino: InodeNo, charged_bytes: Option<u64>) -> Outcome<()> {
        self.load_inode(ino)?;
        let core = self.core_mut(ino);
        core.charged_bytes = charged_bytes.unwrap_or(core.charged_bytes);
        self.mark_inode(ino, true);
        self.settle_record(ino);
        Ok(())
    }

    /// Drops an inode whose record cannot be read. The accounts must not include its blocks.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(crate) fn forget_inode(&mut self, ino: InodeNo) -> Outcome<()> {
        let entry = self.tables.imap.get(&mut self.shelf, ino)?;
        if !entry.is_used() {
            return Ok(());
        }
        if self.geo.check(&entry.ptr, 255 * SECTOR_BYTES, String::new).is_ok() {
            self.bury(&place_of_record(ino), LogKind::Inode, &entry.ptr);
            self.recount(u64::from(entry.ptr.stored_bytes()), 0);
        }
        self.files.remove(ino);
        let version = entry.version.wrapping_add(1);
        self.tables.imap.set(ino, ImapEntry { version, ..ImapEntry::default() });
        self.tables.imap.inode_gone();
        self.files.note_freed(ino, version);
        self.due.note_change();
        Ok(())
    }

    /// Makes a new, empty root directory.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(crate) fn make_root(&mut self, root: Inode) -> Outcome<()> {
        let entry = self.tables.imap.get(&mut self.shelf, InodeNo::ROOT)?;
        if self.files.has(InodeNo::ROOT) || entry.is_used() {
            return self.load_inode(InodeNo::ROOT).map(drop);
        }
        let version = entry.version.wrapping_add(1);
        self.files.forget_freed(InodeNo::ROOT);
        let mut core = CoreInode::fresh(root, version);
        self.next_generation += 1;
        core.inode.generation = self.next_generation;
        self.tables.imap.take(InodeNo::ROOT);
        self.files.insert(InodeNo::ROOT, core);
        self.mark_inode(InodeNo::ROOT, true);
        self.settle_record(InodeNo::ROOT);
        Ok(())
    }

    /// Notes a change that the next commit has to make durable.
    pub(crate) fn note_change(&mut self, now: TimeNs) {
        self.due.note_dirty(now);
    }
}
