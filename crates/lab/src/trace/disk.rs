//! `OpenDisk`: the disk of a trace in virtual time. Requests arrive when the trace says, whether earlier ones are done or not, so
//! nobody waits here: each request is put into the queue, and its times are known at once (Blackwell, Harris and Seltzer, section 4).
//!
//! Requests are served in the order of their arrival. Users' requests and the cleaner's are told apart: an idle interval lies between
//! two requests of users, whatever the cleaner does in it; delays and queue lengths are those that users' requests meet.
//!
//! Callers: `driver`.

use super::histogram::Histogram;
use super::learned::Learned;
use firnfs_sim::disk::model::DiskKind;
use firnfs_sim::disk::{Command, DiskModel, DiskParams, Lbn, SECTOR_BYTES, Work};
use std::collections::VecDeque;

/// On whose behalf a request is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Who {
    /// Users: reads that missed the cache, and the log that they write.
    User,
    /// The cleaner, with its checkpoints.
    Cleaner,
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Io {
    pub work: Work,
    pub at_bytes: u64,
    pub len_bytes: u64,
}

/// What the disk has seen.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DiskSeen {
    /// Seconds between the end of a user's request and the arrival of the next one, where they do not overlap.
    pub idle_s: Histogram,
    /// MiB that users' requests wrote between two chances to clean: times in which the disk was idle for as long as the cleaner waits.
    pub dirty_mib: Histogram,
    /// Milliseconds that users' requests waited in the queue.
    pub delay_ms: Histogram,
    /// Requests of users.
    pub user_requests: u64,
    /// Requests of the cleaner.
    pub cleaner_requests: u64,
    /// Requests of the cleaner in the queue or in service when users' requests arrived, summed over these.
    pub cleaner_met: u64,
    /// Bytes by who asked and for what.
    pub user_read_bytes: u64,
    /// See above.
    pub user_written_bytes: u64,
    /// See above.
    pub cleaner_read_bytes: u64,
    /// See above.
    pub cleaner_written_bytes: u64,
    /// Time in which requests of users were served, in nanoseconds.
    pub user_busy_ns: i64,
    /// The same of the cleaner.
    pub cleaner_busy_ns: i64,
}

/// See the module's head.
pub(super) struct OpenDisk {
    model: DiskModel,
    transfer_max_bytes: u64,
    /// A flush takes time.
    has_write_cache: bool,
    /// Ends of requests that were not done at the last arrival, in order, and who asked.
    under_way: VecDeque<(i64, Who)>,
    cleaners_under_way: u64,
    last_end_ns: i64,
    user_end_ns: i64,
    /// Idle time after which the cleaner begins.
    idle_after_ns: i64,
    /// Learns another one.
    learned: Learned,
    learned_s: Option<f64>,
    /// Bytes that users have written since the last chance to clean.
    dirty_bytes: u64,
    fingerprint: u64,
    seen: DiskSeen,
}

impl OpenDisk {
    /// A disk at rest; the cleaner begins after that much idle time.
    pub fn new(params: &DiskParams, start_ns: i64, idle_after_ms: u64) -> Self {
        Self {
            model: params.model(),
            transfer_max_bytes: params.transfer_max_bytes.unwrap_or(u64::MAX),
            has_write_cache: matches!(params.kind, DiskKind::Flash(_)),
            under_way: VecDeque::new(),
            cleaners_under_way: 0,
            last_end_ns: start_ns,
            user_end_ns: start_ns,
            idle_after_ns: i64::try_from(idle_after_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000),
            learned: Learned::default(),
            learned_s: None,
            dirty_bytes: 0,
            fingerprint: 0,
            seen: DiskSeen::default(),
        }
    }

    /// When the last request of a user ends.
    pub fn user_end_ns(&self) -> i64 {
        self.user_end_ns
    }

    /// After how much idle time a cleaner that learns would begin, in milliseconds; `None` before enough intervals.
    pub fn learned_ms(&self) -> Option<u64> {
        self.learned_s.map(|seconds| (seconds * 1e3) as u64)
    }

    /// A number that depends on the time, place and length of every request so far.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// What it has seen.
    pub fn seen(&self) -> &DiskSeen {
        &self.seen
    }

