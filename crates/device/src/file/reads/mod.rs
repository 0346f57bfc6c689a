//! Reads at depth: a thread that has submitted several reads gets them carried out together.
//!
//! `submit` only stores a read. `wait` first starts every read that the same thread has submitted, up to bounds, and then
//! waits for its own; `start` is its first half. The thread that waits for a single read carries it out itself, without handing it over: waking
//! another processor takes longer than a read from a fast disk's cache. Several reads go through one of these
//! ([`DeepReads`]):
//! * an io_uring for each thread that reads at depth (`ring`), a *lane* while it is in use;
//! * a few helper threads (`helpers`), where the system has no io_uring or forbids it, as containers often do. The waiter does
//!   its part of the reads meanwhile.
//!
//! A thread that waits for other things beside its reads has a ring to itself (`own`). Rings and threads are created when they are
//! first needed. Measured: `docs/decisions/0113-reads-at-depth.md`. Lock order: a lane's ring, then the table of all reads (`table`);
//! only the ring is held during a transfer.

mod helpers;
mod own;
mod ring;
mod table;

use super::Target;
use crate::own_reads::OwnReads;
use crate::request::{Completion, Request, Tag};
use helpers::Helpers;
use own::OwnRing;
use parking_lot::{Condvar, Mutex, MutexGuard};
use ring::{Landed, Ring};
use rustix::io::Errno;
use std::sync::{Arc, OnceLock};
use table::{RingStep, StartStep, Step, Table};

/// How several reads are carried out together. If the system refuses one, the next replaces it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeepReads {
    /// By the kernel, through an io_uring(7).
    Ring,
    /// By a few threads.
    Threads,
    /// One after the other.
    OneByOne,
}

/// See the module's head.
pub(super) struct Reads {
    shared: Arc<Shared>,
    helpers: OnceLock<Helpers>,
    make_ring: MakeRing,
}

type MakeRing = fn(Arc<Target>) -> std::io::Result<Ring>;

struct Shared {
    target: Arc<Target>,
    table: Mutex<Table>,
    /// A read was queued, or memory became available for one; helper threads wait for it.
    work: Condvar,
    /// A helper thread has finished a read.
    done: Condvar,
}

/// A ring that several threads may want to use at the same time.
struct Lane {
    ring: Mutex<Ring>,
}

impl Reads {
    pub(super) fn new(target: Arc<Target>, deep: DeepReads) -> Self {
        Self::with_rings(target, deep, Ring::new)
    }

    fn with_rings(target: Arc<Target>, deep: DeepReads, make_ring: MakeRing) -> Self {
        let table = Mutex::new(Table::new(deep));
        let shared = Arc::new(Shared { target, table, work: Condvar::new(), done: Condvar::new() });
        Self { shared, helpers: OnceLock::new(), make_ring }
    }

    /// How several reads are carried out now.
    pub(super) fn deep(&self) -> DeepReads {
        self.shared.table.lock().deep
    }

    /// Reads of a thread that waits for other things beside them, if the system has rings.
    pub(super) fn own(&self) -> Option<Box<dyn OwnReads>> {
        let has_rings = self.deep() == DeepReads::Ring;
        let ring = has_rings.then(|| OwnRing::new(self.shared.target.clone()).ok()).flatten()?;
        Some(Box::new(ring))
    }

    pub(super) fn submit(&self, request: Request) -> Tag {
        let refused = self.shared.target.geometry().check(&request, &self.shared.target.name).err();
        let mut table = self.shared.table.lock();
        Tag(match refused {
            Some(error) => table.refuse(error),
            None => table.submit(request, std::thread::current().id()),
        })
    }

    /// Starts the reads that this thread has submitted, as far as that needs no waiting; not if they are carried out one by one.
    pub(super) fn start(&self) {
        let mut table = self.shared.table.lock();
        loop {
            match table.start_step(std::thread::current().id()) {
                StartStep::Done => return,
                StartStep::Queued => return self.wake_helpers(table),
                StartStep::Enter(lane) => {
                    drop(table);
                    return self.shared.start_in(&lane);
                }
                StartStep::MakeLane => self.make_lane(&mut table),
            }
        }
    }

