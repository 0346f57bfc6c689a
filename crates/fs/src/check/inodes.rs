//! Phase 1: every inode, and every block pointer with the checksum of the block that it leads to.
//!
//! The check reads records in device order. Blocks precede their record in the log, so some are still in memory; the check
//! examines those at once. It gathers the others and reads them in device order, a limited number at a time. It passes
//! directory blocks on to phase 2 as it reads them, so nothing is read twice.

use super::finding::{Finding, Problem, Versus};
use super::namespace::{DirFacts, IndexNode, InodeFacts};
use super::state::{Check, Depth, Torn};
use super::sweep::{Course, List};
use crate::bmap::{Geometry as Map, SLOTS};
use crate::error::FsError;
use crate::inode::{Body, Inode, Kind, Xattrs};
use crate::lfs::view::StoredInode;
use crate::lfs::{LogKind, admit_block, describe};
use crate::states::{branch_of, is_past, local};
use crate::store::{BlockKey, Fork};
use firnfs_format::inode::{DIRECT_POINTERS, FORKS, Roots};
use firnfs_format::table::{ImapEntry, TableEntry};
use firnfs_format::{BlockIndex, BlockPtr, InodeNo, PtrKind, SECTOR_BYTES};

/// Blocks gathered before they are read in device order.
const GATHER_MAX: usize = 256 << 10;
/// Indirect blocks expanded at a time.
const EXPAND_MAX: usize = 1024;
/// Records of a point, read together: they have to stay in the memory for blocks of states until all are there.
const SHARED_AT_ONCE: usize = 256;
/// Records between two reports of progress.
const TELL_EVERY: usize = 4096;

const FORK_KINDS: [Fork; FORKS] = [Fork::Data, Fork::Index, Fork::Xattr];

/// A block to be examined.
#[derive(Clone, Copy, Debug)]
struct Todo {
    key: BlockKey,
    ptr: BlockPtr,
    /// Index of its inode in `inodes`.
    owner: usize,
    /// Its data are directory records.
    is_dir: bool,
}

/// Blocks still to be examined.
#[derive(Default)]
pub struct Pending {
    /// Indirect blocks, deepest last.
    nodes: Vec<Todo>,
    leaves: Vec<Todo>,
}

impl Pending {
    /// Enough to be examined before more is gathered.
    fn is_large(&self) -> bool {
        self.nodes.len() >= EXPAND_MAX || self.leaves.len() >= GATHER_MAX
    }
}

