//! `ConstantDisk`: a disk of constant times ([`Speed`]): one head, one time for all seeks.
//!
//! A request that starts where the last read or write ended needs no seek. A request a little further on costs the time of the
//! bytes that the head passes over, if that is less than a seek. Any other request needs a seek. Callers: `model`.

use crate::disk::{Command, SECTOR_BYTES, Service, Work};
use crate::speed::Speed;

/// See the module's head.
#[derive(Clone, Debug)]
pub struct ConstantDisk {
    speed: Speed,
    free_at_ns: i64,
    /// The position of the head: after the last byte read or written.
    head_at_bytes: u64,
}

impl ConstantDisk {
    /// A disk at rest, with its head at the start.
    #[must_use]
    pub fn new(speed: Speed) -> Self {
        Self { speed, free_at_ns: i64::MIN / 2, head_at_bytes: 0 }
    }

    /// When the last command is complete.
    #[must_use]
    pub fn free_at_ns(&self) -> i64 {
        self.free_at_ns
    }

    /// Serves a command that starts at a moment not before [`ConstantDisk::free_at_ns`].
    pub fn serve(&mut self, command: &Command, start_ns: i64) -> Service {
        let bytes = command.sectors * SECTOR_BYTES;
        let mut service = Service::at(start_ns);
        match command.work {
            Work::Read | Work::Write => {
                service.controller_ns = self.speed.request_ns;
                service.media_ns = self.speed.pass_ns(bytes);
                self.move_head(command.lbn.0 * SECTOR_BYTES, bytes, &mut service);
            }
            Work::Flush => service.controller_ns = self.speed.flush_ns,
            Work::Discard => service.controller_ns = self.speed.request_ns,
        }
        self.free_at_ns = service.end_ns();
        service
    }

    fn move_head(&mut self, at_bytes: u64, len_bytes: u64, service: &mut Service) {
        let gap_bytes = at_bytes.checked_sub(self.head_at_bytes);
        self.head_at_bytes = at_bytes.saturating_add(len_bytes);
        match gap_bytes.map(|bytes| self.speed.pass_ns(bytes)) {
            _ if self.speed.seek_ns == 0 => {}
            Some(gap_ns) if gap_ns < self.speed.seek_ns => service.rotation_ns = gap_ns,
            _ => {
                service.seek_ns = self.speed.seek_ns;
                service.distance = 1;
            }
        }
    }
}
