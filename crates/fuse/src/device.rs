//! The `/dev/fuse` transport: worker threads that read a request, have it handled, and write the reply.
//!
//! One worker at a time reads requests (see [`crate::lead`]), with a warm cache on the caller's processor. But a worker that
//! waits (an fsync for the device, a write for room) must not delay other requests, and one flush makes all fsyncs durable that wait
//! together. So there are about as many workers as processors. The pool grows, up to [`MAX_WORKERS`], whenever the last worker that
//! is free takes a request, whatever it is: any may wait. A surplus worker ends when it finds enough others
//! idle, or nothing to do for a while. Each worker owns one buffer for requests and one for replies for its whole life, sized by the
//! handshake.

use crate::adapter::{Handler, MAX_WRITE_BYTES, Notifier, Verdict};
use crate::lead::{Lead, about_to_block};
use crate::wakeful::{PAUSE, Wakeful};
use crate::wire::abi::{NOTIFY_INVAL_INODE, NotifyInvalInode, OutHeader, init};
use crate::wire::{Operation, Reply, Request};
use firnfs_device::AlignedBuf;
use firnfs_format::InodeNo;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::io::IoSlice;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Scope;
use std::time::Duration;
use zerocopy::IntoBytes;

/// Room in a request buffer beyond the data of the largest WRITE, in bytes: headers, and names of other requests.
const REQUEST_EXTRA_BYTES: usize = 8192;

/// Room in a reply buffer.
const REPLY_BYTES: usize = MAX_WRITE_BYTES as usize;

/// Most workers at a time, so also most requests that wait while others are served. Each has 2 MiB of address space, of which it
/// uses as much as its largest request and reply, unless it is one of [`HUGE_WORKERS`].
const MAX_WORKERS: usize = 256;

/// Most workers whose replies lie in huge pages, of which each takes 2 MiB once it is used: more than the requests that a program which reads
/// one file has under way.
const HUGE_WORKERS: usize = 8;

/// Most pieces that writev(2) takes (`UIO_MAXIOV`).
const PIECES_MAX: usize = 1024;

/// So many workers stay while they are idle, beyond the steady ones: the kernel's read-ahead comes in bursts of a few requests, and a
/// new thread costs more than a request.
const KEPT_IDLE: usize = 4;
/// And so many of a mount that shares them with others.
const KEPT_IDLE_OF_SHARED: usize = 1;
/// How long a thread of a mount stays that has nothing to do and is not needed.
pub(crate) const KEPT: Duration = Duration::from_secs(10);

/// A mounted connection to the kernel.
#[derive(Clone)]
pub struct DeviceTransport {
    fd: Arc<OwnedFd>,
}

/// The transport failed.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// Reading the next request failed.
    #[error("cannot read from /dev/fuse: {0}")]
    Read(Errno),
    /// The kernel sent something that is not a FUSE message.
    #[error("the kernel sent a message that is not a FUSE request")]
    NotARequest,
    /// INIT was refused.
    #[error("the kernel's FUSE protocol cannot be used: {0}")]
    Handshake(Errno),
    /// A worker thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// A queue of the io_uring failed.
    #[error("FUSE over io_uring: {0}")]
    Ring(std::io::Error),
    /// A queue could not be offered to the kernel; no request has come through any.
    #[error("the queues of FUSE over io_uring cannot be registered: {0}")]
    NotRegistered(std::io::Error),
    /// The kernel does not offer io_uring for FUSE.
    #[error("the kernel has FUSE over io_uring switched off, or is older than 6.14")]
    NoRing,
    /// A worker thread died.
    #[error("a worker thread panicked")]
    Panicked,
}

impl DeviceTransport {
    /// A transport over a descriptor of `/dev/fuse` that belongs to a mount.
    #[must_use]
    pub fn new(fd: OwnedFd) -> Self {
        Self { fd: Arc::new(fd) }
    }

