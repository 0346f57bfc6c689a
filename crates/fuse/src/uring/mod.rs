//! The transport over io_uring (Linux 6.14 and later, if the administrator has switched it on): a queue of requests for each
//! processor.
//!
//! The kernel puts a request into the queue of the processor that its caller runs on. The thread of the queue is pinned there: so
//! the caller and the daemon take turns on one processor, and no other one has to be woken, which takes longer than most
//! requests (docs/bench/limits.md). That thread only does what needs no waiting ([`Handler::try_handle`]), and starts reads of the
//! device, beside which it serves others; the rest goes to a pool. FORGET and INTERRUPT still come through `/dev/fuse`, where [`DeviceTransport`] serves them, and it also
//! learns of the unmount. If a queue cannot be registered, none is used. If one fails later, the mount ends with an error; without it, callers would wait for ever.
//!
//! Parts: `ring` (the queue and its io_uring), `slot` (a request and its answer in memory), `reading` (requests that wait for reads
//! alone), `pool`.

mod pool;
mod reading;
mod ring;
mod slot;

use crate::adapter::{Attempt, Handler, MAX_WRITE_BYTES};
use crate::device::{DeviceTransport, TransportError};
use crate::preference;
use crate::wakeful::{PAUSE, Wakeful};
use crate::wire::Reply;
use parking_lot::{Condvar, Mutex};
use pool::{Pool, Waiting, Work};
use reading::{Reading, Trial};
use ring::{Arrived, QueueRing, Waker};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use slot::{Answered, Slot};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;

/// Where the kernel lists the processors that it may ever have.
const POSSIBLE: &str = "/sys/devices/system/cpu/possible";
/// Slots of all queues together, as far as the limits for one queue allow. Memory is used only by those that had a request.
const SLOTS: usize = 1024;
/// Whether the administrator has switched it on: `Y`.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
/// Slots of all queues together whose payload lies in huge pages: each takes 2 MiB once it is used, so they are bounded.
const HUGE_SLOTS: usize = 32;
/// Most of a queue: more than the requests that a program which reads one file has under way.
const QUEUE_HUGE_SLOTS_MAX: usize = 8;
/// Fewest and most slots of a queue. One more request than that, all of callers on one processor, waits until another is answered.
const QUEUE_SLOTS: std::ops::RangeInclusive<usize> = 32..=128;

/// Queues that are made and not offered to the kernel yet.
pub struct UringTransport {
    rings: Vec<QueueRing>,
}

/// What the threads of a mount share.
struct Shared<'a> {
    handler: &'a dyn Handler,
    pool: Pool,
    queues: Vec<Mailbox>,
    registration: Registration,
    wakeful: Wakeful,
    outcome: Mutex<Result<(), TransportError>>,
    /// A queue cannot be served any more: everything ends.
    is_over: AtomicBool,
    /// Readable then.
    over: OwnedFd,
}

/// What the thread of a queue has for itself.
struct AtHand {
    /// Which queue.
    number: usize,
    /// For answers that are not made in place.
    beside: Reply,
    reading: Reading,
}

/// Slots with answers that the pool gives back to a queue.
struct Mailbox {
    answered: Mutex<Vec<(usize, Slot)>>,
    waker: Arc<Waker>,
}

/// Lets the threads of the queues wait for each other: only if all queues are registered is any of them served.
#[derive(Default)]
struct Registration {
    /// Queues that are registered, and the first failure.
    state: Mutex<(usize, Option<std::io::Error>)>,
    changed: Condvar,
}

impl Registration {
    fn report(&self, registered: std::io::Result<()>) {
        let mut state = self.state.lock();
        match registered {
            Ok(()) => state.0 += 1,
            Err(why) => {
                state.1.get_or_insert(why);
            }
        }
        self.changed.notify_all();
    }

    /// Waits until so many are registered, or one has failed.
    fn wait(&self, queues: usize) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |(registered, failed)| *registered < queues && failed.is_none());
        state.0 == queues
    }
}

impl UringTransport {
    /// Makes a queue for each processor that the machine may ever have: with one missing, the kernel would use none.
    ///
    /// # Errors
    /// The kernel has no io_uring, or does not allow it.
    pub fn new(fuse: &Arc<OwnedFd>) -> std::io::Result<Self> {
        Self::with_payload(fuse, MAX_WRITE_BYTES as usize)
    }

    fn with_payload(fuse: &Arc<OwnedFd>, payload_bytes: usize) -> std::io::Result<Self> {
        let processors = processors()?;
        let slots = (slots_of_a_queue(processors.into()), huge_slots_of_a_queue(processors.into()));
        let queue = |number| QueueRing::new(fuse.clone(), number, slots, payload_bytes);
        Ok(Self { rings: (0..processors).map(queue).collect::<Result<_, _>>()? })
    }

