//! Sprite LFS, figure 8, and USENIX'95, figure 1: 10,000 files of 1 KB are created, read in the same order, and deleted. Caller:
//! `firn sim paper small-files` and `small-files-bsd`.

use super::claims::{Claim, Expected};
use super::rig::{Phase, Program, Rig, Setup};
use crate::error::LabError;
use firnfs::inode::Kind;
use firnfs_format::InodeNo;
use serde::Serialize;

/// Files of one directory: the paper does not say how many; USENIX'95 section 3 has at most 100.
const DIRECTORY_FILES: u64 = 100;
const FILE_BYTES: usize = 1024;

/// One phase.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Rate {
    /// Files a second.
    pub files_per_s: f64,
    /// Share of the time during which the processor worked.
    pub cpu_share: f64,
    /// Share of the time during which the disk worked.
    pub disk_share: f64,
    /// Bytes read from the disk for each file.
    pub read_bytes_per_file: f64,
    /// Bytes written to the disk for each file.
    pub written_bytes_per_file: f64,
}

/// The three phases.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Rates {
    /// Creating, with a sync at the end.
    pub create: Rate,
    /// Reading, with nothing in memory.
    pub read: Rate,
    /// Deleting, with nothing in memory, and a sync at the end.
    pub delete: Rate,
}

/// The figure: one machine, and creating on faster ones.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
    /// Part (a).
    pub rates: Rates,
    /// Part (b): how many times as fast the processor is, and files created a second.
    pub faster: Vec<(f64, f64)>,
}

/// Runs both parts with that many files.
///
/// # Errors
/// The volume cannot be made, or the file system failed.
pub fn run(setup: &Setup, files: u64, progress: &mut dyn FnMut(f64)) -> Result<Figure, LabError> {
    let rates = rates(setup, files)?;
    progress(1.0);
    let mut faster = vec![(1.0, rates.create.files_per_s)];
    for times in [2.0, 4.0] {
        let setup = Setup { cpu: setup.cpu.faster(times), ..setup.clone() };
        faster.push((times, create_rate(&setup, files)?));
        progress(faster.len() as f64);
    }
    Ok(Figure { rates, faster })
}

/// Files created a second, and nothing else.
pub(super) fn create_rate(setup: &Setup, files: u64) -> Result<f64, LabError> {
    let phase = Rig::new(setup)?.run(|program| create(program, files))?;
    Ok(rate(&phase, files).files_per_s)
}

pub(super) fn rates(setup: &Setup, files: u64) -> Result<Rates, LabError> {
    let rig = Rig::new(setup)?;
    let created = rig.run(|program| create(program, files))?;
    let read = rig.run(|program| read(program, files))?;
    let deleted = rig.run(|program| delete(program, files))?;
    Ok(Rates { create: rate(&created, files), read: rate(&read, files), delete: rate(&deleted, files) })
}

fn rate(phase: &Phase, files: u64) -> Rate {
    let files = files as f64;
    Rate {
        files_per_s: files / phase.seconds,
        cpu_share: phase.cpu_share,
        disk_share: phase.disk_share,
        read_bytes_per_file: phase.disk.asked.read_bytes as f64 / files,
        written_bytes_per_file: phase.disk.asked.write_bytes as f64 / files,
    }
}

fn directory(file: u64) -> String {
    format!("d{}", file / DIRECTORY_FILES)
}

fn name(file: u64) -> String {
    format!("file{:06}", file)
}

/// The directory of a file, found or made with its first one.
struct Directories {
    current: Option<(u64, InodeNo)>,
    count: u64,
}

impl Directories {
    fn new(files: u64) -> Self {
        Self { current: None, count: files.div_ceil(DIRECTORY_FILES) }
    }

    fn of(
        &mut self,
        file: u64,
        find: impl FnOnce(&str) -> Result<InodeNo, LabError>,
    ) -> Result<InodeNo, LabError> {
        let number = file / DIRECTORY_FILES;
        match self.current {
            Some((current, ino)) if current == number => Ok(ino),
            _ => {
                let ino = find(&directory(file))?;
                self.current = Some((number, ino));
                Ok(ino)
            }
        }
    }
}

