//! `Driver`: drives the real log on an [`OpenDisk`] in virtual time, without threads.
//!
//! It is to the log what `Volume` is on a mount: it reads for it, writes for it, and lets it do background work when that is due. Two
//! things differ. Users' operations never wait: their requests enter the disk's queue when the trace says, and what they read is at
//! hand at once. The cleaner works in order: its next step begins when its requests are done, and at most `depth` of them are in the
//! disk's queue at a time.
//!
//! Content is zeros and takes no memory; everything else is stored as the log lays it out.
//!
//! Invariants: time never moves back; each request of the log is submitted once, in order for each of users and cleaner.
//! Callers: `initial`, `replay`.

use super::disk::{DiskSeen, Io, OpenDisk, Who};
use super::sectors::Sectors;
use crate::error::LabError;
use firnfs::engine::{Engine, Pressure, Step};
use firnfs::lfs::{Counters, Lfs, Options, Tuning, read_superblock};
use firnfs::store::content::{Content, ReadyBlock};
use firnfs::store::{Piece, Scope};
use firnfs::vfs::{AtimeMode, Vfs};
use firnfs::{Fetch, FsError, Outcome, Stop};
use firnfs_device::{AlignedBuf, Device, MemDevice, Request};
use firnfs_format::summary::{FLAG_CLEANER, SUMMARY_MAGIC, SummaryRaw};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_sim::disk::{DiskParams, Work};
use std::collections::VecDeque;
use zerocopy::FromBytes;

/// Fetches this close to each other become one request, as on a mount.
const GAP_BYTES: u64 = 4096;
/// Longest read.
const READ_MAX_BYTES: u64 = 1 << 20;
/// How long background work that cannot go on waits.
const RETRY_NS: i64 = 1_000_000_000;
/// Steps that an operation does at most while it waits for room, and those of them without progress.
const PRESSED_MAX: u32 = 4096;
const STUCK_MAX: u32 = 8;
/// Steps after an operation at most, while work is due.
const DUE_MAX: u32 = 4096;
/// Largest write of one operation.
const WRITE_MAX_BYTES: u64 = 64 << 10;

/// When the log is told that users are active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdleRule {
    /// While the disk serves them, as in the paper: requests that the cache answers leave it idle.
    Disk,
    /// At each of their requests, as on a mount.
    Requests,
}

/// See the module's head.
pub(crate) struct Driver {
    vfs: Vfs<Lfs>,
    stored: Sectors,
    disk: OpenDisk,
    rule: IdleRule,
    depth: usize,
    learns_idle: bool,
    now_ns: i64,
    /// Times count: false while the initial state is built.
    is_timed: bool,
    /// Requests of the cleaner that are not in the disk's queue yet.
    cleaner_waiting: VecDeque<Io>,
    /// Ends of its requests that are.
    cleaner_ends_ns: VecDeque<i64>,
    /// When background work looks again.
    due_ns: i64,
    /// Up to when the log knows of the disk's work for users.
    noted_ns: i64,
    zeros: Vec<u8>,
    zero_blocks: Vec<ReadyBlock>,
    block_bytes: u32,
}

fn failed(action: &'static str) -> impl Fn(FsError) -> LabError {
    move |source| LabError::Volume { action, source }
}

