//! Snapshots of volumes of firnfs: their stores say where blocks lie, and how free space is divided.
//!
//! [`Mapped`] is what this needs of a store. [`image`] walks a volume that no daemon serves; the daemon of a mount answers with
//! [`Facts`] and [`Located`] over its control socket.

use crate::age::layout::FreeSpace;
use crate::age::snapshot::{Entry, Extent, Generations, Groups, Meta, Snapshot, push_extent};
use crate::error::LabError;
use firnfs::engine::Engine;
use firnfs::ffs::Ffs;
use firnfs::inode::Kind;
use firnfs::lfs::Lfs;
use firnfs::store::Fork;
use firnfs::{FsError, Outcome};
use firnfs_format::{BlockPtr, InodeNo, SECTOR_BYTES};
use firnfs_volume::Volume;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Entries of a directory that are taken at a time.
const ENTRIES: usize = 1024;

/// The volume, beside its files.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Facts {
    fs_type: String,
    size_bytes: u64,
    block_bytes: u32,
    segment_bytes: u32,
    groups: Option<Groups>,
    free: FreeSpace,
}

impl Facts {
    /// What a snapshot says of the volume.
    #[must_use]
    pub fn meta(self, taken_ns: i64) -> Meta {
        Meta {
            taken_ns,
            fs_type: self.fs_type,
            size_bytes: self.size_bytes,
            block_bytes: self.block_bytes,
            segment_bytes: self.segment_bytes,
            groups: self.groups,
            generations: Generations::Stored,
            unmapped_files: 0,
            free: Some(self.free),
            base: None,
        }
    }
}

/// Where a file lies.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Located {
    /// Which.
    pub inode: u64,
    /// See [`Entry::generation`].
    pub generation: u64,
    /// See [`Entry::extents`].
    pub extents: Vec<Extent>,
}

/// A store that knows where blocks lie.
pub trait Mapped: Engine + Sized {
    /// Where the content of a file lies, in its order. Content that was not written yet is left out.
    ///
    /// # Errors
    /// `Need`, `NotFound`, `Corrupt`.
    fn extents(&mut self, ino: InodeNo) -> Outcome<Vec<Extent>>;

    /// The volume as it is now.
    ///
    /// # Errors
    /// It cannot be read.
    fn volume_facts(volume: &Volume<Self>) -> Result<Facts, FsError>;
}

impl Mapped for Lfs {
    fn extents(&mut self, ino: InodeNo) -> Outcome<Vec<Extent>> {
        let block_bytes = u64::from(self.superblock().block_bytes);
        let sector = u64::from(SECTOR_BYTES);
        let mut extents = Vec::new();
        for placed in self.inode_blocks(ino)? {
            let key = placed.key;
            if (key.fork, key.level) == (Fork::Data, 0) && BlockPtr::is_stored(&placed.ptr) {
                push_extent(
                    &mut extents,
                    Extent {
                        file_at_bytes: key.index.0.saturating_mul(block_bytes),
                        disk_at_bytes: placed.ptr.addr.0.saturating_mul(sector),
                        len_bytes: u64::from(placed.ptr.stored_bytes()),
                    },
                );
            }
        }
        Ok(extents)
    }

    fn volume_facts(volume: &Volume<Self>) -> Result<Facts, FsError> {
        let (superblock, segments) = volume
            .run_quietly(|vfs, _| Ok((vfs.store().superblock().clone(), vfs.store().geometry().segments)))?;
        let mut free = FreeSpace::default();
        let (mut leaf, mut seen, mut clean_bytes) = (0, 0, 0);
        while seen < segments {
            let rooms = volume.run_quietly(|vfs, _| {
                let lfs = vfs.store_mut();
                let entries = lfs.usage_leaf(leaf)?;
                Ok(entries
                    .iter()
                    .map(|(segment, entry)| lfs.segment_room(*segment, entry))
                    .collect::<Vec<_>>())
            })?;
            if rooms.is_empty() {
                break;
            }
            (leaf, seen) = (leaf + 1, seen + rooms.len() as u64);
            for room in rooms {
                if room.clean_bytes > 0 {
                    clean_bytes += room.clean_bytes;
                } else if clean_bytes > 0 {
                    free.add(clean_bytes);
                    clean_bytes = 0;
                }
                free.partial_bytes += room.dead_bytes;
            }
        }
        if clean_bytes > 0 {
            free.add(clean_bytes);
        }
        Ok(Facts {
            fs_type: "log".to_owned(),
            size_bytes: superblock.size_bytes,
            block_bytes: superblock.block_bytes,
            segment_bytes: superblock.segment_bytes,
            groups: None,
            free,
        })
    }
}

impl Mapped for Ffs {
    fn extents(&mut self, ino: InodeNo) -> Outcome<Vec<Extent>> {
        let frag_bytes = u64::from(self.superblock().layout.frag_bytes);
        let block_bytes = u64::from(self.superblock().layout.block_bytes);
        let mut extents = Vec::new();
        for (index, run) in self.indexed_places(ino)? {
            let (addr, frags) = (u64::from(run.addr), u64::from(run.frags));
            let piece = Extent {
                file_at_bytes: index * block_bytes,
                disk_at_bytes: addr * frag_bytes,
                len_bytes: frags * frag_bytes,
            };
            push_extent(&mut extents, piece);
        }
        Ok(extents)
    }

