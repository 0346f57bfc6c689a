//! The writes of an operation on names, in the order that a check after a crash relies on:
//!
//! 1. inodes that are new or got a link (and a moved directory's parent comes before its old name goes);
//! 2. directory blocks that got a name, and the inode of a directory that got a block;
//! 3. directory blocks that lost a name, or whose entry now names another inode, one after the other; the inode of a directory
//!    that lost a block;
//! 4. inodes that lost a link or were freed.
//!
//! Each step waits until the one before is durable. A directory block is written as a whole; a crash leaves each sector of it
//! old or new. So if one block both gets and loses a name, in different sectors, it is written twice: first with the new name,
//! and the old content elsewhere. In the same sector both change at once.
//!
//! Blocks of the hash index and the counts of entries are not written here: the check recomputes them from the entries.

use super::Ffs;
use super::base::{BlockPlace, WriteId};
use super::operation::{Before, Touch};
use super::writes::{NewWrite, Subject};
use crate::dirent::DIR_UNIT_MIN_BYTES;
use crate::inode::Kind;
use crate::mutation::{Mutation, is_on};
use crate::store::{BlockKey, Buf, Fork, Intent, Ticket};
use firnfs_format::InodeNo;
use std::collections::BTreeMap;

/// One change of a directory's block: the units that it changed.
struct Change {
    key: BlockKey,
    units: Vec<usize>,
    adds: bool,
}

impl Ffs {
    /// Queues the writes of the operation that ends.
    pub(super) fn write_names(&mut self) -> Option<Ticket> {
        let first = self.writes.last();
        let mut before = self.write_gains();
        if is_on(Mutation::NamesFirst) {
            before.clear();
        }
        let changes = self.directory_changes();
        self.write_changes(&changes, &mut before);
        if is_on(Mutation::ClearedFirst) {
            before.clear();
        }
        self.write_losses(&before);
        let last = self.writes.last();
        if last == first {
            return None;
        }
        self.writes.want(last);
        Some(Ticket(last.0))
    }

    fn is_living(&self, ino: InodeNo) -> bool {
        self.files.peek(ino).is_some_and(|core| !core.is_freed)
    }

    fn names_before(&self, ino: InodeNo) -> Option<Before> {
        self.operation.before.iter().copied().find(|before| before.ino == ino)
    }

    /// Step 1.
    fn write_gains(&mut self) -> Vec<WriteId> {
        let created: Vec<InodeNo> = self.operation.declared.made().to_vec();
        let created: Vec<_> = created.into_iter().filter(|&ino| self.is_living(ino)).collect();
        for &ino in &created {
            self.stage_whole(ino, &[]);
        }
        let gains = |this: &Self, before: &Before| {
            let inode = &this.files.core(before.ino).inode;
            inode.nlink > before.nlink || inode.parent != before.parent
        };
        let mut gained: Vec<InodeNo> = self.operation.before.iter().map(|before| before.ino).collect();
        gained.retain(|&ino| !created.contains(&ino) && self.is_living(ino));
        gained.retain(|&ino| self.names_before(ino).is_some_and(|before| gains(self, &before)));
        for &ino in &gained {
            // A directory's own blocks come in a later step.
            if self.files.core(ino).inode.kind == Kind::Directory {
                self.stage_attributes(ino, &[]);
            } else {
                self.stage(ino, &[]);
            }
        }
        let all: Vec<_> = created.into_iter().chain(gained).collect();
        self.push_inodes(&all)
    }

