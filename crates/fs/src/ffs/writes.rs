//! `Writes`: queued writes, their order, and which of them are durable.
//!
//! A write has its bytes from the moment when it is queued, and waits for earlier writes only: so there are no cycles. It waits until
//! those named by its caller are *durable*, and until those to the same blocks have *landed* (the device has completed them).
//! Completed writes are durable after a flush that was handed out later. A flush is handed out if a queued write waits for a completed
//! one, or if everything up to a wanted ticket has landed.
//!
//! Invariants: write n is durable only if a flush began after it had landed; [`Writes::durable`] is the largest n for which all
//! writes up to n are. After a failure no job is handed out.
//!
//! Callers: `writing` queues, `engine` hands out and reports.

use super::base::WriteId;
use super::release::Freed;
use crate::engine::{Job, JobId, Prepare};
use crate::mutation::{Mutation, is_on};
use crate::store::{BlockKey, Buf};
use firnfs_device::{AlignedBuf, Request};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Completed writes whose places are remembered, to recognise bytes that were read before them.
const COMPLETED_MAX: usize = 1024;

/// The block that a write wrote; it may be evicted once the write has landed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// A block of a file.
    Block(BlockKey),
    /// A block of the inode table.
    InodeBlock(u32),
    /// A group's descriptor.
    Group(u32),
}

/// A write to be queued.
#[derive(Default)]
pub struct NewWrite {
    /// Place on the device, in bytes.
    pub at_bytes: u64,
    /// The bytes: of each buffer, that many.
    pub parts: Vec<(Buf, usize)>,
    /// Numbers of the blocks of the volume that it touches.
    pub blocks: std::ops::Range<u32>,
    /// Writes that must be durable before.
    pub after: Vec<WriteId>,
    /// What it writes.
    pub subjects: Vec<Subject>,
    /// Targets that are free once it is durable.
    pub frees: Vec<Freed>,
    /// The device has to prove first that nobody else writes to it ([`Job::is_fenced`]).
    pub is_fenced: bool,
}

#[derive(Clone, Debug)]
struct Body {
    at_bytes: u64,
    parts: Vec<(Buf, usize)>,
    is_fenced: bool,
}

