//! The Andrew benchmark on a machine of 1993 (BSD-LFS 5.2.2): directories are made, files copied, examined, read and compiled.
//!
//! How long the programs compute is not in the paper, but its LFS does no I/O in the first four phases. So the times that LFS takes are
//! put in: in each phase the programs work as long as our log, too, needs the paper's time. In the fifth phase they work 59% of it and
//! wait for something else for the rest. What FFS and EFS take comes out, and so do all counts of requests.

use crate::error::LabError;
use crate::hardware::Setup;
use crate::hardware::rig::{Meeting, Phase, Program, Rig};
use firnfs::inode::Kind;
use firnfs_format::InodeNo;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

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
    let work = work_of_paper(log, volume_bytes)?;
    measure(setup, volume_bytes, passes, &work)
}

/// How long the programs work and wait, so that our log, too, needs the paper's time.
fn work_of_paper(log: &Setup, volume_bytes: u64) -> Result<[Work; 5], LabError> {
    let alone = measure(log, volume_bytes, 2, &[Work::default(); 5])?;
    Ok(std::array::from_fn(|n| {
        let left = (OF_LFS[n] - alone[n].seconds).max(0.0);
        let share = if n == 4 { COMPILING } else { 1.0 };
        Work { computes: left * share, waits: left * (1.0 - share) }
    }))
}

/// A machine whose volume is 80% full.
fn filled(setup: &Setup, volume_bytes: u64) -> Result<Rig, LabError> {
    let rig = Rig::new(&Setup { size_max_bytes: volume_bytes, ..setup.clone() })?;
    rig.run(|program| {
        let ino = program.make(InodeNo::ROOT, "filler", Kind::Regular, 0)?;
        let content = vec![1; 64 << 10];
        let pieces = volume_bytes / 100 * 80 / content.len() as u64;
        (0..pieces).try_for_each(|n| program.write(ino, n * content.len() as u64, &content))?;
        program.fsync(ino)
    })?;
    Ok(rig)
}

