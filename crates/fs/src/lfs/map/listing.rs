//! The inodes in use, by number, a bounded stretch of the inode map at a time. Caller: `store`, for those who count files.

use crate::error::{Outcome, Stop};
use crate::lfs::Lfs;
use firnfs_format::InodeNo;

/// Numbers looked at in one call: those of some leaves of the inode map.
const LISTED_AT_ONCE: u64 = 1024;

impl Lfs {
    /// See [`crate::store::Store::inodes_from`].
    pub(in crate::lfs) fn list_inodes(
        &mut self,
        from: InodeNo,
        found: &mut Vec<InodeNo>,
    ) -> Outcome<Option<InodeNo>> {
        let first = from.max(InodeNo::ROOT).0;
        // Numbers given to inodes that were never written are in memory only.
        let all = self.tables.imap.next_ino().0;
        let end = all.min(first.saturating_add(LISTED_AT_ONCE));
        let before = found.len();
        for ino in (first..end).map(InodeNo) {
            let is_used = match self.files.peek(ino) {
                Some(core) => !core.freed,
                None => match self.tables.imap.get(&mut self.shelf, ino) {
                    Ok(entry) => !entry.ptr.is_hole(),
                    // A check reports damage of the map.
                    Err(Stop::Fail(_)) => false,
                    Err(stop) => {
                        found.truncate(before);
                        return Err(stop);
                    }
                },
            };
            if is_used {
                found.push(ino);
            }
        }
        Ok((end < all).then_some(InodeNo(end)))
    }
}
