//! A cleaner that works over the port: choose, look, move, report (the four steps of BSD-LFS, section 3.5).
//!
//! Invariant: a segment that could not be emptied is not chosen again before other work was done, so that a cleaner does not
//! repeat the same failure endlessly.

use crate::port::wire::{Block, Cleaned, Contents, Marked, Room, Segment, Segments, State, WireFate};
use firnfs::clean::{Candidate, Policy, Terms};
use firnfs_format::{SegmentId, TimeNs};
use firnfs_fuse::control::{Client, ClientError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most segments of one pass, and their bytes: as many as the daemon moves at once.
const SEGMENTS: u64 = 16;
const SEGMENT_BYTES: u64 = 16 << 20;
/// Segments written within a second of each other differ only by their utilisation, as in the daemon.
const AGE_GRAIN_NS: u64 = 1_000_000_000;
/// Bytes of summaries that moving a segment costs; segments that would gain less are not cleaned.
const OVERHEAD_BYTES: u64 = 8192;
/// How long Ctrl-C waits for the daemon's answer while the cleaner waits for writes.
const STOP_WITHIN_MS: u64 = 200;

/// What a pass did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Pass {
    /// Segments that became clean.
    pub segments_cleaned: u64,
    /// Blocks moved.
    pub moved_blocks: u64,
    /// Bytes of them, as stored.
    pub moved_bytes: u64,
}

impl Pass {
    /// True if the pass achieved nothing.
    pub fn is_idle(&self) -> bool {
        *self == Self::default()
    }
}

impl AddAssign for Pass {
    fn add_assign(&mut self, other: Self) {
        self.segments_cleaned += other.segments_cleaned;
        self.moved_blocks += other.moved_blocks;
        self.moved_bytes += other.moved_bytes;
    }
}

/// How many segments cleaning can make clean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reachable {
    /// Passes get that far even if they write much metadata.
    pub surely: u64,
    /// If they write next to none.
    pub at_most: u64,
}

/// A connection to the daemon, and the policy.
pub struct Cleaner {
    client: Client,
    policy: Policy,
    turn: u64,
    /// Segments that the last passes could not empty.
    stubborn: BTreeSet<u64>,
}

impl Cleaner {
    /// Cleans over that connection.
    pub fn new(client: Client, policy: Policy) -> Self {
        Self { client, policy, turn: 0, stubborn: BTreeSet::new() }
    }

    /// Asks how much room there is.
    pub fn room(&mut self) -> Result<Room, ClientError> {
        self.ask("segwait", json!({ "timeout_ms": 0 }))
    }

    /// Waits until a segment has been written since `room` was reported, however long that takes, or until `stop` is set.
    pub fn wait(&mut self, room: Room, stop: &AtomicBool) -> Result<(), ClientError> {
        let segment_bytes = self.segments_page(0)?.segment_bytes;
        let until_bytes = room.log_bytes.saturating_add(u64::from(segment_bytes));
        let request = json!({ "log_bytes": room.log_bytes, "timeout_ms": STOP_WITHIN_MS });
        // To clean again before something was written would gain as little as before.
        while !stop.load(Ordering::SeqCst)
            && self.ask::<Room>("segwait", request.clone())?.log_bytes < until_bytes
        {}
        self.stubborn.clear();
        Ok(())
    }

    /// How many segments can be clean as long as no file is deleted. Makes everything durable first: what memory holds takes
    /// segments, too, and what was deleted frees some.
    pub fn reachable(&mut self) -> Result<Reachable, ClientError> {
        self.client.call("sync", json!({}))?;
        let (list, segment_bytes, _) = self.segments()?;
        Ok(reachable(&list, segment_bytes))
    }

    /// Makes one pass, over at most that many segments.
    pub fn pass(&mut self, at_most: u64) -> Result<Pass, ClientError> {
        self.turn += 1;
        let (list, segment_bytes, now_ns) = self.segments()?;
        let count = SEGMENTS.min((SEGMENT_BYTES / u64::from(segment_bytes)).max(2)).min(at_most);
        let idle = list.iter().filter(|s| s.in_use && !s.busy && !self.stubborn.contains(&s.segment));
        let mut victims: Vec<u64> =
            idle.clone().filter(|s| s.live_bytes == 0).map(|s| s.segment).take(count as usize).collect();
        let candidates: Vec<Candidate> =
            idle.filter(|s| is_worthwhile(s, segment_bytes)).map(candidate).collect();
        let terms = Terms::new(segment_bytes, TimeNs(now_ns), AGE_GRAIN_NS).with_turn(self.turn);
        let chosen = self.policy.choose(candidates.into_iter(), &terms, count as usize - victims.len());
        let mut blocks = Vec::new();
        for victim in &chosen {
            blocks.extend(self.live_blocks(victim.segment.0)?);
        }
        victims.extend(chosen.iter().map(|c| c.segment.0));
        let marked: Marked = self.ask("markv", json!({ "blocks": blocks }))?;
        let cleaned: Cleaned = self.ask("segclean", json!({ "segments": victims }))?;
        let is_clean = |state: &State| matches!(state, State::Clean | State::Empty);
        let pass = Pass {
            segments_cleaned: cleaned.states.iter().filter(|state| **state == State::Clean).count() as u64,
            moved_blocks: marked.fates.iter().filter(|fate| **fate == WireFate::Moved).count() as u64,
            moved_bytes: marked.moved_bytes,
        };
        // Segments that could not be emptied for lack of room may be tried again.
        if !marked.fates.contains(&WireFate::NoRoom) {
            let left = victims.iter().zip(&cleaned.states).filter(|(_, state)| !is_clean(state));
            self.stubborn.extend(left.map(|(segment, _)| *segment));
        }
        Ok(pass)
    }

