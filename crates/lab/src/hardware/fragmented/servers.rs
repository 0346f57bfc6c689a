//! The six file systems of USENIX'95, table 4, and months of their use, made up: the paper publishes neither their files nor their traffic.
//!
//! Inputs from the paper: size (600 MB at most, so that all fit on the disk), length of the groups, and what was in them. Ours: sizes of files (log-normal),
//! how much is replaced between two dates, how it is chosen, and how full the file system is on each date.
//!
//! Invariant: same server and seed, same workload.

use super::DATES;
use crate::age::workload::{Act, Emitter, Event, ROOT};
use crate::error::LabError;
use crate::random::normal;
use firnfs_workload::{Header, Origin};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// Time between two operations: they are done as fast as it goes, and only their order decides.
const STEP_NS: i64 = 20_000_000_000;
const START_NS: i64 = 700_000_000_000_000_000;
/// Files of one package of software.
const PACKAGE_FILES: usize = 60;
/// Operations for which people stay in a directory.
const STAY: u64 = 40;
/// The largest file in bytes; less on a small volume, where a single one would fill it.
const FILE_MAX_BYTES: f64 = 8e6;
/// The largest file as a share of a small volume.
const FILE_MAX_SHARE: f64 = 1.0 / 32.0;

/// How files come and go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    /// Articles come into any directory; the oldest of all go.
    News,
    /// Whole directories are installed and removed.
    Software,
    /// People work in one directory for a while: they save files anew, make some, and remove some.
    Accounts,
}

/// See the module's head.
#[derive(Clone, Copy, Debug)]
pub(in crate::hardware) struct Server {
    /// Its name in the paper.
    pub name: &'static str,
    /// Size of the file system in MiB.
    pub size_mib: u64,
    /// Length of a group in MiB.
    pub group_mib: u64,
    /// One inode for that many bytes.
    pub bytes_per_inode: u32,
    pub(super) directories: u64,
    /// Median size of a file in bytes; the standard deviation of its natural logarithm.
    pub(super) file_bytes: (f64, f64),
    pub(super) uses: Use,
    /// Share of all files that are replaced between two dates.
    pub(super) replaced: f64,
    /// How full it is on each date, in shares of the space for data.
    pub(super) full: [f64; DATES],
}

/// In the order of the paper.
pub(in crate::hardware) const SERVERS: [Server; 6] = [
    Server {
        name: "cnews",
        size_mib: 565,
        group_mib: 12,
        bytes_per_inode: 2048,
        directories: 400,
        file_bytes: (2000.0, 0.8),
        uses: Use::News,
        replaced: 3.0,
        full: [0.88, 0.72, 0.75, 0.8],
    },
    Server {
        name: "glan5",
        size_mib: 600,
        group_mib: 20,
        bytes_per_inode: 4096,
        directories: 300,
        file_bytes: (5000.0, 1.7),
        uses: Use::Software,
        replaced: 0.05,
        full: [0.75, 0.8, 0.84, 0.86],
    },
    Server {
        name: "staff",
        size_mib: 353,
        group_mib: 12,
        bytes_per_inode: 4096,
        directories: 120,
        file_bytes: (4000.0, 1.8),
        uses: Use::Accounts,
        replaced: 1.0,
        full: [0.82, 0.88, 0.85, 0.75],
    },
    Server {
        name: "usr4",
        size_mib: 600,
        group_mib: 12,
        bytes_per_inode: 4096,
        directories: 250,
        file_bytes: (4000.0, 1.8),
        uses: Use::Accounts,
        replaced: 0.6,
        full: [0.7, 0.78, 0.84, 0.8],
    },
    Server {
        name: "usr6",
        size_mib: 600,
        group_mib: 12,
        bytes_per_inode: 4096,
        directories: 400,
        file_bytes: (3500.0, 1.6),
        uses: Use::Accounts,
        replaced: 0.4,
        full: [0.6, 0.68, 0.55, 0.65],
    },
    Server {
        name: "white",
        size_mib: 450,
        group_mib: 12,
        bytes_per_inode: 4096,
        directories: 150,
        file_bytes: (5000.0, 1.8),
        uses: Use::Accounts,
        replaced: 0.5,
        full: [0.72, 0.8, 0.86, 0.78],
    },
];

