//! The adapter: turns FUSE requests into operations of a [`Volume`]. Synchronous and without a transport.
//!
//! A transport decodes a message, calls [`Handler::handle`] on any of its threads, and sends the content of the [`Reply`]. The
//! nodeid is the inode number. Invariants:
//! - The kernel caches everything for ever, since nobody else changes the volume. If the daemon changes an inode beyond the
//!   request (a write that clears set-id bits), it invalidates the cached attributes (`Notifier`).
//! - Each reply that gives an inode to the kernel (LOOKUP, CREATE, MKNOD, MKDIR, SYMLINK, LINK, and READDIRPLUS entries with
//!   attributes) counts one hold in `vfs`, which FORGET releases: an unlinked inode lives until then.
//! - The kernel checks access permissions (`default_permissions`, which POSIX_ACL implies).
//!
//! Parts: `handshake` (INIT), `names`, `attributes`, `data`, `set_id` (set-id bits that a write clears), `listing`, `walks` (which
//! listings carry attributes), `probe`, `state` (a mount of a state).

mod attributes;
mod data;
mod handshake;
mod listing;
mod names;
mod probe;
mod set_id;
mod state;
mod walks;

pub(crate) use handshake::answer_init;
pub use handshake::{Agreed, MAX_WRITE_BYTES};
pub use probe::PROBE_NAME;
pub(crate) use probe::PROBE_NODE;
pub(crate) use state::StateHandler;

use crate::counters::Counters;
use crate::errno::errno_of;
use crate::interrupts::{Interrupts, has_caller_given_up};
use crate::record::Recorder;
use crate::wire::{Header, Operation, Reply, Request};
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::store::{Atomicity, Scope};
use firnfs_device::{Completion, OwnReads};
use firnfs_format::InodeNo;
use firnfs_volume::{Landed, Missing, Volume};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use walks::Walks;

/// What a transport does after a request was handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Send the payload.
    Answer,
    /// Send this error.
    Error(Errno),
    /// Send nothing: the kernel expects no reply.
    Silent,
    /// Send the payload; this was the last request.
    Last,
}

/// What is known of a request that is tried, perhaps again.
pub struct Attempt {
    /// When it was tried first.
    pub since: Instant,
    /// What was missing then, and has been read.
    pub landed: Vec<Landed>,
}

/// What became of a request that must not wait.
pub enum Tried {
    /// It is done.
    Done(Verdict),
    /// Nothing has been done: this has to be read first. Once it has, it may be tried again.
    Reads(Vec<Missing>),
    /// Nothing has been done: [`Handler::handle`] is to be called on a thread that may wait.
    Waits,
}

/// Answers requests; the seam between transports and the [`Adapter`].
pub trait Handler: Send + Sync {
    /// Handles one request. `reply` is empty before and holds the payload afterwards. Calls [`crate::lead::about_to_block`]
    /// before it waits for anything: until then no worker reads another request.
    fn handle(&self, request: &Request<'_>, reply: &mut Reply) -> Verdict;

    /// The same, without waiting for anything.
    fn try_handle(&self, _request: &Request<'_>, _reply: &mut Reply, _attempt: &Attempt) -> Tried {
        Tried::Waits
    }

    /// How a thread that may not wait reads the device: see [`Tried::Reads`]. `None` if it cannot.
    fn own_reads(&self) -> Option<Box<dyn OwnReads>> {
        None
    }

    /// Takes up what became of a read, for the next attempt; `None` if it failed.
    fn landed(&self, _missing: &Missing, _completion: Completion) -> Option<Landed> {
        None
    }

    /// Whether SETXATTR has its longer form, which decoding must know.
    fn setxattr_ext(&self) -> bool;
}

/// Tells the kernel that its cached data is stale.
pub trait Notifier: Send + Sync {
    /// The daemon changed the attributes of an inode; the kernel does not know it yet.
    fn attributes_changed(&self, ino: InodeNo);
}

/// The choices of the user who mounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// Writes collect in the page cache. The price: ENOSPC may be reported late, and renames may overtake data.
    pub writeback_cache: bool,
    /// The page cache keeps nothing from one open to the next, so that the daemon sees every reader, and access times are as
    /// exact as strictatime promises. Each open costs a round trip then.
    pub exact_atime: bool,
}

