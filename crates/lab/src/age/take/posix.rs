//! A snapshot of a directory of any mounted file system. Blocks come from FIEMAP, or from a [`Mapper`] that asks the file system itself.
//!
//! Files that disappear meanwhile are left out. Only files on the directory's own file system are in the snapshot.

use super::volume::{Facts, Located};
use crate::age::fiemap;
use crate::age::snapshot::{DIRECTORY, Entry, Generations, Groups, Meta, REGULAR, Snapshot};
use crate::error::LabError;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Files that a [`Mapper`] is asked for at a time.
const BATCH: usize = 1024;

/// Says where files lie, in place of FIEMAP.
pub trait Mapper {
    /// The file system, and those of the files that exist.
    ///
    /// # Errors
    /// It does not answer.
    fn locate(&mut self, inodes: &[u64]) -> Result<(Facts, Vec<Located>), LabError>;
}

/// Takes a snapshot of everything below a directory. `progress` hears of the number of files.
///
/// # Errors
/// The directory cannot be read; a file can neither be read nor be left out.
pub fn directory(
    root: &Path,
    mapper: Option<&mut dyn Mapper>,
    progress: &mut dyn FnMut(u64) -> Result<(), LabError>,
) -> Result<Snapshot, LabError> {
    let about = fs::metadata(root).map_err(LabError::io("examine", root))?;
    if !about.is_dir() {
        return Err(LabError::Setup(format!("{} is not a directory", root.display())));
    }
    let statfs = rustix::fs::statvfs(root).map_err(|e| LabError::io("examine", root)(e.into()))?;
    let mount = MountLine::of(about.dev());
    let mut walk = Walk { device: about.dev(), asks_kernel: mapper.is_none(), ..Walk::default() };
    walk.below(root, progress)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut meta = Meta {
        taken_ns: i64::try_from(now.as_nanos()).unwrap_or(i64::MAX),
        fs_type: mount.as_ref().map_or_else(|| "unknown".to_owned(), |mount| mount.fs_type.clone()),
        size_bytes: statfs.f_blocks.saturating_mul(statfs.f_frsize),
        block_bytes: u32::try_from(statfs.f_bsize).unwrap_or(4096).max(1),
        segment_bytes: 0,
        groups: mount.as_ref().and_then(MountLine::ext_groups),
        generations: walk.generations(),
        unmapped_files: walk.unmapped,
        free: None,
        base: None,
    };
    if let Some(mapper) = mapper {
        let mut inodes = walk.files.keys().copied().collect::<Vec<_>>();
        inodes.push(0);
        let mut files = std::mem::take(&mut walk.files);
        let mut kept = BTreeMap::new();
        for batch in inodes.chunks(BATCH) {
            let (facts, located) = mapper.locate(batch)?;
            meta = Meta { generations: Generations::Stored, unmapped_files: 0, ..facts.meta(meta.taken_ns) };
            for found in located {
                if let Some(entry) = files.remove(&found.inode) {
                    let (generation, extents) = (found.generation, found.extents);
                    kept.insert(found.inode, Entry { generation, extents, ..entry });
                }
            }
        }
        walk.files = kept;
    }
    Ok(Snapshot { meta, files: walk.files })
}

#[derive(Default)]
struct Walk {
    device: u64,
    asks_kernel: bool,
    files: BTreeMap<u64, Entry>,
    unmapped: u64,
    /// Files by what their generation was taken from.
    stored: u64,
    births: u64,
}

impl Walk {
    fn below(
        &mut self,
        root: &Path,
        progress: &mut dyn FnMut(u64) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let mut todo: Vec<(PathBuf, u64)> = vec![(root.to_owned(), 0)];
        while let Some((path, dir)) = todo.pop() {
            // A file that was removed meanwhile is in no snapshot.
            let Ok(about) = fs::symlink_metadata(&path) else { continue };
            if about.dev() != self.device || self.files.contains_key(&about.ino()) {
                continue;
            }
            let entry = self.entry(&path, &about, dir);
            self.files.insert(about.ino(), entry);
            progress(self.files.len() as u64)?;
            if about.is_dir() {
                let children = fs::read_dir(&path).map_err(LabError::io("list", &path))?;
                for child in children {
                    let child = child.map_err(LabError::io("list", &path))?;
                    todo.push((child.path(), about.ino()));
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, about: &fs::Metadata, dir: u64) -> Entry {
        let mut entry = Entry {
            kind: (about.mode() >> 12) as u8 & 0xf,
            dir,
            size_bytes: about.size(),
            ctime_ns: about.ctime().saturating_mul(1_000_000_000).saturating_add(about.ctime_nsec()),
            ..Entry::default()
        };
        if !self.asks_kernel {
            return entry;
        }
        let file = [REGULAR, DIRECTORY].contains(&entry.kind).then(|| open(path)).flatten();
        if let Some(generation) = file.as_ref().and_then(|file| fiemap::generation(file).ok()) {
            entry.generation = generation;
            self.stored += 1;
        } else if let Ok(born) = about.created() {
            let age = born.duration_since(UNIX_EPOCH).unwrap_or_default();
            entry.generation = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
            self.births += 1;
        }
        if entry.kind == REGULAR && entry.size_bytes > 0 {
            match file.as_ref().map(fiemap::extents) {
                Some(Ok(extents)) => entry.extents = extents,
                _ => self.unmapped += 1,
            }
        }
        entry
    }

    fn generations(&self) -> Generations {
        match (self.stored, self.births) {
            (0, 0) => Generations::Unknown,
            (0, _) => Generations::Birth,
            _ => Generations::Stored,
        }
    }
}

/// Opens a file without changing its access time where that is allowed, and without waiting for anything.
fn open(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = |flags| rustix::fs::open(path, flags, Mode::empty()).ok();
    open(flags | OFlags::NOATIME).or_else(|| open(flags))
}

/// The type and device of a mounted file system.
struct MountLine {
    fs_type: String,
    source: PathBuf,
}

impl MountLine {
    fn of(device: u64) -> Option<Self> {
        let wanted = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        let text = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let line = text.lines().find(|line| line.split(' ').nth(2) == Some(&wanted))?;
        let mut after = line.split_once(" - ")?.1.split(' ');
        Some(Self { fs_type: after.next()?.to_owned(), source: after.next()?.into() })
    }

    /// The groups of ext2, 3 and 4, from the superblock; only those may know it who may read the device.
    fn ext_groups(&self) -> Option<Groups> {
        if !self.fs_type.starts_with("ext") {
            return None;
        }
        let mut bytes = [0; 1024];
        File::open(&self.source).ok()?.read_exact_at(&mut bytes, 1024).ok()?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if bytes[0x38..0x3a] != [0x53, 0xef] || word(0x18) > 6 {
            return None;
        }
        let block_bytes = 1024u64 << word(0x18);
        let (inodes, blocks) = (u64::from(word(0x28)), u64::from(word(0x20)));
        let bytes = blocks * block_bytes;
        let first_byte = u64::from(word(0x14)) * block_bytes;
        (inodes > 0 && bytes > 0).then_some(Groups { inodes, first_inode: 1, bytes, first_byte })
    }
}
