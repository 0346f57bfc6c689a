//! Plans one step of coalescing: a *window* of a file or of a directory, as it lies on the device now.
//!
//! A window of a file is a stretch of its blocks in their order. A window of a directory is some of its small files in the order
//! of the directory, which is the order of creation and of every listing: the blocks and the record of each. The first window
//! also has the blocks and the record of the directory, unless it is large: they move with the files, but do not count in the
//! decision whether to move.
//!
//! Invariants: a window is bounded in bytes, blocks and entries, so a step is bounded too; planning changes nothing and may
//! stop for blocks of metadata; files that changed recently, or that have other names elsewhere, are left out of a directory's
//! windows. Caller: `coalesce`.

use crate::clean::Medium;
use crate::clean::scatter::{Grid, Stretch, reads_on};
use crate::dirent;
use crate::error::{FsError, Outcome, Stop, gather_needs};
use crate::fetch::{Ahead, Fetch};
use crate::inode::{Body, Kind};
use crate::lfs::Lfs;
use crate::lfs::room::segments::Room;
use crate::store::{BlockKey, Fork, Store};
use firnfs_format::{BlockIndex, BlockPtr, InodeNo, SECTOR_BYTES, TimeNs};

/// Bytes of one window at most; less with a smaller write threshold, or with less room on the volume.
const WINDOW_BYTES_MAX: u64 = 16 << 20;
/// Size of a window for which every volume has room, in bytes.
const WINDOW_BYTES_MIN: u64 = 512 << 10;
/// Blocks or holes that are examined for one window.
const LOOKS_MAX: u64 = 1 << 14;
/// Directory entries that are examined for one window.
const ENTRIES_MAX: usize = 4096;
/// Largest file that is put in order with its directory, in bytes: a larger one is worth a seek, and has windows of its own.
const SMALL_BYTES: u64 = 64 << 10;
/// Largest directory that moves along with its files, in bytes of entries.
const DIRECTORY_BYTES: u64 = 256 << 10;
/// Bytes requested at once: users wait no longer than these take.
const NEEDS_BYTES: u64 = 1 << 20;

/// A block or record to be rewritten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lfs) enum Move {
    /// A block of content, and its present place.
    Block(BlockKey, BlockPtr),
    /// The record of an inode.
    Record(InodeNo),
}

/// See the module's head.
#[derive(Default)]
pub(in crate::lfs) struct Window {
    /// All blocks and records, in order.
    pub moves: Vec<Move>,
    /// Blocks of content, in the order of a reader.
    pub contents: Stretch,
    /// Records with inline content, which lie behind the blocks.
    pub inline: Stretch,
    /// Records of files in blocks, which lie in another log.
    pub records: Stretch,
    /// How many of the first moves are the directory's own, and their bytes.
    pub own: (usize, u64),
    /// Files in it: one, or those of a directory.
    pub files: u64,
    /// Where the next window begins; `None` after the last.
    pub next: Option<u64>,
    /// Files were left out because they changed a short time ago.
    pub is_early: bool,
}

impl Window {
    /// The files, in the order of a reader.
    pub(in crate::lfs) fn stretch(&self) -> Stretch {
        self.contents.with(&self.inline).with(&self.records)
    }

    /// The bytes that would be moved.
    pub(in crate::lfs) fn bytes(&self) -> u64 {
        self.stretch().bytes + self.own.1
    }
}

impl Lfs {
    pub(in crate::lfs) fn grid(&self) -> Grid {
        Grid { segment_sectors: self.geo.segment_sectors, block_sectors: self.geo.block_bytes / SECTOR_BYTES }
    }

