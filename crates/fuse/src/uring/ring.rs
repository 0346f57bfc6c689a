//! `QueueRing`: the io_uring(7) of one queue of requests. This file holds the only `unsafe` code of the crate.
//!
//! The kernel knows each [`Slot`] by the addresses of its two buffers, which it fills with a request at any moment between the
//! slot's registration (or the commit of its last answer) and the completion that says so. During that time the ring owns the
//! slot and does not lend it. The buffers lie on the heap and never move; if a ring ends while the kernel has slots, their memory leaks.

#![allow(
    unsafe_code,
    reason = "the kernel fills buffers that it is given by address; see the head of this file"
)]

use super::slot::Slot;
use crate::wire::abi::RingCommand;
use crate::wire::abi::ring::{CMD_COMMIT_AND_FETCH, CMD_REGISTER, HEADER_BYTES};
use firnfs_device::AlignedBuf;
use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue, opcode, types};
use rustix::event::EventfdFlags;
use rustix::fd::{AsRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;

/// Completions of anything but a slot.
const WAKE: u64 = u64::MAX;
const LANDED: u64 = u64::MAX - 1;
/// Buffers of a slot, as the kernel wants to be told of them.
const BUFFERS: u32 = 2;
const PAGE_BYTES: usize = 4096;
/// Shorter payloads have few pages anyway.
const HUGE_MIN_BYTES: usize = 256 << 10;
/// Where the number of buffers is in a submission entry, in units of four bytes (`io_uring_sqe::len`).
const LEN_AT_WORD: usize = 6;

enum Place {
    /// The kernel may fill it at any moment.
    Kernel(Slot),
    Here(Slot),
    /// Somebody carries its request out.
    Away,
    /// The kernel does not want it any more.
    Gone,
}

/// What came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrived {
    /// The slot holds a request.
    Request(usize),
    /// The slot is not used any more: the connection has ended.
    Gone,
    /// [`Waker::wake`] was called.
    Wake,
    /// The descriptor given to [`QueueRing::watch`] is readable.
    Landed,
}

/// Wakes the thread that waits in [`QueueRing::wait`].
pub(super) struct Waker(OwnedFd);

