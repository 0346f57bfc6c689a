//! `Reading`: requests of a queue that wait for nothing but reads, which the thread of the queue has under way itself.
//!
//! To hand such a request to the pool costs two wake-ups and a second look at everything in memory (docs/decisions/0125). Here the thread starts
//! the reads, serves others, is told when they have landed, and tries the request again with what was read.
//!
//! Invariants: each read belongs to a request; a request is given back when all of its reads have landed. Caller: the thread of a queue.

use super::slot::Slot;
use crate::adapter::{Attempt, Handler};
use firnfs_device::OwnReads;
use firnfs_volume::Missing;
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::time::Instant;

/// How often a request may find that something is missing. Each time it gets further, unless what was read has become stale.
const ATTEMPTS_MAX: u32 = 8;

/// A request that the thread of a queue tries to answer.
pub(super) struct Trial {
    /// Which slot.
    pub at: usize,
    /// The slot.
    pub slot: Slot,
    /// What is known so far.
    pub attempt: Attempt,
    attempts_left: u32,
    reads_left: usize,
}

impl Trial {
    /// A request that has just come.
    pub fn new(at: usize, slot: Slot) -> Self {
        let attempt = Attempt { since: Instant::now(), landed: Vec::new() };
        Self { at, slot, attempt, attempts_left: ATTEMPTS_MAX, reads_left: 0 }
    }

    /// True if it has to be left to a thread that may wait.
    pub fn is_given_up(&self) -> bool {
        self.attempts_left == 0
    }
}

/// See the module's head.
#[derive(Default)]
pub(super) struct Reading {
    /// `None` before the first read, and if there is no way.
    reads: Option<Box<dyn OwnReads>>,
    has_asked: bool,
    /// By slot.
    trials: HashMap<usize, Trial>,
    /// By the name of the read.
    under_way: HashMap<u64, (usize, Missing)>,
}

impl Reading {
    /// Starts what a request misses; gives the request back if that is not possible. Calls `watch` with the descriptor that says that something
    /// has landed, once.
    pub fn begin(
        &mut self,
        mut trial: Trial,
        missing: Vec<Missing>,
        handler: &dyn Handler,
        watch: impl FnOnce(RawFd),
    ) -> Option<Trial> {
        if !self.has_asked {
            self.has_asked = true;
            self.reads = handler.own_reads();
            if let Some(reads) = &self.reads {
                watch(reads.fd());
            }
        }
        let Some(reads) = self.reads.as_mut().filter(|reads| reads.room() >= missing.len()) else {
            return Some(trial);
        };
        let ranges: Vec<(u64, u32)> = missing.iter().map(Missing::range).collect();
        trial.attempts_left -= 1;
        trial.reads_left = ranges.len();
        for (name, missing) in reads.start(&ranges).into_iter().zip(missing) {
            self.under_way.insert(name, (trial.at, missing));
        }
        self.trials.insert(trial.at, trial);
        None
    }

