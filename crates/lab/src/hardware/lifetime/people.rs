//! The home directories of students of parallel computing, and seven months in them, made up: the paper publishes neither their files nor
//! their traffic (section 3.4).
//!
//! Inputs from the paper: days, size of the file system, how full it is in the end, and about how many operations and bytes there are. Ours: what
//! people do. They compile, edit, run programs whose output grows while others work, and keep some of it; when there is too much of it, the oldest
//! goes; now and then somebody clears up, or unpacks a tree.
//!
//! Invariants: same span and seed, same workload; the events of one file are in the order of time, since only its owner touches it, and an
//! owner does one thing after the other.

use super::{DAY_NS, Span};
use crate::age::workload::{Act, Emitter, Event, ROOT};
use crate::error::LabError;
use crate::hardware::fragmented::taken_bytes;
use crate::random::normal;
use firnfs_workload::{Header, Origin};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A Monday, at midnight: 2 January 1995.
const START_NS: i64 = 789_004_800_000_000_000;
const SECOND_NS: i64 = 1_000_000_000;
const HOUR_NS: i64 = 3600 * SECOND_NS;
const USERS: usize = 20;
/// Directories of a user in the paper's file system.
const PROJECTS: f64 = 12.0;
/// Operations of a day in the paper's file system, on average.
const OPERATIONS: f64 = 6000.0;
/// Operations for which somebody stays in a directory.
const STAY: u64 = 150;
/// How full the file system is on the first evening and at the end, in shares of the space for data; it fills fast at first.
const FULL: (f64, f64) = (0.1, 0.65);
const FILLS: f64 = 0.4;
/// When somebody clears up, in shares of the time, and how much of the space for data.
const CLEARED: [(f64, f64); 3] = [(0.47, 0.06), (0.66, 0.09), (0.85, 0.07)];
/// Numbers of directories begin here: those of the benchmarks are small.
const FIRST_DIRECTORY: u64 = ROOT + 1_000_000;

/// Sizes of files: the median in bytes, and the standard deviation of the natural logarithm.
type Bytes = (f64, f64);
const KEPT: Bytes = (3500.0, 1.7);
const OBJECT: Bytes = (12_000.0, 1.2);
const PROGRAM: Bytes = (150_000.0, 1.0);
const TEMPORARY: Bytes = (40_000.0, 1.5);
const OUTPUT: Bytes = (200_000.0, 1.5);
/// What a program writes at a time.
const PIECE_BYTES: u64 = 192 << 10;

/// What somebody keeps a file for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Text,
    Object,
    Program,
    Output,
}

#[derive(Clone, Copy)]
struct File {
    number: u64,
    bytes: u64,
    role: Role,
}

/// See the module's head.
pub(super) struct People {
    span: Span,
    rng: Pcg64Mcg,
    /// The files of each directory; those of user `u` are `u`, `u + USERS`, and so on.
    projects: Vec<Vec<File>>,
    live_bytes: u64,
    /// Outputs that were kept, with their directories, the oldest first.
    outputs: std::collections::VecDeque<(usize, u64)>,
    next_file: u64,
    /// The events of the day.
    events: Vec<Event>,
    /// When each user is free again.
    free_ns: [i64; USERS],
    /// Where the user is who acts, and when.
    here: usize,
    now_ns: i64,
    day: i64,
}

impl People {
    /// The workload of all days on a file system with that much space for data.
    ///
    /// # Errors
    /// None that is known.
    pub fn live(span: Span, data_bytes: u64, seed: u64) -> Result<Vec<u8>, LabError> {
        let projects = ((PROJECTS * span.share()).ceil() as usize).max(4) * USERS;
        let mut people = Self {
            span,
            rng: Pcg64Mcg::seed_from_u64(seed ^ 0x9e0_91e5),
            projects: vec![Vec::new(); projects],
            live_bytes: 0,
            outputs: std::collections::VecDeque::new(),
            next_file: FIRST_DIRECTORY + projects as u64,
            events: Vec::new(),
            free_ns: [0; USERS],
            here: 0,
            now_ns: START_NS,
            day: 0,
        };
        let mut header = Header::new(Origin::Made);
        header.start_ns = START_NS.cast_unsigned();
        let mut option = |name: &str, value: String| header.options.push((name.to_owned(), value));
        option("from", "home directories, made up".to_owned());
        option("seed", seed.to_string());
        let mut workload = Vec::new();
        let mut emitter = Emitter::new(&mut workload, &header)?;
        for day in 0..span.days {
            people.live_day(day, (people.full_on(day) * data_bytes as f64) as u64);
            // Stable: events of one file at one time stay in their order.
            people.events.sort_by_key(|event| event.time_ns);
            people.events.iter().try_for_each(|event| emitter.event(event))?;
            people.events.clear();
        }
        emitter.finish()?;
        Ok(workload)
    }

