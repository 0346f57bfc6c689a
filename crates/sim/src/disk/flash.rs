//! `FlashDisk`: a solid-state disk. Commands overlap up to a depth; each has a latency of its own, and all share the bus.
//!
//! Nothing depends on the place. Internal work - erasing, wear levelling, a write cache that fills up - is left out: the
//! parameters are those of a disk in its steady state. Callers: `model`.

use crate::disk::{Command, SECTOR_BYTES, Service, Work};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A solid-state disk as a parameter file describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flash {
    /// Size in sectors.
    pub sectors: u64,
    /// Latency of a read, in nanoseconds.
    pub read_ns: i64,
    /// Latency of a write, in nanoseconds.
    pub write_ns: i64,
    /// Time of a flush, in nanoseconds.
    pub flush_ns: i64,
    /// Time of each byte read or written, in picoseconds.
    pub byte_ps: i64,
    /// Commands under way at the same time.
    pub depth: usize,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub struct FlashDisk {
    flash: Flash,
    /// Ends of the commands under way, as many as the depth.
    ends_ns: BinaryHeap<Reverse<i64>>,
    bus_free_ns: i64,
    last_end_ns: i64,
}

impl FlashDisk {
    /// A disk at rest.
    #[must_use]
    pub fn new(flash: Flash) -> Self {
        Self { flash, ends_ns: BinaryHeap::new(), bus_free_ns: i64::MIN / 2, last_end_ns: i64::MIN / 2 }
    }

    /// When it can start another command.
    #[must_use]
    pub fn free_at_ns(&self) -> i64 {
        match self.ends_ns.peek() {
            Some(Reverse(first_ns)) if self.ends_ns.len() >= self.flash.depth => *first_ns,
            _ => i64::MIN / 2,
        }
    }

    /// Serves a command that starts at a moment not before [`FlashDisk::free_at_ns`]. A flush waits for all commands before it.
    pub fn serve(&mut self, command: &Command, start_ns: i64) -> Service {
        let Flash { read_ns, write_ns, flush_ns, byte_ps, .. } = self.flash;
        let (latency_ns, from_ns) = match command.work {
            Work::Read => (read_ns, start_ns),
            Work::Write => (write_ns, start_ns),
            Work::Flush => (flush_ns, start_ns.max(self.last_end_ns)),
            Work::Discard => (write_ns, start_ns),
        };
        let bus_ns = match command.work {
            Work::Read | Work::Write => command.sectors as i64 * SECTOR_BYTES as i64 * byte_ps / 1000,
            Work::Flush | Work::Discard => 0,
        };
        let ready_ns = from_ns + latency_ns;
        let bus_from_ns = if bus_ns > 0 { ready_ns.max(self.bus_free_ns) } else { ready_ns };
        if bus_ns > 0 {
            self.bus_free_ns = bus_from_ns + bus_ns;
        }
        let wait_ns = bus_from_ns - ready_ns + (from_ns - start_ns);
        let service = Service { controller_ns: latency_ns, wait_ns, bus_ns, ..Service::at(start_ns) };
        if self.ends_ns.len() >= self.flash.depth {
            self.ends_ns.pop();
        }
        self.ends_ns.push(Reverse(service.end_ns()));
        self.last_end_ns = self.last_end_ns.max(service.end_ns());
        service
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::layout::Lbn;

    const FLASH: Flash = Flash {
        sectors: 1 << 20,
        read_ns: 80_000,
        write_ns: 20_000,
        flush_ns: 500_000,
        byte_ps: 500,
        depth: 2,
    };

    fn read(lbn: u64, sectors: u64) -> Command {
        Command { work: Work::Read, lbn: Lbn(lbn), sectors }
    }

    #[test]
    fn latencies_overlap_and_the_bus_is_shared() {
        let mut disk = FlashDisk::new(FLASH);
        // 1 MiB takes 524,288 ns on the bus.
        assert_eq!(disk.serve(&read(0, 2048), 0).end_ns(), 80_000 + 524_288);
        assert_eq!(disk.serve(&read(9999, 2048), 0).end_ns(), 80_000 + 2 * 524_288);
        assert_eq!(disk.free_at_ns(), 80_000 + 524_288, "two are under way");
        let flush = Command { work: Work::Flush, lbn: Lbn(0), sectors: 0 };
        assert_eq!(disk.serve(&flush, 604_288).end_ns(), 80_000 + 2 * 524_288 + 500_000);
    }
}
