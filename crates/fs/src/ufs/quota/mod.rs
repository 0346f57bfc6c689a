//! Quotas: how much each user and each group has, and how much they may have (4.4BSD's `ufs_quota.c`).
//!
//! *Usage* is the sum of what the store charges each owner's inodes ([`Store::allocated_bytes`](crate::store::Store::allocated_bytes):
//! what `du` adds up), and their number. It is in memory only, and counted from the inodes whenever quotas start: what is not stored
//! cannot be wrong after a crash. *Limits* are in attributes of the root directory ([`table`]).
//!
//! A hard limit is never exceeded by an operation that takes space. A soft limit may be, for a grace time that begins then; when it is
//! over, nothing more can be taken until the usage is below the soft limit. What shrinks is never refused.
//!
//! Invariants:
//! - `usage` agrees with the inodes after every operation, once it has been counted;
//! - while a count is under way, `counting` agrees with the inodes below the one where it goes on;
//! - a limit has a deadline exactly if it has a soft limit that the usage exceeds.
//!
//! The clock comes with each operation. Caller: `vfs::quotas`.

pub mod table;
#[cfg(test)]
mod tests;

use crate::error::FsError;
use crate::store::{Charge, Owner, Recharge};
use firnfs_format::{InodeNo, TimeNs};
use rustc_hash::FxHashMap;
use table::{Limit, Table};

/// Whether an id is a user's or a group's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Users.
    User = 0,
    /// Groups.
    Group = 1,
}

impl Class {
    /// Both.
    pub const ALL: [Self; 2] = [Self::User, Self::Group];

    /// The id of an owner.
    #[must_use]
    pub fn id(self, owner: &Owner) -> u32 {
        match self {
            Self::User => owner.uid,
            Self::Group => owner.gid,
        }
    }
}

/// How much an owner has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Space in bytes, as `du` shows it.
    pub bytes: u64,
    /// Inodes.
    pub inodes: u64,
}

impl Usage {
    fn add(&mut self, bytes: i64, inodes: i64) {
        self.bytes = self.bytes.saturating_add_signed(bytes);
        self.inodes = self.inodes.saturating_add_signed(inodes);
    }
}

/// Usage by id, for users and for groups.
pub type Sums = [FxHashMap<u32, Usage>; 2];

/// A difference that a count has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Whose usage.
    pub class: Class,
    /// Which user or group.
    pub id: u32,
    /// As it was kept.
    pub kept: Usage,
    /// As the inodes have it.
    pub counted: Usage,
}

/// A count under way.
struct Counting {
    /// The first inode that is not counted yet.
    next: InodeNo,
    sums: Sums,
}

/// An inode that the open operation may change, as it was before.
#[derive(Clone, Copy, Debug)]
struct Before {
    ino: InodeNo,
    owner: Owner,
    bytes: u64,
    is_freed: bool,
}

/// What the open operation means for quotas.
#[derive(Default)]
pub(crate) struct OpenOperation {
    before: Vec<Before>,
    /// Owner of the inode that it makes.
    maker: Option<Owner>,
    /// An inode that gets another owner.
    transfer: Option<(InodeNo, Owner)>,
}

impl OpenOperation {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.before.clear();
        (self.maker, self.transfer) = (None, None);
    }

    /// True if an inode was noted already.
    pub fn has(&self, ino: InodeNo) -> bool {
        self.before.iter().any(|before| before.ino == ino)
    }

    /// Notes an inode and its owner.
    pub fn note(&mut self, ino: InodeNo, owner: Owner) {
        self.before.push(Before { ino, owner, bytes: 0, is_freed: false });
    }

    /// The inode is freed in the operation.
    pub fn note_freed(&mut self, ino: InodeNo) {
        self.before.iter_mut().filter(|before| before.ino == ino).for_each(|before| before.is_freed = true);
    }

    /// An inode is made, for that owner.
    pub fn note_maker(&mut self, owner: Owner) {
        self.maker = Some(owner);
    }

    /// An inode gets another owner.
    pub fn note_transfer(&mut self, ino: InodeNo, to: Owner) {
        self.transfer = Some((ino, to));
    }

    /// Notes what all of them are charged now.
    pub fn note_charges(&mut self, charged: impl Fn(InodeNo) -> u64) {
        self.before.iter_mut().for_each(|before| before.bytes = charged(before.ino));
    }
}

/// See the module's head.
pub struct Quotas {
    /// Limits of users and of groups.
    pub tables: [Table; 2],
    usage: Sums,
    is_counted: bool,
    counting: Option<Counting>,
    pub(crate) open: OpenOperation,
    /// A deadline has changed since the tables were stored.
    pub is_unsaved: bool,
}

