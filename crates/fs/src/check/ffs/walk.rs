//! Phase 1: every inode of every table, every block that it leads to. A bit for each fragment says whether it is claimed; a second claim is
//! a finding, so nothing is followed twice.

use super::super::finding::{Problem, Versus};
use super::super::namespace::{DirFacts, IndexNode, InodeFacts, Namespace};
use super::ahead::{AHEAD_BYTES, Ahead, Wanted};
use super::{FfsProblem, FfsTotals, Mend, namespace};
use crate::bmap;
use crate::device_reader::{DeviceReader, Extent};
use crate::error::FsError;
use crate::ffs::alloc::bits;
use crate::ffs::{Geo, SLOTS, addr_of, is_written, pointer_at, put_pointer};
use crate::inode::{Inode, Kind};
use crate::store::{BlockKey, Fork};
use crate::ufs::xattr::SET_MAX_BYTES;
use firnfs_format::ffs::inode::{DINODE_BYTES, ENTRY_UNIT_BYTES};
use firnfs_format::ffs::{Dinode, Superblock};
use firnfs_format::{InodeNo, TimeNs};

const FORKS: [Fork; 3] = [Fork::Data, Fork::Index, Fork::Xattr];
/// Findings of its own that are kept.
const FINDINGS_MAX: usize = 20_000;

/// See the module's head.
pub struct Walk<'a> {
    pub(super) read: &'a mut dyn DeviceReader,
    pub(super) geo: Geo,
    /// Fragments that blocks claim.
    pub(super) claims: Vec<u8>,
    /// Inodes in use, as a bitmap over all groups.
    pub(super) used: Vec<u8>,
    /// Directories by group.
    pub(super) dirs: Vec<u32>,
    pub(super) names: Namespace,
    /// Findings of phases 1 and 5.
    pub(super) own: Vec<(FfsProblem, Option<InodeNo>)>,
    pub(super) totals: FfsTotals,
    pub(super) mend: Mend,
    /// Attribute set of the inode that is walked.
    set: Vec<u8>,
    /// Bytes that were read together, ahead of their use.
    pub(super) ahead: Ahead,
}

/// An inode under way.
struct Subject<'d> {
    ino: InodeNo,
    stored: &'d Dinode,
    frags: u32,
    is_torn: bool,
}

impl<'a> Walk<'a> {
    /// Nothing is claimed yet.
    pub fn new(read: &'a mut dyn DeviceReader, sb: &Superblock) -> Self {
        let geo = Geo::new(sb.layout);
        let inodes = sb.layout.groups as usize * sb.layout.group_inodes as usize;
        let frags = usize::try_from(sb.layout.size_frags).unwrap_or(0);
        Self {
            read,
            geo,
            claims: vec![0; frags.div_ceil(8)],
            used: vec![0; inodes.div_ceil(8)],
            dirs: vec![0; sb.layout.groups as usize],
            names: namespace(sb),
            own: Vec::new(),
            totals: FfsTotals::default(),
            mend: Mend::default(),
            set: Vec::new(),
            ahead: Ahead::default(),
        }
    }

    /// Reads a range of the device.
    pub(super) fn bytes(&mut self, at_bytes: u64, len_bytes: u32) -> Result<Vec<u8>, FsError> {
        match self.ahead.take(at_bytes, len_bytes) {
            Some(bytes) => Ok(bytes),
            None => Ok(self.read.read(Extent::new(at_bytes, len_bytes))?.to_vec()),
        }
    }

    pub(super) fn report(&mut self, ino: Option<InodeNo>, problem: FfsProblem) {
        if self.own.len() < FINDINGS_MAX {
            self.own.push((problem, ino));
        }
    }

    /// Walks all inodes.
    pub fn all_inodes(&mut self) -> Result<(), FsError> {
        let per_group = self.geo.layout.inode_blocks();
        let len_bytes = self.geo.layout.block_bytes;
        let per_read = AHEAD_BYTES as u32 / len_bytes;
        for group in 0..self.geo.layout.groups {
            for start in (0..per_group).step_by(per_read as usize) {
                let numbers = start..per_group.min(start + per_read);
                let numbers = numbers.map(|block| group * per_group + block);
                let place = |number| self.geo.device_bytes(self.geo.inode_block_addr(number));
                let blocks: Vec<(u32, Extent)> =
                    numbers.map(|number| (number, Extent::new(place(number), len_bytes))).collect();
                self.ahead.fill(self.read, blocks.iter().map(|(_, extent)| *extent));
                self.inode_blocks(&blocks)?;
            }
        }
        Ok(())
    }

