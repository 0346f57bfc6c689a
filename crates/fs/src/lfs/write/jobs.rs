//! Work for the device: the writes, flushes and discards that the core needs, and which serials are durable.
//!
//! Invariants: serial n is durable only when all serials up to n are written and a flush began after that. A checkpoint
//! slot is written only after everything it refers to is durable, and counts only after a flush of its own. Slots are the
//! one fence of a writer: nothing else makes its log the volume's truth, for roll-forward accepts only what the incarnation in
//! a slot wrote. A mount writes its incarnation to both slots before anything else, and each slot is handed out fenced. Segments
//! are discarded only after the checkpoint that no longer needs them is durable. After a failure no request is handed out until
//! [`Jobs::go_on`], and after a failed flush none at all: a device that lost data it had accepted may well report success for
//! the next flush.

use crate::engine::{Job, JobId, Prepare};
use crate::lfs::map::parcel::Parcel;
use crate::mutation::{Mutation, is_on};
use crate::store::Ticket;
use firnfs_device::{AlignedBuf, Request};
use firnfs_format::{Epoch, SectorAddr, Serial};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What a finished job means to the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Landed {
    /// A partial segment is written.
    Partial(SectorAddr),
    /// That checkpoint is durable.
    Checkpoint(Epoch),
    /// Nothing to do.
    Nothing,
}

enum Doing {
    Partial(Queued),
    Flush { through: Serial, slot: Option<Epoch> },
    Slot,
    Discard { at_bytes: u64 },
}

/// A partial segment that is put together when it is written.
#[derive(Debug)]
struct SegmentWrite {
    at_bytes: u64,
    parcel: Arc<Parcel>,
}

impl Prepare for SegmentWrite {
    fn request(&self) -> Request {
        Request::Write { at_bytes: self.at_bytes, data: self.parcel.gather() }
    }
}

/// A partial segment to be written.
struct Queued {
    serial: Serial,
    addr: SectorAddr,
    at_bytes: u64,
    parcel: Arc<Parcel>,
}

struct Slot {
    after: Serial,
    epoch: Epoch,
    at_bytes: u64,
    data: Arc<AlignedBuf>,
    state: SlotState,
}

#[derive(PartialEq, Eq)]
enum SlotState {
    Waiting,
    Writing,
    Written,
}

/// See the module's head.
#[derive(Default)]
pub struct Jobs {
    next_id: u64,
    partials: VecDeque<Queued>,
    doing: BTreeMap<JobId, Doing>,
    /// Serials laid out but not yet written, in order.
    unwritten: BTreeMap<Serial, u64>,
    last: Serial,
    durable: Serial,
    wanted: Serial,
    flushing: bool,
    slot: Option<Slot>,
    discards: VecDeque<(u64, u64)>,
    /// All discards that are not complete: the end of each by its start.
    discarding: BTreeMap<u64, u64>,
    /// How long they are together.
    discarding_bytes: u64,
    in_flight_bytes: u64,
    /// Partial segments wait until the mount's incarnation is durable.
    partials_held: bool,
    /// A write or flush of the log failed.
    stopped: bool,
    /// A flush failed: data that the device had accepted may be lost without a trace.
    flush_failed: bool,
}

impl Jobs {
    /// For a log with that last durable serial. Partial segments are held back until [`Self::release_partials`].
    pub fn new(durable: Serial) -> Self {
        Self { last: durable, durable, wanted: durable, partials_held: true, ..Self::default() }
    }

    /// The mount's incarnation is durable: partial segments may be written.
    pub fn release_partials(&mut self) {
        self.partials_held = false;
    }

    /// Bytes of partial segments not yet written.
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    /// Highest durable serial.
    pub fn durable(&self) -> Ticket {
        Ticket(self.durable.0)
    }

    /// Highest durable serial.
    pub fn durable_serial(&self) -> Serial {
        self.durable
    }

    /// Asks for a flush up to that serial.
    pub fn want(&mut self, serial: Serial) {
        self.wanted = self.wanted.max(serial);
    }

