//! `TimedDisk`: a device whose requests take virtual time according to a model of a disk, and which never loses data.
//!
//! A request may be posted: the disk works on it while the clock moves for other reasons; a caller that waits for it moves the
//! clock to its end, or sleeps until then if threads take turns ([`crate::Turns`]). The host splits long requests into
//! commands. Commands wait in a queue; the model's order decides which is served next among those that have arrived when the
//! disk is free. A flush keeps its place: nothing overtakes it. Content changes when a request is submitted.
//!
//! Whenever the disk is used, it first computes the work done since the last use. If the order is that of arrival, a later
//! request cannot change anything, so times are computed at once.
//!
//! Callers: the lab's benches in virtual time, the tests of bursts and stalls.

use crate::clock::VirtualClock;
use crate::disk::order::Order;
use crate::disk::{Command, DiskModel, DiskParams, Lbn, SECTOR_BYTES, Service, Work};
use crate::turns::Turns;
use firnfs_device::{Clock, Completion, Counts, Device, DeviceError, Geometry, Request, Tag};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};

/// Longest command, in sectors, that counts as short: the read of a block, not a part of a longer one.
const SHORT_SECTORS: u64 = 32;

/// Where the time of commands went. In nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spent {
    /// Moving the arm, or switching heads.
    pub seek_ns: i64,
    /// Waiting for the first sector.
    pub rotation_ns: i64,
    /// Moving bytes: on the media, and on the bus where nothing else overlaps that.
    pub transfer_ns: i64,
    /// The controller's overhead, and waiting inside the disk.
    pub other_ns: i64,
}

impl Spent {
    /// All of it.
    #[must_use]
    pub fn total_ns(&self) -> i64 {
        self.seek_ns + self.rotation_ns + self.transfer_ns + self.other_ns
    }

    fn add(&mut self, service: &Service) {
        self.seek_ns += service.seek_ns;
        self.rotation_ns += service.rotation_ns;
        self.transfer_ns += service.media_ns + service.bus_ns;
        self.other_ns += service.controller_ns + service.wait_ns;
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            seek_ns: self.seek_ns - earlier.seek_ns,
            rotation_ns: self.rotation_ns - earlier.rotation_ns,
            transfer_ns: self.transfer_ns - earlier.transfer_ns,
            other_ns: self.other_ns - earlier.other_ns,
        }
    }
}

/// The work of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskWork {
    /// Commands for which the arm moved to another cylinder; 0 on a disk whose seeks take no time.
    pub seeks: u64,
    /// Requests and their bytes.
    pub asked: Counts,
    /// Commands that requests were split into.
    pub commands: u64,
    /// Reads that the disk's buffer served, and writes that it took.
    pub hits: u64,
    /// Time it was busy, in nanoseconds.
    pub busy_ns: i64,
    /// Time of reads of up to 16 KiB.
    pub short_reads: Spent,
    /// Time of longer reads.
    pub long_reads: Spent,
    /// Time of writes.
    pub writes: Spent,
}

impl DiskWork {
    /// The difference from an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            seeks: self.seeks - earlier.seeks,
            asked: self.asked.since(&earlier.asked),
            commands: self.commands - earlier.commands,
            hits: self.hits - earlier.hits,
            busy_ns: self.busy_ns - earlier.busy_ns,
            short_reads: self.short_reads.since(&earlier.short_reads),
            long_reads: self.long_reads.since(&earlier.long_reads),
            writes: self.writes.since(&earlier.writes),
        }
    }
}

/// How the host changes requests on their way to the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Host {
    /// Longest command, in bytes.
    pub transfer_max_bytes: u64,
    /// Time between the end of a command and the start of the next one that waits, in nanoseconds: interrupt and driver.
    pub turnaround_ns: i64,
}

impl Default for Host {
    /// Splits nothing and takes no time.
    fn default() -> Self {
        Self { transfer_max_bytes: u64::MAX, turnaround_ns: 0 }
    }
}

/// A command that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    command: Command,
    arrival_ns: i64,
    request: u64,
}

/// A request that nobody has waited for.
#[derive(Clone, Copy, Debug)]
struct Pending {
    commands_left: u64,
    end_ns: i64,
}

struct Queue {
    model: DiskModel,
    host: Host,
    /// In order of arrival.
    waiting: VecDeque<Waiting>,
    /// By number of the request.
    pending: BTreeMap<u64, Pending>,
    tags: BTreeMap<Tag, u64>,
    next_request: u64,
    /// Where the last command ended.
    position: Lbn,
    /// Up to when the disk has been busy.
    busy_until_ns: i64,
    work: DiskWork,
}