    /// Walks blocks of the inode table. What their inodes lead to is read together, as much at a time as may be ahead.
    fn inode_blocks(&mut self, blocks: &[(u32, Extent)]) -> Result<(), FsError> {
        let mut ready: Vec<(u32, Vec<u8>)> = Vec::new();
        let mut wanted = Wanted::default();
        for &(number, extent) in blocks {
            let block = self.bytes(extent.at_bytes, extent.len_bytes)?;
            self.wanted_by_inodes(&block, &mut wanted);
            ready.push((number, block));
            if wanted.len_bytes >= AHEAD_BYTES {
                self.batch(&mut ready, &mut wanted);
            }
        }
        self.batch(&mut ready, &mut wanted);
        Ok(())
    }

    fn batch(&mut self, ready: &mut Vec<(u32, Vec<u8>)>, wanted: &mut Wanted) {
        let wanted = std::mem::take(wanted);
        self.ahead.fill(self.read, wanted.extents.iter().copied());
        for (number, block) in std::mem::take(ready) {
            self.inode_block(number, &block);
        }
        self.ahead.forget(&wanted.extents);
    }

    /// The blocks that the inodes of a block of the table lead to and whose content the check needs.
    fn wanted_by_inodes(&self, block: &[u8], wanted: &mut Wanted) {
        for stored in block.chunks_exact(DINODE_BYTES).filter_map(|bytes| Dinode::decode(bytes).ok()) {
            for fork in FORKS {
                for slot in 0..SLOTS {
                    let (level, index) = bmap::Geometry::root(slot);
                    let ptr = stored.roots[fork as usize][slot];
                    if ptr != 0 && level <= Geo::levels(fork) {
                        self.want(&stored, &BlockKey { ino: InodeNo(0), fork, level, index }, ptr, wanted);
                    }
                }
            }
        }
    }

    /// Adds a block whose content the check needs, if it is one and nobody claims it yet.
    fn want(&self, stored: &Dinode, key: &BlockKey, ptr: u32, wanted: &mut Wanted) {
        let (addr, frags) = (addr_of(ptr), self.frags_of(stored, key));
        if self.is_content_needed(stored, key, ptr)
            && self.geo.check(addr, frags, String::new).is_ok()
            && !bits::get(&self.claims, addr)
        {
            wanted.add(Extent::new(self.geo.device_bytes(addr), self.geo.bytes_of(frags) as u32));
        }
    }

    fn inode_block(&mut self, number: u32, block: &[u8]) {
        let at_bytes = self.geo.device_bytes(self.geo.inode_block_addr(number));
        let mut mended = block.to_vec();
        let first = u64::from(number) * u64::from(self.geo.layout.inodes_per_block());
        for (ino, at) in (first..).map(InodeNo).zip((0..block.len()).step_by(DINODE_BYTES)) {
            let bytes = &block[at..at + DINODE_BYTES];
            if let Some(right) = self.inode(ino, bytes) {
                mended[at..at + DINODE_BYTES].copy_from_slice(&right.encode());
            }
        }
        if mended != block {
            self.mend.writes.insert(at_bytes, mended);
        }
    }

    /// Walks one inode; returns what it should be, if that differs.
    fn inode(&mut self, ino: InodeNo, bytes: &[u8]) -> Option<Dinode> {
        let (mut stored, mut reason) = match Dinode::decode(bytes) {
            Ok(stored) => (stored, None),
            Err(why) => (Dinode::default(), Some(why.to_string())),
        };
        let is_root = ino == InodeNo::ROOT;
        if reason.is_none() && stored.kind == 0 && !is_root {
            return None;
        }
        reason = reason.or_else(|| self.impossible(ino, &stored));
        let generation = stored.generation;
        if let Some(reason) = reason {
            self.report(Some(ino), FfsProblem::Inode { reason });
            if !is_root {
                return Some(Dinode::free(generation));
            }
            stored = new_root(generation.wrapping_add(1));
        }
        self.note(ino, &stored);
        let right = self.blocks(ino, &stored);
        let is_same = bytes == right.encode();
        (!is_same).then_some(right)
    }

