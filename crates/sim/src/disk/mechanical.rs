//! `MechanicalDisk`: serves one command after another, with an arm, a buffer and a bus. The time of each command is the sum of named
//! parts.
//!
//! Each command costs the controller's overhead. A *read* moves the arm, waits for its first sector and lets its sectors pass; the
//! bus takes them as they come, so it adds time only if it is slower. A read of sectors that the disk has read ahead needs only
//! the bus. A *write* sends its data over the bus while the arm moves; the first sector is written once the rest will arrive in
//! time. It is complete when its last sector is written or, with write-behind, when its data is in the buffer: then the arm
//! continues by itself, and a flush waits for it.
//!
//! Invariants: the parts of a service add up to its time, and none is negative. Callers: `model`.

use crate::disk::ahead::ReadAhead;
use crate::disk::media::{Arm, Media};
use crate::disk::{Command, Service, Work};
use std::collections::VecDeque;

/// Bytes of a sector.
pub const SECTOR_BYTES: u64 = 512;

/// A mechanical disk as a parameter file describes it.
#[derive(Clone, Debug)]
pub struct Mechanics {
    /// The moving parts.
    pub media: Media,
    /// Controller's time for each command, in nanoseconds.
    pub controller_ns: i64,
    /// Time of each byte on the bus, in picoseconds.
    pub bus_byte_ps: i64,
    /// Size of the buffer, in sectors.
    pub buffer_sectors: u64,
    /// The disk reads ahead into the buffer.
    pub reads_ahead: bool,
    /// A write is complete when its data is in the buffer.
    pub writes_behind: bool,
}

impl Mechanics {
    /// Time of sectors on the bus, in nanoseconds.
    #[must_use]
    pub fn bus_ns(&self, sectors: u64) -> i64 {
        sectors as i64 * SECTOR_BYTES as i64 * self.bus_byte_ps / 1000
    }
}

/// A write that was reported complete and is on its way to the platters.
#[derive(Clone, Copy, Debug)]
struct Behind {
    end_ns: i64,
    sectors: u64,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub struct MechanicalDisk {
    mechanics: Mechanics,
    ahead: ReadAhead,
    arm: Arm,
    behind: VecDeque<Behind>,
    free_at_ns: i64,
}

impl MechanicalDisk {
    /// A disk at rest, with its arm at the outermost cylinder.
    #[must_use]
    pub fn new(mechanics: Mechanics) -> Self {
        let ahead = ReadAhead::new(if mechanics.reads_ahead { mechanics.buffer_sectors } else { 0 });
        let arm = Arm { cylinder: 0, head: 0, at_ns: i64::MIN / 2 };
        Self { mechanics, ahead, arm, behind: VecDeque::new(), free_at_ns: i64::MIN / 2 }
    }

    /// When the last command is complete.
    #[must_use]
    pub fn free_at_ns(&self) -> i64 {
        self.free_at_ns
    }

    /// Serves a command that starts at a moment not before [`MechanicalDisk::free_at_ns`].
    pub fn serve(&mut self, command: &Command, start_ns: i64) -> Service {
        let service = match command.work {
            Work::Read => self.read(command, start_ns),
            Work::Write => self.write(command, start_ns),
            Work::Flush => self.flush(start_ns),
            Work::Discard => Service { controller_ns: self.mechanics.controller_ns, ..Service::at(start_ns) },
        };
        self.free_at_ns = service.end_ns();
        service
    }