#[derive(Clone, Copy)]
struct File {
    number: u64,
    bytes: u64,
}

/// The workload as a file, and the dates.
pub(super) struct Months {
    pub workload: Vec<u8>,
    pub dates_ns: [i64; DATES],
}

impl Server {
    /// A smaller one, as full and as much used.
    pub(super) fn shrunk(self, shrink: u64) -> Self {
        Self { size_mib: self.size_mib / shrink, directories: self.directories / shrink, ..self }
    }

    /// The months of its use on a volume with that much space for data.
    ///
    /// # Errors
    /// None: the workload is written to memory.
    pub(super) fn months(&self, data_bytes: u64, seed: u64) -> Result<Months, LabError> {
        let mut header = Header::new(Origin::Made);
        header.start_ns = START_NS.cast_unsigned();
        header.options = vec![
            ("from".to_owned(), format!("made up, as {}", self.name)),
            ("seed".to_owned(), seed.to_string()),
        ];
        let mut workload = Vec::new();
        let mut work = Work {
            server: self,
            emitter: Emitter::new(&mut workload, &header)?,
            file_max_bytes: FILE_MAX_BYTES.min(data_bytes as f64 * FILE_MAX_SHARE),
            rng: Pcg64Mcg::seed_from_u64(seed ^ self.size_mib << 8 ^ self.directories),
            directories: (0..self.directories).map(|_| VecDeque::new()).collect(),
            oldest: VecDeque::new(),
            files: 0,
            bytes: 0,
            next_file: ROOT + self.directories + 1,
            steps: 0,
            here: 0,
            is_new: true,
            now_ns: START_NS,
        };
        let mut dates_ns = [0; DATES];
        for (date_ns, full) in dates_ns.iter_mut().zip(self.full) {
            work.go_on((data_bytes as f64 * full) as u64)?;
            *date_ns = work.now_ns;
        }
        work.emitter.finish()?;
        Ok(Months { workload, dates_ns })
    }
}

struct Work<'a> {
    server: &'a Server,
    emitter: Emitter<&'a mut Vec<u8>>,
    file_max_bytes: f64,
    rng: Pcg64Mcg,
    directories: Vec<VecDeque<File>>,
    /// All files with their directories, in the order in which they came; of news only.
    oldest: VecDeque<usize>,
    files: u64,
    bytes: u64,
    next_file: u64,
    steps: u64,
    /// The directory in which somebody works.
    here: usize,
    /// Nothing was replaced yet.
    is_new: bool,
    now_ns: i64,
}

/// What a file takes: fragments of 1 KiB at its end if it has 12 blocks or fewer, else whole blocks.
pub(in crate::hardware) fn taken_bytes(bytes: u64) -> u64 {
    bytes.next_multiple_of(if bytes <= 12 * 8192 { 1024 } else { 8192 })
}

