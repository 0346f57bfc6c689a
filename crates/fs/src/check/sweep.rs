//! Reads in device order: adjacent stretches become one read, which is kept for a while, because blocks lie just before
//! the records that lead to them.

use crate::error::FsError;
use crate::lfs::{DeviceReader, Geometry, verify_stored};
use firnfs_format::BlockPtr;
use std::collections::VecDeque;

/// Longest single read in bytes.
const WINDOW_MAX_BYTES: u64 = 1 << 20;
/// Reads start and end on multiples of this, in bytes.
const WINDOW_ALIGN_BYTES: u64 = 64 << 10;
/// Largest unused gap between two blocks that are read together, in bytes.
const GAP_MAX_BYTES: u64 = 64 << 10;
/// Stretches that are kept.
const WINDOWS: usize = 16;

struct Window {
    at_bytes: u64,
    data: Vec<u8>,
}

/// See the module's head.
pub struct Sweep<'a, 'r> {
    /// The device.
    pub read: &'a mut DeviceReader<'r>,
    geo: Geometry,
    windows: VecDeque<Window>,
    /// Bytes read so far.
    pub read_bytes: u64,
}

impl<'a, 'r> Sweep<'a, 'r> {
    /// Reads from a device that holds a volume of that geometry.
    pub fn new(read: &'a mut DeviceReader<'r>, geo: Geometry) -> Self {
        Self { read, geo, windows: VecDeque::new(), read_bytes: 0 }
    }

    /// True if the target of a pointer is in memory.
    pub fn is_at_hand(&self, ptr: &BlockPtr) -> bool {
        self.window_of(ptr).is_some()
    }

    fn window_of(&self, ptr: &BlockPtr) -> Option<usize> {
        let at = self.geo.device_bytes(ptr.addr);
        let end = at + u64::from(ptr.stored_bytes());
        self.windows.iter().rposition(|w| w.at_bytes <= at && end <= w.at_bytes + w.data.len() as u64)
    }

    /// The verified bytes of the first of several pointers in device order; the others tell how far reading ahead is
    /// useful. All of them lie within the volume.
    ///
    /// # Errors
    /// `Corrupt`, `Io`, naming `what`.
    pub fn stored(
        &mut self,
        ptr: &BlockPtr,
        ahead: &mut dyn Iterator<Item = BlockPtr>,
        what: impl FnOnce() -> String,
    ) -> Result<Vec<u8>, FsError> {
        if self.window_of(ptr).is_none() {
            self.fetch(ptr, ahead);
        }
        let at = self.geo.device_bytes(ptr.addr);
        let bytes = match self.window_of(ptr) {
            Some(n) => {
                let window = &self.windows[n];
                let from = (at - window.at_bytes) as usize;
                window.data[from..from + ptr.stored_bytes() as usize].to_vec()
            }
            // This block or one close to it cannot be read: read exactly its bytes.
            None => (self.read)(at, ptr.stored_bytes())?,
        };
        verify_stored(ptr, &self.geo, &bytes, what)?;
        Ok(bytes)
    }

    fn fetch(&mut self, ptr: &BlockPtr, ahead: &mut dyn Iterator<Item = BlockPtr>) {
        let segment_bytes = u64::from(self.geo.segment_bytes);
        let segment_start = self.geo.device_bytes(self.geo.addr(self.geo.segment_of(ptr.addr), 0));
        let at = self.geo.device_bytes(ptr.addr);
        let mut end = at + u64::from(ptr.stored_bytes());
        for next in ahead {
            let from = self.geo.device_bytes(next.addr);
            let to = from + u64::from(next.stored_bytes());
            if from > end + GAP_MAX_BYTES || to > at + WINDOW_MAX_BYTES || to > segment_start + segment_bytes
            {
                break;
            }
            end = end.max(to);
        }
        let start = segment_start + (at - segment_start) / WINDOW_ALIGN_BYTES * WINDOW_ALIGN_BYTES;
        let end =
            segment_start + (end - segment_start).next_multiple_of(WINDOW_ALIGN_BYTES).min(segment_bytes);
        if let Ok(data) = (self.read)(start, (end - start) as u32) {
            self.read_bytes += data.len() as u64;
            if self.windows.len() >= WINDOWS {
                self.windows.pop_front();
            }
            self.windows.push_back(Window { at_bytes: start, data });
        }
    }
}
