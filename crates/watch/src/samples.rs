//! Ticks for tests: a volume of 1 GB, whose counts each test sets.

use crate::map::{Cell, State, Tracker};
use crate::tick::{Counters, Marks, Requests, Space, Tick, Volume};

/// Segments of the volume.
pub const SEGMENTS: u64 = 1000;
/// Bytes of a segment.
pub const SEGMENT_BYTES: u32 = 1 << 20;

/// What a test sets.
#[derive(Clone, Copy, Default)]
pub struct Sample {
    pub second: u64,
    pub user_mb: u64,
    pub log_mb: u64,
    pub moved_mb: u64,
    pub metadata_mb: u64,
    pub used_mb: u64,
    pub requests: u64,
}

/// A tick with an unchanged map.
pub fn tick(sample: &Sample) -> Tick {
    const MB: u64 = 1_000_000;
    Tick {
        now_ns: sample.second as i64 * 1_000_000_000,
        volume: Volume {
            name: "/mnt/data".to_owned(),
            source: "/var/disk.img".to_owned(),
            segment_bytes: SEGMENT_BYTES,
            segments: SEGMENTS,
            policy: "cost-benefit".to_owned(),
        },
        space: Space { total_bytes: 1000 * MB, free_bytes: (1000 - sample.used_mb) * MB, inodes_used: 17 },
        marks: Marks { ready: 60, waiting: 4, reserve: 12, low: 20, high: 28, idle_target: 80 },
        counters: Counters {
            user_bytes: sample.user_mb * MB,
            log_bytes: sample.log_mb * MB,
            moved_bytes: sample.moved_mb * MB,
            upkeep_bytes: sample.moved_mb * MB,
            metadata_bytes: sample.metadata_mb * MB,
            ..Counters::default()
        },
        requests: vec![Requests {
            name: "write".to_owned(),
            requests: sample.requests,
            errors: 0,
            busy_ns: sample.requests * 250_000,
            ..Requests::default()
        }],
        ..Tick::default()
    }
}

/// A volume two thirds full whose segments are of all ages and shares, as of `now_s`.
pub fn tracker(now_s: i64) -> Tracker {
    let mut tracker = Tracker::default();
    tracker.resize(SEGMENTS);
    for segment in 0..SEGMENTS {
        let written_s = now_s - (segment as i64 * 37) % 100_000;
        let live_bytes = (segment as u32 * 7919) % SEGMENT_BYTES;
        let state = match segment {
            3 | 400 => State::Head,
            4 => State::Next,
            7 => State::Damaged,
            20..24 => State::Emptied,
            n if n % 3 == 2 => State::Clean,
            _ => State::Closed,
        };
        let cell = match state {
            State::Clean | State::Next => Cell { state, ..Cell::default() },
            State::Emptied => Cell::new(state, 1, 0, SEGMENT_BYTES, written_s),
            _ => Cell::new(state, (segment % 5) as u8, live_bytes, SEGMENT_BYTES, written_s),
        };
        tracker.note(segment, cell);
    }
    tracker
}
