//! The benchmarks behind the figures. Figures name the jobs that they need; each job runs once, on any of several threads, and
//! depends on nothing but its own description, so that the results do not depend on the threads.

use super::andrew_users as andrew;
use super::heuristic;
use super::heuristic_beyond::{self, Asked, Idle};
use super::load::{self, Served};
use super::scheme::{Host, Scheme};
use super::size::Size;
use super::small_runs;
use super::tree::{self, Mean, Together};
use crate::coalescing::{self, Conditions, Scene};
use crate::error::LabError;
use crate::hardware::bandwidth::{self, Point};
use crate::hardware::comparison::{
    Bandwidth, Files, Indirect, Micro, Rates, Results, Sized, run_by_size, run_transactions,
};
use crate::hardware::fragmented::{self, Aged};
use crate::hardware::lifetime::{self, History, Life, Policy};
use crate::hardware::production::{self, Used};
use crate::hardware::{Cleaner, Setup, find_disk, large_file, small_files};
use crate::micro::stop::Stop;
use crate::trace::{self, Model, Replayed};
use firnfs_sim::DiskWork;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

const KIB: u64 = 1024;

/// One benchmark.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Job {
    /// Many small files.
    Small(Host, Scheme),
    /// Creating them on a processor that many times as fast.
    Faster(Host, Scheme, u32),
    /// One large file.
    Large(Host, Scheme),
    /// A file of so many KiB written and read, on the HP.
    Point(Scheme, u64),
    /// Files of so many KiB, with blocks of 8 KB.
    Sized(Scheme, u64),
    /// Transactions on a large, empty disk without a cleaner.
    Uncleaned(Host, Scheme),
    /// The same on a disk of 512 MB, before it has been written once.
    Before(Host, Scheme),
    /// Large files read again after random writes and idle time, on a disk of this name.
    Reread(&'static str),
    /// The Andrew benchmark.
    Andrew(Scheme),
    /// The same with so many users at a time.
    AndrewTogether(Scheme, u32),
    /// The writes that two new files take.
    TwoFiles(Host, Scheme),
    /// Recovery of files of so many KiB, so many MiB in all.
    Recovery(u64, u64),
    /// Transactions on a disk that is full to so many percent; the log has segments of so many KiB.
    Load(Host, Scheme, u64, u32),
    /// A synthetic trace of this server, replayed.
    Trace(&'static str, Model),
    /// A part of it, replayed with other settings and with this seed.
    Beyond(&'static str, Model, Asked, u64),
    /// The same months on a Fast File System of this policy.
    Life(Policy),
    /// One of the production file systems of Sprite LFS: [`production::LOADS`].
    Production(usize),
    /// The Fast File System after months of use as this server of [`fragmented::SERVERS`].
    Aged(usize),
    /// Seven months of home directories, from which a workload is derived.
    History,
}

/// Its result.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Outcome {
    Small(small_files::Rates),
    Rate(f64),
    Large(large_file::Figure),
    Point(Point),
    Sized(Rates),
    Served(Box<Served>),
    Work(DiskWork),
    Andrew(Box<[Mean; 5]>),
    AndrewTogether(Together),
    Reread(coalescing::Row),
    Seconds(f64, f64),
    Trace(Box<Replayed>),
    Production(Box<Used>),
    Aged(Box<Aged>),
    History(Arc<History>),
    Life(Box<Life>),
}

/// What several jobs need: it is made by the first that asks.
#[derive(Default)]
struct Shared {
    history: OnceLock<Result<Arc<History>, String>>,
}

impl Shared {
    fn history(&self, size: &Size) -> Result<Arc<History>, LabError> {
        let made = self.history.get_or_init(|| {
            let lived = lifetime::live_history(size.span(), super::SEED);
            lived.map(Arc::new).map_err(|error| error.to_string())
        });
        made.clone().map_err(LabError::Setup)
    }
}

impl Job {
    /// Runs it.
    ///
    /// # Errors
    /// A volume cannot be made, or a file system failed.
    fn run(self, size: &Size, shared: &Shared) -> Result<Outcome, LabError> {
        let scale = &size.scale;
        Ok(match self {
            Self::Small(host, scheme) => {
                let files = size.on(host).small_files;
                Outcome::Small(small_files::rates(&scheme.setup(host)?, files)?)
            }
            Self::Faster(host, scheme, times) => {
                let setup = scheme.setup(host)?;
                let setup = Setup { cpu: setup.cpu.faster(f64::from(times)), ..setup };
                Outcome::Rate(small_files::create_rate(&setup, scale.small_files)?)
            }
            Self::Large(host, scheme) => Outcome::Large(large_file::run(
                &scheme.setup(host)?,
                size.on(host).large_bytes,
                1,
                &mut |_| (),
            )?),
            Self::Point(scheme, kib) => {
                Outcome::Point(bandwidth::point(&scheme.setup(Host::Hp)?, kib * KIB, scale.runs)?)
            }
            Self::Sized(scheme, kib) => {
                let setup = scheme.setup(Host::UsenixEight)?;
                Outcome::Sized(run_by_size(&setup, &files(size, kib * KIB))?)
            }
            Self::Uncleaned(host, scheme) => {
                let setup = scheme.setup(host)?;
                Outcome::Rate(run_transactions(&setup, scale.account_bytes, scale.transactions)?)
            }
            Self::Before(host, scheme) => {
                let load = size.load(48);
                let setup = Setup { size_max_bytes: load.volume_bytes, ..scheme.setup(host)? };
                Outcome::Rate(run_transactions(&setup, load.account_bytes, load.transactions)?)
            }
            Self::Andrew(scheme) => Outcome::Andrew(Box::new(andrew_alone(scheme, size)?)),
            Self::AndrewTogether(scheme, users) => {
                Outcome::AndrewTogether(andrew_together(scheme, users, size)?)
            }
            Self::Reread(name) => Outcome::Reread(reread(name, size)?),
            Self::TwoFiles(host, scheme) => Outcome::Work(small_runs::two_files(&scheme.setup(host)?)?),
            Self::Recovery(kib, mib) => {
                let setup = Scheme::Lfs.setup(Host::Sprite)?;
                let (crashed, clean) = small_runs::recovery(&setup, kib * KIB, mib * KIB * KIB)?;
                Outcome::Seconds(crashed, clean)
            }
            Self::Aged(server) => {
                let server = fragmented::SERVERS.get(server).ok_or_else(missing)?;
                let shrink = if size.is_paper() { 1 } else { 8 };
                Outcome::Aged(Box::new(fragmented::run(server, shrink, super::SEED)?))
            }
            Self::History => Outcome::History(shared.history(size)?),
            Self::Life(policy) => {
                let history = shared.history(size)?;
                Outcome::Life(Box::new(lifetime::live(size.span(), policy, &history)?))
            }
            Self::Production(load) => {
                let load = production::LOADS.get(load).ok_or_else(missing)?;
                let length = load.length(!size.is_paper());
                Outcome::Production(Box::new(production::run(load, &length, super::SEED)?))
            }
            Self::Trace(name, model) => Outcome::Trace(Box::new(replay(name, model, size)?)),
            Self::Beyond(name, model, asked, seed) => {
                Outcome::Trace(Box::new(replay_beyond(name, model, &asked, (seed, size))?))
            }
            Self::Load(host, scheme, percent, segment_kib) => {
                Outcome::Served(Box::new(served(host, scheme, (percent, segment_kib), size)?))
            }
        })
    }
}

/// A large file, read in order before and after random writes and idle time, on a disk of this name.
fn reread(name: &str, size: &Size) -> Result<coalescing::Row, LabError> {
    let disk = find_disk(name)?;
    let bytes = if size.is_paper() { 64 << 20 } else { 8 << 20 };
    let scene = Scene::File { bytes, piece_bytes: 8 << 10, share_percent: 100 };
    coalescing::run(scene, Conditions::of(&disk.params), super::SEED)
}

/// The Andrew benchmark with one user.
fn andrew_alone(scheme: Scheme, size: &Size) -> Result<[Mean; 5], LabError> {
    let (setup, log) = (scheme.setup(Host::Hp)?, Scheme::Lfs.setup(Host::Hp)?);
    let (volume_bytes, passes) = size.andrew();
    tree::run(&setup, &log, volume_bytes, passes)
}

/// The same with several users, who share less memory.
fn andrew_together(scheme: Scheme, users: u32, size: &Size) -> Result<Together, LabError> {
    let small = |scheme: Scheme| -> Result<Setup, LabError> {
        Ok(Setup { cache_bytes: andrew::CACHE_BYTES, ..scheme.setup(Host::Hp)? })
    };
    let (volume_bytes, passes) = size.andrew();
    tree::run_several(&small(scheme)?, &small(Scheme::Lfs)?, volume_bytes, (users, passes))
}

/// Transactions on a disk that is full to so many percent, with segments of so many KiB.
fn served(
    host: Host,
    scheme: Scheme,
    (percent, segment_kib): (u64, u32),
    size: &Size,
) -> Result<Served, LabError> {
    let cleaner = match scheme {
        Scheme::Modern | Scheme::Today => Cleaner::Informed(host.medium()),
        _ => Cleaner::OfBsd,
    };
    let load = if host == Host::Hp { size.load_alone(percent) } else { size.load(percent) };
    let setup = Setup { cleaner, segment_bytes: segment_kib << 10, ..scheme.setup(host)? };
    load::run(&setup, &load)
}

/// Replays a part of a server's synthetic trace, on the same part of its files.
fn replay(name: &str, model: Model, size: &Size) -> Result<Replayed, LabError> {
    let part = heuristic::part(size);
    replay_part(name, (part, part), super::SEED, &trace::Setup::of_1995(model)?)
}

/// The same with other settings.
fn replay_beyond(
    name: &str,
    model: Model,
    asked: &Asked,
    (seed, size): (u64, &Size),
) -> Result<Replayed, LabError> {
    let of_paper = trace::Setup::of_1995(model)?;
    let setup = trace::Setup {
        cleaner: asked.cleaner,
        disk: find_disk(asked.disk)?,
        utilisation: f64::from(asked.percent) / 100.0,
        idle_after_ms: match asked.idle {
            Idle::Fixed(ms) => ms.into(),
            Idle::Learned => of_paper.idle_after_ms,
        },
        learns_idle: asked.idle == Idle::Learned,
        ..of_paper
    };
    replay_part(name, heuristic_beyond::parts(size), seed, &setup)
}

/// A part of the days, on a part of the files.
fn replay_part(
    name: &str,
    (days, files): (f64, f64),
    seed: u64,
    setup: &trace::Setup,
) -> Result<Replayed, LabError> {
    let server = trace::Server::find(name).ok_or_else(missing)?;
    let whole = trace::Synthetic::of(server, seed);
    let synthetic =
        trace::Synthetic { days: whole.days * days, files_bytes: whole.files_bytes * files, ..whole };
    trace::run(&synthetic, setup, &Stop::default(), &trace::Progress(&|_, _| {}))
}

/// At most 100 files in a directory; the larger of an amount of data and a number of files (USENIX'95 3).
fn files(size: &Size, file_bytes: u64) -> Files {
    let scale = &size.scale;
    let count = (scale.data_bytes / file_bytes).clamp(scale.least_files, scale.most_files);
    Files { file_bytes, count, per_directory: 100 }
}

/// The results of jobs.
#[derive(Default)]
pub(super) struct Runs(BTreeMap<Job, Outcome>);

macro_rules! outcome {
    ($self:ident, $job:expr, $kind:ident) => {
        match $self.0.get(&$job) {
            Some(Outcome::$kind(found)) => Some(found),
            _ => None,
        }
    };
}

impl Runs {
    /// Runs all jobs on that many threads. Tells `progress` how many are done.
    ///
    /// # Errors
    /// The error of one of the jobs.
    pub fn of(
        jobs: &[Job],
        size: &Size,
        threads: usize,
        progress: &mut (dyn FnMut(f64) + Send),
    ) -> Result<Self, LabError> {
        // The last one first: those that take longest are declared last.
        let mut waiting: Vec<Job> = jobs.to_vec();
        waiting.sort_unstable();
        waiting.dedup();
        let (made, shared) = (Shared::default(), Mutex::new((waiting, 0.0, progress)));
        let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
        let work = || {
            let mut done = Vec::new();
            loop {
                let Some(job) = lock().0.pop() else { return Ok(done) };
                let outcome = job.run(size, &made).inspect_err(|_| lock().0.clear())?;
                done.push((job, outcome));
                let mut guard = lock();
                let (_, count, progress) = &mut *guard;
                *count += 1.0;
                progress(*count);
            }
        };
        let parts: Vec<Result<Vec<(Job, Outcome)>, LabError>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
            let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().map(join).collect()
        });
        let mut all = BTreeMap::new();
        for part in parts {
            all.extend(part?);
        }
        Ok(Self(all))
    }

    /// Results that nobody measured.
    #[cfg(test)]
    pub fn made_up(all: impl Iterator<Item = (Job, Outcome)>) -> Self {
        Self(all.collect())
    }

    /// The rates of small files.
    pub fn small(&self, host: Host, scheme: Scheme) -> Result<&small_files::Rates, LabError> {
        outcome!(self, Job::Small(host, scheme), Small).ok_or_else(missing)
    }

    /// The phases of a large file.
    pub fn large(&self, host: Host, scheme: Scheme) -> Result<&large_file::Figure, LabError> {
        outcome!(self, Job::Large(host, scheme), Large).ok_or_else(missing)
    }

    /// A file of so many KiB on the HP.
    pub fn point(&self, scheme: Scheme, kib: u64) -> Result<&Point, LabError> {
        outcome!(self, Job::Point(scheme, kib), Point).ok_or_else(missing)
    }

    /// Files of so many KiB.
    pub fn sized(&self, scheme: Scheme, kib: u64) -> Result<&Rates, LabError> {
        outcome!(self, Job::Sized(scheme, kib), Sized).ok_or_else(missing)
    }

    /// Transactions on a disk that is full to so many percent.
    pub fn served(
        &self,
        host: Host,
        scheme: Scheme,
        percent: u64,
        segment_kib: u32,
    ) -> Result<&Served, LabError> {
        let found = outcome!(self, Job::Load(host, scheme, percent, segment_kib), Served);
        found.map(|served| &**served).ok_or_else(missing)
    }

    /// A file read in order, after random writes, and after idle time.
    pub fn reread(&self, disk: &'static str) -> Result<&coalescing::Row, LabError> {
        outcome!(self, Job::Reread(disk), Reread).ok_or_else(missing)
    }

    /// The replay of a server's trace.
    pub fn trace(&self, server: &'static str, model: Model) -> Result<&Replayed, LabError> {
        outcome!(self, Job::Trace(server, model), Trace).map(|replayed| &**replayed).ok_or_else(missing)
    }

    /// A replay with other settings.
    pub fn beyond(&self, job: Job) -> Result<&Replayed, LabError> {
        outcome!(self, job, Trace).map(|replayed| &**replayed).ok_or_else(missing)
    }

    /// A production file system of Sprite LFS.
    pub fn production(&self, load: usize) -> Result<&Used, LabError> {
        outcome!(self, Job::Production(load), Production).map(|used| &**used).ok_or_else(missing)
    }

    /// A file system after months of use.
    pub fn aged(&self, server: usize) -> Result<&Aged, LabError> {
        outcome!(self, Job::Aged(server), Aged).map(|aged| &**aged).ok_or_else(missing)
    }

    /// Seven months of home directories.
    pub fn history(&self) -> Result<&History, LabError> {
        outcome!(self, Job::History, History).map(|history| &**history).ok_or_else(missing)
    }

    /// The same months on a file system of this policy.
    pub fn life(&self, policy: Policy) -> Result<&Life, LabError> {
        outcome!(self, Job::Life(policy), Life).map(|life| &**life).ok_or_else(missing)
    }

    /// The phases of Andrew.
    pub fn andrew(&self, scheme: Scheme) -> Result<&[Mean; 5], LabError> {
        outcome!(self, Job::Andrew(scheme), Andrew).map(|means| &**means).ok_or_else(missing)
    }

    /// Andrew with so many users at a time.
    pub fn andrew_together(&self, scheme: Scheme, users: u32) -> Result<&Together, LabError> {
        outcome!(self, Job::AndrewTogether(scheme, users), AndrewTogether).ok_or_else(missing)
    }

    /// The disk's work for two new files.
    pub fn work(&self, host: Host, scheme: Scheme) -> Result<&DiskWork, LabError> {
        outcome!(self, Job::TwoFiles(host, scheme), Work).ok_or_else(missing)
    }

    /// Seconds of a mount after a crash, and after an unmount.
    pub fn recovery(&self, kib: u64, mib: u64) -> Result<(f64, f64), LabError> {
        match self.0.get(&Job::Recovery(kib, mib)) {
            Some(Outcome::Seconds(crashed, clean)) => Ok((*crashed, *clean)),
            _ => Err(missing()),
        }
    }

    /// A single rate.
    pub fn rate(&self, job: Job) -> Result<f64, LabError> {
        outcome!(self, job, Rate).copied().ok_or_else(missing)
    }

    /// The measurements of `firn sim comparison`, as far as they were made; the others are no numbers.
    pub fn comparison(&self) -> Results {
        let micro = |host, scheme| Micro {
            small: outcome!(self, Job::Small(host, scheme), Small).copied().unwrap_or(NO_RATES),
            faster: self.rate(Job::Faster(host, scheme, 4)).unwrap_or(f64::NAN),
            large: outcome!(self, Job::Large(host, scheme), Large).copied().unwrap_or(NO_FILE),
        };
        let point = |scheme, kib| self.point(scheme, kib).copied().unwrap_or(NO_POINT);
        let bandwidth = |kib| Bandwidth {
            log: point(Scheme::Lfs, kib),
            ffs: point(Scheme::Ffs, kib),
            efs: point(Scheme::Efs, kib),
        };
        let rates = |scheme, kib| self.sized(scheme, kib).copied().unwrap_or(NO_SIZED);
        let sized = |&kib: &u64| Sized {
            file_bytes: kib * KIB,
            log: rates(Scheme::Lfs, kib),
            m8r2: rates(Scheme::M8R2, kib),
            m8r0: rates(Scheme::M8R0, kib),
        };
        let transactions = |scheme| self.rate(Job::Uncleaned(Host::UsenixFour, scheme)).unwrap_or(f64::NAN);
        Results {
            sprite_log: micro(Host::Sprite, Scheme::Lfs),
            sun: micro(Host::Sprite, Scheme::Ffs),
            bsd_log: micro(Host::Usenix, Scheme::Lfs),
            m1r2: micro(Host::Usenix, Scheme::Ffs),
            m8r2: micro(Host::Usenix, Scheme::M8R2),
            half: bandwidth(512),
            four: bandwidth(4096),
            sizes: super::size::FILES_KIB.iter().map(sized).collect(),
            indirect: Indirect { direct: NO_SIZED, baseline: NO_SIZED, no_switch: NO_SIZED },
            tpcb_log: transactions(Scheme::Lfs),
            tpcb_fast: transactions(Scheme::M8R2),
        }
    }
}

