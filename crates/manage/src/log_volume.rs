//! What a log-structured volume offers while it is in use, beyond files: checks, scrubs, and cleaning from outside.

use crate::scrub::{Scrub, Scrubbed};
use crate::{check, coalesce, port, scrub, trim};
use firnfs::FsError;
use firnfs::check::Report;
use firnfs::lfs::port::{BlockInfo, Emptiness, Marked, Room};
use firnfs::lfs::{Coalesced, Lfs, Trimmed};
use firnfs_format::summary::Entry;
use firnfs_format::{InodeNo, SegmentId};
use firnfs_volume::Volume;
use std::time::Duration;

/// See the module's head.
pub trait LogVolume {
    /// Checks the volume while it is open: makes everything durable, then checks it as it is. Operations wait meanwhile; it
    /// begins at a moment when none has left anything to write.
    ///
    /// # Errors
    /// Making it durable failed.
    fn check(&self) -> Result<Report, FsError>;

    /// Checks the volume while others use it.
    ///
    /// # Errors
    /// `Io`; `ReadOnly` if the volume turned read-only with changes in memory that are not in the log.
    fn scrub(&self, scrub: &mut Scrub<'_>) -> Result<Scrubbed, FsError>;

    /// Turns the volume read-only: its structure is wrong.
    fn doubt(&self, why: &str);

    /// Makes a volume writable again that a check or a failed write of the log made read-only while it was open. What could not
    /// be written is written now; then the device is checked as a mount would find it. It stays read-only if anything is wrong,
    /// or if the log on the device does not end where memory has its end. One that is writable is only checked.
    ///
    /// # Errors
    /// `ReadOnly` with the reason; `Io`, `Corrupt` if the device cannot be checked.
    fn make_writable(&self, scrub: &mut Scrub<'_>) -> Result<Scrubbed, FsError>;

    /// What the summaries of a segment name, in the order of the log; live or not.
    ///
    /// # Errors
    /// `Io`; `Invalid` if there is no such segment.
    fn segment_entries(&self, segment: SegmentId) -> Result<Vec<Entry>, FsError>;

    /// Moves blocks to their logs: `Lfs::markv` with the segments that they are in, read here. One call at a time.
    ///
    /// # Errors
    /// `Io`, `ReadOnly`; `Invalid` for blocks of more than 16 segments or 16 MiB of them (2 segments are always possible);
    /// `NoSpace` if the volume has no way to make room.
    fn markv(&self, blocks: &[BlockInfo]) -> Result<Marked, FsError>;

    /// Whether segments are empty, which a checkpoint then finds out: `Lfs::segclean`.
    ///
    /// # Errors
    /// `Io`, `ReadOnly`, `Corrupt`.
    fn segclean(&self, segments: &[SegmentId]) -> Result<Vec<Emptiness>, FsError>;

    /// Waits until `log_bytes` of the log are written, counted since mkfs, or `timeout` is over. Tells how much room there is.
    ///
    /// # Errors
    /// None of its own.
    fn wait_for_log(&self, log_bytes: u64, timeout: Duration) -> Result<Room, FsError>;

    /// Puts one window of a file, or of the small files of a directory, in order: `Lfs::coalesce`. `from`: 0, then what the
    /// call before returned as `next`. What comes out is durable with the next commit; a crash before leaves what was there.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` for what is neither file nor directory, `Io`, `Corrupt`, `ReadOnly`; `NoSpace` if the volume has
    /// no way to make room.
    fn coalesce(&self, ino: InodeNo, from: u64) -> Result<Coalesced, FsError>;

    /// Discards what is clean in one part of the volume and waits for it: `from` is 0, then what the call before returned as
    /// `next`. The first part begins with freeing what is empty.
    ///
    /// # Errors
    /// `Io` also if the device does not discard; `ReadOnly`, `Corrupt`, `NoSpace` as a checkpoint.
    fn trim(&self, from: u64) -> Result<Trimmed, FsError>;
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
}
