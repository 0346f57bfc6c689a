//! The files with live blocks in a segment, by path.
//!
//! The daemon knows inodes (`segment_read` and `bmapv` of the cleaner's port). Paths are found by walking the mount as any
//! program would, for at most [`WALK_MOST`]: an owner whose path was not found by then is shown by its inode. What no file has
//! now gets a row of its own, so that the rows add up to the live bytes of the segment.
//!
//! A volume in this process (`firn age replay`) is asked directly, and its directories are read as the kernel would.

use crate::history::service::{HISTORY_OP, HistoryView};
use crate::port::wire::{Block, Contents, Segments};
use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::lfs::Lfs;
use firnfs_format::{InodeNo, SegmentId};
use firnfs_fuse::control::{Client, ClientError};
use firnfs_manage::LogVolume;
use firnfs_volume::Volume;
use firnfs_watch::screen::Owner;
use serde_json::json;
use std::collections::BTreeMap;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// People wait for it.
const WALK_MOST: Duration = Duration::from_secs(2);
/// Inodes 2 and 3 are tables.
const TABLES: [(u64, &str); 2] = [(2, "(inode map)"), (3, "(segment usage)")];

/// Live in the segment usage table, but of no file that exists now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    /// The volume has states, and they hold it.
    Kept,
    /// The volume has no states: changes in memory have replaced it, and the next commit will say so.
    Replaced,
}

/// The owners of a segment's live blocks, the most live bytes first.
///
/// # Errors
/// The daemon refuses, or has ended.
pub fn of(client: &mut Client, mountpoint: &Path, segment: u64) -> Result<Vec<Owner>, ClientError> {
    let live = live_bytes(client, segment)?;
    let mut paths = Paths::of(&live);
    paths.find_on_mount(mountpoint);
    let segment_bytes = segment_live_bytes(client, segment)?;
    let history: HistoryView = client.ask(HISTORY_OP, json!({}))?;
    let rest = if history.points.is_empty() { Rest::Replaced } else { Rest::Kept };
    Ok(rows(live, &paths.known, segment_bytes, rest))
}

/// The same of a volume in this process.
///
/// # Errors
/// `Io`, `Corrupt`; `Invalid` if there is no such segment.
pub fn of_volume(volume: &Volume<Lfs>, segment: u64) -> Result<Vec<Owner>, FsError> {
    let entries = volume.segment_entries(SegmentId(segment))?;
    let blocks: Vec<Block> = entries.iter().filter_map(Block::of).collect();
    let infos: Vec<_> = blocks.iter().map(Block::info).collect();
    let places = volume.run_quietly(|vfs, _| vfs.store_mut().bmapv(&infos))?;
    let places = places.iter().map(|ptr| ptr.is_stored().then_some(ptr.addr.0));
    let mut live = BTreeMap::new();
    add_live(&mut live, &blocks, places);
    let mut paths = Paths::of(&live);
    paths.find_in(volume)?;
    let leaf = volume.run_quietly(|vfs, _| {
        let lfs = vfs.store_mut();
        lfs.segment_infos(lfs.usage_leaf_of(SegmentId(segment)))
    })?;
    let usage = leaf.iter().filter(|info| info.segment.0 == segment && info.usage.in_use);
    let segment_bytes = usage.map(|info| u64::from(info.usage.live_bytes)).sum();
    let rest = if volume.points()?.is_empty() { Rest::Replaced } else { Rest::Kept };
    Ok(rows(live, &paths.known, segment_bytes, rest))
}

/// Adds the bytes of the blocks that are in their present places to those of their inodes.
fn add_live(live: &mut BTreeMap<u64, u64>, blocks: &[Block], places: impl IntoIterator<Item = Option<u64>>) {
    for (block, place) in blocks.iter().zip(places) {
        if place == Some(block.addr) {
            *live.entry(block.ino).or_insert(0) += block.bytes;
        }
    }
}

/// The owners, and a row for what is left of the live bytes of the segment; the most bytes first.
fn rows(
    live: BTreeMap<u64, u64>,
    paths: &BTreeMap<u64, Option<String>>,
    segment_bytes: u64,
    rest: Rest,
) -> Vec<Owner> {
    let rest_bytes = segment_bytes.saturating_sub(live.values().sum());
    let owner = |(ino, live_bytes)| Owner { path: paths.get(&ino).cloned().flatten(), ino, live_bytes };
    let mut owners: Vec<Owner> = live.into_iter().map(owner).collect();
    if rest_bytes > 0 {
        let name = match rest {
            Rest::Kept => "(kept by snapshots and history)",
            Rest::Replaced => "(replaced in memory, not written yet)",
        };
        owners.push(Owner { path: Some(name.to_owned()), ino: 0, live_bytes: rest_bytes });
    }
    owners.sort_by_key(|owner| std::cmp::Reverse(owner.live_bytes));
    owners
}

/// Live bytes of a segment as the segment usage table has them.
fn segment_live_bytes(client: &mut Client, segment: u64) -> Result<u64, ClientError> {
    let page: Segments = client.ask("segments", json!({ "from": segment, "count": 1 }))?;
    Ok(page.list.iter().filter(|found| found.in_use).map(|found| u64::from(found.live_bytes)).sum())
}

