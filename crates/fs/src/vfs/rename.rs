//! rename: moving, replacing and exchanging names.
//!
//! The source's entry is removed (or, in an exchange, renamed to the other file); the target's entry is made, or changed
//! to name the source. Within one directory the removal is applied before the insertion, and each keeps the layout with
//! which the other was planned (`dir::Remove::before_insertion`, `dir::plan_insert`'s `removed`).

use super::history::{refuse_crossing, refuse_past};
use super::names::{Target, check_plain_name};
use super::{RenameMode, Vfs};
use crate::error::{FsError, Outcome};
use crate::states::local;
use crate::store::{Intent, Op, OpKind, Store};
use crate::ufs::dir::{self, DirView, Found, Lookup};
use firnfs_format::{InodeNo, TimeNs};

/// Largest depth of directories: more can only be a cycle.
const DEPTH_MAX: u64 = 1 << 24;

/// One end of a planned rename.
struct End<'a> {
    dir: DirView,
    lookup: Lookup,
    name: &'a [u8],
    target: Option<Target>,
}

impl End<'_> {
    fn found(&self) -> Found {
        self.lookup.found.expect("this end names something")
    }

    fn is_dir(&self) -> bool {
        self.target.is_some_and(|target| target.is_dir())
    }
}

impl<S: Store> Vfs<S> {
    /// Renames. If both names are of the same file, nothing changes.
    ///
    /// # Errors
    /// `NotFound` (the source; with Exchange the target; a removed directory), `Exists` (NoReplace), `NotEmpty`,
    /// `IsDirectory`, `NotDirectory`, `Invalid` (a directory into itself; `.` and `..`), `TooManyLinks`, `NameTooLong`,
    /// `NoSpace`, `ReadOnly`; `Need`, `Room`, `Corrupt`.
    pub fn rename(
        &mut self,
        now: TimeNs,
        from: (InodeNo, &[u8]),
        to: (InodeNo, &[u8]),
        mode: RenameMode,
    ) -> Outcome<()> {
        refuse_past(&[from.0, to.0])?;
        refuse_crossing(from.0, to.0)?;
        let source = self.look_at_end(from)?;
        let victim = self.look_at_end(to)?;
        if victim.target.is_none() && self.is_hidden_dir(to.0, to.1)? {
            return Err(FsError::NotPermitted("a name that firnfs keeps for the past").into());
        }
        let moved = source.target.ok_or(FsError::NotFound)?;
        match (mode, victim.target) {
            (RenameMode::NoReplace, Some(_)) => return Err(FsError::Exists.into()),
            (RenameMode::Exchange, None) => return Err(FsError::NotFound.into()),
            (_, Some(other)) if other.ino == moved.ino => return Ok(()),
            _ => {}
        }
        let crosses = source.dir.ino != victim.dir.ino;
        if crosses && moved.is_dir() {
            self.refuse_below(moved.ino, victim.dir)?;
        }
        match (mode, victim.target) {
            (RenameMode::Exchange, Some(other)) => {
                if crosses && other.is_dir() {
                    self.refuse_below(other.ino, source.dir)?;
                }
                self.exchange(now, &source, &victim)
            }
            (_, Some(other)) => {
                check_replace(&moved, &other)?;
                self.replace(now, &source, &victim)
            }
            (_, None) => self.move_name(now, source, victim),
        }
    }

