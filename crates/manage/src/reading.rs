//! `DeviceReads`: the library's [`DeviceReader`] over a device, for callers that may block.
//!
//! Reads that are posted together are carried out together, as the device is able to. A range may start and end anywhere: it is
//! read aligned outwards to the device's blocks.
//!
//! Callers: every mechanism of this crate that reads a volume that is not mounted, or a snapshot of one that is.

use firnfs::FsError;
use firnfs::device_reader::{DEPTH_BYTES, DeviceReader, Extent, Posted};
use firnfs_device::{AlignedBuf, Device, Request};
use std::cell::Cell;

/// Bytes that a check of a volume in use has under way: its users' reads wait for at most that many.
const DEPTH_IN_USE_BYTES: u64 = 2 << 20;

/// See the module's head.
pub(crate) struct DeviceReads<'a> {
    device: &'a dyn Device,
    unit_bytes: u64,
    depth_bytes: u64,
    pace: Option<Pace<'a>>,
}

/// How fast a caller wants it to read.
struct Pace<'a> {
    /// Called with the number of bytes before each read; may wait. `false` stops all further reads.
    allow: &'a mut dyn FnMut(u64) -> bool,
    is_stopped: &'a Cell<bool>,
    /// After a stop: the last reads need no permission.
    is_ending: bool,
}

impl<'a> DeviceReads<'a> {
    /// Reads as fast as the device does.
    pub(crate) fn new(device: &'a dyn Device) -> Self {
        let unit_bytes = u64::from(device.geometry().logical_block_bytes.max(512));
        Self { device, unit_bytes, depth_bytes: DEPTH_BYTES, pace: None }
    }

    /// Reads as fast as `allow` permits, on a device that others use. Once it returns `false`, every read fails, and
    /// `is_stopped` is set.
    pub(crate) fn paced(
        device: &'a dyn Device,
        allow: &'a mut dyn FnMut(u64) -> bool,
        is_stopped: &'a Cell<bool>,
    ) -> Self {
        let pace = Some(Pace { allow, is_stopped, is_ending: false });
        Self { depth_bytes: DEPTH_IN_USE_BYTES, pace, ..Self::new(device) }
    }

    fn may_read(&mut self, len_bytes: u32) -> bool {
        let Some(Pace { allow, is_stopped, is_ending }) = &mut self.pace else { return true };
        if *is_ending {
            return true;
        }
        if !is_stopped.get() && !allow(u64::from(len_bytes)) {
            is_stopped.set(true);
        }
        !is_stopped.get()
    }

    /// The range of whole blocks that contains an extent.
    fn aligned(&self, extent: Extent) -> (u64, u64) {
        let start = extent.at_bytes / self.unit_bytes * self.unit_bytes;
        (start, extent.end_bytes().next_multiple_of(self.unit_bytes))
    }
}

impl DeviceReader for DeviceReads<'_> {
    fn post(&mut self, extent: Extent) -> Posted {
        let (start, end) = self.aligned(extent);
        let request = Request::Read { at_bytes: start, len_bytes: (end - start) as u32 };
        let tag = self.may_read(extent.len_bytes).then(|| self.device.submit(request));
        Posted { extent, tag }
    }

    fn finish(&mut self, posted: Posted) -> Result<AlignedBuf, FsError> {
        let tag = posted.tag.ok_or_else(|| FsError::Io("the check was stopped".to_owned()))?;
        let data = self.device.wait(tag).map_err(|e| FsError::Io(e.to_string()))?;
        let mut data = data.ok_or_else(|| FsError::Io("the device returned no data".to_owned()))?;
        let (start, _) = self.aligned(posted.extent);
        let (from, len) = ((posted.extent.at_bytes - start) as usize, posted.extent.len_bytes as usize);
        if from > 0 {
            return Ok(AlignedBuf::copy_of(&data[from..from + len]));
        }
        data.truncate(len);
        Ok(data)
    }

    fn depth_bytes(&self) -> u64 {
        self.depth_bytes
    }

    fn is_stopped(&self) -> bool {
        self.pace.as_ref().is_some_and(|pace| pace.is_stopped.get())
    }

    fn allow_last_reads(&mut self) {
        if let Some(pace) = &mut self.pace {
            pace.is_ending = true;
        }
    }
}
