//! `LongReads`: long reads into the caller's memory go to the device a few at a time, in the order in which they came.
//!
//! A virtual disk may complete everything that it has at once, and has nothing to do then until its guest has taken all of that up. If a few reads are
//! under way and the others wait here, it reads meanwhile (docs/decisions/0126).
//!
//! Invariants: no more than [`AT_ONCE_BYTES`] are under way, or one read that is longer; but nobody waits for longer than [`PATIENCE`], so
//! a device that takes its time over each of many reads gets all of them.
//!
//! Caller: `FileDevice`.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What is under way at a time: two reads of 1 MiB, with what lies between their blocks, so that the disk has another one while the first is
/// taken up.
const AT_ONCE_BYTES: u64 = (2 << 20) + (256 << 10);
/// Longest wait. What so much takes a disk of 1 GB/s; slower ones gain nothing here.
const PATIENCE: Duration = Duration::from_millis(2);

#[derive(Default)]
struct State {
    under_way_bytes: u64,
    /// The number of the next read that comes.
    number: u64,
    /// Those that wait, in order.
    waiting: VecDeque<u64>,
}

/// See the module's head.
pub(super) struct LongReads {
    state: Mutex<State>,
    changed: Condvar,
    patience: Duration,
}

/// A read is under way until this is dropped.
#[must_use]
pub(super) struct UnderWay<'a> {
    reads: &'a LongReads,
    len_bytes: u64,
}

impl Default for LongReads {
    fn default() -> Self {
        Self::with_patience(PATIENCE)
    }
}

impl LongReads {
    fn with_patience(patience: Duration) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), patience }
    }

    /// Waits until a read of so many bytes may go to the device.
    pub fn begin(&self, len_bytes: u64) -> UnderWay<'_> {
        let mut state = self.state.lock();
        let number = state.number;
        state.number += 1;
        state.waiting.push_back(number);
        let is_its_turn = |state: &State| {
            let has_room = state.under_way_bytes == 0 || state.under_way_bytes + len_bytes <= AT_ONCE_BYTES;
            has_room && state.waiting.front() == Some(&number)
        };
        if !is_its_turn(&state) {
            let until = Instant::now() + self.patience;
            while !is_its_turn(&state) && !self.changed.wait_until(&mut state, until).timed_out() {}
        }
        state.waiting.retain(|waiting| *waiting != number);
        state.under_way_bytes += len_bytes;
        let others_wait = !state.waiting.is_empty();
        drop(state);
        if others_wait {
            self.changed.notify_all();
        }
        UnderWay { reads: self, len_bytes }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut state = self.reads.state.lock();
        state.under_way_bytes -= self.len_bytes;
        let others_wait = !state.waiting.is_empty();
        drop(state);
        if others_wait {
            self.reads.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    const MIB: u64 = 1 << 20;
    const FOR_EVER: Duration = Duration::from_secs(3600);

    #[test]
    fn reads_beyond_what_may_be_under_way_wait_in_order() {
        let reads = LongReads::with_patience(FOR_EVER);
        let first = reads.begin(MIB);
        let second = reads.begin(MIB);
        let (tell, told) = channel();
        std::thread::scope(|scope| {
            let wait_for = |count| {
                while reads.state.lock().waiting.len() < count {
                    std::thread::yield_now();
                }
            };
            let begin = |len_bytes| {
                let (tell, reads) = (tell.clone(), &reads);
                scope.spawn(move || {
                    let _under_way = reads.begin(len_bytes);
                    tell.send(len_bytes).unwrap();
                });
            };
            begin(2 * MIB);
            wait_for(1);
            // It would fit beside the second one, and does not fit beside the third.
            begin(MIB);
            wait_for(2);
            drop(first);
            assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "none overtakes the one before");
            drop(second);
        });
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [2 * MIB, MIB]);
        assert_eq!(reads.state.lock().under_way_bytes, 0);
    }

    #[test]
    fn a_read_that_is_longer_than_what_may_be_under_way_goes_alone() {
        let reads = LongReads::with_patience(FOR_EVER);
        drop(reads.begin(100 * MIB));
        assert_eq!(reads.state.lock().under_way_bytes, 0);
    }

    #[test]
    fn a_slow_device_gets_more() {
        let reads = LongReads::with_patience(Duration::from_millis(1));
        let under_way: Vec<_> = (0..5).map(|_| reads.begin(MIB)).collect();
        let state = reads.state.lock();
        assert!(state.under_way_bytes == 5 * MIB && state.waiting.is_empty());
        drop(state);
        drop(under_way);
        assert_eq!(reads.state.lock().under_way_bytes, 0);
    }
}
