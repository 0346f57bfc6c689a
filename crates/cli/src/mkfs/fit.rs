//! Whether a tree fits into the volume that is to hold it, before anything is written.
//!
//! The demand is the least that the tree can take: all its data, and the records of its inodes. So no tree is refused that
//! would fit. One that exceeds the room by less than its directories and block pointers fails while it is copied.

use super::from_dir::Survey;
use crate::beneath;
use crate::failure::{Done, Failure};
use crate::sizes::{Bytes, Count};
use crate::volume;
use firnfs::engine::Engine;
use firnfs::lfs::{MkfsOptions, Options};
use firnfs::vfs::AtimeMode;
use firnfs_device::{Device, MemDevice};
use firnfs_volume::Volume;
use std::path::Path;
use std::sync::Arc;

/// A suggested size is a multiple of this, in bytes.
const SIZE_STEP_BYTES: u64 = 1 << 20;
/// Sizes tried for a suggestion; each is larger than the one before by what was missing.
const TRIES: u32 = 8;

/// What users can still store in a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    bytes: u64,
    inodes: u64,
}

impl Room {
    /// The room of an open volume.
    ///
    /// # Errors
    /// As reading it fails.
    pub fn of<S: Engine>(volume: &Volume<S>) -> Done<Self> {
        let space = volume.run(|vfs, _| Ok(vfs.statfs()));
        let space = space.map_err(|e| Failure::fs("cannot read the new volume", &e))?;
        Ok(Self { bytes: space.free_bytes, inodes: space.inodes_free })
    }

    /// The room of a log made with these options, found out by making one in memory.
    fn of_log(options: &MkfsOptions, data_logs: Option<u8>) -> Done<Self> {
        let device: Arc<dyn Device> = Arc::new(MemDevice::new(options.size_bytes));
        firnfs_manage::format_with_logs(&*device, options, data_logs).map_err(|e| super::impossible(&e))?;
        Self::of(&volume::open(device, Options::default(), AtimeMode::Noatime)?)
    }

    fn holds(self, survey: &Survey) -> bool {
        survey.least_bytes <= self.bytes && survey.inodes() <= self.inodes
    }

    /// Refuses a tree that does not fit.
    ///
    /// # Errors
    /// Says how much it needs, and how much there is.
    pub fn admit(self, survey: &Survey, tree: &Path) -> Done {
        if self.holds(survey) {
            return Ok(());
        }
        let tree = tree.display();
        Err(if survey.least_bytes > self.bytes {
            let (needed, bytes) = (Bytes(survey.least_bytes), Bytes(self.bytes));
            Failure::failed(format!("{tree} does not fit: it needs {needed}, the volume would have {bytes}"))
        } else {
            let (needed, inodes) = (Count(survey.inodes()).of("inode", "inodes"), Count(self.inodes));
            Failure::failed(format!("{tree} does not fit: it has {needed}, the volume {inodes}"))
        })
    }
}

/// Refuses a tree that does not fit on the disk that holds the image.
///
/// # Errors
/// It does not fit.
pub fn admit_to_disk(survey: &Survey, tree: &Path, image: &Path) -> Done {
    let Some(free_bytes) = beneath::room_for(image).filter(|free_bytes| survey.least_bytes > *free_bytes)
    else {
        return Ok(());
    };
    let (tree, image, needed, free) =
        (tree.display(), image.display(), Bytes(survey.least_bytes), Bytes(free_bytes));
    let message =
        format!("{tree} does not fit on the disk that holds {image}: it needs {needed}, {free} are left");
    Err(Failure::failed(message).advise("free space on that disk, or make the image on another one"))
}

/// Refuses a tree that does not fit into a log made with these options, and suggests a size.
///
/// # Errors
/// It does not fit, or no volume can be made with these options.
pub fn admit_to_log(survey: &Survey, tree: &Path, options: &MkfsOptions, data_logs: Option<u8>) -> Done {
    let room = Room::of_log(options, data_logs)?;
    room.admit(survey, tree).map_err(|failure| match fitting_size(survey, options, room, data_logs) {
        Some(size_bytes) => failure.advise(format!("--size {}M is enough", size_bytes / SIZE_STEP_BYTES)),
        None => failure.advise("make the volume larger (--size)"),
    })
}

/// A size that has a margin for directories and block pointers.
fn fitting_size(survey: &Survey, options: &MkfsOptions, room: Room, data_logs: Option<u8>) -> Option<u64> {
    // A block pointer is 16 bytes for at least 512; a name, a hash and an entry of the inode map are less than a sector.
    let wanted_bytes = survey.least_bytes + survey.least_bytes / 24 + survey.inodes() * 512;
    let (mut size_bytes, mut room) = (options.size_bytes, room);
    for _ in 0..TRIES {
        let missing_bytes = wanted_bytes.saturating_sub(room.bytes).max(SIZE_STEP_BYTES);
        size_bytes = size_bytes.checked_add(missing_bytes)?.checked_next_multiple_of(SIZE_STEP_BYTES)?;
        room = Room::of_log(&MkfsOptions { size_bytes, ..options.clone() }, data_logs).ok()?;
        if room.bytes >= wanted_bytes && room.holds(survey) {
            return Some(size_bytes);
        }
    }
    None
}
