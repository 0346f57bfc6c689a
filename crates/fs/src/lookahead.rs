//! Look-ahead: how much to read in addition to a request (4.4BSD's clustered read-ahead; USENIX'95, section 2), and when to start.
//!
//! A *stream* is a run of reads of content each of which begins near the place where the last one ended. The first reads of a
//! stream are read alone. After [`HITS_TO_START`] further reads, the bytes after the stream are read as well, half as far as it has
//! come by itself: in steps that are started and that nobody waits for ([`Soon`]), so that the disk works while the program does.
//! Reads at random places begin streams that no read continues, so they cause no look-ahead: of random reads in a file, only one
//! in hundreds begins near the end of another.
//!
//! *Records* of inodes form streams too. A window is read together with a record ([`Ahead`]), because it is likely to have the
//! records that are needed next; each time a stream has passed through its window, the next one is twice as long.
//!
//! *Metadata* - records, indirect blocks, nodes - is small, was written together, and leads to the blocks that are read next:
//! from the second read in a neighbourhood on, the whole neighbourhood is read.
//!
//! Invariants: a pure state machine, no more than [`STREAMS`] streams and as many places of metadata; its answers depend only
//! on the reads noted.
//!
//! Callers: stores, for each of their reads.

use crate::fetch::{Ahead, Soon};
use std::collections::VecDeque;

/// Streams remembered: the files and tables that are read at the same time.
const STREAMS: usize = 16;
/// A read that begins this close to the end of a stream, on either side, continues the stream: summaries and blocks of other
/// files lie in between, and a record lies after the content that is read after it.
const NEAR_BYTES: u64 = 32 << 10;
/// Reads that have to follow the first one of a stream before anything is read ahead for it.
const HITS_TO_START: u32 = 2;
/// Least and longest distance that is read ahead of content.
const DISTANCE_MIN_BYTES: u64 = 64 << 10;
const DISTANCE_MAX_BYTES: u64 = 512 << 10;
/// Longest step by which the distance is made up, once the program has passed as much.
const STEP_MAX_BYTES: u64 = 128 << 10;
/// First window with a record: records are small, and a disk with a head goes back and forth between them and the content.
const WINDOW_MIN_BYTES: u32 = 256 << 10;
/// Longest window with a record.
const WINDOW_MAX_BYTES: u32 = 512 << 10;
/// A neighbourhood of metadata: the indirect blocks of 64 MiB of content, and the blocks between them.
const NEIGHBOURHOOD_BYTES: u64 = 320 << 10;
/// Places of metadata remembered.
const PLACES: usize = 8;

/// Where the neighbours of a block of metadata lie that are read after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Neighbours {
    /// After it: records, and blocks of one level, are written in the order in which they are read.
    Behind,
    /// Before it: in the log the blocks that a block of pointers refers to come before it.
    Before,
    /// On either side: nodes of a directory's index are looked for in any order.
    Around,
}

/// A run of reads.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Where its last read ended.
    end: u64,
    /// Up to where it has been read ahead, or is being.
    covered: u64,
    /// Bytes that were asked for.
    asked_bytes: u64,
    window_bytes: u32,
    hits: u32,
}

/// See the module's head.
#[derive(Default, Debug)]
pub struct Streams {
    /// The one used last at the end.
    streams: VecDeque<Stream>,
    /// Ends of blocks of metadata read recently, the last at the end.
    places: VecDeque<u64>,
}

impl Streams {
    /// Notes a read of content, `len_bytes` at a place on the device; returns what to start reading.
    pub fn note(&mut self, at_bytes: u64, len_bytes: u64) -> Option<Soon> {
        let end = at_bytes + len_bytes;
        let stream = self.go_on(at_bytes, end).filter(|stream| stream.hits >= HITS_TO_START)?;
        let distance = (stream.asked_bytes / 2).clamp(DISTANCE_MIN_BYTES, DISTANCE_MAX_BYTES);
        let (start, until) = (stream.covered.max(end), end + distance);
        // Many short streams are none: nothing more is read for them before they have used up what was read.
        let is_long = stream.asked_bytes >= DISTANCE_MIN_BYTES;
        let least = if is_long { STEP_MAX_BYTES.min(distance / 2) } else { distance };
        let mut step = until.saturating_sub(start);
        if step < least {
            return None;
        }
        if step > STEP_MAX_BYTES {
            step -= step % STEP_MAX_BYTES;
        }
        stream.covered = start + step;
        Some(Soon { at_bytes: start, len_bytes: step as u32, token: None })
    }

