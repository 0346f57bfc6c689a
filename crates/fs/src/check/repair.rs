//! Repairs: carries out the repair of each finding. Most repairs are ordinary operations of the file system; the others
//! are in `lfs/mend`. Each is atomic across a crash. Their order is such that an interrupted repair leaves findings for
//! the next one, but no new ones.
//!
//! The driver checks again afterwards: a repair may reveal further damage.

use super::directory as dirs;
use super::facts::Facts;
use super::finding::{EntryPlace, Finding, Problem};
use crate::error::{FsError, Outcome, Stop};
use crate::inode::{Inode, Kind};
use crate::lfs::Lfs;
use crate::states::{branch_of, in_branch, local};
use crate::store::{Fork, Intent, OpKind, Store};
use crate::ufs::dir::{self, Hints};
use crate::ufs::xattr;
use crate::vfs::{Caller, NewNode, Vfs};
use firnfs_format::{InodeNo, TimeNs};
use std::collections::{BTreeMap, BTreeSet};

/// Where lost files and trees go, in the root.
pub const LOST_AND_FOUND: &[u8] = b"lost+found";
/// Alternative names to try if another file has that one.
const NAMES_MAX: u32 = 1000;

/// The outcome of a repair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fixed {
    /// Done, perhaps together with another one.
    Done,
    /// There is no repair for it; the text says why.
    Cannot(&'static str),
}

/// See the module's head.
#[derive(Default)]
pub struct Fixer {
    hints: Hints,
    lost_and_found: BTreeMap<u8, InodeNo>,
    /// Directories to be counted, and indexed, at the end.
    touched: BTreeSet<InodeNo>,
    /// Removed entries: an entry is removed only once, however many findings it has.
    removed: BTreeSet<(InodeNo, u64)>,
}

/// The order of repairs: first those that make things readable; link counts before the repairs that change them.
#[must_use]
pub fn order(problem: &Problem) -> u8 {
    match problem {
        Problem::Record { .. } => 0,
        Problem::Root { .. } => 1,
        Problem::Block { key, .. } | Problem::Pointer { key, .. } | Problem::Shared { key, .. } => {
            // Deeper blocks go with their parents.
            8 - key.level.min(5)
        }
        Problem::BeyondEnd { .. } | Problem::Form { .. } => 10,
        Problem::DirectoryBlock { .. } => 11,
        Problem::Links(_) => 13,
        Problem::LostTree { .. } => 14,
        Problem::LostFile { .. } => 15,
        _ => 12,
    }
}

impl Fixer {
    /// Corrects the accounting to what the check computed; it must run before anything turns dirty. Returns whether the
    /// logs have to move.
    pub fn restate(vfs: &mut Vfs<Lfs>, facts: &mut Facts) -> bool {
        facts.tables.take().is_some_and(|tables| {
            let move_logs = tables.move_logs;
            vfs.store_mut().restate(tables);
            move_logs
        })
    }

    /// Moves the logs to segments without live data.
    ///
    /// # Errors
    /// `Need`, `Corrupt`; `NoSpace` if no segment is clean.
    pub fn move_logs(vfs: &mut Vfs<Lfs>) -> Outcome<()> {
        vfs.store_mut().move_logs()
    }