impl Driver {
    /// Opens the volume on a device in memory. The device's content is taken over.
    ///
    /// # Errors
    /// It holds no volume.
    pub fn open(
        device: &MemDevice,
        options: Options,
        disk: &DiskParams,
        (rule, depth): (IdleRule, usize),
        now_ns: i64,
    ) -> Result<Self, LabError> {
        let image = device.image();
        let mut read = |at_bytes: u64, len_bytes: u32| {
            let mut bytes = vec![0; len_bytes as usize];
            image.read(at_bytes, &mut bytes);
            Ok(bytes)
        };
        let sb = read_superblock(&mut read, device.geometry().size_bytes)
            .map_err(|error| LabError::Setup(error.to_string()))?;
        let lfs = Lfs::open(&mut read, sb, options, TimeNs(now_ns)).map_err(failed("open the volume"))?;
        let mut vfs = Vfs::new(lfs, AtimeMode::Noatime);
        let block_bytes = vfs.facts().block_bytes;
        let zeros = vec![0; WRITE_MAX_BYTES as usize];
        let block = firnfs::store::Buf::from(&zeros[..block_bytes as usize]);
        let ready = ReadyBlock { crc: Some(firnfs_format::crc32c(&block)), buf: block };
        vfs.store_mut().note_request(TimeNs(now_ns));
        let mut driver = Self {
            vfs,
            stored: Sectors::of(&image),
            disk: OpenDisk::new(disk, now_ns, options.idle_after_ms),
            rule,
            depth,
            learns_idle: false,
            now_ns,
            is_timed: false,
            cleaner_waiting: VecDeque::new(),
            cleaner_ends_ns: VecDeque::new(),
            due_ns: now_ns,
            noted_ns: now_ns,
            zeros,
            zero_blocks: vec![ready; (WRITE_MAX_BYTES / u64::from(block_bytes)) as usize],
            block_bytes,
        };
        driver.settle()?;
        Ok(driver)
    }

    /// From now on requests take time, on a disk at rest.
    pub fn start_clock(&mut self, disk: &DiskParams, now_ns: i64) {
        (self.is_timed, self.now_ns, self.due_ns, self.noted_ns) = (true, now_ns, now_ns, now_ns);
        self.disk = OpenDisk::new(disk, now_ns, self.idle_after_ms());
        self.vfs.store_mut().note_request(TimeNs(now_ns));
    }

    /// From now on the cleaner begins after the idle time that is learned from the disk's intervals.
    pub fn learn_idle(&mut self) {
        self.learns_idle = true;
    }

    /// What the disk has seen since the clock was started.
    pub fn seen(&self) -> &DiskSeen {
        self.disk.seen()
    }

    /// Counts of the log since mkfs.
    pub fn counters(&self) -> &Counters {
        self.vfs.store().counters()
    }

    /// The file system, to look at.
    pub fn vfs(&self) -> &Vfs<Lfs> {
        &self.vfs
    }

    /// The virtual time.
    pub fn now(&self) -> TimeNs {
        TimeNs(self.now_ns)
    }

    /// Looks at something of the log; what it has to read for this is not asked of the disk.
    ///
    /// # Errors
    /// `look` failed.
    pub fn look<T>(&mut self, mut look: impl FnMut(&mut Lfs) -> Outcome<T>) -> Result<T, FsError> {
        loop {
            match look(self.vfs.store_mut()) {
                Ok(value) => return Ok(value),
                Err(Stop::Need(fetches)) => self.supply(&fetches)?,
                Err(Stop::Room) => return Err(FsError::NoSpace),
                Err(Stop::Fail(error)) => return Err(error),
            }
        }
    }

    /// A number that depends on every request of the disk.
    pub fn fingerprint(&self) -> u64 {
        self.disk.fingerprint()
    }

    /// Lets time pass, with the cleaner's requests and the background work that are due meanwhile.
    ///
    /// # Errors
    /// The file system failed.
    pub fn advance_to(&mut self, at_ns: i64) -> Result<(), LabError> {
        while !self.advance_part(at_ns)? {}
        Ok(())
    }

    /// The same, but at most one request of the cleaner or one step of background work; true once it is that late.
    ///
    /// # Errors
    /// The file system failed.
    pub fn advance_part(&mut self, at_ns: i64) -> Result<bool, LabError> {
        while self.cleaner_ends_ns.front().is_some_and(|end_ns| *end_ns <= self.now_ns) {
            self.cleaner_ends_ns.pop_front();
        }
        let next_ns = match (self.cleaner_waiting.front(), self.cleaner_ends_ns.front()) {
            (Some(_), Some(end_ns)) if self.cleaner_ends_ns.len() >= self.depth => *end_ns,
            (Some(_), _) => self.now_ns,
            (None, _) => {
                let free_ns = self.cleaner_ends_ns.back().copied().unwrap_or(self.now_ns);
                self.due_ns.max(free_ns)
            }
        };
        if next_ns > at_ns {
            self.now_ns = self.now_ns.max(at_ns);
            return Ok(true);
        }
        self.now_ns = self.now_ns.max(next_ns);
        if self.cleaner_waiting.is_empty() {
            self.step()?;
        } else if self.cleaner_ends_ns.len() < self.depth {
            self.submit_for_cleaner();
        }
        Ok(false)
    }

