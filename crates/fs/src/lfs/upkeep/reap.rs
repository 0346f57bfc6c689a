//! Reaping: blocks of deleted and truncated files are dropped at once if that is cheap, otherwise in the background.
//!
//! A large or cold file's blocks are found only by reading its indirect blocks, and no unlink should wait for that. Until
//! all are dropped the inode is an orphan in the inode map, so that a crash does not lose the work.

use crate::error::{FsError, Outcome, Stop, gather_needs};
use crate::lfs::Lfs;
use crate::lfs::base::damage::{Thing, is_damage};
use crate::lfs::base::kinds::LogKind;
use crate::lfs::base::places::place_of_record;
use crate::lfs::map::blockmap::Pruning;
use crate::store::Fork;
use firnfs_format::table::ImapEntry;
use firnfs_format::{BlockIndex, BlockPtr, InodeNo, TimeNs};
use std::ops::Range;

/// Blocks dropped in one background step.
const REAP_STEP_BLOCKS: u64 = 4096;

const FORKS: [Fork; 3] = [Fork::Data, Fork::Index, Fork::Xattr];

impl Lfs {
    /// Drops a range of whole blocks; `to_end`: blocks of a data fork that are not in memory are left to the background.
    pub(in crate::lfs) fn drop_range(&mut self, ino: InodeNo, fork: Fork, range: Range<u64>, to_end: bool) {
        if range.is_empty() {
            return;
        }
        let mut pruning = Pruning::new(range.clone(), u64::MAX);
        if to_end && fork == Fork::Data {
            pruning.budget = REAP_STEP_BLOCKS;
            // This examines only memory: the background meets the same error again.
            let looked = self.survey(ino, fork, &mut pruning);
            if looked.is_err() || !pruning.needs.is_empty() || pruning.budget == 0 {
                self.core_mut(ino).reap_from = Some(BlockIndex(range.start));
                self.mark_inode(ino, false);
                self.files.reap_later(ino);
                return;
            }
            pruning.budget = u64::MAX;
        }
        self.prune(ino, fork, &mut pruning);
    }

    /// Marks all blocks written so far as dead for good: the cleaner need not read the inode (Sprite's version number).
    pub(in crate::lfs) fn bump_version(&mut self, ino: InodeNo) {
        let core = self.core_mut(ino);
        let others_empty = core.roots[1..].iter().all(|r| r.used() == (0, 0));
        if others_empty && core.reap_from.is_none() && core.dirty_blocks.is_empty() {
            core.version = core.version.wrapping_add(1);
        }
    }

    /// Frees an inode, now or in the background.
    pub(in crate::lfs) fn free_inode(&mut self, ino: InodeNo, budget: u64) {
        let mut pruning = Pruning::new(0..u64::MAX, budget);
        let looked = FORKS.iter().try_for_each(|&fork| self.survey(ino, fork, &mut pruning));
        let core = self.core_mut(ino);
        core.freed = true;
        if looked.is_err() || !pruning.needs.is_empty() || pruning.budget == 0 {
            core.reap_from = Some(BlockIndex(0));
            self.mark_inode(ino, true);
            self.files.reap_later(ino);
            return;
        }
        self.free_now(ino);
    }

    /// Drops an inode and its blocks, all of which are in memory.
    fn free_now(&mut self, ino: InodeNo) {
        let mut all = Pruning::new(0..u64::MAX, u64::MAX);
        for fork in FORKS {
            self.prune(ino, fork, &mut all);
        }
        self.files.clean(ino);
        let core = self.files.remove(ino).expect("the inode is in memory");
        self.recount(u64::from(core.record_charge_bytes), 0);
        if core.charged_bytes > 0 {
            self.wrong_account(format!("charge of inode {ino} without blocks"), 0, core.charged_bytes);
        }
        if core.record.is_stored() {
            self.bury(&place_of_record(ino), LogKind::Inode, &core.record);
            self.files.note_freed(ino, core.version);
        } else {
            self.tables.imap.give_back(ino);
        }
        // Also for an inode that never reached the log: the next use of its number must have another version.
        let atime = TimeNs(0);
        self.tables
            .imap
            .set(ino, ImapEntry { ptr: BlockPtr::HOLE, version: core.version, orphan: false, atime });
        if !core.is_origins {
            self.tables.imap.inode_gone();
        }
        self.due.note_change();
    }