    /// Size of a window: the longer it is, the longer are the runs of records of its files. A small volume has larger windows
    /// while many segments are clean.
    fn window_bytes(&self, room: &Room) -> u64 {
        let bytes = room.for_window() * room.segment_bytes;
        bytes.min(self.options.write_threshold_bytes).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX)
    }

    /// The window of a file, which is in memory, that begins at a block.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(in crate::lfs) fn plan_file(&mut self, room: &Room, ino: InodeNo, from: u64) -> Outcome<Window> {
        let mut window = Window { files: 1, ..Window::default() };
        let end = match &self.core(ino).inode {
            inode if matches!(inode.body, Body::Inline(_)) => 0,
            inode => inode.size_bytes.div_ceil(u64::from(self.geo.block_bytes)),
        };
        let (grid, window_bytes) = (self.grid(), self.window_bytes(room));
        let mut at = from;
        for _ in 0..LOOKS_MAX {
            if at >= end || window.bytes() >= window_bytes {
                break;
            }
            let key = BlockKey { ino, fork: Fork::Data, level: 0, index: BlockIndex(at) };
            let ptr = self.ptr(key)?;
            if ptr.is_stored() {
                window.contents.add(&grid, ptr.addr, ptr.len_sectors);
                window.moves.push(Move::Block(key, ptr));
                at += 1;
            } else {
                // For a hole a reader returns zeros without moving the head.
                at = at.saturating_add(self.extent_at(ino, BlockIndex(at))?.0);
            }
        }
        window.next = (at < end).then_some(at);
        Ok(window)
    }

    /// Entries of a directory in order: inode, type, and the place after the entry, to continue from; from a place on, at
    /// most [`ENTRIES_MAX`].
    ///
    /// # Errors
    /// `Need`, if nothing was found before it; `Corrupt`, `NotDirectory`.
    fn children_of(&mut self, dir: InodeNo, from: u64) -> Outcome<Vec<(InodeNo, Kind, u64)>> {
        let block_bytes = u64::from(self.geo.block_bytes);
        let inode = &self.load_inode(dir)?.inode;
        if inode.kind != Kind::Directory {
            return Err(FsError::NotDirectory.into());
        }
        let mut children = Vec::new();
        if let Body::Inline(content) = &inode.body {
            list_block(content, 0, from, &mut children)?;
            return Ok(children);
        }
        let blocks = inode.size_bytes / block_bytes;
        let mut at = from / block_bytes;
        while at < blocks.min(from / block_bytes + LOOKS_MAX) && children.len() < ENTRIES_MAX {
            match self.block(dir, Fork::Data, BlockIndex(at)) {
                Ok(block) => list_block(&block, at * block_bytes, from, &mut children)?,
                Err(_) if !children.is_empty() => break,
                Err(stop) => return Err(stop),
            }
            at += 1;
        }
        Ok(children)
    }

    /// The window of a directory, which is in memory, that begins at a cookie. Files that changed after `before` are left out.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(in crate::lfs) fn plan_directory(
        &mut self,
        room: &Room,
        dir: InodeNo,
        from: u64,
        before: TimeNs,
    ) -> Outcome<Window> {
        let children = self.children_of(dir, from)?;
        let mut window = Window { next: children.last().map(|(.., next)| *next), ..Window::default() };
        if from == 0 && !self.upkeep.coalescing.damaged.contains(&dir) {
            match self.plan_own(dir, before, &mut window) {
                Err(Stop::Fail(_)) => {
                    self.upkeep.coalescing.damaged.insert(dir);
                    window = Window { next: window.next, ..Window::default() };
                }
                other => other?,
            }
        }
        let mut needs = Vec::new();
        let window_bytes = self.window_bytes(room);
        for (ino, kind, next) in children {
            let is_damaged = self.upkeep.coalescing.damaged.contains(&ino);
            if is_damaged || !matches!(kind, Kind::Regular | Kind::Symlink) {
                continue;
            }
            match gather_needs(self.plan_child(ino, before, &mut window), &mut needs) {
                Ok(_) => {}
                // A damaged file is left to its owner; the others can still be put in order.
                Err(Stop::Fail(_)) => drop(self.upkeep.coalescing.damaged.insert(ino)),
                Err(stop) => return Err(stop),
            }
            if window.bytes() >= window_bytes {
                window.next = Some(next);
                break;
            }
            if needs.iter().map(|need| u64::from(need.len_bytes)).sum::<u64>() >= NEEDS_BYTES {
                break;
            }
        }
        if needs.is_empty() { Ok(window) } else { Err(Stop::Need(self.in_order(needs))) }
    }

    /// Adds the blocks and record of a directory, if it is small and has not changed for a while.
    fn plan_own(&mut self, dir: InodeNo, before: TimeNs, window: &mut Window) -> Outcome<()> {
        let core = self.load_inode(dir)?;
        let (inode, record) = (&core.inode, core.record);
        let is_at_rest = core.dirty.is_none() && inode.ctime <= before && record.is_stored();
        if !is_at_rest || inode.size_bytes > DIRECTORY_BYTES {
            return Ok(());
        }
        for placed in self.inode_blocks(dir)?.into_iter().filter(|placed| placed.key.level == 0) {
            window.own.1 += u64::from(placed.ptr.stored_bytes());
            window.moves.push(Move::Block(placed.key, placed.ptr));
        }
        window.own.1 += u64::from(record.stored_bytes());
        window.moves.push(Move::Record(dir));
        window.own.0 = window.moves.len();
        Ok(())
    }

    /// Adds a file of a directory to its window, if it qualifies.
    fn plan_child(&mut self, ino: InodeNo, before: TimeNs, window: &mut Window) -> Outcome<()> {
        let grid = self.grid();
        let block_bytes = u64::from(self.geo.block_bytes);
        let core = self.load_inode(ino)?;
        let record = core.record;
        let is_busy = core.dirty.is_some() || core.reap_from.is_some() || core.freed;
        let is_small = core.inode.size_bytes <= SMALL_BYTES && core.inode.nlink == 1;
        if is_busy || !is_small || !record.is_stored() {
            return Ok(());
        }
        if core.inode.ctime > before {
            window.is_early = true;
            return Ok(());
        }
        let is_inline = matches!(core.inode.body, Body::Inline(_));
        let size_bytes = if is_inline { 0 } else { core.inode.size_bytes };
        let blocks = size_bytes.div_ceil(block_bytes);
        let mut ptrs = Vec::with_capacity(blocks as usize);
        for index in 0..blocks {
            let key = BlockKey { ino, fork: Fork::Data, level: 0, index: BlockIndex(index) };
            ptrs.push((key, self.ptr(key)?));
        }
        for (key, ptr) in ptrs.into_iter().filter(|(_, ptr)| ptr.is_stored()) {
            window.contents.add(&grid, ptr.addr, ptr.len_sectors);
            window.moves.push(Move::Block(key, ptr));
        }
        let stream = if is_inline { &mut window.inline } else { &mut window.records };
        stream.add(&grid, record.addr, record.len_sectors);
        window.moves.push(Move::Record(ino));
        window.files += 1;
        Ok(())
    }

    /// Brings the content of a window into memory, with the indirect blocks that lead to it.
    ///
    /// # Errors
    /// `Need` for a part of the missing blocks, in the order of the device; `Corrupt`.
    pub(in crate::lfs) fn bring(&mut self, window: &Window) -> Outcome<()> {
        let mut needs = Vec::new();
        for part in &window.moves {
            let Move::Block(key, _) = part else { continue };
            gather_needs(self.load_parents(*key), &mut needs)?;
            if self.shelf.cache.peek(key).is_none() {
                gather_needs(self.load(*key), &mut needs)?;
            }
        }
        needs.dedup();
        if needs.is_empty() { Ok(()) } else { Err(Stop::Need(self.in_order(needs))) }
    }

    /// Seams of a window after it was moved. All of it is in memory.
    pub(in crate::lfs) fn seams_now(&mut self, window: &Window) -> Result<u64, FsError> {
        let grid = self.grid();
        let mut now = Window::default();
        for part in &window.moves[window.own.0..] {
            match part {
                Move::Block(key, _) => {
                    let ptr = match self.ptr(*key) {
                        Ok(ptr) => ptr,
                        Err(Stop::Fail(why)) => return Err(why),
                        // Too little memory for its indirect blocks: not worth reading them again.
                        Err(Stop::Need(_) | Stop::Room) => continue,
                    };
                    now.contents.add(&grid, ptr.addr, ptr.len_sectors);
                }
                Move::Record(ino) => {
                    let core = self.core(*ino);
                    let is_inline = matches!(core.inode.body, Body::Inline(_));
                    let stream = if is_inline { &mut now.inline } else { &mut now.records };
                    stream.add(&grid, core.record.addr, core.record.len_sectors);
                }
            }
        }
        Ok(now.stretch().seams)
    }

    /// The first of those requests in the order of the device, as many as are made at once. A gap between two of them is
    /// read too if that pays.
    pub(in crate::lfs) fn in_order(&self, mut needs: Vec<Fetch>) -> Vec<Fetch> {
        needs.sort_by_key(|need| need.at_bytes);
        needs.dedup_by_key(|need| need.token);
        let mut bytes = 0;
        let at_once = needs.iter().take_while(|need| {
            let fits = bytes < NEEDS_BYTES;
            bytes += u64::from(need.len_bytes);
            fits
        });
        let count = at_once.count();
        needs.truncate(count);
        read_through_gaps(&self.options.medium, &mut needs);
        needs
    }
}

