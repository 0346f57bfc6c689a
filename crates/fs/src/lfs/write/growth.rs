//! `Growth`: a volume becomes larger while it is in use.
//!
//! The size is in the checkpoints; the superblock has an upper bound of it, by which a cut image is known, and by which a salvage
//! looks for segments. So a volume grows in this order, each step durable before the next one begins:
//! 1. the device is made larger;
//! 2. the copies of the superblock state the new size, the one at the new end first: at any time two of the three are whole;
//! 3. checkpoints state the new size, and the log goes on in the old segments ([`Lfs::grow`]);
//! 4. once both slots have such a checkpoint, the new segments are clean.
//!
//! After a crash the volume has its old size or its new one; no log has entered a segment that a checkpoint in either slot does not
//! know of, not even if one of the slots is lost.
//!
//! A new label is written in the order of step 2.
//!
//! Callers: `firnfs_manage::LogVolume::grow`, which does the steps 1 and 2, and waits for the checkpoints; `relabel`.

use crate::error::FsError;
use crate::lfs::Lfs;
use crate::lfs::base::geometry::Geometry;
use crate::lfs::write::shrinking::Shrinking;
use firnfs_format::Epoch;
use firnfs_format::superblock::{LABEL_MAX_BYTES, SIZE_LIMIT_BYTES, Superblock};

/// A larger size that not all checkpoints on the device state yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::lfs) struct Growth {
    pub geo: Geometry,
    pub size_bytes: u64,
    /// From this checkpoint on, all state it.
    since: Epoch,
}

impl Growth {
    /// True once the checkpoints in both slots state the size.
    fn is_in_both_slots(&self, durable: Epoch) -> bool {
        durable > self.since
    }
}

impl Lfs {
    /// The copies of the superblock of a volume of that size, with their places in bytes, in the order in which they are to be
    /// written, each durable before the next one.
    ///
    /// # Errors
    /// `Invalid` if the size is not larger than the volume's by at least one segment, or is not possible; `ReadOnly`.
    pub fn superblock_copies_for(&self, size_bytes: u64) -> Result<Vec<(u64, Vec<u8>)>, FsError> {
        self.may_grow_to(size_bytes)?;
        Ok(self.superblock_copies(size_bytes))
    }

    /// The copies of the superblock with another label: as [`Lfs::superblock_copies_for`]. The first copy is written last, and it
    /// is the one that counts.
    ///
    /// # Errors
    /// `Invalid` if the label is not 0 to 64 bytes of text without NUL; `ReadOnly`.
    pub fn superblock_copies_labelled(&self, label: &str) -> Result<Vec<(u64, Vec<u8>)>, FsError> {
        self.standing.refuse()?;
        if label.len() > LABEL_MAX_BYTES || label.contains('\0') {
            return Err(FsError::Invalid("label: at most 64 bytes, without NUL"));
        }
        let sb = Superblock { label: label.to_owned(), ..self.sb.clone() };
        Ok(copies_of(&sb))
    }

    /// The copies of [`Lfs::superblock_copies_labelled`] are durable.
    pub fn label_written(&mut self, label: String) {
        self.sb.label = label;
    }

    pub(in crate::lfs) fn superblock_copies(&self, size_bytes: u64) -> Vec<(u64, Vec<u8>)> {
        copies_of(&Superblock { size_bytes, ..self.sb.clone() })
    }

    /// From the next checkpoint on the volume has that size; the new segments become clean when the second such checkpoint is
    /// durable. The superblock on the device states the size already.
    ///
    /// # Errors
    /// As [`Lfs::superblock_copies_for`].
    pub fn grow(&mut self, size_bytes: u64) -> Result<(), FsError> {
        self.may_grow_to(size_bytes)?;
        self.sb.size_bytes = size_bytes;
        let geo = Geometry::new(&self.sb, size_bytes);
        self.writer.growth = Some(Growth { geo, size_bytes, since: self.tables.slots.epoch() });
        self.due.note_change();
        Ok(())
    }

    /// Size of the volume in bytes, and its segments.
    #[must_use]
    pub fn size(&self) -> (u64, u64) {
        (self.size_bytes, self.geo.segments)
    }

    /// True until the segments of the last growth are clean.
    #[must_use]
    pub fn is_growing(&self) -> bool {
        self.writer.growth.is_some()
    }

    fn may_grow_to(&self, size_bytes: u64) -> Result<(), FsError> {
        self.standing.refuse()?;
        if size_bytes >= SIZE_LIMIT_BYTES {
            return Err(FsError::Invalid("size: less than 128 PiB"));
        }
        self.refuse_while_resizing()?;
        if Geometry::new(&self.sb, size_bytes).segments <= self.geo.segments {
            return Err(FsError::Invalid("size: larger than the volume by a segment at least"));
        }
        Ok(())
    }

    /// One change of the size at a time.
    pub(in crate::lfs) fn refuse_while_resizing(&self) -> Result<(), FsError> {
        match (&self.writer.growth, &self.writer.shrinking) {
            (None, None) => Ok(()),
            (Some(_), _) => Err(FsError::Invalid("the volume is growing already")),
            (_, Some(_)) => Err(FsError::Invalid("the volume is being made smaller")),
        }
    }

    /// Size and segments for a checkpoint that is being written.
    pub(in crate::lfs) fn stated_size(&self) -> (u64, u64) {
        let growth = self.writer.growth.as_ref().map(|growth| (growth.size_bytes, growth.geo.segments));
        let smaller = self.writer.shrinking().and_then(Shrinking::stated_size);
        growth.or(smaller).unwrap_or_else(|| self.size())
    }

    /// A checkpoint is durable: the volume may have grown.
    pub(in crate::lfs) fn settle_growth(&mut self, durable: Epoch) {
        if let Some(growth) = self.writer.growth.take_if(|growth| growth.is_in_both_slots(durable)) {
            self.tables.usage.grow(growth.geo.segments);
            self.shelf.resize(growth.geo.clone());
            self.geo = growth.geo;
            self.size_bytes = growth.size_bytes;
        }
    }
}

fn copies_of(sb: &Superblock) -> Vec<(u64, Vec<u8>)> {
    Superblock::places(sb.size_bytes).iter().rev().map(|&at_bytes| (at_bytes, sb.encode())).collect()
}
