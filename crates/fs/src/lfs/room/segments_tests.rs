//! The order of claims on clean segments, property-tested on a model of a volume that has nothing but segments with live bytes.

use super::Room;
use crate::lfs::room::marks::Thresholds;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Size of a segment.
const SEGMENT_BYTES: u64 = 1048;
/// The part of it that can hold live data: blocks do not cross its end.
const USABLE_BYTES: u64 = 1000;
/// Size of a block.
const BLOCK_BYTES: u64 = 48;
/// Blocks of the tables that a checkpoint writes at most: half of what is kept for it.
const TABLE_BLOCKS: u64 = CHECKPOINT / 2 * SEGMENT_BYTES / BLOCK_BYTES;
/// Segments that a checkpoint takes at most in the model, as in the log (`CHECKPOINT_SEGMENTS`).
const CHECKPOINT: u64 = 4;
/// Clean segments kept, as in the log (`RESERVE_SEGMENTS`).
const RESERVE: u64 = CHECKPOINT + 8;
/// Largest operation.
const OPERATION_BYTES: u64 = USABLE_BYTES;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Segment {
    /// Ready to be written after this many more checkpoints.
    Clean(u8),
    InUse(u64),
}

/// A volume as far as clean segments are concerned. A log that needs a segment takes the first that is ready.
struct Model {
    segments: Vec<Segment>,
    /// The segment of each open log, and how much of it is written.
    tails: Vec<(usize, u64)>,
    /// Blocks of the tables, by segment: the next checkpoint replaces them.
    tables: Vec<usize>,
    /// Segments that the cleaner has emptied since the last checkpoint.
    emptied: BTreeSet<usize>,
    /// Segments that readers use.
    pinned: BTreeSet<usize>,
    /// Segments that are being discarded.
    discarding: BTreeSet<usize>,
    dirty_bytes: u64,
    noise: u64,
    thresholds: Thresholds,
}

impl Model {
    fn new(segments: u64, logs: u64) -> Self {
        let mut all = vec![Segment::Clean(0); segments as usize];
        // The open logs are in segments of their own.
        all[..logs as usize].fill(Segment::InUse(0));
        let tails = (0..logs as usize).map(|at| (at, 0)).collect();
        Self {
            segments: all,
            tails,
            tables: Vec::new(),
            emptied: BTreeSet::new(),
            pinned: BTreeSet::new(),
            discarding: BTreeSet::new(),
            dirty_bytes: 0,
            noise: 1,
            thresholds: Thresholds::default(),
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.noise =
            self.noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.noise >> 33) % below.max(1)
    }

    fn count(&self, wanted: impl Fn(&Segment) -> bool) -> u64 {
        self.segments.iter().filter(|s| wanted(s)).count() as u64
    }

    fn count_ready(&self, of: &BTreeSet<usize>) -> u64 {
        of.iter().filter(|at| self.segments[**at] == Segment::Clean(0)).count() as u64
    }

    /// A segment that a log may enter now.
    fn takeable(&self) -> impl Iterator<Item = usize> {
        let is_free = |at: &usize| !self.pinned.contains(at) && !self.discarding.contains(at);
        (0..self.segments.len()).filter(|at| self.segments[*at] == Segment::Clean(0)).filter(is_free)
    }

    fn live_bytes(&self) -> u64 {
        self.segments.iter().map(|s| if let Segment::InUse(live) = s { *live } else { 0 }).sum()
    }

    fn reserve(&self) -> u64 {
        RESERVE + 2 * (self.tails.len() as u64 - 3)
    }

    /// As the log's `capacity_bytes` computes it.
    fn capacity_bytes(&self) -> u64 {
        let segments = self.segments.len() as u64;
        let over = (segments * 7).div_ceil(100).max(self.reserve() + 4 + 2);
        segments.saturating_sub(over) * USABLE_BYTES
    }

    fn room(&self) -> Room {
        let segments = self.segments.len() as u64;
        Room {
            segments,
            ready: self.count(|s| *s == Segment::Clean(0)),
            waiting: self.count(|s| matches!(s, Segment::Clean(1..))),
            emptied: self.emptied.len() as u64,
            pinned: self.count_ready(&self.pinned),
            discarding: self.count_ready(&self.discarding),
            reserve: self.reserve(),
            checkpoint: 3,
            open_logs: self.tails.len() as u64,
            live: self.live_bytes().div_ceil(USABLE_BYTES),
            commits: segments / 32,
            usable_bytes: USABLE_BYTES,
            segment_bytes: SEGMENT_BYTES,
            dirty_bytes: self.dirty_bytes,
            holdable_bytes: self.dirty_bytes / 2,
            tables_bytes: 0,
            burst_bytes: 0,
            thresholds: self.thresholds,
        }
    }

