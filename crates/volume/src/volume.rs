//! `Volume`: an open volume, for callers that may block.

use crate::driven::Driven;
use crate::reader::Reader;
use crate::stalls::{StallCount, Stalls};
use firnfs::content::{Content, ready_blocks};
use firnfs::lfs::{Job, JobId, Pressure, Step};
use firnfs::store::{Scope, Ticket};
use firnfs::vfs::Vfs;
use firnfs::{Fetch, FsError, Outcome, Stop};
use firnfs_device::{Clock, Device, Tag};
use firnfs_format::{InodeNo, TimeNs};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Requests handed to the device at once by one caller.
const JOBS_AT_ONCE: usize = 4;
/// Requests of background work that are under way while it goes on.
const UNDER_WAY_MAX: usize = 8;
/// How long to wait for another caller's requests before looking again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long an operation waits for the background to get anywhere before it makes room itself.
const BACKGROUND_GONE: Duration = Duration::from_millis(100);
/// Steps without any way forward before an operation that waits for room is refused.
const STUCK_MAX: u32 = 8;
/// How long background work sleeps that found no way to go on, in milliseconds.
const STUCK_SLEEP_MS: u64 = 1000;
/// Background steps that an operation does while it waits for room: far more than room for it can take.
const WORK_MAX: u32 = 4096;
/// Times that a block is fetched again whose bytes do not match: its segment may have been written again meanwhile.
const FETCH_TRIES: u32 = 3;
/// Bytes of a write that are prepared at once.
const PREPARED_BYTES_MAX: usize = 1 << 20;

/// Sleeps until another thread has gone on, at most so long.
type Park = Box<dyn Fn(Duration) + Send + Sync>;

/// See the crate's head.
pub struct Volume<S: Driven> {
    core: Mutex<Vfs<S>>,
    /// Signalled whenever requests were completed or a background step got somewhere.
    progress: Condvar,
    /// How often that happened. Changes while `core` is locked: who looked at it then misses nothing.
    advances: AtomicU64,
    /// Of those, background steps for somebody who waits for room that found no way to make any.
    dead_ends: AtomicU64,
    /// Operations that wait for the background to make room.
    waiting: AtomicU32,
    device: Option<Arc<dyn Device>>,
    reader: Option<Reader>,
    clock: Arc<dyn Clock>,
    before_blocking: Arc<OnceLock<fn()>>,
    park: OnceLock<Park>,
    /// Blocks of this size are prepared for the log, outside the lock; `None` where nobody sums them up.
    block_bytes: Option<u32>,
    stalls: StallCount,
    /// Set once somebody waits for background work: then operations do not do it themselves.
    has_background: AtomicBool,
    /// When background work looks again by itself, in nanoseconds of the clock. Changes while `core` is locked.
    awake_by_ns: AtomicI64,
    /// Callers that are doing background work.
    at_work: AtomicU32,
    work_due: Mutex<bool>,
    work: Condvar,
}

impl<S: Driven> Volume<S> {
    /// Drives `vfs`; `device` is `None` for the memory store.
    pub fn new(vfs: Vfs<S>, device: Option<Arc<dyn Device>>, clock: Arc<dyn Clock>) -> Self {
        let geo = vfs.store().geometry();
        let block_bytes = geo.as_ref().map(|geo| geo.block_bytes);
        let before_blocking = Arc::new(OnceLock::new());
        let hook = before_blocking.clone();
        let reader = device.clone().zip(geo).map(|(device, geo)| Reader::new(device, geo, hook));
        Self {
            core: Mutex::new(vfs),
            progress: Condvar::new(),
            advances: AtomicU64::new(0),
            dead_ends: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            device,
            reader,
            clock,
            before_blocking,
            park: OnceLock::new(),
            block_bytes,
            stalls: StallCount::default(),
            has_background: AtomicBool::new(false),
            awake_by_ns: AtomicI64::new(i64::MIN),
            at_work: AtomicU32::new(0),
            work_due: Mutex::new(false),
            work: Condvar::new(),
        }
    }

    /// Has `hook` called whenever the calling thread is about to wait for the device or for other threads' requests, so
    /// that an adapter can let another thread go on meanwhile. Only the first call counts.
    pub fn call_before_blocking(&self, hook: fn()) {
        self.before_blocking.get_or_init(|| hook);
    }

