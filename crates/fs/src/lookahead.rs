//! Look-ahead: how much to read in addition to a request (4.4BSD's clustered read-ahead; USENIX'95, section 2).
//!
//! A *stream* is a run of reads of content each of which begins near the place where the last one ended. The first reads of a
//! stream are read alone. After [`HITS_TO_START`] further reads, a window is read with each read that goes to the device, and
//! each time a stream has passed through its window the next one is twice as long. Reads at random places begin streams that no
//! read continues, so they cause no look-ahead: of random reads in a file, only one in hundreds begins near the end of another.
//!
//! *Metadata* - records, indirect blocks, nodes - is small, was written together, and leads to the blocks that are read next:
//! from the second read in a neighbourhood on, the whole neighbourhood is read.
//!
//! Invariants: a pure state machine, no more than [`STREAMS`] streams and as many places of metadata; its answers depend only
//! on the reads noted.
//!
//! Callers: stores, for each of their reads.

use crate::fetch::Ahead;
use std::collections::VecDeque;

/// Streams remembered: the files and tables that are read at the same time.
const STREAMS: usize = 16;
/// A read that begins this close to the end of a stream, on either side, continues the stream: summaries and blocks of other
/// files lie in between, and a record lies after the content that is read after it.
const NEAR_BYTES: u64 = 32 << 10;
/// Reads that have to follow the first one of a stream before anything is read ahead for it.
const HITS_TO_START: u32 = 2;
/// First window of a stream.
const WINDOW_MIN_BYTES: u32 = 64 << 10;
/// The same for records: they are small, and a disk with a head goes back and forth between them and the content.
const RECORDS_MIN_BYTES: u32 = 256 << 10;
/// Longest window of a stream.
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
    /// Ends of blocks of metadata read recently, the last at the end.
    places: VecDeque<u64>,
}

impl Streams {
    /// Notes a read of content, `len_bytes` at a place on the device; returns the look-ahead.
    pub fn note(&mut self, at_bytes: u64, len_bytes: u64) -> Ahead {
        self.go_on(at_bytes, len_bytes, WINDOW_MIN_BYTES)
    }

    /// Notes a read of an inode's record, which may lie among content or among other records.
    pub fn note_record(&mut self, at_bytes: u64, len_bytes: u64) -> Ahead {
        self.go_on(at_bytes, len_bytes, RECORDS_MIN_BYTES)
    }

    fn go_on(&mut self, at_bytes: u64, len_bytes: u64, first_window_bytes: u32) -> Ahead {
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
        // A read that goes back a little does not move the stream back.
        stream.end = stream.end.max(end);
        if stream.hits >= HITS_TO_START && end > stream.covered {
            stream.window_bytes = (stream.window_bytes * 2).clamp(first_window_bytes, WINDOW_MAX_BYTES);
            stream.covered = end + u64::from(stream.window_bytes);
        }
        self.streams.push_back(stream);
        Ahead { before_bytes: 0, behind_bytes: stream.window_bytes }
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
            .map(|_| u64::from(streams.note(noise(&mut state) % 12_800 * 8 * KIB, 8 * KIB).behind_bytes))
            .sum();
        assert!(ahead < reads * 8 * KIB / 10, "{ahead} bytes ahead of {}", reads * 8 * KIB);
    }

    #[test]
    fn a_stream_is_read_in_windows_that_double() {
        let mut streams = Streams::default();
        let mut windows: Vec<u32> =
            (0..400).map(|n| streams.note(n * 4 * KIB, 4 * KIB).behind_bytes).collect();
        windows.dedup();
        assert_eq!(windows, [0, 64 << 10, 128 << 10, 256 << 10, 512 << 10]);
        assert!(streams.note(1 << 40, 4 * KIB) == Ahead::NONE, "nothing is known of another place");
    }

    #[test]
    fn streams_that_alternate_do_not_disturb_each_other() {
        let mut streams = Streams::default();
        let mut read_ahead = [0u64; 4];
        for n in 0..64 {
            for (which, window) in read_ahead.iter_mut().enumerate() {
                let at = (which as u64) << 30;
                *window = u64::from(streams.note(at + n * 4 * KIB, 4 * KIB).behind_bytes);
            }
        }
        assert_eq!(read_ahead, [256 * KIB; 4]);
    }

    #[test]
    fn a_record_behind_its_content_keeps_the_stream_going() {
        let mut streams = Streams::default();
        let places = (0..100u64).flat_map(|n| [(n * 5 + 4) * KIB, n * 5 * KIB]);
        let windows: Vec<u32> = places.map(|at| streams.note(at, KIB).behind_bytes).collect();
        assert!(windows[2..].iter().all(|window| *window > 0), "{windows:?}");
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
