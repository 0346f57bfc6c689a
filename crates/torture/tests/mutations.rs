//! The crash explorer sees: firnfs with one thing taken away on which recovery rests, one at a time; each must be caught.
//!
//! Some are taken away in the core (`firnfs::mutation`), some between the driver and the disk: flushes that never reach
//! it, and checksums that are made right on the way in, whatever was read.
//!
//! Not here, because a power cut cannot show it: checksums of reads (tests that flip bits), the pins of readers (tests
//! with threads), the checksum of summaries (a torn summary loses pointers, and its blocks do not match them any more),
//! and the delay before an emptied segment is written again: segments are taken in turn and the reserve is never used up,
//! so that on volumes this small none is reached within the two checkpoints of the delay. The delay before a discard, which
//! follows the same rule, is here.

use firnfs::mutation::{Mutation, choose};
use firnfs_device::{Completion, Device, Geometry, Request, SparseImage, Tag};
use firnfs_format::superblock::{CHECKPOINT_SLOTS_AT, LOG_START_BYTES};
use firnfs_torture::crash::campaign::{Finding, explore_one, mixed};
use firnfs_torture::crash::scenario::Scenario;
use firnfs_torture::crash::{Firn, Limits, Mounted, Subject};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// States to look at before a flaw counts as not caught.
const STATES_MAX: u64 = 100_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flaw {
    Core(Mutation),
    /// Flushes after a write to the log do not reach the disk.
    NoLogFlush,
    /// Flushes after a write to a checkpoint slot do not reach the disk.
    NoSlotFlush,
    /// Checkpoint slots are believed without their checksum.
    UncheckedSlots,
}

struct Mutant {
    firn: Firn,
    flaw: Flaw,
}

impl Subject for Mutant {
    fn format(&self) -> SparseImage {
        self.firn.format()
    }
    fn mount<'a>(&'a self, device: Arc<dyn Device>) -> Result<Box<dyn Mounted + 'a>, String> {
        // For this thread; everything that is done with the volume is done on it.
        choose(if let Flaw::Core(mutation) = self.flaw { Some(mutation) } else { None });
        self.firn.mount(Arc::new(FlawedDevice::new(device, self.flaw)))
    }
    fn replicated(&self) -> Vec<Range<u64>> {
        self.firn.replicated()
    }
    fn check(&self, device: Arc<dyn Device>) -> Result<(), String> {
        self.firn.check(Arc::new(FlawedDevice::new(device, self.flaw)))
    }
}

/// Passes requests on, flawed.
struct FlawedDevice {
    inner: Arc<dyn Device>,
    flaw: Flaw,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    wrote_slot: bool,
    reads: BTreeMap<Tag, u64>,
    /// Tags of flushes that were swallowed: far from those of the device.
    swallowed: BTreeSet<Tag>,
    next: u64,
}

impl FlawedDevice {
    fn new(inner: Arc<dyn Device>, flaw: Flaw) -> Self {
        Self { inner, flaw, state: Mutex::new(State { next: 1 << 63, ..State::default() }) }
    }
}

impl Device for FlawedDevice {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
    fn submit(&self, request: Request) -> Tag {
        let mut state = self.state.lock();
        match &request {
            Request::Write { at_bytes, .. } => state.wrote_slot = *at_bytes < LOG_START_BYTES,
            Request::Flush => {
                let swallowed = if state.wrote_slot { Flaw::NoSlotFlush } else { Flaw::NoLogFlush };
                if self.flaw == swallowed {
                    let tag = Tag(state.next);
                    state.next += 1;
                    state.swallowed.insert(tag);
                    return tag;
                }
            }
            Request::Read { .. } | Request::Discard { .. } => {}
        }
        let read_at = matches!(request, Request::Read { .. }).then(|| request.at_bytes());
        let tag = self.inner.submit(request);
        state.reads.extend(read_at.map(|at| (tag, at)));
        tag
    }
    fn wait(&self, tag: Tag) -> Completion {
        let read_at = {
            let mut state = self.state.lock();
            if state.swallowed.remove(&tag) {
                return Ok(None);
            }
            state.reads.remove(&tag)
        };
        let mut completion = self.inner.wait(tag)?;
        if let (Some(at_bytes), Some(data)) = (read_at, &mut completion) {
            if self.flaw == Flaw::UncheckedSlots && CHECKPOINT_SLOTS_AT.contains(&at_bytes) {
                seal_slot(data);
            }
        }
        Ok(completion)
    }
}

/// Makes a checkpoint's checksum right: CRC-32C at byte 8, over the length at byte 12.
fn seal_slot(slot: &mut [u8]) {
    let len = u32::from_le_bytes(slot[12..16].try_into().unwrap()) as usize;
    if (16..=slot.len()).contains(&len) {
        slot[8..12].fill(0);
        let crc = firnfs_format::crc32c(&slot[..len]);
        slot[8..12].copy_from_slice(&crc.to_le_bytes());
    }
}

/// The first finding, and how many states it took.
fn hunt(flaw: Flaw) -> (Option<Finding>, u64) {
    let subject = Mutant { firn: Firn::small(), flaw };
    let limits = Limits { check: false, rot_every: 3, nested_every: 10, ..Limits::default() };
    let bounded = (0..Scenario::ace_count(1)).map(|number| Scenario::Ace { length: 1, number });
    let full = (0..2).map(|seed| Scenario::Full { seed });
    let mut states = 0;
    for scenario in full.chain(bounded).chain(mixed(3)) {
        let (totals, finding) = explore_one(&subject, limits, &scenario);
        states += totals.states;
        if finding.is_some() || states >= STATES_MAX {
            return (finding, states);
        }
    }
    unreachable!("the mixture has no end")
}

fn caught(flaw: Flaw) {
    let (finding, states) = hunt(flaw);
    let finding = finding.unwrap_or_else(|| panic!("{flaw:?} is not caught in {states} states"));
    println!("{flaw:?} after {states} states: {} {}", finding.token, finding.reason);
}

macro_rules! every_one_is_caught {
    ($($name:ident: $flaw:expr;)*) => {
        $(#[test] fn $name() { caught($flaw); })*
    };
}

every_one_is_caught! {
    a_missing_flush_of_the_log_is_caught: Flaw::NoLogFlush;
    a_missing_flush_of_a_checkpoint_slot_is_caught: Flaw::NoSlotFlush;
    a_missing_checksum_of_checkpoints_is_caught: Flaw::UncheckedSlots;
    a_checkpoint_before_its_log_is_caught: Flaw::Core(Mutation::SlotBeforeLog);
    a_flush_before_earlier_serials_is_caught: Flaw::Core(Mutation::FlushBeforeWritten);
    a_log_write_before_the_incarnation_is_caught: Flaw::Core(Mutation::LogBeforeIncarnation);
    an_incarnation_in_one_slot_is_caught: Flaw::Core(Mutation::IncarnationInOneSlot);
    checkpoints_in_one_slot_are_caught: Flaw::Core(Mutation::OneSlot);
    missing_checks_of_incarnation_and_predecessor_are_caught: Flaw::Core(Mutation::AnyOrigin);
    a_missing_checksum_of_blocks_is_caught: Flaw::Core(Mutation::UncheckedBlocks);
    a_batch_without_its_end_is_caught: Flaw::Core(Mutation::AnyBatch);
    a_segment_discarded_too_early_is_caught: Flaw::Core(Mutation::DiscardAtOnce);
    an_fsync_that_leaves_out_names_is_caught: Flaw::Core(Mutation::FsyncWithoutNames);
}