    /// Once after a mount: continues to free the inodes that a crash left half freed. Loading such an inode queues it.
    pub(in crate::lfs) fn resume_reaping(&mut self) -> Outcome<()> {
        let mut needs = Vec::new();
        for ino in self.find_orphans()? {
            if self.why_quarantined(Thing::Inode(ino)).is_some() {
                continue;
            }
            match gather_needs(self.load_inode(ino).map(drop), &mut needs) {
                Ok(_) | Err(Stop::Fail(FsError::NotFound)) => {}
                Err(Stop::Fail(why)) if is_damage(&why) => self.put_in_quarantine(Thing::Inode(ino), why),
                Err(stop) => return Err(stop),
            }
        }
        if !needs.is_empty() {
            return Err(Stop::Need(needs));
        }
        Ok(())
    }

    /// One background step. Returns false if there is nothing to reap. An inode with damaged blocks stays an orphan, for a
    /// checker to free.
    pub(in crate::lfs) fn reap_step(&mut self) -> Outcome<bool> {
        let Some(ino) = self.files.reap_next() else { return Ok(false) };
        if self.why_quarantined(Thing::Inode(ino)).is_some() {
            self.files.reaped();
            return Ok(true);
        }
        match self.reap_some(ino) {
            // Its last user has freed it meanwhile.
            Err(Stop::Fail(FsError::NotFound)) => {}
            Err(Stop::Fail(why)) if is_damage(&why) => self.put_in_quarantine(Thing::Inode(ino), why),
            Ok(true) => {}
            Ok(false) => return Ok(true),
            Err(stop) => return Err(stop),
        }
        self.files.reaped();
        Ok(true)
    }

    /// Drops some of the blocks of an inode. Returns true if none is left.
    fn reap_some(&mut self, ino: InodeNo) -> Outcome<bool> {
        self.load_inode(ino)?;
        let (freed, from) = {
            let core = self.core(ino);
            (core.freed, core.reap_from)
        };
        let from = from.map_or(u64::MAX, |b| b.0);
        let forks: &[Fork] = if freed { &FORKS } else { &FORKS[..1] };
        for &fork in forks {
            let start = if fork == Fork::Data { from } else { 0 };
            let mut pruning = Pruning::new(start..u64::MAX, REAP_STEP_BLOCKS);
            self.survey(ino, fork, &mut pruning)?;
            if !pruning.needs.is_empty() {
                return Err(Stop::Need(pruning.needs));
            }
            pruning.budget = REAP_STEP_BLOCKS;
            let done = self.prune(ino, fork, &mut pruning);
            self.settle_record(ino);
            if !done {
                return Ok(false);
            }
        }
        if freed {
            self.free_now(ino);
        } else {
            self.core_mut(ino).reap_from = None;
            self.mark_inode(ino, true);
            self.settle_record(ino);
        }
        Ok(true)
    }

    /// Numbers of all orphans: those in the inode map, and those that are not in it yet.
    pub(in crate::lfs) fn find_orphans(&mut self) -> Outcome<Vec<InodeNo>> {
        let (mut orphans, damage) = self.tables.imap.orphans(&mut self.shelf)?;
        damage.into_iter().for_each(|why| self.put_in_quarantine(Thing::InodeMap, why));
        // Those of this mount may not have reached the inode map yet.
        orphans.extend(self.files.dirty().filter(|(_, core)| core.is_orphan()).map(|(ino, _)| ino));
        orphans.sort_unstable();
        orphans.dedup();
        Ok(orphans)
    }
}
