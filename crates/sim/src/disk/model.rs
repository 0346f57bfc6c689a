//! `DiskModel`: a disk of any kind. Callers: `timed`, the lab's tables of disks.

use crate::disk::constant::ConstantDisk;
use crate::disk::flash::{Flash, FlashDisk};
use crate::disk::mechanical::{MechanicalDisk, Mechanics};
use crate::disk::order::Order;
use crate::disk::{Command, SECTOR_BYTES, Service};
use crate::speed::Speed;

/// The description of a disk, as a parameter file gives it.
#[derive(Clone, Debug)]
pub enum DiskKind {
    /// A disk of constant times.
    Constant(Speed),
    /// A disk with an arm.
    Mechanical(Box<Mechanics>),
    /// A solid-state disk.
    Flash(Flash),
}

impl DiskKind {
    /// Size in bytes; `None` for a disk of constant times, which has no size of its own.
    #[must_use]
    pub fn size_bytes(&self) -> Option<u64> {
        match self {
            Self::Constant(_) => None,
            Self::Mechanical(mechanics) => Some(mechanics.media.layout.sectors() * SECTOR_BYTES),
            Self::Flash(flash) => Some(flash.sectors * SECTOR_BYTES),
        }
    }

    /// True if a head has to move to the place of a request.
    #[must_use]
    pub fn has_head(&self) -> bool {
        match self {
            Self::Constant(speed) => speed.seek_ns > 0,
            Self::Mechanical(_) => true,
            Self::Flash(_) => false,
        }
    }
}

#[derive(Clone, Debug)]
enum State {
    Constant(ConstantDisk),
    Mechanical(Box<MechanicalDisk>),
    Flash(FlashDisk),
}

/// A disk at work: its description, its queue's order, and its state.
#[derive(Clone, Debug)]
pub struct DiskModel {
    order: Order,
    state: State,
}

impl DiskModel {
    /// A disk at rest.
    #[must_use]
    pub fn new(kind: &DiskKind, order: Order) -> Self {
        let state = match kind {
            DiskKind::Constant(speed) => State::Constant(ConstantDisk::new(*speed)),
            DiskKind::Mechanical(mechanics) => {
                State::Mechanical(Box::new(MechanicalDisk::new((**mechanics).clone())))
            }
            DiskKind::Flash(flash) => State::Flash(FlashDisk::new(*flash)),
        };
        Self { order, state }
    }

    /// How waiting commands follow each other.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// When it can start another command.
    #[must_use]
    pub fn free_at_ns(&self) -> i64 {
        match &self.state {
            State::Constant(disk) => disk.free_at_ns(),
            State::Mechanical(disk) => disk.free_at_ns(),
            State::Flash(disk) => disk.free_at_ns(),
        }
    }

    /// Serves a command; it starts at `earliest_ns`, or when the disk is free.
    pub fn serve(&mut self, command: &Command, earliest_ns: i64) -> Service {
        let start_ns = earliest_ns.max(self.free_at_ns());
        match &mut self.state {
            State::Constant(disk) => disk.serve(command, start_ns),
            State::Mechanical(disk) => disk.serve(command, start_ns),
            State::Flash(disk) => disk.serve(command, start_ns),
        }
    }
}

impl From<Speed> for DiskModel {
    fn from(speed: Speed) -> Self {
        Self::new(&DiskKind::Constant(speed), Order::Arrival)
    }
}
