//! `Synthetic`: a trace that has the counts of a server of the paper ([`Server`]), from a seed. It is no recording, and every display of
//! its results says so.
//!
//! Clients work in bursts. A burst is a row of activities: walk a directory, read a file, overwrite one, make one, remove one, look at
//! attributes. Which activity comes next is drawn in proportion to the requests that each kind still owes, so the counts of the table
//! come out. Bursts begin more often by day than by night; gaps and lengths have long tails. As in the paper's traces, a create does
//! not say which file it made.
//!
//! Inputs from the paper: counts of each kind, length, size of the file system, Attic's two-minute process. Everything else is assumed:
//! sizes of files (log-normal, mean 22 KB), how often files are used again, the lengths of bursts and the gaps between them.
//!
//! Callers: `firn workload generate`, `figures`, `beyond`.

use super::Records;
use super::servers::Server;
use crate::error::LabError;
use crate::random::{exponential, normal};
use firnfs_sim::seeded;
use firnfs_workload::{FileId, Header, Naming, Op, Origin, Outcome, Record};
use rand::RngExt;
use rand_pcg::Pcg64;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const ROOT: FileId = FileId(1);
/// Numbers of directories and of files begin here.
const DIRECTORIES: u64 = 1 << 20;
const FILES: u64 = 1 << 32;
/// Files in a directory.
const PER_DIRECTORY: u64 = 40;
/// Largest NFS transfer.
const TRANSFER_BYTES: u64 = 8192;
/// Files that were used lately, among which most are chosen.
const RECENT: usize = 100;
/// How often a walk over everything looks at each file in the course of the trace.
const WALKS: f64 = 1.3;
const DAY_S: f64 = 86_400.0;
/// Files that were made and wait for their removal.
const TEMPORARY: usize = 100;

/// See the module's head.
#[derive(Clone, Copy, Debug)]
pub struct Synthetic {
    /// Whose counts.
    pub server: &'static Server,
    /// Of all random numbers.
    pub seed: u64,
    /// Days; counts are in proportion to the server's.
    pub days: f64,
    /// Bytes of files that exist at the start.
    pub files_bytes: f64,
}

impl Synthetic {
    /// A trace as long as the paper's, on a file system that is 90% full.
    #[must_use]
    pub fn of(server: &'static Server, seed: u64) -> Self {
        Self { server, seed, days: server.days, files_bytes: server.size_bytes * 0.9 }
    }

    /// The header of a workload file with it.
    #[must_use]
    pub fn header(&self) -> Header {
        let option = |name: &str, value: String| (name.to_owned(), value);
        let options = vec![
            option(
                "synthetic",
                format!("yes, with the counts of {} (USENIX 1995, table 2)", self.server.title),
            ),
            option("seed", self.seed.to_string()),
            option("days", self.days.to_string()),
        ];
        Header { naming: Naming::AsGiven, options, ..Header::new(Origin::Made) }
    }

    /// About how many records it has.
    #[must_use]
    pub fn records(&self) -> u64 {
        (self.server.requests * self.days / self.server.days) as u64
    }

    /// The records.
    #[must_use]
    pub fn generate(&self) -> Generated {
        Generated::new(*self)
    }
}

impl Records for Synthetic {
    fn open(&self) -> Result<Box<dyn Iterator<Item = Result<Record, LabError>> + '_>, LabError> {
        Ok(Box::new(self.generate().map(Ok)))
    }
}

/// Requests that are still to come, by kind.
#[derive(Clone, Copy, Debug, Default)]
struct Owed {
    reads: f64,
    writes: f64,
    directory_reads: f64,
    directory_changes: f64,
    setattrs: f64,
    others: f64,
}

impl Owed {
    fn sum(&self) -> f64 {
        let Self { reads, writes, directory_reads, directory_changes, setattrs, others } = *self;
        [reads, writes, directory_reads, directory_changes, setattrs, others]
            .map(|owed| owed.max(0.0))
            .iter()
            .sum()
    }
}

