//! The Fast File System: 4.4BSD's, over the same UFS layer as the other stores. docs/internals/ffs.md has the design.
//!
//! `store` implements the seam towards UFS, `engine` the one towards the driver. The other modules, each using those before
//! it:
//! - [`base`], [`alloc`]: places; which fragments and inodes are free, and which of them a file gets;
//! - `inode`, `cache`, `wanted`, `files`: inodes and blocks in memory, and fetches;
//! - `writes`: queued writes, their order, and which are durable;
//! - `map`: looking up pointers and blocks; `ahead`: what to read ahead of a sequential run;
//! - `release`: dropped places, and when they are free;
//! - `operation`, `grants`: the blocks and places that an operation needs before it begins;
//! - `change`: making its changes; `names`: writing those of operations on names in order; `writing`: all other writes;
//! - `mkfs`, `copies` (of the superblock), `open`, `options`.
//!
//! Invariants of the whole: the five rules of the design's page. Everything that an operation may touch is in memory when it begins.

mod ahead;
pub mod alloc;
mod base;
mod cache;
mod change;
mod copies;
mod engine;
mod files;
mod grants;
mod inode;
mod map;
mod mkfs;
mod names;
mod open;
mod operation;
mod options;
mod release;
mod store;
mod wanted;
mod writes;
mod writing;

use crate::error::Outcome;
use crate::store::BlockKey;
use crate::store::recharges::Recharges;
use alloc::Groups;
pub use alloc::Run;
use base::WriteId;
pub(crate) use base::{Geo, SLOTS, addr_of, describe, is_written};
use cache::{Cache, InodeBlocks};
pub use copies::{FoundSuperblock, NotFfs, find_superblock, read_superblock};
use files::Files;
use firnfs_format::ffs::Superblock;
use firnfs_format::{InodeNo, TimeNs};
pub(crate) use map::{pointer_at, put_pointer};
pub use mkfs::{DeviceWriter, MkfsOptions, Variant, mkfs, mkfs_around, places_of_superblocks};
use operation::OpenOperation;
pub use options::Options;
use release::Releases;
use std::collections::{BTreeSet, VecDeque};
pub(crate) use store::facts_of;
use writes::Writes;

/// Whether the volume may be written.
#[derive(Default)]
struct Standing {
    /// Why it is read-only.
    read_only: Option<String>,
    /// It was opened for writing, and what was accepted since may be lost.
    is_broken: bool,
}

/// See the module's head.
pub struct Ffs {
    sb: Superblock,
    geo: Geo,
    options: Options,
    standing: Standing,
    groups: Groups,
    cache: Cache,
    inode_blocks: InodeBlocks,
    files: Files,
    writes: Writes,
    releases: Releases,
    operation: OpenOperation,
    /// Changes of what inodes are charged, while somebody follows them ([`crate::store::Store::take_recharges`]).
    recharges: Recharges,
    /// Inodes in use that have no names.
    nameless: BTreeSet<InodeNo>,
    /// The last blocks of content that could not be fetched: they are not fetched with others again.
    unread: VecDeque<BlockKey>,
    /// Since when something is dirty.
    dirty_since: Option<TimeNs>,
    /// The write that says that the volume is in use; all others come after it.
    mounted: WriteId,
    /// The write that says that it is not any more.
    closed: Option<WriteId>,
}

impl Ffs {
    /// The volume's superblock.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.sb
    }

    /// Counts of all groups.
    #[must_use]
    pub fn summaries(&self) -> &[firnfs_format::ffs::Summary] {
        self.groups.summaries()
    }

    /// Fragments that users do not get.
    fn reserve_frags(&self) -> u64 {
        self.data_frags() * u64::from(self.sb.tuning.minfree_percent) / 100
    }

    /// Fragments of the volume that files can have.
    fn data_frags(&self) -> u64 {
        let layout = &self.geo.layout;
        let tables =
            u64::from(layout.data_at(0)) + u64::from(layout.data_at(1)) * u64::from(layout.groups - 1);
        layout.size_frags - tables
    }

    /// Where the blocks of a file's content lie, in its order: fragment and number of fragments; holes are left out. For studies of
    /// layout.
    ///
    /// # Errors
    /// `Need`, `NotFound`, `Corrupt`.
    pub fn places(&mut self, ino: InodeNo) -> Outcome<Vec<Run>> {
        Ok(self.indexed_places(ino)?.into_iter().map(|(_, run)| run).collect())
    }

    /// The same, each with the number of the block in the file.
    ///
    /// # Errors
    /// The same.
    pub fn indexed_places(&mut self, ino: InodeNo) -> Outcome<Vec<(u64, Run)>> {
        let core = self.living_inode(ino)?;
        let blocks = core.map.shape.size_bytes.div_ceil(self.geo.block_bytes());
        let mut places = Vec::new();
        for index in 0..blocks {
            let key = map::data_key(ino, crate::store::Fork::Data, index);
            let ptr = self.ptr(&key)?;
            if ptr != 0 {
                let frags = self.files.core(ino).frags_of(&self.geo, &key);
                places.push((index, Run { addr: addr_of(ptr), frags }));
            }
        }
        Ok(places)
    }

    /// Which fragments of a group are free. For studies of free space.
    ///
    /// # Errors
    /// `Need`, `Corrupt`; `NotFound` if there is no such group.
    pub fn free_map(&mut self, group: u32) -> Outcome<Vec<bool>> {
        if group >= self.geo.layout.groups {
            return Err(crate::error::FsError::NotFound.into());
        }
        self.groups.free_map(group).map_err(|miss| self.overcome_miss(miss))
    }

    /// Counts fragments that an inode gets (or gives up, if negative).
    fn count_frags(&mut self, ino: InodeNo, frags: i64) {
        let core = self.files.core_mut(ino);
        let before = core.map.frags;
        core.map.frags = u32::try_from((i64::from(before) + frags).max(0)).unwrap_or(u32::MAX);
        if !core.is_freed {
            let bytes_of = |frags: u32| u64::from(frags) * u64::from(self.geo.layout.frag_bytes);
            self.recharges.note(ino, &core.inode, bytes_of(before), bytes_of(core.map.frags));
        }
    }

    /// Notes that something is dirty.
    fn note_dirty(&mut self, now: TimeNs) {
        self.dirty_since.get_or_insert(now);
    }

    /// Handles damage that makes further writes unsafe.
    fn damaged(&mut self, why: String) {
        self.standing.read_only.get_or_insert(why);
        self.standing.is_broken = true;
    }
}