    /// Serves until the file system is unmounted. The handshake has agreed on io_uring.
    ///
    /// # Errors
    /// `NotRegistered`: all requests come through `device`, and it has to serve them. Otherwise a queue failed, or a thread panicked. All threads have
    /// ended.
    pub fn serve(self, device: &DeviceTransport, handler: &dyn Handler) -> Result<(), TransportError> {
        let mailbox = |ring: &QueueRing| Mailbox { answered: Mutex::default(), waker: ring.waker() };
        let queues = self.rings.iter().map(mailbox).collect();
        let allowed = sched_getaffinity(None).map_err(|errno| TransportError::Ring(errno.into()))?;
        let shared = Shared {
            handler,
            pool: Pool::new(allowed),
            queues,
            registration: Registration::default(),
            wakeful: Wakeful::default(),
            outcome: Mutex::new(Ok(())),
            is_over: AtomicBool::new(false),
            over: eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| TransportError::Ring(errno.into()))?,
        };
        let shared = &shared;
        let work = &|waiting: Waiting, beside: &mut Reply| shared.carry_out(waiting, beside);
        let served = std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .rings
                .into_iter()
                .enumerate()
                .map(|(number, ring)| {
                    let body = move || shared.serve_queue_to_its_end(scope, number, ring, work);
                    let name = format!("firn-fuse/{number}");
                    let started = std::thread::Builder::new().name(name).spawn_scoped(scope, body);
                    started.map_err(|error| shared.registration.report(Err(error)))
                })
                .collect();
            let is_registered = shared.registration.wait(shared.queues.len());
            let served = if is_registered { device.serve_beside(handler, &shared.over) } else { Ok(()) };
            for thread in threads.into_iter().flatten() {
                if thread.join().is_err() {
                    shared.failed(TransportError::Panicked);
                }
            }
            shared.pool.close();
            served
        });
        if let Some(why) = shared.registration.state.lock().1.take() {
            QueueRing::refuse_all(device.fd().clone()).map_err(TransportError::Ring)?;
            return Err(TransportError::NotRegistered(why));
        }
        std::mem::replace(&mut *shared.outcome.lock(), Ok(())).and(served)
    }
}

