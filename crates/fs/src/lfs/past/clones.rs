//! Clones: making one, beginning to delete one, and reading what a clone shares with its origin, the point that it began as
//! ([`crate::lfs::tables::branches`]).
//!
//! Making a clone writes a checkpoint and nothing else. Until an inode of the clone changes, the inode map has no entry for it,
//! and it is read from the origin. What was read is in the caches of the present, under the clone's numbers, and turns dirty
//! there like anything else.
//!
//! A block that has moved is read from the place that it had at the newest durable checkpoint. The clone may rewrite an indirect
//! block above it and name that place there, and a power cut may undo later moves. (Roll-forward compares trees: if a block has
//! moved and then died since the checkpoint, it knows only the old place.)

use crate::error::{FsError, Outcome};
use crate::lfs::Lfs;
use crate::lfs::base::places::{is_internal, place_of_record};
use crate::lfs::map::admit::RECORD_MAX_BYTES;
use crate::lfs::map::inode::CoreInode;
use crate::lfs::past::StateRoot;
use crate::states::local;
use crate::store::BlockKey;
use firnfs_format::checkpoint::{Branch, Point};
use firnfs_format::table::ImapEntry;
use firnfs_format::{BlockPtr, Epoch, InodeNo, TimeNs};

impl Lfs {
    /// Makes a clone of a retained point: commits everything and queues a checkpoint, twice, so that both slots have the clone.
    /// The clone is durable in both when [`Self::durable_epoch`] is *later* than the epoch returned.
    ///
    /// # Errors
    /// `Invalid` for a name that is empty, longer than 80 bytes, not one word, or begins with a dot; `Exists` if there is a clone of that
    /// name; `NotFound` if there is no such point, or it is being dropped; `NoSpace` if there are too many clones, or if all numbers of
    /// clones were used in this mount; `Need`; `Room` while a checkpoint is under way; `ReadOnly`.
    pub fn make_clone(&mut self, now: TimeNs, origin: Epoch, name: &str) -> Outcome<Epoch> {
        self.standing.refuse()?;
        self.tables.branches.check_name(name)?;
        self.refuse_while_resizing()?;
        let point = self.whole_point(origin)?;
        let next_ino = point.next_ino;
        let number = self.tables.branches.free_number().ok_or(FsError::NoSpace)?;
        let name = name.to_owned();
        self.tables.branches.request(Branch { number, is_dropped: false, origin, time: now, next_ino, name });
        let result = self.checkpoint_now(now);
        self.tables.branches.take_request();
        result?;
        Ok(Epoch(self.tables.slots.epoch().0 - 1))
    }

    /// Adds the requested clone to the checkpoint that is being written.
    pub(in crate::lfs) fn add_branch(&mut self) {
        let Some(branch) = self.tables.branches.take_request() else { return };
        self.tables.slots.want_both();
        self.tables.imap.begin_branch(branch.number, branch.next_ino);
        self.tables.branches.add(branch, self.tables.slots.epoch());
    }

    /// Begins to delete a clone. Background work frees its blocks once both slots say that it is being deleted. They do when
    /// [`Self::durable_epoch`] is *later* than the epoch of the next checkpoint.
    ///
    /// # Errors
    /// `NotFound`; `ReadOnly`.
    pub fn drop_clone(&mut self, now: TimeNs, name: &str) -> Outcome<()> {
        self.standing.refuse()?;
        if !self.tables.branches.begin_drop(name, self.tables.slots.next_to_state()) {
            return Err(FsError::NotFound.into());
        }
        self.tables.slots.want_both();
        self.due.note_dirty(now);
        self.due.note_change();
        Ok(())
    }

    /// True while a clone is being deleted.
    #[must_use]
    pub fn is_erasing(&self) -> bool {
        self.tables.branches.list().iter().any(|branch| branch.is_dropped)
    }

    /// The name of an existing clone of a state.
    #[must_use]
    pub fn clone_of(&self, origin: Epoch) -> Option<&str> {
        self.tables.branches.clone_of(origin)
    }

    /// The clones in the form that a checkpoint stores.
    pub(crate) fn stored_branches(&self) -> Vec<Branch> {
        let mut list = self.tables.branches.list().to_vec();
        for branch in &mut list {
            branch.next_ino = self.tables.imap.next_in(branch.number).unwrap_or(branch.next_ino);
        }
        list
    }

    /// A point that is not being dropped.
    ///
    /// # Errors
    /// `NotFound`; `Need`.
    pub(in crate::lfs) fn whole_point(&mut self, epoch: Epoch) -> Outcome<&Point> {
        if self.tables.points.may_be_unread(epoch) {
            self.load_rows()?;
        }
        let point = self.tables.points.get(epoch);
        Ok(point.filter(|point| point.dropped_to.is_none()).ok_or(FsError::NotFound)?)
    }

    /// True if an inode of a clone still has its origin's record, judged by the map's entry for it.
    pub(in crate::lfs) fn is_origins(&self, ino: InodeNo, entry: &ImapEntry) -> bool {
        *entry == ImapEntry::default() || self.tables.branches.is_shared(ino, &entry.ptr)
    }

    /// Brings an inode of a clone into memory that still has its origin's record. `entry` is the clone's own, which may be blank.
    ///
    /// # Errors
    /// `NotFound`; `Stale` if there is no such clone; `Need`, `Corrupt`.
    pub(in crate::lfs) fn load_from_origin(&mut self, ino: InodeNo, entry: ImapEntry) -> Outcome<()> {
        let origin = self.tables.branches.origin_of(ino).ok_or(FsError::Stale)?;
        let (state, number) = (StateRoot::from(self.whole_point(origin)?), local(ino));
        let is_blank = !entry.ptr.is_stored();
        let entry = if is_blank { self.past_entry(&state, number)? } else { entry };
        if entry.ptr.is_hole() || is_internal(number) {
            return Err(FsError::NotFound.into());
        }
        self.geo.check(&entry.ptr, RECORD_MAX_BYTES, || format!("inode {ino}"))?;
        let here = self.follow_durably(&place_of_record(number), state.epoch, entry.ptr)?;
        let record = self.past_block_at(here, RECORD_MAX_BYTES)?;
        let core = CoreInode::decode(number, &entry, &record, &self.geo)?;
        self.files.insert(ino, CoreInode { is_origins: is_blank, ..core });
        Ok(())
    }

    /// Where the block that a pointer leads to is now. If a clone shares it with its origin, the block may have left the place in
    /// the pointer.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(in crate::lfs) fn place_in_origin(&mut self, key: &BlockKey, ptr: BlockPtr) -> Outcome<BlockPtr> {
        match self.tables.branches.origin_of(key.ino) {
            Some(origin) if ptr.birth <= origin => {
                let place = self.place_of(&BlockKey { ino: local(key.ino), ..*key });
                self.follow_durably(&place, origin, ptr)
            }
            _ => Ok(ptr),
        }
    }
}
