//! `Load`: a file system of table 2. Its disk, the mean size of its files, the traffic and the share of the disk in use are published; how
//! it is used is in words there (section 5.2), and its numbers are ours.

use super::event::Event;
use super::paging::{self, Paging};
use super::projects::{Habits, Projects};
use super::run::Length;
use super::scratch::{self, Scratch};

/// How files come and go.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Use {
    /// People work on projects: home directories, sources.
    Projects(Habits),
    /// Files that most live for minutes.
    Scratch(scratch::Habits),
    /// Swap files of processes.
    Paging(paging::Habits),
}

/// See the module's head.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::hardware) struct Load {
    /// Its name in the paper.
    pub name: &'static str,
    /// Size of the disk in MB, of 2^20 bytes.
    pub disk_mb: u64,
    /// Mean size of a file in KB.
    pub file_kb: f64,
    /// MB written to files in an hour.
    pub mb_per_hour: f64,
    /// Share of the disk that is in use.
    pub in_use: f64,
    pub(super) habits: Use,
}

/// The same in home directories of both projects.
const HOME: Use = Use::Projects(Habits {
    files: 40.0,
    outputs: 0.5,
    redone: 0.5,
    edited: 2.0,
    passing: 3.0,
    sessions: 30.0,
    active: 12,
    returns: 0.5,
});

/// Kernels: more files in a project, most of them made by the compiler, and most of these made again each time.
const SOURCES: Use = Use::Projects(Habits {
    files: 120.0,
    outputs: 0.7,
    redone: 0.7,
    edited: 4.0,
    passing: 1.0,
    sessions: 30.0,
    active: 4,
    returns: 0.5,
});

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * 1024.0;

/// In the order of the table.
pub(in crate::hardware) const LOADS: [Load; 5] = [
    Load { name: "/user6", disk_mb: 1280, file_kb: 23.5, mb_per_hour: 3.2, in_use: 0.75, habits: HOME },
    Load { name: "/pcs", disk_mb: 990, file_kb: 10.5, mb_per_hour: 2.1, in_use: 0.63, habits: HOME },
    Load {
        name: "/src/kernel",
        disk_mb: 1280,
        file_kb: 37.5,
        mb_per_hour: 4.2,
        in_use: 0.72,
        habits: SOURCES,
    },
    Load {
        name: "/tmp",
        disk_mb: 264,
        file_kb: 28.9,
        mb_per_hour: 1.7,
        in_use: 0.11,
        habits: Use::Scratch(scratch::Habits { long: 0.1, short_s: 900.0 }),
    },
    Load {
        name: "/swap2",
        disk_mb: 309,
        file_kb: 68.1,
        mb_per_hour: 13.3,
        in_use: 0.65,
        habits: Use::Paging(paging::Habits {
            beginning: 0.5,
            long: 0.2,
            short_s: 7200.0,
            pages: 3.0,
            sparse: 2,
        }),
    },
];

impl Load {
    /// How much of it is run: the whole disk with segments of 512 KB; for a quick look, a small one.
    pub(in crate::hardware) fn length(&self, is_short: bool) -> Length {
        if is_short {
            return Length { disk_bytes: 128 << 20, segment_bytes: 256 << 10, warm_up: 1.5, counted: 0.5 };
        }
        let disk_bytes = self.disk_mb << 20;
        Length { disk_bytes, segment_bytes: 512 << 10, warm_up: 2.0, counted: 3.0 }
    }

    /// Its traffic on a disk of that size, without end.
    pub(super) fn events(&self, disk_bytes: u64, seed: u64) -> Box<dyn Iterator<Item = Event>> {
        let traffic = Traffic {
            name: self.name,
            file_bytes: self.file_kb * KIB,
            bytes_per_hour: self.mb_per_hour * MIB,
            goal_bytes: (disk_bytes as f64 * self.in_use) as u64,
            seed,
        };
        match self.habits {
            Use::Projects(habits) => Box::new(Projects::new(habits, traffic)),
            Use::Scratch(habits) => Box::new(Scratch::new(habits, traffic)),
            Use::Paging(habits) => Box::new(Paging::new(habits, traffic)),
        }
    }
}

/// The published part, for a generator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    pub name: &'static str,
    /// Mean size of a file.
    pub file_bytes: f64,
    pub bytes_per_hour: f64,
    /// Bytes that files are to take.
    pub goal_bytes: u64,
    pub seed: u64,
}