/// A client at work.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Burst {
    next_ns: u64,
    /// Among equals the first comes first.
    number: u64,
    client: u32,
    left: u32,
}

/// An iterator over the records of a [`Synthetic`].
pub struct Generated {
    synthetic: Synthetic,
    random: Pcg64,
    owed: Owed,
    end_ns: u64,
    /// Sizes of files.
    sizes: Vec<u32>,
    recent: VecDeque<u64>,
    /// Names of files that were made, with their directories.
    temporary: VecDeque<(FileId, u64)>,
    made: u64,
    /// The directory that a walk over everything comes to next.
    walk: u64,
    /// The share of walks that go over everything.
    walks_all: f64,
    bursts: BinaryHeap<Reverse<Burst>>,
    burst_count: u64,
    next_burst_ns: f64,
    next_turn_ns: f64,
    /// Records of activities that have begun, by time.
    ready: BinaryHeap<Reverse<(u64, u64)>>,
    stored: rustc_hash::FxHashMap<u64, Record>,
    count: u64,
}

impl Generated {
    fn new(synthetic: Synthetic) -> Self {
        let Synthetic { server, seed, days, files_bytes } = synthetic;
        let part = days / server.days;
        let mut sizes_random = seeded(seed, "trace: sizes");
        let (mut sizes, mut sum) = (Vec::new(), 0.0);
        while sum < files_bytes {
            // Median 6 KB, mean 22 KB.
            let bytes = (6000.0 * (1.6 * normal(&mut sizes_random)).exp()).clamp(64.0, 8e6);
            sum += (bytes / 4096.0).ceil() * 4096.0;
            sizes.push(bytes as u32);
        }
        // A walk over everything takes some 42 requests, another one 16.
        let all = WALKS * sizes.len() as f64 / PER_DIRECTORY as f64;
        let others = (server.directory_reads * part - 42.0 * all).max(0.0) / 16.0;
        let walks_all = all / (all + others).max(1.0);
        Self {
            synthetic,
            random: seeded(seed, "trace: requests"),
            owed: Owed {
                reads: server.reads * part,
                writes: server.writes * part,
                directory_reads: server.directory_reads * part,
                directory_changes: server.directory_changes * part,
                setattrs: server.setattrs() * part,
                others: server.others() * part,
            },
            end_ns: (days * DAY_S * 1e9) as u64,
            sizes,
            recent: VecDeque::new(),
            temporary: VecDeque::new(),
            made: 0,
            walk: 0,
            walks_all,
            bursts: BinaryHeap::new(),
            burst_count: 0,
            next_burst_ns: 0.0,
            next_turn_ns: server.period_s.map_or(f64::INFINITY, |period_s| period_s * 1e9),
            ready: BinaryHeap::new(),
            stored: rustc_hash::FxHashMap::default(),
            count: 0,
        }
    }

    /// How much more happens than on average at that time of the day: most in the afternoon, least in the small hours.
    fn bustle(at_ns: f64) -> f64 {
        let hour = at_ns / 1e9 / 3600.0 % 24.0;
        1.0 + 0.8 * ((hour - 9.0) / 24.0 * std::f64::consts::TAU).sin()
    }

    fn begin_burst(&mut self) {
        let server = self.synthetic.server;
        let at_ns = self.next_burst_ns;
        let gap_s = server.burst_gap_s / Self::bustle(at_ns);
        // Log-normal: mean as above, with a long tail.
        self.next_burst_ns += 1e9 * gap_s * (1.2 * normal(&mut self.random) - 0.72).exp();
        let left_s = (self.end_ns as f64 - at_ns).max(1.0) / 1e9;
        // As many requests as are owed for the rest of the time.
        let mean = self.owed.sum() / left_s * gap_s;
        let length = mean * (1.0 * normal(&mut self.random) - 0.5).exp();
        self.burst_count += 1;
        let client = self.random.random_range(1..=server.clients);
        let left = length.ceil().clamp(1.0, 1e6) as u32;
        self.bursts.push(Reverse(Burst { next_ns: at_ns as u64, number: self.burst_count, client, left }));
    }