    /// The descriptor, for other transports of the same mount.
    #[must_use]
    pub fn fd(&self) -> &Arc<OwnedFd> {
        &self.fd
    }

    /// Answers INIT. The mount works once this has returned: true if the kernel agreed on io_uring, false if requests come through
    /// this transport. `offers_uring`: queues are ready, which must be served as soon as the kernel has agreed.
    ///
    /// # Errors
    /// The kernel's protocol is unusable, or the mount is gone.
    pub fn handshake(&self, handler: &dyn Handler, offers_uring: bool) -> Result<bool, TransportError> {
        let mut worker = Worker::new(self, handler, Reply::new(REPLY_BYTES));
        worker.offers_uring = offers_uring;
        loop {
            let Some(len) = worker.next_message()? else {
                return Err(TransportError::Handshake(Errno::NODEV));
            };
            match worker.answer(len)? {
                // A kernel of a newer major asks again with ours.
                Answered::Init(Ok(done)) if done => return Ok(worker.has_agreed_on_uring),
                Answered::Init(Err(errno)) => return Err(TransportError::Handshake(errno)),
                _ => {}
            }
        }
    }

    /// Serves until the file system is unmounted (or the kernel aborts the connection), with `threads` workers (at least one),
    /// and more while those wait.
    ///
    /// # Errors
    /// No worker could be started, or one failed or panicked. All workers have ended then.
    pub fn serve(&self, handler: &dyn Handler, threads: usize) -> Result<(), TransportError> {
        let steady = threads.max(1);
        let spare = AtomicUsize::new(MAX_WORKERS.saturating_sub(steady));
        Pool::new(self, handler, steady, &spare).serve()
    }

    /// As [`Self::serve`] with one worker, until `stop` becomes readable. While it waits, others replace it, as many as are left of `spare`,
    /// which several mounts may share.
    ///
    /// # Errors
    /// As [`Self::serve`].
    pub(crate) fn serve_until(
        &self,
        handler: &dyn Handler,
        spare: &AtomicUsize,
        stop: &OwnedFd,
    ) -> Result<(), TransportError> {
        self.never_wait_in_read()?;
        let pool = Pool::new(self, handler, 1, spare);
        Pool { stop: Some(stop), kept_idle: KEPT_IDLE_OF_SHARED, wakeful: Wakeful::off(), ..pool }.serve()
    }
}

impl DeviceTransport {
    /// Serves what still comes through this transport while another one serves the mount, until the file system is unmounted or
    /// `stop` becomes readable.
    ///
    /// # Errors
    /// Reading failed.
    pub(crate) fn serve_beside(&self, handler: &dyn Handler, stop: &OwnedFd) -> Result<(), TransportError> {
        self.never_wait_in_read()?;
        let mut worker = Worker::new(self, handler, Reply::new(REPLY_BYTES));
        while let Some(len) = worker.next_message_until(stop)? {
            if matches!(worker.answer(len)?, Answered::Last) {
                break;
            }
        }
        Ok(())
    }

    /// A request that poll(2) has announced can be gone again.
    fn never_wait_in_read(&self) -> Result<(), TransportError> {
        rustix::io::ioctl_fionbio(self.fd.as_fd(), true).map_err(TransportError::Read)
    }
}

/// The workers of one mount.
struct Pool<'a> {
    transport: &'a DeviceTransport,
    handler: &'a dyn Handler,
    /// Workers that are never surplus.
    steady: usize,
    /// How many others stay while they are idle, and how long.
    kept_idle: usize,
    kept: Duration,
    /// Workers that exist; changed under `counting`.
    alive: AtomicUsize,
    counting: Mutex<()>,
    /// How many more than the steady ones may still be started.
    spare: &'a AtomicUsize,
    /// Workers that wait for a request.
    idle: AtomicUsize,
    /// Of these, those that wait for the lead for ever.
    settled: AtomicUsize,
    /// Decides which of them reads.
    lead: Arc<Lead>,
    wakeful: Wakeful,
    /// Readable when they are to end; then nothing waits in read(2).
    stop: Option<&'a OwnedFd>,
    /// The first failure.
    outcome: Mutex<Result<(), TransportError>>,
}

