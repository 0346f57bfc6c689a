//! `Table`: every read between `submit` and the return of `wait`. Computation only; `Reads` waits and transfers.
//!
//! Invariants: a tag is in the table from `submit` until its completion is handed to the waiter, or until the waiter
//! begins the read itself. An owner (a thread that submitted reads) is listed while it has reads that are new or in a
//! ring. It has a lane while it has reads in a ring, and no other owner has that lane; the lane is free again once the
//! owner is no longer listed. `held_bytes` counts the buffers of running reads and of completed reads that nobody has
//! fetched.

use super::{DeepReads, Lane};
use crate::error::DeviceError;
use crate::request::{Completion, Request};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread::ThreadId;

/// Most bytes that running and unfetched reads hold. The waiter itself carries out a read that would exceed it. No disk
/// needs more under way, and buffers that are reused soon cost less than fresh memory.
pub(super) const HELD_BYTES_MAX: u64 = 8 << 20;
/// Most rings of a device: threads that read at depth at the same time.
const LANES_MAX: usize = 8;

pub(super) struct Table {
    next_tag: u64,
    slots: BTreeMap<u64, Slot>,
    owners: Vec<Owner>,
    /// The memory of an owner's list, for the next owner: a single read allocates none.
    spare: VecDeque<u64>,
    free_lanes: Vec<Arc<Lane>>,
    lanes: usize,
    held_bytes: u64,
    /// How several reads are carried out now. It only ever changes to the next method, which needs less of the system.
    pub(super) deep: DeepReads,
    /// Reads for the helper threads, some of which their waiters may have begun already.
    queue: VecDeque<u64>,
    pub(super) closing: bool,
}

enum Slot {
    /// It has not begun.
    Waiting {
        request: Request,
        owner: ThreadId,
    },
    /// A helper thread carries it out.
    Helped,
    /// In the ring of its owner's lane.
    InRing {
        owner: ThreadId,
    },
    Done {
        completion: Completion,
        held_bytes: u64,
    },
}

/// A thread that submitted reads.
struct Owner {
    thread: ThreadId,
    /// Its reads that are neither begun nor queued for the helpers, in ascending order.
    new: VecDeque<u64>,
    in_ring: usize,
    lane: Option<Arc<Lane>>,
}

impl Owner {
    fn forget_new(&mut self, tag: u64) {
        if let Ok(at) = self.new.binary_search(&tag) {
            self.new.remove(at);
        }
    }
}

/// What a waiter does next.
pub(super) enum Step {
    /// The read is complete.
    Return(Completion),
    /// Carry it out on this thread.
    Run(Request),
    /// Go to the ring that holds the read, or that will start it.
    Enter(Arc<Lane>),
    /// Make a ring, and give the table a lane.
    MakeLane,
    /// A helper thread carries it out: wait until one has finished.
    Sleep,
}

/// What a thread does next that starts its reads.
pub(super) enum StartStep {
    /// Nothing can be started without waiting.
    Done,
    /// The helpers have them.
    Queued,
    /// Start them in its ring.
    Enter(Arc<Lane>),
    /// Make a ring, and give the table a lane.
    MakeLane,
}

/// What a waiter that holds a ring does next.
pub(super) enum RingStep {
    Return(Completion),
    Run(Request),
    /// Start these, if any, and wait for a completion.
    Wait(Vec<(u64, Request)>),
    /// The ring now serves other threads.
    Leave,
}

impl Table {
    pub(super) fn new(deep: DeepReads) -> Self {
        Self {
            next_tag: 0,
            slots: BTreeMap::new(),
            owners: Vec::new(),
            spare: VecDeque::new(),
            free_lanes: Vec::new(),
            lanes: 0,
            held_bytes: 0,
            deep,
            queue: VecDeque::new(),
            closing: false,
        }
    }

    pub(super) fn submit(&mut self, request: Request, thread: ThreadId) -> u64 {
        let tag = self.insert(Slot::Waiting { request, owner: thread });
        if let Some(owner) = self.owners.iter_mut().find(|o| o.thread == thread) {
            owner.new.push_back(tag);
        } else {
            let mut new = std::mem::take(&mut self.spare);
            new.push_back(tag);
            self.owners.push(Owner { thread, new, in_ring: 0, lane: None });
        }
        tag
    }

    /// Stores a read that will not be carried out.
    pub(super) fn refuse(&mut self, error: DeviceError) -> u64 {
        self.insert(Slot::Done { completion: Err(error), held_bytes: 0 })
    }