    /// Puts a request into the queue; returns when it ends. Arrivals come in order of time.
    pub fn submit(&mut self, who: Who, io: Io, now_ns: i64) -> i64 {
        while self.under_way.front().is_some_and(|(end_ns, _)| *end_ns <= now_ns) {
            if let Some((_, Who::Cleaner)) = self.under_way.pop_front() {
                self.cleaners_under_way -= 1;
            }
        }
        if io.work == Work::Flush && !self.has_write_cache {
            return self.last_end_ns.max(now_ns);
        }
        if who == Who::User && io.work != Work::Flush {
            self.note_arrival(now_ns);
        }
        let (start_ns, busy_ns, end_ns) = self.serve(&io, now_ns);
        for word in [now_ns as u64, io.at_bytes, io.len_bytes, end_ns as u64] {
            // The mixing step of SplitMix64.
            self.fingerprint = (self.fingerprint.rotate_left(27) ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        }
        // Ends stay in order on a disk that serves several commands at a time.
        self.last_end_ns = self.last_end_ns.max(end_ns);
        self.under_way.push_back((self.last_end_ns, who));
        let seen = &mut self.seen;
        match who {
            Who::User => {
                self.user_end_ns = self.user_end_ns.max(end_ns);
                seen.user_busy_ns += busy_ns;
                if io.work != Work::Flush {
                    seen.delay_ms.add((start_ns - now_ns).max(0) as f64 / 1e6);
                }
            }
            Who::Cleaner => {
                self.cleaners_under_way += 1;
                seen.cleaner_requests += u64::from(io.work != Work::Flush);
                seen.cleaner_busy_ns += busy_ns;
            }
        }
        match (who, io.work) {
            (Who::User, Work::Read) => seen.user_read_bytes += io.len_bytes,
            (Who::User, Work::Write) => {
                seen.user_written_bytes += io.len_bytes;
                self.dirty_bytes += io.len_bytes;
            }
            (Who::Cleaner, Work::Read) => seen.cleaner_read_bytes += io.len_bytes,
            (Who::Cleaner, Work::Write) => seen.cleaner_written_bytes += io.len_bytes,
            (_, Work::Flush | Work::Discard) => {}
        }
        end_ns
    }

    fn note_arrival(&mut self, now_ns: i64) {
        self.seen.user_requests += 1;
        self.seen.cleaner_met += self.cleaners_under_way;
        let idle_ns = now_ns - self.user_end_ns;
        if idle_ns >= self.idle_after_ns {
            self.seen.dirty_mib.add(self.dirty_bytes as f64 / f64::from(1 << 20));
            self.dirty_bytes = 0;
        }
        if idle_ns > 0 {
            let idle_s = idle_ns as f64 / 1e9;
            self.seen.idle_s.add(idle_s);
            self.learned_s = self.learned.take(idle_s).or(self.learned_s);
        }
    }

    /// Serves a request, in commands no longer than the host allows: its start, the time that it kept the disk busy, its end.
    fn serve(&mut self, io: &Io, now_ns: i64) -> (i64, i64, i64) {
        let (first, last) = (io.at_bytes / SECTOR_BYTES, (io.at_bytes + io.len_bytes).div_ceil(SECTOR_BYTES));
        let most = (self.transfer_max_bytes / SECTOR_BYTES).max(1);
        let (mut at, mut begins_ns, mut busy_ns, mut end_ns) = (first, None, 0, now_ns);
        loop {
            let sectors = (last - at).min(most);
            let command = Command { work: io.work, lbn: Lbn(at), sectors };
            let service = self.model.serve(&command, end_ns);
            begins_ns.get_or_insert(service.start_ns);
            busy_ns += service.took_ns();
            end_ns = service.end_ns();
            at += sectors;
            if at >= last {
                return (begins_ns.unwrap_or(now_ns), busy_ns, end_ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::find_disk;

    /// A disk on which a request of 1 MB without a seek takes 10 ms, and a seek another 10 ms.
    fn disk() -> OpenDisk {
        OpenDisk::new(&find_disk("constant-hdd").unwrap().params, 0, 2_000)
    }

    fn write(at_bytes: u64) -> Io {
        Io { work: Work::Write, at_bytes, len_bytes: 1_000_000 / 512 * 512 }
    }

    #[test]
    fn delays_idle_time_and_the_cleaners_requests_are_those_that_users_meet() {
        let mut disk = disk();
        let first_end_ns = disk.submit(Who::User, write(0), 5_000_000_000);
        assert_eq!(disk.seen().idle_s.at_least(4.0), 1);
        // The second waits for the first; the cleaner's request is behind both and in front of the third.
        disk.submit(Who::User, write(1 << 30), 5_001_000_000);
        let cleaner_end_ns = disk.submit(Who::Cleaner, write(0), 5_002_000_000);
        let third_end_ns = disk.submit(Who::User, write(1 << 29), 5_003_000_000);
        let seen = disk.seen().clone();
        assert_eq!((seen.user_requests, seen.cleaner_requests, seen.cleaner_met), (3, 1, 1));
        assert_eq!((seen.delay_ms.count(), seen.delay_ms.zeros()), (3, 1));
        assert!((seen.delay_ms.max() - (cleaner_end_ns - 5_003_000_000) as f64 / 1e6).abs() < 1e-6);
        assert!(first_end_ns < cleaner_end_ns && third_end_ns - cleaner_end_ns > 19_000_000);
        assert_eq!(seen.idle_s.count(), 1, "requests that overlap leave no interval between them");
        // The cleaner's work does not end an interval.
        disk.submit(Who::Cleaner, write(0), third_end_ns + 3_000_000_000);
        disk.submit(Who::User, write(0), third_end_ns + 8_000_000_000);
        assert_eq!((disk.seen().idle_s.count(), disk.seen().idle_s.at_least(8.0)), (2, 1));
        assert_eq!(disk.seen().cleaner_met, 1, "it was done by then");
        // Nothing was written before the first chance; the next one came after three requests of users.
        let dirty = &disk.seen().dirty_mib;
        assert_eq!((dirty.count(), dirty.zeros(), dirty.at_least(2.0)), (2, 1, 1));
    }

    #[test]
    fn a_flush_takes_time_only_on_a_disk_with_a_write_cache() {
        let flush = Io { work: Work::Flush, at_bytes: 0, len_bytes: 0 };
        assert_eq!(disk().submit(Who::User, flush, 7), 7);
        let mut ssd = OpenDisk::new(&find_disk("ssd").unwrap().params, 0, 2_000);
        assert_eq!(ssd.submit(Who::User, flush, 7), 1_000_007);
        assert_eq!(ssd.seen().user_requests, 0);
    }
}
