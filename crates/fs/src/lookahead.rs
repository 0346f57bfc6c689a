//! Look-ahead that is earned: how much a store has read beside what was asked for (4.4BSD's clustered read-ahead; USENIX'95,
//! section 2).
//!
//! A *stream* is a run of reads each of which begins near the place where the last one ended. The first reads of a stream are read
//! alone. Once [`HITS_TO_START`] have followed each other, a window is read along, and each time a stream runs through its
//! window the next one is twice as long. Reads at random places begin streams that nothing follows, so they fetch nothing
//! beyond themselves: of two reads at random in a file, one in thousands lies near the end of another.
//!
//! Invariants: a pure state machine, no more than [`STREAMS`] streams; what it says depends on the reads noted alone.
//!
//! Callers: stores, for every read of theirs.

use crate::fetch::Ahead;
use std::collections::VecDeque;

/// Streams remembered: the files and tables that are read at the same time.
const STREAMS: usize = 16;
/// A read this close to where a stream ended goes on with it, on either side: summaries and the blocks of other files lie in
/// between, and a record lies behind the content that is read after it.
const NEAR_BYTES: u64 = 32 << 10;
/// Reads that have to follow the first one of a stream before anything is read ahead for it.
const HITS_TO_START: u32 = 2;
/// First window of a stream.
const WINDOW_MIN_BYTES: u32 = 64 << 10;
/// Longest window of a stream.
const WINDOW_MAX_BYTES: u32 = 512 << 10;
/// A node of a directory's index this close to another one that was read lately has the nodes around it read, too.
const AROUND_BYTES: u64 = 320 << 10;

/// A run of reads.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Where its last read ended.
    end: u64,
    /// Up to where it has been read ahead.
    covered: u64,
    window_bytes: u32,
    hits: u32,
}

/// See the module's head.
#[derive(Default, Debug)]
pub struct Streams {
    /// The one used last at the end.
    streams: VecDeque<Stream>,
    /// Places of nodes read lately, the last at the end.
    nodes: VecDeque<u64>,
}

impl Streams {
    /// Notes a read of `len_bytes` at a place on the device; says what to read along.
    pub fn note(&mut self, at_bytes: u64, len_bytes: u64) -> Ahead {
        let end = at_bytes + len_bytes;
        let is_near = |s: &Stream| at_bytes.abs_diff(s.end) <= NEAR_BYTES;
        let Some(found) = self.streams.iter().rposition(is_near) else {
            if self.streams.len() >= STREAMS {
                self.streams.pop_front();
            }
            self.streams.push_back(Stream { end, covered: end, window_bytes: 0, hits: 0 });
            return Ahead::NONE;
        };
        let Some(mut stream) = self.streams.remove(found) else { return Ahead::NONE };
        stream.hits += 1;
        // A read that goes back a little does not send the stream back.
        stream.end = stream.end.max(end);
        let mut ahead = Ahead::NONE;
        if stream.hits >= HITS_TO_START && end > stream.covered {
            stream.window_bytes = (stream.window_bytes * 2).clamp(WINDOW_MIN_BYTES, WINDOW_MAX_BYTES);
            stream.covered = end + u64::from(stream.window_bytes);
            ahead.behind_bytes = stream.window_bytes;
        }
        self.streams.push_back(stream);
        ahead
    }

    /// Notes a read of a node that lies among others of its kind, which are looked for in any order.
    pub fn note_node(&mut self, at_bytes: u64) -> Ahead {
        let is_near = self.nodes.iter().any(|node| at_bytes.abs_diff(*node) <= AROUND_BYTES);
        if self.nodes.len() >= STREAMS {
            self.nodes.pop_front();
        }
        self.nodes.push_back(at_bytes);
        let half = if is_near { (AROUND_BYTES / 2) as u32 } else { 0 };
        Ahead { before_bytes: half, behind_bytes: half }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    fn noise(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    #[test]
    fn random_reads_of_100_mib_fetch_less_than_a_tenth_beyond_what_they_ask_for() {
        let (mut streams, mut state) = (Streams::default(), 7);
        let reads = 12_800;
        let ahead: u64 = (0..reads)
            .map(|_| u64::from(streams.note(noise(&mut state) % 12_800 * 8 * KIB, 8 * KIB).behind_bytes))
            .sum();
        assert!(ahead < reads * 8 * KIB / 10, "{ahead} bytes ahead of {}", reads * 8 * KIB);
    }

    #[test]
    fn a_stream_is_read_in_windows_that_double() {
        let mut streams = Streams::default();
        let windows: Vec<u32> =
            (0..400).map(|n| streams.note(n * 4 * KIB, 4 * KIB).behind_bytes).filter(|w| *w > 0).collect();
        assert_eq!(windows[..5], [64 << 10, 128 << 10, 256 << 10, 512 << 10, 512 << 10]);
        assert!(streams.note(1 << 40, 4 * KIB) == Ahead::NONE, "nothing is known of another place");
    }

    #[test]
    fn streams_that_alternate_do_not_disturb_each_other() {
        let mut streams = Streams::default();
        let mut read_ahead = [0u64; 4];
        for n in 0..64 {
            for (which, sum) in read_ahead.iter_mut().enumerate() {
                let at = (which as u64) << 30;
                *sum += u64::from(streams.note(at + n * 4 * KIB, 4 * KIB).behind_bytes);
            }
        }
        assert!(read_ahead.iter().all(|sum| *sum >= 192 * KIB), "{read_ahead:?}");
    }

    #[test]
    fn a_record_behind_its_content_keeps_the_stream_going() {
        let mut streams = Streams::default();
        let windows = (0..100u64)
            .flat_map(|n| [(n * 5 + 4) * KIB, n * 5 * KIB])
            .filter(|at| streams.note(*at, KIB).behind_bytes > 0)
            .count();
        assert!((1..10).contains(&windows), "{windows} windows");
    }

    #[test]
    fn nodes_are_read_with_their_neighbours_from_the_second_one_on() {
        let mut streams = Streams::default();
        assert_eq!(streams.note_node(10 << 20), Ahead::NONE);
        assert_eq!(streams.note_node((10 << 20) + 100 * KIB).behind_bytes, 160 << 10);
        assert_eq!(streams.note_node(90 << 20), Ahead::NONE);
    }
}