    /// The next activity of the burst that is due first.
    fn go_on(&mut self) {
        let Some(Reverse(mut burst)) = self.bursts.pop() else { return };
        let before = self.count;
        burst.next_ns = self.act(burst.client, burst.next_ns);
        burst.left = burst.left.saturating_sub((self.count - before).max(1) as u32);
        if burst.left > 0 && self.owed.sum() > 0.0 {
            self.bursts.push(Reverse(burst));
        }
    }

    /// Begins an activity; returns when it ends.
    fn act(&mut self, client: u32, at_ns: u64) -> u64 {
        let owed = self.owed;
        // By requests that an activity takes of its kind.
        let weights = [
            owed.directory_reads / 20.0,
            owed.reads / 5.0,
            owed.writes / 8.0,
            owed.directory_changes / 4.0,
            owed.directory_changes / 4.0,
            owed.setattrs,
            owed.others / 10.0,
        ]
        .map(|weight| weight.max(0.0));
        let mut at = self.random.random_range(0.0..weights.iter().sum::<f64>().max(1e-9));
        let kind = weights.iter().position(|weight| {
            at -= weight;
            at < 0.0
        });
        let mut pen = Pen { client, at_ns };
        match kind.unwrap_or(6) {
            0 => self.walk_directory(&mut pen),
            1 => self.read_file(&mut pen),
            2 => self.overwrite(&mut pen),
            3 => self.make_file(&mut pen),
            4 => self.remove_file(&mut pen),
            5 => {
                let file = self.choose();
                self.owed.setattrs -= 1.0;
                self.push(&mut pen, Op::Setattr, Self::id(file), |record| record.argument = Some(0o644));
            }
            _ => {
                for _ in 0..self.random.random_range(5..16) {
                    let file = self.choose();
                    self.owed.others -= 1.0;
                    let size = u64::from(self.sizes[file as usize]);
                    self.push(&mut pen, Op::Getattr, Self::id(file), |record| record.length = Some(size));
                }
            }
        }
        pen.at_ns
    }

    fn id(file: u64) -> FileId {
        FileId(FILES + file)
    }

    fn directory_of(file: u64) -> FileId {
        FileId(DIRECTORIES + file / PER_DIRECTORY)
    }

    /// A file: one that was used lately, or any.
    fn choose(&mut self) -> u64 {
        if !self.recent.is_empty() && self.random.random_bool(0.85) {
            return self.recent[self.random.random_range(0..self.recent.len())];
        }
        let file = self.random.random_range(0..self.sizes.len() as u64);
        self.recent.push_back(file);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        file
    }

    fn push(&mut self, pen: &mut Pen, op: Op, file: FileId, fill: impl FnOnce(&mut Record)) {
        let mut record =
            Record { client: pen.client, outcome: Outcome::Done(0), ..Record::new(pen.at_ns, op, file) };
        fill(&mut record);
        let think_ns = self.synthetic.server.think_ms * 1e6;
        pen.at_ns += 1000 + exponential(&mut self.random, think_ns) as u64;
        self.count += 1;
        self.ready.push(Reverse((record.time_ns, self.count)));
        self.stored.insert(self.count, record);
    }

    fn lookup(&mut self, pen: &mut Pen, file: u64) {
        self.owed.directory_reads -= 1.0;
        let size = u64::from(self.sizes[file as usize]);
        self.push(pen, Op::Lookup, Self::directory_of(file), |record| {
            (record.name, record.made, record.length) = (name_of(file), Self::id(file), Some(size));
        });
    }