    fn submit_for_cleaner(&mut self) {
        if let Some(io) = self.cleaner_waiting.pop_front() {
            self.cleaner_ends_ns.push_back(self.disk.submit(Who::Cleaner, io, self.now_ns));
        }
    }

    /// Runs an operation of a user, and the work that it makes due.
    ///
    /// # Errors
    /// The operation's own.
    pub fn user<T>(&mut self, mut op: impl FnMut(&mut Vfs<Lfs>, TimeNs) -> Outcome<T>) -> Result<T, FsError> {
        if self.rule == IdleRule::Requests {
            self.vfs.store_mut().note_request(TimeNs(self.now_ns));
        }
        let (mut pressed, mut stuck) = (0, 0);
        let value = loop {
            match op(&mut self.vfs, TimeNs(self.now_ns)) {
                Ok(value) => break value,
                Err(Stop::Need(fetches)) => self.fetch(&fetches, Who::User)?,
                Err(Stop::Room) => {
                    pressed += 1;
                    stuck = if self.press()? { 0 } else { stuck + 1 };
                    if pressed > PRESSED_MAX || stuck > STUCK_MAX {
                        return Err(FsError::NoSpace);
                    }
                }
                Err(Stop::Fail(error)) => return Err(error),
            }
        };
        self.vfs.store_mut().shrink_caches();
        self.settle_fs()?;
        Ok(value)
    }

    /// Writes zeros, as a user.
    ///
    /// # Errors
    /// As [`Driver::user`].
    pub fn write(&mut self, ino: InodeNo, at_bytes: u64, len_bytes: u64) -> Result<(), FsError> {
        let (zeros, blocks) = (std::mem::take(&mut self.zeros), std::mem::take(&mut self.zero_blocks));
        let mut done = 0;
        let mut result = Ok(());
        while done < len_bytes && result.is_ok() {
            let at = at_bytes.saturating_add(done);
            let part = (len_bytes - done).min(WRITE_MAX_BYTES) as usize;
            let block = u64::from(self.block_bytes);
            let whole = (at + part as u64) / block - at.div_ceil(block).min((at + part as u64) / block);
            let content = Content::prepared(at, &zeros[..part], &blocks[..whole as usize], self.block_bytes);
            match self.user(|vfs, now| vfs.write_content(now, ino, at, content, false)) {
                Ok(written) => done += written as u64,
                Err(error) => result = Err(error),
            }
        }
        (self.zeros, self.zero_blocks) = (zeros, blocks);
        result
    }

    /// Reads a range that the cache lacks: the disk's requests for it.
    ///
    /// # Errors
    /// As [`Driver::user`].
    pub fn read(&mut self, ino: InodeNo, at_bytes: u64, len_bytes: u64) -> Result<(), FsError> {
        let plan = self.user(|vfs, now| vfs.read(now, ino, at_bytes, len_bytes))?;
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for piece in &plan.pieces {
            if let Piece::Stored { at_bytes, stored_bytes, .. } = piece {
                let (at, end) = (*at_bytes, *at_bytes + u64::from(*stored_bytes));
                match runs.last_mut() {
                    Some((_, last)) if (*last..=*last + GAP_BYTES).contains(&at) => *last = end,
                    _ => runs.push((at, end)),
                }
            }
        }
        for (at, end) in runs {
            self.io(Who::User, Io { work: Work::Read, at_bytes: at, len_bytes: end - at });
        }
        if plan.pin != 0 {
            self.vfs.store_mut().unpin(plan.pin);
        }
        Ok(())
    }

    /// Writes everything that has changed to the log, as a user who waits for it.
    ///
    /// # Errors
    /// As [`Driver::user`].
    pub fn commit(&mut self) -> Result<(), FsError> {
        self.user(|vfs, now| vfs.commit(now, Scope::All)).map(drop)
    }