impl Queue {
    /// Appends a request; returns its number.
    fn append(&mut self, request: &Request, now_ns: i64) -> u64 {
        self.work.asked.add(request);
        let commands = commands(request, self.host.transfer_max_bytes);
        let number = self.next_request;
        self.next_request += 1;
        self.pending.insert(number, Pending { commands_left: commands.len() as u64, end_ns: now_ns });
        let waiting =
            commands.into_iter().map(|command| Waiting { command, arrival_ns: now_ns, request: number });
        self.waiting.extend(waiting);
        number
    }

    /// When the next command starts; `None` if none waits.
    fn next_start_ns(&self) -> Option<i64> {
        let first = self.waiting.front()?;
        let free_ns = self.model.free_at_ns().saturating_add(self.host.turnaround_ns);
        Some(first.arrival_ns.max(free_ns))
    }

    /// Serves every command that starts by `now_ns`.
    fn catch_up(&mut self, now_ns: i64) {
        while let Some(start_ns) = self.next_start_ns().filter(|start_ns| *start_ns <= now_ns) {
            self.serve_next(start_ns);
        }
    }

    /// Serves commands until a request is complete, as if no other ones came; returns its end.
    fn settle(&mut self, request: u64) -> i64 {
        while self.pending[&request].commands_left > 0
            && let Some(start_ns) = self.next_start_ns()
        {
            self.serve_next(start_ns);
        }
        self.pending[&request].end_ns
    }

    fn serve_next(&mut self, start_ns: i64) {
        let arrived = self.waiting.iter().take_while(|waiting| waiting.arrival_ns <= start_ns);
        // Flushes separate the commands before from those after them.
        let eligible = arrived.take_while(|waiting| waiting.command.work != Work::Flush);
        let next = self.model.order().next(eligible.map(|waiting| waiting.command.lbn), self.position);
        let Some(waiting) = self.waiting.remove(next.unwrap_or(0)) else { return };
        let service = self.model.serve(&waiting.command, start_ns);
        if matches!(waiting.command.work, Work::Read | Work::Write) {
            self.position = Lbn(waiting.command.lbn.0 + waiting.command.sectors);
        }
        self.note(&waiting.command, &service);
        if let Some(pending) = self.pending.get_mut(&waiting.request) {
            pending.commands_left -= 1;
            pending.end_ns = pending.end_ns.max(service.end_ns());
        }
    }

    fn note(&mut self, command: &Command, service: &Service) {
        match command.work {
            Work::Read if command.sectors <= SHORT_SECTORS => self.work.short_reads.add(service),
            Work::Read => self.work.long_reads.add(service),
            Work::Write => self.work.writes.add(service),
            Work::Flush | Work::Discard => {}
        }
        self.work.commands += 1;
        self.work.seeks += u64::from(service.distance > 0);
        self.work.hits += u64::from(service.is_hit);
        let from_ns = service.start_ns.max(self.busy_until_ns);
        self.work.busy_ns = self.work.busy_ns.saturating_add((service.end_ns() - from_ns).max(0));
        self.busy_until_ns = self.busy_until_ns.max(service.end_ns());
    }
}

/// The commands of a request.
fn commands(request: &Request, max_bytes: u64) -> Vec<Command> {
    let (at_bytes, len_bytes) = (request.at_bytes(), request.len_bytes());
    let command = |work, from_bytes: u64, to_bytes: u64| {
        let lbn = from_bytes / SECTOR_BYTES;
        Command { work, lbn: Lbn(lbn), sectors: to_bytes.div_ceil(SECTOR_BYTES) - lbn }
    };
    let work = match request {
        Request::Read { .. } => Work::Read,
        Request::Write { .. } => Work::Write,
        Request::Flush => return vec![Command { work: Work::Flush, lbn: Lbn(0), sectors: 0 }],
        Request::Discard { .. } => return vec![command(Work::Discard, at_bytes, at_bytes + len_bytes)],
    };
    let end_bytes = at_bytes + len_bytes;
    let starts = std::iter::successors(Some(at_bytes), |at| at.checked_add(max_bytes));
    starts
        .take_while(|from| *from < end_bytes)
        .map(|from| command(work, from, from.saturating_add(max_bytes).min(end_bytes)))
        .collect()
}