    /// Has threads that wait for each other call `park` instead of sleeping: for programs that decide themselves which of their
    /// threads goes on. It may return early. Only the first call counts.
    pub fn park_with(&self, park: impl Fn(Duration) + Send + Sync + 'static) {
        self.park.get_or_init(|| Box::new(park));
    }

    /// Sleeps until others have got somewhere; false if they have not for that long.
    fn await_progress(&self, core: &mut MutexGuard<'_, Vfs<S>>, timeout: Duration) -> bool {
        self.about_to_block();
        match self.park.get() {
            Some(park) => {
                MutexGuard::unlocked(core, || park(timeout));
                true
            }
            None => !self.progress.wait_for(core, timeout).timed_out(),
        }
    }

    fn about_to_block(&self) {
        if let Some(hook) = self.before_blocking.get() {
            hook();
        }
    }

    fn now(&self) -> TimeNs {
        TimeNs(self.clock.now_ns())
    }

    /// Runs one operation to its end, retrying as needed. `op` must be repeatable until it succeeds.
    ///
    /// # Errors
    /// The operation's own; `NoSpace` if there is no way to make room for it.
    pub fn run<T>(&self, mut op: impl FnMut(&mut Vfs<S>, TimeNs) -> Outcome<T>) -> Result<T, FsError> {
        self.run_quietly(|vfs, now| {
            vfs.store_mut().note_request(self.now());
            op(vfs, now)
        })
    }

    /// As [`Volume::run`], for upkeep: the volume goes on being as quiet as its users are.
    ///
    /// # Errors
    /// As [`Volume::run`].
    pub fn run_quietly<T>(&self, op: impl FnMut(&mut Vfs<S>, TimeNs) -> Outcome<T>) -> Result<T, FsError> {
        let mut patience = Patience::default();
        let result = self.run_to_end(op, &mut patience);
        if let Some(since) = patience.stalled_since {
            self.stalls.add(self.now().0.saturating_sub(since.0));
        }
        result
    }

    fn run_to_end<T>(
        &self,
        mut op: impl FnMut(&mut Vfs<S>, TimeNs) -> Outcome<T>,
        patience: &mut Patience,
    ) -> Result<T, FsError> {
        let now = self.now();
        loop {
            let mut core = self.core.lock();
            match op(&mut core, now) {
                Ok(value) => {
                    let is_due = core.store().pressure() == Pressure::Due || self.oversleeps(&core, now);
                    drop(core);
                    if is_due {
                        self.kick();
                    }
                    return Ok(value);
                }
                Err(stop) => {
                    patience.seen = self.advances.load(Ordering::Relaxed);
                    drop(core);
                    self.overcome(stop, patience)?;
                }
            }
        }
    }

    /// True if whoever does background work sleeps until something is overdue that was not in sight before. Told once.
    fn oversleeps(&self, core: &MutexGuard<'_, Vfs<S>>, now: TimeNs) -> bool {
        let due_in_ms = i64::try_from(core.store().due_in_ms(now)).unwrap_or(i64::MAX);
        let due_ns = now.0.saturating_add(due_in_ms.saturating_mul(1_000_000));
        let oversleeps =
            self.has_background.load(Ordering::Relaxed) && due_ns < self.awake_by_ns.load(Ordering::Relaxed);
        if oversleeps {
            self.awake_by_ns.store(i64::MIN, Ordering::Relaxed);
        }
        oversleeps
    }

