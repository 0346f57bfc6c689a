//! Recording: every operation of a live mount, as a workload file (docs/internals/workload.md).
//!
//! [`Recorder::note`] runs on the workers, after each request. It appends the operation to a block in memory under a short lock, and
//! never waits: a thread of the recording compresses and writes full blocks. Invariants:
//! - Memory is bounded: [`BLOCKS`] blocks are allocated at the start, and no more.
//! - If all blocks are full because the thread cannot keep up, or if the disk refuses a block, records are lost. The file says how many
//!   and where, `record_status` says how many so far. The mount never fails or waits because of it.
//! - While nothing is recorded, a request costs one look at a flag.
//!
//! Parts: `event` (request to record), `parts` (files on disk), `operations` (of the control socket). Caller: `session`.

mod event;
pub(crate) mod operations;
mod parts;

use crate::adapter::Verdict;
use crate::wire::{Reply, Request};
use firnfs_workload::{Block, End, Header, NameKey, Naming, Origin};
use parking_lot::{Condvar, Mutex, RwLock};
use parts::Parts;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Blocks of a recording, each of at most 64 KiB: some 3000 records. 4 MiB in all.
const BLOCKS: usize = 64;
/// How long a record stays in memory at most: what a daemon that is killed loses.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// What to record, and where to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordPlan {
    /// The file to make, absolute; the next parts are `FILE.1`, `FILE.2`, ...
    pub path: PathBuf,
    /// A part that has this many bytes is followed by the next one.
    pub part_bytes: u64,
    /// Names are replaced by keyed hashes, under a random key that is forgotten at the end.
    pub hash_names: bool,
}

impl RecordPlan {
    /// Size of a part, unless one is named, in bytes.
    pub const DEFAULT_PART_BYTES: u64 = 256 << 20;
}

/// What a recording has done so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordStatus {
    /// The first file.
    pub path: PathBuf,
    /// Operations in files, or in memory on their way there.
    pub records: u64,
    /// Operations that were lost, because the disk was full or too slow.
    pub lost: u64,
    /// Bytes in all parts.
    pub file_bytes: u64,
    /// Files.
    pub parts: u32,
    /// Time since the start of the recording.
    pub age: Duration,
    /// The last error of the disk, if the last write failed.
    pub trouble: Option<String>,
}

/// Why a recording cannot be started or stopped. Each is one line.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// One is running.
    #[error("already recording to {}; stop that first", .0.display())]
    Running(PathBuf),
    /// None is running.
    #[error("nothing is being recorded")]
    NotRunning,
    /// The mount is going away.
    #[error("the file system is being unmounted")]
    Ended,
    /// The file would be on the mount that it records, and record its own writes.
    #[error("{} is on the mount that it would record; name a file on another file system", .0.display())]
    OnItself(PathBuf),
    /// The file exists.
    #[error("{} exists; remove it, or name another file", .0.display())]
    Exists(PathBuf),
    /// The file cannot be made.
    #[error("cannot record to {}: {reason}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: io::Error,
    },
}

/// Records the operations of one mount, while asked to.
#[derive(Default)]
pub struct Recorder {
    is_on: AtomicBool,
    current: RwLock<Option<Arc<Recording>>>,
    /// Starts and stops, one at a time; true once the mount ends.
    has_ended: Mutex<bool>,
}

/// A recording under way.
struct Recording {
    path: PathBuf,
    began: Instant,
    key: Option<NameKey>,
    queue: Mutex<Queue>,
    changed: Condvar,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// Blocks between the workers and the thread that writes.
struct Queue {
    filling: Block,
    /// Records lost before the first one of `filling`.
    lost_before: u64,
    full: std::collections::VecDeque<(Block, u64)>,
    spare: Vec<Block>,
    /// Records that the workers could not place.
    lost: u64,
    noted: u64,
    is_stopping: bool,
    on_disk: parts::Standing,
}

impl Recorder {
    /// Notes a request that was handled. Never waits for a disk.
    pub fn note(&self, request: &Request<'_>, reply: &Reply, verdict: Verdict, began: Instant, took_ns: u64) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        if let Some(recording) = &*self.current.read() {
            recording.note(request, reply, verdict, began, took_ns);
        }
    }

    /// Starts a recording. `options` describe the mount in the file's header. `device` is the mount's own device number, if it is
    /// mounted already.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub fn start(
        &self,
        plan: &RecordPlan,
        options: Vec<(String, String)>,
        device: Option<u64>,
    ) -> Result<(), RecordError> {
        let has_ended = self.has_ended.lock();
        if *has_ended {
            return Err(RecordError::Ended);
        }
        if let Some(running) = &*self.current.read() {
            return Err(RecordError::Running(running.path.clone()));
        }
        let (recording, parts) = Recording::new(plan, options, device)?;
        recording.spawn_writer(parts)?;
        *self.current.write() = Some(recording);
        self.is_on.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Stops the recording and ends its file; returns what it has done.
    ///
    /// # Errors
    /// None is running.
    pub fn stop(&self) -> Result<RecordStatus, RecordError> {
        let _no_other = self.has_ended.lock();
        self.stop_locked().ok_or(RecordError::NotRunning)
    }

    /// The mount ends: stops the recording, if any, and starts none any more.
    pub fn end(&self) {
        let mut has_ended = self.has_ended.lock();
        *has_ended = true;
        if let Some(status) = self.stop_locked()
            && (status.lost > 0 || status.trouble.is_some())
        {
            let why = status.trouble.unwrap_or_default();
            tracing::warn!("{}: {} records were lost {why}", status.path.display(), status.lost);
        }
    }

    fn stop_locked(&self) -> Option<RecordStatus> {
        self.is_on.store(false, Ordering::SeqCst);
        // Once this lock was held, no worker is within `note`.
        let recording = self.current.write().take()?;
        recording.queue.lock().is_stopping = true;
        recording.changed.notify_one();
        if let Some(writer) = recording.writer.lock().take() {
            // It does not panic; if it did, the daemon has ended.
            let _ended = writer.join();
        }
        Some(recording.status())
    }

    /// What the running recording has done; `None` if there is none.
    #[must_use]
    pub fn status(&self) -> Option<RecordStatus> {
        self.current.read().as_ref().map(|recording| recording.status())
    }
}