    /// Corrects the number of bytes charged to an inode.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn charge(vfs: &mut Vfs<Lfs>, now: TimeNs, (ino, charged_bytes): (InodeNo, u64)) -> Outcome<()> {
        vfs.store_mut().note_change(now);
        vfs.store_mut().rewrite_inode(ino, Some(charged_bytes))
    }

    /// Repairs one finding.
    ///
    /// # Errors
    /// `Need`, `Room`, `NoSpace`, `Corrupt`.
    pub fn fix(&mut self, vfs: &mut Vfs<Lfs>, now: TimeNs, finding: &Finding) -> Outcome<Fixed> {
        let ino = finding.ino.unwrap_or(InodeNo(0));
        let lfs = vfs.store_mut();
        lfs.note_change(now);
        match &finding.problem {
            Problem::Record { .. } => lfs.forget_inode(ino)?,
            Problem::Root { .. } => self.make_root(vfs, now)?,
            Problem::Block { key, .. } => {
                lfs.cut(*key, true)?;
                self.touch_directory(lfs, ino)?;
            }
            Problem::Pointer { key, .. } => {
                lfs.cut(*key, false)?;
                self.touch_directory(lfs, ino)?;
            }
            Problem::Shared { key, .. } if key.level == 0 => lfs.relocate(*key)?,
            Problem::Shared { key, .. } => {
                lfs.cut(*key, true)?;
                self.touch_directory(lfs, ino)?;
            }
            Problem::BeyondEnd { key, .. } => lfs.cut(*key, true)?,
            Problem::Version(_) | Problem::Orphan(_) => lfs.rewrite_inode(ino, None)?,
            Problem::SuperblockCopy { .. } => return Ok(Fixed::Cannot("the driver writes it")),
            // Recomputed, or written by the mount itself.
            _ => return self.fix_shared(vfs, now, finding),
        }
        Ok(Fixed::Done)
    }

    /// Repairs one finding that any kind of store can have: one of phases 2 to 4, or one about the part of an inode that UFS
    /// defines.
    ///
    /// # Errors
    /// `Need`, `Room`, `NoSpace`, `Corrupt`.
    pub fn fix_shared<S: Store>(
        &mut self,
        vfs: &mut Vfs<S>,
        now: TimeNs,
        finding: &Finding,
    ) -> Outcome<Fixed> {
        let ino = finding.ino.unwrap_or(InodeNo(0));
        let store = vfs.store_mut();
        match &finding.problem {
            Problem::Form { .. } => return self.fix_form(store, now, ino),
            Problem::Attributes { .. } => fix_attributes(store, now, ino)?,
            Problem::LostTree { named_at } => {
                if let Some(at) = named_at {
                    self.remove_entry(store, now, *at)?;
                }
                self.adopt(vfs, now, ino)?;
            }
            Problem::LostFile { .. } => self.adopt(vfs, now, ino)?,
            Problem::Links(links) => set(store, now, ino, |inode| inode.nlink = links.found)?,
            _ => return self.fix_names(store, now, finding),
        }
        Ok(Fixed::Done)
    }

    fn fix_names<S: Store>(&mut self, store: &mut S, now: TimeNs, finding: &Finding) -> Outcome<Fixed> {
        let ino = finding.ino.unwrap_or(InodeNo(0));
        match &finding.problem {
            Problem::DirectoryBlock { block, .. } => {
                dirs::keep_readable(store, now, ino, *block)?;
                self.touched.insert(ino);
            }
            Problem::EntryName { at, .. }
            | Problem::EntryTwice { at }
            | Problem::EntryDangling { at, .. }
            | Problem::EntrySecond { at, .. } => self.remove_entry(store, now, *at)?,
            Problem::EntryKind { at, .. } if self.removed.contains(&(at.dir, at.at_bytes)) => {}
            Problem::EntryKind { at, target, .. } => dirs::retype_entry(store, now, *at, *target)?,
            Problem::DotDot(parent) => set(store, now, ino, |inode| inode.parent = parent.found)?,
            Problem::Counts { .. } => {
                self.touched.insert(ino);
            }
            Problem::Index { .. } => {
                dirs::forget_index(store, now, ino)?;
                self.touched.insert(ino);
            }
            _ => {}
        }
        Ok(Fixed::Done)
    }

    fn remove_entry<S: Store>(&mut self, store: &mut S, now: TimeNs, at: EntryPlace) -> Outcome<()> {
        if !self.removed.contains(&(at.dir, at.at_bytes)) {
            dirs::remove_entry(store, now, at)?;
            self.removed.insert((at.dir, at.at_bytes));
            self.touched.insert(at.dir);
        }
        Ok(())
    }

    /// Directories to be counted at the end.
    #[must_use]
    pub fn touched(&self) -> Vec<InodeNo> {
        self.touched.iter().copied().collect()
    }

    /// Recounts a directory, and builds its index if it needs one and has none.
    ///
    /// # Errors
    /// `Need`, `Room`, `Corrupt`.
    pub fn recount<S: Store>(vfs: &mut Vfs<S>, now: TimeNs, dir: InodeNo) -> Outcome<()> {
        match dirs::recount(vfs.store_mut(), now, dir) {
            Err(Stop::Fail(FsError::NotFound)) => Ok(()),
            other => other,
        }
    }

    /// Handles a directory that has lost blocks: drops its index, which may lead to them, and recounts the directory at the
    /// end.
    fn touch_directory(&mut self, lfs: &mut Lfs, ino: InodeNo) -> Outcome<()> {
        if lfs.inode(ino)?.kind == Kind::Directory {
            self.touched.insert(ino);
        }
        Ok(())
    }

    fn make_root(&mut self, vfs: &mut Vfs<Lfs>, now: TimeNs) -> Outcome<()> {
        let lfs = vfs.store_mut();
        match lfs.inode(InodeNo::ROOT) {
            Ok(inode) if inode.kind == Kind::Directory => {
                return set(lfs, now, InodeNo::ROOT, |root| root.nlink = 2);
            }
            // Whatever it is, it is not the root.
            Ok(_) | Err(Stop::Fail(_)) => {
                if !lfs.imap_entry(InodeNo::ROOT)?.ptr.is_hole() {
                    lfs.forget_inode(InodeNo::ROOT)?;
                }
            }
            Err(stop) => return Err(stop),
        }
        let root = Inode::root(lfs.facts().inline_max_bytes, now);
        lfs.make_root(root)
    }

    fn fix_form<S: Store>(&mut self, store: &mut S, now: TimeNs, ino: InodeNo) -> Outcome<Fixed> {
        if store.inode(ino)?.kind != Kind::Directory {
            dirs::forget_index(store, now, ino)?;
            return Ok(Fixed::Done);
        }
        match dirs::round_size(store, now, ino) {
            Err(Stop::Fail(FsError::Invalid(why))) => return Ok(Fixed::Cannot(why)),
            other => other?,
        }
        self.touched.insert(ino);
        Ok(Fixed::Done)
    }

    /// The directory of lost files of the volume itself or of a clone; creates it if necessary.
    fn lost_and_found<S: Store>(&mut self, vfs: &mut Vfs<S>, now: TimeNs, branch: u8) -> Outcome<InodeNo> {
        if let Some(ino) = self.lost_and_found.get(&branch) {
            return Ok(*ino);
        }
        let root = in_branch(branch, InodeNo::ROOT);
        for number in 0..NAMES_MAX {
            let mut name = LOST_AND_FOUND.to_vec();
            if number > 0 {
                name.extend(format!(".{number}").into_bytes());
            }
            let found = match vfs.lookup(now, root, &name, false) {
                Ok(attr) if attr.kind == Kind::Directory => attr.ino,
                Ok(_) => continue,
                Err(Stop::Fail(FsError::NotFound)) => {
                    let node = NewNode { kind: Kind::Directory, mode: 0o700, rdev: 0, target: b"" };
                    let caller = Caller { uid: 0, gid: 0, umask: 0 };
                    vfs.make(now, caller, root, &name, node, false)?.ino
                }
                Err(stop) => return Err(stop),
            };
            self.lost_and_found.insert(branch, found);
            return Ok(found);
        }
        Err(FsError::Exists.into())
    }

    /// Gives an inode a name in `lost+found`: `#` and its number.
    fn adopt<S: Store>(&mut self, vfs: &mut Vfs<S>, now: TimeNs, ino: InodeNo) -> Outcome<()> {
        let home = self.lost_and_found(vfs, now, branch_of(ino))?;
        let store = vfs.store_mut();
        let inode = store.inode(ino)?;
        let (kind, is_dir) = (inode.kind, inode.kind == Kind::Directory);
        let view = dir::view(store, home)?;
        let mut name = format!("#{}", local(ino));
        while let Some(found) = dir::lookup(store, &view, name.as_bytes())?.found {
            if found.ino == ino {
                return Ok(());
            }
            name.push('~');
        }
        let insert = dir::plan_insert(store, &self.hints, view, name.as_bytes(), None)?;
        let mut intents = vec![Intent::Change { ino, grow_bytes: 0 }];
        insert.declare(name.len(), &mut intents);
        let mut op = store.begin(now, OpKind::Names, &intents)?;
        insert.apply(store, &mut op, &mut self.hints, name.as_bytes(), (ino, kind));
        let parent = store.inode_mut(&mut op, home);
        parent.nlink = parent.nlink.saturating_add(u32::from(is_dir));
        (parent.mtime, parent.ctime) = (now, now);
        let inode = store.inode_mut(&mut op, ino);
        inode.ctime = now;
        if is_dir {
            inode.parent = local(home);
            inode.nlink = inode.nlink.max(2);
        } else {
            inode.nlink = 1;
        }
        store.end(op);
        Ok(())
    }
}