    /// How many bytes of the stream used last have been asked for.
    #[must_use]
    pub fn asked_bytes(&self) -> u64 {
        self.streams.back().map_or(0, |stream| stream.asked_bytes)
    }

    /// Takes back what [`Self::note`] returned last, from that place on: it is not started.
    pub fn cut(&mut self, at_bytes: u64) {
        if let Some(stream) = self.streams.back_mut() {
            stream.covered = stream.covered.min(at_bytes.max(stream.end));
        }
    }

    /// Notes a read of content after which others follow at once: nothing is worth starting beside them.
    pub fn pass(&mut self, at_bytes: u64, len_bytes: u64) {
        self.go_on(at_bytes, at_bytes + len_bytes);
    }

    /// Notes a read of an inode's record, which may lie among content or among other records.
    pub fn note_record(&mut self, at_bytes: u64, len_bytes: u64) -> Ahead {
        let end = at_bytes + len_bytes;
        let Some(stream) = self.go_on(at_bytes, end) else { return Ahead::NONE };
        if stream.hits >= HITS_TO_START && end > stream.covered {
            stream.window_bytes = (stream.window_bytes * 2).clamp(WINDOW_MIN_BYTES, WINDOW_MAX_BYTES);
            stream.covered = end + u64::from(stream.window_bytes);
        }
        Ahead { before_bytes: 0, behind_bytes: stream.window_bytes }
    }

    /// The stream that a read continues; otherwise the read begins one.
    fn go_on(&mut self, at_bytes: u64, end: u64) -> Option<&mut Stream> {
        let is_near = |s: &Stream| at_bytes.abs_diff(s.end) <= NEAR_BYTES;
        let Some(found) = self.streams.iter().rposition(is_near) else {
            if self.streams.len() >= STREAMS {
                self.streams.pop_front();
            }
            let asked_bytes = end - at_bytes;
            self.streams.push_back(Stream { end, covered: end, asked_bytes, window_bytes: 0, hits: 0 });
            return None;
        };
        let mut stream = self.streams.remove(found)?;
        stream.hits += 1;
        stream.asked_bytes += end - at_bytes;
        // A read that goes back a little does not move the stream back.
        stream.end = stream.end.max(end);
        self.streams.push_back(stream);
        self.streams.back_mut()
    }

    /// Notes a read of metadata.
    pub fn note_metadata(&mut self, at_bytes: u64, len_bytes: u64, neighbours: Neighbours) -> Ahead {
        let is_near = self.places.iter().any(|place| at_bytes.abs_diff(*place) <= NEIGHBOURHOOD_BYTES);
        if self.places.len() >= PLACES {
            self.places.pop_front();
        }
        self.places.push_back(at_bytes + len_bytes);
        let all = NEIGHBOURHOOD_BYTES.saturating_sub(len_bytes) as u32;
        match neighbours {
            _ if !is_near => Ahead::NONE,
            Neighbours::Behind => Ahead { before_bytes: 0, behind_bytes: all },
            Neighbours::Before => Ahead { before_bytes: all, behind_bytes: 0 },
            Neighbours::Around => Ahead { before_bytes: all / 2, behind_bytes: all / 2 },
        }
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
            .filter_map(|_| streams.note(noise(&mut state) % 12_800 * 8 * KIB, 8 * KIB))
            .map(|soon| u64::from(soon.len_bytes))
            .sum();
        assert!(ahead < reads * 8 * KIB / 10, "{ahead} bytes ahead of {}", reads * 8 * KIB);
    }