impl<'a> Pool<'a> {
    fn new(
        transport: &'a DeviceTransport,
        handler: &'a dyn Handler,
        steady: usize,
        spare: &'a AtomicUsize,
    ) -> Self {
        Self {
            transport,
            handler,
            steady,
            kept_idle: KEPT_IDLE,
            kept: KEPT,
            alive: AtomicUsize::new(0),
            counting: Mutex::default(),
            spare,
            idle: AtomicUsize::new(0),
            settled: AtomicUsize::new(0),
            lead: Arc::default(),
            wakeful: Wakeful::default(),
            stop: None,
            outcome: Mutex::new(Ok(())),
        }
    }
}

impl Pool<'_> {
    /// See [`DeviceTransport::serve`].
    fn serve(self) -> Result<(), TransportError> {
        std::thread::scope(|scope| {
            for _ in 0..self.steady {
                if let Err(error) = self.start_worker(scope) {
                    // The workers that did start can serve.
                    match self.alive.load(Ordering::SeqCst) {
                        0 => return Err(TransportError::Thread(error)),
                        started => tracing::warn!("only {started} worker threads: {error}"),
                    }
                }
            }
            Ok(())
        })?;
        self.outcome.into_inner()
    }

    /// Starts a worker, if one is left.
    fn start_worker<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> std::io::Result<()> {
        if !self.is_one_left() {
            return Ok(());
        }
        let body = move || {
            let ended = catch_unwind(AssertUnwindSafe(|| self.work(scope)));
            // If the mount ended this worker, the other workers notice that themselves.
            about_to_block();
            self.worker_gone();
            if let Err(error) = ended.unwrap_or(Err(TransportError::Panicked)) {
                tracing::error!("{error}");
                let mut outcome = self.outcome.lock();
                if outcome.is_ok() {
                    *outcome = Err(error);
                }
            }
        };
        let started = std::thread::Builder::new().name("firn-fuse".into()).spawn_scoped(scope, body);
        if started.is_err() {
            self.worker_gone();
        }
        started.map(drop)
    }

    fn is_one_left(&self) -> bool {
        let _counting = self.counting.lock();
        let take = |left: usize| left.checked_sub(1);
        let is_steady = self.alive.load(Ordering::SeqCst) < self.steady;
        let is_left = is_steady || self.spare.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok();
        self.alive.fetch_add(usize::from(is_left), Ordering::SeqCst);
        is_left
    }

    fn worker_gone(&self) {
        let _counting = self.counting.lock();
        if self.alive.fetch_sub(1, Ordering::SeqCst) > self.steady {
            self.spare.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn work<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> Result<(), TransportError> {
        // Workers that can be told to end serve the past, or what does not come over io_uring.
        let is_huge = self.stop.is_none() && self.alive.load(Ordering::SeqCst) <= HUGE_WORKERS;
        let reply = if is_huge {
            Reply::over(AlignedBuf::in_huge_pages(REPLY_BYTES))
        } else {
            Reply::new(REPLY_BYTES)
        };
        let mut worker = Worker::new(self.transport, self.handler, reply);
        loop {
            if !self.becomes_idle() || !self.comes_to_lead() {
                return Ok(());
            }
            let message = self.next_message(&mut worker);
            let left_idle = self.idle.fetch_sub(1, Ordering::SeqCst) - 1;
            let Some(len) = message? else { return Ok(()) };
            if left_idle == 0
                && let Err(error) = self.start_worker(scope)
            {
                tracing::debug!("no more worker threads: {error}");
            }
            self.wakeful.request();
            if matches!(worker.answer(len)?, Answered::Last) {
                return Ok(());
            }
        }
    }

    /// Counts a worker as idle, unless so many others are that it is surplus. In one step: a worker that ends is never counted, or else
    /// another one could take it for idle, and end too.
    fn becomes_idle(&self) -> bool {
        let most = self.steady + self.kept_idle;
        let more = |idle: usize| (idle < most).then_some(idle + 1);
        self.idle.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }

    /// Waits for the lead. False: the worker is surplus, and not counted as idle any more.
    fn comes_to_lead(&self) -> bool {
        // With the one that leads, those that wait for ever are as many as the steady ones. It may be busy now and idle later,
        // so that how many are idle now does not say who is surplus then.
        let settle = |settled: usize| (settled + 1 < self.steady).then_some(settled + 1);
        let surplus = |idle: usize| (idle > self.steady).then(|| idle - 1);
        loop {
            let is_settled = self.settled.fetch_update(Ordering::SeqCst, Ordering::SeqCst, settle).is_ok();
            let leads = self.lead.take((!is_settled).then_some(self.kept));
            self.settled.fetch_sub(usize::from(is_settled), Ordering::SeqCst);
            if leads {
                return true;
            }
            if self.idle.fetch_update(Ordering::SeqCst, Ordering::SeqCst, surplus).is_ok() {
                return false;
            }
        }
    }

    /// Waits for a message; this worker has the lead.
    fn next_message(&self, worker: &mut Worker<'_>) -> Result<Option<usize>, TransportError> {
        if self.wakeful.is_held() && !worker.request_comes_within(PAUSE) {
            self.wakeful.rest();
        }
        match self.stop {
            Some(stop) => worker.next_message_until(stop),
            None => worker.next_message(),
        }
    }
}

impl Notifier for DeviceTransport {
    fn attributes_changed(&self, ino: InodeNo) {
        // A negative offset invalidates attributes only: it takes no page lock, so a request under way cannot deadlock.
        let body = NotifyInvalInode { ino: ino.0, off: -1, len: 0 };
        let len = (size_of::<OutHeader>() + size_of_val(&body)) as u32;
        let header = OutHeader { len, error: NOTIFY_INVAL_INODE, unique: 0 };
        let parts = [IoSlice::new(header.as_bytes()), IoSlice::new(body.as_bytes())];
        match rustix::io::writev(self.fd.as_fd(), &parts) {
            // ENOENT: the kernel does not have the inode cached.
            Ok(_) | Err(Errno::NOENT) => {}
            Err(errno) => tracing::warn!("invalidating inode {ino}: {errno}"),
        }
    }
}

/// What was read.
enum Message {
    /// A message of that length.
    Of(usize),
    None,
    /// There will be no more.
    End,
}

/// What a worker did with a message.
enum Answered {
    /// It was INIT: done (true), to be repeated (false), or refused.
    Init(Result<bool, Errno>),
    /// Any other request.
    Other,
    /// It was the last.
    Last,
}

struct Worker<'a> {
    fd: &'a OwnedFd,
    handler: &'a dyn Handler,
    request: Vec<u8>,
    reply: Reply,
    offers_uring: bool,
    has_agreed_on_uring: bool,
}