    fn insert(&mut self, slot: Slot) -> u64 {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.slots.insert(tag, slot);
        tag
    }

    /// # Panics
    /// If the tag is not in the table: a caller's bug.
    pub(super) fn step(&mut self, tag: u64) -> Step {
        let owner = match self.slots.get(&tag).expect("each tag is waited for exactly once") {
            Slot::Done { .. } => return Step::Return(self.take_done(tag).expect("looked at just now")),
            Slot::Helped => return Step::Sleep,
            Slot::Waiting { owner, .. } | Slot::InRing { owner } => *owner,
        };
        let Some(at) = self.owners.iter().position(|o| o.thread == owner) else {
            // All reads of its owner are queued or done.
            return Step::Run(self.begin_here(tag));
        };
        let found = &mut self.owners[at];
        if let Some(lane) = &found.lane {
            return Step::Enter(lane.clone());
        }
        let is_alone = found.new.len() <= 1;
        match self.deep {
            DeepReads::Ring if !is_alone => match self.lane_for(at) {
                StartStep::Enter(lane) => Step::Enter(lane),
                StartStep::MakeLane => Step::MakeLane,
                StartStep::Done | StartStep::Queued => Step::Run(self.begin_here(tag)),
            },
            DeepReads::Threads if !is_alone => {
                let new = std::mem::take(&mut found.new);
                self.queue.extend(new.into_iter().filter(|&other| other != tag));
                Step::Run(self.begin_here(tag))
            }
            _ => Step::Run(self.begin_here(tag)),
        }
    }

    /// Gives an owner a lane.
    fn lane_for(&mut self, at: usize) -> StartStep {
        if let Some(lane) = self.free_lanes.pop() {
            self.owners[at].lane = Some(lane.clone());
            StartStep::Enter(lane)
        } else if self.lanes < LANES_MAX {
            self.lanes += 1;
            StartStep::MakeLane
        } else {
            StartStep::Done
        }
    }

    /// For a thread that starts what it has submitted.
    pub(super) fn start_step(&mut self, thread: ThreadId) -> StartStep {
        let Some(at) = self.owners.iter().position(|o| o.thread == thread && !o.new.is_empty()) else {
            return StartStep::Done;
        };
        if let Some(lane) = &self.owners[at].lane {
            return StartStep::Enter(lane.clone());
        }
        match self.deep {
            DeepReads::Ring => self.lane_for(at),
            DeepReads::Threads => {
                let new = std::mem::take(&mut self.owners[at].new);
                self.queue.extend(new);
                self.release(at);
                StartStep::Queued
            }
            DeepReads::OneByOne => StartStep::Done,
        }
    }

    /// Moves new reads of a lane's owner into its ring, as far as there is room.
    pub(super) fn begin_new(&mut self, lane: &Arc<Lane>, room: usize) -> Vec<(u64, Request)> {
        let is_owner = |o: &Owner| o.lane.as_ref().is_some_and(|l| Arc::ptr_eq(l, lane));
        let at = self.owners.iter().position(is_owner);
        at.map_or_else(Vec::new, |at| self.begin_in_ring(at, None, room))
    }

    /// For the waiter that holds the lane's ring, which has room for `room` more reads.
    pub(super) fn step_in(&mut self, tag: u64, lane: &Arc<Lane>, room: usize) -> RingStep {
        if let Some(completion) = self.take_done(tag) {
            return RingStep::Return(completion);
        }
        let Some(at) = self.owners.iter().position(|o| o.lane.as_ref().is_some_and(|l| Arc::ptr_eq(l, lane)))
        else {
            return RingStep::Leave;
        };
        let is_ours = match &self.slots[&tag] {
            Slot::Waiting { owner, .. } | Slot::InRing { owner } => *owner == self.owners[at].thread,
            _ => false,
        };
        if !is_ours {
            return RingStep::Leave;
        }
        let started = self.begin_in_ring(at, Some(tag), room);
        if matches!(self.slots[&tag], Slot::Waiting { .. }) {
            debug_assert!(started.is_empty(), "this read goes first");
            return RingStep::Run(self.begin_here(tag));
        }
        RingStep::Wait(started)
    }

