//! `run` and `Steps`: replay a trace against the real log in virtual time, at once or step by step, and what came of it.
//!
//! Each record is carried out at its time. Reads and writes touch the cache of pages; a read that misses asks the log where its blocks
//! are. In the synchronous model everything that has changed is written after each changing request; in the asynchronous one a
//! segment's worth is written at a time, as from non-volatile memory.
//!
//! Callers: `firn sim trace` (with `--watch` in steps), `firn paper`.

use super::disk::DiskSeen;
use super::driver::Driver;
use super::initial::{Files, build, make};
use super::matched::{Matched, Matches};
use super::names::{Names, nameless};
use super::pages::{BLOCK_BYTES, Page, Pages};
use super::setup::{Model, Setup, Volume};
use super::survey::{Survey, moved};
use super::{Phase, Progress, Records};
use crate::error::LabError;
use crate::micro::stop::Stop;
use firnfs::lfs::{Counters, Lfs};
use firnfs::vfs::{RenameMode, SetAttr, Vfs};
use firnfs::{FsError, Outcome as FsOutcome};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_workload::{FileId, Op, Outcome, Record};

/// When the clock shows as the trace begins.
pub(super) const START_NS: i64 = 800_000_000_000_000_000;
/// Segments by which the first pass counts how far files are spread: the paper's.
const SPREAD_SEGMENT_BYTES: u64 = 1 << 20;
/// Records between two looks at how full the disk is, and at whether to stop.
const STRIDE: u64 = 4096;
/// Blocks up to this size are kept. glibc learns from none that is larger than 32 MiB.
const KEPT_BYTES: usize = 31 << 20;

/// The result of a replay.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Replayed {
    /// Records of the trace.
    pub records: u64,
    /// Seconds that it spans.
    pub span_s: f64,
    /// Records that the volume refused, though the trace says that they were done.
    pub refused: u64,
    /// Creates without a file number.
    pub creates_asked: u64,
    /// Those that were matched by looking ahead.
    pub creates_matched: u64,
    /// What the disk saw.
    pub disk: DiskSeen,
    /// Bytes of reads that the cache of pages answered.
    pub cache_hit_bytes: u64,
    /// And of those that it did not.
    pub cache_miss_bytes: u64,
    /// Segments that the cleaner emptied.
    pub segments_cleaned: u64,
    /// Those of them emptied while users were active or waited for room.
    pub cleaned_on_demand: u64,
    /// Segments that became empty without the cleaner.
    pub segments_emptied: u64,
    /// Live share of the segments that it cleaned.
    pub cleaned_utilisation: f64,
    /// Bytes written to the log over bytes that users wrote.
    pub write_amplification: f64,
    /// After how many milliseconds of idle time the cleaner began at the end.
    pub idle_after_ms: u64,
    /// Share of the space for files that was in use, on average.
    pub utilisation: f64,
    /// Size of the volume in bytes.
    pub size_bytes: u64,
    /// Sum of all that the disk was asked to do: equal in two runs of the same trace.
    pub fingerprint: u64,
}

impl Replayed {
    /// P(idle >= 4 s | idle >= 2 s); `None` if there was no interval of 2 s.
    #[must_use]
    pub fn four_after_two(&self) -> Option<f64> {
        let two = self.disk.idle_s.at_least(2.0);
        (two > 0).then(|| self.disk.idle_s.at_least(4.0) as f64 / two as f64)
    }

    /// The share of the cleaned segments that were cleaned on demand; 0 if none was cleaned.
    #[must_use]
    pub fn on_demand_share(&self) -> f64 {
        self.cleaned_on_demand as f64 / self.segments_cleaned.max(1) as f64
    }

    /// Cleaner requests in the queue when a user's arrives, on average.
    #[must_use]
    pub fn interference(&self) -> f64 {
        self.disk.cleaner_met as f64 / self.disk.user_requests.max(1) as f64
    }
}

/// A replay under way.
struct Replay<'a> {
    setup: &'a Setup,
    driver: Driver,
    files: Files,
    names: Names,
    pages: Pages,
    replayed: Replayed,
    utilisation_sum: f64,
    looks: u64,
}

/// Replays a trace.
///
/// # Errors
/// The trace is damaged, the disk too small for it, or it was asked to stop.
pub fn run(
    records: &dyn Records,
    setup: &Setup,
    stop: &Stop,
    progress: &Progress<'_>,
) -> Result<Replayed, LabError> {
    let survey = Survey::of(records, SPREAD_SEGMENT_BYTES, stop)?;
    run_surveyed(records, &survey, setup, stop, progress)
}