impl Prepare for Body {
    fn request(&self) -> Request {
        let len_bytes: usize = self.parts.iter().map(|part| part.1).sum();
        let mut data = AlignedBuf::scratch(len_bytes);
        let mut at = 0;
        for (buf, len) in &self.parts {
            data[at..at + len].copy_from_slice(&buf[..*len]);
            at += len;
        }
        Request::Write { at_bytes: self.at_bytes, data: data.into() }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Until {
    Landed,
    Durable,
}

#[derive(PartialEq, Eq, Debug)]
enum State {
    /// Waits for that many others.
    Queued(usize),
    Writing,
    Landed,
}

struct Entry {
    state: State,
    body: Arc<Body>,
    len_bytes: u64,
    blocks: std::ops::Range<u32>,
    subjects: Vec<Subject>,
    frees: Vec<Freed>,
    wakes: Vec<(WriteId, Until)>,
}

enum Doing {
    Write(WriteId),
    Flush(Vec<WriteId>),
}

/// What the completion of a job means to the store.
#[derive(Default)]
pub struct Finished {
    /// A write has landed, and with it these.
    pub landed: Option<(WriteId, Vec<Subject>)>,
    /// This is free now.
    pub freed: Vec<Freed>,
}

/// See the module's head.
#[derive(Default)]
pub struct Writes {
    entries: BTreeMap<WriteId, Entry>,
    last: u64,
    next_job: u64,
    ready: BTreeSet<WriteId>,
    not_landed: BTreeSet<WriteId>,
    /// Landed writes, not durable yet, that others wait for.
    awaited: BTreeSet<WriteId>,
    jobs: BTreeMap<JobId, Doing>,
    wanted: WriteId,
    /// The last write of content that nobody waits for.
    behind: WriteId,
    flushing: bool,
    /// The last write to a block that has not landed.
    last_at: FxHashMap<u32, WriteId>,
    pending_bytes: u64,
    /// Completed writes: how many, and the places of the last of them.
    completed: u64,
    completed_at: VecDeque<(u64, u64)>,
    stopped: bool,
}

impl Writes {
    /// Queues a write.
    pub fn push(&mut self, new: NewWrite) -> WriteId {
        self.last += 1;
        let id = WriteId(self.last);
        let mut waits = 0;
        let mut wait = |entries: &mut BTreeMap<WriteId, Entry>, before: WriteId, until: Until| {
            let Some(entry) = entries.get_mut(&before) else { return false };
            if until == Until::Landed && entry.state == State::Landed {
                return false;
            }
            entry.wakes.push((id, until));
            waits += 1;
            until == Until::Durable && entry.state == State::Landed
        };
        let after = if is_on(Mutation::UnorderedWrites) { &[][..] } else { &new.after };
        for &before in after {
            if wait(&mut self.entries, before, Until::Durable) {
                self.awaited.insert(before);
            }
        }
        for block in new.blocks.clone() {
            if let Some(before) = self.last_at.insert(block, id) {
                wait(&mut self.entries, before, Until::Landed);
            }
        }
        let len_bytes = new.parts.iter().map(|part| part.1 as u64).sum();
        self.pending_bytes += len_bytes;
        let entry = Entry {
            state: State::Queued(waits),
            body: Arc::new(Body { at_bytes: new.at_bytes, parts: new.parts, is_fenced: new.is_fenced }),
            len_bytes,
            blocks: new.blocks,
            subjects: new.subjects,
            frees: new.frees,
            wakes: Vec::new(),
        };
        self.entries.insert(id, entry);
        self.not_landed.insert(id);
        if waits == 0 {
            self.ready.insert(id);
        }
        id
    }

    /// The last write that was queued.
    pub fn last(&self) -> WriteId {
        WriteId(self.last)
    }

    /// All writes that are not durable.
    pub fn pending(&self) -> Vec<WriteId> {
        self.entries.keys().copied().collect()
    }

    /// All writes up to this one are durable.
    pub fn durable(&self) -> WriteId {
        self.entries.keys().next().map_or(WriteId(self.last), |first| WriteId(first.0 - 1))
    }

    /// Asks for a flush up to that write.
    pub fn want(&mut self, id: WriteId) {
        self.wanted = self.wanted.max(id);
    }

    /// Notes that the last write is content that nobody waits for: the device should begin with it now.
    pub fn start_last(&mut self) {
        self.behind = self.last();
    }

    /// True if content that nobody waits for could be handed out, or what it comes after: the first content after a mount comes after
    /// the mark that the volume is in use.
    pub fn wants_start(&self) -> bool {
        let behind = self.entries.get(&self.behind);
        let is_queued = behind.is_some_and(|entry| matches!(entry.state, State::Queued(_)));
        !self.stopped && is_queued && (!self.ready.is_empty() || self.can_flush())
    }

    /// Bytes of writes that have not landed.
    pub fn pending_bytes(&self) -> u64 {
        self.pending_bytes
    }

    /// True if no job is under way and none is left.
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.not_landed.is_empty() && self.durable() >= self.wanted
    }

    /// True after a failure.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// A number for everything read from now on: see [`Self::is_stale`].
    pub fn stamp(&self) -> u64 {
        self.completed
    }

    /// True if bytes that were asked for at `stamp` may be older than a write to their place since.
    pub fn is_stale(&self, stamp: u64, at_bytes: u64, len_bytes: u64) -> bool {
        let oldest = self.completed - self.completed_at.len() as u64;
        if stamp < oldest {
            return true;
        }
        let since = self.completed_at.iter().skip((stamp - oldest) as usize);
        let overlaps = |&&(start, end): &&(u64, u64)| start < at_bytes + len_bytes && at_bytes < end;
        since.clone().any(|place| overlaps(&place))
    }

    /// The next request for the device, if one may be handed out now.
    pub fn next(&mut self) -> Option<Job> {
        if self.stopped {
            return None;
        }
        if let Some(id) = self.ready.pop_first() {
            let entry = self.entries.get_mut(&id).expect("what is ready is queued");
            entry.state = State::Writing;
            let body = entry.body.clone();
            let is_fenced = body.is_fenced;
            let job = Job::later(self.start(Doing::Write(id)), body);
            return Some(if is_fenced { job.fenced() } else { job });
        }
        if !self.can_flush() {
            return None;
        }
        self.flushing = true;
        let covered = self.entries.iter().filter(|(_, entry)| entry.state == State::Landed);
        let covered = covered.map(|(id, _)| *id).collect();
        Some(Job::ready(self.start(Doing::Flush(covered)), Request::Flush))
    }

    /// True if somebody waits for a flush, and none is under way.
    fn can_flush(&self) -> bool {
        let all_landed = self.not_landed.first().is_none_or(|first| *first > self.wanted);
        let asked = self.wanted > self.durable() && all_landed;
        !self.flushing && (asked || !self.awaited.is_empty())
    }

    fn start(&mut self, doing: Doing) -> JobId {
        self.next_job += 1;
        let id = JobId(self.next_job);
        self.jobs.insert(id, doing);
        id
    }

    /// A job has succeeded.
    pub fn done(&mut self, job: JobId) -> Finished {
        match self.jobs.remove(&job) {
            Some(Doing::Write(id)) => self.landed(id),
            Some(Doing::Flush(covered)) => {
                self.flushing = false;
                self.flushed(&covered)
            }
            None => Finished::default(),
        }
    }

    fn landed(&mut self, id: WriteId) -> Finished {
        let Some(entry) = self.entries.get_mut(&id) else { return Finished::default() };
        entry.state = State::Landed;
        self.pending_bytes -= entry.len_bytes;
        self.not_landed.remove(&id);
        let (at_bytes, len_bytes) = (entry.body.at_bytes, entry.len_bytes);
        entry.body = Arc::new(Body { at_bytes, parts: Vec::new(), is_fenced: false });
        let subjects = std::mem::take(&mut entry.subjects);
        let (now, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut entry.wakes).into_iter().partition(|wake| wake.1 == Until::Landed);
        if !later.is_empty() {
            self.awaited.insert(id);
        }
        entry.wakes = later;
        for block in entry.blocks.clone() {
            if self.last_at.get(&block) == Some(&id) {
                self.last_at.remove(&block);
            }
        }
        now.into_iter().for_each(|(waiting, _)| self.wake(waiting));
        self.completed += 1;
        self.completed_at.push_back((at_bytes, at_bytes + len_bytes));
        if self.completed_at.len() > COMPLETED_MAX {
            self.completed_at.pop_front();
        }
        Finished { landed: Some((id, subjects)), freed: Vec::new() }
    }

    fn flushed(&mut self, covered: &[WriteId]) -> Finished {
        let mut freed = Vec::new();
        for id in covered {
            self.awaited.remove(id);
            let Some(entry) = self.entries.remove(id) else { continue };
            freed.extend(entry.frees);
            entry.wakes.into_iter().for_each(|(waiting, _)| self.wake(waiting));
        }
        Finished { landed: None, freed }
    }

    fn wake(&mut self, id: WriteId) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if let State::Queued(waits) = &mut entry.state {
            *waits -= 1;
            if *waits == 0 {
                self.ready.insert(id);
            }
        }
    }

    /// A job has failed: nothing is written from now on.
    pub fn failed(&mut self, job: JobId) {
        self.jobs.remove(&job);
        self.stopped = true;
    }
}