fn live_bytes(client: &mut Client, segment: u64) -> Result<BTreeMap<u64, u64>, ClientError> {
    let mut live = BTreeMap::new();
    let mut from = Some(0);
    while let Some(at) = from {
        let answer = client.call("segment_read", json!({ "segment": segment, "from": at }))?;
        let Ok(contents) = serde_json::from_value::<Contents>(answer) else { break };
        let answer = client.call("bmapv", json!({ "blocks": contents.blocks }))?;
        let Ok(places) = serde_json::from_value::<Vec<Option<u64>>>(answer) else { break };
        add_live(&mut live, &contents.blocks, places);
        from = contents.next;
    }
    Ok(live)
}

/// Inodes and the paths that were found of them.
struct Paths {
    known: BTreeMap<u64, Option<String>>,
    missing: usize,
}

impl Paths {
    fn of(live: &BTreeMap<u64, u64>) -> Self {
        let name = |ino| TABLES.iter().find(|(table, _)| *table == ino).map(|(_, name)| (*name).to_owned());
        let known: BTreeMap<_, _> = live.keys().map(|ino| (*ino, name(*ino))).collect();
        let missing = known.values().filter(|path| path.is_none()).count();
        Self { known, missing }
    }

    /// Notes the path of an inode; false once all have one.
    fn note(&mut self, ino: u64, path: impl FnOnce() -> String) -> bool {
        if let Some(known) = self.known.get_mut(&ino).filter(|known| known.is_none()) {
            *known = Some(path());
            self.missing -= 1;
        }
        self.missing > 0
    }

    /// Walks the mount until all inodes have a path, or the time is over.
    fn find_on_mount(&mut self, mountpoint: &Path) {
        let end = Instant::now() + WALK_MOST;
        let Ok(root) = std::fs::metadata(mountpoint) else { return };
        let inner = |path: &Path| format!("/{}", path.strip_prefix(mountpoint).unwrap_or(path).display());
        if !self.note(root.ino(), || inner(mountpoint)) {
            return;
        }
        let mut pending: Vec<PathBuf> = vec![mountpoint.to_owned()];
        while let Some(directory) = pending.pop() {
            let Ok(entries) = std::fs::read_dir(&directory) else { continue };
            for entry in entries.flatten() {
                if Instant::now() >= end || !self.note(entry.ino(), || inner(&entry.path())) {
                    return;
                }
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    pending.push(entry.path());
                }
            }
        }
    }

    /// Does the same with a volume in this process.
    fn find_in(&mut self, volume: &Volume<Lfs>) -> Result<(), FsError> {
        let end = Instant::now() + WALK_MOST;
        if !self.note(InodeNo::ROOT.0, || "/".to_owned()) {
            return Ok(());
        }
        let mut pending = vec![(InodeNo::ROOT, String::new())];
        while let Some((directory, prefix)) = pending.pop() {
            for (ino, name, kind) in entries(volume, directory)? {
                let path = format!("{prefix}/{name}");
                if Instant::now() >= end || !self.note(ino.0, || path.clone()) {
                    return Ok(());
                }
                if kind == Kind::Directory {
                    pending.push((ino, path));
                }
            }
        }
        Ok(())
    }
}

/// What is in a directory, but for itself and its parent.
fn entries(volume: &Volume<Lfs>, directory: InodeNo) -> Result<Vec<(InodeNo, String, Kind)>, FsError> {
    let mut all = Vec::new();
    let mut cookie = 0;
    loop {
        let found = volume.run_quietly(|vfs, now| {
            let mut found = Vec::new();
            vfs.readdir(now, directory, cookie, &mut |entry| {
                let name = String::from_utf8_lossy(entry.name).into_owned();
                found.push((entry.next, entry.ino, name, entry.kind));
                found.len() < 1024
            })?;
            Ok(found)
        })?;
        let Some((next, ..)) = found.last() else { return Ok(all) };
        cookie = *next;
        let named = found.into_iter().filter(|(_, _, name, _)| name != "." && name != "..");
        all.extend(named.map(|(_, ino, name, kind)| (ino, name, kind)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_a_segment_add_up_to_its_live_bytes() {
        let paths = BTreeMap::from([(2, Some("(inode map)".to_owned())), (9, Some("/a".to_owned()))]);
        let live = BTreeMap::from([(2, 4096), (9, 8192)]);
        let shown = |segment_bytes, rest| -> Vec<(String, u64)> {
            let rows = rows(live.clone(), &paths, segment_bytes, rest);
            rows.into_iter().map(|row| (row.path.unwrap(), row.live_bytes)).collect()
        };
        let [map, file] = [("(inode map)".to_owned(), 4096), ("/a".to_owned(), 8192)];
        assert_eq!(shown(12_288, Rest::Kept), [file.clone(), map.clone()]);
        // A segment may have become cleaner between two questions.
        assert_eq!(shown(0, Rest::Kept), [file.clone(), map.clone()]);
        let kept = ("(kept by snapshots and history)".to_owned(), 1_036_288);
        assert_eq!(shown(1_048_576, Rest::Kept), [kept, file.clone(), map.clone()]);
        let replaced = ("(replaced in memory, not written yet)".to_owned(), 100);
        assert_eq!(shown(12_388, Rest::Replaced), [file, map, replaced]);
    }
}
