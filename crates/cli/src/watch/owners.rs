//! The files with live blocks in a segment, by path.
//!
//! The daemon knows inodes (`segment_read` and `bmapv` of the cleaner's port). Paths are found by walking the mount as any
//! program would, for at most [`WALK_MOST`]: an owner whose path was not found by then is shown by its inode.

use crate::port::wire::Contents;
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
    let owner = |(ino, live_bytes)| Owner { path: paths.get(&ino).cloned().flatten(), ino, live_bytes };
    let mut owners: Vec<Owner> = live.into_iter().map(owner).collect();
    owners.sort_by_key(|owner| std::cmp::Reverse(owner.live_bytes));
    Ok(owners)
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
