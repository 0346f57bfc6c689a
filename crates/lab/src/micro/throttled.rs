//! `Throttled`: a device that passes on so many bytes a second at most, in real time.
//!
//! It does one request after the other, as a disk with one channel: a request takes the time of its bytes, and begins when the
//! one before it has ended. The device underneath works meanwhile. Time in which nobody asks for anything is lost. Requests are
//! submitted without waiting, so a caller with several under way keeps it busy; the clock is the machine's, because the
//! programs that are measured run on the machine.
//!
//! Callers: `bandwidth`.

use firnfs_device::{Completion, Device, DeviceError, Geometry, Request, Tag};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// See the module's head.
pub struct Throttled<D> {
    inner: D,
    bytes_per_s: u64,
    queue: Mutex<Queue>,
}

struct Queue {
    /// When the last request ends.
    free_at: Instant,
    /// When requests end that nobody has waited for.
    ends: FxHashMap<Tag, Instant>,
}

impl<D: Device> Throttled<D> {
    /// Idle from now on.
    pub fn new(inner: D, bytes_per_s: u64) -> Self {
        let queue = Queue { free_at: Instant::now(), ends: FxHashMap::default() };
        Self { inner, bytes_per_s: bytes_per_s.max(1), queue: Mutex::new(queue) }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn time_of(&self, request: &Request) -> Duration {
        let bytes = match request {
            Request::Read { .. } | Request::Write { .. } => request.len_bytes(),
            Request::Flush | Request::Discard { .. } => 0,
        };
        Duration::from_secs_f64(bytes as f64 / self.bytes_per_s as f64)
    }
}

impl<D: Device> Device for Throttled<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        let takes = self.time_of(&request);
        let mut queue = self.queue();
        let end = queue.free_at.max(Instant::now()) + takes;
        queue.free_at = end;
        let tag = self.inner.submit(request);
        queue.ends.insert(tag, end);
        tag
    }
    fn start_reads(&self) {
        self.inner.start_reads();
    }
    fn wait(&self, tag: Tag) -> Completion {
        let end = self.queue().ends.remove(&tag);
        let completion = self.inner.wait(tag);
        if let Some(left) = end.and_then(|end| end.checked_duration_since(Instant::now())) {
            std::thread::sleep(left);
        }
        completion
    }
    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
    fn fence(&self) -> Result<(), DeviceError> {
        self.inner.fence()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firnfs_device::{AlignedBuf, MemDevice};

    const RATE: u64 = 100_000_000;

    fn device() -> Throttled<MemDevice> {
        Throttled::new(MemDevice::new(32 << 20), RATE)
    }

    fn write(device: &Throttled<MemDevice>, at: u64) -> Tag {
        device.submit(Request::Write { at_bytes: at << 20, data: AlignedBuf::zeroed(1 << 20).into() })
    }

    #[test]
    fn requests_under_way_together_take_the_time_of_their_bytes_and_no_less() {
        let device = device();
        let start = Instant::now();
        let tags: Vec<Tag> = (0..20).map(|at| write(&device, at)).collect();
        assert!(start.elapsed() < Duration::from_millis(100), "submitting does not wait");
        let flushed = device.submit(Request::Flush);
        device.wait(flushed).unwrap();
        let expected = Duration::from_secs_f64((20 << 20) as f64 / RATE as f64);
        // No upper bound: other programs may keep this one waiting.
        assert!(start.elapsed() >= expected, "{:?}", start.elapsed());
        tags.into_iter().for_each(|tag| drop(device.wait(tag).unwrap()));
        assert!(device.queue().ends.is_empty());
    }

    #[test]
    fn idle_time_earns_nothing_and_what_was_written_is_read() {
        let device = device();
        std::thread::sleep(Duration::from_millis(50));
        let start = Instant::now();
        device.write(1 << 20, Arc::new(AlignedBuf::copy_of(&[7; 1 << 20]))).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(10), "{:?}", start.elapsed());
        assert_eq!(device.read(1 << 20, 512).unwrap()[..], [7; 512]);
    }
}