impl<'a> Worker<'a> {
    fn new(transport: &'a DeviceTransport, handler: &'a dyn Handler, reply: Reply) -> Self {
        Self {
            fd: &transport.fd,
            handler,
            request: vec![0; MAX_WRITE_BYTES as usize + REQUEST_EXTRA_BYTES],
            reply,
            offers_uring: false,
            has_agreed_on_uring: false,
        }
    }

    fn request_comes_within(&self, pause: Duration) -> bool {
        let mut fds = [PollFd::new(self.fd, PollFlags::IN)];
        let pause = Timespec { tv_sec: 0, tv_nsec: i64::from(pause.subsec_nanos()) };
        !matches!(poll(&mut fds, Some(&pause)), Ok(0))
    }

    /// Waits for a message and returns its length, or `None` after an unmount.
    fn next_message(&mut self) -> Result<Option<usize>, TransportError> {
        loop {
            match self.try_message()? {
                Message::Of(len) => return Ok(Some(len)),
                Message::None => {}
                Message::End => return Ok(None),
            }
        }
    }

    /// The same, until `stop` becomes readable; nothing waits in read(2).
    fn next_message_until(&mut self, stop: &OwnedFd) -> Result<Option<usize>, TransportError> {
        loop {
            let mut fds = [PollFd::new(self.fd, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(TransportError::Read(errno)),
            }
            if fds[1].revents().contains(PollFlags::IN) {
                return Ok(None);
            }
            match self.try_message()? {
                Message::Of(len) => return Ok(Some(len)),
                Message::None => {}
                Message::End => return Ok(None),
            }
        }
    }

    /// Reads once.
    fn try_message(&mut self) -> Result<Message, TransportError> {
        match rustix::io::read(self.fd, &mut self.request[..]) {
            // Other message transports end this way; /dev/fuse itself never does.
            Ok(0) => Ok(Message::End),
            Ok(len) => Ok(Message::Of(len)),
            // ENOENT: the request was interrupted before it was read.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => Ok(Message::None),
            // ECONNABORTED: aborted through /sys/fs/fuse/connections.
            Err(Errno::NODEV | Errno::CONNABORTED) => Ok(Message::End),
            Err(errno) => Err(TransportError::Read(errno)),
        }
    }

    fn answer(&mut self, len: usize) -> Result<Answered, TransportError> {
        let request = Request::decode(&self.request[..len], self.handler.setxattr_ext())
            .ok_or(TransportError::NotARequest)?;
        self.reply.clear();
        let verdict = self.handler.handle(&request, &mut self.reply);
        let unique = request.header.unique;
        if let Operation::Init { flags, .. } = request.operation {
            let is_possible = self.offers_uring && flags & init::OVER_IO_URING != 0;
            self.has_agreed_on_uring = is_possible && self.reply.agree_on(init::OVER_IO_URING);
        }
        match verdict {
            Verdict::Answer | Verdict::Last => send(self.fd, &mut self.reply, unique, None),
            Verdict::Error(errno) => send(self.fd, &mut self.reply, unique, Some(errno)),
            Verdict::Silent => {}
        }
        Ok(match (verdict, &request.operation) {
            (Verdict::Last, _) => Answered::Last,
            (Verdict::Error(errno), Operation::Init { .. }) => Answered::Init(Err(errno)),
            (_, Operation::Init { major, .. }) => Answered::Init(Ok(*major <= crate::wire::abi::MAJOR)),
            _ => Answered::Other,
        })
    }
}

/// Sends a reply in the pieces in which it lies, and empties it.
fn send(fd: &OwnedFd, reply: &mut Reply, unique: u64, error: Option<Errno>) {
    if error.is_some() {
        reply.clear();
    } else if reply.slices().count() >= PIECES_MAX {
        reply.gather();
    }
    let header = OutHeader {
        len: (size_of::<OutHeader>() + reply.len_bytes()) as u32,
        error: error.map_or(0, |errno| -errno.raw_os_error()),
        unique,
    };
    let payload = reply.slices().filter(|bytes| !bytes.is_empty());
    let parts: Vec<IoSlice<'_>> =
        std::iter::once(header.as_bytes()).chain(payload).map(IoSlice::new).collect();
    match rustix::io::writev(fd, &parts) {
        // ENOENT: the caller was killed while it waited. ENODEV: unmounted meanwhile.
        Ok(_) | Err(Errno::NOENT | Errno::NODEV) => {}
        Err(errno) => tracing::error!("the kernel refused a reply: {errno}"),
    }
    reply.clear();
}

#[cfg(test)]
mod tests;