/// Changes an inode.
fn set<S: Store>(store: &mut S, now: TimeNs, ino: InodeNo, change: impl FnOnce(&mut Inode)) -> Outcome<()> {
    let mut op = store.begin(now, OpKind::Names, &[Intent::Change { ino, grow_bytes: 0 }])?;
    let inode = store.inode_mut(&mut op, ino);
    change(inode);
    inode.ctime = now;
    store.end(op);
    Ok(())
}

/// Keeps the intact attributes.
fn fix_attributes<S: Store>(store: &mut S, now: TimeNs, ino: InodeNo) -> Outcome<()> {
    let set = match xattr::load(store, ino) {
        Ok(set) => set,
        Err(Stop::Fail(_)) => Vec::new(),
        Err(stop) => return Err(stop),
    };
    let replace = xattr::plan_replace(store, ino, xattr::sound(&set))?;
    let mut intents = Vec::new();
    replace.declare(&mut intents);
    // A damaged length does not tell which blocks exist.
    intents.push(Intent::Punch { ino, fork: Fork::Xattr, at_bytes: 0, len_bytes: u64::MAX });
    let mut op = store.begin(now, OpKind::Names, &intents)?;
    store.punch(&mut op, ino, Fork::Xattr, 0, u64::MAX);
    replace.apply(store, &mut op);
    store.end(op);
    Ok(())
}
