//! The names that directories lose and gain, and the inodes that are made in between.

use super::{Item, SendError, SendProgress, Sender, State};
use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs_format::InodeNo;
use firnfs_format::stream::Frame;
use std::collections::BTreeMap;

/// A directory: what each name leads to.
type Names = BTreeMap<Vec<u8>, InodeNo>;

impl Sender<'_> {
    /// Sends all changes of names.
    pub(super) fn names(&mut self, go_on: &mut dyn FnMut(SendProgress) -> bool) -> Result<(), SendError> {
        for change in [Self::lost_names, Self::make, Self::gained_names] {
            for at in 0..self.items.len() {
                if !go_on(SendProgress::default()) {
                    return Err(SendError::Stopped);
                }
                change(self, at).map_err(|error| self.with_path(error, at))?;
            }
        }
        self.frames.put(&Frame::NamesEnd)
    }

    /// Sends that a directory loses all of its names, if it is gone or another one has its number.
    fn lost_names(&mut self, at: usize) -> Result<(), SendError> {
        let Item { ino: dir, was_dir, is_same, .. } = self.items[at];
        let Some(from) = self.from.filter(|_| was_dir) else { return Ok(()) };
        let stays = if is_same { self.list(self.to, dir)? } else { Names::new() };
        for (name, ino) in self.list(from, dir)? {
            let is_replaced = self.replaced.contains(&ino);
            if is_replaced || stays.get(&name) != Some(&ino) {
                let is_kept = !is_replaced && self.to.named(self.volume, ino)?.is_some();
                self.frames.put(&Frame::Lose { dir, ino, is_kept, name: &name })?;
            }
        }
        Ok(())
    }

    fn gained_names(&mut self, at: usize) -> Result<(), SendError> {
        let Item { ino: dir, kind, is_same, .. } = self.items[at];
        if kind != Some(Kind::Directory) {
            return Ok(());
        }
        let was = match self.from {
            Some(from) if is_same => self.list(from, dir)?,
            _ => Names::new(),
        };
        for (name, ino) in self.list(self.to, dir)? {
            if self.replaced.contains(&ino) || was.get(&name) != Some(&ino) {
                self.frames.put(&Frame::Gain { dir, ino, name: &name })?;
            }
        }
        Ok(())
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
        let Item { ino, kind: Some(kind), is_same: false, .. } = self.items[at] else { return Ok(()) };
        if ino == InodeNo::ROOT {
            return Ok(());
        }
        let inode = self.to.named(self.volume, ino)?.ok_or(FsError::NotFound)?;
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
