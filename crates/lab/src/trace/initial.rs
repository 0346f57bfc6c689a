//! The initial state: a log as it might look before the trace begins (section 4).
//!
//! Files are grouped by the log2 of their blocks. Each file is spread evenly over the mean number of segments that files of its bin
//! span in the trace, and lies contiguously within each. Files that the trace never uses take no space. `plan` decides what goes to
//! which segment; `build` writes segment after segment, each with a commit, so that the log lays them out in this order.
//!
//! Caller: `replay`.

use super::Progress;
use super::driver::Driver;
use super::pages::BLOCK_BYTES;
use super::survey::{Survey, bin_of};
use crate::error::LabError;
use crate::micro::stop::Stop;
use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::vfs::{Caller, NewNode};
use firnfs_format::InodeNo;
use firnfs_workload::FileId;
use rustc_hash::FxHashMap;

/// Files in a directory of those whose directory the trace does not tell.
const POOL_FILES: usize = 256;
/// The superuser.
pub(super) const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0 };

/// A file of the trace, on the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Placed {
    pub ino: InodeNo,
    /// Its number in the cache of pages.
    pub page_file: u32,
    /// Its size in bytes.
    pub size_bytes: u64,
    pub is_dir: bool,
}

/// The files of the trace that exist on the volume.
#[derive(Default)]
pub(super) struct Files {
    placed: FxHashMap<FileId, Placed>,
    made: u32,
}

impl Files {
    /// The place of a file.
    pub fn find(&self, file: FileId) -> Option<Placed> {
        self.placed.get(&file).copied()
    }

    /// The same, to change its size.
    pub fn find_mut(&mut self, file: FileId) -> Option<&mut Placed> {
        self.placed.get_mut(&file)
    }

    /// A file was made.
    pub fn insert(&mut self, file: FileId, ino: InodeNo, is_dir: bool) {
        self.made += 1;
        self.placed.insert(file, Placed { ino, page_file: self.made, size_bytes: 0, is_dir });
    }

    /// A file is gone.
    pub fn remove(&mut self, file: FileId) {
        self.placed.remove(&file);
    }
}

/// Makes a file or directory.
pub(super) fn make(driver: &mut Driver, dir: InodeNo, name: &[u8], is_dir: bool) -> Result<InodeNo, FsError> {
    let kind = if is_dir { Kind::Directory } else { Kind::Regular };
    let node = NewNode { kind, mode: if is_dir { 0o755 } else { 0o644 }, rdev: 0, target: b"" };
    driver.user(|vfs, now| vfs.make(now, CALLER, dir, name, node, false)).map(|attr| attr.ino)
}

/// A part of a file in a segment: the file, its first block, and how many.
type Part = (FileId, u64, u64);

/// What goes to each segment.
fn plan(survey: &Survey, segment_blocks: u64) -> Vec<Vec<Part>> {
    let mut full = Vec::new();
    // Segments with room, the one that was opened first in front, and their free blocks.
    let mut open: Vec<(Vec<Part>, u64)> = Vec::new();
    for file in &survey.order {
        let Some(known) = survey.files.get(file).filter(|known| known.at_start && !known.is_dir) else {
            continue;
        };
        let blocks = known.initial_bytes.div_ceil(BLOCK_BYTES);
        let pieces = survey.span_of(bin_of(known.initial_bytes)).clamp(1, blocks.max(1));
        let mut at = 0;
        for piece in 0..pieces {
            let end = blocks * (piece + 1) / pieces;
            let mut segment = piece as usize;
            while at < end || (blocks == 0 && piece == 0 && at == 0) {
                if open.len() <= segment {
                    open.push((Vec::new(), segment_blocks));
                }
                let (parts, room) = &mut open[segment];
                let len = (end - at).min(*room);
                parts.push((*file, at, len));
                (at, *room) = (at + len, *room - len);
                if blocks == 0 {
                    break;
                }
                segment += usize::from(*room == 0);
            }
        }
        let (closed, left) = open.into_iter().partition(|(_, room)| *room == 0);
        full.extend::<Vec<(Vec<Part>, u64)>>(closed);
        open = left;
    }
    full.into_iter().chain(open).map(|(parts, _)| parts).collect()
}

/// Makes the directories that existed before the trace, each below its parent where the trace tells it.
fn make_directories(driver: &mut Driver, survey: &Survey, files: &mut Files) -> Result<(), FsError> {
    let is_initial =
        |file: &&FileId| survey.files.get(file).is_some_and(|known| known.at_start && known.is_dir);
    let mut waiting: Vec<FileId> = survey.order.iter().filter(is_initial).copied().collect();
    while !waiting.is_empty() {
        let before = waiting.len();
        let mut later = Vec::new();
        for file in waiting {
            let place = survey.files[&file].place.as_ref();
            let (parent, name) = match place {
                None => (InodeNo::ROOT, format!(".dir-{:x}", file.0).into_bytes()),
                Some((dir, name)) => match files.find(*dir) {
                    Some(parent) => (parent.ino, name.to_vec()),
                    None => {
                        later.push(file);
                        continue;
                    }
                },
            };
            let ino = make_or_rename(driver, parent, &name, file, true)?;
            files.insert(file, ino, true);
        }
        if later.len() == before {
            // Parents in a circle, after renames: the first one goes below the root.
            let file = later.remove(0);
            let ino = make(driver, InodeNo::ROOT, format!(".dir-{:x}", file.0).as_bytes(), true)?;
            files.insert(file, ino, true);
        }
        waiting = later;
    }
    Ok(())
}

