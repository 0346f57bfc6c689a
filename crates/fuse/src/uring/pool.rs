//! Threads for requests that wait: for the device, for room, for what is durable.
//!
//! The thread of a queue hands over a request that would have to wait, and goes on with the next one. A thread of the pool carries it
//! out and gives the slot back to its queue, whose thread alone talks to the kernel. There are as many threads as requests
//! wait at the same time, at most one for each slot: a request that could go on never waits for one that cannot. A thread that has nothing to do for a while ends.

use super::slot::{Slot, reply_beside};
use crate::device::KEPT;
use crate::wire::Reply;
use parking_lot::{Condvar, Mutex};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::collections::VecDeque;
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
    is_closed: bool,
}

/// See the module's head.
pub(super) struct Pool {
    state: Mutex<State>,
    changed: Condvar,
    allowed: CpuSet,
}

impl Pool {
    /// `allowed`: where the threads of the daemon may run.
    pub fn new(allowed: CpuSet) -> Self {
        Self { state: Mutex::default(), changed: Condvar::default(), allowed }
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
        let mut state = self.state.lock();
        state.waiting.push_back(waiting);
        if state.idle >= state.waiting.len() {
            drop(state);
            self.changed.notify_one();
            return;
        }
        state.threads += 1;
        drop(state);
        let body = move || self.run(work);
        let started = std::thread::Builder::new().name("firn-fuse-wait".into()).spawn_scoped(scope, body);
        if let Err(error) = started {
            let mut state = self.state.lock();
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
        let mut state = self.state.lock();
        loop {
            if let Some(waiting) = state.waiting.pop_front() {
                drop(state);
                work(waiting, &mut beside);
                state = self.state.lock();
                continue;
            }
            if state.is_closed {
                break;
            }
            state.idle += 1;
            let is_over = self.changed.wait_for(&mut state, KEPT).timed_out();
            state.idle -= 1;
            if is_over && state.waiting.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }

    /// Its threads end once nothing waits.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }
}
