//! Which files and directories may be scattered: hints from users' reads, lookups and overwrites, in bounded memory.
//!
//! - A read from the device that crosses seams ([`crate::clean::scatter`]) marks its file. If a reader begins again at the same
//!   place and crosses them, that counts as another reading: seams seen twice go first.
//! - An overwrite of existing content marks its file as not yet read.
//! - If small files of a directory are looked up or read one after the other, each at another place, they mark the directory.
//!
//! Invariants: these are only hints, coalescing checks the blocks themselves; memory is at most [`MARKS_MAX`] marks and a few
//! streams; taking a note costs no I/O. Callers: `store` and `Vfs::lookup` (through the seam) take notes, `coalesce` uses them.

use crate::clean::scatter::{Evidence, Grid, Stretch};
use firnfs_format::{InodeNo, SectorAddr, TimeNs};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Files and directories remembered.
const MARKS_MAX: usize = 1024;
/// Files read in sequence at the same time, and directories walked.
const STREAMS_MAX: usize = 16;
/// Files whose directory is remembered: several times what one reading of a directory returns.
const CHILDREN_MAX: usize = 1024;
/// Crossings between files that make a directory a candidate.
const WALK_SEAMS_MIN: u64 = 8;

/// A file or directory that may be put in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lfs) enum Target {
    /// The blocks of a file.
    File(InodeNo),
    /// The small files of a directory.
    Directory(InodeNo),
}

impl Target {
    pub(in crate::lfs) fn ino(self) -> InodeNo {
        let (Self::File(ino) | Self::Directory(ino)) = self;
        ino
    }
}

/// The notes about a file or directory.
#[derive(Clone, Copy, Debug)]
struct Mark {
    target: Target,
    /// When it was last noted, counted in notes.
    stamp: u64,
    /// Seams crossed since it was last worked on.
    seams: u64,
    /// How often a reader began to cross them.
    readings: u8,
    /// Where the present reading began: a block, or a file of a directory.
    began_at: u64,
    /// How often it was put in order.
    times: u32,
    /// Noted since it was last worked on.
    is_due: bool,
    /// Not examined before this time.
    not_before: TimeNs,
}

/// A file that is being read in sequence.
struct Stream {
    ino: InodeNo,
    next_block: u64,
    stretch: Stretch,
}

/// A directory whose files are read one after the other: records and contents lie in different logs.
struct Walk {
    dir: InodeNo,
    records: Stretch,
    contents: Stretch,
}

/// See the module's head.
#[derive(Default)]
pub(in crate::lfs) struct Seams {
    marks: BTreeMap<InodeNo, Mark>,
    by_stamp: BTreeMap<u64, InodeNo>,
    /// Marks that are due, by the time from which on they are.
    due: BTreeSet<(TimeNs, InodeNo)>,
    stamp: u64,
    streams: VecDeque<Stream>,
    walks: VecDeque<Walk>,
    /// Files and the directories that they were found in last, and in which order they were found first.
    children: FxHashMap<InodeNo, InodeNo>,
    children_order: VecDeque<InodeNo>,
    /// Inodes whose records came from the device since they were found last.
    fetched: FxHashSet<InodeNo>,
    /// The file overwritten last, if it is due: the next overwrite is usually of the same file.
    overwritten: Option<InodeNo>,
}

impl Seams {
    /// Notes a read of blocks of a file, from `first_block` on: for each its place on the device, `None` if it is not read from
    /// there.
    pub(in crate::lfs) fn note_read(
        &mut self,
        grid: &Grid,
        ino: InodeNo,
        first_block: u64,
        places: impl Iterator<Item = Option<(SectorAddr, u8)>>,
    ) {
        let mut stretch = self.take_stream(ino, first_block);
        let mut block = first_block;
        let (mut crossed, mut crossed_at) = (0, 0);
        let mut start = None;
        for place in places {
            match place {
                None => stretch.interrupt(),
                Some((addr, len_sectors)) => {
                    if stretch.add(grid, addr, len_sectors) {
                        crossed_at = if crossed == 0 { block } else { crossed_at };
                        crossed += 1;
                    }
                    start = start.or(Some((addr, len_sectors)));
                }
            }
            block += 1;
        }
        self.streams.push_back(Stream { ino, next_block: block, stretch });
        if self.streams.len() > STREAMS_MAX {
            self.streams.pop_front();
        }
        if crossed > 0 {
            self.cross(Target::File(ino), crossed, crossed_at, |at, began_at| at <= began_at);
        }
        if first_block == 0
            && let Some((addr, len_sectors)) = start
            && let Some(&dir) = self.children.get(&ino)
        {
            self.visit(grid, dir, ino, addr, len_sectors, |walk| &mut walk.contents);
        }
    }