impl Waker {
    /// It returns from its wait, now or the next time.
    pub fn wake(&self) {
        // It can fail only if it was called 2^64 times without anybody waking up.
        let _counted = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    fn reset(&self) {
        let _nothing_new = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}

/// See the module's head.
pub(super) struct QueueRing {
    uring: IoUring<Entry128, cqueue::Entry>,
    slots: Vec<Place>,
    number: u16,
    /// Keeps the connection open as long as the kernel has slots.
    fuse: Arc<OwnedFd>,
    waker: Arc<Waker>,
    watched: Option<RawFd>,
}

impl QueueRing {
    /// A queue of so many slots with payloads of at most that many bytes, some of them in huge pages: those that are offered last, which the
    /// kernel takes first. Nothing is registered yet.
    ///
    /// # Errors
    /// The kernel has no io_uring, refuses it, or lacks a resource.
    pub fn new(
        fuse: Arc<OwnedFd>,
        number: u16,
        (slots, huge_slots): (usize, usize),
        payload_bytes: usize,
    ) -> io::Result<Self> {
        // One thread alone uses it, and takes what has come when it waits: nobody interrupts it, or another processor.
        let uring = IoUring::<Entry128, cqueue::Entry>::builder()
            .setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(slots as u32 + 2)?;
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let huge_slots = if payload_bytes < HUGE_MIN_BYTES { 0 } else { huge_slots };
        let usual_slots = slots.saturating_sub(huge_slots);
        let payload = |at| {
            if at < usual_slots {
                AlignedBuf::zeroed(payload_bytes)
            } else {
                AlignedBuf::in_huge_pages(payload_bytes)
            }
        };
        let slots = (0..slots).map(|at| Place::Here(Slot::new(payload(at)))).collect();
        Ok(Self { uring, slots, number, fuse, waker: Arc::new(Waker(event)), watched: None })
    }

    /// Has [`Self::register`] fail before the kernel hears of it.
    #[cfg(test)]
    pub fn spoil(&mut self) {
        self.uring.submitter().register_enable_rings().unwrap();
    }

    /// For other threads.
    pub fn waker(&self) -> Arc<Waker> {
        self.waker.clone()
    }

    /// Offers all slots to the kernel. The thread that calls it is the one that waits from then on. Something may have arrived already.
    ///
    /// # Errors
    /// The kernel refuses the slots.
    pub fn register(&mut self, arrived: &mut Vec<Arrived>) -> io::Result<()> {
        self.uring.submitter().register_enable_rings()?;
        self.watch_waker();
        let mut buffers: Vec<[u64; 4]> = Vec::with_capacity(self.slots.len());
        for at in 0..self.slots.len() {
            let Place::Here(mut slot) = std::mem::replace(&mut self.slots[at], Place::Gone) else { continue };
            // struct iovec, twice.
            let (header, payload) = slot.buffers();
            buffers.push([
                header.as_mut_ptr() as u64,
                HEADER_BYTES as u64,
                payload.as_mut_ptr() as u64,
                payload.len() as u64,
            ]);
            self.slots[at] = Place::Kernel(slot);
            let list = buffers.last().map_or(0, |list| list.as_ptr() as u64);
            let mut entry = self.command(CMD_REGISTER, 0, Some(list));
            // SAFETY: an `Entry128` is the kernel's structure of 128 bytes, of which this is a field of four.
            unsafe { std::ptr::from_mut(&mut entry).cast::<u32>().add(LEN_AT_WORD).write(BUFFERS) };
            self.push(entry, at as u64);
        }
        // The kernel reads the lists during this call.
        self.uring.submit()?;
        // A refusal comes at once.
        self.collect(arrived)
    }

    /// Has the kernel refuse a queue that cannot exist. If queues are agreed on and not all of them registered, it holds all requests
    /// until the others come; after a refusal it sends them through `/dev/fuse`.
    ///
    /// # Errors
    /// The kernel could not be asked.
    pub fn refuse_all(fuse: Arc<OwnedFd>) -> io::Result<()> {
        let mut none = Self::new(fuse, u16::MAX, (1, 0), PAGE_BYTES)?;
        none.register(&mut Vec::new())
            .err()
            .map(drop)
            .ok_or_else(|| io::Error::other("a queue too many was taken"))
    }

    /// The slot of a request that has arrived.
    pub fn take(&mut self, at: usize) -> Option<Slot> {
        match std::mem::replace(self.slots.get_mut(at)?, Place::Away) {
            Place::Here(slot) => Some(slot),
            other => {
                self.slots[at] = other;
                None
            }
        }
    }

    /// The answer is in the slot: gives it to the kernel, which may fill the slot with the next request. It learns of it at the
    /// next wait.
    pub fn commit(&mut self, at: usize, slot: Slot) {
        let commit_id = slot.fields().commit_id;
        self.slots[at] = Place::Kernel(slot);
        let entry = self.command(CMD_COMMIT_AND_FETCH, commit_id, None);
        self.push(entry, at as u64);
    }

    /// True once no slot is used any more.
    pub fn has_ended(&self) -> bool {
        self.slots.iter().all(|place| matches!(place, Place::Gone))
    }

    /// Hands over what was committed, and waits until something comes, or for so long: then nothing has arrived.
    ///
    /// # Errors
    /// The ring is unusable.
    pub fn wait(&mut self, arrived: &mut Vec<Arrived>, longest: Option<Duration>) -> io::Result<()> {
        arrived.clear();
        let until = longest.map(|longest| types::Timespec::new().nsec(longest.subsec_nanos()));
        while arrived.is_empty() {
            let waited = match &until {
                None => self.uring.submit_and_wait(1),
                Some(until) => {
                    self.uring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(until))
                }
            };
            match waited {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.raw_os_error() == Some(Errno::TIME.raw_os_error()) => return Ok(()),
                Err(e) => return Err(e),
            }
            self.collect(arrived)?;
        }
        Ok(())
    }

    /// Takes what has come.
    fn collect(&mut self, arrived: &mut Vec<Arrived>) -> io::Result<()> {
        let (mut must_watch, mut must_watch_reads) = (false, false);
        for entry in self.uring.completion() {
            if entry.user_data() == WAKE {
                self.waker.reset();
                must_watch |= !cqueue::more(entry.flags());
                arrived.push(Arrived::Wake);
                continue;
            }
            if entry.user_data() == LANDED {
                must_watch_reads |= !cqueue::more(entry.flags());
                arrived.push(Arrived::Landed);
                continue;
            }
            let at = entry.user_data() as usize;
            let Some(place) = self.slots.get_mut(at) else { continue };
            let Place::Kernel(slot) = std::mem::replace(place, Place::Gone) else { continue };
            if entry.result() < 0 {
                let why = io::Error::from_raw_os_error(-entry.result());
                // Unmounted, or aborted.
                if Errno::from_io_error(&why) != Some(Errno::NOTCONN) {
                    tracing::debug!("queue {}: the kernel refuses a slot: {why}", self.number);
                    return Err(why);
                }
                arrived.push(Arrived::Gone);
            } else {
                *place = Place::Here(slot);
                arrived.push(Arrived::Request(at));
            }
        }
        if must_watch {
            self.watch_waker();
        }
        if let Some(fd) = self.watched.filter(|_| must_watch_reads) {
            self.poll(fd, LANDED);
        }
        Ok(())
    }

    /// Reports whenever a descriptor, which stays open as long as the ring is used, becomes readable.
    pub fn watch(&mut self, fd: RawFd) {
        self.watched = Some(fd);
        self.poll(fd, LANDED);
    }

    fn watch_waker(&mut self) {
        self.poll(self.waker.0.as_raw_fd(), WAKE);
    }

    fn poll(&mut self, fd: RawFd, user_data: u64) {
        // POLLIN.
        let entry = opcode::PollAdd::new(types::Fd(fd), 1).multi(true).build();
        self.push(entry.into(), user_data);
    }

    fn command(&self, command: u32, commit_id: u64, list: Option<u64>) -> Entry128 {
        let mut bytes = [0; 80];
        let fields = RingCommand { flags: 0, commit_id, qid: self.number, padding: [0; 6] };
        bytes[..size_of::<RingCommand>()].copy_from_slice(fields.as_bytes());
        opcode::UringCmd80::new(types::Fd(self.fuse.as_raw_fd()), command).cmd(bytes).addr(list).build()
    }

    fn push(&mut self, mut entry: Entry128, user_data: u64) {
        io_uring::squeue::EntryMarker::set_user_data(&mut entry, user_data);
        // SAFETY: the descriptors are open as long as `fuse` and `waker` are, and as the caller of `watch` says; the kernel checks them. The memory that a registration names belongs to
        // a slot in `Place::Kernel`: it does not move, has the length that was given, and nobody touches it before the
        // completion; if that never comes, it leaks (see `drop`).
        let pushed = unsafe { self.uring.submission().push(&entry) };
        pushed.expect("the submission queue has a place for each slot, the waker and what is watched");
    }
}

impl Drop for QueueRing {
    fn drop(&mut self) {
        let is_used = self.slots.iter().any(|place| matches!(place, Place::Kernel(_)));
        if is_used {
            std::mem::forget(std::mem::take(&mut self.slots));
        }
    }
}
