//! `MachineDisk`: a device of a [`Machine`]. Submitting a request takes processor time for the driver, and a write of the log
//! also for assembling the segment.
//!
//! A log-structured file system copies the blocks of a segment to one place and computes a checksum over one word of each (BSD-LFS
//! 4.3). Other file systems give the blocks of their cache to the driver as they are. Callers: the lab's benches of whole machines.

use super::Machine;
use super::cpu::BLOCK_BYTES;
use firnfs_device::{Completion, Device, DeviceError, Geometry, Request, Tag};
use std::sync::Arc;

/// See the module's head.
pub struct MachineDisk<D> {
    inner: D,
    machine: Arc<Machine>,
    /// Longest command, in bytes: each one has an interrupt.
    transfer_max_bytes: u64,
    assembles_segments: bool,
}

impl<D: Device> MachineDisk<D> {
    /// The machine's device.
    pub fn new(inner: D, machine: Arc<Machine>, transfer_max_bytes: u64) -> Self {
        Self { inner, machine, transfer_max_bytes, assembles_segments: true }
    }

    /// The same for a file system without a log.
    #[must_use]
    pub fn without_segments(self) -> Self {
        Self { assembles_segments: false, ..self }
    }

    fn work_ns(&self, request: &Request) -> i64 {
        let cpu = self.machine.cpu();
        let bytes = request.len_bytes();
        let commands_ns = cpu.command_ns() * bytes.div_ceil(self.transfer_max_bytes) as i64;
        match request {
            Request::Write { .. } if self.assembles_segments => {
                commands_ns + cpu.copy_ns(bytes) + cpu.checksum_ns(bytes.div_ceil(BLOCK_BYTES))
            }
            Request::Read { .. } | Request::Write { .. } => commands_ns,
            Request::Flush | Request::Discard { .. } => cpu.command_ns(),
        }
    }
}

impl<D: Device> Device for MachineDisk<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        self.machine.spend_ns(self.work_ns(&request));
        self.inner.submit(request)
    }
    fn start_reads(&self) {
        self.inner.start_reads();
    }
    fn wait(&self, tag: Tag) -> Completion {
        self.inner.wait(tag)
    }
    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
    fn fence(&self) -> Result<(), DeviceError> {
        self.inner.fence()
    }
}