    /// Writes a checkpoint.
    ///
    /// # Errors
    /// As [`Driver::user`].
    pub fn checkpoint(&mut self) -> Result<(), FsError> {
        self.user(|vfs, now| vfs.store_mut().checkpoint_now(now))
    }

    /// A step of the log for an operation that waits for room: all of the cleaner's requests go to the disk at once. True if it made
    /// progress.
    fn press(&mut self) -> Result<bool, FsError> {
        self.drain(Who::User);
        let before = self.cleaning_so_far();
        let progress = match self.vfs.store_mut().step(TimeNs(self.now_ns), true) {
            Ok(Step::Worked) => true,
            Ok(Step::Waiting | Step::Idle(_) | Step::Stuck) | Err(Stop::Room) => false,
            Err(Stop::Need(fetches)) => {
                self.fetch(&fetches, Who::Cleaner)?;
                true
            }
            Err(Stop::Fail(error)) => return Err(error),
        };
        let drained = self.drain(self.worker_since(before));
        while !self.cleaner_waiting.is_empty() {
            self.submit_for_cleaner();
        }
        Ok(progress || drained)
    }

    /// After an operation: submits its requests, and does work that it made due.
    fn settle(&mut self) -> Result<(), LabError> {
        self.settle_fs().map_err(failed("do background work"))
    }

    fn settle_fs(&mut self) -> Result<(), FsError> {
        self.drain(Who::User);
        self.take_learned();
        for _ in 0..DUE_MAX {
            if self.vfs.store().pressure() == Pressure::None {
                break;
            }
            let is_busy = self.is_timed
                && (!self.cleaner_waiting.is_empty()
                    || self.cleaner_ends_ns.back().is_some_and(|end_ns| *end_ns > self.now_ns));
            self.note_disk();
            let has_worked = self.step_fs(Who::User)?;
            // The cleaner goes on when its requests are done.
            if !has_worked || is_busy {
                break;
            }
        }
        let due_in_ms = self.vfs.store().due_in_ms(TimeNs(self.now_ns));
        self.due_ns = self.now_ns.saturating_add(nanoseconds(due_in_ms));
        Ok(())
    }

    /// A step at a time at which it is due, without an operation.
    fn step(&mut self) -> Result<(), LabError> {
        self.note_disk();
        // Whatever is written in idle time is written because the cleaner makes room: also the users' changes that it commits first.
        let is_idle = self.vfs.store().idle_in_ms(TimeNs(self.now_ns)) == 0;
        self.step_fs(if is_idle { Who::Cleaner } else { Who::User })
            .map(drop)
            .map_err(failed("do background work"))
    }

    /// A step of background work, whose requests are `by`, or the cleaner's if it cleans. False if there is nothing to do now.
    fn step_fs(&mut self, by: Who) -> Result<bool, FsError> {
        let before = self.cleaning_so_far();
        let step = self.vfs.store_mut().step(TimeNs(self.now_ns), false);
        let by = if by == Who::Cleaner { by } else { self.worker_since(before) };
        let (has_worked, wait_ns) = match step {
            Ok(Step::Worked) => (true, 0),
            Ok(Step::Idle(sleep_ms)) => (false, nanoseconds(sleep_ms.max(1))),
            Ok(Step::Waiting | Step::Stuck) | Err(Stop::Room) => (false, RETRY_NS),
            Err(Stop::Need(fetches)) => {
                // As many at a time as one read may take: users who come back end an idle pass in between.
                let first = fetches.iter().scan(0, |bytes, fetch| {
                    *bytes += u64::from(fetch.len_bytes);
                    (*bytes <= READ_MAX_BYTES || *bytes == u64::from(fetch.len_bytes)).then_some(*fetch)
                });
                let first: Vec<Fetch> = first.collect();
                self.fetch(&first, Who::Cleaner)?;
                (true, 0)
            }
            Err(Stop::Fail(error)) => return Err(error),
        };
        let drained = self.drain(by);
        self.due_ns = self.now_ns.saturating_add(if drained { 0 } else { wait_ns });
        Ok(has_worked || drained)
    }

