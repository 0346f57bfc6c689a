//! `Scattered`: the bytes of a read where they lie, in the buffers into which the device read them and in blocks of the store's memory.
//!
//! The reply to the kernel hands on the places and copies nothing; [`Scattered::copy_to`] makes the one copy for callers with a buffer
//! of their own. What lies in blocks stays as it was: a block in memory is immutable, and a later
//! write replaces it. Stretches that follow each other in one buffer are one part.
//!
//! Made by `reader`; callers of [`Volume::read_scattered`](crate::Volume::read_scattered) use it.

use firnfs::fetch::Fetched;
use firnfs::store::Buf;
use std::ops::Range;

/// What holes are shown as, piece by piece.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A stretch of the bytes.
#[derive(Debug)]
enum Part {
    /// Read from the device.
    Read(Fetched),
    /// In a block in memory.
    Block(Buf, Range<usize>),
    Zeros(usize),
    /// In the caller's memory, at this place, which is also its place among the bytes.
    InPlace(Range<usize>),
}

impl Part {
    fn len_bytes(&self) -> usize {
        match self {
            Self::Read(bytes) => bytes.len(),
            Self::Block(_, range) | Self::InPlace(range) => range.len(),
            Self::Zeros(len) => *len,
        }
    }
}

/// See the module's head.
#[derive(Debug, Default)]
pub struct Scattered {
    parts: Vec<Part>,
    len_bytes: usize,
}

impl Scattered {
    /// Number of bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// The bytes, in order; `room` is the memory into which the read was allowed to put some of them.
    pub fn slices<'a>(&'a self, room: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.parts.iter().flat_map(move |part| {
            let (bytes, zeros) = match part {
                Part::Read(bytes) => (&bytes[..], 0),
                Part::Block(block, range) => (&block[range.clone()], 0),
                Part::InPlace(range) => (&room[range.clone()], 0),
                Part::Zeros(len) => (&[][..], *len),
            };
            let holes = (0..zeros).step_by(ZEROS.len()).map(move |at| &ZEROS[..ZEROS.len().min(zeros - at)]);
            Some(bytes).filter(|bytes| !bytes.is_empty()).into_iter().chain(holes)
        })
    }

    /// Copies all of it to the beginning of `out`, but for what is there already, if `out` is the memory that the read was given.
    ///
    /// # Panics
    /// If `out` is shorter.
    pub fn copy_to(&self, out: &mut [u8]) {
        let mut at = 0;
        for part in &self.parts {
            let len = part.len_bytes();
            let to = &mut out[at..at + len];
            match part {
                Part::Read(bytes) => to.copy_from_slice(bytes),
                Part::Block(block, range) => to.copy_from_slice(&block[range.clone()]),
                Part::Zeros(_) => to.fill(0),
                Part::InPlace(_) => {}
            }
            at += len;
        }
    }

    /// Appends bytes that are in the caller's memory already, behind those of so many bytes.
    pub fn add_in_place(&mut self, len_bytes: usize) {
        let begins = self.len_bytes;
        self.len_bytes += len_bytes;
        match self.parts.last_mut() {
            Some(Part::InPlace(range)) => range.end = self.len_bytes,
            _ => self.parts.push(Part::InPlace(begins..self.len_bytes)),
        }
    }

    /// Appends zeros.
    pub fn add_zeros(&mut self, len_bytes: usize) {
        self.len_bytes += len_bytes;
        match self.parts.last_mut() {
            Some(Part::Zeros(len)) => *len += len_bytes,
            _ if len_bytes == 0 => {}
            _ => self.parts.push(Part::Zeros(len_bytes)),
        }
    }

    /// Appends a stretch of a block.
    ///
    /// # Panics
    /// [`Scattered::slices`] panics if it does not lie inside.
    pub fn add_block(&mut self, block: &Buf, range: Range<usize>) {
        self.len_bytes += range.len();
        self.parts.push(Part::Block(block.clone(), range));
    }

    /// Appends so many bytes of what was read, from `start` on; what is behind its end is zero.
    pub fn add_read(&mut self, read: &Fetched, start: usize, len_bytes: usize) {
        let start = start.min(read.len());
        let have = (read.len() - start).min(len_bytes);
        if let Some(bytes) = read.within(start..start + have).filter(|bytes| !bytes.is_empty()) {
            self.len_bytes += have;
            let joined = match self.parts.last() {
                Some(Part::Read(last)) => last.joined(&bytes),
                _ => None,
            };
            if joined.is_some() {
                self.parts.pop();
            }
            self.parts.push(Part::Read(joined.unwrap_or(bytes)));
        }
        self.add_zeros(len_bytes - have);
    }

    /// Appends the bytes of another read, whose memory follows that of this one.
    pub fn append(&mut self, next: Self) {
        let before = self.len_bytes;
        self.len_bytes += next.len_bytes;
        self.parts.extend(next.parts.into_iter().map(|part| match part {
            Part::InPlace(range) => Part::InPlace(before + range.start..before + range.end),
            elsewhere => elsewhere,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firnfs_device::AlignedBuf;
    use std::sync::Arc;

    #[test]
    fn stretches_that_follow_each_other_in_a_buffer_are_one_part_and_nothing_is_copied() {
        let buf = Arc::new(AlignedBuf::copy_of(&[7; 8192]));
        let block = |at: usize| Fetched::part(&buf, at..at + 4096).unwrap();
        let mut read = Scattered::default();
        read.add_read(&block(0), 1000, 3096);
        read.add_read(&block(4096), 0, 500);
        let slices: Vec<&[u8]> = read.slices(&[]).collect();
        assert_eq!(slices.len(), 1);
        assert_eq!((slices[0].as_ptr(), slices[0].len()), (buf[1000..].as_ptr(), 3596));
        read.add_read(&block(0), 0, 10);
        assert_eq!(read.slices(&[]).count(), 2, "it does not follow");
    }

    #[test]
    fn what_is_in_the_callers_memory_already_is_named_there_and_not_copied() {
        let part = |before: usize| {
            let mut read = Scattered::default();
            read.add_block(&Buf::from([1, 2]), 0..before);
            read.add_in_place(2);
            read.add_in_place(1);
            read
        };
        let mut read = part(2);
        read.append(part(1));
        let mut room = [0, 0, 13, 14, 15, 0, 17, 18, 19];
        let slices: Vec<&[u8]> = read.slices(&room).collect();
        assert_eq!(slices, [&[1, 2][..], &[13, 14, 15], &[1], &[17, 18, 19]]);
        read.copy_to(&mut room);
        assert_eq!(room, [1, 2, 13, 14, 15, 1, 17, 18, 19]);
    }

    #[test]
    fn what_is_behind_the_stored_bytes_is_zero() {
        let short = Fetched::from(&[5; 10][..]);
        let mut read = Scattered::default();
        read.add_block(&Buf::from([1, 2, 3]), 1..3);
        read.add_read(&short, 8, 70_000);
        read.add_read(&short, 20, 3);
        let mut more = Scattered::default();
        more.add_zeros(2);
        read.append(more);
        assert_eq!(read.len_bytes(), 70_007);
        let mut out = vec![9; 70_010];
        read.copy_to(&mut out);
        assert_eq!(out[..4], [2, 3, 5, 5]);
        assert!(out[4..70_007].iter().all(|&byte| byte == 0));
        assert_eq!(out[70_007..], [9; 3]);
        assert_eq!(read.slices(&[]).map(<[u8]>::len).sum::<usize>(), 70_007);
    }
}
