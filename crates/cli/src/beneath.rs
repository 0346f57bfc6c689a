//! The disk beneath an image: a sparse image takes space only as it is written, so the disk can be full before the volume is.
//!
//! Callers: `mkfs`, which warns and refuses, and `stat` and `df`, which show it.

use crate::output::write_words;
use crate::sizes::Bytes;
use serde::Serialize;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A disk with less than this free counts as full: a log writes a segment at a time.
const FULL_BYTES: u64 = 1 << 20;

/// A disk that has less space than the image on it may still take.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Beneath {
    /// The image.
    pub image: PathBuf,
    /// Bytes by which it grows if all of it is written.
    pub grows_bytes: u64,
    /// Bytes that the file system that holds it has left.
    pub free_bytes: u64,
    /// Nothing to speak of is left: writes fail, or will with the next segment.
    pub full: bool,
}

/// The disk beneath an image that may become too small; `None` for one that has enough space, and for a block device.
#[must_use]
pub fn of(image: &Path) -> Option<Beneath> {
    let meta = std::fs::metadata(image).ok().filter(std::fs::Metadata::is_file)?;
    let disk = rustix::fs::statvfs(image).ok()?;
    let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
    let grows_bytes = meta.len().saturating_sub(meta.blocks() * 512);
    let full = free_bytes < FULL_BYTES;
    (grows_bytes > free_bytes).then(|| Beneath { image: image.to_owned(), grows_bytes, free_bytes, full })
}

/// Bytes that an image can take on the disk that holds it, those included that it has; `None` for a block device. There may be no image
/// yet.
#[must_use]
pub fn room_for(image: &Path) -> Option<u64> {
    let (place, has_bytes) = match std::fs::metadata(image) {
        Ok(meta) if meta.is_file() => (image, meta.blocks() * 512),
        Ok(_) => return None,
        Err(_) => {
            (image.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")), 0)
        }
    };
    let disk = rustix::fs::statvfs(place).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize).saturating_add(has_bytes))
}

impl Beneath {
    /// The same as [`Self::describe`] in one line, for a disk that is not full yet.
    pub fn in_brief(&self) -> String {
        let (grows, free) = (Bytes(self.grows_bytes), Bytes(self.free_bytes));
        format!("{free} left, the image may grow by {grows}: free some")
    }

    /// What is wrong, and the way out, as a paragraph. `path` names the volume, `is_mounted` or not.
    ///
    /// # Errors
    /// As writing fails.
    pub fn describe(
        &self,
        out: &mut dyn Write,
        head: &str,
        (path, is_mounted): (&Path, bool),
    ) -> io::Result<()> {
        let (path, grows, free) = (path.display(), Bytes(self.grows_bytes), Bytes(self.free_bytes));
        let writable = if is_mounted {
            format!(", then run 'firn scrub {path} --writable' if the volume turned read-only")
        } else {
            String::new()
        };
        let text = if self.full {
            format!(
                "the disk that holds the image is full, and the image can grow by {grows}. Free space on that disk{writable}."
            )
        } else {
            format!(
                "the disk that holds the image has {free} left, and the image can grow by {grows}. Free space on that disk in time: when it is full, the volume turns read-only. 'firn trim {path}' gives back the space of deleted files."
            )
        };
        write_words(out, head, &text)
    }
}
