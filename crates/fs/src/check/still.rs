//! Checks a volume in use: the check runs on a snapshot ([`crate::lfs::Snapshot`]) while the volume continues to work, and each
//! damage is looked up again in the present state before it is reported.
//!
//! Caller: the driver's scrub.

use super::finding::{Finding, Problem};
use super::state::{Depth, Progress};
use super::{CheckError, Report, check_store, copies, open};
use crate::device_reader::DeviceReader;
use crate::error::{FsError, Outcome};
use crate::lfs::view::TableKind;
use crate::lfs::{Geometry, Lfs, LogEnd, Wanted, newest, read_slots, read_superblock};
use crate::store::{BlockKey, Fork};
use firnfs_format::{BlockIndex, BlockPtr, InodeNo};

/// A damaged object with a checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// A block of an inode, or of a table.
    Block(BlockKey),
    /// The record of an inode.
    Record(InodeNo),
}

impl Subject {
    /// Its place in a store.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn place_in(&self, lfs: &mut Lfs) -> Outcome<Option<BlockPtr>> {
        match *self {
            Self::Block(key) => lfs.place_of_block(key),
            Self::Record(ino) => lfs.place_of_record(ino),
        }
    }

    /// Verifies its bytes as a fetch does.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn verify(&self, place: &BlockPtr, geo: &Geometry, bytes: &[u8]) -> Result<(), FsError> {
        let wanted = match *self {
            Self::Block(key) => Wanted::Block(key, *place),
            Self::Record(ino) => Wanted::Inode(ino, *place),
        };
        wanted.verify(geo, bytes)
    }
}

/// Checks a snapshot and the copies of the superblock. It leaves the checkpoint slots out, because the volume writes to them.
#[must_use]
pub fn check_still(
    still: &mut Lfs,
    read: &mut dyn DeviceReader,
    device_bytes: u64,
    depth: Depth,
    watch: &mut dyn FnMut(Progress),
) -> Report {
    let mut findings = copies(read, still.superblock(), device_bytes);
    let (mut report, _) = check_store(still, read, depth, Vec::new(), None, watch);
    findings.append(&mut report.findings);
    Report { findings, ..report }
}

/// Checks a device that no process writes to, as a mount would find it, and returns where its log ends.
///
/// # Errors
/// If there is nothing to check: neither checkpoint is usable, or the device failed.
pub fn check_recovered(
    read: &mut dyn DeviceReader,
    device_bytes: u64,
    depth: Depth,
    watch: &mut dyn FnMut(Progress),
) -> Result<(Report, LogEnd), CheckError> {
    let sb = read_superblock(read, device_bytes)?;
    let base = newest(&read_slots(read, &sb))?;
    let (mut lfs, noted) = open(read, sb, base)?;
    let lost = lfs
        .recovered()
        .lost
        .map(|lost| Finding::new(None, Problem::LostLog { reason: lost.as_error(&lfs.geometry()) }));
    let (mut report, _) = check_store(&mut lfs, read, depth, noted, None, watch);
    report.findings.extend(lost);
    // A batch that a failure of the device interrupted can be continued where it ended.
    Ok((report, lfs.recovered().read_to))
}

/// The object that a finding of damaged bytes concerns, and its place in the snapshot; `None` for other findings, and if the
/// place can no longer be determined.
pub fn subject_of(
    still: &mut Lfs,
    read: &mut dyn DeviceReader,
    finding: &Finding,
) -> Option<(Subject, BlockPtr)> {
    let subject = match &finding.problem {
        Problem::Block { key, .. } => Subject::Block(*key),
        Problem::Record { .. } => Subject::Record(finding.ino?),
        Problem::TableBlock { table, level, index, .. } => {
            let ino = match table {
                TableKind::InodeMap => InodeNo::INODE_MAP,
                TableKind::SegmentUsage => InodeNo::SEGMENT_USAGE,
            };
            let level = u8::try_from(*level).ok()?;
            Subject::Block(BlockKey { ino, fork: Fork::Data, level, index: BlockIndex(*index) })
        }
        _ => return None,
    };
    let place = still.drive(read, |lfs| subject.place_in(lfs)).ok()??;
    Some((subject, place))
}
