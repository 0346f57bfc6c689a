//! Reading ahead: the check knows from an inode or an indirect block what it will look at next, and reads that together.
//!
//! Invariants: a caller forgets what it read ahead when it is done with it, so each level of the walk holds [`AHEAD_BYTES`] and one block at
//! most; a read that fails leaves nothing, and its place is read again alone, which reports the error.

use crate::device_reader::{DEPTH_BYTES, DeviceReader, Extent};
use std::collections::BTreeMap;

/// Bytes that are read together.
pub const AHEAD_BYTES: u64 = DEPTH_BYTES;

/// What to read together.
#[derive(Default)]
pub struct Wanted {
    /// The places.
    pub extents: Vec<Extent>,
    /// The sum of their lengths.
    pub len_bytes: u64,
}

impl Wanted {
    /// Adds a place.
    pub fn add(&mut self, extent: Extent) {
        self.len_bytes += u64::from(extent.len_bytes);
        self.extents.push(extent);
    }
}

/// Bytes that were read, by their place.
#[derive(Default)]
pub struct Ahead(BTreeMap<u64, Vec<u8>>);

impl Ahead {
    /// Reads places; those close to each other become one read.
    pub fn fill(&mut self, read: &mut dyn DeviceReader, extents: impl Iterator<Item = Extent>) {
        let extents: Vec<Extent> = extents.collect();
        let answers = read.read_scattered(&extents);
        let read =
            extents.iter().zip(answers).filter_map(|(extent, bytes)| Some((extent.at_bytes, bytes.ok()?)));
        self.0.extend(read);
    }

    /// Bytes that are there, once.
    pub fn take(&mut self, at_bytes: u64, len_bytes: u32) -> Option<Vec<u8>> {
        self.0.remove(&at_bytes).filter(|bytes| bytes.len() == len_bytes as usize)
    }

    /// Drops what nobody took.
    pub fn forget(&mut self, extents: &[Extent]) {
        for extent in extents {
            self.0.remove(&extent.at_bytes);
        }
    }
}