    /// Moves new reads of an owner into its ring, `first` before the others, as far as there is room.
    fn begin_in_ring(&mut self, at: usize, first: Option<u64>, room: usize) -> Vec<(u64, Request)> {
        let owner = &mut self.owners[at];
        let mut started = Vec::new();
        let head = first.filter(|first| owner.new.binary_search(first).is_ok());
        let others = owner.new.iter().copied().filter(|&tag| Some(tag) != first);
        for tag in head.into_iter().chain(others).take(room) {
            let Some(Slot::Waiting { request, .. }) = self.slots.get(&tag) else { continue };
            let len_bytes = request.len_bytes();
            if self.held_bytes + len_bytes > HELD_BYTES_MAX {
                break;
            }
            self.held_bytes += len_bytes;
            started.push((tag, request.clone()));
            self.slots.insert(tag, Slot::InRing { owner: owner.thread });
        }
        for (tag, _) in &started {
            owner.forget_new(*tag);
        }
        owner.in_ring += started.len();
        started
    }

    /// Takes a read that has not begun out of the table: its waiter carries it out.
    fn begin_here(&mut self, tag: u64) -> Request {
        let Some(Slot::Waiting { request, owner }) = self.slots.remove(&tag) else {
            unreachable!("looked at just now")
        };
        if let Some(at) = self.owners.iter().position(|o| o.thread == owner) {
            self.owners[at].forget_new(tag);
            self.release(at);
        }
        request
    }

    /// For a helper thread: takes a queued read that has not begun, if there is room for its buffer.
    pub(super) fn begin_queued(&mut self) -> Option<(u64, Request)> {
        while let Some(&tag) = self.queue.front() {
            let Some(Slot::Waiting { request, .. }) = self.slots.get(&tag) else {
                self.queue.pop_front();
                continue;
            };
            let request = request.clone();
            if self.held_bytes + request.len_bytes() > HELD_BYTES_MAX {
                return None;
            }
            self.held_bytes += request.len_bytes();
            self.queue.pop_front();
            self.slots.insert(tag, Slot::Helped);
            return Some((tag, request));
        }
        None
    }

    /// An upper bound for the queued reads that have not begun; 0 if there are none.
    pub(super) fn queued(&mut self) -> usize {
        while let Some(tag) = self.queue.front()
            && !matches!(self.slots.get(tag), Some(Slot::Waiting { .. }))
        {
            self.queue.pop_front();
        }
        self.queue.len()
    }

    /// Keeps the completion of a read of `len_bytes` that ran in a ring or on a helper thread.
    pub(super) fn finish(&mut self, tag: u64, len_bytes: u64, completion: Completion) {
        // A failed read holds no buffer.
        let held_bytes = if completion.is_ok() { len_bytes } else { 0 };
        self.held_bytes -= len_bytes - held_bytes;
        let before = self.slots.insert(tag, Slot::Done { completion, held_bytes });
        let Some(Slot::InRing { owner: thread }) = before else { return };
        if let Some(at) = self.owners.iter().position(|o| o.thread == thread) {
            self.owners[at].in_ring -= 1;
            self.release(at);
        }
    }

    fn take_done(&mut self, tag: u64) -> Option<Completion> {
        match self.slots.remove(&tag)? {
            Slot::Done { completion, held_bytes } => {
                self.held_bytes -= held_bytes;
                Some(completion)
            }
            other => {
                self.slots.insert(tag, other);
                None
            }
        }
    }

    /// Frees the lane of an owner that has nothing in it, and forgets an owner that has nothing at all.
    fn release(&mut self, at: usize) {
        let owner = &mut self.owners[at];
        if owner.in_ring == 0 && owner.new.is_empty() {
            self.free_lanes.extend(owner.lane.take());
            self.spare = self.owners.swap_remove(at).new;
        }
    }

    /// After [`Step::MakeLane`]: the new ring, or that the system has none.
    pub(super) fn lane_made(&mut self, lane: Option<Arc<Lane>>) {
        match lane {
            Some(lane) => self.free_lanes.push(lane),
            None => self.rings_failed(),
        }
    }

    /// The system refuses rings, or one of them failed: use helper threads from now on.
    pub(super) fn rings_failed(&mut self) {
        if self.deep == DeepReads::Ring {
            self.deep = DeepReads::Threads;
        }
    }

    /// A lane's ring is gone, and its reads ended elsewhere: the lane is not used again.
    pub(super) fn lane_failed(&mut self, lane: &Arc<Lane>) {
        self.rings_failed();
        self.free_lanes.retain(|l| !Arc::ptr_eq(l, lane));
        for owner in &mut self.owners {
            owner.lane.take_if(|l| Arc::ptr_eq(l, lane));
        }
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    #[cfg(test)]
    pub(super) fn not_begun(&self) -> usize {
        self.slots.values().filter(|slot| matches!(slot, Slot::Waiting { .. })).count()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.owners.is_empty() && self.held_bytes == 0
    }
}