    /// The changes that the operation made to existing directory blocks, in order.
    fn directory_changes(&mut self) -> Vec<Change> {
        let touches = std::mem::take(&mut self.operation.touches);
        let mut changes = Vec::new();
        for (at, touch) in touches.iter().enumerate() {
            let key = touch.key;
            let core = self.files.core(key.ino);
            let place = BlockPlace::of(&key);
            // A new block becomes visible with its directory's inode; one that was dropped is gone.
            if core.fresh.contains_key(&place) || !core.dirty_blocks.contains(&place) {
                continue;
            }
            let next = touches[at + 1..].iter().find(|later| later.key == key);
            let after = match next {
                Some(later) => later.before.clone(),
                None => self.present(&key),
            };
            let units = changed_units(&touch.before, &after);
            let adds = self.adds(&key, next.is_none());
            changes.push(Change { key, units, adds });
        }
        self.operation.touches = touches;
        changes
    }

    fn present(&mut self, key: &BlockKey) -> Buf {
        let ptr = self.known_ptr(key);
        self.cache.get(key, ptr).expect("dirty blocks are in memory").clone()
    }

    /// Whether a change of a block adds a name: it was declared as a write. If the block was declared to lose one as well, that comes first.
    fn adds(&self, key: &BlockKey, is_last: bool) -> bool {
        let block_bytes = self.geo.block_bytes();
        let is_it = |ino, fork, at_bytes: u64| {
            (ino, fork, at_bytes / block_bytes) == (key.ino, Fork::Data, key.index.0)
        };
        let intents = self.operation.declared.intents();
        let writes = intents.iter().any(|intent| {
            matches!(*intent, Intent::Write { ino, fork, at_bytes, .. } if is_it(ino, fork, at_bytes))
        });
        let edits = intents.iter().any(
            |intent| matches!(*intent, Intent::Edit { ino, fork, at_bytes } if is_it(ino, fork, at_bytes)),
        );
        writes && (!edits || is_last)
    }

    /// Steps 2 and 3.
    fn write_changes(&mut self, changes: &[Change], before: &mut Vec<WriteId>) {
        let mut versions: BTreeMap<BlockKey, Buf> = BTreeMap::new();
        for touch in &self.operation.touches {
            versions.entry(touch.key).or_insert_with(|| touch.before.clone());
        }
        let (adding, losing): (Vec<_>, Vec<_>) =
            changes.iter().partition(|change| change.adds || is_on(Mutation::OldNameFirst));
        let mut additions = Vec::new();
        for change in adding {
            additions.extend(self.write_change(change, &mut versions, before));
        }
        additions.extend(self.write_grown(&losing, before));
        before.extend(additions);
        for change in losing {
            let id = self.write_change(change, &mut versions, before);
            before.extend(id);
        }
        let shrunk = std::mem::take(&mut self.operation.shrunk);
        let mut alive: Vec<_> = shrunk.iter().copied().filter(|&ino| self.is_living(ino)).collect();
        alive.dedup();
        for &ino in &alive {
            self.stage_whole(ino, before);
        }
        before.extend(self.push_inodes(&alive));
        self.operation.shrunk = shrunk;
    }

    /// Queues a directory's block with one more change. A unit that other changes touch as well gets its last content at once: a
    /// sector is written as a whole.
    fn write_change(
        &mut self,
        change: &Change,
        versions: &mut BTreeMap<BlockKey, Buf>,
        after: &[WriteId],
    ) -> Option<WriteId> {
        let present = self.present(&change.key);
        let version = versions.get_mut(&change.key).expect("each change was touched");
        let mut any = false;
        for &unit in &change.units {
            let range = unit * DIR_UNIT_MIN_BYTES..(unit + 1) * DIR_UNIT_MIN_BYTES;
            if version[range.clone()] != present[range.clone()] {
                version.make_mut()[range.clone()].copy_from_slice(&present[range]);
                any = true;
            }
        }
        let version = if is_on(Mutation::RenameAtOnce) { present } else { version.clone() };
        any.then(|| self.queue_version(&change.key, version, after))
    }