    /// The evenings of all days but the last.
    pub fn nights_ns(span: Span) -> Vec<i64> {
        (1..i64::from(span.days)).map(|day| START_NS + day * DAY_NS).collect()
    }

    /// How full the file system should be in the evening.
    fn full_on(&self, day: u32) -> f64 {
        let passed = f64::from(day + 1) / f64::from(self.span.days);
        let cleared: f64 = CLEARED
            .iter()
            .filter(|(at, _)| passed >= *at)
            // It grows back in a fifth of the time.
            .map(|(at, share)| share * (1.0 - (passed - at) / 0.15).max(0.0))
            .sum();
        FULL.0 + (FULL.1 - FULL.0) * passed.powf(FILLS) - cleared
    }

    fn live_day(&mut self, day: u32, goal_bytes: u64) {
        self.day = START_NS + i64::from(day) * DAY_NS;
        self.free_ns = std::array::from_fn(|_| 0);
        let weekday = if day % 7 < 5 { 1.2 } else { 0.5 };
        let noise = (0.35 * normal(&mut self.rng)).exp();
        let operations = (OPERATIONS * self.span.share() * weekday * noise) as usize;
        while self.events.len() < operations {
            self.visit();
        }
        self.reach(goal_bytes);
    }

    /// Somebody works in a directory for a while.
    fn visit(&mut self) {
        let user = (self.rng.random::<f64>().powf(1.5) * USERS as f64) as usize % USERS;
        self.enter(user);
        let until = self.events.len() as u64 + STAY / 2 + self.rng.random_range(0..STAY);
        while (self.events.len() as u64) < until {
            match self.rng.random_range(0..100) {
                0..60 => self.compile(),
                60..66 => self.edit(),
                66..98 => self.run(),
                _ => self.keep(KEPT, Role::Text),
            }
        }
        self.free_ns[user] = self.now_ns - self.day;
    }

    /// A user begins or goes on, in one of the directories that are used most.
    fn enter(&mut self, user: usize) {
        let count = self.projects.len() / USERS;
        let project = (self.rng.random::<f64>().powi(3) * count as f64) as usize % count;
        self.here = user + project * USERS;
        let morning_ns = (8.0 + 6.0 * self.rng.random::<f64>()) * HOUR_NS as f64;
        self.now_ns = self.day + self.free_ns[user].max(morning_ns as i64);
    }

    /// Time passes, but the day does not end.
    fn wait(&mut self, longest_s: f64) {
        let wait_ns = (self.rng.random::<f64>() * longest_s * SECOND_NS as f64) as i64;
        self.now_ns = (self.now_ns + wait_ns).min(self.day + DAY_NS - SECOND_NS);
    }

    fn event(&mut self, file: u64, act: Act) {
        let dir = FIRST_DIRECTORY + self.here as u64;
        self.events.push(Event { time_ns: self.now_ns, dir, file, act });
    }

    fn bytes(&mut self, (median, sigma): Bytes) -> u64 {
        (median * (sigma * normal(&mut self.rng)).exp()).clamp(60.0, 8e6) as u64
    }

    fn make(&mut self, bytes: u64) -> u64 {
        let number = self.next_file;
        self.next_file += 1;
        self.event(number, Act::Create { size_bytes: bytes });
        number
    }

    /// A file that stays.
    fn keep(&mut self, bytes: Bytes, role: Role) {
        let bytes = self.bytes(bytes);
        let number = self.make(bytes);
        self.projects[self.here].push(File { number, bytes, role });
        self.live_bytes += taken_bytes(bytes);
        self.wait(10.0);
    }

    fn remove(&mut self, at: usize) {
        let file = self.projects[self.here].swap_remove(at);
        self.live_bytes -= taken_bytes(file.bytes);
        self.event(file.number, Act::Delete);
    }

    /// One of the files here that serve for that.
    fn find(&mut self, role: Role) -> Option<usize> {
        let files = &self.projects[self.here];
        let start = if files.is_empty() { 0 } else { self.rng.random_range(0..files.len()) };
        (start..files.len()).chain(0..start).find(|&at| files[at].role == role)
    }

    /// A temporary file, which lives for seconds while its owner waits.
    fn pass(&mut self, bytes: Bytes) {
        let bytes = self.bytes(bytes);
        let number = self.make(bytes);
        self.wait(20.0);
        self.event(number, Act::Delete);
    }

    /// Objects and the program are made anew.
    fn compile(&mut self) {
        for _ in 0..self.rng.random_range(1..7) {
            self.pass(TEMPORARY);
            if let Some(old) = self.find(Role::Object) {
                self.remove(old);
            }
            self.keep(OBJECT, Role::Object);
        }
        if let Some(old) = self.find(Role::Program) {
            self.remove(old);
        }
        self.keep(PROGRAM, Role::Program);
        self.wait(120.0);
    }

