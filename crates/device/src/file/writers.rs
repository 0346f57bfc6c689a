//! The pool of writer threads of a `FileDevice`, and the table of requests between `submit` and `wait`.
//!
//! Invariants: a tag is in the table from `submit` until `wait` returns; the queue names writes in the order of their
//! submission, some of which a waiter may have taken already. The pool is joined when the device is dropped, after the
//! queue is empty.

use super::Target;
use crate::request::{Completion, Request, Tag};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;

pub(super) struct Writers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    target: Arc<Target>,
    state: Mutex<State>,
    work: Condvar,
    done: Condvar,
}

#[derive(Default)]
struct State {
    next_tag: u64,
    queue: VecDeque<u64>,
    table: BTreeMap<u64, Slot>,
    closing: bool,
}

enum Slot {
    /// It has not begun: a write in the queue, or any other request before its wait.
    Waiting(Request),
    Running,
    Done(Completion),
}

impl Writers {
    /// Starts `threads` threads; with none, or when the system refuses to start one, waiters do the writes.
    pub(super) fn start(target: Arc<Target>, threads: usize) -> Self {
        let shared = Arc::new(Shared {
            target,
            state: Mutex::new(State::default()),
            work: Condvar::new(),
            done: Condvar::new(),
        });
        let threads = (0..threads)
            .map_while(|_| {
                let shared = shared.clone();
                std::thread::Builder::new().name("device-writer".into()).spawn(move || shared.serve()).ok()
            })
            .collect();
        Self { shared, threads }
    }

    pub(super) fn submit(&self, request: Request) -> Tag {
        let is_write = matches!(request, Request::Write { .. });
        let mut state = self.shared.state.lock();
        let tag = state.next_tag;
        state.next_tag += 1;
        state.table.insert(tag, Slot::Waiting(request));
        if is_write {
            state.queue.push_back(tag);
            drop(state);
            self.shared.work.notify_one();
        }
        Tag(tag)
    }

    /// # Panics
    /// If the tag is not in the table: a caller's bug.
    pub(super) fn wait(&self, tag: Tag) -> Completion {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(request) = state.begin(tag.0) {
                state.table.remove(&tag.0);
                return MutexGuard::unlocked(&mut state, || self.shared.target.run(&request));
            }
            if let Some(completion) = state.take_done(tag.0) {
                return completion;
            }
            self.shared.done.wait(&mut state);
        }
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.shared.state.lock().closing = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A writer's panic was reported by its own thread; a panic here could abort the process.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            let Some(tag) = state.queue.pop_front() else {
                if state.closing {
                    return;
                }
                self.work.wait(&mut state);
                continue;
            };
            let Some(request) = state.begin(tag) else { continue };
            let completion = MutexGuard::unlocked(&mut state, || self.target.run(&request));
            state.table.insert(tag, Slot::Done(completion));
            self.done.notify_all();
        }
    }
}

impl State {
    /// Takes a request that has not begun.
    fn begin(&mut self, tag: u64) -> Option<Request> {
        let slot = self.table.get_mut(&tag)?;
        match std::mem::replace(slot, Slot::Running) {
            Slot::Waiting(request) => Some(request),
            other => {
                *slot = other;
                None
            }
        }
    }

    fn take_done(&mut self, tag: u64) -> Option<Completion> {
        match self.table.get(&tag).expect("each tag is waited for exactly once") {
            Slot::Done(_) => match self.table.remove(&tag) {
                Some(Slot::Done(completion)) => Some(completion),
                _ => unreachable!("looked at just now"),
            },
            _ => None,
        }
    }
}
