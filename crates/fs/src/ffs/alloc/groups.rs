//! `Groups`: all groups of a volume. The counts of each are in memory, the bitmaps of those that were used lately.
//!
//! A place is taken in the preferred group if it has one, else in the others, in the order of [`prefer::search_order`]. A group
//! whose bitmaps are not in memory ends the search with [`Miss::Load`]: the caller undoes what it took, and starts again.
//!
//! Invariants: `summaries` agree with the bitmaps in memory; a group with unwritten changes, or whose write is under way, stays in memory.
//!
//! Callers: `operation` (to take), `release` (to give back), `writing` (to write descriptors).

use super::group::Group;
use super::prefer::{self, Wish};
use super::rotation::{Rotation, gap_frags};
use crate::ffs::base::WriteId;
use firnfs_format::ffs::{Summary, Tuning, VolumeLayout};
use std::collections::BTreeMap;

/// Clean groups that stay in memory.
const LOADED_MAX: usize = 64;

/// Why a search ended without a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Miss {
    /// The bitmaps of that group are needed.
    Load(u32),
    /// There is no such place on the volume.
    Full,
}

/// A piece of the volume: fragments of one block, or blocks in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// First fragment.
    pub addr: u32,
    /// Number of fragments.
    pub frags: u32,
}

struct Loaded {
    group: Group,
    is_dirty: bool,
    writing: Option<WriteId>,
    used_at: u64,
}

/// See the module's head.
pub struct Groups {
    layout: VolumeLayout,
    tuning: Tuning,
    rotation: Option<Rotation>,
    gap_frags: u32,
    summaries: Vec<Summary>,
    loaded: BTreeMap<u32, Loaded>,
    uses: u64,
}

impl Groups {
    /// With the counts of all groups.
    #[must_use]
    pub fn new(layout: VolumeLayout, tuning: Tuning, summaries: Vec<Summary>) -> Self {
        Self {
            rotation: Rotation::new(&layout, &tuning),
            gap_frags: gap_frags(&layout, &tuning),
            layout,
            tuning,
            summaries,
            loaded: BTreeMap::new(),
            uses: 0,
        }
    }

    /// Counts of all groups.
    #[must_use]
    pub fn summaries(&self) -> &[Summary] {
        &self.summaries
    }

    /// Free fragments of the volume, those of free blocks included.
    #[must_use]
    pub fn free_frags(&self) -> u64 {
        let per_block = u64::from(self.layout.frags_per_block());
        let of = |group: &Summary| u64::from(group.free_blocks) * per_block + u64::from(group.free_frags);
        self.summaries.iter().map(of).sum()
    }

    /// Free inodes of the volume.
    #[must_use]
    pub fn free_inodes(&self) -> u64 {
        self.summaries.iter().map(|group| u64::from(group.free_inodes)).sum()
    }

    /// The group of a fragment.
    #[must_use]
    pub fn group_of(&self, addr: u32) -> u32 {
        addr / self.layout.group_frags
    }

    fn start_of(&self, group: u32) -> u32 {
        group * self.layout.group_frags
    }

    /// Where a new block should go: see [`prefer::place`].
    #[must_use]
    pub fn wish(&self, new: &prefer::NewBlock<'_>, inode_group: u32) -> Wish {
        let frags = self.layout.frags_per_block();
        prefer::place(new, &self.summaries, &self.tuning, inode_group, frags, self.gap_frags, |addr| {
            self.group_of(addr)
        })
    }

    /// True if the bitmaps of a group are in memory.
    #[must_use]
    pub fn is_loaded(&self, group: u32) -> bool {
        self.loaded.contains_key(&group)
    }