    fn volume_facts(volume: &Volume<Self>) -> Result<Facts, FsError> {
        let layout = volume.run_quietly(|vfs, _| Ok(vfs.store().superblock().layout))?;
        let mut free = FreeSpace::default();
        let frag_bytes = u64::from(layout.frag_bytes);
        let per_block = layout.frags_per_block();
        let mut run_frags = 0;
        let end = |free: &mut FreeSpace, run_frags: &mut u64| {
            if *run_frags > 0 {
                free.add(*run_frags * frag_bytes);
                *run_frags = 0;
            }
        };
        for group in 0..layout.groups {
            let frags = layout.frags_in(group);
            let is_free = volume.run_quietly(|vfs, _| vfs.store_mut().free_map(group))?;
            for start in (0..frags).step_by(per_block as usize) {
                let block = &is_free[start as usize..(start + per_block).min(frags) as usize];
                let count = block.iter().filter(|free| **free).count() as u64;
                if count == u64::from(per_block) {
                    run_frags += count;
                } else {
                    end(&mut free, &mut run_frags);
                    free.partial_bytes += count * frag_bytes;
                }
            }
            // The next group begins with its tables.
            end(&mut free, &mut run_frags);
        }
        Ok(Facts {
            fs_type: "ffs".to_owned(),
            size_bytes: layout.size_frags * frag_bytes,
            block_bytes: layout.block_bytes,
            segment_bytes: 0,
            groups: Some(Groups {
                inodes: layout.group_inodes.into(),
                first_inode: 0,
                bytes: u64::from(layout.group_frags) * frag_bytes,
                first_byte: 0,
            }),
            free,
        })
    }
}

impl Located {
    /// Those of the inodes that exist.
    ///
    /// # Errors
    /// An inode cannot be read.
    pub fn all<S: Mapped>(volume: &Volume<S>, inodes: &[u64]) -> Result<Vec<Self>, FsError> {
        let one = |inode: u64| match locate(volume, InodeNo(inode)) {
            Ok((located, _)) => Ok(Some(located)),
            Err(FsError::NotFound) => Ok(None),
            Err(why) => Err(why),
        };
        inodes.iter().filter_map(|&inode| one(inode).transpose()).collect()
    }
}

fn locate<S: Mapped>(volume: &Volume<S>, ino: InodeNo) -> Result<(Located, Entry), FsError> {
    let (attr, extents) = volume.run_quietly(|vfs, _| {
        let attr = vfs.getattr(ino)?;
        let has_blocks = attr.kind == Kind::Regular;
        Ok((attr, if has_blocks { vfs.store_mut().extents(ino)? } else { Vec::new() }))
    })?;
    let entry = Entry {
        generation: attr.generation,
        kind: attr.kind as u8,
        size_bytes: attr.size_bytes,
        ctime_ns: attr.ctime.0,
        ..Entry::default()
    };
    Ok((Located { inode: ino.0, generation: attr.generation, extents }, entry))
}

/// Takes a snapshot of a whole volume. `progress` hears of the number of files.
///
/// # Errors
/// It cannot be read, or `progress` ends it.
pub fn image<S: Mapped>(
    volume: &Volume<S>,
    progress: &mut dyn FnMut(u64) -> Result<(), LabError>,
) -> Result<Snapshot, LabError> {
    let failed = |source| LabError::Volume { action: "read the volume", source };
    let now = volume.run_quietly(|_, now| Ok(now)).map_err(failed)?;
    let meta = S::volume_facts(volume).map_err(failed)?.meta(now.0);
    let mut files = BTreeMap::new();
    let mut todo = vec![(InodeNo::ROOT, 0)];
    while let Some((ino, dir)) = todo.pop() {
        if files.contains_key(&ino.0) {
            continue;
        }
        let (located, entry) = locate(volume, ino).map_err(failed)?;
        if entry.kind == Kind::Directory as u8 {
            for (_, child) in entries(volume, ino).map_err(failed)? {
                todo.push((child, ino.0));
            }
        }
        files.insert(ino.0, Entry { dir, extents: located.extents, ..entry });
        progress(files.len() as u64)?;
    }
    Ok(Snapshot { meta, files })
}

/// Names and inodes in a directory.
///
/// # Errors
/// It cannot be read.
pub fn entries<S: Engine>(volume: &Volume<S>, dir: InodeNo) -> Result<Vec<(String, InodeNo)>, FsError> {
    let mut all = Vec::new();
    let mut cookie = 0;
    loop {
        let found = volume.run_quietly(|vfs, now| {
            let mut found = Vec::new();
            vfs.readdir(now, dir, cookie, &mut |entry| {
                found.push((entry.next, String::from_utf8_lossy(entry.name).into_owned(), entry.ino));
                found.len() < ENTRIES
            })?;
            Ok(found)
        })?;
        let Some(&(next, ..)) = found.last() else { return Ok(all) };
        cookie = next;
        let named = found.into_iter().map(|(_, name, ino)| (name, ino));
        all.extend(named.filter(|(name, _)| name != "." && name != ".."));
    }
}