    fn read(&mut self, command: &Command, start_ns: i64) -> Service {
        let Command { lbn, sectors, .. } = *command;
        let Self { mechanics, ahead, arm, .. } = self;
        let controller_ns = mechanics.controller_ns;
        let now_ns = start_ns + controller_ns;
        let bus_ns = mechanics.bus_ns(sectors);
        *arm = ahead.catch_up(&mechanics.media, *arm, now_ns);
        if ahead.serves(lbn, sectors) {
            let ready = ahead.serve(&mechanics.media, arm, lbn, sectors, now_ns);
            let end_ns = (ready.first_ns + bus_ns).max(ready.last_ns + mechanics.bus_ns(1));
            let wait_ns = end_ns - now_ns - bus_ns;
            return Service { controller_ns, wait_ns, bus_ns, is_hit: true, ..Service::at(start_ns) };
        }
        ahead.stop(None);
        // The arm may still be writing sectors that were reported complete.
        let wait_ns = (arm.at_ns - now_ns).max(0);
        arm.at_ns = arm.at_ns.max(now_ns);
        let from_ns = arm.at_ns;
        let passage = mechanics.media.pass(*arm, lbn, sectors, from_ns, false);
        *arm = passage.arm;
        ahead.start(&mechanics.media, lbn, sectors);
        let first_ns = passage.begin_ns + mechanics.media.sector_ns(lbn);
        let end_ns = (first_ns + bus_ns).max(passage.arm.at_ns + mechanics.bus_ns(1));
        Service {
            controller_ns,
            wait_ns,
            seek_ns: passage.move_ns,
            distance: passage.distance,
            rotation_ns: passage.begin_ns - from_ns - passage.move_ns,
            media_ns: passage.arm.at_ns - passage.begin_ns,
            bus_ns: end_ns - passage.arm.at_ns,
            ..Service::at(start_ns)
        }
    }

    fn write(&mut self, command: &Command, start_ns: i64) -> Service {
        let Command { lbn, sectors, .. } = *command;
        let controller_ns = self.mechanics.controller_ns;
        let now_ns = start_ns + controller_ns;
        let room_ns = if self.mechanics.writes_behind { self.room_for(sectors, now_ns) } else { now_ns };
        let Self { mechanics, ahead, arm, .. } = self;
        let media = &mechanics.media;
        *arm = ahead.catch_up(media, *arm, now_ns);
        ahead.stop(Some((lbn, sectors)));
        let from_ns = arm.at_ns.max(now_ns);
        arm.at_ns = from_ns;
        let move_ns = media.move_ns(*arm, media.layout.place_of(lbn), true);
        let bus_end_ns = room_ns + mechanics.bus_ns(sectors);
        // The sectors pass without a pause, so the last one must have arrived when it is due, and the first one before it begins.
        let pass_ns = {
            let passage = media.pass(*arm, lbn, sectors, from_ns, true);
            passage.arm.at_ns - passage.begin_ns
        };
        let in_time_ns = (bus_end_ns - pass_ns + media.sector_ns(lbn)).max(room_ns + mechanics.bus_ns(1));
        let in_place_ns = from_ns + move_ns;
        let earliest_ns = in_place_ns.max(in_time_ns);
        let passage = media.pass(*arm, lbn, sectors, earliest_ns, true);
        *arm = passage.arm;
        if mechanics.writes_behind {
            self.behind.push_back(Behind { end_ns: passage.arm.at_ns, sectors });
            let wait_ns = room_ns - now_ns;
            let bus_ns = bus_end_ns - room_ns;
            return Service { controller_ns, wait_ns, bus_ns, is_hit: true, ..Service::at(start_ns) };
        }
        Service {
            controller_ns,
            wait_ns: from_ns - now_ns,
            seek_ns: move_ns,
            distance: passage.distance,
            bus_ns: earliest_ns - in_place_ns,
            rotation_ns: passage.begin_ns - earliest_ns,
            media_ns: passage.arm.at_ns - passage.begin_ns,
            ..Service::at(start_ns)
        }
    }

    /// When the buffer has room for a write, given the sectors still on their way to the platters.
    fn room_for(&mut self, sectors: u64, now_ns: i64) -> i64 {
        let mut room_ns = now_ns;
        while self.behind.front().is_some_and(|first| first.end_ns <= room_ns) {
            self.behind.pop_front();
        }
        let mut taken: u64 = self.behind.iter().map(|write| write.sectors).sum();
        while taken > 0
            && taken + sectors > self.mechanics.buffer_sectors
            && let Some(first) = self.behind.pop_front()
        {
            taken -= first.sectors;
            room_ns = room_ns.max(first.end_ns);
        }
        room_ns
    }

    fn flush(&mut self, start_ns: i64) -> Service {
        let last_ns = self.behind.back().map_or(start_ns, |last| last.end_ns.max(start_ns));
        self.behind.clear();
        Service { wait_ns: last_ns - start_ns, ..Service::at(start_ns) }
    }
}

#[cfg(test)]
#[path = "mechanical_tests.rs"]
mod tests;