fn measure(setup: &Setup, volume_bytes: u64, passes: u32, work: &[Work; 5]) -> Result<[Mean; 5], LabError> {
    filled(setup, volume_bytes)?.run(|program| {
        let mut means = [Mean::default(); 5];
        let elsewhere = Elsewhere::default();
        // The first pass finds nothing in memory and is not counted.
        for pass in 0..=passes {
            let user = User { program, work, elsewhere: &elsewhere, number: 0 };
            let phases = user.pass(pass)?;
            // So that no pass writes what an earlier one left.
            program.sync()?;
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

/// The benchmark with several users at a time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Together {
    /// Mean time of a pass over the number of users: the paper's "elapsed seconds per invocation".
    pub seconds: f64,
    /// The time from the beginning of the counted passes to the end of the last one, for each pass of each user; removal is a part of it.
    pub whole_seconds: f64,
    /// Share of this time in which the processor worked.
    pub cpu_share: f64,
    /// Requests of the disk in that time, for each pass of each user.
    pub reads: f64,
    /// See above.
    pub writes: f64,
    /// Requests for which the arm moved, for each pass of each user.
    pub seeks: f64,
}

/// Runs so many passes of so many users at a time; each has a hierarchy of its own.
///
/// # Errors
/// As [`run`].
pub(super) fn run_several(
    setup: &Setup,
    log: &Setup,
    volume_bytes: u64,
    (users, passes): (u32, u32),
) -> Result<Together, LabError> {
    let work = &work_of_paper(log, volume_bytes)?;
    let (elsewhere, meeting) = (&Elsewhere::default(), &Meeting::of(users as usize));
    let ends = filled(setup, volume_bytes)?.run_several(users as usize, |program, number| {
        let user = User { program, work, elsewhere, number: number as u32 };
        // The first pass finds nothing in memory and is not counted; the others begin together.
        let first = user.pass(0);
        program.meet(meeting)?;
        first?;
        let (start, mut seconds) = (program.moment(), 0.0);
        for pass in 1..=passes {
            seconds += user.pass(pass)?.iter().map(|phase| phase.seconds).sum::<f64>() / f64::from(passes);
        }
        Ok((program.moment().now_ns, program.since(&start), seconds))
    })?;
    let count = f64::from(users * passes);
    let whole = ends.iter().max_by_key(|(end_ns, ..)| *end_ns).map(|(_, whole, _)| *whole);
    let whole = whole.ok_or_else(|| LabError::Setup("the Andrew benchmark needs a user".to_owned()))?;
    let mean = ends.iter().map(|(.., seconds)| seconds).sum::<f64>() / f64::from(users);
    Ok(Together {
        seconds: mean / f64::from(users),
        whole_seconds: whole.seconds / count,
        cpu_share: whole.cpu_share,
        reads: whole.disk.asked.reads as f64 / count,
        writes: whole.disk.asked.writes as f64 / count,
        seeks: whole.disk.seeks as f64 / count,
    })
}

/// The disk with the compiler and its temporary files, for which the fifth phase waits: it serves one program at a time.
#[derive(Default)]
struct Elsewhere {
    free_at_ns: AtomicI64,
}

impl Elsewhere {
    /// Waits until it is free, and for that long.
    fn work(&self, program: &Program<'_>, work_ns: i64) {
        let now_ns = program.moment().now_ns;
        let done_ns = self.free_at_ns.load(Relaxed).max(now_ns) + work_ns;
        self.free_at_ns.store(done_ns, Relaxed);
        program.pause(done_ns - now_ns);
    }
}

fn source_bytes(file: u64) -> usize {
    (SOURCE_BYTES / 10 + SOURCE_BYTES * 9 / 10 * file / (FILES - 1)) as usize
}

/// A user of the machine, and what the programs do beside calling the file system.
struct User<'a> {
    program: &'a Program<'a>,
    work: &'a [Work; 5],
    elsewhere: &'a Elsewhere,
    number: u32,
}

/// A phase of a pass, with its work spread over its steps.
struct Pass<'a> {
    user: &'a User<'a>,
    work: Work,
    steps: u64,
}

impl Pass<'_> {
    fn step(&self) {
        let share_ns = |seconds: f64| (seconds * 1e9 / self.steps as f64) as i64;
        self.user.program.compute(share_ns(self.work.computes));
        let waits_ns = share_ns(self.work.waits);
        if waits_ns > 0 {
            self.user.elsewhere.work(self.user.program, waits_ns);
        }
    }
}

impl User<'_> {
    /// The five phases in a new hierarchy, which is removed afterwards.
    fn pass(&self, number: u32) -> Result<[Phase; 5], LabError> {
        let name = format!("user{}-pass{number}", self.number);
        let root = self.program.make(InodeNo::ROOT, &name, Kind::Directory, u64::from(self.number) + 1)?;
        let (phases, directories) = self.phases(root)?;
        remove(self.program, &name, root, &directories)?;
        Ok(phases)
    }

    /// The five phases in an empty directory; also returns the directories that they made.
    fn phases(&self, root: InodeNo) -> Result<([Phase; 5], Vec<InodeNo>), LabError> {
        let program = self.program;
        let (mut directories, mut files) = (Vec::new(), Vec::new());
        let content = vec![7; PROGRAM_BYTES];
        let mut buffer = vec![0; PROGRAM_BYTES];
        let timed = |n: usize, steps: u64, phase: &mut dyn FnMut(&Pass<'_>) -> Result<(), LabError>| {
            let start = program.moment();
            phase(&Pass { user: self, work: self.work[n], steps })?;
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
        Ok(([made, copied, examined, read, compiled], directories))
    }
}

/// Deletes the hierarchy of this name after a pass.
fn remove(program: &Program<'_>, name: &str, root: InodeNo, directories: &[InodeNo]) -> Result<(), LabError> {
    let parent = |n: u64| directories[(n % DIRECTORIES) as usize];
    (0..FILES).try_for_each(|n| program.unlink(parent(n), &format!("file{n}.c"), FILES / DIRECTORIES))?;
    (0..COMPILED).try_for_each(|n| program.unlink(parent(n), &format!("file{n}.o"), 1))?;
    program.unlink(root, "program", DIRECTORIES)?;
    (0..DIRECTORIES).try_for_each(|n| program.rmdir(root, &format!("dir{n}")))?;
    program.rmdir(InodeNo::ROOT, name)
}