/// A read of this length or more is the kernel's read-ahead, or asks for as much.
const LONG_READ_BYTES: u32 = 64 << 10;

/// See the module's head.
pub struct Adapter<S: Engine> {
    volume: Arc<Volume<S>>,
    settings: Settings,
    agreed: OnceLock<Agreed>,
    notifier: OnceLock<Arc<dyn Notifier>>,
    probing: AtomicBool,
    before_close: OnceLock<Box<dyn Fn() + Send + Sync>>,
    closed: Mutex<Option<Result<(), FsError>>>,
    counters: Counters,
    /// No operation waits once it has made its changes.
    never_waits_at_its_end: bool,
    recorder: Recorder,
    walks: Walks,
    interrupts: Arc<Interrupts>,
    is_over_uring: AtomicBool,
}

/// Result of a handler: the payload is in the reply.
type Handled = Result<(), Errno>;

impl<S: Engine> Adapter<S> {
    /// Serves `volume`.
    #[must_use]
    pub fn new(volume: Arc<Volume<S>>, settings: Settings) -> Self
    where
        S: 'static,
    {
        volume.call_before_blocking(crate::lead::about_to_block);
        volume.ask_before_waiting(has_caller_given_up);
        let waited_for = Arc::downgrade(&volume);
        let interrupts =
            Interrupts::new(move || waited_for.upgrade().into_iter().for_each(|volume| volume.ask_again()));
        let never_waits_at_its_end = never_waits_at_its_end(&volume);
        // The kernel does it, and sends such reads side by side.
        volume.leave_long_reads_alone();
        Self {
            volume,
            settings,
            agreed: OnceLock::new(),
            notifier: OnceLock::new(),
            probing: AtomicBool::new(false),
            before_close: OnceLock::new(),
            closed: Mutex::new(None),
            counters: Counters::default(),
            never_waits_at_its_end,
            recorder: Recorder::default(),
            walks: Walks::default(),
            interrupts,
            is_over_uring: AtomicBool::new(false),
        }
    }

    /// The volume that is served.
    #[must_use]
    pub fn volume(&self) -> &Arc<Volume<S>> {
        &self.volume
    }

    /// What the handshake agreed on; `None` before it.
    #[must_use]
    pub fn agreed(&self) -> Option<&Agreed> {
        self.agreed.get()
    }

    /// Says how requests come, for those who ask.
    pub(crate) fn set_over_uring(&self, is_over_uring: bool) {
        self.is_over_uring.store(is_over_uring, Ordering::Relaxed);
    }

    /// How requests come: see [`Self::set_over_uring`].
    pub(crate) fn is_over_uring(&self) -> bool {
        self.is_over_uring.load(Ordering::Relaxed)
    }

    /// Requests so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Records the requests, while asked to.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Sets the notifier; later calls have no effect.
    pub fn set_notifier(&self, notifier: Arc<dyn Notifier>) {
        let _already_set = self.notifier.set(notifier);
    }

    /// Sets what is called before the volume is closed: it ends what else reads the volume. Later calls have no effect.
    pub fn call_before_close(&self, end: impl Fn() + Send + Sync + 'static) {
        let _already_set = self.before_close.set(Box::new(end));
    }

    /// Closes the volume once; every call returns the outcome of that close.
    ///
    /// # Errors
    /// As [`Volume::close`].
    pub fn close(&self) -> Result<(), FsError> {
        if let Some(end) = self.before_close.get() {
            end();
        }
        let mut closed = self.closed.lock();
        closed.get_or_insert_with(|| self.volume.close()).clone()
    }

    fn attributes_changed(&self, ino: InodeNo) {
        if let Some(notifier) = self.notifier.get() {
            notifier.attributes_changed(ino);
        }
    }

    fn sync(&self, scope: Scope) -> Handled {
        self.volume.sync(scope).map_err(|e| log_errno("sync", &e))
    }

