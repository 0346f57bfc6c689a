//! The names that directories lose and gain, and the inodes that are made in between.

use super::{SendError, Sender, State};
use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs_format::InodeNo;
use firnfs_format::stream::Frame;
use std::collections::BTreeMap;

/// A directory: what each name leads to.
type Names = BTreeMap<Vec<u8>, InodeNo>;

impl Sender<'_> {
    /// Sends all changes of names.
    pub(super) fn names(&mut self) -> Result<(), SendError> {
        for at in 0..self.items.len() {
            if self.items[at].was_dir {
                self.lost_names(at)?;
            }
        }
        for at in 0..self.items.len() {
            self.make(at)?;
        }
        for at in 0..self.items.len() {
            if self.items[at].kind == Some(Kind::Directory) {
                self.gained_names(at)?;
            }
        }
        self.frames.put(&Frame::NamesEnd)
    }

    fn lost_names(&mut self, at: usize) -> Result<(), SendError> {
        let dir = self.items[at].ino;
        let (before, after) = self.both(at)?;
        for (name, ino) in before {
            if self.items[at].is_same && after.get(&name) == Some(&ino) && !self.replaced.contains(&ino) {
                continue;
            }
            let is_kept = !self.replaced.contains(&ino) && self.named(self.to, ino)?.is_some();
            self.frames.put(&Frame::Lose { dir, ino, is_kept, name: &name })?;
        }
        Ok(())
    }

    fn gained_names(&mut self, at: usize) -> Result<(), SendError> {
        let dir = self.items[at].ino;
        let (before, after) = self.both(at)?;
        for (name, ino) in after {
            if !self.items[at].is_same || before.get(&name) != Some(&ino) || self.replaced.contains(&ino) {
                self.frames.put(&Frame::Gain { dir, ino, name: &name })?;
            }
        }
        Ok(())
    }

    /// The names of a directory before and after; none where it is no directory. Where another directory has its number now, all that it had
    /// is lost: what stays has another name there.
    fn both(&self, at: usize) -> Result<(Names, Names), FsError> {
        let item = &self.items[at];
        let before = self.from.filter(|_| item.was_dir);
        let after = Some(self.to).filter(|_| item.kind == Some(Kind::Directory));
        let names = |state: Option<State>| state.map_or(Ok(Names::new()), |state| self.list(state, item.ino));
        Ok((names(before)?, names(after)?))
    }

    fn list(&self, state: State, dir: InodeNo) -> Result<Names, FsError> {
        let (mut names, mut cookie) = (Names::new(), 0);
        loop {
            let before = cookie;
            self.volume.run_quietly(|vfs, now| {
                vfs.readdir(now, state.ino(dir), cookie, &mut |entry| {
                    cookie = entry.next;
                    if entry.name != b"." && entry.name != b".." {
                        names.insert(entry.name.to_vec(), firnfs::states::number_of(entry.ino));
                    }
                    true
                })
            })?;
            if cookie == before {
                return Ok(names);
            }
        }
    }

    fn make(&mut self, at: usize) -> Result<(), SendError> {
        let (ino, Some(kind), false) = (self.items[at].ino, self.items[at].kind, self.items[at].is_same)
        else {
            return Ok(());
        };
        if ino == InodeNo::ROOT {
            return Ok(());
        }
        let inode = self.named(self.to, ino)?.ok_or(FsError::NotFound)?;
        let target = match kind {
            Kind::Symlink => self.volume.run_quietly(|vfs, now| vfs.readlink(now, self.to.ino(ino)))?,
            _ => Vec::new(),
        };
        self.frames.put(&Frame::Make {
            ino,
            kind: kind as u8,
            rdev: inode.rdev,
            btime: inode.btime,
            target: &target,
        })
    }
}
