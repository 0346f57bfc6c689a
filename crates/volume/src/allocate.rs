//! fallocate(2) as a whole: the driver refuses a range that does not fit before it takes any space, then allocates part by
//! part.

use crate::Volume;
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::vfs::Allocate;
use firnfs_format::InodeNo;
use std::ops::Range;

impl<S: Engine> Volume<S> {
    /// Allocates, punches or zeroes a range of a file. A range that does not fit is refused as a whole; only if other callers
    /// take the space meanwhile may a part of it have been done.
    ///
    /// # Errors
    /// `NoSpace`, `OverQuota`, and those of `Vfs::fallocate`.
    pub fn fallocate(
        &self,
        ino: InodeNo,
        mode: Allocate,
        range: Range<u64>,
        kill_set_id: bool,
    ) -> Result<(), FsError> {
        self.fallocate_for(false, ino, mode, range, kill_set_id)
    }

    /// [`Volume::fallocate`] for a caller whom quotas do not bind, if `is_exempt`.
    ///
    /// # Errors
    /// As [`Volume::fallocate`].
    pub fn fallocate_for(
        &self,
        is_exempt: bool,
        ino: InodeNo,
        mode: Allocate,
        range: Range<u64>,
        kill_set_id: bool,
    ) -> Result<(), FsError> {
        if mode != Allocate::PunchHole && !range.is_empty() {
            self.refuse_what_does_not_fit(is_exempt, ino, &range)?;
        }
        let mut next = Some(range.start);
        while let Some(at) = next {
            let len_bytes = range.end.saturating_sub(at);
            next = self.run(|vfs, now| {
                vfs.exempt(is_exempt, |vfs| vfs.fallocate(now, ino, mode, at, len_bytes, kill_set_id))
            })?;
        }
        Ok(())
    }

    /// Looks at the file only if the range would not fit without the blocks that the file already has.
    fn refuse_what_does_not_fit(
        &self,
        is_exempt: bool,
        ino: InodeNo,
        range: &Range<u64>,
    ) -> Result<(), FsError> {
        let fits = self.run(|vfs, now| {
            let blocks = (range.end - range.start) / u64::from(vfs.facts().block_bytes) + 2;
            Ok(vfs.exempt(is_exempt, |vfs| vfs.refuse_growth(now, ino, blocks)).is_ok())
        })?;
        if fits {
            return Ok(());
        }
        let (mut blocks, mut next) = (0, Some(range.start));
        while let Some(at) = next {
            let (more, rest) = self.run(|vfs, _| vfs.holes(ino, at, range.end - at))?;
            blocks += more;
            next = rest;
        }
        self.run(|vfs, now| vfs.exempt(is_exempt, |vfs| vfs.refuse_growth(now, ino, blocks)))
    }
}