    fn impossible(&self, ino: InodeNo, stored: &Dinode) -> Option<String> {
        let is_dir = stored.kind == Kind::Directory as u8;
        if ino == InodeNo::ROOT && !is_dir {
            return Some(format!("the root directory has type {}", stored.kind));
        }
        if ino.0 < InodeNo::FIRST_USER.0 && ino != InodeNo::ROOT {
            return Some("a reserved number".to_owned());
        }
        let reach = self.geo.blocks_max(Fork::Data).saturating_mul(self.geo.block_bytes());
        if stored.size_bytes > reach.min(i64::MAX as u64) {
            return Some(format!("a size of {} bytes", stored.size_bytes));
        }
        if stored.xattr_bytes as usize > SET_MAX_BYTES {
            return Some(format!("attributes of {} bytes", stored.xattr_bytes));
        }
        None
    }

    /// Adds an inode to the namespace.
    fn note(&mut self, ino: InodeNo, stored: &Dinode) {
        let is_dir = stored.kind == Kind::Directory as u8;
        bits::put(&mut self.used, ino.0 as u32, true);
        self.totals.inodes += 1;
        self.names.inodes.push(InodeFacts {
            ino,
            parent: if is_dir { InodeNo(stored.node) } else { InodeNo(0) },
            size_bytes: stored.size_bytes,
            reap_from: None,
            charged_stated: u64::from(stored.frags),
            charged_found: 0,
            nlink: stored.nlink,
            names: 0,
            kind: stored.kind,
            is_torn: false,
            is_inline: false,
        });
        let block_bytes = self.geo.block_bytes();
        if !is_dir {
            if stored.index_blocks > 0 {
                let found = format!("{} index blocks", stored.index_blocks);
                self.names.report(Some(ino), Problem::Form { expected: "no index", found });
            }
            return;
        }
        self.totals.directories += 1;
        self.dirs[(ino.0 / u64::from(self.geo.layout.group_inodes)) as usize] += 1;
        if !stored.size_bytes.is_multiple_of(block_bytes) {
            let found = format!("{} bytes", stored.size_bytes);
            self.names
                .report(Some(ino), Problem::Form { expected: "whole blocks of directory content", found });
        }
        self.names.dirs.push(DirFacts {
            ino,
            entries: stored.entries.into(),
            entry_bytes: u64::from(stored.entry_units) * ENTRY_UNIT_BYTES,
            index_blocks: stored.index_blocks.into(),
            found_entries: 0,
            found_bytes: 0,
            subdirectories: 0,
            named_at: None,
            is_torn: false,
            is_reached: false,
        });
    }

    /// Claims the blocks of an inode; returns the inode with the right values.
    fn blocks(&mut self, ino: InodeNo, stored: &Dinode) -> Dinode {
        let mut right = stored.clone();
        let mut subject = Subject { ino, stored, frags: 0, is_torn: false };
        self.set.clear();
        for fork in FORKS {
            for slot in 0..SLOTS {
                let (level, index) = bmap::Geometry::root(slot);
                let ptr = stored.roots[fork as usize][slot];
                if ptr == 0 || level > Geo::levels(fork) {
                    continue;
                }
                let key = BlockKey { ino, fork, level, index };
                if !self.block(&mut subject, &key, ptr) {
                    right.roots[fork as usize][slot] = 0;
                }
            }
        }
        if subject.is_torn && stored.kind == Kind::Directory as u8 {
            self.names.torn_dirs.push(ino);
        }
        let found = subject.frags;
        self.totals.frags += u64::from(found);
        if let Some(inode) = self.names.inodes.last_mut() {
            inode.charged_found = u64::from(found);
            inode.is_torn = subject.is_torn;
        }
        if found != stored.frags {
            self.report(Some(ino), FfsProblem::Frags(Versus { stated: stored.frags, found }));
            right.frags = found;
        }
        if stored.xattr_bytes > 0 {
            let mut set = std::mem::take(&mut self.set);
            set.resize(stored.xattr_bytes as usize, 0);
            self.names.attributes(ino, &set);
            self.set = set;
        }
        right
    }

