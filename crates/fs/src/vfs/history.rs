//! Shows older states of the volume as directories: `.firn/history/NAME` in the root directory is the root directory of a state
//! that the store retains, `.firn/clones/NAME` that of a clone. No listing shows `.firn`; an entry of that name on the volume
//! hides it.
//!
//! Everything below reads like the present, by the same operations. Nothing in a state can be changed. A file has the permissions
//! of that time, minus those taken away since: a user who may not open a file today cannot open its past either. A clone is an
//! ordinary tree; only the directories that lead to it are made up. No rename or link crosses from one tree to another.

use super::{Attr, DirEntry, Vfs};
use crate::error::{FsError, Outcome, Stop};
use crate::inode::Kind;
use crate::states::{branch_of, in_branch, is_made_up, is_past, local, made_up, number_of, view_of};
use crate::store::{Branch, Store, Title};
use crate::ufs::{acl, dir, xattr};
use firnfs_format::{Epoch, InodeNo, TimeNs};

/// The name in the root directory below which states and clones are.
pub const HIDDEN_DIR: &[u8] = b".firn";
/// The name in [`HIDDEN_DIR`] below which the states are.
pub const HISTORY_DIR: &[u8] = b"history";

/// The name in [`HIDDEN_DIR`] below which the clones are.
pub const CLONES_DIR: &[u8] = b"clones";

/// The directory [`HIDDEN_DIR`].
const FIRN: InodeNo = made_up(1);
/// The directory [`HISTORY_DIR`] in it.
pub(super) const HISTORY: InodeNo = made_up(2);
/// The directory [`CLONES_DIR`] in it.
pub(super) const CLONES: InodeNo = made_up(3);
/// The number in a listing of the root of a state that nobody has looked into, less the state's epoch. It leads nowhere.
const LISTED: u64 = 16;
/// The cookie after `..`.
const DOTS: u64 = 2;
/// States whose names a listing has in memory at once.
const LISTED_AT_ONCE: usize = 128;
/// Permission bits for group and others.
const OTHERS: u16 = 0o077;

/// True for the number of a state in a listing that leads nowhere: a look-up by name gives the right one.
pub(super) fn is_only_listed(ino: InodeNo) -> bool {
    is_made_up(ino) && number_of(ino).0 >= LISTED
}

/// Refuses to change something that belongs to the past.
pub(super) fn refuse_past(inodes: &[InodeNo]) -> Result<(), FsError> {
    if inodes.iter().copied().any(is_past) {
        return Err(FsError::ReadOnly("the past cannot be changed".to_owned()));
    }
    Ok(())
}

/// Refuses a rename or link between the volume itself and a clone, or between two clones.
pub(super) fn refuse_crossing(from: InodeNo, to: InodeNo) -> Result<(), FsError> {
    if branch_of(from) == branch_of(to) { Ok(()) } else { Err(FsError::CrossDevice) }
}

impl<S: Store> Vfs<S> {
    /// True for the name of [`HIDDEN_DIR`], if the store retains states. The caller knows that the directory has no such entry.
    ///
    /// # Errors
    /// `Need`.
    pub(super) fn is_hidden_dir(&mut self, parent: InodeNo, name: &[u8]) -> Outcome<bool> {
        Ok(parent == InodeNo::ROOT && name == HIDDEN_DIR && self.store.states(Epoch(0))?.is_some())
    }

    /// The attributes of [`HIDDEN_DIR`].
    ///
    /// # Errors
    /// `Need`.
    pub(super) fn hidden_dir(&mut self) -> Outcome<Attr> {
        self.made_up_attr(FIRN)
    }

    /// The root directory of a state, for an adapter that shows the state alone.
    ///
    /// # Errors
    /// `NotFound`; as the store reports.
    pub fn root_of_state(&mut self, state: Epoch) -> Outcome<InodeNo> {
        self.store.look_into(state)
    }

    /// Finds a name in a made-up directory.
    pub(super) fn lookup_made_up(&mut self, parent: InodeNo, name: &[u8]) -> Outcome<Attr> {
        let ino = match (parent, name) {
            (_, b".") => parent,
            (FIRN, b"..") => InodeNo::ROOT,
            (HISTORY | CLONES, b"..") => FIRN,
            (FIRN, HISTORY_DIR) => HISTORY,
            (FIRN, CLONES_DIR) if self.store.branches().is_some() => CLONES,
            (CLONES, _) => {
                let clones = self.store.branches().unwrap_or_default();
                let found = clones.into_iter().find(|branch| branch.name.as_bytes() == name);
                in_branch(found.ok_or(FsError::NotFound)?.number, InodeNo::ROOT)
            }
            (HISTORY, _) => {
                let title = Title::of(name);
                let state = self
                    .store
                    .states(Epoch(0))?
                    .and_then(|mut states| states.rfind(|state| title.is_of(state)));
                let epoch = state.ok_or(FsError::NotFound)?.epoch;
                self.store.look_into(epoch)?
            }
            _ => return Err(FsError::NotFound.into()),
        };
        self.attr_of(ino)
    }