    /// Some walks go over everything in turn, as backups do, so that every file is used; the others look at what was used lately.
    fn walk_directory(&mut self, pen: &mut Pen) {
        if !self.random.random_bool(self.walks_all) {
            for _ in 0..self.random.random_range(8..24) {
                let file = self.choose();
                self.lookup(pen, file);
            }
            return;
        }
        let directories = (self.sizes.len() as u64).div_ceil(PER_DIRECTORY);
        let at = self.walk % directories;
        self.walk += 1;
        let (directory, name) = (FileId(DIRECTORIES + at), format!("d{at}").into_bytes());
        self.push(pen, Op::Lookup, ROOT, |record| (record.name, record.made) = (name, directory));
        self.push(pen, Op::Readdir, directory, |record| record.length = Some(4096));
        self.owed.directory_reads -= 2.0;
        for file in at * PER_DIRECTORY..((at + 1) * PER_DIRECTORY).min(self.sizes.len() as u64) {
            self.lookup(pen, file);
        }
    }

    fn read_file(&mut self, pen: &mut Pen) {
        let file = self.choose();
        self.lookup(pen, file);
        let size = u64::from(self.sizes[file as usize]);
        self.transfer(pen, Op::Read, Self::id(file), 0, size);
    }

    /// Reads or writes a range, a transfer at a time.
    fn transfer(&mut self, pen: &mut Pen, op: Op, file: FileId, from: u64, to: u64) {
        for at in (from..to).step_by(TRANSFER_BYTES as usize) {
            let len = (to - at).min(TRANSFER_BYTES);
            match op {
                Op::Read => self.owed.reads -= 1.0,
                _ => self.owed.writes -= 1.0,
            }
            self.push(pen, op, file, |record| {
                (record.offset, record.length, record.outcome) = (Some(at), Some(len), Outcome::Done(len));
            });
        }
    }

    /// Overwrites the end of a file, rather of a large one: most writes of the traces are whole transfers.
    fn overwrite(&mut self, pen: &mut Pen) {
        let mut file = self.choose();
        for _ in 0..6 {
            if self.sizes[file as usize] > 40_000 {
                break;
            }
            file = self.choose();
        }
        self.lookup(pen, file);
        let size = u64::from(self.sizes[file as usize]);
        // Half of the rewrites are 4 transfers or fewer, a hundredth are 130 or more.
        let transfers = (4.0 * (1.5 * normal(&mut self.random)).exp()).ceil() as u64;
        let from = size.saturating_sub(transfers * TRANSFER_BYTES) / TRANSFER_BYTES * TRANSFER_BYTES;
        self.transfer(pen, Op::Write, Self::id(file), from, size);
    }

    fn make_file(&mut self, pen: &mut Pen) {
        // New files take at most about half of the writes; where there are fewer, more files are renamed instead.
        let writes_each = self.owed.writes / (self.owed.directory_changes / 2.0).max(1.0);
        if !self.random.random_bool((writes_each / 5.0).clamp(0.05, 1.0)) && !self.temporary.is_empty() {
            return self.rename_file(pen);
        }
        let beside = self.choose();
        let (directory, number) = (Self::directory_of(beside), self.made);
        self.made += 1;
        self.owed.directory_changes -= 1.0;
        let name = format!("t{number}").into_bytes();
        self.push(pen, Op::Create, directory, |record| (record.name, record.argument) = (name, Some(0o644)));
        let size = (8000.0 * normal(&mut self.random).exp()) as u64;
        // The next call of this client tells which file it is.
        self.transfer(pen, Op::Write, FileId(FILES * 2 + number), 0, size.max(1));
        self.temporary.push_back((directory, number));
    }

    fn rename_file(&mut self, pen: &mut Pen) {
        let Some((directory, number)) = self.temporary.pop_back() else { return };
        let renamed = self.made;
        self.made += 1;
        self.owed.directory_changes -= 1.0;
        self.push(pen, Op::Rename, directory, |record| {
            (record.name, record.to_file) = (format!("t{number}").into_bytes(), directory);
            record.to_name = format!("t{renamed}").into_bytes();
        });
        self.temporary.push_back((directory, renamed));
    }

