//! Profiles of short-lived files (section 3.2): what happened in one directory on one day to files that were made and deleted on that day.
//!
//! [`cut`] takes them from a recorded workload; a [`Preset`] makes them up, and is called synthetic wherever it is shown.

use super::{Act, Event, SHORT_LIVED};
use crate::error::LabError;
use crate::trace::{Matched, nameless};
use firnfs_workload::{FileId, Op, Outcome, Record};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

pub(super) const DAY_NS: u64 = 86_400_000_000_000;
const HOUR_NS: u64 = 3_600_000_000_000;
/// Short-lived files that `cut` follows at a time.
const FOLLOWED_MAX: usize = 1 << 20;

/// A file of a profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShortFile {
    /// When it is made, in nanoseconds since the beginning of the day.
    pub made_ns: u64,
    /// When it is deleted; not before it is made.
    pub deleted_ns: u64,
    /// Its size in bytes.
    pub size_bytes: u64,
}

/// One directory-day of short-lived files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Profile {
    /// Its files, in the order in which they are deleted.
    pub files: Vec<ShortFile>,
}

impl Profile {
    /// When most of it happens, in nanoseconds since the beginning of the day.
    #[must_use]
    pub fn peak_ns(&self) -> u64 {
        peak(self.files.iter().flat_map(|file| [file.made_ns, file.deleted_ns]))
    }

    /// Its events in a directory on a day, shifted so that its peak is at that time; none leaves the day.
    pub(super) fn place(
        &self,
        dir: u64,
        day: std::ops::Range<i64>,
        peak_ns: u64,
        next_file: &mut u64,
    ) -> Vec<Event> {
        let shift_ns = peak_ns.cast_signed() - self.peak_ns().cast_signed();
        let last_ns = (day.end - 1).max(day.start);
        let at = |time_ns: u64| {
            day.start.saturating_add(time_ns.cast_signed()).saturating_add(shift_ns).clamp(day.start, last_ns)
        };
        let mut events = Vec::with_capacity(self.files.len() * 2);
        for file in &self.files {
            let number = SHORT_LIVED + *next_file;
            *next_file += 1;
            let create = Act::Create { size_bytes: file.size_bytes };
            events.push(Event { time_ns: at(file.made_ns), dir, file: number, act: create });
            events.push(Event { time_ns: at(file.deleted_ns), dir, file: number, act: Act::Delete });
        }
        events
    }
}

/// The middle of the hour in which most happens: the earliest of equals. Zero without events.
pub(super) fn peak(times_ns: impl Iterator<Item = u64>) -> u64 {
    let mut times: Vec<u64> = times_ns.collect();
    times.sort_unstable();
    let mut best = (0, 0);
    let mut from = 0;
    for (to, &time) in times.iter().enumerate() {
        while time - times[from] > HOUR_NS {
            from += 1;
        }
        let count = to - from + 1;
        if count > best.0 {
            best = (count, times[from].midpoint(time));
        }
    }
    best.1
}

/// A file that was made today, as far as the trace has come.
struct Young {
    dir: u64,
    made_ns: u64,
    size_bytes: u64,
}

/// Follows the files of one day.
#[derive(Default)]
struct Day {
    number: u64,
    names: FxHashMap<(u64, Vec<u8>), u64>,
    young: FxHashMap<u64, Young>,
    profiles: BTreeMap<u64, Profile>,
}

/// Profiles of a recorded workload: one for each directory and day (in UTC) with files that were made and deleted on that day. `start_ns` is
/// the header's. A create that does not say which file it made is matched with a later change, as in the traces of 1995; one without a match
/// is known by its name.
///
/// # Errors
/// A record is damaged.
pub fn cut(
    records: impl Iterator<Item = Result<Record, firnfs_workload::Error>>,
    start_ns: u64,
) -> Result<Vec<Profile>, LabError> {
    let mut all = Vec::new();
    let mut day = Day::default();
    for record in Matched::new(records.map(|read| read.map_err(|error| LabError::Setup(error.to_string())))) {
        let record = record?;
        let time_ns = start_ns.saturating_add(record.time_ns);
        let number = time_ns / DAY_NS;
        // Threads may write down their operations a little out of order.
        if number > day.number {
            all.extend(std::mem::take(&mut day.profiles).into_values());
            day = Day { number, ..Day::default() };
        }
        if !matches!(record.outcome, Outcome::Failed(_)) {
            day.follow(&record, time_ns % DAY_NS);
        }
    }
    all.extend(day.profiles.into_values());
    Ok(all)
}

