//! `TimedDisk`: a disk whose requests take virtual time, one after the other, and that keeps everything.
//!
//! A request begins when it was submitted and all before it are complete. Who waits for one moves the clock to its end, or sleeps
//! until then where threads take turns ([`crate::Turns`]).

use crate::clock::VirtualClock;
use crate::turns::Turns;
use firnfs_device::{Clock, Completion, Device, Geometry, Request, Tag};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// How long requests take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Speed {
    /// Of each read and write, whatever its length, in nanoseconds.
    pub request_ns: i64,
    /// Of each byte, in picoseconds.
    pub byte_ps: i64,
    /// Of each flush, in nanoseconds.
    pub flush_ns: i64,
}

impl Speed {
    /// A disk of the second decade: 8 ms to get there, 150 MB/s.
    pub const HARD_DISK: Self = Self { request_ns: 8_000_000, byte_ps: 6_700, flush_ns: 8_000_000 };
    /// A solid-state disk behind SATA: 500 MB/s.
    pub const SOLID_STATE: Self = Self { request_ns: 80_000, byte_ps: 2_000, flush_ns: 1_000_000 };

    /// How long a request takes by itself, in nanoseconds.
    #[must_use]
    pub fn service_ns(&self, request: &Request) -> i64 {
        match request {
            Request::Read { .. } | Request::Write { .. } => self.transfer_ns(request.len_bytes()),
            Request::Flush => self.flush_ns,
            Request::Discard { .. } => self.request_ns,
        }
    }

    /// How long so many bytes take in one request, in nanoseconds.
    #[must_use]
    pub fn transfer_ns(&self, bytes: u64) -> i64 {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.request_ns.saturating_add(bytes.saturating_mul(self.byte_ps) / 1000)
    }
}

#[derive(Default)]
struct Queue {
    /// When all that was submitted is complete.
    idle_at_ns: i64,
    /// When each request that nobody has waited for is complete.
    ends_ns: BTreeMap<Tag, i64>,
    busy_ns: i64,
}

/// See the module's head.
pub struct TimedDisk<D> {
    inner: D,
    clock: Arc<VirtualClock>,
    speed: Speed,
    queue: Mutex<Queue>,
    turns: OnceLock<Arc<Turns>>,
}

impl<D: Device> TimedDisk<D> {
    /// Stores in `inner`, takes the time of `clock`.
    pub fn new(inner: D, clock: Arc<VirtualClock>, speed: Speed) -> Self {
        Self { inner, clock, speed, queue: Mutex::default(), turns: OnceLock::new() }
    }

    /// Threads that wait sleep in turns from now on. Only the first call counts.
    pub fn take_turns(&self, turns: Arc<Turns>) {
        self.turns.get_or_init(|| turns);
    }

    /// How long the disk was busy so far, in nanoseconds.
    pub fn busy_ns(&self) -> i64 {
        self.queue.lock().busy_ns
    }

    /// Where it stores.
    pub fn inner(&self) -> &D {
        &self.inner
    }
}

impl<D: Device> Device for TimedDisk<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, request: Request) -> Tag {
        let service_ns = self.speed.service_ns(&request);
        let tag = self.inner.submit(request);
        let mut queue = self.queue.lock();
        queue.idle_at_ns = queue.idle_at_ns.max(self.clock.now_ns()) + service_ns;
        queue.busy_ns += service_ns;
        let end_ns = queue.idle_at_ns;
        queue.ends_ns.insert(tag, end_ns);
        tag
    }

    fn wait(&self, tag: Tag) -> Completion {
        let end_ns = self.queue.lock().ends_ns.remove(&tag).unwrap_or_default();
        let left_ns = end_ns - self.clock.now_ns();
        match self.turns.get() {
            _ if left_ns <= 0 => {}
            Some(turns) if turns.takes_part() => turns.sleep_until(end_ns),
            _ => self.clock.advance_ns(left_ns),
        }
        self.inner.wait(tag)
    }

    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firnfs_device::{AlignedBuf, MemDevice};

    const SPEED: Speed = Speed { request_ns: 1000, byte_ps: 2000, flush_ns: 70 };

    fn disk() -> (Arc<TimedDisk<MemDevice>>, Arc<VirtualClock>) {
        let clock = Arc::new(VirtualClock::at(5));
        (Arc::new(TimedDisk::new(MemDevice::new(1 << 20), clock.clone(), SPEED)), clock)
    }

    fn write(at_bytes: u64) -> Request {
        Request::Write { at_bytes, data: Arc::new(AlignedBuf::copy_of(&[3; 512])) }
    }

    #[test]
    fn requests_queue_up_and_waiting_takes_until_their_end() {
        let (disk, clock) = disk();
        let tags = [disk.submit(write(0)), disk.submit(write(512)), disk.submit(Request::Flush)];
        assert_eq!(clock.now_ns(), 5);
        disk.wait(tags[1]).unwrap();
        assert_eq!(clock.now_ns(), 5 + 2 * (1000 + 1024));
        // Complete by then.
        disk.wait(tags[0]).unwrap();
        assert_eq!(clock.now_ns(), 5 + 2 * (1000 + 1024));
        clock.advance_ns(10);
        disk.wait(tags[2]).unwrap();
        assert_eq!(clock.now_ns(), 5 + 2 * (1000 + 1024) + 70);
        // An idle disk begins when it is asked.
        clock.advance_ns(1_000_000);
        let before_ns = clock.now_ns();
        assert_eq!(&*disk.read(0, 512).unwrap(), &[3; 512]);
        assert_eq!(clock.now_ns() - before_ns, 1000 + 1024);
        assert_eq!(disk.busy_ns(), 3 * (1000 + 1024) + 70);
    }

    #[test]
    fn requests_of_threads_that_take_turns_queue_up_behind_each_other() {
        let (disk, clock) = disk();
        let turns = Arc::new(Turns::new(clock.clone(), 2));
        disk.take_turns(turns.clone());
        let flush_at = |me: usize, at_ns: i64| {
            turns.enter(me);
            turns.sleep_until(at_ns);
            disk.flush().unwrap();
            let done_ns = clock.now_ns();
            turns.leave();
            done_ns
        };
        let (first, second) = std::thread::scope(|scope| {
            let first = scope.spawn(|| flush_at(0, 100));
            let second = scope.spawn(|| flush_at(1, 130));
            (first.join().unwrap(), second.join().unwrap())
        });
        assert_eq!((first, second), (170, 240));
    }
}
