//! The `/dev/fuse` transport: worker threads that read a request, have it handled, and write the reply.
//!
//! One worker at a time reads requests (see [`crate::lead`]). A worker that waits for the device (a cold read, an fsync)
//! keeps nobody else waiting, so there are a few more of them than processors. Each owns one buffer for requests and one
//! for replies, sized by the handshake, for its whole life.

use crate::adapter::{Handler, MAX_WRITE_BYTES, Notifier, Verdict};
use crate::lead::{Lead, about_to_block};
use crate::wakeful::{PAUSE, Wakeful};
use crate::wire::abi::{NOTIFY_INVAL_INODE, NotifyInvalInode, OutHeader};
use crate::wire::{Operation, Reply, Request};
use firnfs_format::InodeNo;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;

/// Room in a request buffer beyond the data of the largest WRITE, in bytes: headers, and names of other requests.
const REQUEST_EXTRA_BYTES: usize = 8192;

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
    #[error("the kernel sent a message that is no FUSE request")]
    NotARequest,
    /// INIT was refused.
    #[error("the kernel's FUSE protocol cannot be used: {0}")]
    Handshake(Errno),
    /// A worker thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// A worker thread died.
    #[error("a worker thread panicked")]
    Panicked,
}

impl DeviceTransport {
    /// Over a descriptor of `/dev/fuse` that a mount refers to.
    #[must_use]
    pub fn new(fd: OwnedFd) -> Self {
        Self { fd: Arc::new(fd) }
    }

    /// Answers INIT. The mount serves once this has returned.
    ///
    /// # Errors
    /// The kernel's protocol is unusable, or the mount is gone.
    pub fn handshake(&self, handler: &dyn Handler) -> Result<(), TransportError> {
        let mut worker = Worker::new(self, handler);
        loop {
            let Some(len) = worker.next_message()? else {
                return Err(TransportError::Handshake(Errno::NODEV));
            };
            match worker.answer(len)? {
                // A kernel of a newer major asks again with ours.
                Answered::Init(Ok(done)) if done => return Ok(()),
                Answered::Init(Err(errno)) => return Err(TransportError::Handshake(errno)),
                _ => {}
            }
        }
    }

    /// Serves until the file system is unmounted (or the kernel aborted the connection), on `threads` workers (at least one).
    ///
    /// # Errors
    /// A worker could not be started, failed or panicked. The others have ended, too.
    pub fn serve(&self, handler: &dyn Handler, threads: usize) -> Result<(), TransportError> {
        std::thread::scope(|scope| {
            let lead = Arc::new(Lead::default());
            let wakeful = Arc::new(Wakeful::default());
            let mut workers = Vec::new();
            let mut outcome = Ok(());
            for number in 0..threads.max(1) {
                let (lead, wakeful) = (lead.clone(), wakeful.clone());
                let spawned = std::thread::Builder::new()
                    .name(format!("firn-fuse-{number}"))
                    .spawn_scoped(scope, move || Worker::new(self, handler).run(&lead, &wakeful));
                match spawned {
                    Ok(worker) => workers.push(worker),
                    // Those that did start can serve.
                    Err(error) if workers.is_empty() => outcome = Err(TransportError::Thread(error)),
                    Err(error) => tracing::warn!("only {} worker threads: {error}", workers.len()),
                }
            }
            for worker in workers {
                let ended = worker.join().unwrap_or(Err(TransportError::Panicked));
                outcome = outcome.and(ended);
            }
            outcome
        })
    }
}

impl Notifier for DeviceTransport {
    fn attributes_changed(&self, ino: InodeNo) {
        // A negative offset: attributes only, so that no page lock is taken and a request under way cannot deadlock.
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

/// What a worker did with a message.
enum Answered {
    /// It was INIT: agreed (true), to be repeated (false), or refused.
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
}

impl<'a> Worker<'a> {
    fn new(transport: &'a DeviceTransport, handler: &'a dyn Handler) -> Self {
        Self {
            fd: &transport.fd,
            handler,
            request: vec![0; MAX_WRITE_BYTES as usize + REQUEST_EXTRA_BYTES],
            reply: Reply::new(MAX_WRITE_BYTES as usize),
        }
    }

    fn run(mut self, lead: &Arc<Lead>, wakeful: &Wakeful) -> Result<(), TransportError> {
        let outcome = self.work(lead, wakeful);
        // Whatever ended this worker, the others find out for themselves.
        about_to_block();
        outcome
    }

    fn work(&mut self, lead: &Arc<Lead>, wakeful: &Wakeful) -> Result<(), TransportError> {
        loop {
            lead.take();
            if wakeful.is_held() && !self.request_comes_within(PAUSE) {
                wakeful.rest();
            }
            let Some(len) = self.next_message()? else { return Ok(()) };
            wakeful.request();
            if matches!(self.answer(len)?, Answered::Last) {
                return Ok(());
            }
        }
    }

    fn request_comes_within(&self, pause: Duration) -> bool {
        let mut fds = [PollFd::new(self.fd, PollFlags::IN)];
        let pause = Timespec { tv_sec: 0, tv_nsec: i64::from(pause.subsec_nanos()) };
        !matches!(poll(&mut fds, Some(&pause)), Ok(0))
    }

    /// Waits for a message; its length, or `None` after an unmount.
    fn next_message(&mut self) -> Result<Option<usize>, TransportError> {
        loop {
            match rustix::io::read(self.fd, &mut self.request[..]) {
                Ok(len) => return Ok(Some(len)),
                // ENOENT: the request was interrupted before it was read.
                Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
                // ECONNABORTED: aborted through /sys/fs/fuse/connections.
                Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(None),
                Err(errno) => return Err(TransportError::Read(errno)),
            }
        }
    }

    fn answer(&mut self, len: usize) -> Result<Answered, TransportError> {
        let request = Request::decode(&self.request[..len], self.handler.setxattr_ext())
            .ok_or(TransportError::NotARequest)?;
        self.reply.clear();
        let verdict = self.handler.handle(&request, &mut self.reply);
        let unique = request.header.unique;
        match verdict {
            Verdict::Answer | Verdict::Last => self.send(unique, None),
            Verdict::Error(errno) => self.send(unique, Some(errno)),
            Verdict::Silent => {}
        }
        Ok(match (verdict, &request.operation) {
            (Verdict::Last, _) => Answered::Last,
            (Verdict::Error(errno), Operation::Init { .. }) => Answered::Init(Err(errno)),
            (_, Operation::Init { major, .. }) => Answered::Init(Ok(*major <= crate::wire::abi::MAJOR)),
            _ => Answered::Other,
        })
    }

    fn send(&self, unique: u64, error: Option<Errno>) {
        let payload = if error.is_some() { &[] } else { self.reply.payload() };
        let header = OutHeader {
            len: (size_of::<OutHeader>() + payload.len()) as u32,
            error: error.map_or(0, |errno| -errno.raw_os_error()),
            unique,
        };
        let parts = [IoSlice::new(header.as_bytes()), IoSlice::new(payload)];
        let parts = if payload.is_empty() { &parts[..1] } else { &parts[..] };
        match rustix::io::writev(self.fd, parts) {
            // ENOENT: the caller was killed while it waited. ENODEV: unmounted meanwhile.
            Ok(_) | Err(Errno::NOENT | Errno::NODEV) => {}
            Err(errno) => tracing::error!("the kernel refused a reply: {errno}"),
        }
    }
}
