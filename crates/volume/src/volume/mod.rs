//! `Volume`: an open volume, for callers that may block. `waiting` says why callers wait, `events` how they wait, `background`
//! does the background work, and `promise` settles which thread does it. `freeze` holds changes while the image is copied,
//! `reading` reads content, `direct` writes beside the core and has the fence, `quotas` counts quotas in steps.

mod background;
mod direct;
mod events;
mod freeze;
mod promise;
mod quotas;
mod reading;
mod waiting;

pub use direct::DirectWrites;
pub use freeze::Freeze;
pub use promise::BackgroundPromise;

use crate::lock_time::{LockTime, LockTimes};
use crate::never_waiting;
use crate::reader::Reader;
use crate::stalls::{StallCount, Stalls};
use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard};
use events::{Event, Events};
use firnfs::engine::Engine;
use firnfs::engine::Pressure;
use firnfs::store::content::{Content, ReadyBlock, lent_blocks, ready_blocks};
use firnfs::store::{Preparation, Prepared, Scope, StoreFacts, Ticket};
use firnfs::vfs::{Frozen, Vfs};
use firnfs::{FsError, Outcome, Stop};
use firnfs_device::{AlignedBuf, Clock, Device};
use firnfs_format::{InodeNo, TimeNs};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use waiting::Patience;

/// Bytes of a write that are prepared at a time.
const PREPARED_BYTES_MAX: usize = 1 << 20;

/// See [`Volume::park_with`].
struct Parking {
    park: Box<dyn Fn(Duration) + Send + Sync>,
    unpark: Box<dyn Fn() + Send + Sync>,
}

/// See the crate's head.
pub struct Volume<S: Engine> {
    core: Mutex<Vfs<S>>,
    events: Events,
    /// Operations that wait for background work to make room.
    waiting: AtomicU32,
    device: Option<Arc<dyn Device>>,
    reader: Reader,
    clock: Arc<dyn Clock>,
    before_blocking: Arc<OnceLock<fn()>>,
    has_caller_given_up: OnceLock<fn() -> bool>,
    parking: OnceLock<Parking>,
    /// Facts of the store: it says how to prepare blocks outside the lock.
    facts: StoreFacts,
    stalls: StallCount,
    lock_time: LockTime,
    /// A caller is storing the ends of grace times.
    saving_quotas: AtomicBool,
    /// Promises of background work that are in force. Decreases only while `core` is locked.
    promises: AtomicU32,
    /// When background work looks again by itself, in nanoseconds of the clock. Changes while `core` is locked.
    awake_by_ns: AtomicI64,
    /// A caller writes to the device itself ([`Volume::write_directly`]). Changes while `core` is locked.
    has_direct_writer: AtomicBool,
    /// Callers that do background work now.
    at_work: AtomicU32,
    work_due: Mutex<bool>,
    work: Condvar,
}

impl<S: Engine> Volume<S> {
    /// Drives `vfs`; `device` is `None` for the memory store.
    pub fn new(vfs: Vfs<S>, device: Option<Arc<dyn Device>>, clock: Arc<dyn Clock>) -> Self {
        let before_blocking = Arc::new(OnceLock::new());
        let reader = Reader::new(device.clone(), vfs.store().verifier(), before_blocking.clone());
        let facts = vfs.store().facts();
        Self {
            core: Mutex::new(vfs),
            events: Events::new(),
            waiting: AtomicU32::new(0),
            device,
            reader,
            clock,
            before_blocking,
            has_caller_given_up: OnceLock::new(),
            parking: OnceLock::new(),
            facts,
            stalls: StallCount::default(),
            lock_time: LockTime::default(),
            saving_quotas: AtomicBool::new(false),
            promises: AtomicU32::new(0),
            awake_by_ns: AtomicI64::new(i64::MIN),
            has_direct_writer: AtomicBool::new(false),
            at_work: AtomicU32::new(0),
            work_due: Mutex::new(false),
            work: Condvar::new(),
        }
    }

    /// Calls `hook` whenever the calling thread is about to wait for the device or for other threads' requests, so that an
    /// adapter can let another thread run meanwhile. Only the first call counts.
    pub fn call_before_blocking(&self, hook: fn()) {
        self.before_blocking.get_or_init(|| hook);
    }

    /// Calls `given_up` before an operation waits that has not changed anything, and before a sync waits. If the caller for
    /// whom the thread works has given up, the operation ends with `Interrupted` instead. `given_up` must not call the volume. Only the first call counts.
    pub fn ask_before_waiting(&self, given_up: fn() -> bool) {
        self.has_caller_given_up.get_or_init(|| given_up);
    }

    /// Has all threads that wait ask again.
    pub fn ask_again(&self) {
        self.tell(self.core.lock(), Event::Progress);
    }