    fn frags_of(&self, stored: &Dinode, key: &BlockKey) -> u32 {
        match key.fork {
            _ if key.level > 0 => self.geo.block_frags(),
            Fork::Data => self.geo.frags_at(key.index.0, stored.size_bytes, stored.whole_tail),
            Fork::Index => self.geo.block_frags(),
            Fork::Xattr => self.geo.frags_at(key.index.0, stored.xattr_bytes.into(), false),
        }
    }

    /// Claims a block and those below it. False if its pointer has to be cut.
    fn block(&mut self, subject: &mut Subject<'_>, key: &BlockKey, ptr: u32) -> bool {
        let (addr, frags) = (addr_of(ptr), self.frags_of(subject.stored, key));
        let is_place =
            self.geo.check(addr, frags, String::new).is_ok() && (key.level == 0 || is_written(ptr));
        if !is_place {
            self.report(Some(subject.ino), FfsProblem::Pointer { key: *key, addr });
            subject.is_torn = true;
            return false;
        }
        if (addr..addr + frags).any(|frag| bits::get(&self.claims, frag)) {
            self.report(Some(subject.ino), FfsProblem::Shared { key: *key, addr });
            subject.is_torn = true;
            return false;
        }
        let content = match self.content(subject, key, ptr, frags) {
            Ok(content) => content,
            Err(reason) => {
                self.report(Some(subject.ino), FfsProblem::Unreadable { key: *key, reason });
                subject.is_torn = true;
                return false;
            }
        };
        (addr..addr + frags).for_each(|frag| bits::put(&mut self.claims, frag, true));
        subject.frags = subject.frags.saturating_add(frags);
        if let Some(content) = content {
            self.below(subject, key, addr, content);
        }
        true
    }

    /// Whether the check reads a block.
    fn is_content_needed(&self, stored: &Dinode, key: &BlockKey, ptr: u32) -> bool {
        let is_dir = stored.kind == Kind::Directory as u8;
        match key.fork {
            _ if !is_written(ptr) => false,
            _ if key.level > 0 => true,
            Fork::Data => is_dir && key.index.0 < stored.size_bytes / self.geo.block_bytes(),
            Fork::Index => is_dir,
            Fork::Xattr => true,
        }
    }

    /// Reads a block if the check needs its content.
    fn content(
        &mut self,
        subject: &Subject<'_>,
        key: &BlockKey,
        ptr: u32,
        frags: u32,
    ) -> Result<Option<Vec<u8>>, FsError> {
        if !self.is_content_needed(subject.stored, key, ptr) {
            return Ok(None);
        }
        let len_bytes = self.geo.bytes_of(frags) as u32;
        self.bytes(self.geo.device_bytes(addr_of(ptr)), len_bytes).map(Some)
    }

    /// Follows an indirect block, or passes on the content of a directory or of an attribute set.
    fn below(&mut self, subject: &mut Subject<'_>, key: &BlockKey, addr: u32, mut content: Vec<u8>) {
        if key.level == 0 {
            match key.fork {
                Fork::Data => self.names.directory_block(subject.ino, key.index.0, content),
                Fork::Index => {
                    let (dir, block) = (subject.ino, key.index.0);
                    self.names.index_nodes.push(IndexNode { dir, block, bytes: content });
                }
                Fork::Xattr => {
                    let at = (key.index.0 * self.geo.block_bytes()) as usize;
                    let len = self.set.len().max(at + content.len()).min(SET_MAX_BYTES);
                    self.set.resize(len, 0);
                    let part = content.len().min(len.saturating_sub(at));
                    self.set[at..at + part].copy_from_slice(&content[..part]);
                }
            }
            return;
        }
        let mut cut = false;
        let mut slot = 0;
        while slot < self.geo.pointers() {
            let (end, wanted) = self.wanted_below(subject.stored, key, &content, slot);
            self.ahead.fill(self.read, wanted.extents.iter().copied());
            for slot in slot..end {
                let ptr = pointer_at(&content, slot);
                if ptr != 0 && !self.block(subject, &self.child(key, slot), ptr) {
                    put_pointer(&mut content, slot, 0);
                    cut = true;
                }
            }
            self.ahead.forget(&wanted.extents);
            slot = end;
        }
        if cut {
            self.mend.writes.insert(self.geo.device_bytes(addr), content);
        }
    }

    fn child(&self, key: &BlockKey, slot: usize) -> BlockKey {
        BlockKey { level: key.level - 1, index: self.geo.map.child(key.level, key.index, slot), ..*key }
    }