    /// Tells the log up to when the disk worked for users.
    fn note_disk(&mut self) {
        let end_ns = self.disk.user_end_ns().min(self.now_ns);
        // While the disk works for users, they are active now.
        if self.rule == IdleRule::Disk && end_ns > self.noted_ns {
            self.noted_ns = end_ns;
            self.vfs.store_mut().note_request(TimeNs(end_ns));
        }
    }

    /// Tells the log of another threshold, if one was learned.
    fn take_learned(&mut self) {
        let learned_ms = if self.learns_idle { self.disk.learned_ms() } else { None };
        if let Some(idle_after_ms) = learned_ms.filter(|learned_ms| *learned_ms != self.idle_after_ms()) {
            let tuning = Tuning { idle_after_ms, ..Tuning::from(*self.vfs.store().options()) };
            self.vfs.store_mut().tune(&tuning);
        }
    }

    /// After how much idle time the cleaner begins now.
    pub fn idle_after_ms(&self) -> u64 {
        self.vfs.store().options().idle_after_ms
    }

    /// Counts that only cleaning and its checkpoints change.
    fn cleaning_so_far(&self) -> (u64, u64, u64) {
        let counters = self.counters();
        (counters.cleaner_read_bytes, counters.cleaner_moved_bytes, counters.checkpoints)
    }

    fn worker_since(&self, before: (u64, u64, u64)) -> Who {
        if self.cleaning_so_far() == before { Who::User } else { Who::Cleaner }
    }

    /// Carries out the log's requests. True if there were any.
    fn drain(&mut self, by: Who) -> bool {
        let mut any = false;
        while let Some(job) = self.vfs.store_mut().next_job() {
            any = true;
            match job.request() {
                Request::Write { at_bytes, data } => {
                    let data = data.whole();
                    let by = if is_checkpoint_or_move(&data) { Who::Cleaner } else { by };
                    self.stored.write(at_bytes, &data);
                    self.io(by, Io { work: Work::Write, at_bytes, len_bytes: data.len() as u64 });
                }
                Request::Flush => self.io(by, Io { work: Work::Flush, at_bytes: 0, len_bytes: 0 }),
                Request::Discard { at_bytes, len_bytes } => self.stored.zero(at_bytes, len_bytes),
                Request::Read { .. } => {}
            }
            self.vfs.store_mut().job_done(job.id, Ok(()));
        }
        any
    }

    /// Reads what the log lacks, and supplies it.
    fn fetch(&mut self, fetches: &[Fetch], by: Who) -> Result<(), FsError> {
        let mut places: Vec<(u64, u64)> =
            fetches.iter().map(|fetch| (fetch.at_bytes, u64::from(fetch.len_bytes))).collect();
        places.sort_unstable();
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (at, len) in places {
            match runs.last_mut() {
                Some((start, end))
                    if at <= *end + GAP_BYTES && (at + len).max(*end) - *start <= READ_MAX_BYTES =>
                {
                    *end = (*end).max(at + len);
                }
                _ => runs.push((at, at + len)),
            }
        }
        for (at, end) in runs {
            self.io(by, Io { work: Work::Read, at_bytes: at, len_bytes: end - at });
        }
        self.supply(fetches)
    }

    fn supply(&mut self, fetches: &[Fetch]) -> Result<(), FsError> {
        for fetch in fetches {
            let mut bytes = AlignedBuf::scratch(fetch.len_bytes as usize);
            self.stored.read(fetch.at_bytes, &mut bytes);
            self.vfs.store_mut().supply(&fetch.token, &bytes.into())?;
        }
        Ok(())
    }

    fn io(&mut self, by: Who, io: Io) {
        match by {
            _ if !self.is_timed => {}
            Who::User => drop(self.disk.submit(by, io, self.now_ns)),
            Who::Cleaner => self.cleaner_waiting.push_back(io),
        }
    }
}

fn nanoseconds(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000_000)
}

/// Whether a write is a partial segment of moved blocks or of a checkpoint, as its summary says.
fn is_checkpoint_or_move(data: &[u8]) -> bool {
    let Ok((summary, _)) = SummaryRaw::read_from_prefix(data) else { return false };
    summary.magic.get() == SUMMARY_MAGIC
        && summary.flags.get() & (FLAG_CLEANER | firnfs_format::summary::FLAG_CHECKPOINT) != 0
}
