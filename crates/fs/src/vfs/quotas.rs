//! Quotas: turning them on and off, limits, counting, and their part in every operation (see [`crate::ufs::quota`]).
//!
//! An operation notes the owners of the inodes that it declares, before `begin`; what they are charged, after it; and what they are
//! charged when it ends. If the store's upper bound of its charges exceeds a limit, it is abandoned before it changes anything. So the
//! call that exceeds a limit gets the error, whenever the data is written. Between operations, a store may charge inodes less or more
//! (a block of the log once it is trimmed, a large file that the background frees): it notes that, and the next operation takes it over.

use super::{SetAttr, Vfs};
use crate::error::{FsError, Outcome, Stop, gather_needs};
use crate::inode::Inode;
use crate::mutation::{self, Mutation};
use crate::store::{self, Intent, Op, OpKind, Owner, Store};
use crate::ufs::quota::table::{Limits, Table, attribute};
use crate::ufs::quota::{Class, Difference, Quotas, Usage};
use crate::ufs::xattr;
use firnfs_format::{InodeNo, TimeNs};

/// New limits; `None` leaves a value alone, 0 removes a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LimitChange {
    /// Soft limit of space, in bytes.
    pub bytes_soft: Option<u64>,
    /// Hard limit of space, in bytes.
    pub bytes_hard: Option<u64>,
    /// Soft limit of inodes.
    pub inodes_soft: Option<u64>,
    /// Hard limit of inodes.
    pub inodes_hard: Option<u64>,
}

/// A user or group in a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuotaLine {
    /// User or group.
    pub class: Class,
    /// Its number.
    pub id: u32,
    /// What it has.
    pub usage: Usage,
    /// What it may have.
    pub limits: Limits,
}

/// Usage and limits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QuotaReport {
    /// Quotas are on.
    pub is_on: bool,
    /// The usage is known; if not, it is being counted and nothing is refused yet.
    pub is_counted: bool,
    /// Grace times of users and of groups, for space and for inodes, in seconds.
    pub grace_s: [[u32; 2]; 2],
    /// Users, then groups, ascending: all that have anything, or a limit.
    pub lines: Vec<QuotaLine>,
}

