//! `OwnRing`: the reads of a thread that waits for other things beside them, in an io_uring of its own.
//!
//! Unlike a lane it is nobody else's: no lock, and no other thread takes its completions. If it fails, what was under way is read by
//! the thread at once, and it has no room any more.

use super::super::Target;
use super::is_of_the_ring;
use super::ring::{Landed, Ring};
use crate::own_reads::OwnReads;
use crate::request::{Completion, Request};
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

/// No read is started beside so many bytes under way: each has its memory from its start on.
const UNDER_WAY_MAX_BYTES: u64 = 8 << 20;

/// See the module's head.
pub(in super::super) struct OwnRing {
    target: Arc<Target>,
    ring: Ring,
    next_name: u64,
    /// In the ring.
    under_way_bytes: u64,
    /// Those that did not go through the ring.
    landed: Vec<(u64, Completion)>,
}

impl OwnRing {
    /// # Errors
    /// As [`Ring::new`].
    pub fn new(target: Arc<Target>) -> io::Result<Self> {
        let ring = Ring::new(target.clone())?;
        Ok(Self { ring, target, next_name: 0, under_way_bytes: 0, landed: Vec::new() })
    }

    /// As if the system had failed.
    #[cfg(test)]
    pub fn fail(&mut self) {
        self.ring.abandon();
    }
}

impl OwnReads for OwnRing {
    fn room(&self) -> usize {
        if self.under_way_bytes < UNDER_WAY_MAX_BYTES { self.ring.room() } else { 0 }
    }

    fn start(&mut self, ranges: &[(u64, u32)]) -> Vec<u64> {
        let mut names = Vec::with_capacity(ranges.len());
        for &(at_bytes, len_bytes) in ranges {
            let (name, request) = (self.next_name, Request::Read { at_bytes, len_bytes });
            self.next_name += 1;
            names.push(name);
            match self.target.geometry().check(&request, &self.target.name) {
                Ok(()) if self.ring.room() > 0 => {
                    self.under_way_bytes += u64::from(len_bytes);
                    self.ring.start(name, request);
                }
                Ok(()) => self.landed.push((name, self.target.run(&request))),
                Err(refused) => self.landed.push((name, Err(refused))),
            }
        }
        if self.ring.submit_all().is_err() {
            let left = self.ring.abandon();
            self.under_way_bytes = 0;
            self.landed.extend(left.into_iter().map(|(name, request)| (name, self.target.run(&request))));
        }
        names
    }

    fn landed(&mut self) -> Vec<(u64, Completion)> {
        let mut landed = std::mem::take(&mut self.landed);
        for Landed { tag, request, mut buf, count } in self.ring.reap() {
            self.under_way_bytes -= request.len_bytes();
            let rest = match count {
                Ok(count) => self.target.read_rest(&request, &mut buf, count),
                Err(e) if is_of_the_ring(e) => self.target.read_rest(&request, &mut buf, 0),
                Err(e) => Err(self.target.system_failure(&request, e)),
            };
            landed.push((tag, rest.map(|()| Some(buf))));
        }
        landed
    }

    fn fd(&self) -> RawFd {
        self.ring.fd()
    }
}
