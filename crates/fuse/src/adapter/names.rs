//! Requests on names: lookup, make, link, unlink, rename, and the lifetime of looked-up inodes.

use super::probe::PROBE_NODE;
use super::{Adapter, Handled, log_errno};
use crate::wire::reply::unpack_rdev;
use crate::wire::{Header, Operation, Reply, abi};
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::states::is_past;
use firnfs::vfs::{Attr, Caller, NewNode, RenameMode};
use firnfs_format::InodeNo;
use rustix::io::Errno;

/// `O_EXCL` of open(2).
const O_EXCL: u32 = 0o200;
const RENAME_NOREPLACE: u32 = 1;
const RENAME_EXCHANGE: u32 = 2;

impl<S: Engine> Adapter<S> {
    pub(super) fn lookup(&self, parent: InodeNo, name: &[u8], reply: &mut Reply) -> Handled {
        let found = if name == b"." {
            // The kernel turns file handles (NFS, open_by_handle_at) into inodes this way: the "parent" is the inode
            // itself.
            self.volume.run(|vfs, _| {
                let attr = vfs.getattr(parent)?;
                vfs.hold(parent)?;
                Ok(attr)
            })
        } else {
            self.volume.run(|vfs, now| vfs.lookup(now, parent, name, true))
        };
        match found {
            Ok(attr) => {
                if attr.kind != Kind::Directory {
                    self.walks.note_lookup(parent);
                }
                reply.put_entry(&attr);
            }
            // `..` and `.` of a file handle must fail, not be remembered as absent names; a snapshot may get that name.
            Err(FsError::NotFound) if name != b"." && name != b".." && !is_past(parent) => {
                reply.put_negative_entry();
            }
            Err(error) => return Err(log_errno("lookup", &error)),
        }
        Ok(())
    }

    pub(super) fn make(&self, header: &Header, operation: &Operation<'_>, reply: &mut Reply) -> Handled {
        let plain = NewNode { kind: Kind::Regular, mode: 0, rdev: 0, target: &[] };
        let (name, umask, node) = match *operation {
            Operation::Mkdir { name, mode, umask } => {
                (name, umask, NewNode { kind: Kind::Directory, mode: permission_bits(mode), ..plain })
            }
            Operation::Symlink { name, target } => {
                (name, 0, NewNode { kind: Kind::Symlink, mode: 0o777, target, ..plain })
            }
            Operation::Mknod { name, mode, rdev, umask } => {
                let kind = kind_of(mode).ok_or(Errno::INVAL)?;
                let rdev = match kind {
                    Kind::CharDevice | Kind::BlockDevice => unpack_rdev(rdev),
                    _ => 0,
                };
                (name, umask, NewNode { kind, mode: permission_bits(mode), rdev, target: &[] })
            }
            _ => return Err(Errno::NOSYS),
        };
        let attr = self.make_node(header, name, umask, node).map_err(|e| log_errno("make", &e))?;
        reply.put_entry(&attr);
        Ok(())
    }

    pub(super) fn create(
        &self,
        header: &Header,
        name: &[u8],
        (mode, umask): (u32, u32),
        flags: u32,
        reply: &mut Reply,
    ) -> Handled {
        let node = NewNode { kind: Kind::Regular, mode: permission_bits(mode), rdev: 0, target: &[] };
        let attr = match self.make_node(header, name, umask, node) {
            // The kernel asks to create a file that it believes absent; without O_EXCL an existing file serves as
            // well.
            Err(FsError::Exists) if flags & O_EXCL == 0 => {
                self.lookup_regular(InodeNo(header.nodeid), name)?
            }
            made => made.map_err(|e| log_errno("create", &e))?,
        };
        self.put_created(reply, &attr);
        Ok(())
    }

    pub(super) fn tmpfile(&self, header: &Header, mode: u32, umask: u32, reply: &mut Reply) -> Handled {
        let caller = Caller { uid: header.uid, gid: header.gid, umask: permission_bits(umask) };
        let parent = InodeNo(header.nodeid);
        let attr = self
            .volume
            .run_for(header.uid == 0, |vfs, now| vfs.make_unnamed(now, caller, parent, permission_bits(mode)))
            .map_err(|e| log_errno("tmpfile", &e))?;
        self.put_created(reply, &attr);
        Ok(())
    }

