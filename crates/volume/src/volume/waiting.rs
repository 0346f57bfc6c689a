//! Waiting: what an operation does that the core turned away - for blocks to be read, or for room to be made.
//!
//! Who waits for room has the background make it and sleeps until it got somewhere; only without a background, or if that gets
//! nowhere for long, the operation does the work itself. Events are counted under the lock that the refusal was made under, so none is
//! missed.

use super::Volume;
use crate::driven::Driven;
use crate::sync::atomic::Ordering;
use crate::sync::{Condvar, MutexGuard};
use firnfs::lfs::Step;
use firnfs::vfs::Vfs;
use firnfs::{Fetch, FsError, Stop};
use firnfs_format::TimeNs;
use std::time::Duration;

/// How long to wait for another caller's requests before looking again.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long an operation waits for the background to get anywhere before it makes room itself.
const BACKGROUND_GONE: Duration = Duration::from_millis(100);
/// Steps without any way forward before an operation that waits for room is refused.
const STUCK_MAX: u32 = 8;
/// Background steps that an operation does while it waits for room: far more than room for it can take.
const WORK_MAX: u32 = 4096;
/// Times that a block is fetched again whose bytes do not match: its segment may have been written again meanwhile.
const FETCH_TRIES: u32 = 3;

impl<S: Driven> Volume<S> {
    pub(super) fn notify(&self, sleepers: &Condvar) {
        sleepers.notify_all();
        if let Some(parking) = self.parking.get() {
            (parking.unpark)();
        }
    }

    /// Sleeps until others have got somewhere; false if they have not for that long.
    pub(super) fn await_progress(&self, core: &mut MutexGuard<'_, Vfs<S>>, timeout: Duration) -> bool {
        self.about_to_block();
        match self.parking.get() {
            Some(parking) => {
                MutexGuard::unlocked(core, || (parking.park)(timeout));
                true
            }
            None => !self.progress.wait_for(core, timeout).timed_out(),
        }
    }

    /// Does what a stopped operation waits for.
    pub(super) fn overcome(&self, stop: Stop, patience: &mut Patience) -> Result<(), FsError> {
        match stop {
            Stop::Fail(e) => Err(e),
            Stop::Need(fetches) => self.fetch_all(&fetches, patience, |_| true),
            Stop::Room => {
                patience.stalled_since.get_or_insert_with(|| self.now());
                self.make_room(patience)
            }
        }
    }

    /// Reads and puts in, one after the other as long as that is `wanted`.
    pub(super) fn fetch_all(
        &self,
        fetches: &[Fetch],
        patience: &mut Patience,
        wanted: impl Fn(&Vfs<S>) -> bool,
    ) -> Result<(), FsError> {
        let reader = self.reader.as_ref().ok_or_else(|| FsError::Io("the store has no device".to_owned()))?;
        for fetch in fetches {
            let fetched = reader.fetch(fetch).and_then(|bytes| {
                let mut core = self.core.lock();
                core.store_mut().supply(fetch.what, &bytes).map(|()| wanted(&core))
            });
            match fetched {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) if patience.fetch_failed(fetch) => {
                    patience.failed = None;
                    return self.core.lock().store_mut().fetch_failed(fetch.what, e);
                }
                Err(_) => return Ok(()),
            }
        }
        self.core.lock().store_mut().shrink_caches();
        Ok(())
    }

    /// An operation waits for log room or memory: lets background work advance, here and now.
    pub(super) fn make_room(&self, patience: &mut Patience) -> Result<(), FsError> {
        if self.has_background.load(Ordering::Relaxed) && !patience.is_alone {
            return self.wait_for_room(patience);
        }
        let step = self.core.lock().store_mut().step(self.now(), true);
        match step {
            Ok(Step::Worked) if patience.worked >= WORK_MAX => Err(FsError::NoSpace),
            Ok(Step::Worked) => {
                patience.stuck = 0;
                patience.worked += 1;
                self.pump();
                Ok(())
            }
            Ok(Step::Waiting | Step::Idle(_)) => {
                self.pump_or_wait();
                Ok(())
            }
            Ok(Step::Stuck) if patience.stuck >= STUCK_MAX => Err(FsError::NoSpace),
            Ok(Step::Stuck) => {
                patience.stuck += 1;
                self.pump_or_wait();
                Ok(())
            }
            Err(Stop::Room) => {
                self.pump_or_wait();
                Ok(())
            }
            Err(stop) => self.overcome_in_step(stop, patience, |_| true),
        }
    }

    /// Has the background make room, and sleeps until it has got anywhere: two at it would only be in each other's way.
    pub(super) fn wait_for_room(&self, patience: &mut Patience) -> Result<(), FsError> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let dead_ends = self.dead_ends.load(Ordering::Relaxed);
        self.kick();
        let mut core = self.core.lock();
        let has_advanced = || self.advances.load(Ordering::Relaxed) != patience.seen;
        while !has_advanced() && !patience.is_alone {
            let is_in_time = self.await_progress(&mut core, BACKGROUND_GONE);
            patience.is_alone = !is_in_time && !has_advanced();
        }
        drop(core);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        if self.dead_ends.load(Ordering::Relaxed) == dead_ends {
            patience.stuck = 0;
            return Ok(());
        }
        patience.stuck += 1;
        if patience.stuck > STUCK_MAX { Err(FsError::NoSpace) } else { Ok(()) }
    }

    /// Background work never waits for room of its own: it has waited already. It reads on only while that is `wanted`.
    pub(super) fn overcome_in_step(
        &self,
        stop: Stop,
        patience: &mut Patience,
        wanted: impl Fn(&Vfs<S>) -> bool,
    ) -> Result<(), FsError> {
        match stop {
            Stop::Need(fetches) => self.fetch_all(&fetches, patience, wanted),
            Stop::Fail(e) => Err(e),
            Stop::Room => Ok(()),
        }
    }
}

/// How often one operation was turned away for the same reason.
#[derive(Default)]
pub(super) struct Patience {
    /// When it was first turned away for want of room.
    pub(super) stalled_since: Option<TimeNs>,
    stuck: u32,
    /// Background steps that it did itself.
    worked: u32,
    /// Nobody seems to do background work.
    is_alone: bool,
    /// How far the others had got when it was turned away.
    pub(super) seen: u64,
    failed: Option<(Fetch, u32)>,
}

impl Patience {
    /// A fetch failed; true if that is final.
    fn fetch_failed(&mut self, fetch: &Fetch) -> bool {
        let before = match &self.failed {
            Some((last, times)) if last == fetch => *times,
            _ => 0,
        };
        self.failed = Some((fetch.clone(), before + 1));
        before + 1 >= FETCH_TRIES
    }
}