    /// Puts the bitmaps of a group in; does nothing if it is in memory. Drops others that were not used for long.
    pub fn insert(&mut self, number: u32, group: Group) {
        if self.is_loaded(number) {
            return;
        }
        while self.loaded.len() >= LOADED_MAX {
            let idle = self.loaded.iter().filter(|(_, l)| !l.is_dirty && l.writing.is_none());
            let Some(oldest) = idle.min_by_key(|(_, l)| l.used_at).map(|(&number, _)| number) else { break };
            self.loaded.remove(&oldest);
        }
        self.uses += 1;
        self.loaded.insert(number, Loaded { group, is_dirty: false, writing: None, used_at: self.uses });
    }

    /// A group, to read.
    ///
    /// # Errors
    /// [`Miss::Load`].
    fn look(&mut self, number: u32) -> Result<&mut Loaded, Miss> {
        self.uses += 1;
        let uses = self.uses;
        let loaded = self.loaded.get_mut(&number).ok_or(Miss::Load(number))?;
        loaded.used_at = uses;
        Ok(loaded)
    }

    /// Calls a function on a group and updates its counts in `summaries`; a result other than `None` and `false` means a
    /// change.
    fn change<T>(
        &mut self,
        number: u32,
        act: impl FnOnce(&mut Group, Option<&Rotation>) -> Option<T>,
    ) -> Result<Option<T>, Miss> {
        let rotation = self.rotation.take();
        let done = self.look(number).map(|loaded| {
            let done = act(&mut loaded.group, rotation.as_ref());
            loaded.is_dirty |= done.is_some();
            (done, loaded.group.summary())
        });
        self.rotation = rotation;
        let (done, summary) = done?;
        self.summaries[number as usize] = summary;
        Ok(done)
    }

    /// Which fragments of a group are free.
    ///
    /// # Errors
    /// [`Miss::Load`].
    pub fn free_map(&mut self, number: u32) -> Result<Vec<bool>, Miss> {
        let frags = self.layout.frags_in(number);
        let group = &self.look(number)?.group;
        Ok((0..frags).map(|frag| group.is_free(frag)).collect())
    }

    fn split(&self, wish: Wish) -> (u32, u32) {
        match wish {
            Wish::At(addr) if self.group_of(addr) < self.layout.groups => {
                (self.group_of(addr), addr % self.layout.group_frags)
            }
            Wish::At(_) => (0, 0),
            Wish::Group(group) => (group, 0),
        }
    }