impl<S: Store> Vfs<S> {
    /// Starts quotas if the volume has them on; a driver calls it when the volume is opened for writing, and then
    /// [`Vfs::count_quotas`]. Returns whether they are on.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn load_quotas(&mut self) -> Outcome<bool> {
        if !self.store.may_have_quotas() {
            return Ok(false);
        }
        let tables = self.stored_tables()?;
        let is_on = tables[0].is_on;
        self.switch(is_on.then_some(tables));
        if mutation::is_on(Mutation::UncountedUsage)
            && let Some(quotas) = &mut self.quotas
        {
            quotas.count(TimeNs(0), &[], None);
        }
        Ok(is_on)
    }

    /// Turns quotas on or off, for this mount and later ones; limits stay. Once on, they have to be counted
    /// ([`Vfs::count_quotas`]) before anything is refused.
    ///
    /// # Errors
    /// `ReadOnly`, `NoSpace`; `Need`, `Room`, `Corrupt`.
    pub fn turn_quotas(&mut self, now: TimeNs, is_on: bool) -> Outcome<()> {
        let mut tables = self.tables()?;
        if tables[0].is_on == is_on && self.quotas.is_some() == is_on {
            return Ok(());
        }
        tables.iter_mut().for_each(|table| table.is_on = is_on);
        self.store_tables(now, &tables)?;
        self.switch(is_on.then_some(tables));
        Ok(())
    }

    fn switch(&mut self, tables: Option<[Table; 2]>) {
        self.store.follow_charges(tables.is_some());
        if tables.is_some() {
            self.store.note_quotas();
        }
        self.quotas = tables.map(|tables| Box::new(Quotas::new(tables)));
    }

    /// Counts the inodes of the next stretch. Returns `None` until all are counted, then what was kept wrongly before (nothing, if this
    /// was the first count). Nothing to do without a count ([`Vfs::recount_quotas`]).
    ///
    /// # Errors
    /// `Need`.
    pub fn count_quotas(&mut self, now: TimeNs) -> Outcome<Option<Vec<Difference>>> {
        let Some(from) = self.quotas.as_ref().map(|quotas| quotas.count_goes_on_at()) else {
            return Ok(Some(Vec::new()));
        };
        let Some(from) = from else { return Ok(Some(Vec::new())) };
        let (mut found, mut inodes, mut needs) = (Vec::new(), Vec::new(), Vec::new());
        let next = self.store.inodes_from(from, &mut found)?;
        for ino in found {
            let owner = match gather_needs(self.store.inode(ino).map(owner_of), &mut needs) {
                Ok(Some(owner)) => owner,
                Ok(None) => continue,
                // A damaged inode is left to a check; nobody can change it.
                Err(Stop::Fail(_)) => continue,
                Err(stop) => return Err(stop),
            };
            inodes.push((owner, self.store.allocated_bytes(ino)));
        }
        if !needs.is_empty() {
            needs.dedup();
            return Err(Stop::Need(needs));
        }
        // What changed between operations is counted with the inodes from here on.
        self.take_recharges(now, None);
        Ok(self.quotas.as_mut().and_then(|quotas| quotas.count(now, &inodes, next)))
    }

    /// Starts to count again, while the usage that was kept stays in force: what quotacheck(8) does. Returns whether quotas are on.
    pub fn recount_quotas(&mut self) -> bool {
        if let Some(quotas) = &mut self.quotas {
            quotas.start_count();
        }
        self.quotas.is_some()
    }

    /// Changes the limits of a user or group, whether quotas are on or not.
    ///
    /// # Errors
    /// `Invalid` for the superuser, or a soft limit above the hard one; `NoSpace` if too many have limits; `ReadOnly`; `Need`, `Room`,
    /// `Corrupt`.
    pub fn set_limits(&mut self, now: TimeNs, class: Class, id: u32, change: LimitChange) -> Outcome<()> {
        if class == Class::User && id == 0 {
            return Err(FsError::Invalid("limits do not bind the superuser").into());
        }
        let mut tables = self.tables()?;
        let mut limits = tables[class as usize].limits.get(&id).copied().unwrap_or_default();
        for (limit, soft, hard) in [
            (&mut limits.bytes, change.bytes_soft, change.bytes_hard),
            (&mut limits.inodes, change.inodes_soft, change.inodes_hard),
        ] {
            if soft.is_some_and(|soft| soft != limit.soft) {
                // Another limit, another grace time.
                limit.deadline = None;
            }
            limit.soft = soft.unwrap_or(limit.soft);
            limit.hard = hard.unwrap_or(limit.hard);
            if limit.hard > 0 && limit.soft > limit.hard {
                return Err(FsError::Invalid("a soft limit above the hard limit").into());
            }
        }
        tables[class as usize].set(id, limits)?;
        self.replace_tables(now, tables)
    }

    /// Sets grace times, in seconds: for space, for inodes. Those that run already keep their ends.
    ///
    /// # Errors
    /// `NoSpace`, `ReadOnly`; `Need`, `Room`, `Corrupt`.
    pub fn set_grace(
        &mut self,
        now: TimeNs,
        class: Class,
        bytes_s: Option<u32>,
        inodes_s: Option<u32>,
    ) -> Outcome<()> {
        let mut tables = self.tables()?;
        let grace_s = &mut tables[class as usize].grace_s;
        *grace_s = [bytes_s.unwrap_or(grace_s[0]), inodes_s.unwrap_or(grace_s[1])];
        self.replace_tables(now, tables)
    }

    /// Usage and limits. While quotas are off, nobody's usage is known.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn quota_report(&mut self, now: TimeNs) -> Outcome<QuotaReport> {
        let tables = self.tables()?;
        self.take_recharges(now, None);
        let mut report =
            QuotaReport { grace_s: [tables[0].grace_s, tables[1].grace_s], ..Default::default() };
        let Some(quotas) = &self.quotas else {
            for class in Class::ALL {
                let lines = tables[class as usize].limits.iter();
                let usage = Usage::default();
                report.lines.extend(lines.map(|(&id, &limits)| QuotaLine { class, id, usage, limits }));
            }
            return Ok(report);
        };
        (report.is_on, report.is_counted) = (true, quotas.is_counted());
        for class in Class::ALL {
            for id in quotas.ids(class) {
                let limits = quotas.tables[class as usize].limits.get(&id).copied().unwrap_or_default();
                report.lines.push(QuotaLine { class, id, usage: quotas.usage(class, id), limits });
            }
        }
        Ok(report)
    }

    /// True if a grace time has begun or ended that is not stored yet: [`Vfs::save_quotas`] is due.
    #[must_use]
    pub fn has_unsaved_quotas(&self) -> bool {
        self.quotas.as_ref().is_some_and(|quotas| quotas.is_unsaved)
    }

    /// Stores the ends of grace times.
    ///
    /// # Errors
    /// `NoSpace`, `ReadOnly`; `Need`, `Room`, `Corrupt`.
    pub fn save_quotas(&mut self, now: TimeNs) -> Outcome<()> {
        let Some(tables) = self.quotas.as_ref().map(|quotas| quotas.tables.clone()) else { return Ok(()) };
        self.store_tables(now, &tables)?;
        if let Some(quotas) = &mut self.quotas {
            quotas.is_unsaved = quotas.tables != tables;
        }
        Ok(())
    }

    /// Runs operations of a caller whom limits do not bind, if `is_exempt`: the superuser. What they take counts nevertheless.
    pub fn exempt<T>(&mut self, is_exempt: bool, operations: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.is_exempt, is_exempt);
        let result = operations(self);
        self.is_exempt = before;
        result
    }

    /// The quotas in force, for tests that doctor them.
    #[doc(hidden)]
    pub fn quotas_mut(&mut self) -> Option<&mut Quotas> {
        self.quotas.as_deref_mut()
    }

    /// The tables in force, or else those that are stored.
    fn tables(&mut self) -> Outcome<[Table; 2]> {
        match &self.quotas {
            Some(quotas) => Ok(quotas.tables.clone()),
            None => self.stored_tables(),
        }
    }

    fn stored_tables(&mut self) -> Outcome<[Table; 2]> {
        let mut tables = <[Table; 2]>::default();
        if xattr::is_empty(&mut self.store, InodeNo::ROOT)? {
            return Ok(tables);
        }
        let set = xattr::load(&mut self.store, InodeNo::ROOT)?;
        for class in Class::ALL {
            if let Some(bytes) = xattr::find(&set, attribute(class))? {
                tables[class as usize] = Table::decode(class, bytes)?;
            }
        }
        Ok(tables)
    }

    /// Stores tables, and puts them in force if quotas are on.
    fn replace_tables(&mut self, now: TimeNs, tables: [Table; 2]) -> Outcome<()> {
        self.store_tables(now, &tables)?;
        if let Some(quotas) = &mut self.quotas {
            quotas.tables = tables;
            quotas.settle_all(now);
        }
        Ok(())
    }

    /// One operation, ordered with all on names: where a store keeps that order, it is there after a crash if anything later is. Other stores
    /// write it with the next sync of the root directory, as a whole.
    fn store_tables(&mut self, now: TimeNs, tables: &[Table; 2]) -> Outcome<()> {
        let mut set = xattr::load(&mut self.store, InodeNo::ROOT)?;
        for class in Class::ALL {
            xattr::put(&mut set, attribute(class), &tables[class as usize].encode())?;
        }
        let replace = xattr::plan_replace(&mut self.store, InodeNo::ROOT, set)?;
        self.exempt(true, |vfs| {
            let kind = if mutation::is_on(Mutation::LimitsApart) { OpKind::File } else { OpKind::Names };
            let mut op = vfs.begin(now, kind, |intents| replace.declare(intents))?;
            replace.apply(&mut vfs.store, &mut op);
            vfs.end(op);
            Ok(())
        })
    }

    /// Notes that the next operation gives an inode to another owner.
    pub(super) fn note_transfer(&mut self, ino: InodeNo, set: &SetAttr) -> Outcome<()> {
        let Some(quotas) = &mut self.quotas else { return Ok(()) };
        quotas.open.clear();
        if set.uid.is_some() || set.gid.is_some() {
            let Owner { uid, gid } = owner_of(self.store.inode(ino)?);
            let to = Owner { uid: set.uid.unwrap_or(uid), gid: set.gid.unwrap_or(gid) };
            quotas.open.note_transfer(ino, to);
        }
        Ok(())
    }

    /// Begins the operation whose intents are listed, if the quotas allow what it takes at most.
    pub(super) fn begin_within_quotas(&mut self, now: TimeNs, kind: OpKind) -> Outcome<Op> {
        let begun = self.begin_counted(now, kind);
        if begun.is_err()
            && let Some(quotas) = &mut self.quotas
        {
            quotas.open.clear();
        }
        begun
    }

    fn begin_counted(&mut self, now: TimeNs, kind: OpKind) -> Outcome<Op> {
        let quotas = self.quotas.as_mut().expect("the caller saw that quotas are on");
        for intent in &self.intents {
            match (intent.ino(), intent) {
                (Some(ino), _) if !quotas.open.has(ino) => {
                    let owner = owner_of(self.store.inode(ino)?);
                    quotas.open.note(ino, owner);
                }
                (None, Intent::Create { owner, .. }) => quotas.open.note_maker(*owner),
                _ => {}
            }
            if let Intent::Free { ino } = intent {
                quotas.open.note_freed(*ino);
            }
        }
        let op = self.store.begin(now, kind, &self.intents)?;
        self.take_recharges(now, None);
        let quotas = self.quotas.as_mut().expect("the caller saw that quotas are on");
        quotas.open.note_charges(|ino| self.store.allocated_bytes(ino));
        let admitted = if self.is_exempt { Ok(()) } else { quotas.admit(now, &op.charges) };
        if let Err(why) = admitted {
            self.store.abandon(op);
            return Err(why.into());
        }
        Ok(op)
    }

    /// Counts what an operation did; it is about to end.
    pub(super) fn count_operation(&mut self, op: &Op) {
        let Some(quotas) = &mut self.quotas else { return };
        quotas.end(op.now, op.made, |ino| self.store.allocated_bytes(ino));
        self.take_recharges(op.now, Some(op.made));
        if let Some(quotas) = &mut self.quotas {
            quotas.open.clear();
        }
    }

    /// Takes over what changed between operations. At the end of one (`ended`: with what it made) its own inodes are counted already.
    fn take_recharges(&mut self, now: TimeNs, ended: Option<Option<InodeNo>>) {
        let Some(quotas) = &mut self.quotas else { return };
        for change in self.store.take_recharges() {
            let is_known = ended.is_some_and(|made| quotas.is_open(change.ino, made));
            if !is_known && !mutation::is_on(Mutation::ForgottenRecharges) {
                quotas.recharge(now, &change);
            }
        }
    }

    /// Refuses that many blocks more for a file if a quota does.
    pub(super) fn refuse_beyond_quota(&mut self, now: TimeNs, ino: InodeNo, blocks: u64) -> Outcome<()> {
        if self.quotas.is_none() || self.is_exempt {
            return Ok(());
        }
        store::refuse_read_only(&self.store)?;
        let owner = owner_of(self.store.inode(ino)?);
        let bytes = blocks.saturating_mul(u64::from(self.store.facts().block_bytes));
        self.take_recharges(now, None);
        let quotas = self.quotas.as_ref().expect("seen above");
        Ok(quotas.admit_bytes(now, owner, bytes)?)
    }
}

fn owner_of(inode: &Inode) -> Owner {
    Owner { uid: inode.uid, gid: inode.gid }
}