    /// All segments, the segment size, and the daemon's time.
    fn segments(&mut self) -> Result<(Vec<Segment>, u32, i64), ClientError> {
        let mut list = Vec::new();
        let mut from = 0;
        loop {
            let page = self.segments_page(from)?;
            list.extend(page.list);
            match page.next {
                Some(next) => from = next,
                None => return Ok((list, page.segment_bytes, page.now_ns)),
            }
        }
    }

    fn segments_page(&mut self, from: u64) -> Result<Segments, ClientError> {
        self.ask("segments", json!({ "from": from }))
    }

    /// The live blocks of a segment, as far as a cleaner can tell.
    fn live_blocks(&mut self, segment: u64) -> Result<Vec<Block>, ClientError> {
        let mut live = Vec::new();
        let mut from = 0;
        loop {
            let page: Contents = self.ask("segment_read", json!({ "segment": segment, "from": from }))?;
            let now_at: Vec<Option<u64>> = self.ask("bmapv", json!({ "blocks": page.blocks }))?;
            let pairs = page.blocks.into_iter().zip(now_at);
            live.extend(pairs.filter(|(block, at)| *at == Some(block.addr)).map(|(block, _)| block));
            match page.next {
                Some(next) => from = next,
                None => return Ok(live),
            }
        }
    }

    fn ask<T: DeserializeOwned>(&mut self, op: &str, arguments: Value) -> Result<T, ClientError> {
        self.client.ask(op, arguments)
    }
}

fn is_worthwhile(segment: &Segment, segment_bytes: u32) -> bool {
    let live_bytes = u64::from(segment.live_bytes);
    let dead_bytes = u64::from(segment_bytes).saturating_sub(live_bytes);
    live_bytes > 0 && dead_bytes > live_bytes / 64 + OVERHEAD_BYTES
}

/// How many segments are clean once the live bytes of all others that are worth cleaning are packed into as few as possible. The
/// summaries take their share of those; surely, the metadata that moves write leaves three quarters of each to live data, and the
/// last segment of each log is not full.
fn reachable(list: &[Segment], segment_bytes: u32) -> Reachable {
    let may_move =
        |s: &&Segment| s.in_use && !s.busy && (s.live_bytes == 0 || is_worthwhile(s, segment_bytes));
    let clean = list.iter().filter(|s| !s.in_use).count() as u64;
    let emptied = list.iter().filter(may_move).count() as u64;
    let live_bytes: u64 = list.iter().filter(may_move).map(|s| u64::from(s.live_bytes)).sum();
    let logs: BTreeSet<u8> = list.iter().filter(|s| s.in_use).map(|s| s.log).collect();
    let segment_bytes = u64::from(segment_bytes);
    let packed = |room_bytes: u64, more_segments: u64| {
        let taken = if live_bytes == 0 { 0 } else { live_bytes.div_ceil(room_bytes.max(1)) + more_segments };
        clean + emptied.saturating_sub(taken)
    };
    let room_bytes = segment_bytes - segment_bytes / 64 - OVERHEAD_BYTES.min(segment_bytes / 4);
    Reachable { surely: packed(room_bytes / 4 * 3, logs.len() as u64), at_most: packed(room_bytes, 0) }
}

fn candidate(segment: &Segment) -> Candidate {
    Candidate {
        segment: SegmentId(segment.segment),
        live_bytes: segment.live_bytes,
        written: TimeNs(segment.written_ns),
        youngest: TimeNs(segment.youngest_ns),
        log: segment.log,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT_BYTES: u32 = 1 << 20;

    fn segment(live_share: f64, in_use: bool, busy: bool) -> Segment {
        let live_bytes = (f64::from(SEGMENT_BYTES) * live_share) as u32;
        Segment { segment: 0, in_use, busy, live_bytes, written_ns: 0, youngest_ns: 0, log: 0 }
    }

    #[test]
    fn only_dead_space_outside_busy_and_full_segments_can_become_clean() {
        let of = |list: &[Segment]| reachable(list, SEGMENT_BYTES);
        let exactly = |segments| Reachable { surely: segments, at_most: segments };
        let clean = vec![segment(0.0, false, false); 3];
        assert_eq!(of(&clean), exactly(3));
        // Ten that are half full fit into six: five of live data, and the summaries. With metadata and the end of the log: eight.
        let half_full = of(&[clean.clone(), vec![segment(0.5, true, false); 10]].concat());
        assert_eq!(half_full, Reachable { surely: 3 + 2, at_most: 3 + 4 });
        assert_eq!(of(&[clean.clone(), vec![segment(0.0, true, false); 10]].concat()), exactly(3 + 10));
        let written = of(&[clean.clone(), vec![segment(0.5, true, true); 10]].concat());
        assert_eq!(written, exactly(3), "being written");
        let full = of(&[clean, vec![segment(0.99, true, false); 1000]].concat());
        assert_eq!(full, exactly(3), "no gain in any of them");
    }
}