impl Recording {
    /// A recording with its first file, whose thread does not run yet.
    fn new(
        plan: &RecordPlan,
        options: Vec<(String, String)>,
        device: Option<u64>,
    ) -> Result<(Arc<Self>, Parts), RecordError> {
        let failed = |reason: io::Error| RecordError::Io { path: plan.path.clone(), reason };
        let mut secret = [0; 32];
        rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| failed(errno.into()))?;
        let (random, key) = secret.split_at(16);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let header = Header {
            naming: if plan.hash_names { Naming::Hashed } else { Naming::AsGiven },
            start_ns: u64::try_from(now.as_nanos()).unwrap_or(0),
            recording: random.try_into().unwrap_or_default(),
            options,
            ..Header::new(Origin::Mount)
        };
        let began = Instant::now();
        let parts = Parts::create(&plan.path, plan.part_bytes, header, device)?;
        let queue = Queue {
            filling: Block::new(),
            lost_before: 0,
            full: std::collections::VecDeque::with_capacity(BLOCKS),
            spare: (1..BLOCKS).map(|_| Block::new()).collect(),
            lost: 0,
            noted: 0,
            is_stopping: false,
            on_disk: parts.standing(),
        };
        let recording = Arc::new(Self {
            path: plan.path.clone(),
            began,
            key: plan.hash_names.then(|| NameKey::new(key.try_into().unwrap_or(&[0; 16]))),
            queue: Mutex::new(queue),
            changed: Condvar::new(),
            writer: Mutex::new(None),
        });
        Ok((recording, parts))
    }

    fn spawn_writer(self: &Arc<Self>, parts: Parts) -> Result<(), RecordError> {
        let this = Arc::clone(self);
        let spawned =
            std::thread::Builder::new().name("firn-record".into()).spawn(move || this.write_all(parts));
        let failed = |reason: io::Error| RecordError::Io { path: self.path.clone(), reason };
        *self.writer.lock() = Some(spawned.map_err(failed)?);
        Ok(())
    }

    fn note(&self, request: &Request<'_>, reply: &Reply, verdict: Verdict, began: Instant, took_ns: u64) {
        let Some(mut record) = event::record_of(request, reply, verdict) else { return };
        let since = began.saturating_duration_since(self.began).as_nanos();
        record.time_ns = u64::try_from(since).unwrap_or(u64::MAX);
        record.duration_ns = Some(took_ns);
        let hidden = self.key.as_ref().map(|key| (key.hide(record.name), key.hide(record.to_name)));
        if let Some((name, to_name)) = &hidden {
            (record.name, record.to_name) = (name, to_name);
        }
        let mut queue = self.queue.lock();
        if !queue.filling.has_room() && !queue.pass_on() {
            queue.lost += 1;
            return;
        }
        match queue.filling.push(&record) {
            Ok(()) => queue.noted += 1,
            // A link's target may be as long as PATH_MAX, and no longer.
            Err(_too_long) => queue.lost += 1,
        }
        let is_full = !queue.filling.has_room();
        drop(queue);
        if is_full {
            self.changed.notify_one();
        }
    }

    fn status(&self) -> RecordStatus {
        let queue = self.queue.lock();
        let disk = &queue.on_disk;
        RecordStatus {
            path: self.path.clone(),
            records: queue.noted.saturating_sub(disk.lost),
            lost: queue.lost + disk.lost,
            file_bytes: disk.file_bytes,
            parts: disk.parts,
            age: self.began.elapsed(),
            trouble: disk.trouble.clone(),
        }
    }

    /// The thread that writes, to the end of the recording.
    fn write_all(&self, mut parts: Parts) {
        let mut flushed = Instant::now();
        let mut queue = self.queue.lock();
        loop {
            let is_due = flushed.elapsed() >= FLUSH_EVERY || queue.is_stopping;
            if queue.filling.count() > 0 && (is_due || !queue.filling.has_room()) {
                queue.pass_on();
            }
            if let Some((mut block, lost_before)) = queue.full.pop_front() {
                drop(queue);
                parts.write(&block, lost_before);
                flushed = Instant::now();
                block.clear();
                queue = self.queue.lock();
                queue.on_disk = parts.standing();
                queue.spare.push(block);
            } else if queue.is_stopping {
                let lost = queue.lost;
                drop(queue);
                parts.finish(lost, End::Last);
                self.queue.lock().on_disk = parts.standing();
                return;
            } else {
                let _timeout = self.changed.wait_for(&mut queue, FLUSH_EVERY);
            }
        }
    }
}

impl Queue {
    /// Hands the block that is being filled to the writer; false if there is no other to fill.
    fn pass_on(&mut self) -> bool {
        let Some(empty) = self.spare.pop() else { return false };
        let full = std::mem::replace(&mut self.filling, empty);
        self.full.push_back((full, self.lost_before));
        self.lost_before = self.lost;
        true
    }
}

#[cfg(test)]
mod tests;
