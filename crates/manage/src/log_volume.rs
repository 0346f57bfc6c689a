//! Services of a log-structured volume in use beyond files: checks, scrubs, and cleaning from outside.

use crate::grow::SizeChange;
use crate::scrub::{Scrub, Scrubbed};
use crate::shrink::ShrinkEnd;
use crate::{check, coalesce, grow, history, port, scrub, shrink, trim};
use firnfs::FsError;
use firnfs::check::Report;
use firnfs::lfs::port::{BlockInfo, Emptiness, Marked, Room};
use firnfs::lfs::{Coalesced, Differing, Lfs, Shrunk, Trimmed};
use firnfs_format::checkpoint::Point;
use firnfs_format::summary::Entry;
use firnfs_format::{Epoch, InodeNo, SegmentId};
use firnfs_volume::Volume;
use std::time::Duration;

/// See the module's head.
pub trait LogVolume {
    /// Checks the volume while it is open: makes everything durable, then checks it as it is. Operations wait meanwhile; the
    /// check begins once no change is left to be written.
    ///
    /// # Errors
    /// If making everything durable failed.
    fn check(&self) -> Result<Report, FsError>;

    /// Checks the volume while others use it.
    ///
    /// # Errors
    /// `Io`; `ReadOnly` if the volume turned read-only with changes in memory that are not in the log.
    fn scrub(&self, scrub: &mut Scrub<'_>) -> Result<Scrubbed, FsError>;

    /// Turns the volume read-only because its structure is damaged.
    fn doubt(&self, why: &str);

    /// Makes an open volume writable again that a check or a failed log write had made read-only. First it writes the changes
    /// that could not be written before; then it checks the device as a mount would find it. The volume stays read-only if the
    /// check finds damage, or if the log on the device ends elsewhere than the log in memory. A volume that is already writable
    /// is only checked.
    ///
    /// # Errors
    /// `ReadOnly` with the reason; `Io`, `Corrupt` if the device cannot be checked.
    fn make_writable(&self, scrub: &mut Scrub<'_>) -> Result<Scrubbed, FsError>;

    /// Lists the entries in the summaries of a segment, in log order, live or not.
    ///
    /// # Errors
    /// `Io`; `Invalid` if there is no such segment.
    fn segment_entries(&self, segment: SegmentId) -> Result<Vec<Entry>, FsError>;

    /// Moves blocks to the heads of their logs: `Lfs::markv`, for which this reads the segments that hold them. One call at a
    /// time.
    ///
    /// # Errors
    /// `Io`, `ReadOnly`; `Invalid` for blocks of more than 16 segments or 16 MiB of them (2 segments are always possible);
    /// `NoSpace` if the volume has no way to make room.
    fn markv(&self, blocks: &[BlockInfo]) -> Result<Marked, FsError>;

    /// Tells whether segments are empty; a checkpoint finds out: `Lfs::segclean`.
    ///
    /// # Errors
    /// `Io`, `ReadOnly`, `Corrupt`.
    fn segclean(&self, segments: &[SegmentId]) -> Result<Vec<Emptiness>, FsError>;

    /// Waits until `log_bytes` of the log have been written, counted since mkfs, or until `timeout` has passed. Returns how
    /// much room there is.
    ///
    /// # Errors
    /// None of its own.
    fn wait_for_log(&self, log_bytes: u64, timeout: Duration) -> Result<Room, FsError>;

    /// Puts one window of a file, or of the small files of a directory, into order: `Lfs::coalesce`. `from` is 0 in the first
    /// call, then the `next` of the previous call. The result is durable with the next commit; after an earlier crash the old
    /// copies are still in place.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` for anything but a file or directory, `Io`, `Corrupt`, `ReadOnly`; `NoSpace` if the volume has no
    /// way to make room.
    fn coalesce(&self, ino: InodeNo, from: u64) -> Result<Coalesced, FsError>;

    /// Discards the clean segments in one part of the volume and waits for the device; `from` is 0 in the first call, then the
    /// `next` of the previous call. The first call also frees empty segments.
    ///
    /// # Errors
    /// `Io` also if the device does not discard; `ReadOnly`, `Corrupt`, `NoSpace` as a checkpoint.
    fn trim(&self, from: u64) -> Result<Trimmed, FsError>;

    /// Begins what [`LogVolume::grow`] does, without waiting for the checkpoints that follow as they are due: the new segments
    /// become clean then.
    ///
    /// # Errors
    /// As [`LogVolume::grow`].
    fn begin_growing(&self, size_bytes: u64) -> Result<(), FsError>;

    /// Makes the volume larger while others use it, and its device, if that is an image file. When it returns, the new segments
    /// are clean; after a crash before that the volume has the old size or the new one.
    ///
    /// # Errors
    /// `Invalid` if the volume would not gain a segment; `NotPermitted` if it is frozen; `Io` if the device cannot be that large; `ReadOnly`, `Corrupt`,
    /// `NoSpace` as a checkpoint.
    fn grow(&self, size_bytes: u64) -> Result<SizeChange, FsError>;

    /// Gives the volume another label, durably. After a crash before it returns, the volume has the old label or the new one. Waits
    /// while the volume is frozen, or its size changes.
    ///
    /// # Errors
    /// `Invalid` if it is longer than 64 bytes; `Io`, `ReadOnly`.
    fn relabel(&self, label: &str) -> Result<(), FsError>;

    /// Makes the volume smaller while others use it, and its device, if that is an image file. Calls `go_on` between two steps; if it
    /// returns false, or after an error, the volume has its old size. From the beginning on users have only the room that the volume
    /// will have. With the volume's present size it completes what a crash left to do: the superblock and the device.
    ///
    /// # Errors
    /// `NoSpace` if what the volume holds does not fit (`Lfs::least_size_bytes` does), or if emptying does not get on; `Invalid` if
    /// the volume would not lose a segment, or its size is changing already; `Io` if damaged blocks cannot move; `ReadOnly`, `Corrupt`.
    fn shrink(&self, size_bytes: u64, go_on: &mut dyn FnMut(Shrunk) -> bool) -> Result<ShrinkEnd, FsError>;

    /// The next step of a shrink that `Lfs::begin_shrinking` began. After the last one comes [`LogVolume::leave_end`].
    ///
    /// # Errors
    /// As [`LogVolume::shrink`].
    fn shrink_part(&self) -> Result<Shrunk, FsError>;

    /// Writes the superblock of a volume that has shrunk, and gives the end of its device back.
    ///
    /// # Errors
    /// `Io`.
    fn leave_end(&self) -> Result<(), FsError>;

    /// Makes the present state a retained point of that name, and waits until it is durable.
    ///
    /// # Errors
    /// `Invalid` for a name that is not one word of at most 80 bytes; `Exists`; `NoSpace` if there are too many points or too little
    /// room; `Unsupported`, `Io`, `ReadOnly`.
    fn make_point(&self, name: &str) -> Result<Point, FsError>;

    /// The retained points, oldest first, without those that are being dropped.
    ///
    /// # Errors
    /// None of its own.
    fn points(&self) -> Result<Vec<Point>, FsError>;

    /// Drops a retained point: nobody sees it any more, and after a crash it does not come back. Background work frees what only it
    /// held, one point after the other.
    ///
    /// # Errors
    /// `NotFound`; `Io`, `ReadOnly`, `NoSpace` as a checkpoint.
    fn drop_point(&self, epoch: Epoch) -> Result<(), FsError>;

    /// Bytes that dropping a retained point would give back: exact if nothing changes meanwhile. Takes time in proportion to them.
    ///
    /// # Errors
    /// `NotFound`; `Io`, `Corrupt`.
    fn held_by_point(&self, epoch: Epoch) -> Result<u64, FsError>;

    /// Inodes that differ between two retained points, or between one and the present, ascending. Takes time in proportion to what
    /// changed.
    ///
    /// # Errors
    /// `NotFound`; `Io`, `Corrupt`.
    fn differing_inodes(&self, first: Epoch, second: Option<Epoch>) -> Result<Vec<Differing>, FsError>;
}

impl LogVolume for Volume<Lfs> {
    fn check(&self) -> Result<Report, FsError> {
        check::check_open(self)
    }
    fn scrub(&self, scrub: &mut Scrub<'_>) -> Result<Scrubbed, FsError> {
        scrub::scrub(self, scrub)
    }
    fn doubt(&self, why: &str) {
        scrub::doubt(self, why);
    }
    fn make_writable(&self, scrub: &mut Scrub<'_>) -> Result<Scrubbed, FsError> {
        scrub::make_writable(self, scrub)
    }
    fn segment_entries(&self, segment: SegmentId) -> Result<Vec<Entry>, FsError> {
        port::segment_entries(self, segment)
    }
    fn markv(&self, blocks: &[BlockInfo]) -> Result<Marked, FsError> {
        port::markv(self, blocks)
    }
    fn segclean(&self, segments: &[SegmentId]) -> Result<Vec<Emptiness>, FsError> {
        port::segclean(self, segments)
    }
    fn wait_for_log(&self, log_bytes: u64, timeout: Duration) -> Result<Room, FsError> {
        port::wait_for_log(self, log_bytes, timeout)
    }
    fn coalesce(&self, ino: InodeNo, from: u64) -> Result<Coalesced, FsError> {
        coalesce::coalesce(self, ino, from)
    }
    fn trim(&self, from: u64) -> Result<Trimmed, FsError> {
        trim::trim(self, from)
    }
    fn begin_growing(&self, size_bytes: u64) -> Result<(), FsError> {
        grow::begin(self, size_bytes)
    }
    fn grow(&self, size_bytes: u64) -> Result<SizeChange, FsError> {
        grow::grow(self, size_bytes)
    }
    fn relabel(&self, label: &str) -> Result<(), FsError> {
        grow::relabel(self, label)
    }
    fn shrink(&self, size_bytes: u64, go_on: &mut dyn FnMut(Shrunk) -> bool) -> Result<ShrinkEnd, FsError> {
        shrink::shrink(self, size_bytes, go_on)
    }
    fn shrink_part(&self) -> Result<Shrunk, FsError> {
        shrink::part(self)
    }
    fn leave_end(&self) -> Result<(), FsError> {
        shrink::leave_end(self)
    }
    fn make_point(&self, name: &str) -> Result<Point, FsError> {
        history::make_point(self, name)
    }
    fn points(&self) -> Result<Vec<Point>, FsError> {
        history::points(self)
    }
    fn drop_point(&self, epoch: Epoch) -> Result<(), FsError> {
        history::drop_point(self, epoch)
    }
    fn held_by_point(&self, epoch: Epoch) -> Result<u64, FsError> {
        history::held_by_point(self, epoch)
    }
    fn differing_inodes(&self, first: Epoch, second: Option<Epoch>) -> Result<Vec<Differing>, FsError> {
        history::differing_inodes(self, first, second)
    }
}