    /// Readers begin to use some segments.
    fn read(&mut self) {
        for _ in 0..8 {
            let at = self.draw(self.segments.len() as u64) as usize;
            if matches!(self.segments[at], Segment::InUse(1..)) {
                self.pinned.insert(at);
            }
        }
    }

    /// The device is told of all clean segments, as by a trim.
    fn discard(&mut self) {
        self.discarding = self.takeable().collect();
    }

    /// Readers and discards end: they never wait for room.
    fn end_delays(&mut self) {
        self.pinned.clear();
        self.discarding.clear();
    }

    /// Writes that many live bytes to a log, block after block. The caller has asked for the room, so there are enough
    /// segments, at the latest when readers and discards have ended.
    fn write(&mut self, log: usize, live_bytes: u64) -> Vec<usize> {
        let mut written = Vec::new();
        let mut left = live_bytes;
        while left > 0 {
            let block = left.min(BLOCK_BYTES);
            let (mut at, mut filled) = self.tails[log];
            if filled + block > SEGMENT_BYTES {
                if self.takeable().next().is_none() {
                    self.end_delays();
                }
                let first = self.takeable().next();
                at = first.expect("the caller made sure that there are enough segments");
                self.segments[at] = Segment::InUse(0);
                filled = 0;
            }
            self.tails[log] = (at, filled + block);
            if let Segment::InUse(live) = &mut self.segments[at] {
                *live += block;
            }
            written.push(at);
            left -= block;
        }
        written
    }

    /// The same to all logs, in parts of any size.
    fn write_to_all(&mut self, live_bytes: u64) {
        let mut left = live_bytes;
        for log in (0..self.tails.len()).rev() {
            let part = if log == 0 { left } else { self.draw(left + 1) };
            self.write(log, part);
            left -= part;
        }
    }

    fn is_open(&self, at: usize) -> bool {
        self.tails.iter().any(|tail| tail.0 == at)
    }

    /// Lets that many live bytes die somewhere.
    fn kill(&mut self, mut bytes: u64) {
        while bytes > 0 && self.live_bytes() > 0 {
            let at = self.draw(self.segments.len() as u64) as usize;
            if let Segment::InUse(live) = &mut self.segments[at] {
                let here = bytes.min(*live);
                *live -= here;
                bytes -= here;
            }
        }
    }

    /// A user writes, if the write is admitted; once the volume is full, the user overwrites.
    fn user_writes(&mut self, bytes: u64) -> bool {
        if !self.room().admits(bytes) {
            return false;
        }
        let over = (self.live_bytes() + self.dirty_bytes + bytes).saturating_sub(self.capacity_bytes());
        self.kill(over);
        self.dirty_bytes += bytes;
        true
    }

    /// Writes all dirty bytes to the logs.
    fn commit(&mut self) {
        let dirty_bytes = std::mem::take(&mut self.dirty_bytes);
        self.write_to_all(dirty_bytes);
    }

    /// Commits, writes blocks of the tables in place of older ones, and finds emptied segments.
    fn checkpoint(&mut self) {
        self.commit();
        let blocks = self.draw(TABLE_BLOCKS + 1);
        let gone = (blocks as usize).min(self.tables.len());
        for at in self.tables.drain(..gone).collect::<Vec<_>>() {
            if let Segment::InUse(live) = &mut self.segments[at] {
                *live = live.saturating_sub(BLOCK_BYTES);
            }
        }
        let written = self.write(0, blocks * BLOCK_BYTES);
        self.tables.extend(written);
        self.emptied.clear();
        for at in 0..self.segments.len() {
            self.segments[at] = match self.segments[at] {
                Segment::InUse(0) if !self.is_open(at) => Segment::Clean(1),
                Segment::Clean(wait) => Segment::Clean(wait.saturating_sub(1)),
                other => other,
            };
        }
    }

