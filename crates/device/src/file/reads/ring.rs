//! `Ring`: an io_uring(7) that carries out reads of one file. This file and `huge_pages` hold the only `unsafe` code
//! of the crate.
//!
//! The kernel writes into a buffer from the moment that its read is pushed until its completion is reaped, whatever this
//! process does. So the ring owns the buffers during that time and does not lend them. It gives up a buffer in one of
//! two ways: it returns it after the completion, or it leaks it with the ring. Dropping a ring waits for all reads that
//! are under way.

#![allow(
    unsafe_code,
    reason = "the kernel fills buffers that it is given by address; see the head of this file"
)]

use super::super::Target;
use crate::buffer::AlignedBuf;
use crate::request::Request;
use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// Most reads under way in a ring.
pub(super) const DEPTH: usize = 64;

pub(super) struct Ring {
    /// `None` once the ring failed.
    uring: Option<IoUring>,
    /// The reads under way; the kernel knows each by its index.
    flights: Vec<Option<Flight>>,
    under_way: usize,
    /// Keeps open the file that the pushed reads name.
    target: Arc<Target>,
    /// For tests: the ring fails after this many waits.
    #[cfg(test)]
    pub(super) waits_left: u32,
}

struct Flight {
    tag: u64,
    request: Request,
    buf: AlignedBuf,
}

/// A read that the kernel has completed.
pub(super) struct Landed {
    pub(super) tag: u64,
    pub(super) request: Request,
    pub(super) buf: AlignedBuf,
    /// Bytes read, perhaps fewer than asked for.
    pub(super) count: Result<usize, Errno>,
}

impl Ring {
    /// # Errors
    /// The kernel has no io_uring, refuses it, or lacks a resource.
    pub(super) fn new(target: Arc<Target>) -> io::Result<Self> {
        let uring = IoUring::new(DEPTH as u32)?;
        let flights = (0..DEPTH).map(|_| None).collect();
        Ok(Self {
            uring: Some(uring),
            flights,
            under_way: 0,
            target,
            #[cfg(test)]
            waits_left: u32::MAX,
        })
    }

    /// How many more reads may be started.
    pub(super) fn room(&self) -> usize {
        if self.uring.is_some() { DEPTH - self.under_way } else { 0 }
    }

    /// Adds a read; it starts in [`Ring::submit`] or [`Ring::wait`]. The caller has checked that there is room.
    pub(super) fn start(&mut self, tag: u64, request: Request) {
        let place = self.flights.iter().position(Option::is_none).expect("the caller looked for room");
        let uring = self.uring.as_mut().expect("a ring that failed has no room");
        let mut buf = AlignedBuf::to_read_into(request.len_bytes() as usize);
        let (fd, len_bytes) = (types::Fd(self.target.file.as_raw_fd()), buf.len() as u32);
        let read = opcode::Read::new(fd, buf.as_mut_ptr(), len_bytes).offset(request.at_bytes()).build();
        self.flights[place] = Some(Flight { tag, request, buf });
        self.under_way += 1;
        // SAFETY: the descriptor is open as long as `target` is. The memory is `buf`'s own allocation: it does not move
        // with `buf`, and is as long as the entry says. It stays in `flights`, untouched, until `reap` sees the
        // completion; if that never comes, it is leaked.
        let pushed = unsafe { uring.submission().push(&read.user_data(place as u64)) };
        pushed.expect("the submission queue has a place for each read under way");
    }

    /// Starts the added reads. If the system refuses that now, [`Ring::wait`] tries again and reports it.
    pub(super) fn submit(&mut self) {
        if let Some(uring) = &self.uring {
            let _later = uring.submit();
        }
    }

    /// Starts the added reads.
    ///
    /// # Errors
    /// The system refuses; see [`Ring::abandon`].
    pub(super) fn submit_all(&mut self) -> io::Result<()> {
        let uring = self.uring.as_mut().ok_or(Errno::BADF)?;
        while !uring.submission().is_empty() {
            match uring.submit() {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }

    /// Of the ring itself; -1 once it failed.
    pub(super) fn fd(&self) -> RawFd {
        self.uring.as_ref().map_or(-1, IoUring::as_raw_fd)
    }

    /// Starts the added reads and waits until at least one read has completed; some must be under way.
    ///
    /// # Errors
    /// The ring is unusable; see [`Ring::abandon`].
    pub(super) fn wait(&mut self) -> io::Result<Vec<Landed>> {
        debug_assert!(self.under_way > 0);
        #[cfg(test)]
        {
            self.waits_left = self.waits_left.checked_sub(1).ok_or(Errno::NOMEM)?;
        }
        loop {
            let uring = self.uring.as_mut().ok_or(Errno::BADF)?;
            if uring.submission().is_empty() {
                let landed = self.reap();
                if !landed.is_empty() {
                    return Ok(landed);
                }
            }
            match self.uring.as_ref().map_or(Ok(0), |uring| uring.submit_and_wait(1)) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// What has completed by now.
    pub(super) fn reap(&mut self) -> Vec<Landed> {
        let mut landed = Vec::new();
        for entry in self.uring.iter_mut().flat_map(IoUring::completion) {
            // The kernel completes each read once. A panic here would free buffers that it may still fill.
            let flight =
                usize::try_from(entry.user_data()).ok().and_then(|at| self.flights.get_mut(at)?.take());
            let Some(Flight { tag, request, buf }) = flight else { continue };
            let count = match entry.result() {
                count @ 0.. => Ok(count as usize),
                negative => Err(Errno::from_raw_os_error(-negative)),
            };
            landed.push(Landed { tag, request, buf, count });
        }
        self.under_way -= landed.len();
        landed
    }

    /// Gives up a ring that failed: returns the reads that were under way, to be done in another way. The kernel may
    /// still fill their buffers, which are leaked with the ring.
    pub(super) fn abandon(&mut self) -> Vec<(u64, Request)> {
        std::mem::forget(self.uring.take());
        self.under_way = 0;
        let flights = std::mem::take(&mut self.flights);
        let left = flights.iter().flatten().map(|f| (f.tag, f.request.clone())).collect();
        std::mem::forget(flights);
        left
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.under_way > 0 {
            if self.wait().is_err() {
                self.abandon();
            }
        }
    }
}