    /// Visits the entries of a made-up directory; see [`Vfs::readdir`].
    pub(super) fn list_made_up(
        &mut self,
        dir: InodeNo,
        cookie: u64,
        visit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Outcome<()> {
        let mut entry = |ino, next, name: &[u8]| {
            cookie >= next || visit(DirEntry { ino, kind: Kind::Directory, next, name })
        };
        let above = if dir == FIRN { InodeNo::ROOT } else { FIRN };
        if !entry(dir, 1, b".") || !entry(above, DOTS, b"..") {
            return Ok(());
        }
        if dir == FIRN {
            let has_clones = self.store.branches().is_some();
            if entry(HISTORY, DOTS + 1, HISTORY_DIR) && has_clones {
                entry(CLONES, DOTS + 2, CLONES_DIR);
            }
            return Ok(());
        }
        if dir == CLONES {
            for Branch { number, name, .. } in self.store.branches().unwrap_or_default() {
                if !entry(in_branch(number, InodeNo::ROOT), DOTS + u64::from(number), name.as_bytes()) {
                    break;
                }
            }
            return Ok(());
        }
        // Epochs only grow, so a listing continues at the right place while states come and go.
        let mut from = Epoch(u32::try_from(cookie.saturating_sub(DOTS)).unwrap_or(u32::MAX));
        loop {
            let states = self.store.states(from)?.into_iter().flatten();
            let some: Vec<_> = states.take(LISTED_AT_ONCE).map(|s| (s.epoch, s.title())).collect();
            let Some((last, _)) = some.last() else { return Ok(()) };
            from = Epoch(last.0.saturating_add(1));
            for (epoch, name) in some {
                // A listing looks into no state: a volume may have more states than there are views.
                let root = self.store.root_looked_into(epoch).unwrap_or(made_up(LISTED + u64::from(epoch.0)));
                if !entry(root, DOTS + 1 + u64::from(epoch.0), name.as_bytes()) {
                    return Ok(());
                }
            }
        }
    }

    pub(super) fn made_up_attr(&mut self, ino: InodeNo) -> Outcome<Attr> {
        // The time changes with the set of states, so that no program takes an old listing for the present one.
        let clones = self.store.branches().unwrap_or_default();
        let states = self.store.states(Epoch(0))?.into_iter().flatten().map(|state| state.time.0);
        let times = states.chain(clones.iter().map(|clone| clone.time.0));
        let (newest, count) =
            times.fold((None, 0), |(newest, count), time| (newest.max(Some(time)), count + 1));
        let time = newest.map_or(0, |newest| newest.saturating_add(count));
        let time = TimeNs(time);
        Ok(Attr {
            ino,
            generation: 0,
            kind: Kind::Directory,
            mode: 0o555,
            nlink: 2,
            uid: 0,
            gid: 0,
            rdev: 0,
            size_bytes: 0,
            allocated_bytes: 0,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
        })
    }

    /// The parent of a directory. The parent of a state's or clone's root is the directory of all states or clones.
    pub(super) fn parent_of(dir: &dir::DirView) -> InodeNo {
        match local(dir.ino) == InodeNo::ROOT {
            true if view_of(dir.ino) != 0 => HISTORY,
            true if branch_of(dir.ino) != 0 => CLONES,
            _ => dir.parent,
        }
    }

    /// The attributes of an inode of a state, with the permissions that it still has today.
    pub(super) fn past_attr(&mut self, attr: Attr) -> Outcome<Attr> {
        let Some(now) = self.same_today(&attr)? else { return Ok(attr) };
        let mut mode = attr.mode & (now.mode | !0o777);
        let is_same_group = attr.gid == now.gid;
        if attr.uid != now.uid {
            mode &= !0o777;
        } else if !is_same_group || self.acl_of(attr.ino)? != self.acl_of(now.ino)? {
            mode &= !OTHERS;
        }
        Ok(Attr { mode, ..attr })
    }

    /// True if the access ACL of a state's inode is withheld, because the inode has another one today.
    pub(super) fn is_acl_withheld(&mut self, ino: InodeNo) -> Outcome<bool> {
        let attr = self.stored_attr(ino)?;
        let Some(now) = self.same_today(&attr)? else { return Ok(false) };
        Ok(self.acl_of(ino)? != self.acl_of(now.ino)?)
    }

    /// The same file or directory in the present; `None` if it is gone.
    fn same_today(&mut self, attr: &Attr) -> Outcome<Option<Attr>> {
        match self.stored_attr(number_of(attr.ino)) {
            Ok(now) => Ok(Some(now).filter(|now| now.generation == attr.generation)),
            Err(Stop::Fail(FsError::NotFound)) => Ok(None),
            Err(stop) => Err(stop),
        }
    }

    fn acl_of(&mut self, ino: InodeNo) -> Outcome<Option<Vec<u8>>> {
        xattr::get(&mut self.store, ino, acl::ACCESS)
    }
}
