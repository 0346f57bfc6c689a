//! Threads for requests that wait: for the device, for room, for what is durable.
//!
//! The thread of a queue hands over a request that would have to wait, and goes on with the next one. A thread of the pool carries it
//! out and gives the slot back to its queue, whose thread alone talks to the kernel. There are as many threads as requests
//! wait at the same time, at most one for each slot: a request that could go on never waits for one that cannot. A thread that has nothing to do for a while ends.
//!
//! Requests begin one after the other, in the order in which they came: a thread is woken when the one before is about to wait
//! (`lead`). If all of them were woken at once, they would only get into each other's way, and the reads of one file would reach the device in any
//! order (docs/decisions/0126).

use super::slot::{Slot, reply_beside};
use crate::device::KEPT;
use crate::lead::{self, Baton};
use crate::wire::Reply;
use parking_lot::{Condvar, Mutex};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::Scope;

/// What a thread does with a request that waits; see [`Slot::answer`].
pub(super) type Work<'a> = dyn Fn(Waiting, &mut Reply) + Sync + 'a;

/// A request that waits, and where it came from.
pub(super) struct Waiting {
    /// Which queue.
    pub queue: usize,
    /// Which of its slots.
    pub at: usize,
    /// The slot.
    pub slot: Slot,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    threads: usize,
    idle: usize,
    /// A thread has been woken for a request, or carries one out and has not waited so far.
    is_beginning: bool,
    is_closed: bool,
}

/// The requests, and the turn to begin with one.
#[derive(Default)]
struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

impl Baton for Turns {
    fn pass_on(&self) {
        let mut state = self.state.lock();
        state.is_beginning = state.idle > 0 && !state.waiting.is_empty();
        if state.is_beginning {
            drop(state);
            self.changed.notify_one();
        }
    }
}

/// See the module's head.
pub(super) struct Pool {
    turns: Arc<Turns>,
    allowed: CpuSet,
}

impl Pool {
    /// `allowed`: where the threads of the daemon may run.
    pub fn new(allowed: CpuSet) -> Self {
        Self { turns: Arc::default(), allowed }
    }

    /// Where the threads of the daemon may run.
    pub fn allowed(&self) -> &CpuSet {
        &self.allowed
    }

    /// Hands a request over; `work` is what each thread does with one.
    pub fn give<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        waiting: Waiting,
        work: &'scope Work<'scope>,
    ) {
        let mut state = self.turns.state.lock();
        state.waiting.push_back(waiting);
        if state.idle >= state.waiting.len() {
            if !std::mem::replace(&mut state.is_beginning, true) {
                drop(state);
                self.turns.changed.notify_one();
            }
            return;
        }
        state.threads += 1;
        drop(state);
        let body = move || self.run(work);
        let started = std::thread::Builder::new().name("firn-fuse-wait".into()).spawn_scoped(scope, body);
        if let Err(error) = started {
            let mut state = self.turns.state.lock();
            state.threads -= 1;
            // Others do it, or else this thread: a slow request is better than one that is never answered.
            let alone = (state.threads == 0).then(|| state.waiting.pop_back()).flatten();
            drop(state);
            tracing::warn!("no more threads for requests that wait: {error}");
            alone.into_iter().for_each(|waiting| work(waiting, &mut reply_beside()));
        }
    }

    fn run(&self, work: &Work<'_>) {
        // The thread of a queue, which has started this one, is pinned to its processor.
        if let Err(errno) = sched_setaffinity(None, &self.allowed) {
            tracing::debug!("a thread for requests that wait stays on one processor: {errno}");
        }
        let mut beside = reply_beside();
        let mut state = self.turns.state.lock();
        loop {
            if let Some(waiting) = state.waiting.pop_front() {
                state.is_beginning = true;
                drop(state);
                lead::hold(self.turns.clone());
                work(waiting, &mut beside);
                let has_never_waited = lead::put_down();
                state = self.turns.state.lock();
                if has_never_waited {
                    state.is_beginning = false;
                }
                continue;
            }
            if state.is_closed {
                break;
            }
            state.idle += 1;
            let is_over = self.turns.changed.wait_for(&mut state, KEPT).timed_out();
            state.idle -= 1;
            if is_over && state.waiting.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }

    /// Its threads end once nothing waits.
    pub fn close(&self) {
        self.turns.state.lock().is_closed = true;
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firnfs_device::AlignedBuf;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    /// Where a request of the test stops: before it waits, and while it does.
    fn stops() -> ([Sender<()>; 2], Mutex<[Receiver<()>; 2]>) {
        let ((go, stop), (end, wait)) = (channel(), channel());
        ([go, end], Mutex::new([stop, wait]))
    }

    #[test]
    fn requests_begin_in_order_and_the_next_one_when_the_one_before_waits_or_is_done() {
        let (has_begun, begun) = channel();
        let (senders, stops): (Vec<_>, Vec<_>) = (0..6).map(|_| stops()).unzip();
        let pool = Pool::new(CpuSet::new());
        let work = |waiting: Waiting, _beside: &mut Reply| {
            let stops = stops[waiting.at].lock();
            has_begun.send(waiting.at).unwrap();
            // If its senders are gone it is done at once.
            if stops[0].recv().is_ok() {
                lead::about_to_block();
                let _told = stops[1].recv();
            }
        };
        let next = || begun.recv_timeout(Duration::from_secs(10)).unwrap();
        let nothing_begins = || assert!(begun.recv_timeout(Duration::from_millis(50)).is_err());
        std::thread::scope(|scope| {
            // All end with this closure, also if the test fails.
            let mut senders: Vec<Option<[Sender<()>; 2]>> = senders.into_iter().map(Some).collect();
            let give = |at| {
                pool.give(scope, Waiting { queue: 0, at, slot: Slot::new(AlignedBuf::zeroed(64)) }, &work)
            };
            // Each of these is new to a thread that is new; then three are idle.
            for (at, senders) in senders.iter().enumerate().take(3) {
                give(at);
                assert_eq!(next(), at);
                senders.as_ref().unwrap()[0].send(()).unwrap();
            }
            senders[..3].fill_with(|| None);
            while pool.turns.state.lock().idle < 3 {
                std::thread::yield_now();
            }
            give(3);
            assert_eq!(next(), 3);
            give(4);
            nothing_begins();
            senders[3].as_ref().unwrap()[0].send(()).unwrap();
            assert_eq!(next(), 4, "the one before waits");
            give(5);
            nothing_begins();
            senders[4] = None;
            assert_eq!(next(), 5, "the one before is done");
            pool.close();
        });
    }
}
