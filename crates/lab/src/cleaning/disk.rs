//! The simulated disk: the place of each block, in flat arrays. It implements writing, deleting and moving, but no policy.
//!
//! A *slot* is a place for a block: segment number times a power of two, plus the place in the segment. Time is counted in
//! blocks written by users.
//!
//! Invariants: a block's slot holds its number, and the slot's bit in `alive` is set; `live` is the number of those bits of
//! a closed segment (an open one counts blocks still to be written as alive); a segment without live blocks is clean.
//! Caller: [`super::engine`].

use super::buckets::Buckets;
use std::collections::VecDeque;

/// Logs that can be open at a time; more than a file system has, for oracles.
pub(super) const MAX_LOGS: usize = 16;
/// The slot of a block that does not exist.
const NOWHERE: u32 = u32::MAX;

/// The state of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Clean,
    Open,
    Closed,
}

/// The data of a segment besides its live blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub state: State,
    pub log: u8,
    /// When its last block was written.
    pub written: u32,
    /// When its youngest block was last written by a user.
    pub youngest: u32,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    next: u32,
    end: u32,
}

/// A block on its way from a victim to a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Survivor {
    /// When a user last wrote it.
    pub born: u32,
    pub block: u32,
    /// The log from which it comes.
    pub log: u8,
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Disk {
    shift: u32,
    segment_blocks: u32,
    /// Slot of each block.
    place: Vec<u32>,
    /// Block of each slot.
    owner: Vec<u32>,
    alive: Vec<u64>,
    pub live: Vec<u32>,
    pub segments: Vec<Segment>,
    pub clean: VecDeque<u32>,
    open: [Open; MAX_LOGS],
    /// When each block was last written by a user.
    pub born: Vec<u32>,
    /// How often the cleaner has moved each block since.
    pub moves: Vec<u8>,
    pub buckets: Option<Buckets>,
    /// Blocks written by users.
    pub now: u32,
    /// Segments that became empty by themselves.
    pub emptied: u64,
}

impl Disk {
    /// A disk with only clean segments. `indexed`: [`Disk::buckets`] are kept.
    pub fn new(segments: u32, segment_blocks: u32, blocks: u32, indexed: bool) -> Self {
        let stride = segment_blocks.next_power_of_two().max(64);
        let slots = segments as usize * stride as usize;
        let clean = Segment { state: State::Clean, log: 0, written: 0, youngest: 0 };
        Self {
            shift: stride.trailing_zeros(),
            segment_blocks,
            place: vec![NOWHERE; blocks as usize],
            owner: vec![0; slots],
            alive: vec![0; slots / 64],
            live: vec![0; segments as usize],
            segments: vec![clean; segments as usize],
            clean: (0..segments).collect(),
            open: [Open { next: 0, end: 0 }; MAX_LOGS],
            born: vec![0; blocks as usize],
            moves: vec![0; blocks as usize],
            buckets: indexed.then(|| Buckets::new(segments, segment_blocks)),
            now: 0,
            emptied: 0,
        }
    }

    /// The log that holds a block; `None` if it does not exist.
    #[inline]
    pub fn log_of(&self, block: u32) -> Option<u8> {
        let slot = self.place[block as usize];
        (slot != NOWHERE).then(|| self.segments[(slot >> self.shift) as usize].log)
    }

    /// True if the log's next block needs a new segment.
    #[inline]
    pub fn is_full(&self, log: u8) -> bool {
        let open = &self.open[usize::from(log)];
        open.next == open.end
    }

    /// Full segments that hold live blocks.
    pub fn closed(&self) -> u64 {
        self.segments.iter().filter(|segment| segment.state == State::Closed).count() as u64
    }

    /// Appends a block to a log. Its previous copy must have been killed. There must be a clean segment if the log
    /// [`Disk::is_full`].
    #[inline]
    pub fn append(&mut self, log: u8, block: u32, born: u32) {
        if self.is_full(log) {
            self.open_segment(log);
        }
        let open = &mut self.open[usize::from(log)];
        let slot = open.next;
        open.next += 1;
        self.owner[slot as usize] = block;
        self.place[block as usize] = slot;
        let segment = &mut self.segments[(slot >> self.shift) as usize];
        segment.youngest = segment.youngest.max(born);
        if open.next == open.end {
            self.close_segment(slot >> self.shift);
        }
    }

