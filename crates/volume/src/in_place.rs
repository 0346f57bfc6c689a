//! `Run`: a stretch of a read that the device reads straight to where the caller wants it.
//!
//! A long read of a file that lies on the device in the order of the file needs no buffers of its own. What lies between its blocks, such as
//! the summaries of a log, is read beside: that costs less than a request for each stretch.
//!
//! Invariants: a run has whole blocks alone, at multiples of the device's unit, and each is verified before anyone sees it.
//!
//! Caller: `reader`.

use firnfs::FsError;
use firnfs::engine::Verify;
use firnfs::store::{Piece, ReadPlan};
use firnfs_device::{AlignedBuf, Device};
use std::io::IoSliceMut;
use std::ops::Range;

/// Shorter runs are read like other blocks.
const RUN_MIN_BYTES: usize = 64 << 10;
/// At most one byte between the blocks of a run for so many bytes of blocks in front of it.
const BLOCKS_TO_GAPS: usize = 8;

/// Blocks that follow each other on the device without a gap, in bytes, behind a gap.
struct Stretch {
    gap_bytes: usize,
    len_bytes: usize,
}

/// See the module's head.
pub(crate) struct Run {
    /// Which pieces of the plan.
    pub pieces: Range<usize>,
    /// Where their bytes belong, from the beginning of the read.
    pub place: Range<usize>,
    /// On the device.
    at_bytes: u64,
    stretches: Vec<Stretch>,
}

impl Run {
    /// The longest run of a plan, if it is long enough. `unit_bytes`: what the device reads at least.
    pub fn longest(plan: &ReadPlan, unit_bytes: u64) -> Option<Self> {
        let mut runs: Vec<Self> = Vec::new();
        let mut place = 0;
        for (index, piece) in plan.pieces.iter().enumerate() {
            if let Some((at_bytes, len_bytes)) = whole_block(piece, unit_bytes) {
                let follows = |run: &mut Self| run.pieces.end == index && run.goes_on(at_bytes, len_bytes);
                if !runs.last_mut().is_some_and(follows) {
                    runs.push(Self {
                        pieces: index..index + 1,
                        place: place..place + len_bytes,
                        at_bytes,
                        stretches: vec![Stretch { gap_bytes: 0, len_bytes }],
                    });
                }
            }
            place += piece.len_bytes();
        }
        let longest =
            runs.into_iter().reduce(|longest, run| if run.len() > longest.len() { run } else { longest });
        longest.filter(|run| run.len() >= RUN_MIN_BYTES)
    }

    fn len(&self) -> usize {
        self.place.len()
    }

    /// Takes up another block, if it lies where the run goes on.
    fn goes_on(&mut self, at_bytes: u64, len_bytes: usize) -> bool {
        let most_bytes = (self.len() / BLOCKS_TO_GAPS).saturating_sub(self.gaps_bytes());
        let gap_bytes = match at_bytes.checked_sub(self.device_range().end) {
            Some(gap_bytes) if gap_bytes <= most_bytes as u64 => gap_bytes as usize,
            _ => return false,
        };
        match self.stretches.last_mut() {
            Some(last) if gap_bytes == 0 => last.len_bytes += len_bytes,
            _ => self.stretches.push(Stretch { gap_bytes, len_bytes }),
        }
        self.pieces.end += 1;
        self.place.end += len_bytes;
        true
    }

    /// Where it lies on the device, with what is between its blocks.
    pub fn device_range(&self) -> Range<u64> {
        self.at_bytes..self.at_bytes + self.len() as u64 + self.gaps_bytes() as u64
    }

    fn gaps_bytes(&self) -> usize {
        self.stretches.iter().map(|stretch| stretch.gap_bytes).sum()
    }

    /// Reads it to its place in `room`, which has the whole read.
    pub fn read(&self, device: &dyn Device, room: &mut [u8]) -> Result<(), FsError> {
        let mut beside = AlignedBuf::scratch(self.gaps_bytes());
        let (mut beside, mut room) = (&mut beside[..], &mut room[self.place.clone()]);
        let mut parts = Vec::with_capacity(2 * self.stretches.len());
        for stretch in &self.stretches {
            for (from, len) in [(&mut beside, stretch.gap_bytes), (&mut room, stretch.len_bytes)] {
                let (part, rest) = std::mem::take(from).split_at_mut(len);
                *from = rest;
                if len > 0 {
                    parts.push(IoSliceMut::new(part));
                }
            }
        }
        device.read_parts(self.at_bytes, &mut parts).map_err(|e| FsError::Io(e.to_string()))
    }

    /// Verifies each of its blocks, once they are in `room`.
    pub fn verify(&self, plan: &ReadPlan, room: &[u8], verifier: &dyn Verify) -> Result<(), FsError> {
        let mut at = self.place.start;
        for piece in &plan.pieces[self.pieces.clone()] {
            let Piece::Stored { token, len_bytes, .. } = piece else { continue };
            verifier.verify(token, &room[at..at + len_bytes])?;
            at += len_bytes;
        }
        Ok(())
    }
}