/// Replays a trace under several setups at once, each on a thread of its own.
///
/// # Errors
/// As [`run`].
pub fn run_side_by_side(
    records: &dyn Records,
    setups: &[Setup],
    stop: &Stop,
    progress: &(dyn Fn(usize, Phase, f64) + Sync),
) -> Result<Vec<Replayed>, LabError> {
    let survey = &Survey::of(records, SPREAD_SEGMENT_BYTES, stop)?;
    std::thread::scope(|scope| {
        let start = |(n, setup)| {
            let show = move |phase, share| progress(n, phase, share);
            scope.spawn(move || run_surveyed(records, survey, setup, stop, &Progress(&show)))
        };
        let threads: Vec<_> = setups.iter().enumerate().map(start).collect();
        let ended = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(LabError::Setup("a replay panicked".to_owned())))
        });
        ended.collect()
    })
}

/// Lets the allocator keep the memory of segments that was freed, and not give it back to the kernel each time, which then clears it
/// again: glibc takes the largest block that was ever freed for a measure of what a program needs often. Nothing touches this one.
fn keep_large_blocks() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(KEPT_BYTES)));
}

/// The same after the first pass, which does not depend on the setup.
fn run_surveyed(
    records: &dyn Records,
    survey: &Survey,
    setup: &Setup,
    stop: &Stop,
    progress: &Progress<'_>,
) -> Result<Replayed, LabError> {
    let mut replay = Steps::begin(records, survey, setup, stop, progress)?;
    loop {
        stop.check()?;
        progress.show(Phase::Replaying, replay.share_done());
        for _ in 0..STRIDE {
            if !replay.next_record()? {
                return Ok(replay.end());
            }
        }
    }
}

/// A replay that goes on record by record, or until a moment, and can be looked at in between.
pub struct Steps<'a> {
    replay: Replay<'a>,
    matched: Matched<Box<dyn Iterator<Item = Result<Record, LabError>> + 'a>>,
    /// The record that comes next, whose time has not come yet.
    next: Option<Record>,
    records: u64,
    span_s: f64,
    before: Counters,
    last_ns: u64,
}

impl<'a> Steps<'a> {
    /// Reads the trace once, and builds the state before it.
    ///
    /// # Errors
    /// As [`run`].
    pub fn new(
        records: &'a dyn Records,
        setup: &'a Setup,
        stop: &Stop,
        progress: &Progress<'_>,
    ) -> Result<Self, LabError> {
        let survey = Survey::of(records, SPREAD_SEGMENT_BYTES, stop)?;
        Self::begin(records, &survey, setup, stop, progress)
    }

    fn begin(
        records: &'a dyn Records,
        survey: &Survey,
        setup: &'a Setup,
        stop: &Stop,
        progress: &Progress<'_>,
    ) -> Result<Self, LabError> {
        keep_large_blocks();
        let Volume { device, segment_bytes } = setup.volume(survey)?;
        let disk = setup.disk_for(&device)?;
        let (rule, depth) = (setup.cleaner.rule(), setup.cleaner.depth());
        let mut driver = Driver::open(&device, setup.options(segment_bytes), &disk, (rule, depth), START_NS)?;
        let files = build(&mut driver, survey, segment_bytes, stop, progress)?;
        driver.start_clock(&disk, START_NS);
        if setup.learns_idle {
            driver.learn_idle();
        }
        let mut names = Names::default();
        for (file, known) in &survey.files {
            if let Some((dir, name)) = known.place.as_ref().filter(|_| known.at_start) {
                names.insert(*dir, name, *file);
            }
        }
        let size_bytes = firnfs_device::Device::geometry(&device).size_bytes;
        let before = *driver.counters();
        let replay = Replay {
            setup,
            driver,
            files,
            names,
            pages: Pages::new(setup.page_cache_bytes),
            replayed: Replayed { size_bytes, ..Replayed::default() },
            utilisation_sum: 0.0,
            looks: 0,
        };
        let mut matched = Matched::new(records.open()?);
        let next = matched.next().transpose()?;
        let span_s = survey.span_ns as f64 / 1e9;
        Ok(Self { replay, matched, next, records: survey.records, span_s, before, last_ns: 0 })
    }

