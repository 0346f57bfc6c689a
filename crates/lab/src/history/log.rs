//! Versions of blocks in the segments of a log. No policy, and no knowledge of points.
//!
//! A *version* is what one write of a block left, until nobody needs it any more; it has one place. Invariants: the owner of a
//! version's place is that version; `held` of a segment counts its versions; a closed segment without versions is clean.
//! Caller: [`super::engine`].

use firnfs::clean::Candidate;
use firnfs_format::{SegmentId, TimeNs};
use std::collections::VecDeque;

/// No version, or no place.
pub(super) const NONE: u32 = u32::MAX;

/// Why a version is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Users see it.
    Present,
    /// Only points see it.
    Past,
    /// A block of the tables.
    Table,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub kind: Kind,
    /// When it was written, in blocks written by users.
    pub born: u32,
    /// When the cleaner moved it.
    pub moved: Vec<u32>,
    place: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Clean,
    Open,
    Closed,
}

#[derive(Clone, Copy)]
struct Segment {
    state: State,
    log: u8,
    held: u32,
    written: u32,
    youngest: u32,
}

/// A version on its way from a victim to a log, and the place that it leaves.
pub(super) struct Leaving {
    pub version: u32,
    pub from: u32,
    pub log: u8,
}

/// See the module's head.
pub(super) struct Log {
    segment_blocks: u32,
    pub versions: Vec<Version>,
    unused: Vec<u32>,
    owner: Vec<u32>,
    segments: Vec<Segment>,
    pub clean: VecDeque<u32>,
    /// For each log the next place, and the end of its segment.
    open: Vec<(u32, u32)>,
    /// Versions of each kind.
    counts: [u64; 3],
}

impl Log {
    pub fn new(segments: u32, segment_blocks: u32, logs: u8) -> Self {
        let clean = Segment { state: State::Clean, log: 0, held: 0, written: 0, youngest: 0 };
        Self {
            segment_blocks,
            versions: Vec::new(),
            unused: Vec::new(),
            owner: vec![NONE; segments as usize * segment_blocks as usize],
            segments: vec![clean; segments as usize],
            clean: (0..segments).collect(),
            open: vec![(0, 0); usize::from(logs)],
            counts: [0; 3],
        }
    }

    /// Versions of that kind.
    pub fn count(&self, kind: Kind) -> u64 {
        self.counts[kind as usize]
    }

    /// True if the log's next block needs a new segment.
    pub fn is_full(&self, log: u8) -> bool {
        let (next, end) = self.open[usize::from(log)];
        next == end
    }

    /// A new version at the end of a log. There must be a clean segment if the log [`Log::is_full`].
    pub fn write(&mut self, log: u8, kind: Kind, now: u32) -> u32 {
        let version = Version { kind, born: now, moved: Vec::new(), place: NONE };
        let number = match self.unused.pop() {
            Some(number) => {
                self.versions[number as usize] = version;
                number
            }
            None => {
                self.versions.push(version);
                self.versions.len() as u32 - 1
            }
        };
        self.counts[kind as usize] += 1;
        self.append(log, number, now);
        number
    }

    /// Puts a version that has no place at the end of a log; returns its place.
    pub fn append(&mut self, log: u8, version: u32, now: u32) -> u32 {
        if self.is_full(log) {
            let segment = self.clean.pop_front().expect("the engine keeps clean segments at hand");
            let first = segment * self.segment_blocks;
            self.open[usize::from(log)] = (first, first + self.segment_blocks);
            self.segments[segment as usize] =
                Segment { state: State::Open, log, held: 0, written: 0, youngest: 0 };
        }
        let (next, end) = &mut self.open[usize::from(log)];
        let place = *next;
        *next += 1;
        let is_last = next == end;
        let segment = &mut self.segments[(place / self.segment_blocks) as usize];
        segment.held += 1;
        segment.youngest = segment.youngest.max(self.versions[version as usize].born);
        self.owner[place as usize] = version;
        self.versions[version as usize].place = place;
        if is_last {
            segment.state = State::Closed;
            segment.written = now;
            self.clean_if_empty(place / self.segment_blocks);
        }
        place
    }

    /// Users do not see the version any more, but a point does.
    pub fn pass_away(&mut self, version: u32) {
        self.counts[self.versions[version as usize].kind as usize] -= 1;
        self.versions[version as usize].kind = Kind::Past;
        self.counts[Kind::Past as usize] += 1;
    }

    /// Nobody needs the version any more.
    pub fn drop(&mut self, version: u32) {
        let Version { kind, place, .. } = self.versions[version as usize];
        self.counts[kind as usize] -= 1;
        self.owner[place as usize] = NONE;
        self.unused.push(version);
        let segment = place / self.segment_blocks;
        self.segments[segment as usize].held -= 1;
        self.clean_if_empty(segment);
    }

    /// Takes all versions out of a closed segment, in the order of their places.
    pub fn evacuate(&mut self, segment: u32, now: u32, leaving: &mut Vec<Leaving>) {
        let log = self.segments[segment as usize].log;
        let first = segment * self.segment_blocks;
        for from in first..first + self.segment_blocks {
            let version = std::mem::replace(&mut self.owner[from as usize], NONE);
            if version != NONE {
                self.versions[version as usize].moved.push(now);
                leaving.push(Leaving { version, from, log });
            }
        }
        self.segments[segment as usize].held = 0;
        self.clean_if_empty(segment);
    }

    /// Closed segments. A block counts as one byte, and one block written by users as one nanosecond.
    pub fn candidates(&self) -> impl Iterator<Item = Candidate> + Clone + '_ {
        let closed = self.segments.iter().enumerate().filter(|(_, segment)| segment.state == State::Closed);
        closed.map(|(number, segment)| Candidate {
            segment: SegmentId(number as u64),
            live_bytes: segment.held,
            written: TimeNs(i64::from(segment.written)),
            youngest: TimeNs(i64::from(segment.youngest)),
            log: segment.log,
        })
    }

    /// The log whose segment has the version.
    pub fn log_of(&self, version: u32) -> u8 {
        let place = self.versions[version as usize].place;
        self.segments[(place / self.segment_blocks) as usize].log
    }

    fn clean_if_empty(&mut self, segment: u32) {
        let entry = &mut self.segments[segment as usize];
        if entry.state == State::Closed && entry.held == 0 {
            entry.state = State::Clean;
            self.clean.push_back(segment);
        }
    }

    /// Checks the invariants of the module's head.
    #[cfg(test)]
    pub fn assert_consistent(&self) {
        let mut held = vec![0; self.segments.len()];
        for (place, &version) in self.owner.iter().enumerate().filter(|(_, version)| **version != NONE) {
            assert_eq!(self.versions[version as usize].place as usize, place);
            held[place / self.segment_blocks as usize] += 1;
        }
        for (number, segment) in self.segments.iter().enumerate() {
            assert_eq!(segment.held, held[number], "segment {number}");
            assert_eq!(segment.state == State::Clean, self.clean.contains(&(number as u32)));
        }
        let total: u64 = self.counts.iter().sum();
        assert_eq!(total, held.iter().map(|held| u64::from(*held)).sum::<u64>());
    }
}