/// Makes a file under its name, or under one of its own if the name is taken or impossible.
fn make_or_rename(
    driver: &mut Driver,
    dir: InodeNo,
    name: &[u8],
    file: FileId,
    is_dir: bool,
) -> Result<InodeNo, FsError> {
    match make(driver, dir, name, is_dir) {
        Err(FsError::Exists | FsError::NameTooLong | FsError::Invalid(_) | FsError::NotFound) => {
            make(driver, dir, format!(".again-{:x}", file.0).as_bytes(), is_dir)
        }
        other => other,
    }
}

/// Fills an empty volume with the initial state.
///
/// # Errors
/// It does not fit; it was asked to stop.
pub(super) fn build(
    driver: &mut Driver,
    survey: &Survey,
    segment_bytes: u64,
    stop: &Stop,
    progress: &Progress<'_>,
) -> Result<Files, LabError> {
    let failed = |source| LabError::Volume { action: "build the initial state", source };
    let mut files = Files::default();
    make_directories(driver, survey, &mut files).map_err(failed)?;
    // A sixteenth of a segment stays for summaries and metadata.
    let segments = plan(survey, segment_bytes / BLOCK_BYTES * 15 / 16);
    let mut pool = (InodeNo::ROOT, 0_usize);
    for (n, parts) in segments.iter().enumerate() {
        stop.check()?;
        for &(file, at, len) in parts {
            let known = &survey.files[&file];
            if files.find(file).is_none() {
                let place =
                    known.place.as_ref().and_then(|(dir, name)| Some((files.find(*dir)?.ino, name.to_vec())));
                let (dir, name) = match place {
                    Some(place) => place,
                    None => {
                        if pool.1.is_multiple_of(POOL_FILES) {
                            let name = format!(".pool-{}", pool.1 / POOL_FILES);
                            pool.0 = make(driver, InodeNo::ROOT, name.as_bytes(), true).map_err(failed)?;
                        }
                        pool.1 += 1;
                        (pool.0, format!("{:x}", file.0).into_bytes())
                    }
                };
                let ino = make_or_rename(driver, dir, &name, file, false).map_err(failed)?;
                files.insert(file, ino, false);
            }
            let Some(placed) = files.find_mut(file) else { continue };
            let (from, to) = (at * BLOCK_BYTES, ((at + len) * BLOCK_BYTES).min(known.initial_bytes));
            placed.size_bytes = placed.size_bytes.max(to);
            driver.write(placed.ino, from, to.saturating_sub(from)).map_err(failed)?;
        }
        driver.commit().map_err(failed)?;
        progress.show(super::Phase::Building, n as f64 / segments.len() as f64);
    }
    driver.checkpoint().map_err(failed)?;
    driver.checkpoint().map_err(failed)?;
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::tests::{records, write};
    use firnfs_workload::Op;

    #[test]
    fn a_file_is_spread_over_as_many_segments_as_files_of_its_size_span_in_the_trace() {
        let mut trace = Vec::new();
        // Two files of 32 blocks are written in turn, 4 blocks at a time: with segments of 16 blocks each spans 4.
        for n in 0..8 {
            trace.push(write(n, 100, n * 16384, 16384));
            trace.push(write(n, 101, n * 16384, 16384));
        }
        // A file of the same size, and one of one block, existed before.
        let mut old = write(9, 102, 0, 0);
        (old.op, old.length) = (Op::Getattr, Some(32 * 4096));
        let mut small = old.clone();
        (small.file, small.length) = (FileId(103), Some(4096));
        trace.extend([old, small]);
        let survey = Survey::of(&records(trace), 16 * 4096, &Stop::default()).unwrap();
        assert_eq!((survey.span_of(5), survey.span_of(0)), (4, 1));
        let segments = plan(&survey, 16);
        let of = |file| {
            let parts =
                segments.iter().enumerate().flat_map(|(n, parts)| parts.iter().map(move |part| (n, *part)));
            parts
                .filter(|(_, part)| part.0 == FileId(file) && part.2 > 0)
                .map(|(n, part)| (n, part.1, part.2))
                .collect()
        };
        let spread: Vec<(usize, u64, u64)> = of(102);
        assert_eq!(
            spread.iter().map(|part| (part.1, part.2)).collect::<Vec<_>>(),
            [(0, 8), (8, 8), (16, 8), (24, 8)]
        );
        let mut places: Vec<usize> = spread.iter().map(|part| part.0).collect();
        places.dedup();
        assert_eq!(places.len(), 4, "{spread:?}");
        assert_eq!(of(103).len(), 1);
    }
}