    /// The stretch of a stream that continues at that block (or within it, since reads need not end at block boundaries), or
    /// a new one.
    fn take_stream(&mut self, ino: InodeNo, first_block: u64) -> Stretch {
        let goes_on = |s: &Stream| s.ino == ino && s.next_block.wrapping_sub(first_block) <= 1;
        let found = self.streams.iter().position(goes_on).and_then(|at| self.streams.remove(at));
        // The second read touches the last block of the first one again, and the head is still there: no seam.
        found
            .filter(|stream| stream.next_block == first_block)
            .map(|stream| stream.stretch)
            .unwrap_or_default()
    }

    /// Notes an overwrite of existing content of a file.
    pub(in crate::lfs) fn note_overwrite(&mut self, ino: InodeNo) {
        if self.overwritten != Some(ino) {
            let mark = self.mark(Target::File(ino));
            self.set(Mark { is_due: true, ..mark });
            self.overwritten = Some(ino);
        }
    }

    /// Notes that an inode's record came from the device.
    pub(in crate::lfs) fn note_fetched(&mut self, ino: InodeNo) {
        if self.fetched.len() >= CHILDREN_MAX {
            self.fetched.clear();
        }
        self.fetched.insert(ino);
    }

    /// Notes that a lookup found an inode, whose record is at that place, in a directory.
    pub(in crate::lfs) fn note_child(
        &mut self,
        grid: &Grid,
        dir: InodeNo,
        ino: InodeNo,
        record: (SectorAddr, u8),
    ) {
        if self.children.insert(ino, dir).is_none() {
            self.children_order.push_back(ino);
            if self.children_order.len() > CHILDREN_MAX
                && let Some(oldest) = self.children_order.pop_front()
            {
                self.children.remove(&oldest);
            }
        }
        if self.fetched.remove(&ino) {
            self.visit(grid, dir, ino, record.0, record.1, |walk| &mut walk.records);
        }
    }

    /// Notes that a file of a directory is read at that place.
    fn visit(
        &mut self,
        grid: &Grid,
        dir: InodeNo,
        ino: InodeNo,
        addr: SectorAddr,
        len_sectors: u8,
        stream: impl Fn(&mut Walk) -> &mut Stretch,
    ) {
        let found = self.walks.iter().position(|walk| walk.dir == dir).and_then(|at| self.walks.remove(at));
        let fresh = Walk { dir, records: Stretch::default(), contents: Stretch::default() };
        let mut walk = found.unwrap_or(fresh);
        let is_seam = stream(&mut walk).add(grid, addr, len_sectors);
        self.walks.push_back(walk);
        if self.walks.len() > STREAMS_MAX {
            self.walks.pop_front();
        }
        if is_seam {
            self.cross(Target::Directory(dir), 1, ino.0, |at, began_at| at == began_at);
        }
    }

    /// Notes that a reader crossed seams, the first of them at `at`; `begins_again` decides from `at` and the start of the
    /// present reading whether another reading begins.
    fn cross(&mut self, target: Target, seams: u64, at: u64, begins_again: impl Fn(u64, u64) -> bool) {
        let mut mark = self.mark(target);
        if mark.readings == 0 || begins_again(at, mark.began_at) {
            mark.readings = mark.readings.saturating_add(1);
            mark.began_at = at;
        }
        mark.seams += seams;
        mark.is_due = matches!(target, Target::File(_)) || mark.seams >= WALK_SEAMS_MIN;
        self.set(mark);
    }