    /// Kills the present copy of a block; does nothing if the block does not exist.
    #[inline]
    pub fn kill(&mut self, block: u32) {
        let slot = self.place[block as usize];
        if slot == NOWHERE {
            return;
        }
        self.place[block as usize] = NOWHERE;
        self.alive[slot as usize / 64] &= !(1 << (slot % 64));
        let segment = slot >> self.shift;
        let live = &mut self.live[segment as usize];
        *live -= 1;
        let live = *live;
        if self.segments[segment as usize].state != State::Closed {
            return;
        }
        if let Some(buckets) = &mut self.buckets {
            buckets.remove(segment, live + 1);
            buckets.insert(segment, live);
        }
        if live == 0 {
            self.emptied += 1;
            self.free(segment);
        }
    }

    /// Removes a closed segment's live blocks, in log order, and frees the segment.
    pub fn evacuate(&mut self, segment: u32, survivors: &mut Vec<Survivor>) {
        let log = self.segments[segment as usize].log;
        let first_word = ((segment << self.shift) / 64) as usize;
        let words = self.segment_blocks.div_ceil(64) as usize;
        for word in first_word..first_word + words {
            let mut bits = std::mem::take(&mut self.alive[word]);
            while bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let block = self.owner[slot];
                survivors.push(Survivor { born: self.born[block as usize], block, log });
            }
        }
        self.free(segment);
    }

    /// Writes blocks from the end of `survivors` into the dead places of a closed segment, in order; the segment keeps its
    /// time of writing. Returns the number of separate runs of places.
    pub fn plug(&mut self, segment: u32, survivors: &mut Vec<Survivor>) -> u64 {
        let first = segment << self.shift;
        let before = self.live[segment as usize];
        let (mut runs, mut after_last) = (0, None);
        for slot in first..first + self.segment_blocks {
            if self.alive[slot as usize / 64] >> (slot % 64) & 1 == 1 {
                continue;
            }
            let Some(survivor) = survivors.pop() else { break };
            self.alive[slot as usize / 64] |= 1 << (slot % 64);
            self.owner[slot as usize] = survivor.block;
            self.place[survivor.block as usize] = slot;
            self.live[segment as usize] += 1;
            runs += u64::from(after_last != Some(slot));
            after_last = Some(slot + 1);
        }
        if let Some(buckets) = &mut self.buckets {
            buckets.remove(segment, before);
            buckets.insert(segment, self.live[segment as usize]);
        }
        runs
    }

    fn free(&mut self, segment: u32) {
        if let Some(buckets) = &mut self.buckets {
            buckets.remove(segment, self.live[segment as usize]);
        }
        self.segments[segment as usize].state = State::Clean;
        self.live[segment as usize] = 0;
        self.clean.push_back(segment);
    }

    fn open_segment(&mut self, log: u8) {
        let segment = self.clean.pop_front().expect("the engine keeps clean segments at hand");
        let first = segment << self.shift;
        self.open[usize::from(log)] = Open { next: first, end: first + self.segment_blocks };
        self.segments[segment as usize] = Segment { state: State::Open, log, written: 0, youngest: 0 };
        self.live[segment as usize] = self.segment_blocks;
        let first_word = (first / 64) as usize;
        for word in 0..self.segment_blocks.div_ceil(64) {
            let bits = (self.segment_blocks - word * 64).min(64);
            self.alive[first_word + word as usize] = u64::MAX >> (64 - bits);
        }
    }

    fn close_segment(&mut self, segment: u32) {
        let live = self.live[segment as usize];
        let entry = &mut self.segments[segment as usize];
        entry.state = State::Closed;
        entry.written = self.now;
        if let Some(buckets) = &mut self.buckets {
            buckets.insert(segment, live);
        }
        if live == 0 {
            self.emptied += 1;
            self.free(segment);
        }
    }

    /// Checks the invariants of the module's head.
    #[cfg(test)]
    pub fn assert_consistent(&self) {
        let mut live = vec![0; self.live.len()];
        for (block, &slot) in self.place.iter().enumerate().filter(|(_, slot)| **slot != NOWHERE) {
            assert_eq!(self.owner[slot as usize], block as u32);
            assert_ne!(self.alive[slot as usize / 64] & 1 << (slot % 64), 0, "block {block}");
            live[(slot >> self.shift) as usize] += 1;
        }
        for open in self.open.iter().filter(|open| open.next != open.end) {
            live[(open.next >> self.shift) as usize] += open.end - open.next;
        }
        assert_eq!(live, self.live);
        for (segment, entry) in self.segments.iter().enumerate() {
            let is_clean = self.clean.contains(&(segment as u32));
            assert_eq!(is_clean, entry.state == State::Clean, "segment {segment}");
            assert_eq!(is_clean, live[segment] == 0, "segment {segment}");
        }
    }
}
