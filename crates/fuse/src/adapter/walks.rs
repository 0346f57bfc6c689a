//! Which listings carry the attributes of files.
//!
//! The kernel wants attributes with the first part of each listing, since it does not know what the program will do. With them it makes an
//! inode for each name, and the volume reads one: for a program that looks at names alone, as find(1) with `-name` does, that is most
//! of the work. For one that goes on to each file, as `ls -l` and tar(1) do, they spare a LOOKUP for each. So a listing that comes alone has
//! the attributes of files. One that soon follows another is part of a walk through a tree: it has those of directories only, and if LOOKUPs
//! of the files in it follow, the next ones have those of files, too; now and then one is a probe again.
//!
//! Invariant: what is missing costs a LOOKUP, never a wrong answer. Callers: `listing`, `names`.

use firnfs_format::InodeNo;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A listing that comes later after the one before it comes alone.
const SOON: Duration = Duration::from_millis(100);
/// Listed directories of which LOOKUPs are noticed: programs that walk side by side each have a last one.
const WATCHED: usize = 8;
/// Listings of which is remembered what was decided, because they may be tried again: those that wait at a time, mostly.
const TRIED: usize = 16;
/// LOOKUPs that have to follow at least.
const LOOKUPS_LEAST: u32 = 8;
/// Files listed without attributes from which on what was noticed before counts half.
const FORGET_FILES: u32 = 512;
/// Listings with attributes of files until the next probe.
const LISTINGS_UNTIL_PROBE: u32 = 64;

/// See the module's head.
#[derive(Default)]
pub(super) struct Walks {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: Option<Instant>,
    /// Requests, and whether they have the attributes of files.
    tried: VecDeque<(u64, bool)>,
    watched: VecDeque<InodeNo>,
    /// Files listed without attributes, and LOOKUPs of files where that was.
    files: u32,
    lookups: u32,
    /// Listings that still have the attributes of files.
    with_files: u32,
}

impl Walks {
    /// True if a listing from that offset on is to have the attributes of files. The kernel asks for later parts only if LOOKUPs followed
    /// the first. A request that had to wait and is tried again gets the same answer.
    pub fn wants_files(&self, request: u64, offset: u64, now: Instant) -> bool {
        if offset > 0 {
            return true;
        }
        let mut state = self.state.lock();
        if let Some((_, answer)) = state.tried.iter().find(|(tried, _)| *tried == request) {
            return *answer;
        }
        let is_alone = state.last.replace(now).is_none_or(|last| now.duration_since(last) > SOON);
        let is_walk_over_files = state.with_files > 0;
        state.with_files = state.with_files.saturating_sub(1);
        let answer = is_alone || is_walk_over_files;
        state.tried.truncate(TRIED - 1);
        state.tried.push_front((request, answer));
        answer
    }

    /// Notes a listing without the attributes of so many files.
    pub fn note_listed(&self, dir: InodeNo, files: u32) {
        let mut state = self.state.lock();
        if state.files > FORGET_FILES {
            state.files /= 2;
            state.lookups /= 2;
        }
        state.files = state.files.saturating_add(files);
        state.watched.retain(|watched| *watched != dir);
        state.watched.truncate(WATCHED - 1);
        state.watched.push_front(dir);
    }

    /// Notes a LOOKUP of a file in a directory.
    pub fn note_lookup(&self, dir: InodeNo) {
        let mut state = self.state.lock();
        if !state.watched.contains(&dir) {
            return;
        }
        state.lookups += 1;
        if state.lookups >= LOOKUPS_LEAST && state.lookups * 2 >= state.files {
            let (last, tried) = (state.last, std::mem::take(&mut state.tried));
            *state = State { last, tried, with_files: LISTINGS_UNTIL_PROBE, ..State::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: u32 = 14;

    /// Lists directories; after each listing without attributes, looks up so many of its files. Returns how many listings had attributes.
    fn walk(walks: &Walks, directories: std::ops::Range<u64>, lookups: u32) -> u32 {
        let mut with_files = 0;
        let now = Instant::now();
        walks.wants_files(directories.end, 0, now);
        for dir in directories.map(InodeNo) {
            if walks.wants_files(dir.0, 0, now) {
                with_files += 1;
            } else {
                walks.note_listed(dir, FILES);
                (0..lookups).for_each(|_| walks.note_lookup(dir));
            }
        }
        with_files
    }

    #[test]
    fn names_alone_bring_no_attributes_and_lookups_of_most_files_do() {
        let walks = Walks::default();
        assert_eq!(walk(&walks, 0..500, 0), 0);
        // One file of each directory, as programs do that look for one name.
        assert_eq!(walk(&walks, 500..1000, 1), 0);
        let with = walk(&walks, 1000..2000, FILES);
        assert!((900..990).contains(&with), "{with}");
        // A walk over names alone ends it at the next probe.
        assert!(walk(&walks, 2000..3000, 0) <= LISTINGS_UNTIL_PROBE);
        assert!(walks.wants_files(5000, 1, Instant::now()), "the kernel has seen LOOKUPs");
    }

    #[test]
    fn a_listing_that_comes_alone_has_attributes() {
        let (walks, now) = (Walks::default(), Instant::now());
        let after_ms = |(request, ms)| walks.wants_files(request, 0, now + Duration::from_millis(ms));
        let requests = [(1, 0), (2, 50), (3, 100), (4, 250), (5, 251)];
        assert_eq!(requests.map(after_ms), [true, false, false, true, false]);
        // Tried again, as often and whenever it may be.
        let again = [(6, 400), (6, 401), (7, 402), (6, 403), (6, 900), (7, 901), (8, 902)];
        assert_eq!(again.map(after_ms), [true, true, false, true, true, false, true]);
        (0..1000).for_each(|request| _ = walks.wants_files(100 + request, 0, now));
        assert!(walks.state.lock().tried.len() <= TRIED);
    }

    #[test]
    fn lookups_elsewhere_do_not_count() {
        let (walks, now) = (Walks::default(), Instant::now());
        walks.wants_files(1, 0, now);
        walks.note_listed(InodeNo(1), FILES);
        (0..1000).for_each(|dir| walks.note_lookup(InodeNo(2 + dir)));
        assert!(!walks.wants_files(2, 0, now));
        // Several walkers at once.
        (10..14).for_each(|dir| walks.note_listed(InodeNo(dir), FILES));
        (10..14).for_each(|dir| (0..FILES).for_each(|_| walks.note_lookup(InodeNo(dir))));
        assert!(walks.wants_files(3, 0, now));
    }
}