    /// Takes `frags` fragments, at most a block.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn take(&mut self, frags: u32, wish: Wish) -> Result<u32, Miss> {
        let (preferred, wanted) = self.split(wish);
        let is_block = frags == self.layout.frags_per_block();
        for number in prefer::search_order(preferred, self.layout.groups) {
            let summary = self.summaries[number as usize];
            if summary.free_blocks == 0 && (is_block || summary.free_frags < frags) {
                continue;
            }
            let wanted = (number == preferred).then_some(wanted);
            let taken = self.change(number, |group, rotation| match is_block {
                true => group.take_block(wanted, rotation),
                false => group.take_frags(frags, wanted, rotation),
            })?;
            if let Some(at) = taken {
                return Ok(self.start_of(number) + at);
            }
        }
        Err(Miss::Full)
    }

    /// Takes exactly that run, if it is free; it lies within one block.
    ///
    /// # Errors
    /// [`Miss::Load`].
    pub fn take_exactly(&mut self, run: Run) -> Result<bool, Miss> {
        let number = self.group_of(run.addr);
        if number >= self.layout.groups {
            return Ok(false);
        }
        let at = run.addr - self.start_of(number);
        let taken = self.change(number, |group, _| group.take_exactly(at, run.frags).then_some(()))?;
        Ok(taken.is_some())
    }

    /// Extends a run within its block.
    ///
    /// # Errors
    /// [`Miss::Load`].
    pub fn extend(&mut self, run: Run, frags: u32) -> Result<bool, Miss> {
        let number = self.group_of(run.addr);
        if number >= self.layout.groups {
            return Ok(false);
        }
        let at = run.addr - self.start_of(number);
        let extended = self.change(number, |group, _| group.extend(at, run.frags, frags).then_some(()))?;
        Ok(extended.is_some())
    }

    /// Takes blocks in a row in the group of a fragment, or in the one after the other.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn take_cluster(&mut self, blocks: u32, wish: Wish) -> Result<u32, Miss> {
        let (preferred, wanted) = self.split(wish);
        for number in prefer::search_order(preferred, self.layout.groups) {
            if self.summaries[number as usize].free_blocks < blocks {
                continue;
            }
            let wanted = (number == preferred).then_some(wanted);
            if let Some(at) = self.change(number, |group, _| group.take_cluster(blocks, wanted))? {
                return Ok(self.start_of(number) + at);
            }
        }
        Err(Miss::Full)
    }

    /// Gives a run back. `Ok(false)`: it was free already, or is not on the volume, and nothing has changed.
    ///
    /// # Errors
    /// [`Miss::Load`].
    pub fn give(&mut self, run: Run) -> Result<bool, Miss> {
        let number = self.group_of(run.addr);
        if number >= self.layout.groups {
            return Ok(false);
        }
        let (at, per_block) = (run.addr - self.start_of(number), self.layout.frags_per_block());
        let given = self.change(number, |group, _| {
            let parts = (0..run.frags).step_by(per_block as usize);
            let given = parts.map(|part| group.give(at + part, (run.frags - part).min(per_block)));
            given.fold(true, |all, one| all & one).then_some(())
        })?;
        Ok(given.is_some())
    }

    /// Takes an inode: a directory's in a group of its own, another one's near `parent`.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn take_inode(&mut self, parent: u32, is_dir: bool) -> Result<u32, Miss> {
        let (mut preferred, mut wanted) =
            (parent / self.layout.group_inodes, parent % self.layout.group_inodes);
        if is_dir {
            (preferred, wanted) = (prefer::directory_group(&self.summaries), 0);
        }
        for number in prefer::search_order(preferred, self.layout.groups) {
            if self.summaries[number as usize].free_inodes == 0 {
                continue;
            }
            let wanted = (number == preferred).then_some(wanted);
            if let Some(at) = self.change(number, |group, _| group.take_inode(wanted, is_dir))? {
                return Ok(number * self.layout.group_inodes + at);
            }
        }
        Err(Miss::Full)
    }

    /// Gives an inode back.
    ///
    /// # Errors
    /// [`Miss::Load`].
    pub fn give_inode(&mut self, ino: u32, is_dir: bool) -> Result<bool, Miss> {
        let number = ino / self.layout.group_inodes;
        if number >= self.layout.groups {
            return Ok(false);
        }
        let at = ino % self.layout.group_inodes;
        let given = self.change(number, |group, _| group.give_inode(at, is_dir).then_some(()))?;
        Ok(given.is_some())
    }

    /// Whether an inode is marked as used.
    ///
    /// # Errors
    /// [`Miss::Load`].
    pub fn is_used_inode(&mut self, ino: u32) -> Result<bool, Miss> {
        let at = ino % self.layout.group_inodes;
        let loaded = self.look(ino / self.layout.group_inodes)?;
        Ok(loaded.group.is_used_inode(at))
    }

    /// Groups with unwritten changes.
    #[must_use]
    pub fn dirty(&self) -> Vec<u32> {
        self.loaded.iter().filter(|(_, loaded)| loaded.is_dirty).map(|(&number, _)| number).collect()
    }

    /// A group as it is to be written by `write`; it counts as written from now on.
    pub fn to_write(&mut self, number: u32, write: WriteId) -> Option<&Group> {
        let loaded = self.loaded.get_mut(&number)?;
        (loaded.is_dirty, loaded.writing) = (false, Some(write));
        Some(&loaded.group)
    }

    /// A write of a group has ended.
    pub fn written(&mut self, number: u32, write: WriteId) {
        if let Some(loaded) = self.loaded.get_mut(&number)
            && loaded.writing == Some(write)
        {
            loaded.writing = None;
        }
    }
}