    /// Queues a partial segment.
    pub fn push_partial(&mut self, serial: Serial, addr: SectorAddr, at_bytes: u64, parcel: Arc<Parcel>) {
        self.in_flight_bytes += parcel.len_bytes() as u64;
        self.unwritten.insert(serial, parcel.len_bytes() as u64);
        self.last = self.last.max(serial);
        self.partials.push_back(Queued { serial, addr, at_bytes, parcel });
    }

    /// Queues a checkpoint slot, to be written once `after` is durable.
    pub fn push_slot(&mut self, after: Serial, epoch: Epoch, at_bytes: u64, data: Arc<AlignedBuf>) {
        assert!(self.slot.is_none(), "one checkpoint at a time");
        self.want(after);
        self.slot = Some(Slot { after, epoch, at_bytes, data, state: SlotState::Waiting });
    }

    /// True while a checkpoint is on its way.
    pub fn checkpoint_under_way(&self) -> bool {
        self.slot.is_some()
    }

    /// Queues a discard of bytes on the device; no other has any of them.
    pub fn push_discard(&mut self, at_bytes: u64, len_bytes: u64) {
        debug_assert!(
            !self.is_discarding(at_bytes) && !self.is_discarding(at_bytes + len_bytes - 1),
            "one discard of a byte at a time"
        );
        self.discards.push_back((at_bytes, len_bytes));
        self.discarding.insert(at_bytes, at_bytes + len_bytes);
        self.discarding_bytes += len_bytes;
    }

    /// The discard that begins at that place, if there is one, is over.
    fn discarded(&mut self, at_bytes: u64) {
        if let Some(end_bytes) = self.discarding.remove(&at_bytes) {
            self.discarding_bytes -= end_bytes - at_bytes;
        }
    }

    /// True while a discard that covers this place is queued or under way: a write there could get lost.
    pub fn is_discarding(&self, at_bytes: u64) -> bool {
        self.discarding.range(..=at_bytes).next_back().is_some_and(|(_, &end_bytes)| at_bytes < end_bytes)
    }

    /// True while a discard from that place on is queued or under way.
    pub fn is_discarding_from(&self, at_bytes: u64) -> bool {
        self.discarding.values().any(|&end_bytes| end_bytes > at_bytes)
    }

    /// Bytes of all discards that are queued or under way.
    pub fn discarding_bytes(&self) -> u64 {
        self.discarding_bytes
    }

    /// True while any discard is in line or under way.
    pub fn discards(&self) -> bool {
        !self.discarding.is_empty()
    }

    /// All serials up to this one are written.
    fn written(&self) -> Serial {
        let first = self.unwritten.keys().next().filter(|_| !is_on(Mutation::FlushBeforeWritten));
        first.map_or(self.last, |first| Serial(first.0 - 1))
    }

    /// The next thing to do now; `None` if there is nothing, or if it has to wait for jobs under way.
    pub fn next(&mut self) -> Option<Job> {
        if self.stopped {
            return None;
        }
        let held = self.partials_held && !is_on(Mutation::LogBeforeIncarnation);
        if !held && let Some(queued) = self.partials.pop_front() {
            let segment_write = SegmentWrite { at_bytes: queued.at_bytes, parcel: queued.parcel.clone() };
            let id = self.start(Doing::Partial(queued));
            return Some(Job::later(id, Arc::new(segment_write)));
        }
        if let Some(job) = self.next_slot_write() {
            return Some(job);
        }
        let written = self.written();
        let slot = self.slot.as_ref().filter(|s| s.state == SlotState::Written).map(|s| s.epoch);
        let asked =
            self.wanted > self.durable && written >= self.wanted.min(self.last) && written > self.durable;
        if !self.flushing && (asked || slot.is_some()) {
            self.flushing = true;
            return Some(Job::ready(self.start(Doing::Flush { through: written, slot }), Request::Flush));
        }
        let (at_bytes, len_bytes) = self.discards.pop_front()?;
        let request = Request::Discard { at_bytes, len_bytes };
        Some(Job::ready(self.start(Doing::Discard { at_bytes }), request))
    }

