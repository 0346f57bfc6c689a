//! `SeekDisk`: a disk whose head takes time to move, in virtual time. For experiments with the order of blocks.
//!
//! (A [`crate::TimedDisk`] has a queue, and takes the same time for a request wherever it is.)
//!
//! One head, one request at a time, no cache: a request that goes on where the last one ended takes its transfer time; one a
//! little further on also the time of what it passes over; any other one a seek (half a rotation in it). All seeks are equally
//! long: what is measured is how many there are. Callers: the lab, tests of coalescing.

use crate::VirtualClock;
use firnfs_device::{Completion, Device, Geometry, Request, Tag};
use parking_lot::Mutex;
use std::sync::Arc;

/// How fast a disk is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadSpeed {
    /// Time of a seek with the wait for the sector, in nanoseconds.
    pub seek_ns: u64,
    /// Bytes that pass under the head in a second.
    pub bytes_per_second: u64,
    /// Time of a flush, in nanoseconds.
    pub flush_ns: u64,
}

impl HeadSpeed {
    /// A hard disk of 7200 rotations a minute: 10 ms, 100 MB/s.
    pub const HARD_DISK: Self =
        Self { seek_ns: 10_000_000, bytes_per_second: 100_000_000, flush_ns: 8_000_000 };

    fn transfer_ns(&self, bytes: u64) -> u64 {
        (u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second.max(1))) as u64
    }
}

/// What a disk did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Motion {
    /// Seeks.
    pub seeks: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Time it was busy, in nanoseconds.
    pub busy_ns: u64,
}

impl Motion {
    /// What came since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            seeks: self.seeks - earlier.seeks,
            read_bytes: self.read_bytes - earlier.read_bytes,
            write_bytes: self.write_bytes - earlier.write_bytes,
            busy_ns: self.busy_ns - earlier.busy_ns,
        }
    }
}

#[derive(Default)]
struct Head {
    /// Behind the last byte read or written.
    at_bytes: u64,
    motion: Motion,
}

/// See the module's head.
pub struct SeekDisk<D> {
    inner: D,
    clock: Arc<VirtualClock>,
    speed: HeadSpeed,
    head: Mutex<Head>,
}

impl<D: Device> SeekDisk<D> {
    /// Takes the time on `clock` that the requests to `inner` would take on such a disk. The head is at its start.
    pub fn new(inner: D, clock: Arc<VirtualClock>, speed: HeadSpeed) -> Self {
        Self { inner, clock, speed, head: Mutex::default() }
    }

    /// What it did so far.
    pub fn motion(&self) -> Motion {
        self.head.lock().motion
    }

    fn take_time(&self, request: &Request) {
        let mut head = self.head.lock();
        let (at_bytes, len_bytes) = (request.at_bytes(), request.len_bytes());
        let ns = match request {
            Request::Flush => self.speed.flush_ns,
            Request::Discard { .. } => 0,
            Request::Read { .. } | Request::Write { .. } => {
                let is_read = matches!(request, Request::Read { .. });
                head.motion.read_bytes += if is_read { len_bytes } else { 0 };
                head.motion.write_bytes += if is_read { 0 } else { len_bytes };
                let to_ns = self.way_ns(&mut head, at_bytes);
                head.at_bytes = at_bytes.saturating_add(len_bytes);
                to_ns + self.speed.transfer_ns(len_bytes)
            }
        };
        head.motion.busy_ns += ns;
        self.clock.advance_ns(i64::try_from(ns).unwrap_or(i64::MAX));
    }

    /// How long it takes the head to come to a place.
    fn way_ns(&self, head: &mut Head, at_bytes: u64) -> u64 {
        let gap_ns = at_bytes.checked_sub(head.at_bytes).map(|gap_bytes| self.speed.transfer_ns(gap_bytes));
        match gap_ns {
            Some(gap_ns) if gap_ns < self.speed.seek_ns => gap_ns,
            _ => {
                head.motion.seeks += 1;
                self.speed.seek_ns
            }
        }
    }
}

impl<D: Device> Device for SeekDisk<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        self.take_time(&request);
        self.inner.submit(request)
    }
    fn wait(&self, tag: Tag) -> Completion {
        self.inner.wait(tag)
    }
    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firnfs_device::{Clock, MemDevice};

    #[test]
    fn reading_on_costs_the_transfer_and_going_elsewhere_a_seek() {
        let clock = Arc::new(VirtualClock::at(0));
        let disk = SeekDisk::new(MemDevice::new(1 << 30), clock.clone(), HeadSpeed::HARD_DISK);
        let took_ns = |at_bytes| {
            let before_ns = clock.now_ns();
            disk.read(at_bytes, 1_000_448).unwrap();
            clock.now_ns() - before_ns
        };
        assert_eq!(took_ns(0), 10_004_480);
        assert_eq!(took_ns(1_000_448), 10_004_480);
        assert_eq!(took_ns(500 << 20), 20_004_480);
        assert_eq!(took_ns((500 << 20) + 1_000_448 + 102_400), 10_004_480 + 1_024_000);
        assert_eq!(took_ns(0), 20_004_480);
        disk.flush().unwrap();
        let motion = disk.motion();
        assert_eq!((motion.seeks, motion.read_bytes, motion.write_bytes), (2, 5 * 1_000_448, 0));
        assert_eq!(motion.busy_ns, clock.now_ns() as u64);
        assert_eq!(disk.motion().since(&motion), Motion::default());
    }
}