/// A figure asks for a job that it did not name.
fn missing() -> LabError {
    LabError::Setup("a figure needs a benchmark that was not run".to_owned())
}

const NAN: f64 = f64::NAN;
const NO_RATE: small_files::Rate = small_files::Rate {
    files_per_s: NAN,
    cpu_share: NAN,
    disk_share: NAN,
    read_bytes_per_file: NAN,
    written_bytes_per_file: NAN,
};
const NO_RATES: small_files::Rates = small_files::Rates { create: NO_RATE, read: NO_RATE, delete: NO_RATE };
const NO_SPEED: large_file::Speed =
    large_file::Speed { kb_per_s: NAN, cpu_share: NAN, disk_share: NAN, moved: NAN };
const NO_FILE: large_file::Figure = large_file::Figure {
    write: NO_SPEED,
    read: NO_SPEED,
    write_random: NO_SPEED,
    read_random: NO_SPEED,
    reread: NO_SPEED,
    segments_cleaned: 0,
};
const NO_SIZED: Rates = Rates { create: NAN, read: NAN, overwrite: NAN, delete: NAN };
const NO_POINT: Point = Point {
    bytes: 0,
    lfs_write_mb_per_s: NAN,
    lfs_write_ms: NAN,
    lfs_fsync_ms: NAN,
    lfs_write_cpu_share: NAN,
    lfs_read_mb_per_s: NAN,
    lfs_read_cpu_share: NAN,
    lfs_read_disk_share: NAN,
    raw_write_mb_per_s: NAN,
    clustered_write_mb_per_s: NAN,
    raw_read_mb_per_s: NAN,
};
