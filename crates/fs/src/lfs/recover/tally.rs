//! Counts log bytes by kind from the summaries of a crashed mount's log, for the [`Counters`].
//!
//! The counters are in the checkpoint; the counts that a mount made after its last checkpoint are lost in a crash. Its log is
//! not lost: roll-forward reads all its summaries. They say what was written, but not why, so the counts of the cleaner's work,
//! of coalesced files, of bytes that users wrote, and of checkpoints stay as in the checkpoint.
//!
//! Invariant: a tally adds for a batch exactly the counts that [`Counters::count_log`] added when the batch was laid
//! out. Caller: [`recovery`](super::recovery).

use crate::lfs::base::counters::Counters;
use crate::lfs::base::kinds::{KindBytes, LogKind};
use crate::lfs::base::scan::Partial;
use crate::store::Fork;
use firnfs_format::summary::{EntryKind, FLAG_PAST};
use firnfs_format::{InodeNo, Serial};

/// The root directory, from which a new volume rolls forward: counts since mkfs begin after it.
const WRITTEN_BY_MKFS: Serial = Serial(1);

/// Bytes of a batch, or of several that count together.
#[derive(Default)]
pub(in crate::lfs) struct Tally {
    log_bytes: u64,
    upkeep_bytes: u64,
    placed: KindBytes,
    /// Blocks of inodes whose type only the record, later in the batch, tells: file or directory.
    content: Vec<(InodeNo, u32)>,
}

impl Tally {
    /// Counts a partial segment.
    pub(in crate::lfs) fn note(&mut self, partial: &Partial) {
        if partial.summary.serial == WRITTEN_BY_MKFS {
            return;
        }
        self.log_bytes += partial.summary.len_bytes();
        self.upkeep_bytes += partial.summary.upkeep_bytes();
        for entry in &partial.entries {
            let bytes = entry.ptr.stored_bytes();
            if partial.summary.flags & FLAG_PAST != 0 {
                self.placed.add(LogKind::Past, bytes);
                continue;
            }
            let kind = match entry.kind {
                EntryKind::Freed => continue,
                EntryKind::Inode { .. } => LogKind::Inode,
                EntryKind::Block { .. } if entry.ino == InodeNo::INODE_MAP => LogKind::InodeMap,
                EntryKind::Block { .. } if entry.ino == InodeNo::SEGMENT_USAGE => LogKind::UsageTable,
                EntryKind::Block { fork, level: 0, .. } if fork == Fork::Data as u8 => {
                    self.content.push((entry.ino, bytes));
                    continue;
                }
                EntryKind::Block { fork, level, .. } if fork == Fork::Xattr as u8 => {
                    LogKind::of_block(Fork::Xattr, level, false)
                }
                EntryKind::Block { level, .. } => LogKind::of_block(Fork::Index, level, true),
            };
            self.placed.add(kind, bytes);
        }
    }

    /// Adds up a batch that counts. `is_directory` tells for each inode with a record in the batch whether it is a directory.
    pub(in crate::lfs) fn add_to(mut self, counters: &mut Counters, is_directory: impl Fn(InodeNo) -> bool) {
        for (ino, bytes) in self.content {
            self.placed.add(LogKind::of_block(Fork::Data, 0, is_directory(ino)), bytes);
        }
        counters.count_log(self.log_bytes, self.upkeep_bytes, &self.placed);
    }
}