    /// Takes out the requests of which all reads have landed.
    pub fn take_landed(&mut self, handler: &dyn Handler) -> Vec<Trial> {
        let Some(reads) = self.reads.as_mut().filter(|_| !self.trials.is_empty()) else { return Vec::new() };
        let mut complete = Vec::new();
        for (name, completion) in reads.landed() {
            let Some((at, missing)) = self.under_way.remove(&name) else { continue };
            let Some(trial) = self.trials.get_mut(&at) else { continue };
            match handler.landed(&missing, completion) {
                Some(landed) => trial.attempt.landed.push(landed),
                // A thread that may wait meets the error.
                None => trial.attempts_left = 0,
            }
            trial.reads_left -= 1;
            if trial.reads_left == 0 {
                complete.extend(self.trials.remove(&at));
            }
        }
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::Verdict;
    use crate::wire::{Reply, Request};
    use firnfs::FsError;
    use firnfs::engine::Verify;
    use firnfs::fetch::{Ahead, Fetch, Token};
    use firnfs_device::{AlignedBuf, Completion, MemDevice};
    use firnfs_volume::{Landed, Reader, attempt};
    use parking_lot::Mutex;
    use std::sync::Arc;

    /// Reads that land when the test says so.
    #[derive(Default)]
    struct Disk {
        started: Vec<(u64, u32)>,
        landed: Vec<(u64, Completion)>,
        room: usize,
    }

    struct Reads(Arc<Mutex<Disk>>);

    impl OwnReads for Reads {
        fn room(&self) -> usize {
            self.0.lock().room
        }
        fn start(&mut self, ranges: &[(u64, u32)]) -> Vec<u64> {
            let mut disk = self.0.lock();
            let first = disk.started.len() as u64;
            disk.started.extend(ranges);
            (first..disk.started.len() as u64).collect()
        }
        fn landed(&mut self) -> Vec<(u64, Completion)> {
            std::mem::take(&mut self.0.lock().landed)
        }
        fn fd(&self) -> RawFd {
            7
        }
    }

    struct AnyBytes;

    impl Verify for AnyBytes {
        fn verify(&self, _token: &Token, _bytes: &[u8]) -> Result<(), FsError> {
            Ok(())
        }
        fn notices_stale(&self, _token: &Token) -> bool {
            true
        }
    }

    struct Files {
        disk: Option<Arc<Mutex<Disk>>>,
        volume: Reader,
    }

    impl Files {
        fn on(disk: Option<Arc<Mutex<Disk>>>) -> Self {
            let device = Arc::new(MemDevice::new(1 << 20));
            Self { disk, volume: Reader::new(Some(device), Arc::new(AnyBytes), Arc::default()) }
        }

        /// What an operation misses that needs a sector at each of these places.
        fn missing(&self, places: &[u64]) -> Vec<Missing> {
            let fetch = |&at_bytes: &u64| Fetch {
                token: Token::of([0; 5]),
                at_bytes,
                len_bytes: 512,
                ahead: Ahead::NONE,
            };
            let fetches: Vec<Fetch> = places.iter().map(fetch).collect();
            attempt(&[], || self.volume.fetch_all(&fetches)).1
        }
    }

    impl Handler for Files {
        fn handle(&self, _request: &Request<'_>, _reply: &mut Reply) -> Verdict {
            Verdict::Answer
        }
        fn own_reads(&self) -> Option<Box<dyn OwnReads>> {
            Some(Box::new(Reads(self.disk.clone()?)))
        }
        fn landed(&self, missing: &Missing, completion: Completion) -> Option<Landed> {
            self.volume.landed(missing, completion)
        }
        fn setxattr_ext(&self) -> bool {
            false
        }
    }

    fn sector() -> Completion {
        Ok(Some(AlignedBuf::zeroed(512)))
    }

    fn trial(at: usize) -> Trial {
        Trial::new(at, Slot::new(AlignedBuf::zeroed(4096)))
    }

    #[test]
    fn a_request_comes_back_when_all_of_its_reads_have_landed_whatever_lands_between() {
        let disk = Arc::new(Mutex::new(Disk { room: 9, ..Disk::default() }));
        let files = Files::on(Some(disk.clone()));
        let (mut reading, mut watched) = (Reading::default(), Vec::new());
        let mut begin = |at, places: &[u64]| {
            let given_back = reading.begin(trial(at), files.missing(places), &files, |fd| watched.push(fd));
            assert!(given_back.is_none());
        };
        begin(3, &[0, 8192]);
        begin(4, &[65536]);
        assert_eq!(watched, [7], "once");
        assert_eq!(disk.lock().started, [(0, 512), (8192, 512), (65536, 512)]);
        let mut land = |names: &[u64]| {
            disk.lock().landed.extend(names.iter().map(|name| (*name, sector())));
            let complete = reading.take_landed(&files);
            complete
                .iter()
                .map(|trial| (trial.at, trial.attempt.landed.len(), trial.is_given_up()))
                .collect::<Vec<_>>()
        };
        assert_eq!(land(&[1]), []);
        assert_eq!(land(&[2]), [(4, 1, false)]);
        assert_eq!(land(&[0]), [(3, 2, false)]);
        assert_eq!(land(&[]), []);
        assert!(reading.under_way.is_empty() && reading.trials.is_empty());
    }

    #[test]
    fn a_request_is_left_to_the_pool_if_a_read_fails_or_cannot_be_started_or_too_many_were_needed() {
        let disk = Arc::new(Mutex::new(Disk { room: 1, ..Disk::default() }));
        let files = Files::on(Some(disk.clone()));
        let mut reading = Reading::default();
        let two = files.missing(&[0, 8192]);
        assert!(reading.begin(trial(0), two, &files, |_| ()).is_some(), "no room for both");
        assert!(disk.lock().started.is_empty());
        assert!(reading.begin(trial(0), files.missing(&[0]), &files, |_| ()).is_none());
        disk.lock().landed.push((0, Ok(None)));
        assert!(reading.take_landed(&files)[0].is_given_up());
        let mut again = trial(1);
        for attempt in 1..=ATTEMPTS_MAX {
            assert!(!again.is_given_up());
            assert!(reading.begin(again, files.missing(&[0]), &files, |_| ()).is_none());
            disk.lock().landed.push((attempt.into(), sector()));
            again = reading.take_landed(&files).remove(0);
        }
        assert!(again.is_given_up());
        let none = Files::on(None);
        assert!(
            Reading::default()
                .begin(trial(0), none.missing(&[0]), &none, |_| panic!("nothing to watch"))
                .is_some()
        );
    }
}