impl Work<'_> {
    /// Replaces as many files as the server does between two dates, and ends with that many bytes.
    fn go_on(&mut self, goal_bytes: u64) -> Result<(), LabError> {
        // It is nearly filled before anything is replaced.
        while self.is_new && self.bytes < goal_bytes / 10 * 9 {
            self.come()?;
        }
        self.is_new = false;
        let replacements = (self.files as f64 * self.server.replaced) as u64;
        let begin = self.next_file;
        while self.next_file - begin < replacements {
            if self.bytes < goal_bytes { self.come()? } else { self.go()? }
        }
        while self.bytes > goal_bytes {
            self.go()?;
        }
        while self.bytes < goal_bytes {
            self.come()?;
        }
        Ok(())
    }

    fn event(&mut self, directory: usize, file: u64, act: Act) -> Result<(), LabError> {
        self.now_ns += STEP_NS;
        self.emitter.event(&Event { time_ns: self.now_ns, dir: ROOT + 1 + directory as u64, file, act })
    }

    /// A directory: with news any, else the one where somebody works.
    fn directory(&mut self) -> usize {
        self.steps += 1;
        let all = self.directories.len();
        if self.server.uses == Use::News || self.steps % STAY == 1 {
            // Some are used far more than others.
            self.here = ((self.rng.random::<f64>().powi(3)) * all as f64) as usize % all;
        }
        self.here
    }

    /// Something is made.
    fn come(&mut self) -> Result<(), LabError> {
        let directory = match self.server.uses {
            Use::Software => {
                (0..self.directories.len()).min_by_key(|&at| self.directories[at].len()).unwrap_or(0)
            }
            _ => self.directory(),
        };
        let count = if self.server.uses == Use::Software { PACKAGE_FILES } else { 1 };
        (0..count).try_for_each(|_| self.make(directory))
    }

    fn make(&mut self, directory: usize) -> Result<(), LabError> {
        let (median, sigma) = self.server.file_bytes;
        let bytes = (median * (sigma * normal(&mut self.rng)).exp()).clamp(100.0, self.file_max_bytes) as u64;
        let file = File { number: self.next_file, bytes };
        self.next_file += 1;
        self.event(directory, file.number, Act::Create { size_bytes: bytes })?;
        self.directories[directory].push_back(file);
        if self.server.uses == Use::News {
            self.oldest.push_back(directory);
        }
        self.files += 1;
        self.bytes += taken_bytes(bytes);
        Ok(())
    }

    /// Something is removed; where people work, it may come back at once, saved anew.
    fn go(&mut self) -> Result<(), LabError> {
        match self.server.uses {
            Use::News => {
                let directory = self.oldest.pop_front().unwrap_or(0);
                self.remove(directory, 0)
            }
            Use::Software => {
                let directory = self.rng.random_range(0..self.directories.len());
                while !self.directories[directory].is_empty() {
                    self.remove(directory, 0)?;
                }
                Ok(())
            }
            Use::Accounts => {
                let mut directory = self.directory();
                while self.directories[directory].is_empty() {
                    directory = (directory + 1) % self.directories.len();
                }
                let at = self.rng.random_range(0..self.directories[directory].len());
                self.remove(directory, at)?;
                if self.rng.random_bool(0.6) { self.make(directory) } else { Ok(()) }
            }
        }
    }

    fn remove(&mut self, directory: usize, at: usize) -> Result<(), LabError> {
        let Some(file) = self.directories[directory].remove(at) else { return Ok(()) };
        self.files -= 1;
        self.bytes -= taken_bytes(file.bytes);
        self.event(directory, file.number, Act::Delete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firnfs_workload::{Op, Reader};
    use std::collections::BTreeMap;

    #[test]
    fn files_fill_the_volume_as_far_as_it_is_full_on_the_last_date_and_never_wholly() {
        for server in &SERVERS {
            let data_bytes = 40 << 20;
            let months = server.months(data_bytes, 1).unwrap();
            assert_eq!(months.workload, server.months(data_bytes, 1).unwrap().workload);
            assert!(months.dates_ns.is_sorted() && months.dates_ns[0] > START_NS);
            let mut files = BTreeMap::new();
            let (mut bytes, mut bytes_max) = (0, 0);
            for record in Reader::new(&months.workload[..]).unwrap() {
                let record = record.unwrap();
                match record.op {
                    Op::Write => {
                        let length = record.length.unwrap();
                        assert!(files.insert(record.file.0, length).is_none(), "it is written once");
                        bytes += taken_bytes(length);
                    }
                    Op::Unlink => bytes -= taken_bytes(files.remove(&record.made.0).expect("it was written")),
                    _ => {}
                }
                bytes_max = bytes.max(bytes_max);
            }
            assert!(bytes_max * 100 < data_bytes * 93, "{}: {bytes_max} of {data_bytes}", server.name);
            let (full, wanted) = (bytes as f64 / data_bytes as f64, server.full[DATES - 1]);
            // The last file, or package, may be large.
            assert!((full - wanted).abs() < 0.1, "{}: {full} instead of {wanted}", server.name);
        }
    }
}