impl Day {
    fn follow(&mut self, record: &Record, time_ns: u64) {
        let place = |file: FileId, name: &[u8]| place_of(file, name);
        match record.op {
            Op::Create | Op::Mknod => {
                let (dir, name) = place(record.file, &record.name);
                let FileId(file) =
                    if record.made.is_some() { record.made } else { nameless(FileId(dir), &name) };
                if self.young.len() < FOLLOWED_MAX && !self.young.contains_key(&file) {
                    self.names.insert((dir, name), file);
                    self.young.insert(file, Young { dir, made_ns: time_ns, size_bytes: 0 });
                }
            }
            Op::Write | Op::Copy => {
                let (file, at) = match record.op {
                    Op::Copy => (record.to_file, record.to_offset),
                    _ => (record.file, record.offset),
                };
                let moved =
                    if let Outcome::Done(bytes) = record.outcome { Some(bytes) } else { record.length };
                if let Some(young) = self.young.get_mut(&file.0) {
                    let end_bytes = at.unwrap_or(young.size_bytes).saturating_add(moved.unwrap_or(0));
                    young.size_bytes = young.size_bytes.max(end_bytes);
                }
            }
            Op::Truncate => {
                if let Some(young) = self.young.get_mut(&record.file.0) {
                    young.size_bytes = record.length.unwrap_or(0);
                }
            }
            Op::Unlink => self.delete(&place(record.file, &record.name), time_ns),
            Op::Rename => {
                let target = place(record.to_file, &record.to_name);
                self.delete(&target, time_ns);
                if let Some(file) = self.names.remove(&place(record.file, &record.name)) {
                    self.names.insert(target, file);
                }
            }
            _ => {}
        }
    }

    fn delete(&mut self, place: &(u64, Vec<u8>), time_ns: u64) {
        let Some(young) = self.names.remove(place).and_then(|file| self.young.remove(&file)) else { return };
        let Young { dir, made_ns, size_bytes } = young;
        let file = ShortFile { made_ns, deleted_ns: time_ns.max(made_ns), size_bytes };
        self.profiles.entry(dir).or_default().files.push(file);
    }
}

/// The directory and the name: traces of system calls have paths only.
fn place_of(file: FileId, name: &[u8]) -> (u64, Vec<u8>) {
    match name.iter().rposition(|&byte| byte == b'/') {
        Some(at) if !file.is_some() => (FileId::of_bytes(&name[..at]).0, name[at + 1..].to_vec()),
        _ => (file.0, name.to_vec()),
    }
}

/// Made-up profiles for a kind of use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preset {
    /// Editors and compilers: temporary files and objects of up to some 100 KB that live for seconds to minutes.
    Engineering,
    /// Articles that arrive in batches and are moved, with locks and index files.
    News,
    /// Locks and copies of messages that live for less than a second.
    Mail,
    /// Few large files of sorts that live for minutes.
    Database,
}

/// How a preset's files look.
struct Shape {
    /// Files of a profile, from and to.
    files: (u64, u64),
    /// Sizes from and to, in bytes: the logarithm is uniform.
    size_bytes: (f64, f64),
    /// Share of files without content.
    empty: f64,
    /// Lifetimes from and to, in seconds: the logarithm is uniform.
    life_s: (f64, f64),
    /// The hours of a burst.
    burst_h: f64,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Engineering, Self::News, Self::Mail, Self::Database];
    /// As many as the paper cut from its trace.
    const PROFILES: usize = 449;

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Engineering => "engineering",
            Self::News => "news",
            Self::Mail => "mail",
            Self::Database => "database",
        }
    }

    fn shape(self) -> Shape {
        let shape =
            |files, size_bytes, empty, life_s, burst_h| Shape { files, size_bytes, empty, life_s, burst_h };
        match self {
            Self::Engineering => shape((2, 200), (512.0, 262_144.0), 0.05, (1.0, 1800.0), 2.0),
            Self::News => shape((50, 400), (1024.0, 16_384.0), 0.2, (2.0, 7200.0), 8.0),
            Self::Mail => shape((10, 300), (512.0, 65_536.0), 0.5, (0.05, 10.0), 9.0),
            Self::Database => shape((1, 12), (262_144.0, 33_554_432.0), 0.0, (10.0, 3600.0), 6.0),
        }
    }

    /// Its profiles.
    #[must_use]
    pub fn profiles(self, seed: u64) -> Vec<Profile> {
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x5f0f_11e5);
        let shape = self.shape();
        (0..Self::PROFILES).map(|_| shape.profile(&mut rng)).collect()
    }
}

impl Shape {
    fn profile(&self, rng: &mut Pcg64Mcg) -> Profile {
        // Few profiles are large.
        let span = (self.files.1 - self.files.0) as f64;
        let count = self.files.0 + (rng.random::<f64>().powi(3) * span) as u64;
        let log_uniform =
            |rng: &mut Pcg64Mcg, (from, to): (f64, f64)| from * (to / from).powf(rng.random::<f64>());
        // The burst ends an hour before the day does.
        let start_h = 7.0 + rng.random::<f64>() * (16.0 - self.burst_h);
        let mut files: Vec<ShortFile> = (0..count)
            .map(|_| {
                let made_ns =
                    ((start_h + rng.random::<f64>().powi(2) * self.burst_h) * HOUR_NS as f64) as u64;
                let life_ns = (log_uniform(rng, self.life_s) * 1e9) as u64;
                let is_empty = rng.random::<f64>() < self.empty;
                let size_bytes = if is_empty { 0 } else { log_uniform(rng, self.size_bytes) as u64 };
                ShortFile { made_ns, deleted_ns: (made_ns + life_ns).min(DAY_NS - 1), size_bytes }
            })
            .collect();
        files.sort_by_key(|file| file.deleted_ns);
        Profile { files }
    }
}
