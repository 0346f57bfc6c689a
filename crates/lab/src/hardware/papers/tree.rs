//! The Andrew benchmark on a machine of 1993 (BSD-LFS 5.2.2): directories are made, files copied, examined, read and compiled.
//!
//! How long the programs compute is not in the paper, but its LFS does no I/O in the first four phases. So the times that LFS takes are
//! put in: in each phase the programs work as long as our log, too, needs the paper's time. In the fifth phase they work 59% of it and
//! wait for something else for the rest. What FFS and EFS take comes out, and so do all counts of requests.

use crate::error::LabError;
use crate::hardware::Setup;
use crate::hardware::rig::{Phase, Program, Rig};
use firnfs::inode::Kind;
use firnfs_format::InodeNo;

/// Seconds that LFS takes in each phase (table 6).
pub(super) const OF_LFS: [f64; 5] = [0.33, 5.00, 6.50, 9.07, 42.90];
/// Share of the fifth phase during which LFS's processor works.
const COMPILING: f64 = 0.59;
const DIRECTORIES: u64 = 20;
const FILES: u64 = 70;
/// Files that are compiled.
const COMPILED: u64 = 17;
const OBJECT_BYTES: usize = 6 << 10;
const PROGRAM_BYTES: usize = 90 << 10;
/// Largest source file; the smallest has a tenth of it. All have about 200 KB.
const SOURCE_BYTES: u64 = 5200;

/// A phase, mean of the passes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Mean {
    pub seconds: f64,
    pub reads: f64,
    pub writes: f64,
    pub write_bytes: f64,
}

/// How long the programs work and wait in each phase, in seconds.
#[derive(Clone, Copy, Default)]
struct Work {
    computes: f64,
    waits: f64,
}

/// Runs so many passes on a volume of that size that is 80% full, with the programs working as long as the paper's LFS needs.
///
/// # Errors
/// The volume cannot be made, or the file system failed.
pub(super) fn run(setup: &Setup, log: &Setup, volume_bytes: u64, passes: u32) -> Result<[Mean; 5], LabError> {
    let alone = measure(log, volume_bytes, 2, &[Work::default(); 5])?;
    let work = std::array::from_fn(|n| {
        let left = (OF_LFS[n] - alone[n].seconds).max(0.0);
        let share = if n == 4 { COMPILING } else { 1.0 };
        Work { computes: left * share, waits: left * (1.0 - share) }
    });
    measure(setup, volume_bytes, passes, &work)
}

fn measure(setup: &Setup, volume_bytes: u64, passes: u32, work: &[Work; 5]) -> Result<[Mean; 5], LabError> {
    let rig = Rig::new(&Setup { size_max_bytes: volume_bytes, ..setup.clone() })?;
    rig.run(|program| {
        let ino = program.make(InodeNo::ROOT, "filler", Kind::Regular, 0)?;
        let content = vec![1; 64 << 10];
        let pieces = volume_bytes / 100 * 80 / content.len() as u64;
        (0..pieces).try_for_each(|n| program.write(ino, n * content.len() as u64, &content))?;
        program.fsync(ino)
    })?;
    rig.run(|program| {
        let mut means = [Mean::default(); 5];
        // The first pass finds nothing in memory and is not counted.
        for pass in 0..=passes {
            let phases = pass_of(program, pass, work)?;
            for (mean, phase) in means.iter_mut().zip(phases).filter(|_| pass > 0) {
                let asked = phase.disk.asked;
                mean.seconds += phase.seconds / f64::from(passes);
                mean.reads += asked.reads as f64 / f64::from(passes);
                mean.writes += asked.writes as f64 / f64::from(passes);
                mean.write_bytes += asked.write_bytes as f64 / f64::from(passes);
            }
        }
        Ok(means)
    })
}

fn source_bytes(file: u64) -> usize {
    (SOURCE_BYTES / 10 + SOURCE_BYTES * 9 / 10 * file / (FILES - 1)) as usize
}