    #[test]
    fn a_stream_is_read_ahead_in_steps_half_as_far_as_it_has_come() {
        let mut streams = Streams::default();
        let mut covered = 12 * KIB;
        for n in 0..400 {
            let end = (n + 1) * 4 * KIB;
            let soon = streams.note(n * 4 * KIB, 4 * KIB);
            assert!(n >= 2 || soon.is_none(), "the first reads are read alone");
            if let Some(soon) = soon {
                assert_eq!(soon.at_bytes, covered, "no byte is left out or read twice");
                covered += u64::from(soon.len_bytes);
                assert!(soon.len_bytes >= 32 << 10, "no small steps");
            }
            if n >= 2 {
                let distance = (end / 2).clamp(64 * KIB, 512 * KIB);
                let (ahead, least) = (covered - end, distance - (128 * KIB).min(distance / 2));
                assert!(ahead <= distance && (ahead > least || end < 64 * KIB), "{ahead} at {end}");
            }
        }
        assert!(streams.note(1 << 40, 4 * KIB).is_none(), "nothing is known of another place");
    }

    #[test]
    fn large_reads_start_what_follows_them_and_nothing_between_the_parts_of_one() {
        let mut streams = Streams::default();
        let started: Vec<_> = (0..4).map(|n| streams.note(n << 20, 1 << 20)).collect();
        let soon = |at_bytes: u64| Some(Soon { at_bytes, len_bytes: 512 << 10, token: None });
        assert_eq!(started, [None, None, soon(3 << 20), soon(4 << 20)]);
        (4..8).for_each(|n| streams.pass(n << 20, 1 << 20));
        assert_eq!(streams.note(8 << 20, 4 * KIB), soon((8 << 20) + 4 * KIB));
    }

    #[test]
    fn what_is_cut_off_is_started_once_the_stream_gets_there() {
        let mut streams = Streams::default();
        (0..8).for_each(|n| _ = streams.note(n * 128 * KIB, 128 * KIB));
        let soon = streams.note(1024 * KIB, 128 * KIB).unwrap();
        assert_eq!(soon.at_bytes + u64::from(soon.len_bytes), 1664 * KIB, "512 KiB ahead");
        streams.cut(1600 * KIB);
        assert_eq!(streams.note(1152 * KIB, 128 * KIB).unwrap().at_bytes, 1600 * KIB);
        streams.cut(100 * KIB);
        assert_eq!(streams.note(1280 * KIB, 128 * KIB).unwrap().at_bytes, 1408 * KIB, "not what was read");
        assert_eq!(streams.asked_bytes(), 11 * 128 * KIB);
    }

    #[test]
    fn streams_that_alternate_do_not_disturb_each_other() {
        let mut streams = Streams::default();
        let mut read_ahead = [0u64; 4];
        for n in 0..64 {
            for (which, bytes) in read_ahead.iter_mut().enumerate() {
                let at = (which as u64) << 30;
                *bytes += streams.note(at + n * 4 * KIB, 4 * KIB).map_or(0, |soon| u64::from(soon.len_bytes));
            }
        }
        // 256 KiB each, 128 KiB ahead.
        assert!(read_ahead.iter().all(|bytes| (256 * KIB..=384 * KIB).contains(bytes)), "{read_ahead:?}");
    }

    #[test]
    fn a_record_behind_its_content_keeps_the_stream_going() {
        let mut streams = Streams::default();
        for n in 0..100u64 {
            let with_it = streams.note_record((n * 5 + 4) * KIB, KIB);
            assert!(n == 0 || with_it.behind_bytes > 0, "record {n}");
            let _started = streams.note(n * 5 * KIB, 4 * KIB);
        }
        assert_eq!(streams.streams.len(), 1);
    }

    #[test]
    fn metadata_is_read_with_its_neighbours_from_the_second_one_on() {
        let mut streams = Streams::default();
        assert_eq!(streams.note_metadata(10 << 20, 4 * KIB, Neighbours::Around), Ahead::NONE);
        let again = streams.note_metadata((10 << 20) + 100 * KIB, 4 * KIB, Neighbours::Around);
        assert_eq!(again, Ahead { before_bytes: 158 << 10, behind_bytes: 158 << 10 });
        assert_eq!(streams.note_metadata(90 << 20, 4 * KIB, Neighbours::Behind), Ahead::NONE);
        let before = streams.note_metadata(90 << 20, 4 * KIB, Neighbours::Before);
        assert_eq!(before, Ahead { before_bytes: 316 << 10, behind_bytes: 0 });
    }
}
