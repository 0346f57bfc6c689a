//! firnfs with one mechanism disabled: in the core (`firnfs::mutation`), or between the driver and the disk.

use firnfs::mutation::{Mutation, choose};
use firnfs_device::{Completion, Device, Geometry, Request, SparseImage, Tag};
use firnfs_format::summary::{SUMMARY_ENTRY_BYTES, SUMMARY_HEADER_BYTES, Summary};
use firnfs_format::superblock::{CHECKPOINT_SLOTS_AT, LOG_START_BYTES, SUPERBLOCK_BYTES, SUPERBLOCK_MAGIC};
use firnfs_torture::crash::runner::PHYSICAL_BLOCK_BYTES;
use firnfs_torture::crash::{Firn, Made, Mounted, Replica, Subject, Tree};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Offset of the checksum in a superblock, in bytes.
const SUPERBLOCK_CRC_AT: usize = 12;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    Core(Mutation),
    /// Flushes after a write to the log do not reach the disk.
    NoLogFlush,
    /// Flushes after a write to a checkpoint slot do not reach the disk.
    NoSlotFlush,
    /// Checkpoint slots are accepted without verifying their checksum.
    UncheckedSlots,
    /// Summaries are accepted without verifying their checksum.
    UncheckedSummaries,
    /// Copies of the superblock are accepted without verifying their checksum.
    UncheckedSuperblock,
}

/// firnfs with a flaw.
pub struct Mutant {
    pub firn: Firn,
    pub flaw: Flaw,
}

impl Subject for Mutant {
    fn format(&self) -> SparseImage {
        self.firn.format()
    }
    fn made(&self, made: Made) -> Option<Box<dyn Subject + '_>> {
        Some(Box::new(Mutant { firn: self.firn.as_made(made)?, flaw: self.flaw }))
    }
    fn mount<'a>(&'a self, device: Arc<dyn Device>) -> Result<Box<dyn Mounted + 'a>, String> {
        self.firn.mount(self.flawed(device))
    }
    fn look(&self, device: Arc<dyn Device>) -> Result<Tree, String> {
        self.firn.look(self.flawed(device))
    }
    fn inspect(&self, device: Arc<dyn Device>) -> Result<Tree, String> {
        self.firn.inspect(self.flawed(device))
    }
    fn check(&self, device: Arc<dyn Device>) -> Result<(), String> {
        self.firn.check(self.flawed(device))
    }
    fn replicated(&self) -> Vec<Replica> {
        self.firn.replicated()
    }
    fn tells_rot(&self, device: Arc<dyn Device>, place: usize) -> Result<bool, String> {
        self.firn.tells_rot(self.flawed(device), place)
    }
    fn log(&self) -> Range<u64> {
        self.firn.log()
    }
    fn is_cleaning(&self, bytes: &[u8]) -> bool {
        self.firn.is_cleaning(bytes)
    }
    fn damage(&self, image: &mut SparseImage, seed: u64) -> Result<String, String> {
        self.firn.damage(image, seed)
    }
    fn repair(&self, device: Arc<dyn Device>) -> Result<(), String> {
        self.firn.repair(self.flawed(device))
    }
}

impl Mutant {
    /// Turns the flaw on, in this thread, which does all work on the volume, and in front of the device.
    fn flawed(&self, device: Arc<dyn Device>) -> Arc<dyn Device> {
        choose(if let Flaw::Core(mutation) = self.flaw { Some(mutation) } else { None });
        match self.flaw {
            Flaw::Core(_) => device,
            flaw => Arc::new(FlawedDevice::new(device, flaw)),
        }
    }
}

/// Passes requests on, with the flaw.
struct FlawedDevice {
    inner: Arc<dyn Device>,
    flaw: Flaw,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    wrote_slot: bool,
    reads: BTreeMap<Tag, u64>,
    /// Tags of swallowed flushes: far from those of the device.
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
            match self.flaw {
                Flaw::UncheckedSlots if CHECKPOINT_SLOTS_AT.contains(&at_bytes) => seal_slot(data),
                Flaw::UncheckedSuperblock if data.starts_with(&SUPERBLOCK_MAGIC) => seal_superblock(data),
                Flaw::UncheckedSummaries if at_bytes >= LOG_START_BYTES => seal_summaries(data),
                _ => {}
            }
        }
        Ok(completion)
    }
}

/// Corrects a checkpoint's checksum: CRC-32C at byte 8, over the length at byte 12.
fn seal_slot(slot: &mut [u8]) {
    let len = u32::from_le_bytes(slot[12..16].try_into().unwrap()) as usize;
    if (16..=slot.len()).contains(&len) {
        slot[8..12].fill(0);
        let crc = firnfs_format::crc32c(&slot[..len]);
        slot[8..12].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Corrects a superblock's checksum: CRC-32C over all of it.
fn seal_superblock(block: &mut [u8]) {
    if let Some(block) = block.get_mut(..SUPERBLOCK_BYTES) {
        block[SUPERBLOCK_CRC_AT..SUPERBLOCK_CRC_AT + 4].fill(0);
        let crc = firnfs_format::crc32c(block);
        block[SUPERBLOCK_CRC_AT..SUPERBLOCK_CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Corrects the checksum of every summary that begins in these bytes: CRC-32C at byte 4, over header and entries.
fn seal_summaries(bytes: &mut [u8]) {
    for start in (0..bytes.len()).step_by(PHYSICAL_BLOCK_BYTES as usize) {
        let summary = &mut bytes[start..];
        let Ok(header) = Summary::decode_header(summary) else { continue };
        let end = SUMMARY_HEADER_BYTES + header.entries as usize * SUMMARY_ENTRY_BYTES;
        if let Some(sealed) = summary.get_mut(..end) {
            sealed[4..8].fill(0);
            let crc = firnfs_format::crc32c(sealed);
            sealed[4..8].copy_from_slice(&crc.to_le_bytes());
        }
    }
}
