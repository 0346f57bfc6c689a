//! `TimedDisk`: a disk with one head and a queue, whose requests take virtual time, and which never loses data.
//!
//! It serves requests one after the other in the order of their submission; each begins once it was submitted and all earlier
//! ones are complete. A request that starts where the last read or write ended needs no seek. One a little further on costs the
//! bytes that it passes over, if that is less than a seek. Any other needs a seek. There is no cache. A thread that waits for a
//! request moves the clock to the request's end, or sleeps until then if threads take turns ([`crate::Turns`]).
//!
//! Callers: the lab's coalescing, the tests of bursts and stalls.

use crate::clock::VirtualClock;
use crate::speed::Speed;
use crate::turns::Turns;
use firnfs_device::{Clock, Completion, Counts, Device, Geometry, Request, Tag};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The work of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskWork {
    /// Seeks; 0 on a disk whose seeks take no time.
    pub seeks: u64,
    /// Requests and their bytes.
    pub asked: Counts,
    /// Time it was busy, in nanoseconds.
    pub busy_ns: i64,
}

impl DiskWork {
    /// The difference from an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            seeks: self.seeks - earlier.seeks,
            asked: self.asked.since(&earlier.asked),
            busy_ns: self.busy_ns - earlier.busy_ns,
        }
    }
}

#[derive(Default)]
struct Queue {
    /// When all submitted requests are complete.
    idle_at_ns: i64,
    /// When each request that nobody has waited for is complete.
    ends_ns: BTreeMap<Tag, i64>,
    /// The position of the head when all submitted requests are complete: after the last byte read or written.
    head_at_bytes: u64,
    work: DiskWork,
}

impl Queue {
    /// Appends a request; returns when it is complete.
    fn append(&mut self, request: &Request, speed: &Speed, now_ns: i64) -> i64 {
        self.work.asked.add(request);
        let way_ns = match request {
            Request::Read { .. } | Request::Write { .. } => {
                self.move_head(request.at_bytes(), request.len_bytes(), speed)
            }
            Request::Flush | Request::Discard { .. } => 0,
        };
        let took_ns = way_ns.saturating_add(speed.service_ns(request));
        self.work.busy_ns = self.work.busy_ns.saturating_add(took_ns);
        self.idle_at_ns = self.idle_at_ns.max(now_ns).saturating_add(took_ns);
        self.idle_at_ns
    }

    /// The time that the head takes to reach the beginning of a range, in nanoseconds. The head then stays after its end.
    fn move_head(&mut self, at_bytes: u64, len_bytes: u64, speed: &Speed) -> i64 {
        let gap_bytes = at_bytes.checked_sub(self.head_at_bytes);
        self.head_at_bytes = at_bytes.saturating_add(len_bytes);
        match gap_bytes.map(|bytes| speed.pass_ns(bytes)) {
            _ if speed.seek_ns == 0 => 0,
            Some(gap_ns) if gap_ns < speed.seek_ns => gap_ns,
            _ => {
                self.work.seeks += 1;
                speed.seek_ns
            }
        }
    }
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
    /// A disk that stores in `inner` and takes the time of `clock`. The head is at the start of the disk.
    pub fn new(inner: D, clock: Arc<VirtualClock>, speed: Speed) -> Self {
        Self { inner, clock, speed, queue: Mutex::default(), turns: OnceLock::new() }
    }

    /// From now on, waiting threads sleep in turns. Only the first call counts.
    pub fn take_turns(&self, turns: Arc<Turns>) {
        self.turns.get_or_init(|| turns);
    }

    /// The work of all requests submitted so far, complete or not.
    pub fn work(&self) -> DiskWork {
        self.queue.lock().work
    }
}

impl<D: Device> Device for TimedDisk<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, request: Request) -> Tag {
        let mut queue = self.queue.lock();
        let end_ns = queue.append(&request, &self.speed, self.clock.now_ns());
        // Under the same lock, so that the head visits places in the order in which the inner device sees them.
        let tag = self.inner.submit(request);
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
#[path = "timed_tests.rs"]
mod tests;