    /// Does what a stopped operation waits for.
    fn overcome(&self, stop: Stop, patience: &mut Patience) -> Result<(), FsError> {
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
    fn fetch_all(
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
    fn make_room(&self, patience: &mut Patience) -> Result<(), FsError> {
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
    fn wait_for_room(&self, patience: &mut Patience) -> Result<(), FsError> {
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
    fn overcome_in_step(
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

    /// Requests that are ready, started.
    fn take_jobs(core: &mut MutexGuard<'_, Vfs<S>>) -> Vec<Job> {
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

    fn carry_out(&self, jobs: Vec<Job>) {
        let Some(device) = &self.device else { return };
        self.about_to_block();
        let mut under_way = jobs.into_iter().map(|job| (job.id, device.submit(job.request()))).collect();
        self.finish_until(&mut under_way, 0);
    }

    /// Bytes of the device, unverified.
    pub(crate) fn read_raw(&self, at_bytes: u64, len_bytes: u64) -> Result<Vec<u8>, FsError> {
        let reader = self.reader.as_ref().ok_or_else(|| FsError::Io("the store has no device".to_owned()))?;
        reader.exact(at_bytes, len_bytes)
    }

    /// Sleeps until some request to the device is complete, at most `timeout`.
    pub(crate) fn wait_for_progress(&self, timeout: Duration) {
        self.await_progress(&mut self.core.lock(), timeout);
    }

    /// Reads into `out`; returns how much (less than asked for only at the end of the file).
    ///
    /// # Errors
    /// `Corrupt`, `Io`, and those of `Vfs::read`.
    pub fn read(&self, ino: InodeNo, at_bytes: u64, out: &mut [u8]) -> Result<usize, FsError> {
        let plan = self.run(|vfs, now| vfs.read(now, ino, at_bytes, out.len() as u64))?;
        let len = plan.len_bytes();
        let result = match &self.reader {
            Some(reader) => reader.carry_out(&plan, &mut out[..len]),
            None => Reader::from_memory(&plan, &mut out[..len]),
        };
        if plan.pin != 0 {
            self.core.lock().store_mut().unpin(plan.pin);
        }
        result.map(|()| len)
    }

    /// Writes `bytes`; returns how many were written. As with write(2) they are fewer if an error came after the first:
    /// who asks for the rest meets it.
    ///
    /// # Errors
    /// `NoSpace`, and those of `Vfs::write`, if nothing was written.
    pub fn write(
        &self,
        ino: InodeNo,
        at_bytes: u64,
        bytes: &[u8],
        kill_set_id: bool,
    ) -> Result<usize, FsError> {
        let mut done = 0;
        while done < bytes.len() {
            let rest = &bytes[done..bytes.len().min(done + PREPARED_BYTES_MAX)];
            match self.write_some(ino, at_bytes.saturating_add(done as u64), rest, kill_set_id) {
                Ok(written) => done += written,
                Err(_) if done > 0 => break,
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// As [`Volume::write`]; a part may be written then.
    pub fn write_all(
        &self,
        ino: InodeNo,
        at_bytes: u64,
        bytes: &[u8],
        kill_set_id: bool,
    ) -> Result<(), FsError> {
        let mut done = 0;
        while done < bytes.len() {
            done += self.write(ino, at_bytes.saturating_add(done as u64), &bytes[done..], kill_set_id)?;
        }
        Ok(())
    }

    /// Copies and sums up outside the lock, then writes; returns how much was written.
    fn write_some(
        &self,
        ino: InodeNo,
        at_bytes: u64,
        bytes: &[u8],
        kill_set_id: bool,
    ) -> Result<usize, FsError> {
        let blocks = match self.block_bytes {
            Some(block_bytes) => ready_blocks(at_bytes, bytes, block_bytes),
            None => Vec::new(),
        };
        let content = Content::prepared(at_bytes, bytes, &blocks, self.block_bytes.unwrap_or(1));
        self.run(|vfs, now| vfs.write_content(now, ino, at_bytes, content, kill_set_id))
    }

    /// Makes a scope durable and waits for it (group commit).
    ///
    /// # Errors
    /// `Io` if the log fails meanwhile; `ReadOnly` from then on.
    pub fn sync(&self, scope: Scope) -> Result<(), FsError> {
        let ticket = self.run(|vfs, now| vfs.commit(now, scope))?;
        self.wait_durable(ticket)
    }

    /// Whoever waits does the work that is ready; one flush serves all who wait.
    pub(crate) fn wait_durable(&self, ticket: Ticket) -> Result<(), FsError> {
        loop {
            let mut core = self.core.lock();
            if core.store().durable() >= ticket {
                return Ok(());
            }
            if let Some(why) = core.store().read_only() {
                return Err(FsError::Io(why.to_owned()));
            }
            let jobs = Self::take_jobs(&mut core);
            if jobs.is_empty() {
                self.await_progress(&mut core, LOOK_AGAIN);
                continue;
            }
            drop(core);
            self.carry_out(jobs);
        }
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
    fn background_step(&self) -> Outcome<Step> {
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
        self.progress.notify_all();
        step
    }

    fn work_until_idle(&self) -> Result<u64, FsError> {
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
    fn start_ready(&self, under_way: &mut VecDeque<(JobId, Tag)>) {
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
    fn finish_until(&self, under_way: &mut VecDeque<(JobId, Tag)>, left: usize) {
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
            self.progress.notify_all();
            if failed {
                // Whoever does background work says so, whatever it was about to sleep for.
                self.wake();
            }
        }
    }

    /// Work is due: wakes whoever does it, or does it here if nobody does. Who is at it goes on until nothing is due.
    fn kick(&self) {
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
            self.work.notify_one();
        }
    }

    /// Sleeps until there is background work, at most `max_ms`. Who calls this promises to call
    /// [`Volume::background`] in turn.
    pub fn wait_for_work(&self, max_ms: u64) {
        self.has_background.store(true, Ordering::Relaxed);
        let mut due = self.work_due.lock();
        if !*due {
            let timeout = Duration::from_millis(max_ms);
            match self.park.get() {
                Some(park) => MutexGuard::unlocked(&mut due, || park(timeout)),
                None => drop(self.work.wait_for(&mut due, timeout)),
            }
        }
        *due = false;
    }

    /// Wakes [`Volume::wait_for_work`].
    pub fn wake(&self) {
        *self.work_due.lock() = true;
        self.work.notify_all();
    }

    /// How operations waited for room since the volume was opened.
    #[must_use]
    pub fn stalls(&self) -> Stalls {
        self.stalls.so_far()
    }

    /// Why a volume that was opened for writing is read-only by now.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        self.core.lock().store().broken().map(str::to_owned)
    }

    /// Frees what has no names, commits everything, writes a checkpoint that says so.
    ///
    /// # Errors
    /// `Io`, `NoSpace`; `ReadOnly` if the volume turned read-only while it was open: what was not durable before is lost.
    pub fn close(&self) -> Result<(), FsError> {
        {
            let core = self.core.lock();
            if let Some(why) = core.store().broken() {
                return Err(FsError::ReadOnly(why.to_owned()));
            }
            if core.store().read_only().is_some() {
                return Ok(());
            }
        }
        self.run(|vfs, now| vfs.release_orphans(now))?;
        self.background()?;
        self.clean_checkpoint()
    }

    /// Commits everything, writes a checkpoint that says that nothing is left to do, and waits for it.
    pub(crate) fn clean_checkpoint(&self) -> Result<(), FsError> {
        let checkpoint = self.run(|vfs, now| vfs.store_mut().clean_checkpoint(now));
        if checkpoint.is_err() {
            // What was committed is in line nevertheless.
            self.pump();
        }
        checkpoint?;
        loop {
            let core = self.core.lock();
            if let Some(why) = core.store().read_only() {
                return Err(FsError::ReadOnly(why.to_owned()));
            }
            if core.store().is_quiet() {
                return Ok(());
            }
            drop(core);
            self.pump_or_wait();
        }
    }

    /// Makes everything durable, waits until no request is under way, and looks at the core as it is then; nobody else can
    /// change it meanwhile. The device is at hand for reading.
    ///
    /// # Errors
    /// Making it durable failed.
    pub(crate) fn look_when_quiet<T>(
        &self,
        look: impl FnOnce(&mut Vfs<S>, Option<&dyn Device>) -> T,
    ) -> Result<T, FsError> {
        let ticket = self.run_quietly(|vfs, now| vfs.commit(now, Scope::All))?;
        self.wait_durable(ticket)?;
        loop {
            let mut core = self.core.lock();
            if core.store().is_quiet() {
                return Ok(look(&mut core, self.device.as_deref()));
            }
            drop(core);
            self.pump_or_wait();
        }
    }

    /// The device, for reading.
    pub(crate) fn device(&self) -> Option<&dyn Device> {
        self.device.as_deref()
    }

    /// Ends driving and gives the core back, without closing the volume.
    pub fn into_vfs(self) -> Vfs<S> {
        self.core.into_inner()
    }
}

/// How often one operation was turned away for the same reason.
#[derive(Default)]
struct Patience {
    /// When it was first turned away for want of room.
    stalled_since: Option<TimeNs>,
    stuck: u32,
    /// Background steps that it did itself.
    worked: u32,
    /// Nobody seems to do background work.
    is_alone: bool,
    /// How far the others had got when it was turned away.
    seen: u64,
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