    /// Queues the inodes of directories that got a block of content, with that; blocks that are still to lose a name are left out.
    fn write_grown(&mut self, losing: &[&Change], after: &[WriteId]) -> Vec<WriteId> {
        let grown = self.grown_directories();
        for &ino in &grown {
            let later = losing
                .iter()
                .filter(|change| change.key.ino == ino)
                .map(|change| BlockPlace::of(&change.key));
            let later: Vec<_> = later.collect();
            self.files.core_mut(ino).dirty_blocks.retain(|place| !later.contains(place));
            self.stage_whole(ino, after);
            self.files.core_mut(ino).dirty_blocks.extend(later);
        }
        self.push_inodes(&grown)
    }

    /// Directories that got a block of content.
    fn grown_directories(&self) -> Vec<InodeNo> {
        let has_new_block = |ino: &InodeNo| {
            let core = self.files.core(*ino);
            let is_content = |place: &BlockPlace| place.fork == Fork::Data;
            core.inode.kind == Kind::Directory && core.fresh.keys().any(is_content)
        };
        let mut grown: Vec<_> = self.operation.touches.iter().map(|touch| touch.key.ino).collect();
        grown.sort_unstable();
        grown.dedup();
        grown.retain(|ino| self.is_living(*ino) && has_new_block(ino));
        grown
    }

    /// Queues one version of a directory's block. The last version is the block as it is in memory, which is clean then.
    fn queue_version(&mut self, key: &BlockKey, version: Buf, after: &[WriteId]) -> WriteId {
        let addr = self.known_ptr(key);
        let is_last = self.cache.get(key, addr).is_some_and(|present| present[..] == version[..]);
        let frags = self.geo.block_frags();
        let blocks = addr / frags..addr / frags + 1;
        let id = self.queue(NewWrite {
            at_bytes: self.geo.device_bytes(addr),
            parts: vec![(version, self.geo.layout.block_bytes as usize)],
            blocks,
            after: after.to_vec(),
            subjects: vec![Subject::Block(*key)],
            frees: Vec::new(),
            is_fenced: false,
        });
        if is_last {
            self.files.core_mut(key.ino).dirty_blocks.remove(&BlockPlace::of(key));
            self.cache.queue(key, id);
        }
        id
    }

    /// Step 4.
    fn write_losses(&mut self, before: &[WriteId]) {
        let freed = std::mem::take(&mut self.operation.freed);
        let lost = |this: &Self, before: &Before| {
            let inode = &this.files.core(before.ino).inode;
            inode.kind != Kind::Directory && inode.nlink < before.nlink
                || inode.nlink == 0 && before.nlink > 0
        };
        let mut losers: Vec<InodeNo> = self.operation.before.iter().map(|before| before.ino).collect();
        losers.retain(|ino| self.is_living(*ino));
        losers.retain(|&ino| self.names_before(ino).is_some_and(|before| lost(self, &before)));
        for &ino in &losers {
            self.stage(ino, before);
        }
        for &ino in &freed {
            self.stage_whole(ino, before);
        }
        let all: Vec<_> = losers.into_iter().chain(freed.iter().copied()).collect();
        self.push_inodes(&all);
        self.operation.freed = freed;
        self.operation.freed.clear();
    }

    /// Remembers a directory's block before it changes in place.
    pub(super) fn note_touch(&mut self, key: &BlockKey) {
        let is_dir = self.files.core(key.ino).inode.kind == Kind::Directory;
        if !self.operation.is_names || key.fork != Fork::Data || !is_dir {
            return;
        }
        let ptr = self.known_ptr(key);
        let before = match self.cache.get(key, ptr) {
            Some(buf) if ptr != 0 => buf.clone(),
            _ => crate::store::zero_buf(self.geo.layout.block_bytes as usize),
        };
        self.operation.touches.push(Touch { key: *key, before });
    }
}

/// Numbers of the units in which two versions of a block differ.
fn changed_units(before: &[u8], after: &[u8]) -> Vec<usize> {
    let pairs = before.chunks(DIR_UNIT_MIN_BYTES).zip(after.chunks(DIR_UNIT_MIN_BYTES));
    pairs.enumerate().filter(|(_, (before, after))| before != after).map(|(unit, _)| unit).collect()
}