impl Check<'_> {
    /// Runs the phase over the gathered inode map.
    pub fn phase_1(&mut self) {
        let is_own = |(number, entry): &(u64, ImapEntry)| branch_of(InodeNo(*number)) == 0 && entry.is_used();
        let order: Vec<_> = self.imap.iter().copied().filter(is_own).collect();
        self.examine_inodes(order);
    }

    /// Examines the inodes of the volume itself, of a clone or of a state. Their own records and blocks are claimed.
    pub fn examine_inodes(&mut self, order: Vec<(u64, ImapEntry)>) {
        self.names.inodes.reserve_exact(order.len());
        let is_shared = |(number, entry): &(u64, ImapEntry)| self.lfs.shares(InodeNo(*number), &entry.ptr);
        let (shared, mut own): (Vec<_>, Vec<_>) = order.into_iter().partition(is_shared);
        own.sort_unstable_by_key(|(_, entry)| entry.ptr.addr);
        let mut pending = Pending::default();
        let mut course = Course::default();
        for at in 0..own.len() {
            if self.is_stopped() {
                break;
            }
            let (ino, entry) = (InodeNo(own[at].0), own[at].1);
            let stored = self.read_record(ino, &entry, (&own, at), &mut course);
            self.record(ino, &entry, stored, &mut pending);
            if pending.is_large() {
                // One pass at a time has reads under way.
                self.sweep.end(std::mem::take(&mut course));
                self.settle(&mut pending);
            }
            if at % TELL_EVERY == 0 {
                self.tell(1);
            }
        }
        self.sweep.end(course);
        for part in shared.chunks(SHARED_AT_ONCE) {
            if self.is_stopped() {
                break;
            }
            self.shared_records(part, &mut pending);
        }
        self.settle(&mut pending);
        let unread = pending.nodes.iter().chain(&pending.leaves);
        let unread_bytes: u64 = unread.map(|todo| u64::from(todo.ptr.stored_bytes())).sum();
        self.totals.live_bytes = self.claims.live_bytes.saturating_sub(unread_bytes);
        if !self.is_stopped() {
            self.charges();
        }
        self.names.sort();
    }

    /// Examines inodes whose records a point has: these were claimed with the point, and may lie anywhere.
    fn shared_records(&mut self, part: &[(u64, ImapEntry)], pending: &mut Pending) {
        let all = self.lfs.drive_all(self.sweep.read, part, |lfs, (number, entry)| {
            lfs.stored_in_state(InodeNo(*number), entry)
        });
        for ((number, entry), stored) in part.iter().zip(all) {
            self.record(InodeNo(*number), entry, stored, pending);
        }
        if pending.is_large() {
            self.settle(pending);
        }
        self.tell(1);
    }

    fn record(
        &mut self,
        ino: InodeNo,
        entry: &ImapEntry,
        stored: Result<StoredInode, FsError>,
        pending: &mut Pending,
    ) {
        let stored = match stored {
            Ok(stored) => stored,
            Err(reason) => {
                self.torn = Torn::Structure;
                self.report(Some(local(ino)), Problem::Record { reason });
                return;
            }
        };
        self.totals.inodes += 1;
        if stored.version != entry.version {
            let version = Versus { stated: entry.version, found: stored.version };
            self.report(Some(local(ino)), Problem::Version(version));
        }
        let is_orphan = stored.inode.nlink == 0 || stored.reap_from.is_some();
        if is_orphan != entry.orphan {
            let orphan = Versus { stated: entry.orphan, found: is_orphan };
            self.report(Some(local(ino)), Problem::Orphan(orphan));
        }
        self.form(ino, &stored.inode, &stored.roots);
        self.note_inode(ino, &stored);
        self.roots(ino, &stored, pending);
    }

    fn read_record(
        &mut self,
        ino: InodeNo,
        entry: &ImapEntry,
        (order, at): (&[(u64, ImapEntry)], usize),
        course: &mut Course,
    ) -> Result<StoredInode, FsError> {
        let what = || format!("inode {ino}");
        self.geo.check(&entry.ptr, 255 * SECTOR_BYTES, what)?;
        self.totals.blocks += 1;
        if !self.claims.claim(LogKind::Inode, &entry.ptr) {
            return Err(FsError::Corrupt {
                what: what(),
                at: self.geo.place(entry.ptr.addr),
                expected: "a place of its own".to_owned(),
                found: "another block's place".to_owned(),
            });
        }
        let list = |at: usize| order.get(at).map(|(_, entry)| entry.ptr);
        let bytes = self.sweep.stored(&entry.ptr, course, (&list, at), what)?;
        StoredInode::decode(ino, entry, &bytes, &self.geo)
    }

    fn note_inode(&mut self, ino: InodeNo, stored: &StoredInode) {
        let inode = &stored.inode;
        let (whole, ino) = (ino, local(ino));
        let is_inline = matches!(inode.body, Body::Inline(_));
        self.names.inodes.push(InodeFacts {
            ino,
            parent: inode.parent,
            size_bytes: inode.size_bytes,
            reap_from: stored.reap_from.map(|block| block.0),
            charged_stated: stored.charged_bytes,
            charged_found: 0,
            nlink: inode.nlink,
            names: 0,
            kind: inode.kind as u8,
            is_torn: false,
            is_inline,
        });
        match &inode.xattrs {
            Xattrs::Inline(set) => self.attributes(ino, set),
            Xattrs::Blocks(_) => self.with_attributes.push(whole),
        }
        if inode.kind == Kind::Directory {
            self.totals.directories += 1;
            self.names.dirs.push(DirFacts {
                ino,
                entries: inode.entries,
                entry_bytes: inode.entry_bytes,
                index_blocks: inode.index_blocks,
                found_entries: 0,
                found_bytes: 0,
                subdirectories: 0,
                named_at: None,
                is_torn: false,
                is_reached: false,
            });
            if let Body::Inline(content) = &inode.body {
                self.names.directory_bytes(ino, content);
            }
        }
    }

    /// Checks for values that no inode can have, whatever else is on the volume.
    fn form(&mut self, ino: InodeNo, inode: &Inode, roots: &[Roots; FORKS]) {
        let block_bytes = u64::from(self.geo.block_bytes);
        let is_dir = inode.kind == Kind::Directory;
        let is_inline = matches!(inode.body, Body::Inline(_));
        let content = inode.size_bytes;
        let wrong = if is_dir && !is_inline && !content.is_multiple_of(block_bytes) {
            Some(("whole blocks of directory content", format!("{content} bytes")))
        } else if is_dir && (content > 32 << 30 || inode.index_blocks > (32 << 30) / block_bytes) {
            let found = format!("{content} bytes, {} index blocks", inode.index_blocks);
            Some(("at most 32 GiB of directory content and index", found))
        } else if !is_dir && (roots[Fork::Index as usize].used() != (0, 0) || inode.index_blocks > 0) {
            Some(("no hash index: it is no directory", format!("{:?} with one", inode.kind)))
        } else {
            None
        };
        if let Some((expected, found)) = wrong {
            self.report(Some(local(ino)), Problem::Form { expected, found });
        }
    }

    fn roots(&mut self, ino: InodeNo, stored: &StoredInode, pending: &mut Pending) {
        let is_dir = stored.inode.kind == Kind::Directory;
        let owner = self.names.inodes.len() - 1;
        for (fork, roots) in FORK_KINDS.into_iter().zip(&stored.roots) {
            if roots.used() == (0, 0) {
                continue;
            }
            for slot in (0..SLOTS).rev() {
                let (level, index) = Map::root(slot);
                let ptr = match slot.checked_sub(DIRECT_POINTERS) {
                    None => roots.direct[slot],
                    Some(indirect) => roots.indirect[indirect],
                };
                let key = BlockKey { ino, fork, level, index };
                self.pointer(Todo { key, ptr, owner, is_dir }, pending);
            }
        }
    }

    /// Judges a pointer, counts it, and queues its target.
    fn pointer(&mut self, mut todo: Todo, pending: &mut Pending) {
        let Todo { key, ptr, .. } = todo;
        let inode = &mut self.names.inodes[todo.owner];
        let is_directory = inode.kind == Kind::Directory as u8;
        match ptr.kind {
            PtrKind::Hole => return,
            PtrKind::Reserved if key.level == 0 => {
                inode.charged_found += u64::from(self.geo.block_bytes);
                if local(key.ino) == key.ino {
                    self.claims.reserve();
                }
                return;
            }
            PtrKind::Plain | PtrKind::Reserved | PtrKind::Unknown(_) => {}
        }
        if let Err(reason) = self.geo.check(&ptr, self.geo.block_bytes, || describe(&key)) {
            self.torn(&todo);
            self.lost(&todo, Problem::Pointer { key, reason });
            return;
        }
        inode.charged_found += u64::from(ptr.stored_bytes());
        if let Some(size_bytes) = beyond_end(inode, &key, self.geo.block_bytes) {
            todo.is_dir = false;
            self.report(Some(local(key.ino)), Problem::BeyondEnd { key, size_bytes });
        }
        if self.lfs.shares(key.ino, &ptr) {
            self.shared_pointer(todo, pending);
            return;
        }
        self.totals.blocks += 1;
        let kind = LogKind::of_block(key.fork, key.level, is_directory);
        if !self.claims.claim(kind, &ptr) {
            let place = self.geo.place(ptr.addr);
            self.report(Some(local(key.ino)), Problem::Shared { key, place });
            if key.level > 0 {
                // The target belongs to the pointer that claimed it first; the pointer may even lead back to itself.
                self.torn(&todo);
                return;
            }
        }
        if key.level > 0 {
            pending.nodes.push(todo);
        } else if self.depth == Depth::Structure && key.fork == Fork::Data && !todo.is_dir {
            // Content: nothing depends on it, and every reader verifies it.
        } else if self.sweep.is_at_hand(&ptr) {
            let bytes = self.sweep.at_hand(&ptr, || describe(&key));
            self.leaf(&todo, bytes);
        } else {
            self.queued_bytes += u64::from(ptr.stored_bytes());
            pending.leaves.push(todo);
        }
    }

    /// A block that a point has: it was claimed with the point. For a clone only what leads on, or has names, is read again; for the
    /// point itself, all that no older one had in the same place.
    fn shared_pointer(&mut self, todo: Todo, pending: &mut Pending) {
        let Todo { key, ptr, .. } = todo;
        let here = self.lfs.drive(self.sweep.read, |lfs| lfs.place_of_shared(&key, ptr));
        let origins = here.and_then(|here| match self.claims.has(&here) {
            true => Ok(here),
            false => Err(FsError::Corrupt {
                what: describe(&key),
                at: self.geo.place(here.addr),
                expected: "a block of that state".to_owned(),
                found: "nothing of it".to_owned(),
            }),
        });
        match origins {
            Ok(ptr) if key.level > 0 => pending.nodes.push(Todo { ptr, ..todo }),
            Ok(here) if todo.is_dir || self.is_unread(&key, ptr, here) => {
                self.queued_bytes += u64::from(here.stored_bytes());
                pending.leaves.push(Todo { ptr: here, ..todo });
            }
            Ok(_) => {}
            Err(reason) => {
                self.torn(&todo);
                self.lost(&todo, Problem::Pointer { key, reason });
            }
        }
    }

    /// True for a block of the state that is examined, unless an older one had it in the same place: all that is between birth and death of
    /// a block has it.
    fn is_unread(&mut self, key: &BlockKey, ptr: BlockPtr, here: BlockPtr) -> bool {
        let Some(past) = self.past else { return false };
        let Some(older) = past.older.filter(|older| *older >= ptr.birth) else { return true };
        let before = self.lfs.drive(self.sweep.read, |lfs| lfs.place_at(key, ptr, older));
        before != Ok(here)
    }

    /// Notes that a block with pointers could not be followed.
    fn torn(&mut self, todo: &Todo) {
        let torn = if self.lost_bytes(todo) > 0 { Torn::Content } else { Torn::Structure };
        self.torn = self.torn.max(torn);
        self.names.inodes[todo.owner].is_torn = true;
        if todo.is_dir {
            self.names.torn_dirs.push(local(todo.key.ino));
        }
    }

    /// Reports a block that cannot be read, with what it costs its file.
    fn lost(&mut self, todo: &Todo, problem: Problem) {
        let lost_bytes = self.lost_bytes(todo);
        self.names.keep(Finding { lost_bytes, ..Finding::new(Some(todo.key.ino), problem) });
    }

    /// See [`Finding::lost_bytes`].
    fn lost_bytes(&self, todo: &Todo) -> u64 {
        let (inode, key) = (&self.names.inodes[todo.owner], &todo.key);
        let is_content = key.fork == Fork::Data && inode.kind != Kind::Directory as u8 && !is_past(key.ino);
        if !is_content || inode.nlink == 0 || inode.is_inline {
            return 0;
        }
        let (first, span) = (self.geo.map.first_data(key.level, key.index), self.geo.map.span(key.level));
        let block_bytes = u64::from(self.geo.block_bytes);
        let end_bytes = first.0.saturating_add(span).saturating_mul(block_bytes).min(inode.size_bytes);
        end_bytes.saturating_sub(first.0.saturating_mul(block_bytes))
    }

    /// Examines everything queued, in device order as far as memory allows. After a stop the rest stays queued.
    fn settle(&mut self, pending: &mut Pending) {
        while !(pending.nodes.is_empty() && pending.leaves.is_empty() || self.is_stopped()) {
            if pending.nodes.is_empty() || pending.leaves.len() >= GATHER_MAX {
                self.leaves(&mut pending.leaves);
                continue;
            }
            let mut nodes = pending.nodes.split_off(pending.nodes.len().saturating_sub(EXPAND_MAX));
            nodes.sort_unstable_by_key(|todo| todo.ptr.addr);
            let list = |at: usize| nodes.get(at).map(|todo| todo.ptr);
            let mut course = Course::default();
            for (at, todo) in nodes.iter().enumerate() {
                let bytes = self.target(todo, &mut course, (&list, at));
                self.node(todo, bytes, pending);
            }
            self.sweep.end(course);
        }
    }

    fn leaves(&mut self, leaves: &mut Vec<Todo>) {
        leaves.sort_unstable_by_key(|todo| todo.ptr.addr);
        let list = |at: usize| leaves.get(at).map(|todo| todo.ptr);
        let mut course = Course::default();
        let mut done = 0;
        for (at, todo) in leaves.iter().enumerate() {
            let bytes = self.target(todo, &mut course, (&list, at));
            if self.is_stopped() {
                break;
            }
            self.leaf(todo, bytes);
            self.queued_bytes -= u64::from(todo.ptr.stored_bytes());
            done = at + 1;
            if at % TELL_EVERY == 0 {
                self.tell(1);
            }
        }
        self.sweep.end(course);
        leaves.drain(..done);
    }

    /// The verified bytes of a block in a list of them.
    fn target(
        &mut self,
        todo: &Todo,
        course: &mut Course,
        place: (&List<'_>, usize),
    ) -> Result<Vec<u8>, FsError> {
        self.sweep.stored(&todo.ptr, course, place, || describe(&todo.key))
    }

    /// Examines the pointers of an indirect block.
    fn node(&mut self, todo: &Todo, read: Result<Vec<u8>, FsError>, pending: &mut Pending) {
        let Todo { key, ptr, .. } = *todo;
        // A mount rejects the whole block for one impossible pointer, so the check does too.
        let admitted = read.and_then(|bytes| admit_block(&self.geo, &key, &ptr, &bytes).map(|()| bytes));
        let bytes = match admitted {
            Ok(bytes) => bytes,
            Err(reason) => {
                self.torn(todo);
                self.lost(todo, Problem::Block { key, reason });
                return;
            }
        };
        for (slot, bytes) in bytes.as_chunks().0.iter().enumerate() {
            let index = self.geo.map.child(key.level, key.index, slot);
            let key = BlockKey { level: key.level - 1, index, ..key };
            self.pointer(Todo { key, ptr: BlockPtr::decode(bytes), ..*todo }, pending);
        }
    }

    fn leaf(&mut self, todo: &Todo, read: Result<Vec<u8>, FsError>) {
        let Todo { key, is_dir, .. } = *todo;
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(reason) => {
                if is_dir {
                    self.names.torn_dirs.push(local(key.ino));
                }
                self.lost(todo, Problem::Block { key, reason });
                return;
            }
        };
        match key.fork {
            Fork::Data if is_dir => self.names.directory_block(local(key.ino), key.index.0, bytes),
            Fork::Index if is_dir => {
                self.names.index_nodes.push(IndexNode { dir: local(key.ino), block: key.index.0, bytes });
            }
            Fork::Data | Fork::Index | Fork::Xattr => {}
        }
    }

    /// Bytes charged to each inode.
    fn charges(&mut self) {
        for at in 0..self.names.inodes.len() {
            let inode = self.names.inodes[at];
            if inode.charged_found != inode.charged_stated && !inode.is_torn {
                let bytes = Versus { stated: inode.charged_stated, found: inode.charged_found };
                self.report(Some(inode.ino), Problem::Charge(bytes));
            }
        }
    }
}

/// The size of the file, if a block lies beyond it.
fn beyond_end(inode: &InodeFacts, key: &BlockKey, block_bytes: u32) -> Option<u64> {
    if key.fork != Fork::Data || key.level > 0 || inode.reap_from.is_some_and(|from| key.index.0 >= from) {
        return None;
    }
    let end_bytes = if inode.is_inline { 0 } else { inode.size_bytes };
    let BlockIndex(index) = key.index;
    (index.saturating_mul(u64::from(block_bytes)) >= end_bytes).then_some(inode.size_bytes)
}