impl Shared<'_> {
    /// If the queue fails, so does the whole mount: the kernel would wait for its answers.
    fn serve_queue_to_its_end<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        number: usize,
        ring: QueueRing,
        work: &'scope Work<'scope>,
    ) {
        let serve = AssertUnwindSafe(|| self.serve_queue(scope, number, ring, work));
        match catch_unwind(serve) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.end_all(TransportError::Ring(error)),
            Err(_panic) => {
                self.registration.report(Err(std::io::Error::other("a thread panicked")));
                self.end_all(TransportError::Panicked);
            }
        }
    }

    fn serve_queue<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        number: usize,
        mut ring: QueueRing,
        work: &'scope Work<'scope>,
    ) -> std::io::Result<()> {
        pin_to(number, self.pool.allowed());
        if !preference::prefer_this_thread() {
            tracing::debug!("queue {number} is not preferred");
        }
        let mut at_hand = AtHand { number, beside: slot::reply_beside(), reading: Reading::default() };
        let mut arrived = Vec::new();
        self.registration.report(ring.register(&mut arrived));
        if !self.registration.wait(self.queues.len()) {
            return Ok(());
        }
        self.take_up(scope, &mut ring, &arrived, &mut at_hand, work);
        while !ring.has_ended() && !self.is_over.load(Ordering::SeqCst) {
            ring.wait(&mut arrived, self.wakeful.is_held().then_some(PAUSE))?;
            if arrived.is_empty() {
                self.wakeful.rest();
            }
            self.take_up(scope, &mut ring, &arrived, &mut at_hand, work);
        }
        Ok(())
    }

    /// Answers what has come to a queue, or has the pool do it.
    fn take_up<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        ring: &mut QueueRing,
        arrived: &[Arrived],
        at_hand: &mut AtHand,
        work: &'scope Work<'scope>,
    ) {
        for what in arrived {
            match *what {
                Arrived::Request(at) => {
                    self.wakeful.request();
                    let Some(slot) = ring.take(at) else { continue };
                    self.try_to_answer(scope, ring, Trial::new(at, slot), at_hand, work);
                }
                Arrived::Wake => {
                    for (at, slot) in std::mem::take(&mut *self.queues[at_hand.number].answered.lock()) {
                        ring.commit(at, slot);
                    }
                }
                Arrived::Landed | Arrived::Gone => {}
            }
        }
        loop {
            // Reads may have landed as soon as they were started.
            let landed = at_hand.reading.take_landed(self.handler);
            if landed.is_empty() {
                return;
            }
            landed.into_iter().for_each(|trial| self.try_to_answer(scope, ring, trial, at_hand, work));
        }
    }

    /// Answers a request, starts what it has to read first, or has the pool do it.
    fn try_to_answer<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        ring: &mut QueueRing,
        mut trial: Trial,
        at_hand: &mut AtHand,
        work: &'scope Work<'scope>,
    ) {
        if !trial.is_given_up() {
            match self.answer(&mut trial.slot, &mut at_hand.beside, Some(&trial.attempt)) {
                Answered::Yes | Answered::Panicked => return ring.commit(trial.at, trial.slot),
                Answered::Reads(missing) => {
                    match at_hand.reading.begin(trial, missing, self.handler, |fd| ring.watch(fd)) {
                        None => return,
                        Some(given_back) => trial = given_back,
                    }
                }
                Answered::No => {}
            }
        }
        self.pool.give(scope, Waiting { queue: at_hand.number, at: trial.at, slot: trial.slot }, work);
    }

    /// On a thread of the pool.
    fn carry_out(&self, mut waiting: Waiting, beside: &mut Reply) {
        self.answer(&mut waiting.slot, beside, None);
        let mailbox = &self.queues[waiting.queue];
        mailbox.answered.lock().push((waiting.at, waiting.slot));
        mailbox.waker.wake();
    }

    /// A request whose handler panics is answered with EIO, and the mount ends with an error.
    fn answer(&self, slot: &mut Slot, beside: &mut Reply, attempt: Option<&Attempt>) -> Answered {
        let answered = slot.answer(self.handler, beside, attempt);
        if answered == Answered::Panicked {
            self.failed(TransportError::Panicked);
        }
        answered
    }

    /// Has all threads end. The connection is aborted when the descriptor of `/dev/fuse` is closed.
    fn end_all(&self, error: TransportError) {
        self.failed(error);
        self.is_over.store(true, Ordering::SeqCst);
        // It can fail only if it was called 2^64 times.
        let _counted = rustix::io::write(&self.over, &1_u64.to_ne_bytes());
        self.queues.iter().for_each(|queue| queue.waker.wake());
    }

    fn failed(&self, error: TransportError) {
        tracing::error!("{error}");
        let mut outcome = self.outcome.lock();
        if outcome.is_ok() {
            *outcome = Err(error);
        }
    }
}

/// True if the kernel has it and the administrator wants it.
#[must_use]
pub fn is_switched_on() -> bool {
    std::fs::read_to_string(SWITCH).is_ok_and(|value| value.trim() == "Y")
}

/// A request that waits keeps its slot, because its answer alone gives the slot back; so there must be more slots than requests
/// that wait. They cannot be added when they are needed: the kernel gives a new slot none of the requests that are already queued.
fn slots_of_a_queue(processors: usize) -> usize {
    (SLOTS / processors.max(1)).clamp(*QUEUE_SLOTS.start(), *QUEUE_SLOTS.end())
}

/// None if there are more processors than huge pages.
fn huge_slots_of_a_queue(processors: usize) -> usize {
    (HUGE_SLOTS / processors.max(1)).min(QUEUE_HUGE_SLOTS_MAX)
}

/// How many processors there may ever be.
fn processors() -> std::io::Result<u16> {
    let listed = std::fs::read_to_string(POSSIBLE)?;
    count_listed(&listed).ok_or_else(|| std::io::Error::other(format!("{POSSIBLE} says {listed:?}")))
}

/// The length of a list such as `0-3,8`.
fn count_listed(list: &str) -> Option<u16> {
    let parts = list.trim().split(',').map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u16>().ok()?, last.parse::<u16>().ok()?);
        last.checked_sub(first)?.checked_add(1)
    });
    parts.sum::<Option<u16>>().filter(|count| *count > 0)
}

/// A processor that is offline has nobody to serve; its thread runs wherever it likes. So does one whose processor the daemon was
/// told to leave alone, by taskset(1) for example.
fn pin_to(processor: usize, allowed: &CpuSet) {
    if processor >= CpuSet::MAX_CPU || !allowed.is_set(processor) {
        return;
    }
    let mut set = CpuSet::new();
    set.set(processor);
    if let Err(errno) = sched_setaffinity(None, &set) {
        tracing::debug!("queue {processor} is not pinned: {errno}");
    }
}

#[cfg(test)]
mod tests;
