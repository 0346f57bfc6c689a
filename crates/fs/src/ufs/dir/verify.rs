//! Checks a whole directory: records, counts, and that the index holds exactly the entries.
//!
//! Callers: checkers and tests. It reads everything, so all blocks should be at hand or the directory of bearable size.

use super::{DirView, block, corrupt, in_block, inline, place_of, view};
use crate::error::Outcome;
use crate::store::Store;
use crate::ufs::{dirent, index};
use firnfs_format::InodeNo;

/// Verifies a directory.
///
/// # Errors
/// `Corrupt` for the first thing that is wrong; `Need`, `NotFound`, `NotDirectory`.
pub fn verify<S: Store>(store: &mut S, ino: InodeNo) -> Outcome<()> {
    let dir = view(store, ino)?;
    let entries = collect(store, &dir)?;
    let used_bytes: u64 = entries.iter().map(|entry| entry.used_bytes).sum();
    if (entries.len() as u64, used_bytes) != (dir.entries, dir.entry_bytes) {
        let expected = format!("{} entries in {} bytes", dir.entries, dir.entry_bytes);
        return Err(corrupt(ino, "counts", &expected, format!("{} in {used_bytes}", entries.len())));
    }
    let mut names: Vec<&[u8]> = entries.iter().map(|entry| entry.name.as_slice()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(corrupt(ino, "names", "each name once", twice[0].escape_ascii().to_string()));
    }
    if dir.index_blocks == 0 {
        return Ok(());
    }
    let mut indexed = Vec::new();
    index::walk(store, ino, dir.index_blocks, &mut |hash, place| indexed.push((hash, place)))?;
    let key = store.facts().hash_key;
    let mut expected: Vec<_> =
        entries.iter().map(|entry| (index::hash(key, &entry.name), place_of(entry.at_bytes))).collect();
    expected.sort_unstable();
    indexed.sort_unstable();
    if expected != indexed {
        let (expected, found) = (format!("{} entries", expected.len()), format!("{} pairs", indexed.len()));
        return Err(corrupt(ino, "index", &expected, found));
    }
    Ok(())
}

struct Entry {
    name: Vec<u8>,
    at_bytes: u64,
    used_bytes: u64,
}

fn collect<S: Store>(store: &mut S, dir: &DirView) -> Outcome<Vec<Entry>> {
    let mut entries = Vec::new();
    if dir.is_inline {
        let content = inline(store, dir.ino)?.to_vec();
        collect_block(dir, 0, &content, &mut entries)?;
    }
    for at in 0..dir.blocks() {
        let bytes = block(store, dir, at)?;
        collect_block(dir, at, &bytes, &mut entries)?;
    }
    Ok(entries)
}

fn collect_block(dir: &DirView, at: u64, bytes: &[u8], entries: &mut Vec<Entry>) -> Outcome<()> {
    for record in dirent::records(bytes) {
        let checked = record.and_then(|record| record.check_name().map(|()| record));
        let record = in_block(checked, dir.ino, at)?;
        if !record.is_free() {
            in_block(record.kind(), dir.ino, at)?;
            let at_bytes = at * u64::from(dir.block_bytes) + record.at as u64;
            let (name, used_bytes) = (record.name.to_vec(), record.used_bytes() as u64);
            entries.push(Entry { name, at_bytes, used_bytes });
        }
    }
    Ok(())
}