    /// The mark of a target, for the caller to change and to [`Seams::set`]. If there are too many, the mark noted longest
    /// ago is dropped.
    fn mark(&mut self, target: Target) -> Mark {
        let ino = target.ino();
        self.stamp += 1;
        let stamp = self.stamp;
        match self.marks.get(&ino) {
            Some(old) if old.target == target => return Mark { stamp, ..*old },
            // The number was reused for an inode of another kind.
            Some(_) => self.forget(ino),
            None => {}
        }
        if self.marks.len() >= MARKS_MAX
            && let Some((_, &oldest)) = self.by_stamp.first_key_value()
        {
            self.forget(oldest);
        }
        Mark {
            target,
            stamp,
            seams: 0,
            readings: 0,
            began_at: 0,
            times: 0,
            is_due: false,
            not_before: TimeNs::default(),
        }
    }

    fn set(&mut self, mark: Mark) {
        let ino = mark.target.ino();
        if let Some(old) = self.marks.insert(ino, mark) {
            self.by_stamp.remove(&old.stamp);
            self.due.remove(&(old.not_before, ino));
        }
        self.by_stamp.insert(mark.stamp, ino);
        if mark.is_due {
            self.due.insert((mark.not_before, ino));
        }
    }

    /// Drops the notes about an inode.
    pub(in crate::lfs) fn forget(&mut self, ino: InodeNo) {
        if let Some(mark) = self.marks.remove(&ino) {
            self.by_stamp.remove(&mark.stamp);
            self.due.remove(&(mark.not_before, ino));
        }
        self.overwritten = None;
    }

    /// The target to examine first, and the evidence for it: those read twice or more, then those read once, then those
    /// overwritten; among these the one with most seams, then the one noted first. `None` if nothing is due now.
    pub(in crate::lfs) fn next(&self, now: TimeNs) -> Option<(Target, Evidence)> {
        let due = self.due.range(..=(now, InodeNo(u64::MAX))).filter_map(|(_, ino)| self.marks.get(ino));
        let first = due.max_by_key(|m| (m.readings.min(2), m.seams, std::cmp::Reverse(m.stamp)))?;
        let evidence =
            if first.readings == 0 { Evidence::Overwritten } else { Evidence::Crossed(first.readings) };
        Some((first.target, evidence))
    }

    /// How long until a target is due, in milliseconds; `None` if there is none.
    pub(in crate::lfs) fn due_in_ms(&self, now: TimeNs) -> Option<u64> {
        self.due.first().map(|(from, _)| from.millis_since(now))
    }

    /// How often a target was put in order already.
    pub(in crate::lfs) fn times(&self, ino: InodeNo) -> u32 {
        self.marks.get(&ino).map_or(0, |m| m.times)
    }

    /// Postpones a target.
    pub(in crate::lfs) fn postpone(&mut self, ino: InodeNo, until: TimeNs) {
        self.again(ino, false, until);
    }

    /// As [`Seams::done`], but a part of the target had changed too recently: it is due again from that time on, for the same
    /// reason.
    pub(in crate::lfs) fn again(&mut self, ino: InodeNo, was_moved: bool, not_before: TimeNs) {
        if let Some(mark) = self.marks.get(&ino) {
            self.set(Mark { times: mark.times + u32::from(was_moved), not_before, ..*mark });
        }
    }

    /// Notes that a target was examined, and, if `was_moved`, put in order. It is left alone until it is noted again.
    pub(in crate::lfs) fn done(&mut self, ino: InodeNo, was_moved: bool) {
        self.overwritten = None;
        if let Some(mark) = self.marks.get(&ino) {
            let times = mark.times + u32::from(was_moved);
            self.set(Mark { times, seams: 0, readings: 0, began_at: 0, is_due: false, ..*mark });
        }
    }
}

#[cfg(test)]
#[path = "seams_tests.rs"]
mod tests;
