//! Background work: steps of the core, and the device requests that these steps and operations have made ready.

use super::Volume;
use super::direct::behind_fence;
use super::events::{Counted, Event, Seen};
use super::freeze::RESTING_MS;
use super::waiting::Patience;
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering;
use firnfs::engine::Engine;
use firnfs::engine::{Job, Step};
use firnfs::vfs::Vfs;
use firnfs::{FsError, Outcome, Stop};
use firnfs_device::{Device, DeviceError, Tag};
use firnfs_format::TimeNs;
use std::collections::VecDeque;

/// Requests that one round of background work keeps under way.
const UNDER_WAY_MAX: usize = 8;
/// How long background work sleeps after a step found no way forward, in milliseconds.
const STUCK_SLEEP_MS: u64 = 1000;

/// A job that was started: the request under way, or why the device did not take it. Once the store has heard of its end, the job may be the last
/// that has what was written, hundreds of blocks; so it is kept until the lock is free, and frees them without it.
type UnderWay = (Job, Result<Tag, DeviceError>);

impl<S: Engine> Volume<S> {
    /// Carries out requests until none is ready.
    pub fn pump(&self) {
        loop {
            let jobs = self.take_jobs(&mut self.core.lock());
            if jobs.is_empty() {
                return;
            }
            self.carry_out(jobs);
        }
    }

    pub(super) fn carry_out(&self, jobs: Vec<Job>) {
        let Some(device) = &self.device else { return };
        self.about_to_block();
        let mut under_way = jobs.into_iter().map(|job| start(&**device, job)).collect();
        self.finish_until(&mut under_way, 0);
    }

    /// Does background work that is due (whatever [`Engine::step`] finds to do). Returns how long the
    /// caller may sleep, in milliseconds, unless [`Volume::wait_for_work`] wakes it earlier.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn background(&self) -> Result<u64, FsError> {
        let at_work = Counted::among(&self.at_work);
        let outcome = self.work_until_idle();
        drop(at_work);
        if outcome.is_err() {
            self.tell(self.core.lock(), Event::DeadEnd);
        }
        outcome
    }

    /// A step of background work, on behalf of operations that wait for room; and the events up to then.
    fn background_step(&self) -> (Outcome<Step>, Seen) {
        let (now, pressed) = (self.now(), self.waiting.load(Ordering::Relaxed) > 0);
        let mut core = self.core.lock();
        let had_ns = self.clock.now_ns();
        let step = core.store_mut().step(now, pressed);
        self.lock_time.step(had_ns, self.clock.now_ns());
        let sleep_ms = match &step {
            Ok(Step::Waiting) | Err(_) => None,
            Ok(Step::Idle(sleep_ms)) => Some(*sleep_ms),
            Ok(Step::Stuck) => Some(STUCK_SLEEP_MS),
            Ok(Step::Worked) => Some(0),
        };
        if let Some(sleep_ms) = sleep_ms {
            self.note_sleep(now, sleep_ms);
        }
        let seen = self.tell_of_step(core, &step, pressed);
        (step, seen)
    }

    /// True while the volume is frozen: the thaw wakes whoever does background work.
    fn rests(&self) -> bool {
        Self::is_device_frozen(&self.core.lock())
    }

    /// Notes when background work looks again by itself; call it under the lock of the core.
    fn note_sleep(&self, now: TimeNs, sleep_ms: u64) {
        let sleep_ns = i64::try_from(sleep_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        self.awake_by_ns.store(now.0.saturating_add(sleep_ns), Ordering::Relaxed);
    }

    /// A step of background work by an operation that waits for room; and the events up to then.
    pub(super) fn step_for_room(&self) -> (Outcome<Step>, Seen) {
        let now = self.now();
        let mut core = self.core.lock();
        let had_ns = self.clock.now_ns();
        let step = core.store_mut().step(now, true);
        self.lock_time.step(had_ns, self.clock.now_ns());
        let seen = self.tell_of_step(core, &step, true);
        (step, seen)
    }

    /// Tells the operations that wait for room that a step may have helped, or that no step can.
    fn tell_of_step(&self, core: MutexGuard<'_, Vfs<S>>, step: &Outcome<Step>, pressed: bool) -> Seen {
        match step {
            Ok(Step::Waiting) | Err(_) => self.seen(),
            Ok(Step::Idle(_) | Step::Stuck) if pressed => self.tell(core, Event::DeadEnd),
            Ok(_) => self.tell(core, Event::Progress),
        }
    }

    fn work_until_idle(&self) -> Result<u64, FsError> {
        let mut patience = Patience::default();
        // Requests continue while the next step prepares more of them.
        let mut under_way = VecDeque::new();
        let outcome = loop {
            if self.rests() {
                break Ok(RESTING_MS);
            }
            let (step, seen) = self.background_step();
            match step {
                Ok(Step::Worked) => {}
                Ok(Step::Waiting) | Err(Stop::Room) => {
                    self.start_ready(&mut under_way);
                    if !under_way.is_empty() {
                        let left = under_way.len() - 1;
                        self.finish_until(&mut under_way, left);
                    } else if !self.get_on(self.core.lock(), seen) {
                        // The event that it waits for cannot come: no request is under way.
                        let core = self.core.lock();
                        self.note_sleep(self.now(), STUCK_SLEEP_MS);
                        self.tell(core, Event::DeadEnd);
                        break Ok(STUCK_SLEEP_MS);
                    }
                }
                Ok(Step::Stuck) => break Ok(STUCK_SLEEP_MS),
                Ok(Step::Idle(sleep_ms)) => break Ok(sleep_ms),
                Err(stop) => {
                    if self.are_requests_awaited() {
                        // It would read, and read again, while an fsync waits to hear that its write is done.
                        self.finish_until(&mut under_way, 0);
                    }
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

    /// Submits everything that is ready to the device without waiting for it.
    fn start_ready(&self, under_way: &mut VecDeque<UnderWay>) {
        let Some(device) = &self.device else { return };
        loop {
            let jobs = self.take_jobs(&mut self.core.lock());
            if jobs.is_empty() {
                return;
            }
            under_way.extend(jobs.into_iter().map(|job| start(&**device, job)));
        }
    }

    /// Waits for requests, oldest first, until at most `left` of them are under way.
    fn finish_until(&self, under_way: &mut VecDeque<UnderWay>, left: usize) {
        let Some(device) = &self.device else { return };
        while under_way.len() > left
            && let Some((job, started)) = under_way.pop_front()
        {
            let result = started.and_then(|tag| device.wait(tag).map(drop));
            let failed = result.is_err();
            let mut core = self.core.lock();
            core.store_mut().job_done(job.id, result);
            self.request_done(core);
            drop(job);
            if failed {
                // Wake the background worker, whatever it was about to sleep for; it reports the failure.
                self.wake();
            }
        }
    }
}

/// Submits a job; one behind the fence only if the device proves that nobody else writes to it.
fn start(device: &dyn Device, job: Job) -> UnderWay {
    let submit = || device.submit(job.request());
    let started = if job.is_fenced { behind_fence(device, submit) } else { Ok(submit()) };
    (job, started)
}