fn create(program: &Program<'_>, files: u64) -> Result<Phase, LabError> {
    let content = [7; FILE_BYTES];
    let start = program.moment();
    let mut directories = Directories::new(files);
    for file in 0..files {
        let entries = file % DIRECTORY_FILES;
        let parent = directories
            .of(file, |name| program.make(InodeNo::ROOT, name, Kind::Directory, file / DIRECTORY_FILES))?;
        let ino = program.make(parent, &name(file), Kind::Regular, entries)?;
        program.write(ino, 0, &content)?;
        program.close(ino)?;
    }
    program.sync()?;
    Ok(program.since(&start))
}

fn read(program: &Program<'_>, files: u64) -> Result<Phase, LabError> {
    let mut content = [0; FILE_BYTES];
    let start = program.moment();
    let mut directories = Directories::new(files);
    for file in 0..files {
        let count = directories.count;
        let parent = directories.of(file, |name| program.open(InodeNo::ROOT, name, count))?;
        let ino = program.open(parent, &name(file), DIRECTORY_FILES)?;
        program.read(ino, 0, &mut content)?;
        program.close(ino)?;
        if content != [7; FILE_BYTES] {
            return Err(LabError::WrongData { path: name(file).into(), at_bytes: 0 });
        }
    }
    Ok(program.since(&start))
}

fn delete(program: &Program<'_>, files: u64) -> Result<Phase, LabError> {
    let start = program.moment();
    let mut directories = Directories::new(files);
    for file in 0..files {
        let count = directories.count;
        let parent = directories.of(file, |name| program.open(InodeNo::ROOT, name, count))?;
        program.unlink(parent, &name(file), DIRECTORY_FILES - file % DIRECTORY_FILES)?;
    }
    program.sync()?;
    Ok(program.since(&start))
}

const TURNS: &str = "each 64 KB of a segment cost a turn, and the log has more bytes for each file than files and inodes; the same bytes \
                     at the bus's 1.3 MB/s would take two thirds of the time";
const UNEXPLAINED: &str = "USENIX'95 section 2 expects deletes to take more processor time than creates and cannot explain Sprite's \
                           either; here both touch four blocks";

/// The claims of section 5.1 that need no SunOS. Marked (m): the numeral is lost in the copy at hand and given from the
/// published text.
#[must_use]
pub fn claims(figure: &Figure) -> Vec<Claim> {
    let claim = |what, expected, ours, unit| Claim::new("figure 8", what, expected, ours, unit);
    let Rates { create, delete, .. } = figure.rates;
    let within = |value, share| Expected::Within { value, share };
    let speedup = figure.faster.last().map_or(0.0, |(_, rate)| rate / create.files_per_s);
    let to_create = delete.files_per_s / create.files_per_s;
    let busy = "create: share of the time that the disk is busy (m)";
    let faster = "create on a processor 4 times as fast (part b: scales with it)";
    vec![
        claim(busy, within(0.17, 0.5), create.disk_share, "share").missed(TURNS),
        claim(
            "create: share of the processor (saturated)",
            Expected::AtLeast(0.9),
            create.cpu_share,
            "share",
        ),
        claim(faster, within(4.0, 0.1), speedup, "times").missed(TURNS),
        claim("delete against create (faster)", Expected::AtLeast(1.0), to_create, "ratio")
            .missed(UNEXPLAINED),
    ]
}

/// The processor's shares that USENIX'95 gives in section 2; the rates of its figure 1 are lost in the copy at hand.
#[must_use]
pub fn bsd_claims(figure: &Figure) -> Vec<Claim> {
    let share = |what, value, ours| {
        Claim::new("section 2", what, Expected::Within { value, share: 0.15 }, ours, "share")
    };
    vec![
        share("create: share of the processor", 0.64, figure.rates.create.cpu_share),
        share("delete: the same", 0.73, figure.rates.delete.cpu_share),
    ]
}
