//! Inode map and segment usage as a mount would see them now: those of the newest checkpoint, updated by
//! roll-forward.
//!
//! If the volume cannot be opened (a likely reason to dump it), the tables are those of the checkpoint alone, and
//! [`Tables::why_checkpoint`] says so.

use crate::failure::{Done, Failure};
use crate::image::Image;
use firnfs::FsError;
use firnfs::lfs::Lfs;
use firnfs_format::table::{ImapEntry, TableEntry, UsageEntry};
use firnfs_format::{InodeNo, SegmentId};
use firnfs_volume::Volume;

/// See the module's head.
pub struct Tables<'a> {
    image: &'a Image,
    recovered: Result<Volume<Lfs>, Failure>,
}

impl<'a> Tables<'a> {
    /// Opens the volume read-only, if that is possible.
    #[must_use]
    pub fn of(image: &'a Image) -> Self {
        Self { image, recovered: crate::volume::open_read_only(image.path()) }
    }

    /// Why the tables are those of the checkpoint alone; `None` if roll-forward is included.
    #[must_use]
    pub fn why_checkpoint(&self) -> Option<&Failure> {
        self.recovered.as_ref().err()
    }

    /// The place of an inode's record.
    ///
    /// # Errors
    /// A block of the inode map is damaged.
    pub fn inode(&self, ino: u64) -> Done<ImapEntry> {
        match &self.recovered {
            Ok(volume) => volume
                .run(|vfs, _| vfs.store_mut().imap_entry(InodeNo(ino)))
                .map_err(|e| self.unreadable("inode map", &e)),
            Err(_) => self.image.table_entry(&self.image.checkpoint()?.imap, ino, "inode map"),
        }
    }

    /// The usage of a segment.
    ///
    /// # Errors
    /// A block of the segment usage table is damaged.
    pub fn segment(&self, segment: SegmentId) -> Done<UsageEntry> {
        let fan =
            u64::from(self.image.superblock.block_bytes) / firnfs_format::table::TABLE_ENTRY_BYTES as u64;
        match &self.recovered {
            Ok(volume) => {
                let leaf = volume
                    .run(|vfs, _| vfs.store_mut().usage_leaf(segment.0 / fan))
                    .map_err(|e| self.unreadable("segment usage", &e))?;
                let entry = leaf.into_iter().find(|(id, _)| *id == segment);
                Ok(entry.map(|(_, entry)| entry).unwrap_or_default())
            }
            Err(_) => self.image.table_entry(&self.image.checkpoint()?.usage, segment.0, "segment usage"),
        }
    }

    /// Calls `visit` with every segment in use, in order.
    ///
    /// # Errors
    /// A block of the segment usage table is damaged.
    pub fn each_segment(&self, visit: &mut dyn FnMut(u64, UsageEntry)) -> Done {
        let Ok(volume) = &self.recovered else {
            return self.image.walk_table(&self.image.checkpoint()?.usage, "segment usage", visit);
        };
        for leaf in 0.. {
            let entries = volume
                .run(|vfs, _| vfs.store_mut().usage_leaf(leaf))
                .map_err(|e| self.unreadable("segment usage", &e))?;
            if entries.is_empty() {
                break;
            }
            entries
                .into_iter()
                .filter(|(_, entry)| entry.is_used())
                .for_each(|(id, entry)| visit(id.0, entry));
        }
        Ok(())
    }

    /// Calls `visit` with every inode in use, in order.
    ///
    /// # Errors
    /// A block of the inode map is damaged.
    pub fn each_inode(&self, visit: &mut dyn FnMut(u64, ImapEntry)) -> Done {
        let Ok(volume) = &self.recovered else {
            return self.image.walk_table(&self.image.checkpoint()?.imap, "inode map", visit);
        };
        let next =
            volume.run(|vfs, _| Ok(vfs.store().next_ino())).map_err(|e| self.unreadable("inode map", &e))?;
        for ino in InodeNo::ROOT.0..next.0 {
            let entry = self.inode(ino)?;
            if entry.is_used() {
                visit(ino, entry);
            }
        }
        Ok(())
    }

    fn unreadable(&self, what: &str, error: &FsError) -> Failure {
        Failure::fs(format_args!("cannot read the {what} of {}", self.image.path().display()), error)
    }
}