    /// Moves the live bytes of the emptiest segments, as many as there is room for; false if that gains nothing.
    fn clean(&mut self, room_segments: u64) -> bool {
        self.commit();
        let live_of = |segments: &[Segment], at: usize| match segments[at] {
            Segment::InUse(live) => Some(live),
            Segment::Clean(_) => None,
        };
        let mut order: Vec<(u64, usize)> = (0..self.segments.len())
            .filter(|&at| !self.is_open(at) && !self.tables.contains(&at))
            .filter_map(|at| Some((live_of(&self.segments, at)?, at)))
            .filter(|(live, _)| (1..SEGMENT_BYTES).contains(live))
            .collect();
        order.sort_unstable();
        let (mut live_bytes, mut victims) = (0, 0);
        for (live, at) in order.into_iter().take(16) {
            if live_bytes + live > room_segments * USABLE_BYTES {
                break;
            }
            live_bytes += live;
            victims += 1;
            self.segments[at] = Segment::InUse(0);
            self.emptied.insert(at);
        }
        self.write_to_all(live_bytes);
        victims * SEGMENT_BYTES > live_bytes + live_bytes / 64
    }

    /// Moves half of the live bytes of segments, in any order, as many as there is room for: it gains nothing.
    fn rearrange(&mut self, room_segments: u64) {
        self.commit();
        let (mut moved_bytes, room_bytes) = (0, room_segments * USABLE_BYTES);
        for _ in 0..self.segments.len() {
            let at = self.draw(self.segments.len() as u64) as usize;
            if let Segment::InUse(live) = &mut self.segments[at]
                && moved_bytes + *live / 2 <= room_bytes
            {
                moved_bytes += *live / 2;
                *live -= *live / 2;
            }
        }
        self.write_to_all(moved_bytes);
    }

    /// Puts files in order that take that many segments, if the high-water mark allows it.
    fn put_in_order(&mut self, segments: u64) {
        self.commit();
        // With the last part of a write of each log that takes some.
        if self.room().stays_high(segments + self.tails.len() as u64) {
            self.rearrange(segments);
        }
    }

    /// Upkeep as in the log while an operation waits, until the largest operation is admitted.
    fn bring_users_on(&mut self) {
        for _ in 0..20 * self.segments.len() {
            if self.room().admits(OPERATION_BYTES) {
                return;
            }
            let room = self.room();
            if self.dirty_bytes > 0 {
                self.commit();
            } else if room.has_waiting() || !self.clean(room.for_moves()) {
                self.checkpoint();
            }
        }
        panic!("users wait for ever: {:?}", self.room());
    }
}

#[derive(Clone, Debug)]
enum Request {
    Write(u64),
    Kill(u64),
    Commit,
    Checkpoint,
    Clean,
    CleanIdle,
    /// A cleaner outside moves what gives no clean segment.
    Rearrange,
    /// The log leaves segments.
    Leave,
    /// Coalescing.
    Order(u64),
    Read,
    Discard,
    EndDelays,
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let request = prop_oneof![
        6 => (1..=OPERATION_BYTES).prop_map(Request::Write),
        1 => (1..=4 * USABLE_BYTES).prop_map(Request::Kill),
        2 => Just(Request::Commit),
        1 => Just(Request::Checkpoint),
        2 => Just(Request::Clean),
        1 => Just(Request::CleanIdle),
        1 => Just(Request::Rearrange),
        1 => Just(Request::Leave),
        1 => (1u64..8).prop_map(Request::Order),
        2 => Just(Request::Read),
        1 => Just(Request::Discard),
        1 => Just(Request::EndDelays),
    ];
    proptest::collection::vec(request, 1..400)
}

