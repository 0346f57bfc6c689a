//! Set-id bits, when a caller without CAP_FSETID changes a file's content.
//!
//! The volume clears the set-user-id bit with the change, and the set-group-id bit too if the group may execute the file.
//! Without group execution the set-group-id bit means mandatory locking; it stays if the caller belongs to the group
//! (`setattr_should_drop_sgid` of Linux). Only the adapter knows the caller and the caller's other groups, so it clears that
//! bit here.

use super::{Adapter, log_errno};
use crate::wire::Header;
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::vfs::SetAttr;
use firnfs_format::InodeNo;
use rustix::io::Errno;

const SET_UID: u16 = 0o4000;
pub(super) const SET_GID: u16 = 0o2000;
const GROUP_EXECUTE: u16 = 0o0010;

impl<S: Engine> Adapter<S> {
    /// Call this before a caller without CAP_FSETID changes content; returns whether the mode changes.
    pub(super) fn before_change_by_user(&self, header: &Header, ino: InodeNo) -> Result<bool, Errno> {
        let attr = match self.volume.run(|vfs, _| vfs.getattr(ino)) {
            Ok(attr) => attr,
            Err(FsError::WouldWait) => return Err(Errno::AGAIN),
            Err(_) => return Ok(false),
        };
        if is_locking(attr.mode) && !is_member(header, attr.gid) {
            self.clear_mode_bits(ino, |mode| mode & SET_GID)?;
            return Ok(true);
        }
        Ok(cleared_by_change(attr.mode) != 0)
    }

    /// Clears the bits that `select` picks from the mode; returns whether there were any.
    pub(super) fn clear_mode_bits(&self, ino: InodeNo, select: fn(u16) -> u16) -> Result<bool, Errno> {
        self.volume
            .run(|vfs, now| {
                let mode = vfs.getattr(ino)?.mode;
                let bits = select(mode);
                if bits != 0 {
                    vfs.setattr(now, ino, SetAttr { mode: Some(mode & !bits), ..Default::default() })?;
                }
                Ok(bits != 0)
            })
            .map_err(|e| log_errno("clearing set-id bits", &e))
    }
}

/// The bits that the volume clears with any change of content.
fn cleared_by_change(mode: u16) -> u16 {
    let gid = if mode & GROUP_EXECUTE != 0 { mode & SET_GID } else { 0 };
    (mode & SET_UID) | gid
}

fn is_locking(mode: u16) -> bool {
    mode & (SET_GID | GROUP_EXECUTE) == SET_GID
}

/// Whether the caller belongs to a group. The request does not list the caller's other groups; if they cannot be found out, the
/// caller counts as no member.
fn is_member(header: &Header, gid: u32) -> bool {
    header.gid == gid
        || std::fs::read_to_string(format!("/proc/{}/status", header.pid))
            .is_ok_and(|status| lists_group(&status, gid))
}

/// Whether the line `Groups:` of a process's status has that group.
fn lists_group(status: &str, gid: u32) -> bool {
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    groups.split_whitespace().any(|word| word.parse() == Ok(gid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_group_execution_the_bit_means_locking_and_is_not_cleared_with_the_content() {
        assert_eq!(cleared_by_change(0o6755), 0o6000);
        assert_eq!(cleared_by_change(0o6745), 0o4000);
        assert_eq!((is_locking(0o2644), is_locking(0o2654), is_locking(0o644)), (true, false, false));
    }

    #[test]
    fn groups_are_found_in_a_process_status() {
        let status = "Name:\tcat\nGid:\t1\t1\t1\t1\nGroups:\t4 24 1003 \nNStgid:\t7\n";
        assert!(lists_group(status, 24) && lists_group(status, 1003));
        assert!(!lists_group(status, 2) && !lists_group(status, 1) && !lists_group("", 0));
    }
}