    /// A text is changed: some editors write it anew, others replace it.
    fn edit(&mut self) {
        let Some(at) = self.find(Role::Text) else { return self.keep(KEPT, Role::Text) };
        let old = self.projects[self.here][at];
        let size_bytes = (old.bytes as f64 * self.rng.random_range(0.8..1.3)) as u64 + 1;
        if self.rng.random_bool(0.5) {
            self.event(old.number, Act::Rewrite { size_bytes });
            self.projects[self.here][at].bytes = size_bytes;
        } else {
            self.event(old.number, Act::Delete);
            let number = self.make(size_bytes);
            self.projects[self.here][at] = File { number, bytes: size_bytes, role: Role::Text };
        }
        self.live_bytes = self.live_bytes + taken_bytes(size_bytes) - taken_bytes(old.bytes);
        self.wait(300.0);
    }

    /// A program writes its output while others go on; most of it is removed when it has been looked at.
    fn run(&mut self) {
        let bytes = self.bytes(OUTPUT);
        let number = self.make(bytes.min(PIECE_BYTES));
        let mut at = bytes.min(PIECE_BYTES);
        while at < bytes {
            self.wait(30.0);
            let next = (at + PIECE_BYTES).min(bytes);
            self.event(number, Act::Grow { from_bytes: at, size_bytes: next });
            at = next;
        }
        self.wait(60.0);
        if self.rng.random_bool(0.98) {
            self.event(number, Act::Delete);
        } else {
            self.projects[self.here].push(File { number, bytes, role: Role::Output });
            self.outputs.push_back((self.here, number));
            self.live_bytes += taken_bytes(bytes);
        }
    }

    /// In the evening old output goes, or somebody unpacks a tree, until about as much is kept as should be.
    fn reach(&mut self, goal_bytes: u64) {
        while self.live_bytes > goal_bytes {
            match self.outputs.pop_front() {
                Some((project, number)) => {
                    self.late(project);
                    let found = self.projects[project].iter().position(|file| file.number == number);
                    found.into_iter().for_each(|at| self.remove(at));
                }
                None => self.clear(),
            }
        }
        while self.live_bytes + (goal_bytes / 100) < goal_bytes {
            // Some have far more than others.
            let project = (self.rng.random::<f64>().powi(2) * self.projects.len() as f64) as usize;
            self.late(project);
            (0..60).for_each(|_| self.keep(KEPT, Role::Text));
            self.free_ns[project % USERS] = self.now_ns - self.day;
        }
    }

    /// Somebody empties a directory.
    fn clear(&mut self) {
        let start = self.rng.random_range(0..self.projects.len());
        let filled = (start..self.projects.len()).chain(0..start).find(|&at| !self.projects[at].is_empty());
        self.late(filled.unwrap_or(start));
        while let Some(last) = self.projects[self.here].len().checked_sub(1) {
            self.remove(last);
        }
    }

    /// The owner of a directory comes to it an hour before midnight, or after whatever else there was to do.
    fn late(&mut self, project: usize) {
        self.here = project;
        self.now_ns = self.day + self.free_ns[project % USERS].max(DAY_NS - HOUR_NS);
        self.free_ns[project % USERS] = self.now_ns - self.day;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firnfs_workload::{Op, Reader};
    use std::collections::BTreeMap;

    #[test]
    fn files_are_made_before_they_go_and_fill_the_volume_as_far_as_they_should() {
        let span = Span { size_bytes: 1 << 26, days: 9 };
        let data_bytes = 60 << 20;
        let workload = People::live(span, data_bytes, 1).unwrap();
        assert_eq!(workload, People::live(span, data_bytes, 1).unwrap());
        assert_ne!(workload, People::live(span, data_bytes, 2).unwrap());
        let mut files = BTreeMap::new();
        let mut last_ns = 0;
        for record in Reader::new(&workload[..]).unwrap() {
            let record = record.unwrap();
            last_ns = record.time_ns;
            match record.op {
                Op::Create => assert_eq!(files.insert(record.made.0, 0), None, "a number is used once"),
                Op::Write => {
                    let bytes = files.get_mut(&record.file.0).expect("it was made");
                    assert!(record.offset.unwrap() <= *bytes, "without holes");
                    *bytes = record.offset.unwrap() + record.length.unwrap();
                }
                Op::Truncate => *files.get_mut(&record.file.0).expect("it was made") = 0,
                Op::Unlink => assert!(files.remove(&record.made.0).is_some(), "it was made"),
                _ => {}
            }
        }
        let days = last_ns / DAY_NS.cast_unsigned() + 1;
        assert_eq!(days, u64::from(span.days));
        let full = files.values().map(|&bytes| taken_bytes(bytes)).sum::<u64>() as f64 / data_bytes as f64;
        assert!((full - FULL.1).abs() < 0.02, "{full}");
    }
}
