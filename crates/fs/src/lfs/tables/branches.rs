//! Clones: branches of the inode map, each over the retained point that it began as, its *origin* (decision 0210).
//!
//! If the map has no entry for an inode of a clone, the inode is the origin's. A clone shares with its origin every block that
//! was born by then: a pointer in a clone whose birth is not after the origin leads to a block of the origin, wherever that is
//! now. The clone does not free, charge or move such a block. The origin holds it, and stays as long as the clone, so nobody
//! counts references.
//!
//! A clone belongs to the present alone: no point sees what it has changed.
//!
//! Invariants: each origin is a point that is not being dropped. A mount uses a number for one clone only, so what the kernel or
//! the caches still know of a deleted clone never passes for another clone's.

use crate::error::FsError;
use crate::mutation::{Mutation, is_on};
use crate::states::branch_of;
use crate::store::Branch as Listed;
use firnfs_format::checkpoint::{BRANCH_NAME_MAX, Branch, MAX_BRANCHES};
use firnfs_format::{BlockPtr, Epoch, InodeNo, PtrKind};
use std::collections::{BTreeMap, BTreeSet};

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub(in crate::lfs) struct Branches {
    /// In the order of their numbers.
    list: Vec<Branch>,
    /// Numbers that clones have or had in this mount.
    used: BTreeSet<u8>,
    /// For each clone made in this mount: the checkpoint that has it first.
    made: BTreeMap<u8, Epoch>,
    /// For each clone that is being deleted: the checkpoint that states it first.
    dropped: BTreeMap<u8, Epoch>,
    /// The clone that is made with the next checkpoint.
    requested: Option<Branch>,
}

impl Branches {
    /// The clones that a checkpoint has.
    pub fn new(list: Vec<Branch>) -> Self {
        Self {
            used: list.iter().map(|branch| branch.number).collect(),
            list,
            made: BTreeMap::new(),
            dropped: BTreeMap::new(),
            requested: None,
        }
    }

    /// Has the next checkpoint make a clone.
    pub fn request(&mut self, branch: Branch) {
        self.requested = Some(branch);
    }

    /// The clone that was requested, once: it is made, or given up.
    pub fn take_request(&mut self) -> Option<Branch> {
        self.requested.take()
    }

    /// All of them, by number.
    pub fn list(&self) -> &[Branch] {
        &self.list
    }

