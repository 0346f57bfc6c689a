//! Requests on inodes: attributes, extended attributes, link targets, and the space of the volume.

use super::set_id::SET_GID;
use super::{Adapter, Handled, log_errno};
use crate::wire::abi::{self, SetattrIn, fattr};
use crate::wire::{Header, Reply};
use firnfs::engine::Engine;
use firnfs::vfs::{SetAttr, SetTime, XattrMode};
use firnfs_format::{InodeNo, TimeNs};
use rustix::io::Errno;

const XATTR_CREATE: u32 = 1;
const XATTR_REPLACE: u32 = 2;
const NAME_MAX_BYTES: u32 = 255;

impl<S: Engine> Adapter<S> {
    pub(super) fn getattr(&self, ino: InodeNo, reply: &mut Reply) -> Handled {
        let attr = self.volume.run(|vfs, _| vfs.getattr(ino)).map_err(|e| log_errno("getattr", &e))?;
        reply.put_attr(&attr);
        Ok(())
    }

    pub(super) fn statx(&self, ino: InodeNo, reply: &mut Reply) -> Handled {
        let attr = self.volume.run(|vfs, _| vfs.getattr(ino)).map_err(|e| log_errno("statx", &e))?;
        reply.put_statx(&attr);
        Ok(())
    }

    pub(super) fn setattr(&self, header: &Header, set: &SetattrIn, reply: &mut Reply) -> Handled {
        let ino = InodeNo(header.nodeid);
        let change = change_of(set);
        if change.kill_set_id && change.size_bytes.is_some() {
            self.before_change_by_user(header, ino)?;
        }
        let attr = self
            .volume
            .run_for(header.uid == 0, |vfs, now| vfs.setattr(now, ino, change))
            .map_err(|e| log_errno("setattr", &e))?;
        reply.put_attr(&attr);
        Ok(())
    }

    pub(super) fn readlink(&self, ino: InodeNo, reply: &mut Reply) -> Handled {
        let target =
            self.volume.run(|vfs, now| vfs.readlink(now, ino)).map_err(|e| log_errno("readlink", &e))?;
        reply.put_bytes(&target);
        Ok(())
    }

    pub(super) fn statfs(&self, reply: &mut Reply) -> Handled {
        let (space, block_bytes) = self
            .volume
            .run(|vfs, _| Ok((vfs.statfs(), vfs.facts().block_bytes)))
            .map_err(|e| log_errno("statfs", &e))?;
        let unit = u64::from(block_bytes);
        reply.put(&abi::StatfsOut {
            blocks: space.total_bytes / unit,
            bfree: space.free_bytes / unit,
            bavail: space.free_bytes / unit,
            files: space.inodes_used + space.inodes_free,
            ffree: space.inodes_free,
            bsize: block_bytes,
            namelen: NAME_MAX_BYTES,
            frsize: block_bytes,
            ..Default::default()
        });
        Ok(())
    }

    pub(super) fn getxattr(&self, ino: InodeNo, name: &[u8], size: u32, reply: &mut Reply) -> Handled {
        let value =
            self.volume.run(|vfs, _| vfs.getxattr(ino, name)).map_err(|e| log_errno("getxattr", &e))?;
        put_sized(&value, size, reply)
    }

    pub(super) fn listxattr(&self, ino: InodeNo, size: u32, reply: &mut Reply) -> Handled {
        let names = self.volume.run(|vfs, _| vfs.listxattr(ino)).map_err(|e| log_errno("listxattr", &e))?;
        put_sized(&names, size, reply)
    }

    pub(super) fn setxattr(
        &self,
        header: &Header,
        name: &[u8],
        value: &[u8],
        flags: u32,
        kill_set_gid: bool,
    ) -> Handled {
        let ino = InodeNo(header.nodeid);
        let mode = match flags {
            0 => XattrMode::Any,
            XATTR_CREATE => XattrMode::Create,
            XATTR_REPLACE => XattrMode::Replace,
            _ => return Err(Errno::INVAL),
        };
        self.volume
            .run_for(header.uid == 0, |vfs, now| vfs.setxattr(now, ino, name, value, mode))
            .map_err(|e| log_errno("setxattr", &e))?;
        if kill_set_gid {
            // chmod(2) drops the bit for a caller outside the group; setting an ACL must not be a way around that.
            self.clear_mode_bits(ino, |mode| mode & SET_GID)?;
        }
        Ok(())
    }

    pub(super) fn removexattr(&self, header: &Header, name: &[u8]) -> Handled {
        let ino = InodeNo(header.nodeid);
        self.volume
            .run_for(header.uid == 0, |vfs, now| vfs.removexattr(now, ino, name))
            .map_err(|e| log_errno("removexattr", &e))
    }
}

/// GETXATTR and LISTXATTR: the size alone if the caller has no buffer.
fn put_sized(value: &[u8], size: u32, reply: &mut Reply) -> Handled {
    if size == 0 {
        reply.put(&abi::GetxattrOut { size: value.len() as u32, padding: 0 });
    } else if value.len() <= size as usize {
        reply.put_bytes(value);
    } else {
        return Err(Errno::RANGE);
    }
    Ok(())
}

fn change_of(set: &SetattrIn) -> SetAttr {
    let has = |bit| set.valid & bit != 0;
    let time = |bit, bit_now, secs: u64, nanos| {
        has(bit).then(|| {
            if has(bit_now) {
                SetTime::Now
            } else {
                SetTime::At(TimeNs::from_parts(secs.cast_signed(), nanos))
            }
        })
    };
    SetAttr {
        mode: has(fattr::MODE).then_some((set.mode & 0o7777) as u16),
        uid: has(fattr::UID).then_some(set.uid),
        gid: has(fattr::GID).then_some(set.gid),
        size_bytes: has(fattr::SIZE).then_some(set.size),
        atime: time(fattr::ATIME, fattr::ATIME_NOW, set.atime, set.atimensec),
        mtime: time(fattr::MTIME, fattr::MTIME_NOW, set.mtime, set.mtimensec),
        kill_set_id: has(fattr::KILL_SUIDGID),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn only_attributes_marked_valid_are_changed() {
        let mut set = SetattrIn::new_zeroed();
        set.mode = 0o100_755;
        set.uid = 5;
        set.mtime = (-3_i64).cast_unsigned();
        set.mtimensec = 250_000_000;
        assert_eq!(change_of(&set), SetAttr::default());
        set.valid = fattr::MODE | fattr::MTIME | fattr::ATIME | fattr::ATIME_NOW | fattr::KILL_SUIDGID;
        let change = change_of(&set);
        assert_eq!(change.mode, Some(0o755));
        assert_eq!(change.uid, None);
        assert_eq!(change.atime, Some(SetTime::Now));
        assert_eq!(change.mtime, Some(SetTime::At(TimeNs(-2_750_000_000))));
        assert!(change.kill_set_id);
    }
}