    /// Replies with a new file that is open: the kernel needs no further request about it.
    fn put_created(&self, reply: &mut Reply, attr: &Attr) {
        reply.put_entry(attr);
        reply.put(&abi::OpenOut { open_flags: self.open_flags(false), ..Default::default() });
    }

    fn lookup_regular(&self, parent: InodeNo, name: &[u8]) -> Result<Attr, Errno> {
        let attr = self
            .volume
            .run(|vfs, now| {
                // Looked up first, and held only if the kernel will get it.
                let attr = vfs.lookup(now, parent, name, false)?;
                if attr.kind == Kind::Regular { vfs.lookup(now, parent, name, true) } else { Ok(attr) }
            })
            .map_err(|e| log_errno("create", &e))?;
        if attr.kind == Kind::Regular { Ok(attr) } else { Err(Errno::EXIST) }
    }

    fn make_node(
        &self,
        header: &Header,
        name: &[u8],
        umask: u32,
        node: NewNode<'_>,
    ) -> Result<Attr, FsError> {
        let caller = Caller { uid: header.uid, gid: header.gid, umask: permission_bits(umask) };
        self.volume.run_for(header.uid == 0, |vfs, now| {
            vfs.make(now, caller, InodeNo(header.nodeid), name, node, true)
        })
    }

    pub(super) fn link(&self, header: &Header, ino: InodeNo, name: &[u8], reply: &mut Reply) -> Handled {
        let parent = InodeNo(header.nodeid);
        let attr = self
            .volume
            .run_for(header.uid == 0, |vfs, now| vfs.link(now, ino, parent, name, true))
            .map_err(|e| log_errno("link", &e))?;
        reply.put_entry(&attr);
        Ok(())
    }

    pub(super) fn unlink(&self, parent: InodeNo, name: &[u8]) -> Handled {
        self.volume.run(|vfs, now| vfs.unlink(now, parent, name)).map_err(|e| log_errno("unlink", &e))
    }

    pub(super) fn rmdir(&self, parent: InodeNo, name: &[u8]) -> Handled {
        self.volume.run(|vfs, now| vfs.rmdir(now, parent, name)).map_err(|e| log_errno("rmdir", &e))
    }

    pub(super) fn rename(&self, header: &Header, name: &[u8], to: (InodeNo, &[u8]), flags: u32) -> Handled {
        let from = (InodeNo(header.nodeid), name);
        let mode = match flags {
            0 => RenameMode::Replace,
            RENAME_NOREPLACE => RenameMode::NoReplace,
            RENAME_EXCHANGE => RenameMode::Exchange,
            _ => return Err(Errno::INVAL),
        };
        self.volume
            .run_for(header.uid == 0, |vfs, now| vfs.rename(now, from, to, mode))
            .map_err(|e| log_errno("rename", &e))
    }

    /// Takes lookups back. No caller waits for the outcome; an inode that cannot be freed now is an orphan, which the
    /// unmount or the next mount frees.
    pub(super) fn forget(&self, nodeid: u64, lookups: u64) {
        if nodeid == InodeNo::ROOT.0 || nodeid == PROBE_NODE {
            return;
        }
        if let Err(error) = self.volume.run(|vfs, now| vfs.forget(now, InodeNo(nodeid), lookups)) {
            tracing::warn!("forget of inode {nodeid}: {error}");
        }
    }
}

/// The lower 12 bits of a mode.
fn permission_bits(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

/// The file type of a mode; mknod(2) also takes a mode without a type for a regular file.
fn kind_of(mode: u32) -> Option<Kind> {
    match (mode >> 12) as u8 & 0xf {
        0 => Some(Kind::Regular),
        code => Kind::from_code(code).filter(|kind| !matches!(kind, Kind::Directory | Kind::Symlink)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mknod_makes_anything_but_directories_and_links() {
        assert_eq!(kind_of(0o100_644), Some(Kind::Regular));
        assert_eq!(kind_of(0o644), Some(Kind::Regular));
        assert_eq!(kind_of(0o010_644), Some(Kind::Fifo));
        assert_eq!(kind_of(0o140_755), Some(Kind::Socket));
        assert_eq!(kind_of(0o060_600), Some(Kind::BlockDevice));
        assert_eq!(kind_of(0o040_755), None);
        assert_eq!(kind_of(0o120_777), None);
        assert_eq!(kind_of(0o170_000), None);
    }
}
