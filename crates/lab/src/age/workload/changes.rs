//! What happened between two snapshots (section 3.2): files created, deleted, modified and replaced.
//!
//! Times: a create and a change have the time in the inode. A delete leaves none, so it gets a random time between the two
//! snapshots. The same number with another generation is another file: the old one is deleted just before the new one is made.

use super::{Act, Event, ROOT};
use crate::age::snapshot::{DIRECTORY, Entry, Extent, REGULAR, Snapshot};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// The inode number of the root of a snapshot.
pub(super) fn root_of(snapshot: &Snapshot) -> Option<u64> {
    let mut roots = snapshot.files.iter().filter(|(_, entry)| entry.dir == 0 && entry.kind == DIRECTORY);
    roots.next().map(|(&ino, _)| ino)
}

/// The directory of a file, as the workload numbers it.
fn dir_of(entry: &Entry, root: Option<u64>) -> u64 {
    if entry.dir == 0 || Some(entry.dir) == root { ROOT } else { entry.dir }
}

fn is_regular(entry: &Entry) -> bool {
    entry.kind == REGULAR
}

/// The files of the first snapshot, in the order of their last changes.
pub(super) fn populate(first: &Snapshot) -> Vec<Event> {
    let root = root_of(first);
    let regular = first.files.iter().filter(|(_, entry)| is_regular(entry));
    let create = |(&file, entry): (&u64, &Entry)| {
        let time_ns = entry.ctime_ns.min(first.meta.taken_ns);
        Event { time_ns, dir: dir_of(entry, root), file, act: Act::Create { size_bytes: entry.size_bytes } }
    };
    let mut events: Vec<Event> = regular.map(create).collect();
    events.sort_by_key(|event| (event.time_ns, event.file));
    events
}

/// The changes between two neighbours, in the order of time. Directories that are gone are removed at the end.
pub(super) fn between(old: &Snapshot, new: &Snapshot, rng: &mut Pcg64Mcg) -> Vec<Event> {
    let roots = (root_of(old), root_of(new));
    let (from_ns, to_ns) = (old.meta.taken_ns, new.meta.taken_ns.max(old.meta.taken_ns));
    let at = |entry: &Entry| entry.ctime_ns.clamp(from_ns, to_ns);
    let mut events = Vec::new();
    let mut gone = Vec::new();
    for (&file, before) in &old.files {
        let after = new.files.get(&file).filter(|after| is_same(before, after));
        let dir = dir_of(before, roots.0);
        if before.kind == DIRECTORY && after.is_none() && Some(file) != roots.0 {
            gone.push(Event { time_ns: to_ns, dir: file, file, act: Act::RemoveDirectory });
        }
        if !is_regular(before) {
            continue;
        }
        match (after, new.files.get(&file)) {
            (Some(after), _) => {
                let time_ns = at(after);
                let to_dir = dir_of(after, roots.1);
                if to_dir != dir {
                    events.push(Event { time_ns, dir, file, act: Act::Move { to_dir } });
                }
                if let Some(act) = change(before, after, to_dir != dir) {
                    events.push(Event { time_ns, dir: to_dir, file, act });
                }
            }
            // Replaced: deleted immediately before the other one is made.
            (None, Some(after)) if is_regular(after) => {
                events.push(Event { time_ns: at(after), dir, file, act: Act::Delete });
            }
            (None, _) => {
                let time_ns = if to_ns > from_ns { rng.random_range(from_ns..to_ns) } else { to_ns };
                events.push(Event { time_ns, dir, file, act: Act::Delete });
            }
        }
    }
    for (&file, after) in new.files.iter().filter(|(_, after)| is_regular(after)) {
        if old.files.get(&file).is_none_or(|before| !is_same(before, after)) {
            let act = Act::Create { size_bytes: after.size_bytes };
            events.push(Event { time_ns: at(after), dir: dir_of(after, roots.1), file, act });
        }
    }
    // Stable: a delete stays before the create that replaces the file.
    events.sort_by_key(|event| event.time_ns);
    events.extend(gone);
    events
}

/// Whether two entries of a number are one file: same type and generation.
fn is_same(before: &Entry, after: &Entry) -> bool {
    (before.kind, before.generation) == (after.kind, after.generation)
}

/// What was done to a file; `None` if nothing. A snapshot does not say which bytes were written: a file that grew and kept its blocks was
/// appended to; one that kept size and blocks changed its attributes alone; any other was written anew.
fn change(before: &Entry, after: &Entry, has_moved: bool) -> Option<Act> {
    let is_mapped = !before.extents.is_empty() || before.size_bytes == 0;
    let keeps_all = is_mapped && before.extents == after.extents;
    if before.size_bytes == after.size_bytes && (keeps_all || before.ctime_ns == after.ctime_ns) {
        let is_touched = before.ctime_ns != after.ctime_ns && !has_moved;
        return is_touched.then_some(Act::Touch);
    }
    let size_bytes = after.size_bytes;
    let keeps_start = !is_mapped || starts_with(&after.extents, &before.extents);
    Some(match size_bytes > before.size_bytes && keeps_start {
        true => Act::Grow { from_bytes: before.size_bytes, size_bytes },
        false => Act::Rewrite { size_bytes },
    })
}

/// Whether blocks stayed where they were, the last one excepted, which moves when it becomes whole.
fn starts_with(after: &[Extent], before: &[Extent]) -> bool {
    const LONGEST_BLOCK_BYTES: u64 = 64 << 10;
    let Some((last, whole)) = before.split_last() else { return true };
    if !after.starts_with(whole) {
        return false;
    }
    after.get(whole.len()).map_or(last.len_bytes <= LONGEST_BLOCK_BYTES, |now| {
        let is_there = (now.file_at_bytes, now.disk_at_bytes) == (last.file_at_bytes, last.disk_at_bytes);
        let is_kept = is_there && now.len_bytes.saturating_add(LONGEST_BLOCK_BYTES) >= last.len_bytes;
        is_kept || last.len_bytes <= LONGEST_BLOCK_BYTES
    })
}
