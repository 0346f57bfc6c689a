//! Background work: steps of the core, and the requests that they and others have ready for the device.

use super::Volume;
use super::waiting::{LOOK_AGAIN, Patience};
use crate::driven::Driven;
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering;
use firnfs::lfs::{Job, JobId, Step};
use firnfs::vfs::Vfs;
use firnfs::{FsError, Outcome, Stop};
use firnfs_device::Tag;
use std::collections::VecDeque;
use std::time::Duration;

/// Requests handed to the device at once by one caller.
const JOBS_AT_ONCE: usize = 4;
/// Requests of background work that are under way while it goes on.
const UNDER_WAY_MAX: usize = 8;
/// How long background work sleeps that found no way to go on, in milliseconds.
const STUCK_SLEEP_MS: u64 = 1000;

impl<S: Driven> Volume<S> {
    /// Requests that are ready, started.
    pub(super) fn take_jobs(core: &mut MutexGuard<'_, Vfs<S>>) -> Vec<Job> {
        std::iter::from_fn(|| core.store_mut().next_job()).take(JOBS_AT_ONCE).collect()
    }

    /// Carries out what is ready, until nothing is.
    pub(crate) fn pump(&self) {
        loop {
            let jobs = Self::take_jobs(&mut self.core.lock());
            if jobs.is_empty() {
                return;
            }
            self.carry_out(jobs);
        }
    }

    /// Carries out what is ready; if nothing is, waits a moment for other callers' requests.
    pub(crate) fn pump_or_wait(&self) {
        let mut core = self.core.lock();
        let jobs = Self::take_jobs(&mut core);
        if jobs.is_empty() {
            self.await_progress(&mut core, LOOK_AGAIN);
        } else {
            drop(core);
            self.carry_out(jobs);
        }
    }

    pub(super) fn carry_out(&self, jobs: Vec<Job>) {
        let Some(device) = &self.device else { return };
        self.about_to_block();
        let mut under_way = jobs.into_iter().map(|job| (job.id, device.submit(job.request()))).collect();
        self.finish_until(&mut under_way, 0);
    }

    /// Sleeps until some request to the device is complete, at most `timeout`.
    pub(crate) fn wait_for_progress(&self, timeout: Duration) {
        self.await_progress(&mut self.core.lock(), timeout);
    }

    /// Does background work that is due (commit interval, write threshold, checkpoint, cleaning). Returns how long the
    /// caller may sleep, in milliseconds, unless [`Volume::wait_for_work`] wakes it earlier.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn background(&self) -> Result<u64, FsError> {
        self.at_work.fetch_add(1, Ordering::Relaxed);
        let outcome = self.work_until_idle();
        self.at_work.fetch_sub(1, Ordering::Relaxed);
        outcome
    }

    /// A step of background work, on behalf of whoever waits for room. Tells those that it may have helped.
    pub(super) fn background_step(&self) -> Outcome<Step> {
        let (now, pressed) = (self.now(), self.waiting.load(Ordering::Relaxed) > 0);
        let mut core = self.core.lock();
        let step = core.store_mut().step(now, pressed);
        let sleep_ms = match &step {
            Ok(Step::Waiting) | Err(_) => return step,
            Ok(Step::Idle(sleep_ms)) => *sleep_ms,
            Ok(Step::Stuck) => STUCK_SLEEP_MS,
            Ok(Step::Worked) => 0,
        };
        let is_dead_end = pressed && !matches!(step, Ok(Step::Worked));
        self.dead_ends.fetch_add(u64::from(is_dead_end), Ordering::Relaxed);
        let sleep_ns = i64::try_from(sleep_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        self.awake_by_ns.store(now.0.saturating_add(sleep_ns), Ordering::Relaxed);
        self.advances.fetch_add(1, Ordering::Relaxed);
        drop(core);
        self.notify(&self.progress);
        step
    }

    pub(super) fn work_until_idle(&self) -> Result<u64, FsError> {
        let mut patience = Patience::default();
        // Requests go on while the next segments are filled.
        let mut under_way = VecDeque::new();
        let outcome = loop {
            match self.background_step() {
                Ok(Step::Worked) => {}
                Ok(Step::Waiting) | Err(Stop::Room) => {
                    self.start_ready(&mut under_way);
                    if under_way.is_empty() {
                        self.pump_or_wait();
                    } else {
                        let left = under_way.len() - 1;
                        self.finish_until(&mut under_way, left);
                    }
                }
                Ok(Step::Stuck) => break Ok(STUCK_SLEEP_MS),
                Ok(Step::Idle(sleep_ms)) => break Ok(sleep_ms),
                Err(stop) => {
                    let wanted = |vfs: &Vfs<S>| !vfs.store().gives_way(self.now());
                    if let Err(e) = self.overcome_in_step(stop, &mut patience, wanted) {
                        break Err(e);
                    }
                }
            }
            self.start_ready(&mut under_way);
            self.finish_until(&mut under_way, UNDER_WAY_MAX);
        };
        self.finish_until(&mut under_way, 0);
        self.pump();
        outcome
    }

    /// Hands everything that is ready to the device without waiting for it.
    pub(super) fn start_ready(&self, under_way: &mut VecDeque<(JobId, Tag)>) {
        let Some(device) = &self.device else { return };
        loop {
            let jobs = Self::take_jobs(&mut self.core.lock());
            if jobs.is_empty() {
                return;
            }
            under_way.extend(jobs.into_iter().map(|job| (job.id, device.submit(job.request()))));
        }
    }

    /// Waits for requests, oldest first, until at most `left` are under way.
    pub(super) fn finish_until(&self, under_way: &mut VecDeque<(JobId, Tag)>, left: usize) {
        let Some(device) = &self.device else { return };
        while under_way.len() > left
            && let Some((id, tag)) = under_way.pop_front()
        {
            let result = device.wait(tag).map(drop);
            let failed = result.is_err();
            let mut core = self.core.lock();
            core.store_mut().job_done(id, result);
            self.advances.fetch_add(1, Ordering::Relaxed);
            drop(core);
            self.notify(&self.progress);
            if failed {
                // Whoever does background work says so, whatever it was about to sleep for.
                self.wake();
            }
        }
    }

    /// Work is due: wakes whoever does it, or does it here if nobody does. Who is at it goes on until nothing is due.
    pub(super) fn kick(&self) {
        if !self.has_background.load(Ordering::Relaxed) {
            if self.at_work.load(Ordering::Relaxed) > 0 {
                return;
            }
            // An error shows in the operation that it concerns, or at the next sync.
            let _ = self.background();
            return;
        }
        let mut due = self.work_due.lock();
        if !*due {
            *due = true;
            self.notify(&self.work);
        }
    }

    /// Sleeps until there is background work, at most `max_ms`. Who calls this promises to call
    /// [`Volume::background`] in turn.
    pub fn wait_for_work(&self, max_ms: u64) {
        self.has_background.store(true, Ordering::Relaxed);
        let mut due = self.work_due.lock();
        if !*due {
            let timeout = Duration::from_millis(max_ms);
            match self.parking.get() {
                Some(parking) => MutexGuard::unlocked(&mut due, || (parking.park)(timeout)),
                None => drop(self.work.wait_for(&mut due, timeout)),
            }
        }
        *due = false;
    }

    /// Wakes [`Volume::wait_for_work`].
    pub fn wake(&self) {
        *self.work_due.lock() = true;
        self.notify(&self.work);
    }
}
