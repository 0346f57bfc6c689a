//! Checks a whole directory: records, counts, and that the index holds exactly the entries.
//!
//! Callers: checkers and tests. It reads everything, so all blocks should be in memory, or the directory should be
//! small.

use super::{DirView, block, corrupt, in_block, inline, place_of, view};
use crate::dirent::{self, Record};
use crate::error::Outcome;
use crate::store::Store;
use crate::ufs::index;
use firnfs_format::InodeNo;

/// Verifies a directory.
///
/// # Errors
/// `Corrupt` for the first error; `Need`, `NotFound`, `NotDirectory`.
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

/// Hands out all entries of a directory, in order, with their offsets in its content. Reads the whole directory.
///
/// # Errors
/// `Corrupt` for the first record that violates the grammar; `Need`, `NotFound`.
pub fn each_entry<S: Store>(
    store: &mut S,
    dir: &DirView,
    visit: &mut dyn FnMut(&Record<'_>, u64),
) -> Outcome<()> {
    let mut each = |at: u64, bytes: &[u8]| -> Outcome<()> {
        for record in dirent::records(bytes) {
            let record = in_block(record, dir.ino, at)?;
            if !record.is_free() {
                visit(&record, at * u64::from(dir.block_bytes) + record.at as u64);
            }
        }
        Ok(())
    };
    if dir.is_inline {
        let content = inline(store, dir.ino)?.to_vec();
        return each(0, &content);
    }
    (0..dir.blocks()).try_for_each(|at| each(at, &block(store, dir, at)?))
}

struct Entry {
    name: Vec<u8>,
    at_bytes: u64,
    used_bytes: u64,
}

fn collect<S: Store>(store: &mut S, dir: &DirView) -> Outcome<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut wrong = None;
    each_entry(store, dir, &mut |record, at_bytes| {
        if let Err(error) = record.check_name().and_then(|()| record.kind()) {
            wrong.get_or_insert((error, at_bytes / u64::from(dir.block_bytes)));
        }
        let (name, used_bytes) = (record.name.to_vec(), record.used_bytes() as u64);
        entries.push(Entry { name, at_bytes, used_bytes });
    })?;
    match wrong {
        Some((error, at)) => in_block(Err(error), dir.ino, at),
        None => Ok(entries),
    }
}
