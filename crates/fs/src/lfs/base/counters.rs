//! Counts since mkfs, kept in the checkpoint.

use crate::lfs::base::kinds::{KindBytes, LogKind};
use firnfs_format::checkpoint::COUNTERS;

macro_rules! counters {
    ($($(#[$doc:meta])* $slot:literal $name:ident,)*) => {
        /// Counts since mkfs. Their places in the checkpoint never change.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// As the checkpoint stores them.
            #[must_use]
            pub fn encode(&self) -> [u64; COUNTERS] {
                let mut out = [0; COUNTERS];
                $(out[$slot] = self.$name;)*
                out
            }

            /// From the checkpoint. Counts that no volume can have reached are reduced so that they can still grow.
            #[must_use]
            pub fn decode(stored: &[u64; COUNTERS]) -> Self {
                Self { $($name: stored[$slot].min(u64::MAX / 2),)* }
            }

            /// What was counted since an earlier moment.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name.saturating_sub(earlier.$name),)* }
            }

            /// Names and values, for people and machines.
            #[must_use]
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Bytes of partial segments written, padding included.
    0 log_bytes,
    /// Checkpoints made durable.
    1 checkpoints,
    /// Segments that the cleaner emptied.
    2 segments_cleaned,
    /// Segments that checkpoints found empty: all their blocks had died without the cleaner.
    3 segments_cleaned_empty,
    /// Live bytes that the cleaner moved.
    4 cleaner_moved_bytes,
    /// Bytes that the cleaner read.
    5 cleaner_read_bytes,
    /// Bytes that users wrote.
    6 user_bytes,
    /// Of `log_bytes`, what cleaning and coalescing caused: the blocks that they moved, the metadata that leads to these, the tables
    /// of checkpoints that were written to gain room, with their summaries and padding. Zero in volumes of older versions, for
    /// what they wrote.
    7 upkeep_log_bytes,
    /// Bytes of files' content written to the log. These and those of the following kinds make up `log_bytes`.
    16 log_file_bytes,
    /// Bytes of directories' content and indexes.
    17 log_directory_bytes,
    /// Bytes of attributes in blocks.
    18 log_attributes_bytes,
    /// Bytes of indirect blocks.
    19 log_indirect_bytes,
    /// Bytes of inodes.
    20 log_inode_bytes,
    /// Bytes of the inode map.
    21 log_inode_map_bytes,
    /// Bytes of the segment usage table.
    22 log_usage_table_bytes,
    /// Bytes of summaries and padding.
    23 log_summary_bytes,
    /// Bytes of the past that the cleaner moved: blocks and records that only retained points see.
    36 log_past_bytes,
    /// Of the segments that the cleaner emptied, those while users were active: less than 2 s after their last request, or while
    /// an operation waited for room.
    32 segments_cleaned_on_demand,
    /// Passes of the cleaner that emptied segments, one or several.
    33 cleaner_passes,
    /// Of those, passes that took the emptiest segments instead of the policy's: users waited for the reserve, or the policy
    /// ranked nothing worthwhile first.
    34 cleaner_passes_emptiest,
    /// Of the segments that the cleaner emptied, those of which it read only parts: the summaries and the live blocks.
    35 segments_read_in_part,
    /// Bytes that were written again to put files in order.
    40 coalesced_bytes,
    /// Files put in order.
    41 coalesced_files,
}

impl Counters {
    /// Bytes written to the log, by kind; summaries and padding are `log_summary_bytes`.
    #[must_use]
    pub fn log_kind_bytes(&self, kind: LogKind) -> u64 {
        match kind {
            LogKind::File => self.log_file_bytes,
            LogKind::Directory => self.log_directory_bytes,
            LogKind::Attributes => self.log_attributes_bytes,
            LogKind::Indirect => self.log_indirect_bytes,
            LogKind::Inode => self.log_inode_bytes,
            LogKind::InodeMap => self.log_inode_map_bytes,
            LogKind::UsageTable => self.log_usage_table_bytes,
            LogKind::Past => self.log_past_bytes,
        }
    }

    /// Bytes of the log that users caused, with their metadata and summaries: `log_bytes` without what upkeep caused.
    #[must_use]
    pub fn new_bytes(&self) -> u64 {
        // Older versions counted only what was moved.
        let moved_bytes = self.cleaner_moved_bytes.saturating_add(self.coalesced_bytes);
        self.log_bytes.saturating_sub(self.upkeep_log_bytes.max(moved_bytes))
    }

    /// Counts partial segments, of which upkeep caused that many bytes.
    pub(in crate::lfs) fn count_log(&mut self, len_bytes: u64, upkeep_bytes: u64, placed: &KindBytes) {
        self.log_bytes += len_bytes;
        self.upkeep_log_bytes += upkeep_bytes;
        self.log_file_bytes += placed.of(LogKind::File);
        self.log_directory_bytes += placed.of(LogKind::Directory);
        self.log_attributes_bytes += placed.of(LogKind::Attributes);
        self.log_indirect_bytes += placed.of(LogKind::Indirect);
        self.log_inode_bytes += placed.of(LogKind::Inode);
        self.log_inode_map_bytes += placed.of(LogKind::InodeMap);
        self.log_usage_table_bytes += placed.of(LogKind::UsageTable);
        self.log_past_bytes += placed.of(LogKind::Past);
        self.log_summary_bytes += len_bytes.saturating_sub(placed.sum());
    }
}