    fn next_slot_write(&mut self) -> Option<Job> {
        let slot = self.slot.as_mut()?;
        let too_early = self.durable < slot.after && !is_on(Mutation::SlotBeforeLog);
        if slot.state != SlotState::Waiting || too_early {
            return None;
        }
        slot.state = SlotState::Writing;
        let (at_bytes, data) = (slot.at_bytes, slot.data.clone());
        Some(Job::ready(self.start(Doing::Slot), Request::Write { at_bytes, data: data.into() }).fenced())
    }

    fn start(&mut self, doing: Doing) -> JobId {
        self.next_id += 1;
        let id = JobId(self.next_id);
        self.doing.insert(id, doing);
        id
    }

    /// True if neither a job nor work for one is left.
    pub fn is_idle(&self) -> bool {
        self.doing.is_empty() && self.partials.is_empty() && self.slot.is_none() && self.discards.is_empty()
    }

    /// A job succeeded.
    pub fn done(&mut self, id: JobId) -> Landed {
        match self.doing.remove(&id) {
            Some(Doing::Partial(queued)) => {
                let bytes = self.unwritten.remove(&queued.serial).unwrap_or(0);
                self.in_flight_bytes -= bytes;
                Landed::Partial(queued.addr)
            }
            Some(Doing::Flush { through, slot }) => {
                self.flushing = false;
                self.durable = self.durable.max(through);
                let Some(epoch) = slot else { return Landed::Nothing };
                self.slot = None;
                Landed::Checkpoint(epoch)
            }
            Some(Doing::Slot) => {
                if let Some(slot) = &mut self.slot {
                    slot.state = SlotState::Written;
                }
                Landed::Nothing
            }
            Some(Doing::Discard { at_bytes }) => {
                self.discarded(at_bytes);
                Landed::Nothing
            }
            None => Landed::Nothing,
        }
    }

    /// After a failure, once nothing is under way: hands out again the failed request, and all that were held back. `false` if
    /// a flush failed: a device that lost data it had accepted may well report success for the next flush.
    pub fn go_on(&mut self) -> bool {
        let may = !self.flush_failed && self.doing.is_empty();
        self.stopped &= !may;
        may
    }

    /// True after a failure.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// True if no job is under way.
    pub fn is_still(&self) -> bool {
        self.doing.is_empty()
    }

    /// A job failed; what it was to write is kept for [`Self::go_on`]. Returns false if that harms nothing (a discard).
    pub fn failed(&mut self, id: JobId) -> bool {
        match self.doing.remove(&id) {
            Some(Doing::Discard { at_bytes }) => {
                self.discarded(at_bytes);
                false
            }
            None => false,
            Some(log) => {
                self.stopped = true;
                match log {
                    Doing::Partial(queued) => {
                        let at = self.partials.partition_point(|other| other.serial < queued.serial);
                        self.partials.insert(at, queued);
                    }
                    Doing::Slot => {
                        self.slot.iter_mut().for_each(|slot| slot.state = SlotState::Waiting);
                    }
                    Doing::Flush { .. } | Doing::Discard { .. } => {
                        self.flushing = false;
                        self.flush_failed = true;
                    }
                }
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discards_count_until_each_is_over() {
        let mut jobs = Jobs::new(Serial(0));
        jobs.push_discard(0, 100);
        jobs.push_discard(300, 200);
        assert_eq!(jobs.discarding_bytes(), 300);
        let ids: Vec<JobId> = std::iter::from_fn(|| jobs.next()).map(|job| job.id).collect();
        assert_eq!(jobs.done(ids[0]), Landed::Nothing);
        assert!(jobs.discarding_bytes() == 200 && !jobs.is_discarding(50) && jobs.is_discarding(499));
        assert!(!jobs.failed(ids[1]));
        assert!(jobs.discarding_bytes() == 0 && !jobs.discards());
    }
}
