//! A copy that nobody sees before it is complete: it is made beside its target under another name, and then renamed.
//!
//! Invariant: if the copy does not get its name, it is removed, whatever ended the work. The entry that it replaces is removed
//! only after the copy is durable. If it replaces nothing, the caller makes the directory durable, once for all copies in it.

use super::copy::Copier;
use super::identity::Facts;
use crate::failure::{Done, Exit, Failure};
use crate::names::readable;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, openat, renameat_with, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of the next copy of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// See the module's head.
pub struct Staged {
    directory: OwnedFd,
    name: OsString,
    target: PathBuf,
    is_named: bool,
}

impl Staged {
    /// Copies what is at `from`, for the target `target`. `None` if it cannot be read.
    ///
    /// # Errors
    /// The target's directory does not exist or cannot be written.
    pub fn copy(copier: &mut Copier<'_>, (from, facts): (&Path, Facts), target: &Path) -> Done<Option<Self>> {
        let parent = match target.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => return Err(Failure::usage("the root directory cannot be restored")),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, parent, flags, Mode::empty()).map_err(|errno| {
            let failure = Failure::io("cannot open", parent, &errno.into());
            match errno {
                Errno::NOENT => Failure { advice: None, ..failure }
                    .advise("make that directory first, or name another place with --to"),
                _ => failure,
            }
        })?;
        // Several threads may make copies in one directory.
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!(".firn-restore-{}-{nth}", std::process::id()));
        let staged = Self { directory, name, target: target.to_owned(), is_named: false };
        let is_there = copier.copy((from, facts), staged.directory.as_fd(), &staged.name)?;
        Ok(is_there.then_some(staged))
    }

    /// The directory in which the copy gets its name.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Gives the copy its name. Replaces an entry of that name only with `force`; a directory is replaced as a whole.
    ///
    /// # Errors
    /// The name is taken, or the rename fails.
    pub fn name(&mut self, force: bool) -> Done {
        let target = self.target.file_name().unwrap_or_default();
        let rename = |flags| renameat_with(&self.directory, &self.name, &self.directory, target, flags);
        match rename(RenameFlags::NOREPLACE) {
            Ok(()) => self.is_named = true,
            Err(Errno::EXIST) if force => {
                // Both always have a name; the old entry is removed under the temporary one.
                rename(RenameFlags::EXCHANGE).map_err(|errno| self.cannot(errno))?;
                return rustix::fs::fsync(&self.directory).map_err(|errno| self.cannot(errno));
            }
            Err(Errno::EXIST) => return Err(is_taken(&self.target)),
            // Not all file systems have it. With those that do, nothing can happen between the check and the rename.
            Err(Errno::INVAL | Errno::NOSYS) => {
                if !force && self.target.symlink_metadata().is_ok() {
                    return Err(is_taken(&self.target));
                }
                rename(RenameFlags::empty()).map_err(|errno| self.cannot(errno))?;
                self.is_named = true;
            }
            Err(errno) => return Err(self.cannot(errno)),
        }
        Ok(())
    }

    fn cannot(&self, errno: Errno) -> Failure {
        Failure::io("cannot restore", &self.target, &errno.into())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_named {
            discard(self.directory.as_fd(), &self.name);
        }
    }
}

/// The failure of a name that is taken.
pub fn is_taken(target: &Path) -> Failure {
    Failure::new(Exit::Refused, format!("{} is there already", readable(&target)))
        .advise("name another place with --to, or replace it with --force")
}

/// Removes a file or a tree.
fn discard(directory: impl AsFd, name: &OsStr) {
    let Ok(stat) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
    let is_directory = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory;
    if !is_directory {
        // Its own error would hide the one that led here.
        let _left = unlinkat(&directory, name, AtFlags::empty());
        return;
    }
    let path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd())).join(name);
    if std::fs::remove_dir_all(&path).is_err() {
        // Copied directories may forbid their owner to remove entries.
        allow_removal(&path);
        let _left = std::fs::remove_dir_all(&path);
    }
}

fn allow_removal(directory: &Path) {
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        let _refused = std::fs::set_permissions(&directory, Permissions::from_mode(0o700));
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|file_type| file_type.is_dir()) {
                pending.push(entry.path());
            }
        }
    }
}