    fn remove_file(&mut self, pen: &mut Pen) {
        if self.temporary.len() < TEMPORARY {
            return self.make_file(pen);
        }
        let Some((directory, number)) = self.temporary.pop_front() else { return };
        let name = format!("t{number}").into_bytes();
        self.owed.directory_changes -= 1.0;
        self.push(pen, Op::Unlink, directory, |record| record.name = name);
    }

    /// The process that does something every two minutes: it reads the beginning of a file that was not used lately.
    fn take_turn(&mut self) {
        let Some(period_s) = self.synthetic.server.period_s else { return };
        let mut pen = Pen { client: 1, at_ns: self.next_turn_ns as u64 };
        self.next_turn_ns += period_s * 1e9;
        let file = self.random.random_range(0..self.sizes.len() as u64);
        self.lookup(&mut pen, file);
        let size = u64::from(self.sizes[file as usize]).min(TRANSFER_BYTES);
        self.transfer(&mut pen, Op::Read, Self::id(file), 0, size);
    }

    /// The time before which nothing new begins.
    fn settled_ns(&self) -> f64 {
        let burst_ns = self.bursts.peek().map_or(f64::INFINITY, |Reverse(burst)| burst.next_ns as f64);
        burst_ns.min(self.next_burst_ns).min(self.next_turn_ns)
    }
}

/// Who writes the records of an activity, and when the next one is due.
struct Pen {
    client: u32,
    at_ns: u64,
}

fn name_of(file: u64) -> Vec<u8> {
    format!("f{file}").into_bytes()
}

impl Iterator for Generated {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        loop {
            let settled_ns = self.settled_ns();
            if let Some(&Reverse((time_ns, number))) = self.ready.peek()
                && ((time_ns as f64) < settled_ns || settled_ns >= self.end_ns as f64)
            {
                self.ready.pop();
                if time_ns >= self.end_ns {
                    continue;
                }
                return self.stored.remove(&number);
            }
            if settled_ns >= self.end_ns as f64 {
                return None;
            }
            if self.next_turn_ns <= settled_ns {
                self.take_turn();
            } else if self.next_burst_ns <= settled_ns {
                self.begin_burst();
            } else {
                self.go_on();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::servers::SERVERS;

    /// A hundredth of a server's time and files.
    fn small(server: &'static Server, seed: u64) -> Synthetic {
        let whole = Synthetic::of(server, seed);
        Synthetic { days: server.days / 50.0, files_bytes: whole.files_bytes / 100.0, ..whole }
    }

    #[test]
    fn the_counts_are_those_of_the_table() {
        for server in &SERVERS {
            let synthetic = small(server, 1);
            let mut counts = [0.0; 4];
            let mut last_ns = 0;
            for record in synthetic.generate() {
                assert!(record.time_ns >= last_ns, "in order of time");
                last_ns = record.time_ns;
                let kind = match record.op {
                    Op::Read => 0,
                    Op::Write => 1,
                    Op::Lookup | Op::Readdir => 2,
                    Op::Create | Op::Unlink | Op::Rename => 3,
                    _ => continue,
                };
                counts[kind] += 50.0;
            }
            let table = [server.reads, server.writes, server.directory_reads, server.directory_changes];
            for (count, published) in counts.into_iter().zip(table) {
                assert!((count / published - 1.0).abs() < 0.15, "{}: {counts:?} {table:?}", server.name);
            }
        }
    }

    #[test]
    fn the_seed_decides() {
        let all = |seed| small(&SERVERS[0], seed).generate().collect::<Vec<_>>();
        let (first, again, other) = (all(1), all(1), all(2));
        assert!(first == again && first != other);
        let turn = |record: &&Record| record.client == 1 && record.op == Op::Read;
        assert!(first.iter().filter(turn).count() > 50, "Attic's process has its turn every two minutes");
    }
}
