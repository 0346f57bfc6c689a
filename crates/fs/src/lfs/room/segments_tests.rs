//! The order of claims on clean segments, property-tested on a model of a volume that has nothing but segments with live bytes.

use super::Room;
use crate::lfs::room::marks::Thresholds;
use proptest::prelude::*;

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
            reserve: self.reserve(),
            checkpoint: 3,
            open_logs: self.tails.len() as u64,
            live: self.live_bytes().div_ceil(USABLE_BYTES),
            commits: segments / 32,
            usable_bytes: USABLE_BYTES,
            segment_bytes: SEGMENT_BYTES,
            dirty_bytes: self.dirty_bytes,
            tables_bytes: 0,
            burst_bytes: 0,
            thresholds: self.thresholds,
        }
    }

    /// Writes that many live bytes to a log, block after block. The caller has asked for the room, so there are enough
    /// segments.
    fn write(&mut self, log: usize, live_bytes: u64) -> Vec<usize> {
        let mut written = Vec::new();
        let mut left = live_bytes;
        while left > 0 {
            let block = left.min(BLOCK_BYTES);
            let (mut at, mut filled) = self.tails[log];
            if filled + block > SEGMENT_BYTES {
                let ready = self.segments.iter().position(|s| *s == Segment::Clean(0));
                at = ready.expect("the caller made sure that there are enough segments");
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
        }
        self.write_to_all(live_bytes);
        victims * SEGMENT_BYTES > live_bytes + live_bytes / 64
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
            } else if room.waiting > 0 || !self.clean(room.for_moves()) {
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
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let request = prop_oneof![
        6 => (1..=OPERATION_BYTES).prop_map(Request::Write),
        1 => (1..=4 * USABLE_BYTES).prop_map(Request::Kill),
        2 => Just(Request::Commit),
        1 => Just(Request::Checkpoint),
        2 => Just(Request::Clean),
        1 => Just(Request::CleanIdle),
    ];
    proptest::collection::vec(request, 1..400)
}

proptest! {
    #[test]
    fn a_checkpoint_always_finds_its_segments_and_users_always_come_on(
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
            }
            let room = model.room();
            prop_assert!(room.low() > room.reserve, "{room:?}");
            prop_assert!(room.low() <= room.high() && room.high() <= room.idle_target(), "{room:?}");
        }
        model.bring_users_on();
    }
}