/// Place and length of a piece that is a whole block on the device.
fn whole_block(piece: &Piece, unit_bytes: u64) -> Option<(u64, usize)> {
    let &Piece::Stored { at_bytes, stored_bytes, start: 0, len_bytes, .. } = piece else { return None };
    let is_whole = stored_bytes as usize == len_bytes
        && at_bytes.is_multiple_of(unit_bytes)
        && (len_bytes as u64).is_multiple_of(unit_bytes);
    is_whole.then_some((at_bytes, len_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use firnfs::fetch::Token;
    use firnfs::store::Buf;
    use firnfs_device::{CountingDevice, MemDevice};
    use std::sync::Arc;

    const BLOCK: usize = 4096;

    /// A whole block; the token says what its bytes are.
    fn block(at_bytes: usize, byte: u8) -> Piece {
        let (at_bytes, token) = (at_bytes as u64, Token::of([byte.into(), 0, 0, 0, 0]));
        Piece::Stored { token, at_bytes, stored_bytes: BLOCK as u32, start: 0, len_bytes: BLOCK }
    }

    fn blocks(from: usize, count: usize) -> impl Iterator<Item = Piece> {
        (0..count).map(move |n| block(from + n * BLOCK, 7))
    }

    fn longest(pieces: impl Iterator<Item = Piece>) -> Option<Run> {
        Run::longest(&ReadPlan { pieces: pieces.collect(), ..ReadPlan::default() }, 512)
    }

    /// Every byte is the first word of the token.
    struct FirstWord;

    impl Verify for FirstWord {
        fn verify(&self, token: &Token, bytes: &[u8]) -> Result<(), FsError> {
            let is_right = bytes.iter().all(|&byte| u64::from(byte) == token.words()[0]);
            is_right.then_some(()).ok_or_else(|| FsError::Io("other bytes".to_owned()))
        }
        fn notices_stale(&self, _token: &Token) -> bool {
            true
        }
    }

    #[test]
    fn the_longest_run_is_found_between_memory_holes_and_parts_of_blocks() {
        let memory = || Piece::Memory { buf: Buf::from([1; BLOCK]), start: 0, len_bytes: BLOCK };
        let short = Piece::Stored {
            token: Token::of([0; 5]),
            at_bytes: 200 * BLOCK as u64,
            stored_bytes: 512,
            start: 0,
            len_bytes: BLOCK,
        };
        let run = longest(
            blocks(0, 20)
                .chain([memory()])
                .chain(blocks(20 * BLOCK, 30))
                .chain([Piece::Zeros { len_bytes: 3 * BLOCK }])
                .chain(blocks(100 * BLOCK, 30))
                .chain([short]),
        )
        .unwrap();
        assert_eq!(
            (run.pieces.clone(), run.place.clone()),
            (21..51, 21 * BLOCK..51 * BLOCK),
            "the first of two"
        );
        assert_eq!(run.device_range(), 20 * BLOCK as u64..50 * BLOCK as u64);
        assert!(longest(blocks(0, 15)).is_none(), "too short");
        assert!(longest(blocks(0, 15).chain(blocks(0, 15))).is_none(), "not on the device in this order");
        assert_eq!(longest(blocks(0, 16)).unwrap().pieces, 0..16);
        assert!(longest(blocks(256, 64)).is_none(), "not at multiples of the device's unit");
    }

    #[test]
    fn a_run_passes_over_little_and_no_more_than_an_eighth_of_what_it_has() {
        let run = longest(blocks(0, 32).chain(blocks(32 * BLOCK + 3 * 512, 32))).unwrap();
        assert_eq!((run.pieces.clone(), run.gaps_bytes()), (0..64, 3 * 512));
        let run = longest(blocks(0, 32).chain(blocks(36 * BLOCK + 512, 33))).unwrap();
        assert_eq!((run.pieces.clone(), run.gaps_bytes()), (32..65, 0), "a gap of more than an eighth");
        let every_other = (0..128).map(|n| block(2 * n * BLOCK, 7));
        assert!(longest(every_other).is_none());
    }

    #[test]
    fn the_bytes_land_in_their_place_with_one_read_and_each_block_is_verified() {
        let device = CountingDevice::new(MemDevice::new(1 << 20));
        let bytes = |byte: u8, len: usize| Arc::new(AlignedBuf::copy_of(&vec![byte; len]));
        device.write(0, bytes(1, 64 * BLOCK)).unwrap();
        device.write(32 * BLOCK as u64, bytes(9, 1024)).unwrap();
        let behind = 32 * BLOCK + 1024;
        let pieces: Vec<Piece> = [Piece::Zeros { len_bytes: 100 }]
            .into_iter()
            .chain((0..32).map(|n| block(n * BLOCK, 1)))
            .chain((0..31).map(|n| block(behind + n * BLOCK, 1)))
            .collect();
        let plan = ReadPlan { pieces, ..ReadPlan::default() };
        let run = Run::longest(&plan, 512).unwrap();
        let mut room = vec![5; plan.len_bytes() + 10];
        let before = device.counts();
        run.read(&device, &mut room).unwrap();
        assert_eq!(device.counts().since(&before).reads, 1);
        assert!(
            room[..100].iter().chain(&room[100 + 63 * BLOCK..]).all(|&byte| byte == 5),
            "nothing else is touched"
        );
        assert!(room[run.place.clone()].iter().all(|&byte| byte == 1), "not what lies between the blocks");
        run.verify(&plan, &room, &FirstWord).unwrap();
        // Each byte of each block counts.
        for at in [run.place.start, run.place.start + 40 * BLOCK, run.place.end - 1] {
            room[at] ^= 1;
            run.verify(&plan, &room, &FirstWord).unwrap_err();
            room[at] ^= 1;
        }
    }
}