    fn look_at_end<'a>(&mut self, (parent, name): (InodeNo, &'a [u8])) -> Outcome<End<'a>> {
        let dir = self.living_dir(parent)?;
        check_plain_name(name)?;
        let lookup = dir::lookup(&mut self.store, &dir, name)?;
        let target = match &lookup.found {
            Some(found) => Some(self.target(&dir, found)?),
            None => None,
        };
        Ok(End { dir, lookup, name, target })
    }

    /// A directory must not move below itself.
    fn refuse_below(&mut self, moved: InodeNo, into: DirView) -> Outcome<()> {
        let mut above = into;
        for _ in 0..DEPTH_MAX {
            if above.ino == moved {
                return Err(FsError::Invalid("a directory cannot move below itself").into());
            }
            if local(above.ino) == InodeNo::ROOT {
                return Ok(());
            }
            above = dir::view(&mut self.store, above.parent)?;
        }
        Err(FsError::Corrupt {
            what: format!("directory {}", into.ino),
            at: "parents".to_owned(),
            expected: "a way up to the root".to_owned(),
            found: "a cycle".to_owned(),
        }
        .into())
    }

    fn move_name(&mut self, now: TimeNs, source: End<'_>, victim: End<'_>) -> Outcome<()> {
        let moved = source.target.expect("checked by rename");
        let crosses = source.dir.ino != victim.dir.ino;
        if crosses && moved.is_dir() && victim.dir.nlink == u32::MAX {
            return Err(FsError::TooManyLinks.into());
        }
        let mut remove = dir::plan_remove(&mut self.store, source.dir, &source.lookup, source.name)?;
        if !crosses {
            remove.before_insertion();
        }
        let removed = (!crosses).then_some(&remove);
        let insert = dir::plan_insert(&mut self.store, &self.hints, victim.dir, victim.name, removed)?;
        let mut op = self.begin(now, OpKind::Names, |intents| {
            remove.declare(intents);
            insert.declare(victim.name.len(), intents);
            intents.push(Intent::Change { ino: moved.ino, grow_bytes: 0 });
        })?;
        remove.apply(&mut self.store, &mut op, &mut self.hints, !crosses);
        insert.apply(&mut self.store, &mut op, &mut self.hints, victim.name, (moved.ino, moved.kind));
        self.touch_ends(&mut op, source.dir.ino, victim.dir.ino, i32::from(moved.is_dir()), 0);
        self.touch_moved(&mut op, &moved, victim.dir.ino);
        self.end(op);
        Ok(())
    }

    fn replace(&mut self, now: TimeNs, source: &End<'_>, victim: &End<'_>) -> Outcome<()> {
        let moved = source.target.expect("checked by rename");
        let lost = victim.target.expect("checked by rename");
        let remove = dir::plan_remove(&mut self.store, source.dir, &source.lookup, source.name)?;
        let loss = self.plan_loss(lost);
        let mut op = self.begin(now, OpKind::Names, |intents| {
            remove.declare(intents);
            dir::declare_retarget(&victim.dir, &victim.found(), intents);
            intents.push(Intent::Change { ino: moved.ino, grow_bytes: 0 });
            loss.declare(intents);
        })?;
        // First the entry that stays, then the one that is removed: the removal may change the layout.
        let target = (moved.ino, moved.kind);
        dir::retarget(&mut self.store, &mut op, &victim.dir, &victim.found(), target);
        remove.apply(&mut self.store, &mut op, &mut self.hints, false);
        let (moved_dirs, lost_dirs) = (i32::from(moved.is_dir()), i32::from(lost.is_dir()));
        self.touch_ends(&mut op, source.dir.ino, victim.dir.ino, moved_dirs, lost_dirs);
        self.touch_moved(&mut op, &moved, victim.dir.ino);
        self.apply_loss(&mut op, loss);
        self.end(op);
        Ok(())
    }

    fn exchange(&mut self, now: TimeNs, source: &End<'_>, victim: &End<'_>) -> Outcome<()> {
        let one = source.target.expect("checked by rename");
        let other = victim.target.expect("checked by rename");
        let crosses = source.dir.ino != victim.dir.ino;
        if crosses && one.is_dir() != other.is_dir() {
            let gains = if one.is_dir() { &victim.dir } else { &source.dir };
            if gains.nlink == u32::MAX {
                return Err(FsError::TooManyLinks.into());
            }
        }
        let mut op = self.begin(now, OpKind::Names, |intents| {
            dir::declare_retarget(&source.dir, &source.found(), intents);
            dir::declare_retarget(&victim.dir, &victim.found(), intents);
            intents.push(Intent::Change { ino: one.ino, grow_bytes: 0 });
            intents.push(Intent::Change { ino: other.ino, grow_bytes: 0 });
        })?;
        dir::retarget(&mut self.store, &mut op, &victim.dir, &victim.found(), (one.ino, one.kind));
        dir::retarget(&mut self.store, &mut op, &source.dir, &source.found(), (other.ino, other.kind));
        let net_dirs = i32::from(source.is_dir()) - i32::from(victim.is_dir());
        self.touch_ends(&mut op, source.dir.ino, victim.dir.ino, net_dirs, 0);
        self.touch_moved(&mut op, &one, victim.dir.ino);
        self.touch_moved(&mut op, &other, source.dir.ino);
        self.end(op);
        Ok(())
    }

    /// Updates times and link counts of both directories: `moved_dirs` subdirectories moved from the first to the
    /// second, which lost `lost_dirs` of its own.
    fn touch_ends(&mut self, op: &mut Op, from: InodeNo, to: InodeNo, moved_dirs: i32, lost_dirs: i32) {
        for (ino, change) in [(from, -moved_dirs), (to, moved_dirs - lost_dirs)] {
            self.touch_dir(op, ino, change.max(0) as u32, (-change).max(0) as u32);
        }
    }

    fn touch_moved(&mut self, op: &mut Op, moved: &Target, parent: InodeNo) {
        let now = op.now;
        let inode = self.store.inode_mut(op, moved.ino);
        inode.ctime = now;
        if moved.is_dir() {
            inode.parent = local(parent);
        }
    }
}

/// Checks whether one kind of file may replace another.
fn check_replace(moved: &Target, lost: &Target) -> Result<(), FsError> {
    match (moved.is_dir(), lost.is_dir()) {
        (true, false) => Err(FsError::NotDirectory),
        (false, true) => Err(FsError::IsDirectory),
        (true, true) if lost.entries > 0 => Err(FsError::NotEmpty),
        _ => Ok(()),
    }
}
