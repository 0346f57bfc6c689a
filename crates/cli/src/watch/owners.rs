//! The files with live blocks in a segment, by path.
//!
//! The daemon knows inodes (`segment_read` and `bmapv` of the cleaner's port). Paths are found by walking the mount as any
//! program would, for at most [`WALK_MOST`]: an owner whose path was not found by then is shown by its inode. What no file has
//! now gets a row of its own, so that the rows add up to the live bytes of the segment.

use crate::history::service::{HISTORY_OP, HistoryView};
use crate::port::wire::{Contents, Segments};
use firnfs_fuse::control::{Client, ClientError};
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
    let mut paths: BTreeMap<u64, Option<String>> = live.keys().map(|ino| (*ino, None)).collect();
    for (ino, name) in TABLES {
        if let Some(path) = paths.get_mut(&ino) {
            *path = Some(name.to_owned());
        }
    }
    find_paths(mountpoint, &mut paths);
    let segment_bytes = segment_live_bytes(client, segment)?;
    let history: HistoryView = client.ask(HISTORY_OP, json!({}))?;
    let rest = if history.points.is_empty() { Rest::Replaced } else { Rest::Kept };
    Ok(rows(live, &paths, segment_bytes, rest))
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
        for (block, place) in contents.blocks.iter().zip(places) {
            if place == Some(block.addr) {
                *live.entry(block.ino).or_insert(0) += block.bytes;
            }
        }
        from = contents.next;
    }
    Ok(live)
}

/// Walks the mount until all inodes have a path, or the time is over.
fn find_paths(mountpoint: &Path, paths: &mut BTreeMap<u64, Option<String>>) {
    let end = Instant::now() + WALK_MOST;
    let mut missing = paths.values().filter(|path| path.is_none()).count();
    let Ok(root) = std::fs::metadata(mountpoint) else { return };
    let mut note = |ino: u64, path: &Path| {
        let found = paths.get_mut(&ino).filter(|known| known.is_none());
        if let Some(known) = found {
            let inner = path.strip_prefix(mountpoint).unwrap_or(path);
            *known = Some(format!("/{}", inner.display()));
            missing -= 1;
        }
        missing > 0
    };
    if !note(root.ino(), mountpoint) {
        return;
    }
    let mut pending: Vec<PathBuf> = vec![mountpoint.to_owned()];
    while let Some(directory) = pending.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            if Instant::now() >= end || !note(entry.ino(), &entry.path()) {
                return;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push(entry.path());
            }
        }
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