    /// From a slot of an indirect block on, what may be read ahead; and the slot behind that.
    fn wanted_below(&self, stored: &Dinode, key: &BlockKey, content: &[u8], from: usize) -> (usize, Wanted) {
        let mut wanted = Wanted::default();
        for slot in from..self.geo.pointers() {
            let ptr = pointer_at(content, slot);
            if ptr != 0 {
                self.want(stored, &self.child(key, slot), ptr, &mut wanted);
            }
            if wanted.len_bytes >= AHEAD_BYTES {
                return (slot + 1, wanted);
            }
        }
        (self.geo.pointers(), wanted)
    }

    /// Frees inodes that no entry names and that have no links or no content: an interrupted operation leaves such inodes.
    pub fn free_unreferenced(&mut self) -> Result<(), FsError> {
        let mut doomed = Vec::new();
        for at in 0..self.names.inodes.len() {
            let inode = self.names.inodes[at];
            let dir = self.names.dir_at(inode.ino).map(|dir| self.names.dirs[dir]);
            let is_empty = match dir {
                Some(dir) => dir.found_entries == 0 && !dir.is_torn && dir.named_at.is_none(),
                None => inode.size_bytes == 0 && inode.charged_found == 0,
            };
            let is_named = inode.names > 0 || inode.ino == InodeNo::ROOT;
            if !is_named && (inode.nlink == 0 || is_empty) {
                doomed.push(inode.ino);
                self.names.inodes[at].nlink = 0;
            }
        }
        for ino in doomed {
            self.report(Some(ino), FfsProblem::Unreferenced);
            self.free(ino)?;
        }
        Ok(())
    }

    /// Takes back the claims of an inode, and clears it.
    fn free(&mut self, ino: InodeNo) -> Result<(), FsError> {
        let (number, at) = self.geo.inode_block(ino);
        let at_bytes = self.geo.device_bytes(self.geo.inode_block_addr(number));
        let mut block = match self.mend.writes.get(&at_bytes) {
            Some(mended) => mended.clone(),
            None => self.bytes(at_bytes, self.geo.layout.block_bytes)?,
        };
        // As repaired: only pointers that it may keep are followed.
        let stored = Dinode::decode(&block[at..at + DINODE_BYTES]).unwrap_or_default();
        for fork in FORKS {
            for slot in 0..SLOTS {
                let (level, index) = bmap::Geometry::root(slot);
                let ptr = stored.roots[fork as usize][slot];
                if ptr != 0 && level <= Geo::levels(fork) {
                    self.unclaim(&stored, &BlockKey { ino, fork, level, index }, ptr)?;
                }
            }
        }
        block[at..at + DINODE_BYTES].copy_from_slice(&Dinode::free(stored.generation).encode());
        self.mend.writes.insert(at_bytes, block);
        bits::put(&mut self.used, ino.0 as u32, false);
        self.totals.inodes -= 1;
        if stored.kind == Kind::Directory as u8 {
            self.totals.directories -= 1;
            let group = (ino.0 / u64::from(self.geo.layout.group_inodes)) as usize;
            self.dirs[group] = self.dirs[group].saturating_sub(1);
        }
        Ok(())
    }

    fn unclaim(&mut self, stored: &Dinode, key: &BlockKey, ptr: u32) -> Result<(), FsError> {
        let (addr, frags) = (addr_of(ptr), self.frags_of(stored, key));
        if key.level > 0 {
            let at_bytes = self.geo.device_bytes(addr);
            let content = match self.mend.writes.get(&at_bytes) {
                Some(mended) => mended.clone(),
                None => self.bytes(at_bytes, self.geo.layout.block_bytes)?,
            };
            for slot in 0..self.geo.pointers() {
                let child = pointer_at(&content, slot);
                if child != 0 {
                    self.unclaim(stored, &self.child(key, slot), child)?;
                }
            }
        }
        (addr..addr + frags).for_each(|frag| bits::put(&mut self.claims, frag, false));
        self.totals.frags -= u64::from(frags);
        Ok(())
    }
}

/// A fresh root directory.
fn new_root(generation: u32) -> Dinode {
    let root = Inode::root(0, TimeNs(0));
    Dinode {
        kind: root.kind as u8,
        mode: root.mode,
        nlink: root.nlink,
        node: root.parent.0,
        ..Dinode::free(generation)
    }
}