    fn ask_caller(&self) -> Result<(), FsError> {
        match self.has_caller_given_up.get() {
            Some(given_up) if given_up() => Err(FsError::Interrupted),
            _ => Ok(()),
        }
    }

    /// For programs that schedule their threads themselves. A thread that waits for another one calls `park` with the longest
    /// wait instead of sleeping, and continues when it returns; a thread that has made progress calls `unpark`. Only one thread
    /// may run until it parks; otherwise a thread could miss an `unpark` between its last look and its `park`. Only the first
    /// call counts.
    pub fn park_with(
        &self,
        park: impl Fn(Duration) + Send + Sync + 'static,
        unpark: impl Fn() + Send + Sync + 'static,
    ) {
        self.parking.get_or_init(|| Parking { park: Box::new(park), unpark: Box::new(unpark) });
    }

    /// Bounds the look-ahead to this many bytes. For volumes in memory, thousands of which are opened a second.
    pub fn limit_read_ahead(&self, ahead_max_bytes: u32) {
        self.reader.limit_ahead(ahead_max_bytes);
    }

    /// The caller reads ahead by itself, as a kernel does above a mount: reads of 64 KiB or more start no others.
    pub fn leave_long_reads_alone(&self) {
        self.reader.leave_long_reads_alone();
    }

    fn about_to_block(&self) {
        debug_assert_eq!(never_waiting::ask(), Ok(()), "a thread that may not wait is about to");
        if let Some(hook) = self.before_blocking.get() {
            hook();
        }
    }

    fn now(&self) -> TimeNs {
        TimeNs(self.clock.now_ns())
    }