/// Extends requests, sorted by place, over the gaps between them if that pays.
fn read_through_gaps(medium: &Medium, needs: &mut [Fetch]) {
    let mut len_bytes = 0;
    for at in 0..needs.len() {
        let Fetch { at_bytes, len_bytes: needed_bytes, .. } = needs[at];
        len_bytes += u64::from(needed_bytes);
        let end = at_bytes + u64::from(needed_bytes);
        let gap_bytes = needs.get(at + 1).map(|next| next.at_bytes.saturating_sub(end));
        let through = gap_bytes.filter(|gap_bytes| reads_on(medium, len_bytes, *gap_bytes));
        let behind_bytes = through.and_then(|gap_bytes| u32::try_from(gap_bytes).ok());
        needs[at].ahead = Ahead { before_bytes: 0, behind_bytes: behind_bytes.unwrap_or(0) };
        if behind_bytes.is_none_or(|bytes| bytes > 0) {
            len_bytes = 0;
        }
    }
}

/// Adds the entries of one block of a directory, from a byte on; the block begins at a given byte of the content.
fn list_block(
    block: &[u8],
    at_bytes: u64,
    from: u64,
    children: &mut Vec<(InodeNo, Kind, u64)>,
) -> Result<(), FsError> {
    for record in dirent::records(block) {
        let record = record?;
        let place = at_bytes + record.at as u64;
        if !record.is_free() && place >= from && children.len() < ENTRIES_MAX {
            children.push((record.ino, record.kind()?, place + 1));
        }
    }
    Ok(())
}