proptest! {
    #[test]
    fn a_checkpoint_always_finds_its_segments_and_users_always_go_on(
        segments in 28u64..160,
        logs in 3u64..=6,
        seed in any::<u64>(),
        requests in requests(),
        // Whatever somebody wants the cleaner to do.
        low in proptest::option::of(0u64..200),
        high in proptest::option::of(0u64..200),
        idle in proptest::option::of(0u64..200),
    ) {
        // As in mkfs: a volume has one more log for each 256 segments, and is larger by the room that this log takes.
        let segments = segments + 2 * (logs - 3);
        let mut model = Model::new(segments, logs);
        model.noise = seed | 1;
        model.thresholds = Thresholds { low, high, idle };
        for request in requests {
            match request {
                // `write` panics if segments were taken that were not meant for it.
                Request::Write(bytes) => drop(model.user_writes(bytes)),
                Request::Kill(bytes) => model.kill(bytes),
                Request::Commit => model.commit(),
                Request::Checkpoint => model.checkpoint(),
                Request::Clean => drop(model.clean(model.room().for_moves())),
                Request::CleanIdle => drop(model.clean(model.room().for_idle_moves())),
                Request::Rearrange => model.rearrange(model.room().for_asked_moves(false)),
                Request::Leave => model.rearrange(model.room().for_leaving()),
                Request::Order(segments) => model.put_in_order(segments),
                Request::Read => model.read(),
                Request::Discard => model.discard(),
                Request::EndDelays => model.end_delays(),
            }
            let room = model.room();
            prop_assert_eq!(room.takeable(), model.takeable().count() as u64, "{:?}", room);
            prop_assert_eq!(room.clean(), model.count(|s| matches!(s, Segment::Clean(_))), "{:?}", room);
            prop_assert!(room.takeable() <= room.ready && room.clean() <= room.in_the_end(), "{room:?}");
            prop_assert!(!room.is_below_reserve() || room.is_at_reserve() && room.is_low(), "{room:?}");
            prop_assert!(room.is_high() || room.is_below_target() && !room.stays_high(0), "{room:?}");
            prop_assert!(room.low() > room.reserve, "{room:?}");
            prop_assert!(room.low() <= room.high() && room.high() <= room.idle_target(), "{room:?}");
        }
        model.bring_users_on();
    }

    #[test]
    fn what_the_cleaner_emptied_is_clean_after_one_checkpoint_and_ready_after_two(
        seed in any::<u64>(),
        requests in requests(),
    ) {
        let mut model = Model::new(64, 3);
        model.noise = seed | 1;
        for request in requests {
            match request {
                Request::Write(bytes) => drop(model.user_writes(bytes)),
                Request::Kill(bytes) => model.kill(bytes),
                Request::Clean | Request::CleanIdle => drop(model.clean(model.room().for_moves())),
                _ => model.checkpoint(),
            }
        }
        // The checkpoint itself takes segments, for what is dirty and for the tables.
        model.commit();
        let before = model.room();
        model.checkpoint();
        let found = model.room();
        prop_assert!(found.clean() + CHECKPOINT >= before.in_the_end(), "{before:?} {found:?}");
        prop_assert_eq!(found.emptied, 0);
        model.checkpoint();
        let ready = model.room();
        prop_assert!(ready.ready + CHECKPOINT >= found.clean(), "{found:?} {ready:?}");
    }
}

#[test]
fn a_pass_expects_the_room_that_users_leave_while_it_reads() {
    let room = Model::new(100, 3).room();
    let with = |ready, dirty_bytes| Room { ready, dirty_bytes, reserve: RESERVE, ..room };
    let at_reserve = with(RESERVE, 0).for_moves();
    // Users take what is above the reserve, and nothing below it.
    assert_eq!(with(RESERVE + 4, 0).for_moves_after(16), at_reserve);
    assert_eq!(with(RESERVE, 5 * USABLE_BYTES).for_moves_after(16), at_reserve);
    assert_eq!(with(RESERVE - 2, 0).for_moves_after(16), with(RESERVE - 2, 0).for_moves());
    // Far above it they take that much, or what is dirty if it is more.
    assert_eq!(with(RESERVE + 40, 0).for_moves_after(16), with(RESERVE + 24, 0).for_moves());
    assert_eq!(with(RESERVE + 40, 20 * USABLE_BYTES).for_moves_after(16), with(RESERVE + 20, 0).for_moves());
}

#[test]
fn indirect_blocks_stay_in_memory_within_a_quarter_of_the_room_above_the_reserve() {
    let room = Model::new(100, 3).room();
    let with = |ready, dirty_bytes, holdable_bytes| Room {
        ready,
        dirty_bytes,
        holdable_bytes,
        reserve: RESERVE,
        ..room
    };
    assert_eq!(with(RESERVE + 8, 10 * USABLE_BYTES, USABLE_BYTES).committable_bytes(), 9 * USABLE_BYTES);
    assert_eq!(with(RESERVE + 8, 10 * USABLE_BYTES, 5 * USABLE_BYTES).committable_bytes(), 8 * USABLE_BYTES);
    assert_eq!(with(RESERVE, USABLE_BYTES, USABLE_BYTES).committable_bytes(), USABLE_BYTES);
    assert_eq!(with(RESERVE - 1, USABLE_BYTES, USABLE_BYTES).committable_bytes(), USABLE_BYTES);
}