/// One pass, with the work of a phase spread over its steps.
struct Pass<'a> {
    program: &'a Program<'a>,
    work: Work,
    steps: u64,
}

impl Pass<'_> {
    fn step(&self) {
        let share_ns = |seconds: f64| (seconds * 1e9 / self.steps as f64) as i64;
        self.program.compute(share_ns(self.work.computes));
        self.program.pause(share_ns(self.work.waits));
    }
}

fn pass_of(program: &Program<'_>, number: u32, work: &[Work; 5]) -> Result<[Phase; 5], LabError> {
    let root = program.make(InodeNo::ROOT, &format!("pass{number}"), Kind::Directory, u64::from(number))?;
    let (mut directories, mut files) = (Vec::new(), Vec::new());
    let content = vec![7; PROGRAM_BYTES];
    let mut buffer = vec![0; PROGRAM_BYTES];
    let timed = |n: usize, steps: u64, phase: &mut dyn FnMut(&Pass<'_>) -> Result<(), LabError>| {
        let start = program.moment();
        phase(&Pass { program, work: work[n], steps })?;
        Ok::<Phase, LabError>(program.since(&start))
    };
    let made = timed(0, DIRECTORIES, &mut |pass| {
        for n in 0..DIRECTORIES {
            directories.push(program.make(root, &format!("dir{n}"), Kind::Directory, n)?);
            pass.step();
        }
        Ok(())
    })?;
    let parent = |n: u64| (n % DIRECTORIES) as usize;
    let copied = timed(1, FILES, &mut |pass| {
        for n in 0..FILES {
            let ino = program.make(
                directories[parent(n)],
                &format!("file{n}.c"),
                Kind::Regular,
                n / DIRECTORIES,
            )?;
            program.write(ino, 0, &content[..source_bytes(n)])?;
            program.close(ino)?;
            files.push(ino);
            pass.step();
        }
        Ok(())
    })?;
    let examined = timed(2, FILES, &mut |pass| {
        for n in 0..FILES {
            program.open(directories[parent(n)], &format!("file{n}.c"), FILES / DIRECTORIES)?;
            pass.step();
        }
        Ok(())
    })?;
    let read = timed(3, FILES, &mut |pass| {
        for (n, &ino) in (0..).zip(&files) {
            program.read(ino, 0, &mut buffer[..source_bytes(n)])?;
            pass.step();
        }
        Ok(())
    })?;
    let compiled = timed(4, COMPILED + 1, &mut |pass| {
        for n in 0..COMPILED {
            program.read(files[n as usize], 0, &mut buffer[..source_bytes(n)])?;
            pass.step();
            let ino = program.make(
                directories[parent(n)],
                &format!("file{n}.o"),
                Kind::Regular,
                FILES / DIRECTORIES,
            )?;
            program.write(ino, 0, &content[..OBJECT_BYTES])?;
            program.close(ino)?;
        }
        pass.step();
        let ino = program.make(root, "program", Kind::Regular, DIRECTORIES)?;
        program.write(ino, 0, &content)?;
        program.close(ino)
    })?;
    remove(program, number, root, &directories)?;
    Ok([made, copied, examined, read, compiled])
}

/// Deletes the hierarchy after a pass, and makes that durable.
fn remove(
    program: &Program<'_>,
    number: u32,
    root: InodeNo,
    directories: &[InodeNo],
) -> Result<(), LabError> {
    let parent = |n: u64| directories[(n % DIRECTORIES) as usize];
    (0..FILES).try_for_each(|n| program.unlink(parent(n), &format!("file{n}.c"), FILES / DIRECTORIES))?;
    (0..COMPILED).try_for_each(|n| program.unlink(parent(n), &format!("file{n}.o"), 1))?;
    program.unlink(root, "program", DIRECTORIES)?;
    (0..DIRECTORIES).try_for_each(|n| program.rmdir(root, &format!("dir{n}")))?;
    program.rmdir(InodeNo::ROOT, &format!("pass{number}"))?;
    program.sync()
}