impl Quotas {
    /// With these limits; nothing is counted yet, and nothing refused.
    #[must_use]
    pub fn new(tables: [Table; 2]) -> Self {
        let counting = Some(Counting { next: InodeNo::ROOT, sums: Sums::default() });
        let (usage, open) = (Sums::default(), OpenOperation::default());
        Self { tables, usage, is_counted: false, counting, open, is_unsaved: false }
    }

    /// True once the usage is known.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// The usage of a user or group.
    #[must_use]
    pub fn usage(&self, class: Class, id: u32) -> Usage {
        self.usage[class as usize].get(&id).copied().unwrap_or_default()
    }

    /// All ids that have anything, or a limit, ascending.
    #[must_use]
    pub fn ids(&self, class: Class) -> Vec<u32> {
        let used = self.usage[class as usize].iter().filter(|(_, usage)| **usage != Usage::default());
        let mut ids: Vec<u32> = used.map(|(id, _)| *id).collect();
        ids.extend(self.tables[class as usize].limits.keys());
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Starts a count; one under way starts again.
    pub fn start_count(&mut self) {
        self.counting = Some(Counting { next: InodeNo::ROOT, sums: Sums::default() });
    }

    /// Where the count goes on; `None` if none is under way.
    #[must_use]
    pub fn count_goes_on_at(&self) -> Option<InodeNo> {
        self.counting.as_ref().map(|counting| counting.next)
    }

    /// Takes in inodes with their owners and charges; the count goes on at `next`, or is over. Returns what was kept wrongly then.
    pub fn count(
        &mut self,
        now: TimeNs,
        inodes: &[(Owner, u64)],
        next: Option<InodeNo>,
    ) -> Option<Vec<Difference>> {
        let mut counting = self.counting.take()?;
        for (owner, bytes) in inodes {
            add(&mut counting.sums, owner, bytes.cast_signed(), 1);
        }
        let Some(next) = next else { return Some(self.end_count(now, counting.sums)) };
        counting.next = next;
        self.counting = Some(counting);
        None
    }

    fn end_count(&mut self, now: TimeNs, sums: Sums) -> Vec<Difference> {
        let mut differences = Vec::new();
        let kept = std::mem::replace(&mut self.usage, sums);
        for class in Class::ALL {
            let mut ids: Vec<u32> =
                kept[class as usize].keys().chain(self.usage[class as usize].keys()).copied().collect();
            ids.sort_unstable();
            ids.dedup();
            for id in ids {
                let kept = kept[class as usize].get(&id).copied().unwrap_or_default();
                let counted = self.usage(class, id);
                if self.is_counted && kept != counted {
                    differences.push(Difference { class, id, kept, counted });
                }
            }
        }
        self.is_counted = true;
        self.settle_all(now);
        differences
    }

    /// Brings all deadlines in line with usage and limits.
    pub fn settle_all(&mut self, now: TimeNs) {
        for class in Class::ALL {
            let ids: Vec<u32> = self.tables[class as usize].limits.keys().copied().collect();
            ids.into_iter().for_each(|id| self.settle(now, class, id));
        }
    }

    /// Starts or ends the grace time of a user or group.
    fn settle(&mut self, now: TimeNs, class: Class, id: u32) {
        if !self.is_counted {
            return;
        }
        let usage = self.usage(class, id);
        let table = &mut self.tables[class as usize];
        let grace_s = table.grace_s;
        let Some(limits) = table.limits.get_mut(&id) else { return };
        let bytes = limits.bytes.settle(now, usage.bytes, grace_s[0]);
        let inodes = limits.inodes.settle(now, usage.inodes, grace_s[1]);
        self.is_unsaved |= bytes || inodes;
    }

    /// Whether these charges are within the limits; an inode that changes its owner is charged to the new one.
    ///
    /// # Errors
    /// `OverQuota`.
    pub(crate) fn admit(&self, now: TimeNs, charges: &[Charge]) -> Result<(), FsError> {
        if !self.is_counted {
            return Ok(());
        }
        let mut wanted: Vec<(Class, u32, Usage)> = Vec::with_capacity(8);
        let mut want = |class, id, bytes, inodes| {
            let sum = match wanted.iter_mut().find(|w| (w.0, w.1) == (class, id)) {
                Some((_, _, sum)) => sum,
                None => {
                    wanted.push((class, id, Usage::default()));
                    &mut wanted.last_mut().expect("just pushed").2
                }
            };
            sum.bytes = sum.bytes.saturating_add(bytes);
            sum.inodes = sum.inodes.saturating_add(inodes);
        };
        for charge in charges {
            for class in Class::ALL {
                want(class, class.id(&charge.owner), charge.allocated_bytes, charge.inodes);
            }
        }
        if let Some((ino, to)) = self.open.transfer {
            for before in self.open.before.iter().filter(|before| before.ino == ino) {
                for class in Class::ALL.into_iter().filter(|c| c.id(&before.owner) != c.id(&to)) {
                    // What the operation itself takes for the inode is charged to its present owner, and goes along.
                    let own: u64 =
                        charges.iter().filter(|c| c.owner == before.owner).map(|c| c.allocated_bytes).sum();
                    want(class, class.id(&to), before.bytes.saturating_add(own), 1);
                }
            }
        }
        for (class, id, more) in wanted {
            self.admit_one(now, class, id, more)?;
        }
        Ok(())
    }

    /// Whether a user or group may have that much more.
    fn admit_one(&self, now: TimeNs, class: Class, id: u32, more: Usage) -> Result<(), FsError> {
        let Some(limits) = self.tables[class as usize].limits.get(&id) else { return Ok(()) };
        let usage = self.usage(class, id);
        let fits = |limit: &Limit, used: u64, more: u64| more == 0 || limit.admits(now, used, more);
        if fits(&limits.bytes, usage.bytes, more.bytes) && fits(&limits.inodes, usage.inodes, more.inodes) {
            return Ok(());
        }
        Err(FsError::OverQuota)
    }

    /// Whether an owner may have that many bytes more.
    ///
    /// # Errors
    /// `OverQuota`.
    pub fn admit_bytes(&self, now: TimeNs, owner: Owner, bytes: u64) -> Result<(), FsError> {
        self.admit(now, &[Charge { owner, bytes, allocated_bytes: bytes, inodes: 0 }])
    }

    /// The open operation ends: takes over what it changed. `charged`: what an inode is charged now; `made`: the inode that it made.
    pub(crate) fn end(&mut self, now: TimeNs, made: Option<InodeNo>, charged: impl Fn(InodeNo) -> u64) {
        let open = std::mem::take(&mut self.open);
        for &Before { ino, owner, bytes, is_freed } in &open.before {
            let before_bytes = bytes.cast_signed();
            if is_freed {
                self.change(ino, owner, -before_bytes, -1);
                continue;
            }
            let now_bytes = charged(ino).cast_signed();
            match open.transfer {
                Some((moved, to)) if moved == ino => {
                    self.change(ino, owner, -before_bytes, -1);
                    self.change(ino, to, now_bytes, 1);
                    self.settle_owner(now, to);
                }
                _ => self.change(ino, owner, now_bytes - before_bytes, 0),
            }
        }
        if let (Some(ino), Some(owner)) = (made, open.maker) {
            self.change(ino, owner, charged(ino).cast_signed(), 1);
            self.settle_owner(now, owner);
        }
        // Only now: what moves within one owner's usage neither ends nor begins a grace time.
        open.before.iter().for_each(|before| self.settle_owner(now, before.owner));
        // Its vector serves the next operation.
        self.open = open;
    }

    /// True for an inode that the open operation named or made: what it is charged more is known from the operation.
    pub(crate) fn is_open(&self, ino: InodeNo, made: Option<InodeNo>) -> bool {
        made == Some(ino) || self.open.has(ino)
    }

    /// Takes over a change that no operation made.
    pub(crate) fn recharge(&mut self, now: TimeNs, change: &Recharge) {
        self.change(change.ino, change.owner, change.bytes, 0);
        self.settle_owner(now, change.owner);
    }

    fn settle_owner(&mut self, now: TimeNs, owner: Owner) {
        Class::ALL.into_iter().for_each(|class| self.settle(now, class, class.id(&owner)));
    }

    fn change(&mut self, ino: InodeNo, owner: Owner, bytes: i64, inodes: i64) {
        if bytes == 0 && inodes == 0 {
            return;
        }
        if let Some(counting) = self.counting.as_mut().filter(|counting| ino < counting.next) {
            add(&mut counting.sums, &owner, bytes, inodes);
        }
        if self.is_counted {
            add(&mut self.usage, &owner, bytes, inodes);
        }
    }

    /// For tests: a usage that is wrong.
    #[doc(hidden)]
    pub fn doctor(&mut self, class: Class, id: u32, usage: Usage) {
        self.usage[class as usize].insert(id, usage);
    }
}

fn add(sums: &mut Sums, owner: &Owner, bytes: i64, inodes: i64) {
    for class in Class::ALL {
        sums[class as usize].entry(class.id(owner)).or_default().add(bytes, inodes);
    }
}