    /// Runs one operation to its end for a caller whom quotas do not bind, if `is_exempt`: the superuser.
    ///
    /// # Errors
    /// As [`Volume::run`].
    pub fn run_for<T>(
        &self,
        is_exempt: bool,
        mut op: impl FnMut(&mut Vfs<S>, TimeNs) -> Outcome<T>,
    ) -> Result<T, FsError> {
        self.run(|vfs, now| vfs.exempt(is_exempt, |vfs| op(vfs, now)))
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

    /// As [`Volume::run`], for maintenance: it does not count as activity of users, so an idle volume stays idle.
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
            let asked_ns = self.lock_time.is_measured().then(|| self.clock.now_ns());
            let mut core = self.core.lock();
            let had_ns = asked_ns.map(|_| self.clock.now_ns());
            let gave_back = || {
                if let (Some(asked_ns), Some(had_ns)) = (asked_ns, had_ns) {
                    self.lock_time.turn((asked_ns, had_ns, self.clock.now_ns()));
                }
            };
            match op(&mut core, now) {
                Ok(value) => {
                    let is_due = core.store().pressure() == Pressure::Due || self.oversleeps(&core, now);
                    let awaited = core.take_awaited();
                    let has_unsaved = core.has_unsaved_quotas();
                    drop(core);
                    gave_back();
                    if has_unsaved {
                        self.save_quotas();
                    }
                    if is_due {
                        self.kick();
                    }
                    if let Some(ticket) = awaited {
                        self.wait_durable(ticket)?;
                    }
                    return Ok(value);
                }
                Err(stop) => {
                    patience.seen = self.seen();
                    let is_held = matches!(stop, Stop::Room) && core.take_held();
                    drop(core);
                    gave_back();
                    if is_held {
                        never_waiting::ask()?;
                        self.wait_for_thaw_unless_given_up()?;
                    } else {
                        self.overcome(stop, patience)?;
                    }
                }
            }
        }
    }

    /// True if the background worker is asleep beyond the time at which newly made work falls due. Returns true once only.
    fn oversleeps(&self, core: &MutexGuard<'_, Vfs<S>>, now: TimeNs) -> bool {
        let due_in_ms = i64::try_from(core.store().due_in_ms(now)).unwrap_or(i64::MAX);
        let due_ns = now.0.saturating_add(due_in_ms.saturating_mul(1_000_000));
        let oversleeps = self.has_background() && due_ns < self.awake_by_ns.load(Ordering::Relaxed);
        if oversleeps {
            self.awake_by_ns.store(i64::MIN, Ordering::Relaxed);
        }
        oversleeps
    }

    /// Writes `bytes`; returns how many were written. As with write(2), the count is short if an error other than `WouldWait` came after
    /// the first byte; a caller that writes the rest meets the error.
    ///
    /// # Errors
    /// `NoSpace`, `OverQuota`, and those of `Vfs::write`, if nothing was written.
    pub fn write(
        &self,
        ino: InodeNo,
        at_bytes: u64,
        bytes: &[u8],
        kill_set_id: bool,
    ) -> Result<usize, FsError> {
        self.write_for(false, ino, at_bytes, bytes, kill_set_id)
    }

    /// [`Volume::write`] for a caller whom quotas do not bind, if `is_exempt`.
    ///
    /// # Errors
    /// As [`Volume::write`].
    pub fn write_for(
        &self,
        is_exempt: bool,
        ino: InodeNo,
        at_bytes: u64,
        bytes: &[u8],
        kill_set_id: bool,
    ) -> Result<usize, FsError> {
        self.write_in_parts(bytes.len(), |part| {
            let at_bytes = at_bytes.saturating_add(part.start as u64);
            let bytes = &bytes[part];
            let blocks = ready_blocks(at_bytes, bytes, &self.facts);
            self.write_ready(is_exempt, ino, at_bytes, (bytes, &blocks), kill_set_id)
        })
    }

    /// [`Volume::write_for`] of all of a buffer, without a copy of the whole blocks in it: the volume keeps the buffer until they are on the
    /// device. Does copy them if the store may keep them longer ([`StoreFacts::keeps_content`]), or if the buffer is longer than 4 GiB.
    ///
    /// # Errors
    /// As [`Volume::write`].
    pub fn write_lent(
        &self,
        is_exempt: bool,
        ino: InodeNo,
        at_bytes: u64,
        buf: &Arc<AlignedBuf>,
        kill_set_id: bool,
    ) -> Result<usize, FsError> {
        if self.facts.keeps_content || u32::try_from(buf.len()).is_err() {
            return self.write_for(is_exempt, ino, at_bytes, buf, kill_set_id);
        }
        self.write_in_parts(buf.len(), |part| {
            let at_bytes = at_bytes.saturating_add(part.start as u64);
            let blocks = lent_blocks(at_bytes, buf, part.clone(), &self.facts);
            self.write_ready(is_exempt, ino, at_bytes, (&buf[part], &blocks), kill_set_id)
        })
    }

    /// Calls `write` for one part of `len_bytes` bytes after the other, until all is written or it fails.
    fn write_in_parts(
        &self,
        len_bytes: usize,
        mut write: impl FnMut(Range<usize>) -> Result<usize, FsError>,
    ) -> Result<usize, FsError> {
        let mut done = 0;
        while done < len_bytes {
            match write(done..len_bytes.min(done + PREPARED_BYTES_MAX)) {
                Ok(written) => done += written,
                // Another thread does the same again, the part that is done as well: no program asked for a part.
                Err(FsError::WouldWait) => return Err(FsError::WouldWait),
                Err(_) if done > 0 => break,
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// As [`Volume::write`]; a part may have been written.
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

    /// Writes bytes whose whole blocks were prepared outside the lock; returns how much was written.
    fn write_ready(
        &self,
        is_exempt: bool,
        ino: InodeNo,
        at_bytes: u64,
        (bytes, blocks): (&[u8], &[ReadyBlock]),
        kill_set_id: bool,
    ) -> Result<usize, FsError> {
        let content = Content::prepared(at_bytes, bytes, blocks, self.facts.block_bytes);
        self.run(|vfs, now| {
            vfs.exempt(is_exempt, |vfs| vfs.write_content(now, ino, at_bytes, content, kill_set_id))
        })
    }

    /// Makes a scope durable and waits for it (group commit).
    ///
    /// # Errors
    /// `Interrupted` if the caller gives up; what it asked for may become durable nevertheless.
    /// `Io` if the device fails meanwhile; after that always `ReadOnly`.
    pub fn sync(&self, scope: Scope) -> Result<(), FsError> {
        if Self::is_device_frozen(&self.core.lock()) {
            // Everything that was accepted is durable, except access times, which no sync promises.
            return Ok(());
        }
        let mut has_begun = false;
        let ticket = self.commit_in_parts(scope, &mut has_begun).map_err(|e| match e {
            FsError::ReadOnly(why) if has_begun => FsError::Io(why),
            other => other,
        })?;
        self.until(|vfs| match is_durable(vfs, ticket)? {
            None => self.ask_caller().map(|()| None),
            durable => Ok(durable),
        })
    }

    /// Others go on between the parts.
    fn commit_in_parts(&self, scope: Scope, has_begun: &mut bool) -> Result<Ticket, FsError> {
        let mut preparation = Preparation::default();
        loop {
            match self.run(|vfs, now| vfs.prepare_commit(now, scope, &mut preparation))? {
                Prepared::Part => *has_begun = true,
                Prepared::Rest => {
                    let ticket = self.run(|vfs, now| match vfs.store().holds_commit(scope) {
                        true => Ok(None),
                        false => vfs.commit(now, scope).map(Some),
                    })?;
                    if let Some(ticket) = ticket {
                        return Ok(ticket);
                    }
                    self.until(|vfs| match vfs.store().holds_commit(scope) {
                        true => self.ask_caller().map(|()| None),
                        false => Ok(Some(())),
                    })?;
                }
                Prepared::Whole(ticket) => return Ok(ticket),
            }
        }
    }

    /// True if the store wants [`Volume::file_closed`] to be called.
    #[must_use]
    pub fn hears_of_closes(&self) -> bool {
        self.core.lock().store().hears_of_closes()
    }

    /// A program closed a file; waits for what the store writes then.
    ///
    /// # Errors
    /// `Io` if the device fails meanwhile.
    pub fn file_closed(&self, ino: InodeNo) -> Result<(), FsError> {
        match self.run(|vfs, _| vfs.file_closed(ino))? {
            Some(ticket) => self.wait_durable(ticket),
            None => Ok(()),
        }
    }

    /// Waits until a ticket is durable. The waiting thread carries out ready requests; one flush serves all waiters.
    ///
    /// # Errors
    /// `Io` if the store turns read-only first.
    pub fn wait_durable(&self, ticket: Ticket) -> Result<(), FsError> {
        self.until(|vfs| is_durable(vfs, ticket))
    }

    /// How long the core's lock was held and waited for so far.
    #[must_use]
    pub fn lock_times(&self) -> LockTimes {
        self.lock_time.so_far()
    }

    /// How often and how long operations waited for room since the volume was opened.
    #[must_use]
    pub fn stalls(&self) -> Stalls {
        self.stalls.so_far()
    }

    /// Why a volume that was opened for writing has turned read-only.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        self.core.lock().store().broken().map(str::to_owned)
    }

    /// Frees orphans, commits everything, and marks the volume clean. The closed volume can still be
    /// read; it rejects changes.
    ///
    /// # Errors
    /// `Io`, `NoSpace`; `ReadOnly` if the volume turned read-only while it was open: changes that were not durable by then are
    /// lost. `Invalid` while it is frozen.
    pub fn close(&self) -> Result<(), FsError> {
        {
            let core = self.core.lock();
            if core.frozen() != Frozen::No {
                return Err(FsError::Invalid("the volume is frozen"));
            }
            if let Some(why) = core.store().broken() {
                return Err(FsError::ReadOnly(why.to_owned()));
            }
            if core.store().read_only().is_some() {
                return Ok(());
            }
        }
        self.run(|vfs, now| vfs.release_orphans(now))?;
        self.background()?;
        self.finish()
    }

    /// Only the end of [`Volume::close`]: makes everything durable and marks the volume as needing no recovery. The orphans
    /// stay for the next mount. Repairs use it.
    ///
    /// # Errors
    /// `Io`, `NoSpace`, `ReadOnly`.
    pub fn finish(&self) -> Result<(), FsError> {
        let closed = self.run(|vfs, now| vfs.store_mut().close(now));
        if closed.is_err() {
            // Committed changes are already queued; write them nevertheless.
            self.pump();
        }
        closed?;
        self.until(|vfs| match vfs.store().read_only() {
            Some(why) => Err(FsError::ReadOnly(why.to_owned())),
            None => Ok(vfs.store().is_drained().then_some(())),
        })
    }

    /// Makes everything durable, then calls `look` once everything is durable and no request is under way; nobody can change
    /// the core meanwhile. `look` gets the device for reading. If other callers write in between, this starts again.
    ///
    /// # Errors
    /// If making everything durable failed.
    pub fn look_when_drained<T>(
        &self,
        look: impl FnOnce(&mut Vfs<S>, Option<&dyn Device>) -> T,
    ) -> Result<T, FsError> {
        let mut look = Some(look);
        loop {
            let (looked, ticket) = self.run_quietly(|vfs, now| {
                let ticket = vfs.commit(now, Scope::All)?;
                let is_still = vfs.store().durable() >= ticket && vfs.store().is_drained();
                let look = if is_still { look.take() } else { None };
                Ok((look.map(|look| look(vfs, self.device.as_deref())), ticket))
            })?;
            if let Some(looked) = looked {
                return Ok(looked);
            }
            self.wait_durable(ticket)?;
            self.until(|vfs| Ok(vfs.store().is_drained().then_some(())))?;
        }
    }

    /// The device, for reading.
    pub fn device(&self) -> Option<&dyn Device> {
        self.device.as_deref()
    }

    /// Stops driving and returns the core, without closing the volume.
    pub fn into_vfs(self) -> Vfs<S> {
        self.core.into_inner()
    }
}

/// `None` as long as it may become durable.
fn is_durable<S: Engine>(vfs: &Vfs<S>, ticket: Ticket) -> Result<Option<()>, FsError> {
    match vfs.store().read_only() {
        _ if vfs.store().durable() >= ticket => Ok(Some(())),
        Some(why) => Err(FsError::Io(why.to_owned())),
        None => Ok(None),
    }
}