    fn make_lane(&self, table: &mut MutexGuard<'_, Table>) {
        let ring = MutexGuard::unlocked(table, || (self.make_ring)(self.shared.target.clone()));
        table.lane_made(ring.ok().map(|ring| Arc::new(Lane { ring: Mutex::new(ring) })));
    }

    /// # Panics
    /// If the tag is not in the table: a caller's bug.
    pub(super) fn wait(&self, tag: Tag) -> Completion {
        let mut table = self.shared.table.lock();
        loop {
            match table.step(tag.0) {
                Step::Return(completion) => {
                    self.wake_helpers(table);
                    return completion;
                }
                Step::Run(request) => {
                    self.wake_helpers(table);
                    return self.shared.target.run(&request);
                }
                Step::Enter(lane) => {
                    drop(table);
                    if let Some(completion) = self.shared.wait_in(&lane, tag.0) {
                        return completion;
                    }
                    table = self.shared.table.lock();
                }
                Step::MakeLane => self.make_lane(&mut table),
                Step::Sleep => self.shared.done.wait(&mut table),
            }
        }
    }

    /// Wakes as many helper threads as there are reads queued; the waiter is about to do one of its own.
    fn wake_helpers(&self, mut table: MutexGuard<'_, Table>) {
        let queued = table.queued();
        drop(table);
        if queued > 0 {
            self.helpers.get_or_init(|| Helpers::start(&self.shared)).wake(queued);
        }
    }
}

impl Shared {
    /// Waits for a read in a ring, and starts its owner's other reads there. `None` if the read cannot be done there.
    fn wait_in(&self, lane: &Arc<Lane>, tag: u64) -> Option<Completion> {
        let mut ring = lane.ring.lock();
        loop {
            let room = ring.room();
            let step = self.table.lock().step_in(tag, lane, room);
            match step {
                RingStep::Return(completion) => return Some(completion),
                RingStep::Leave => return None,
                RingStep::Run(request) => {
                    drop(ring);
                    return Some(self.target.run(&request));
                }
                RingStep::Wait(started) => {
                    for (tag, request) in started {
                        ring.start(tag, request);
                    }
                    match ring.wait() {
                        Ok(landed) => self.finish(landed),
                        Err(_) => self.rescue(lane, &mut ring),
                    }
                }
            }
            // Another thread may wait here for a read that has just landed.
            MutexGuard::bump(&mut ring);
        }
    }

    /// Starts the owner's new reads in its ring, unless another thread waits there: that one would start them later.
    fn start_in(&self, lane: &Arc<Lane>) {
        let Some(mut ring) = lane.ring.try_lock() else { return };
        let room = ring.room();
        let started = self.table.lock().begin_new(lane, room);
        for (tag, request) in started {
            ring.start(tag, request);
        }
        ring.submit();
    }

    fn finish(&self, landed: Vec<Landed>) {
        for Landed { tag, request, mut buf, count } in landed {
            let rest = match count {
                Ok(count) => self.target.read_rest(&request, &mut buf, count),
                Err(e) if is_of_the_ring(e) => self.target.read_rest(&request, &mut buf, 0),
                Err(e) => Err(self.target.system_failure(&request, e)),
            };
            self.table.lock().finish(tag, request.len_bytes(), rest.map(|()| Some(buf)));
        }
    }

    /// The ring failed: this thread carries out the reads that were in it.
    fn rescue(&self, lane: &Arc<Lane>, ring: &mut Ring) {
        for (tag, request) in ring.abandon() {
            let completion = self.target.run(&request);
            self.table.lock().finish(tag, request.len_bytes(), completion);
        }
        self.table.lock().lane_failed(lane);
    }
}

/// Errors that concern io_uring, memory or signals rather than the medium: pread(2) gets the answer.
fn is_of_the_ring(e: Errno) -> bool {
    matches!(
        e,
        Errno::INTR
            | Errno::AGAIN
            | Errno::CANCELED
            | Errno::INVAL
            | Errno::OPNOTSUPP
            | Errno::NOMEM
            | Errno::PERM
    )
}

#[cfg(test)]
mod tests;