    /// True if there are no clones.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn get(&self, number: u8) -> Option<&Branch> {
        self.list.iter().find(|branch| branch.number == number)
    }

    /// The clones that users see. A clone is not shown before its checkpoint is durable: a crash would lose what was written to
    /// it.
    pub fn listed(&self, durable: Epoch) -> impl Iterator<Item = Listed> {
        let is_durable =
            move |branch: &Branch| self.made.get(&branch.number).is_none_or(|made| *made <= durable);
        let living = self.list.iter().filter(move |branch| !branch.is_dropped && is_durable(branch));
        living.map(|branch| Listed {
            number: branch.number,
            time: branch.time,
            origin: branch.origin,
            name: branch.name.clone(),
        })
    }

    /// The origin of the clone that an inode belongs to; `None` for an inode of the volume itself.
    pub fn origin_of(&self, ino: InodeNo) -> Option<Epoch> {
        match branch_of(ino) {
            0 => None,
            number => self.get(number).map(|branch| branch.origin),
        }
    }

    /// True for an inode of a clone that is being deleted, or that does not exist.
    pub fn is_gone(&self, ino: InodeNo) -> bool {
        branch_of(ino) != 0 && self.get(branch_of(ino)).is_none_or(|branch| branch.is_dropped)
    }

    /// True if a pointer of an inode leads to a block of the clone's origin, or to room that the origin reserves.
    pub fn is_shared(&self, ino: InodeNo, ptr: &BlockPtr) -> bool {
        let Some(origin) = self.origin_of(ino) else { return false };
        // Clones reserve no room themselves.
        ptr.kind == PtrKind::Reserved || ptr.is_stored() && ptr.birth <= origin
    }

    /// True if that state is the origin of a clone.
    pub fn is_origin(&self, epoch: Epoch) -> bool {
        self.list.iter().any(|branch| branch.origin == epoch)
    }

    /// The name of a clone of that state.
    pub fn clone_of(&self, epoch: Epoch) -> Option<&str> {
        self.list.iter().find(|branch| branch.origin == epoch).map(|branch| branch.name.as_str())
    }

    /// Refuses a name that a clone cannot have.
    ///
    /// # Errors
    /// `Invalid` for one that is empty, longer than [`BRANCH_NAME_MAX`] bytes, not one word, or begins with a dot; `Exists` if it is taken.
    pub fn check_name(&self, name: &str) -> Result<(), FsError> {
        let is_word = name.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != '/' && c != '@');
        if name.is_empty() || name.len() > BRANCH_NAME_MAX || !is_word || name.starts_with('.') {
            return Err(FsError::Invalid("the name of a clone"));
        }
        if self.list.iter().any(|branch| branch.name == name) {
            return Err(FsError::Exists);
        }
        Ok(())
    }

    /// The number of the next clone; `None` if there are too many, or if all numbers were used in this mount.
    pub fn free_number(&self) -> Option<u8> {
        let number = (1..=u8::MAX).find(|number| !self.used.contains(number));
        number.filter(|_| self.list.len() < MAX_BRANCHES)
    }

    /// Adds a clone; the checkpoint of epoch `made` is the first that has it.
    pub fn add(&mut self, branch: Branch, made: Epoch) {
        let number = branch.number;
        self.made.insert(number, made);
        let at = self.list.partition_point(|other| other.number < number);
        self.list.insert(at, branch);
        self.used.insert(number);
    }

    /// Begins to delete a clone; the checkpoint of epoch `stated` will say so. False if no clone has that name.
    pub fn begin_drop(&mut self, name: &str, stated: Epoch) -> bool {
        let found = self.list.iter_mut().find(|branch| branch.name == name && !branch.is_dropped);
        let Some(branch) = found else { return false };
        branch.is_dropped = true;
        self.dropped.insert(branch.number, stated);
        true
    }

    /// The next clone to be deleted. Nothing of it is freed before the checkpoints in both slots say so: a mount from an older
    /// checkpoint would find the clone with holes.
    pub fn dropping(&self, durable: Epoch) -> Option<u8> {
        let is_stated = |number: u8| {
            self.dropped.get(&number).is_none_or(|stated| *stated < durable) || is_on(Mutation::ErasedAtOnce)
        };
        let dropped = self.list.iter().filter(|branch| branch.is_dropped);
        dropped.map(|branch| branch.number).find(|number| is_stated(*number))
    }

    /// Removes a clone whose inodes are all freed.
    pub fn remove(&mut self, number: u8) {
        self.list.retain(|branch| branch.number != number);
    }

    /// Forgets the clones of lost points; returns their numbers.
    pub fn give_up(&mut self, lost: &[Epoch]) -> Vec<u8> {
        let (gone, kept) = std::mem::take(&mut self.list).into_iter().partition(|b| lost.contains(&b.origin));
        self.list = kept;
        let gone: Vec<Branch> = gone;
        gone.into_iter().map(|branch| branch.number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::states::in_branch;
    use firnfs_format::{SectorAddr, TimeNs};

    fn ptr(birth: u32) -> BlockPtr {
        BlockPtr { addr: SectorAddr(8), len_sectors: 8, kind: PtrKind::Plain, crc: 1, birth: Epoch(birth) }
    }

    fn branch(number: u8) -> Branch {
        let (origin, next_ino) = (Epoch(7), InodeNo(20));
        Branch { number, is_dropped: false, origin, time: TimeNs(0), next_ino, name: "work".to_owned() }
    }

    #[test]
    fn a_clone_shares_what_was_born_before_it_and_nothing_else() {
        let mut branches = Branches::default();
        branches.add(branch(3), Epoch(9));
        let ino = in_branch(3, InodeNo(17));
        assert!(branches.is_shared(ino, &ptr(7)) && branches.is_shared(ino, &BlockPtr::RESERVED));
        assert!(!branches.is_shared(ino, &ptr(8)) && !branches.is_shared(ino, &BlockPtr::HOLE));
        assert!(!branches.is_shared(InodeNo(17), &ptr(7)), "the volume itself shares nothing");
        assert!(branches.is_origin(Epoch(7)) && !branches.is_gone(ino));
        assert!(branches.is_gone(in_branch(4, InodeNo(17))));
    }

    #[test]
    fn a_number_is_used_once_in_a_mount() {
        let mut branches = Branches::new(Vec::new());
        let number = branches.free_number().unwrap();
        branches.add(branch(number), Epoch(9));
        assert_eq!(branches.listed(Epoch(8)).count(), 0, "nobody sees it before it is durable");
        assert_eq!(branches.listed(Epoch(9)).count(), 1);
        assert_eq!(branches.check_name("work"), Err(FsError::Exists));
        assert!(branches.begin_drop("work", Epoch(10)) && !branches.begin_drop("work", Epoch(10)));
        assert_eq!((branches.dropping(Epoch(10)), branches.dropping(Epoch(11))), (None, Some(number)));
        assert_eq!(branches.listed(Epoch(9)).count(), 0);
        assert!(branches.is_origin(Epoch(7)), "until its blocks are free");
        branches.remove(number);
        assert_ne!(branches.free_number(), Some(number));
    }
}