    /// Carries out the next record, at its time; false if there is none.
    ///
    /// # Errors
    /// As [`run`].
    pub fn next_record(&mut self) -> Result<bool, LabError> {
        let Some(record) = self.next.take() else { return Ok(false) };
        // Threads may have written their operations a little out of order.
        self.last_ns = self.last_ns.max(record.time_ns);
        self.replay.driver.advance_to(START_NS.saturating_add_unsigned(self.last_ns))?;
        self.replay.carry_out(&record)?;
        if self.replay.replayed.records.is_multiple_of(STRIDE) {
            self.replay.look();
        }
        self.replay.replayed.records += 1;
        self.next = self.matched.next().transpose()?;
        Ok(true)
    }

    /// Lets that much time pass, with all records that are due in it; false if there are no more.
    ///
    /// # Errors
    /// As [`run`].
    pub fn pass(&mut self, ns: i64) -> Result<bool, LabError> {
        let end_ns = self.now().0.saturating_add(ns);
        while let Some(due_ns) = self.due_ns() {
            if due_ns > end_ns {
                self.replay.driver.advance_to(end_ns)?;
                return Ok(true);
            }
            self.next_record()?;
        }
        Ok(false)
    }

    /// Goes on until the disk is asked for something; requests of the same operation are one step. False if there are no more
    /// records.
    ///
    /// # Errors
    /// As [`run`].
    pub fn next_access(&mut self) -> Result<bool, LabError> {
        let before = self.replay.driver.fingerprint();
        while let Some(due_ns) = self.due_ns() {
            if self.replay.driver.advance_part(due_ns)? {
                self.next_record()?;
            }
            if self.replay.driver.fingerprint() != before {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn due_ns(&self) -> Option<i64> {
        let record = self.next.as_ref()?;
        Some(START_NS.saturating_add_unsigned(record.time_ns.max(self.last_ns)))
    }

    /// The share of the records that was carried out.
    #[must_use]
    pub fn share_done(&self) -> f64 {
        self.replay.replayed.records as f64 / self.records.max(1) as f64
    }

    /// Seconds that the trace spans.
    #[must_use]
    pub fn span_s(&self) -> f64 {
        self.span_s
    }

    /// The virtual time.
    #[must_use]
    pub fn now(&self) -> TimeNs {
        self.replay.driver.now()
    }

    /// The file system, to look at.
    #[must_use]
    pub fn vfs(&self) -> &Vfs<Lfs> {
        self.replay.driver.vfs()
    }

    /// Looks at something of the log that may have to be read; this takes no virtual time, and the disk does not see it.
    ///
    /// # Errors
    /// `look` failed.
    pub fn look<T>(&mut self, look: impl FnMut(&mut Lfs) -> FsOutcome<T>) -> Result<T, FsError> {
        self.replay.driver.look(look)
    }

    /// What came of it so far.
    #[must_use]
    pub fn end(self) -> Replayed {
        self.replay.end(&self.before, self.matched.matches(), self.last_ns)
    }
}

fn is_change(op: Op) -> bool {
    matches!(
        op,
        Op::Setattr
            | Op::Truncate
            | Op::Symlink
            | Op::Mknod
            | Op::Mkdir
            | Op::Unlink
            | Op::Rmdir
            | Op::Rename
            | Op::Link
            | Op::Create
            | Op::Tmpfile
            | Op::Write
            | Op::Copy
    )
}

impl Replay<'_> {
    /// Notes how full the disk is.
    fn look(&mut self) {
        let space = self.driver.vfs().statfs();
        self.utilisation_sum += 1.0 - space.free_bytes as f64 / space.total_bytes.max(1) as f64;
        self.looks += 1;
    }

    fn end(mut self, before: &Counters, matches: Matches, last_ns: u64) -> Replayed {
        self.look();
        let counters = *self.driver.counters();
        let mut replayed = self.replayed;
        let segments_cleaned = counters.segments_cleaned - before.segments_cleaned;
        let moved_bytes = counters.cleaner_moved_bytes - before.cleaner_moved_bytes;
        let segment_bytes = f64::from(self.driver.vfs().store().superblock().segment_bytes);
        replayed.span_s = last_ns as f64 / 1e9;
        (replayed.creates_asked, replayed.creates_matched) = (matches.asked, matches.found);
        replayed.disk = self.driver.seen().clone();
        replayed.segments_cleaned = segments_cleaned;
        replayed.cleaned_on_demand = counters.segments_cleaned_on_demand - before.segments_cleaned_on_demand;
        replayed.segments_emptied = counters.segments_cleaned_empty - before.segments_cleaned_empty;
        replayed.cleaned_utilisation =
            moved_bytes as f64 / (segments_cleaned as f64 * segment_bytes).max(1.0);
        replayed.write_amplification = (counters.log_bytes - before.log_bytes) as f64
            / (counters.user_bytes - before.user_bytes).max(1) as f64;
        replayed.utilisation = self.utilisation_sum / self.looks as f64;
        replayed.idle_after_ms = self.driver.idle_after_ms();
        replayed.fingerprint = self.driver.fingerprint();
        replayed
    }

    fn carry_out(&mut self, record: &Record) -> Result<(), LabError> {
        let is_failed = matches!(record.outcome, Outcome::Failed(_));
        if !is_failed || record.op == Op::Lookup {
            let mut done = self.operate(record);
            if is_change(record.op) && done.is_ok() && self.setup.model == Model::Sync {
                done = self.driver.commit();
            }
            match done {
                Ok(()) => {}
                Err(FsError::NotFound) if is_failed => {}
                Err(
                    source @ (FsError::NoSpace
                    | FsError::Corrupt { .. }
                    | FsError::Io(_)
                    | FsError::ReadOnly(_)),
                ) => {
                    return Err(LabError::Volume { action: "replay the trace", source });
                }
                Err(_) => self.replayed.refused += 1,
            }
        }
        Ok(())
    }

    fn ino(&self, file: FileId) -> Result<InodeNo, FsError> {
        self.files.find(file).map(|placed| placed.ino).ok_or(FsError::NotFound)
    }

    fn operate(&mut self, record: &Record) -> Result<(), FsError> {
        let Record { file, to_file, made, .. } = *record;
        let name = record.name.as_slice();
        match record.op {
            Op::Lookup | Op::Open
                if !name.is_empty() && self.files.find(file).is_some_and(|dir| dir.is_dir) =>
            {
                let dir = self.ino(file)?;
                if made.is_some() {
                    self.names.insert(file, name, made);
                }
                self.driver.user(|vfs, now| vfs.lookup(now, dir, name, false)).map(drop)
            }
            Op::Getattr | Op::Access | Op::Open | Op::Lookup => {
                let ino = self.ino(if made.is_some() { made } else { file })?;
                self.driver.user(|vfs, _| vfs.getattr(ino)).map(drop)
            }
            Op::Setattr | Op::Fallocate | Op::Setxattr | Op::Removexattr => {
                let ino = self.ino(file)?;
                let mode = Some(record.argument.map_or(0o644, |mode| (mode & 0o7777) as u16));
                let set = SetAttr { mode, ..SetAttr::default() };
                self.driver.user(|vfs, now| vfs.setattr(now, ino, set)).map(drop)
            }
            Op::Truncate => self.truncate(file, record.length.unwrap_or(0)),
            Op::Create | Op::Mknod | Op::Mkdir | Op::Symlink | Op::Tmpfile => self.make(record),
            Op::Unlink | Op::Rmdir => self.unlink(file, name, record.op == Op::Rmdir),
            Op::Rename => self.rename((file, name), (to_file, &record.to_name)),
            Op::Link => {
                let (ino, dir) = (self.ino(file)?, self.ino(to_file)?);
                self.driver.user(|vfs, now| vfs.link(now, ino, dir, &record.to_name, false))?;
                self.names.insert(to_file, &record.to_name, file);
                Ok(())
            }
            Op::Read => self.read(file, record.offset.unwrap_or(0), moved(record)),
            Op::Write => self.write(file, record.offset, moved(record)),
            Op::Copy => {
                self.read(file, record.offset.unwrap_or(0), moved(record))?;
                self.write(to_file, record.to_offset, moved(record))
            }
            Op::Readdir => {
                let dir = self.ino(file)?;
                let mut left = record.length.unwrap_or(4096) / 32;
                self.driver.user(|vfs, now| {
                    vfs.readdir(now, dir, 0, &mut |_| {
                        left = left.saturating_sub(1);
                        left > 0
                    })
                })
            }
            // Nothing that reaches the log.
            _ => Ok(()),
        }
    }

    fn make(&mut self, record: &Record) -> Result<(), FsError> {
        let is_dir = record.op == Op::Mkdir;
        let file = if record.made.is_some() { record.made } else { nameless(record.file, &record.name) };
        let own = format!(".made-{:x}", file.0);
        let name = if record.name.is_empty() { own.as_bytes() } else { &record.name };
        if record.op == Op::Create && self.names.find(record.file, name).is_some() {
            // It existed, and was opened.
            return Ok(());
        }
        let dir = self.files.find(record.file).map_or(InodeNo::ROOT, |dir| dir.ino);
        let ino = make(&mut self.driver, dir, name, is_dir)?;
        self.files.insert(file, ino, is_dir);
        self.names.insert(record.file, name, file);
        Ok(())
    }

    fn unlink(&mut self, dir: FileId, name: &[u8], is_dir: bool) -> Result<(), FsError> {
        let parent = self.ino(dir)?;
        let file = self.names.remove(dir, name);
        if is_dir {
            self.driver.user(|vfs, now| vfs.rmdir(now, parent, name))?;
        } else {
            self.driver.user(|vfs, now| vfs.unlink(now, parent, name))?;
        }
        let Some(file) = file else { return Ok(()) };
        self.forget_if_gone(file)
    }

    /// Forgets a file whose last name was removed.
    fn forget_if_gone(&mut self, file: FileId) -> Result<(), FsError> {
        let Some(placed) = self.files.find(file) else { return Ok(()) };
        match self.driver.user(|vfs, _| vfs.getattr(placed.ino)) {
            Ok(attr) if attr.nlink > 0 => Ok(()),
            Ok(_) | Err(FsError::NotFound) => {
                self.files.remove(file);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn rename(
        &mut self,
        (dir, name): (FileId, &[u8]),
        (to_dir, to_name): (FileId, &[u8]),
    ) -> Result<(), FsError> {
        let (from, to) = (self.ino(dir)?, self.ino(to_dir)?);
        self.driver.user(|vfs, now| vfs.rename(now, (from, name), (to, to_name), RenameMode::Replace))?;
        let replaced = self.names.remove(to_dir, to_name);
        if let Some(moved) = self.names.remove(dir, name) {
            self.names.insert(to_dir, to_name, moved);
        }
        replaced.map_or(Ok(()), |file| self.forget_if_gone(file))
    }

    fn truncate(&mut self, file: FileId, size_bytes: u64) -> Result<(), FsError> {
        let ino = self.ino(file)?;
        let set = SetAttr { size_bytes: Some(size_bytes), ..SetAttr::default() };
        self.driver.user(|vfs, now| vfs.setattr(now, ino, set))?;
        if let Some(placed) = self.files.find_mut(file) {
            placed.size_bytes = size_bytes;
        }
        Ok(())
    }

    fn read(&mut self, file: FileId, at_bytes: u64, len_bytes: u64) -> Result<(), FsError> {
        let placed = self.files.find(file).ok_or(FsError::NotFound)?;
        let end = at_bytes.saturating_add(len_bytes).min(placed.size_bytes);
        let mut missing: Option<(u64, u64)> = None;
        for block in at_bytes / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES) {
            if self.pages.touch(Page { file: placed.page_file, block }) {
                self.replayed.cache_hit_bytes += BLOCK_BYTES;
                continue;
            }
            self.replayed.cache_miss_bytes += BLOCK_BYTES;
            match &mut missing {
                Some((_, last)) if *last == block => *last += 1,
                Some((first, last)) => {
                    let (at, len) = (*first * BLOCK_BYTES, (*last - *first) * BLOCK_BYTES);
                    self.driver.read(placed.ino, at, len)?;
                    missing = Some((block, block + 1));
                }
                None => missing = Some((block, block + 1)),
            }
        }
        match missing {
            Some((first, last)) => {
                self.driver.read(placed.ino, first * BLOCK_BYTES, (last - first) * BLOCK_BYTES)
            }
            None => Ok(()),
        }
    }

    fn write(&mut self, file: FileId, at_bytes: Option<u64>, len_bytes: u64) -> Result<(), FsError> {
        let placed = self.files.find_mut(file).ok_or(FsError::NotFound)?;
        let at_bytes = at_bytes.unwrap_or(placed.size_bytes);
        let end = at_bytes.saturating_add(len_bytes);
        placed.size_bytes = placed.size_bytes.max(end);
        let placed = *placed;
        self.driver.write(placed.ino, at_bytes, len_bytes)?;
        for block in at_bytes / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES) {
            self.pages.touch(Page { file: placed.page_file, block });
        }
        Ok(())
    }
}
