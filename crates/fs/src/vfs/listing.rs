//! readdir and readlink.

use super::{DirEntry, Vfs};
use crate::error::{FsError, Outcome};
use crate::inode::{Body, Kind};
use crate::store::{Fork, Store};
use crate::ufs::make::TARGET_MAX_BYTES;
use crate::ufs::{self, dir};
use firnfs_format::{InodeNo, TimeNs};

impl<S: Store> Vfs<S> {
    /// Visits entries from `cookie` (0: from the start) until the visitor returns false. May end early, where blocks
    /// must be read first: the end of the directory is reached when a call visits nothing. Touches atime as the mode says.
    /// A removed directory has no entries.
    ///
    /// # Errors
    /// `NotDirectory`, `NotFound`; `Need` and `Corrupt`, before anything was visited.
    pub fn readdir(
        &mut self,
        now: TimeNs,
        ino: InodeNo,
        cookie: u64,
        visit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Outcome<()> {
        let dir = dir::view(&mut self.store, ino)?;
        let atime_is_due = self.atime_is_due(now, ino)?;
        let dots: [(&[u8], InodeNo); 2] = [(b".", ino), (b"..", dir.parent)];
        let mut visited = false;
        let mut wants_more = dir.nlink > 0;
        for (at, (name, ino)) in (0..).zip(dots) {
            if wants_more && cookie <= at {
                visited = true;
                wants_more = visit(DirEntry { ino, kind: Kind::Directory, next: at + 1, name });
            }
        }
        if wants_more {
            let cookie = cookie.max(dir::FIRST_COOKIE);
            let listed = dir::list(&mut self.store, &dir, cookie, &mut |listed| {
                let (ino, name) = (listed.record.ino, listed.record.name);
                visit(DirEntry { ino, kind: listed.kind, next: listed.next, name })
            });
            if !visited {
                listed?;
            }
        }
        self.touch_atime(now, ino, atime_is_due);
        Ok(())
    }

    /// The target of a symbolic link. Touches atime as the mode says.
    ///
    /// # Errors
    /// `Invalid` if it is none; `NotFound`; `Need`, `Corrupt`.
    pub fn readlink(&mut self, now: TimeNs, ino: InodeNo) -> Outcome<Vec<u8>> {
        let atime_is_due = self.atime_is_due(now, ino)?;
        let inode = self.store.inode(ino)?;
        if inode.kind != Kind::Symlink {
            return Err(FsError::Invalid("not a symbolic link").into());
        }
        let len_bytes = inode.size_bytes;
        let target = match &inode.body {
            Body::Inline(target) => target.clone(),
            Body::Blocks if len_bytes <= TARGET_MAX_BYTES as u64 => {
                ufs::read_whole(&mut self.store, ino, Fork::Data, len_bytes as usize)?
            }
            Body::Blocks => {
                return Err(FsError::Corrupt {
                    what: format!("symbolic link {ino}"),
                    at: "size".to_owned(),
                    expected: format!("at most {TARGET_MAX_BYTES}"),
                    found: len_bytes.to_string(),
                }
                .into());
            }
        };
        self.touch_atime(now, ino, atime_is_due);
        Ok(target)
    }
}