    fn dispatch(&self, header: &Header, operation: &Operation<'_>, reply: &mut Reply) -> Handled {
        let ino = InodeNo(header.nodeid);
        match *operation {
            Operation::Lookup { name } => self.lookup(ino, name, reply),
            Operation::Symlink { .. } | Operation::Mknod { .. } | Operation::Mkdir { .. } => {
                self.make(header, operation, reply)
            }
            Operation::Create { name, mode, umask, flags } => {
                self.create(header, name, (mode, umask), flags, reply)
            }
            Operation::Tmpfile { mode, umask } => self.tmpfile(header, mode, umask, reply),
            Operation::Unlink { name } => self.unlink(ino, name),
            Operation::Rmdir { name } => self.rmdir(ino, name),
            Operation::Rename { name, new_parent, new_name, flags } => {
                self.rename(header, name, (InodeNo(new_parent), new_name), flags)
            }
            Operation::Link { target, name } => self.link(header, InodeNo(target), name, reply),
            Operation::Getattr => self.getattr(ino, reply),
            Operation::Statx => self.statx(ino, reply),
            Operation::Setattr(ref set) => self.setattr(header, set, reply),
            Operation::Readlink => self.readlink(ino, reply),
            Operation::Statfs => self.statfs(reply),
            Operation::Setxattr { name, value, flags, kill_set_gid } => {
                self.setxattr(header, name, value, flags, kill_set_gid)
            }
            Operation::Getxattr { name, size } => self.getxattr(ino, name, size, reply),
            Operation::Listxattr { size } => self.listxattr(ino, size, reply),
            Operation::Removexattr { name } => self.removexattr(header, name),
            Operation::Open => self.open(false, reply),
            Operation::Opendir => self.open(true, reply),
            Operation::Release | Operation::Releasedir => Ok(()),
            Operation::Read { offset, size } => self.read(ino, offset, size, reply),
            Operation::Write { offset, data, kill_set_id, is_cached } => {
                self.write(header, (offset, data), kill_set_id, is_cached, reply)
            }
            Operation::Fallocate { offset, len, mode } => self.fallocate(header, offset, len, mode),
            Operation::Lseek { offset, whence } => self.lseek(ino, offset, whence, reply),
            Operation::CopyFileRange { .. } => self.copy_file_range(header, operation, reply),
            Operation::Readdir { offset, size } => self.readdir(ino, offset, size, reply),
            Operation::Readdirplus { offset, size } => self.readdirplus(header, offset, size, reply),
            Operation::Fsync | Operation::Fsyncdir => self.sync(Scope::File(ino)),
            Operation::Syncfs => self.sync(Scope::All),
            // lsattr and other programs try these on every file: answer as a file system without such calls does.
            Operation::Ioctl => Err(Errno::NOTTY),
            Operation::Init { .. }
            | Operation::Destroy
            | Operation::Forget { .. }
            | Operation::BatchForget { .. }
            | Operation::Interrupt { .. } => Err(Errno::INVAL),
            // After this error the kernel asks no more: a close costs nothing then.
            Operation::Flush if !self.volume.hears_of_closes() => Err(Errno::NOSYS),
            Operation::Flush => self.volume.file_closed(ino).map_err(|e| log_errno("close", &e)),
            Operation::Unknown => Err(Errno::NOSYS),
        }
    }

    /// Whether a request mostly has to wait, so that trying it without waiting would be work for nothing.
    fn mostly_waits(&self, operation: &Operation<'_>) -> bool {
        // What the kernel reads ahead is on the device, unless it was written just now.
        matches!(*operation, Operation::Read { size, .. } if size >= LONG_READ_BYTES)
            && self.volume.device().is_some()
    }