/// See the module's head.
pub struct TimedDisk<D> {
    inner: D,
    clock: Arc<VirtualClock>,
    queue: Mutex<Queue>,
    turns: OnceLock<Arc<Turns>>,
}

impl<D: Device> TimedDisk<D> {
    /// A disk at rest that stores in `inner` and takes the time of `clock`. `model` is a [`crate::Speed`], or the model of a disk.
    pub fn new(inner: D, clock: Arc<VirtualClock>, model: impl Into<DiskModel>) -> Self {
        Self::behind(inner, clock, model.into(), Host::default())
    }

    /// The disk of a parameter file, behind a host that takes that long between two commands.
    ///
    /// # Panics
    /// If `inner` is larger than the disk.
    pub fn of(inner: D, clock: Arc<VirtualClock>, params: &DiskParams, turnaround_ns: i64) -> Self {
        let size_bytes = params.kind.size_bytes().unwrap_or(u64::MAX);
        assert!(inner.geometry().size_bytes <= size_bytes, "the device is larger than the disk");
        let transfer_max_bytes = params.transfer_max_bytes.unwrap_or(u64::MAX);
        Self::behind(inner, clock, params.model(), Host { transfer_max_bytes, turnaround_ns })
    }

    fn behind(inner: D, clock: Arc<VirtualClock>, model: DiskModel, host: Host) -> Self {
        let queue = Queue {
            model,
            host,
            waiting: VecDeque::new(),
            pending: BTreeMap::new(),
            tags: BTreeMap::new(),
            next_request: 0,
            position: Lbn(0),
            busy_until_ns: i64::MIN,
            work: DiskWork::default(),
        };
        Self { inner, clock, queue: Mutex::new(queue), turns: OnceLock::new() }
    }

    /// From now on, waiting threads sleep in turns. Only the first call counts.
    pub fn take_turns(&self, turns: Arc<Turns>) {
        self.turns.get_or_init(|| turns);
    }

    /// The work of all requests that have been submitted. Times are those of commands that have started or whose start is
    /// known.
    pub fn work(&self) -> DiskWork {
        let mut queue = self.queue.lock();
        queue.catch_up(self.clock.now_ns());
        queue.work
    }

    /// Lets the clock move to `end_ns`.
    fn pass_until(&self, end_ns: i64) {
        let left_ns = end_ns - self.clock.now_ns();
        match self.turns.get() {
            _ if left_ns <= 0 => {}
            Some(turns) if turns.takes_part() => turns.sleep_until(end_ns),
            _ => self.clock.advance_ns(left_ns),
        }
    }

    /// Lets the clock move to a request's end. Other threads may submit requests meanwhile that are served before it.
    fn pass_until_done(&self, request: u64) {
        let others_run = self.turns.get().is_some_and(|turns| turns.takes_part());
        loop {
            let mut queue = self.queue.lock();
            queue.catch_up(self.clock.now_ns());
            let pending = queue.pending[&request];
            if pending.commands_left > 0 && others_run {
                let Some(next_ns) = queue.next_start_ns() else { return };
                drop(queue);
                self.pass_until(next_ns);
                continue;
            }
            let end_ns = queue.settle(request);
            queue.pending.remove(&request);
            drop(queue);
            return self.pass_until(end_ns);
        }
    }
}

impl<D: Device> Device for TimedDisk<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, request: Request) -> Tag {
        let mut queue = self.queue.lock();
        let now_ns = self.clock.now_ns();
        queue.catch_up(now_ns);
        let is_valid = self.inner.geometry().check(&request, &self.inner.describe()).is_ok();
        let number = is_valid.then(|| queue.append(&request, now_ns));
        if queue.model.order() == Order::Arrival {
            queue.catch_up(i64::MAX);
        }
        // Under the same lock, so that the head visits places in the order in which the inner device sees them.
        let tag = self.inner.submit(request);
        if let Some(number) = number {
            queue.tags.insert(tag, number);
        }
        tag
    }

    fn start_reads(&self) {
        self.inner.start_reads();
    }
    fn wait(&self, tag: Tag) -> Completion {
        let request = self.queue.lock().tags.remove(&tag);
        if let Some(request) = request {
            self.pass_until_done(request);
        }
        self.inner.wait(tag)
    }

    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
    fn fence(&self) -> Result<(), DeviceError> {
        self.inner.fence()
    }
}

#[cfg(test)]
#[path = "timed_tests.rs"]
mod tests;
