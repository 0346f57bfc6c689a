//! `Near`: blocks and records that the comparison of trees needs next, read together.
//!
//! The comparison goes from inode to inode and down each tree. Before it goes through a list of pointers, it names the next
//! ones, and a bounded number of them is read at once. A block is dropped when it has been used. A block that could not be read
//! is not kept: the code that needs it reads it alone and gets the error.
//!
//! Memory: [`FETCH_BYTES`] for each list on the way down: the inodes, and the levels of one tree.
//!
//! Caller: `compare`.

use crate::device_reader::{DeviceReader, Extent};
use crate::error::FsError;
use crate::lfs::base::geometry::Geometry;
use firnfs_format::{BlockPtr, SectorAddr};
use std::collections::BTreeMap;

/// Bytes, and blocks, that are read together.
const FETCH_BYTES: u64 = 2 << 20;
const FETCH_BLOCKS: usize = 512;

/// See the module's head.
pub(super) struct Near<'a> {
    /// The device.
    pub read: &'a mut dyn DeviceReader,
    blocks: BTreeMap<SectorAddr, Vec<u8>>,
}

impl<'a> Near<'a> {
    pub(super) fn new(read: &'a mut dyn DeviceReader) -> Self {
        Self { read, blocks: BTreeMap::new() }
    }

    /// Reads the targets of the first groups of pointers together, as many as fit; returns how many groups that were, at least
    /// one. Pointers that lead nowhere, or are longer than `max_bytes`, are left out.
    pub(super) fn fetch<G: IntoIterator<Item = BlockPtr>>(
        &mut self,
        geo: &Geometry,
        max_bytes: u32,
        groups: impl IntoIterator<Item = G>,
    ) -> usize {
        let mut wanted: Vec<BlockPtr> = Vec::new();
        let (mut bytes, mut count) = (0, 0);
        for group in groups {
            if bytes >= FETCH_BYTES || wanted.len() >= FETCH_BLOCKS {
                break;
            }
            count += 1;
            let inside = |ptr: &BlockPtr| ptr.is_stored() && geo.check(ptr, max_bytes, String::new).is_ok();
            for ptr in group.into_iter().filter(inside) {
                if !self.blocks.contains_key(&ptr.addr) {
                    bytes += u64::from(ptr.stored_bytes());
                    wanted.push(ptr);
                }
            }
        }
        if wanted.len() > 1 && self.read.depth_bytes() > 0 {
            let place = |ptr: &BlockPtr| Extent::new(geo.device_bytes(ptr.addr), ptr.stored_bytes());
            let places: Vec<Extent> = wanted.iter().map(place).collect();
            for (ptr, bytes) in wanted.iter().zip(self.read.read_scattered(&places)) {
                if let Ok(bytes) = bytes {
                    self.blocks.insert(ptr.addr, bytes);
                }
            }
        }
        count.max(1)
    }

    /// The target of a pointer into the volume, not verified.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn stored(&mut self, geo: &Geometry, ptr: &BlockPtr) -> Result<Vec<u8>, FsError> {
        let len_bytes = ptr.stored_bytes();
        if let Some(bytes) = self.blocks.remove(&ptr.addr).filter(|bytes| bytes.len() == len_bytes as usize) {
            return Ok(bytes);
        }
        let extent = Extent::new(geo.device_bytes(ptr.addr), len_bytes);
        self.read.read(extent).map(|bytes| bytes.to_vec())
    }
}