    fn handle_untimed(&self, request: &Request<'_>, reply: &mut Reply) -> Verdict {
        let header = &request.header;
        let handled = match &request.operation {
            Operation::Init { major, minor, max_readahead, flags } => {
                self.init((*major, *minor), *max_readahead, *flags, reply)
            }
            Operation::Destroy => {
                // If the kernel waits for the answer (fuseblk), umount(8) returns once everything is durable.
                if let Err(error) = self.close() {
                    log_errno("close", &error);
                }
                return Verdict::Last;
            }
            Operation::Forget { lookups } => {
                self.forget(header.nodeid, *lookups);
                return Verdict::Silent;
            }
            Operation::BatchForget { items } => {
                items.iter().for_each(|(nodeid, lookups)| self.forget(nodeid, lookups));
                return Verdict::Silent;
            }
            Operation::Interrupt { unique } => {
                self.interrupts.interrupt(*unique);
                return Verdict::Silent;
            }
            operation if self.is_probe(header, operation) => self.probe(operation, reply),
            operation => self.dispatch(header, operation, reply),
        };
        match handled {
            Ok(()) => Verdict::Answer,
            Err(errno) => Verdict::Error(errno),
        }
    }
}

impl<S: Engine> Adapter<S> {
    fn note(&self, request: &Request<'_>, reply: &Reply, verdict: Verdict, start: Instant) {
        let busy_ns = self.count(request, verdict, start);
        self.recorder.note(request, reply, verdict, start, busy_ns);
    }

    /// Counts a request that began at `start`; the time that it took.
    fn count(&self, request: &Request<'_>, verdict: Verdict, start: Instant) -> u64 {
        let busy_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let error = match verdict {
            Verdict::Error(errno) => Some(errno),
            _ => None,
        };
        self.counters.count(request.header.opcode, error, busy_ns);
        busy_ns
    }
}

/// A store that writes parts of operations in order waits for them at the end of each.
pub(crate) fn never_waits_at_its_end<S: Engine>(volume: &Volume<S>) -> bool {
    let facts = volume.run_quietly(|vfs, _| Ok(vfs.facts()));
    facts.is_ok_and(|facts| facts.atomicity != Atomicity::Ordered)
}

/// Whether a request may be begun by a thread that gives up where it would have to wait: it consists of one operation of the
/// volume, or of several that may be done twice, and mostly does not wait.
fn can_be_repeated(operation: &Operation<'_>) -> bool {
    !matches!(
        operation,
        Operation::Init { .. }
            | Operation::Destroy
            | Operation::Forget { .. }
            | Operation::BatchForget { .. }
            | Operation::Interrupt { .. }
            | Operation::Fsync
            | Operation::Fsyncdir
            | Operation::Syncfs
            | Operation::Fallocate { .. }
            | Operation::CopyFileRange { .. }
            // XATTR_CREATE fails the second time.
            | Operation::Setxattr { kill_set_gid: true, .. }
    )
}

impl<S: Engine> Handler for Adapter<S> {
    fn handle(&self, request: &Request<'_>, reply: &mut Reply) -> Verdict {
        let start = Instant::now();
        let serving = self.interrupts.serve(request.header.unique, request.header.pid);
        let verdict = self.handle_untimed(request, reply);
        drop(serving);
        self.note(request, reply, verdict, start);
        verdict
    }

    fn try_handle(&self, request: &Request<'_>, reply: &mut Reply, attempt: &Attempt) -> Tried {
        let operation = &request.operation;
        if !self.never_waits_at_its_end || !can_be_repeated(operation) || self.mostly_waits(operation) {
            return Tried::Waits;
        }
        let (verdict, missing) =
            firnfs_volume::attempt(&attempt.landed, || self.handle_untimed(request, reply));
        if verdict == Verdict::Error(Errno::AGAIN) {
            reply.clear();
            return if missing.is_empty() { Tried::Waits } else { Tried::Reads(missing) };
        }
        self.note(request, reply, verdict, attempt.since);
        Tried::Done(verdict)
    }

    fn own_reads(&self) -> Option<Box<dyn OwnReads>> {
        self.volume.own_reads()
    }

    fn landed(&self, missing: &Missing, completion: Completion) -> Option<Landed> {
        self.volume.landed(missing, completion)
    }

    fn setxattr_ext(&self) -> bool {
        self.agreed.get().is_some_and(|agreed| agreed.setxattr_ext)
    }
}

/// The number for an error of the volume. An error that the caller cannot have caused is logged with its place.
fn log_errno(what: &str, error: &FsError) -> Errno {
    if matches!(error, FsError::Corrupt { .. } | FsError::Io(_)) {
        tracing::error!("{what}: {error}");
    }
    errno_of(error)
}
