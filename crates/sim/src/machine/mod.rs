//! `Machine`: one processor in virtual time. A benchmark states what a program does, and the clock advances by the time of that
//! work, while requests posted to the disk proceed.
//!
//! Threads that take turns share the processor: it works for one of them at a time, in the order in which they ask. A thread that
//! waits for the disk leaves the processor to the others. [`MachineDisk`] charges the work that a request itself causes.
//!
//! `cpu` has the processor times, `hosted` the disk of a machine, `params` the files that describe machines.
//!
//! Callers: the lab's benches of whole machines.

pub mod cpu;
mod hosted;
mod params;

pub use cpu::CpuModel;
pub use hosted::MachineDisk;

use crate::clock::VirtualClock;
use crate::turns::Turns;
use firnfs_device::Clock;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

#[derive(Clone, Copy, Debug)]
struct Processor {
    free_at_ns: i64,
    busy_ns: i64,
}

/// See the module's head.
pub struct Machine {
    cpu: CpuModel,
    clock: Arc<VirtualClock>,
    turns: OnceLock<Arc<Turns>>,
    processor: Mutex<Processor>,
}

impl Machine {
    /// An idle machine.
    #[must_use]
    pub fn new(cpu: CpuModel, clock: Arc<VirtualClock>) -> Self {
        let processor = Mutex::new(Processor { free_at_ns: i64::MIN, busy_ns: 0 });
        Self { cpu, clock, turns: OnceLock::new(), processor }
    }

    /// From now on, threads that take turns share the processor. Only the first call counts.
    pub fn take_turns(&self, turns: Arc<Turns>) {
        self.turns.get_or_init(|| turns);
    }

    /// The costs of work.
    #[must_use]
    pub fn cpu(&self) -> &CpuModel {
        &self.cpu
    }

    /// Time that the processor has worked, in nanoseconds.
    #[must_use]
    pub fn busy_ns(&self) -> i64 {
        self.processor.lock().busy_ns
    }

    /// Works for that long, once the processor is free. Returns when the work is done.
    pub fn spend_ns(&self, work_ns: i64) {
        let done_ns = {
            let mut processor = self.processor.lock();
            processor.busy_ns += work_ns;
            processor.free_at_ns = processor.free_at_ns.max(self.clock.now_ns()) + work_ns;
            processor.free_at_ns
        };
        match self.turns.get() {
            Some(turns) if turns.takes_part() => turns.sleep_until(done_ns),
            _ => self.clock.advance_ns((done_ns - self.clock.now_ns()).max(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::library;
    use crate::timed::TimedDisk;
    use firnfs_device::{AlignedBuf, Device, MemDevice, Request};

    fn machine(clock: &Arc<VirtualClock>) -> Machine {
        Machine::new(CpuModel::find("hp9000-380").unwrap().unwrap(), clock.clone())
    }

    #[test]
    fn work_advances_the_clock_while_the_disk_proceeds() {
        let clock = Arc::new(VirtualClock::at(0));
        let machine = machine(&clock);
        let params = library::find("hp97560").unwrap().unwrap();
        let disk = TimedDisk::of(MemDevice::new(1 << 20), clock.clone(), &params, 0);
        let data = Arc::new(AlignedBuf::zeroed(65_536));
        let tag = disk.submit(Request::Write { at_bytes: 0, data: data.clone().into() });
        machine.spend_ns(10_000_000);
        assert_eq!((clock.now_ns(), machine.busy_ns()), (10_000_000, 10_000_000));
        disk.wait(tag).unwrap();
        let overlapped_ns = clock.now_ns();
        // The same one after the other, as a raw partition is written.
        clock.set_ns(0);
        let other = TimedDisk::of(MemDevice::new(1 << 20), clock.clone(), &params, 0);
        other.write(0, data).unwrap();
        assert_eq!(clock.now_ns(), overlapped_ns, "the work cost the write nothing");
    }

    #[test]
    fn threads_share_one_processor() {
        let clock = Arc::new(VirtualClock::at(0));
        let machine = machine(&clock);
        let turns = Arc::new(Turns::new(clock.clone(), 2));
        machine.take_turns(turns.clone());
        let work = |me: usize| {
            turns.enter(me);
            machine.spend_ns(100);
            let done_ns = clock.now_ns();
            turns.leave();
            done_ns
        };
        let done = std::thread::scope(|scope| {
            let other = scope.spawn(|| work(1));
            [work(0), other.join().unwrap()]
        });
        assert_eq!((done, machine.busy_ns()), ([100, 200], 200));
    }
}
