//! `Rig`: the file system on a machine with a disk, in virtual time. A program's calls cost processor time and device time; background
//! work runs beside the program, as on a mount, and shares the processor.
//!
//! The cost of a call is counted in blocks of the file cache that its algorithm touches (4.4BSD), not measured: see the methods
//! of [`Program`]. Each [`Rig::run`] mounts the volume again, so nothing is in memory. Callers: the benchmarks beside this file.
//!
//! `users` runs several programs on one machine.

use super::choose::{ChosenDisk, find_disk, find_machine};
use super::lived::{failed, mount};
use super::profile::Profile;
use super::store_kind::{FastLayout, StoreKind};
use crate::error::LabError;
use firnfs::FsError;
use firnfs::clean::{Medium, PlacementName};
use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::lfs::{Counters, MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{Clock, Device, MemDevice, SparseImage};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{OpenError, format, format_ffs_around, open};
use firnfs_sim::{CpuModel, DiskWork, Machine, MachineDisk, TimedDisk, Turns, VirtualClock};
use firnfs_volume::Volume;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

pub(super) const START_NS: i64 = 700_000_000_000_000_000;
const SEGMENT_BYTES: u32 = 1 << 20;
/// Part of a call that is handled at a time: the papers' largest transfer.
const PART_BYTES: usize = 64 << 10;

mod users;

pub(super) use users::Meeting;

type Disk = TimedDisk<Arc<MemDevice>>;

/// The machine, disk and settings on which the file system runs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The machine.
    pub cpu: CpuModel,
    /// Its disk.
    pub disk: ChosenDisk,
    /// Which file system.
    pub store: StoreKind,
    /// How the log is set up.
    pub profile: Profile,
    /// Size of the log's blocks in bytes.
    pub log_block_bytes: u32,
    /// How the Fast File System is made.
    pub fast: FastLayout,
    /// Memory for its cache.
    pub cache_bytes: u64,
    /// Dirty bytes at which it begins to write.
    pub write_threshold_bytes: u64,
    /// Largest volume; a smaller disk is used whole.
    pub size_max_bytes: u64,
    /// A thread of its own writes the log; otherwise the program writes it, and waits.
    pub has_log_thread: bool,
    /// Size of the log's segments in bytes.
    pub segment_bytes: u32,
    /// How the log is cleaned.
    pub cleaner: Cleaner,
    /// The log writes no checkpoint while it is mounted (Sprite LFS, table 3).
    pub without_checkpoints: bool,
}

impl Setup {
    /// The machine and disk of BSD-LFS, section 5.2: 16 MB of memory; it writes at "approximately 800 kilobytes". In the profile
    /// of 1993 the program that reaches the threshold writes the log (4.4).
    ///
    /// # Errors
    /// None with the files that come along.
    pub fn bsd_lfs(profile: Profile) -> Result<Self, LabError> {
        Ok(Self {
            cpu: find_machine("hp9000-380")?,
            disk: find_disk("hp97560")?,
            store: StoreKind::Log,
            profile,
            log_block_bytes: 4096,
            fast: FastLayout::of_blocks(4096),
            cache_bytes: 8 << 20,
            write_threshold_bytes: 800 << 10,
            size_max_bytes: 4 << 30,
            has_log_thread: profile == Profile::Modern,
            segment_bytes: SEGMENT_BYTES,
            cleaner: Cleaner::Today,
            without_checkpoints: false,
        })
    }

    /// Those of Sprite LFS, section 5.1: 32 MB of memory; it writes segments of 1 MB; SunOS has
    /// blocks of 8 KB. Kernel processes write the log: the text says
    /// that the processor is saturated.
    ///
    /// # Errors
    /// None with the files that come along.
    pub fn sprite_lfs(profile: Profile) -> Result<Self, LabError> {
        Ok(Self {
            cpu: find_machine("sun4-260")?,
            disk: find_disk("wren4")?,
            fast: FastLayout::of_blocks(8192),
            cache_bytes: 16 << 20,
            write_threshold_bytes: 1 << 20,
            has_log_thread: true,
            ..Self::bsd_lfs(profile)?
        })
    }

    /// Those of USENIX'95, section 2: BSD-LFS; it writes at 115 blocks (section 4); FFS has blocks of 8 KB.
    ///
    /// # Errors
    /// None with the files that come along.
    pub fn usenix_95(profile: Profile) -> Result<Self, LabError> {
        Ok(Self {
            cpu: find_machine("sparcstation2")?,
            disk: find_disk("dsp3105")?,
            fast: FastLayout::of_blocks(8192),
            cache_bytes: 16 << 20,
            write_threshold_bytes: 115 * 4096,
            ..Self::bsd_lfs(profile)?
        })
    }
}

/// How segments are cleaned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cleaner {
    /// As BSD-LFS's: whole segments are read, and what lives is written to the one log of all data.
    OfBsd,
    /// As firnfs does: only the live parts are read where that is faster, and moved blocks are separated.
    Today,
    /// The same, told how long this disk takes to read.
    Informed(Medium),
}

impl Setup {
    /// Size of the volume in bytes: of the disk, within its bound, in whole segments.
    pub(super) fn volume_bytes(&self) -> u64 {
        let disk_bytes = self.disk.params.kind.size_bytes().unwrap_or(u64::MAX);
        let unit_bytes = u64::from(SEGMENT_BYTES);
        disk_bytes.min(self.size_max_bytes) / unit_bytes * unit_bytes
    }

    /// The options of the log, changed as the setup says.
    fn log_options(&self, options: Options) -> Options {
        let never = |is_wanted: bool, bounded: u64| if is_wanted { u64::MAX / 4 } else { bounded };
        let options = Options {
            checkpoint_interval_ms: never(self.without_checkpoints, options.checkpoint_interval_ms),
            checkpoint_bytes: never(self.without_checkpoints, options.checkpoint_bytes),
            ..options
        };
        match self.cleaner {
            Cleaner::Today => options,
            Cleaner::Informed(medium) => {
                let held_indirect_bytes = Options::default().held_indirect_bytes;
                Options { medium, held_indirect_bytes, ..options }
            }
            // A second request would take longer than any segment.
            Cleaner::OfBsd => Options {
                placement: Some(PlacementName::One),
                medium: Medium { request_ns: 60_000_000_000, ..Medium::HEAD },
                ..options
            },
        }
    }
}

/// See the module's head.
pub(super) struct Rig {
    setup: Setup,
    clock: Arc<VirtualClock>,
    image: Arc<MemDevice>,
}

/// What a program may know of the log; zeros without one.
#[derive(Clone, Copy, Default)]
struct LogState {
    counters: Counters,
    clean_segments: u64,
}

/// How a run ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Unmount,
    Crash,
}

/// Work so far, at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub now_ns: i64,
    pub cpu_busy_ns: i64,
    pub disk: DiskWork,
}

/// A phase of a benchmark, between two moments.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Phase {
    pub seconds: f64,
    pub cpu_share: f64,
    pub disk_share: f64,
    pub disk: DiskWork,
}

impl Rig {
    /// A machine with an empty volume.
    pub fn new(setup: &Setup) -> Result<Self, LabError> {
        Self::around(setup, &|_| false)
    }

    /// The same; in the Fast File System these fragments are taken, though no file has them.
    pub fn around(setup: &Setup, is_taken: &dyn Fn(u64) -> bool) -> Result<Self, LabError> {
        let size_bytes = setup.volume_bytes();
        let image = Arc::new(MemDevice::new(size_bytes));
        let now = TimeNs(START_NS);
        let made = match setup.store {
            StoreKind::Log => {
                let mkfs = setup.profile.mkfs(setup.log_block_bytes, size_bytes, now);
                format(&*image, &MkfsOptions { segment_bytes: setup.segment_bytes, ..mkfs })
            }
            StoreKind::Fast(variant) => {
                let mkfs = StoreKind::mkfs(variant, &setup.fast, size_bytes, now);
                format_ffs_around(&*image, &mkfs, is_taken)
            }
        };
        made.map_err(failed("make a volume"))?;
        Ok(Self { setup: setup.clone(), clock: Arc::new(VirtualClock::at(START_NS)), image })
    }

    /// A machine with a volume that exists, at that time.
    pub fn on(setup: &Setup, image: SparseImage, now_ns: i64) -> Self {
        let clock = Arc::new(VirtualClock::at(now_ns));
        Self { setup: setup.clone(), clock, image: Arc::new(MemDevice::from_image(image)) }
    }

    /// The volume as it is, and the time.
    pub fn state(&self) -> (SparseImage, i64) {
        (self.image.image(), self.clock.now_ns())
    }

    /// Mounts the volume, runs a program, and unmounts it.
    pub fn run<T>(&self, program: impl FnOnce(&Program<'_>) -> Result<T, LabError>) -> Result<T, LabError> {
        self.run_until(End::Unmount, 1, program)
    }

    /// Mounts the volume, runs a program, and crashes: what was not written is lost.
    pub fn run_and_crash<T>(
        &self,
        program: impl FnOnce(&Program<'_>) -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        self.run_until(End::Crash, 1, program)
    }

    /// The seconds that a mount takes, after which the volume is unmounted; and how long the disk was busy.
    pub fn mount_seconds(&self) -> Result<f64, LabError> {
        let start_ns = self.clock.now_ns();
        self.run(|program| Ok((program.clock.now_ns() - start_ns) as f64 / 1e9))
    }

    fn run_until<T>(
        &self,
        end: End,
        users: usize,
        program: impl FnOnce(&Program<'_>) -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        let Setup { cpu, disk, profile, cache_bytes, write_threshold_bytes, .. } = &self.setup;
        let params = &disk.params;
        let transfer_max_bytes = params.transfer_max_bytes.unwrap_or(u64::MAX);
        let machine = Arc::new(Machine::new(cpu.clone(), self.clock.clone()));
        let timed = Arc::new(TimedDisk::of(self.image.clone(), self.clock.clone(), params, cpu.command_ns()));
        let hosted = MachineDisk::new(timed.clone(), machine.clone(), transfer_max_bytes);
        let device: Arc<dyn Device> = match self.setup.store {
            StoreKind::Log => Arc::new(hosted),
            StoreKind::Fast(_) => Arc::new(hosted.without_segments()),
        };
        let (atime, clock) = (AtimeMode::Noatime, self.clock.clone());
        match self.setup.store {
            StoreKind::Log => {
                let options = self.setup.log_options(profile.options(*cache_bytes, *write_threshold_bytes));
                let volume = open(device, options, atime, clock).map_err(|error| match error {
                    OpenError::Fs(source) => LabError::Volume { action: "mount", source },
                    OpenError::NotFirnfs(other) => LabError::Setup(other.to_string()),
                })?;
                let log_state = || {
                    volume.run_quietly(|vfs, _| {
                        let (log, marks) = (vfs.store(), vfs.store().marks());
                        let clean_segments = marks.ready + marks.waiting;
                        Ok(LogState { counters: *log.counters(), clean_segments })
                    })
                };
                let threads = (self.setup.has_log_thread, users);
                self.run_on(&volume, &log_state, (&machine, &timed), threads, end, program)
            }
            StoreKind::Fast(_) => {
                let volume = mount(device, *cache_bytes, clock)?;
                // Nobody waits for the writes that are delayed or asynchronous.
                let threads = (true, users);
                self.run_on(&volume, &|| Ok(LogState::default()), (&machine, &timed), threads, end, program)
            }
        }
    }

    /// Runs a program on a mounted volume, and unmounts it. `threads` says whether one does background work, and how many users the
    /// program has: it starts the others itself.
    fn run_on<S: Engine, T>(
        &self,
        volume: &Volume<S>,
        log_state: &(dyn Fn() -> Result<LogState, FsError> + Sync),
        (machine, timed): (&Arc<Machine>, &Arc<Disk>),
        (has_background, users): (bool, usize),
        end: End,
        program: impl FnOnce(&Program<'_>) -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        let close = || match end {
            End::Unmount => volume.close().map_err(failed("unmount")),
            End::Crash => Ok(()),
        };
        let block_bytes = match self.setup.store {
            StoreKind::Log => self.setup.log_block_bytes,
            StoreKind::Fast(_) => self.setup.fast.block_bytes,
        };
        let first_turn = usize::from(has_background);
        let threads = first_turn + users;
        let turns = (threads > 1).then(|| Arc::new(Turns::new(self.clock.clone(), threads)));
        let context = Program {
            volume,
            log_state,
            machine,
            disk: timed,
            clock: &self.clock,
            block_bytes: u64::from(block_bytes),
            turns: turns.clone(),
            first_turn,
        };
        let Some(turns) = turns else {
            let done = program(&context)?;
            close()?;
            return Ok(done);
        };
        timed.take_turns(turns.clone());
        machine.take_turns(turns.clone());
        let (parked, woken) = (turns.clone(), turns.clone());
        let nanoseconds = |wait: Duration| i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX);
        volume.park_with(move |wait| parked.wait(nanoseconds(wait)), move || woken.notify());
        let done = if has_background {
            beside_background(volume, &turns, || program(&context))?
        } else {
            turns.enter(first_turn);
            let done = program(&context);
            turns.leave();
            done?
        };
        close()?;
        Ok(done)
    }
}

/// Runs a program on this thread and background work on another; they take turns.
fn beside_background<S: Engine, T>(
    volume: &Volume<S>,
    turns: &Turns,
    program: impl FnOnce() -> Result<T, LabError>,
) -> Result<T, LabError> {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let background = scope.spawn(|| {
            turns.enter(0);
            let promise = volume.promise_background();
            let mut outcome = Ok(());
            while !is_done.load(Relaxed) && outcome.is_ok() {
                outcome = volume.background().map(|sleep_ms| volume.wait_for_work(sleep_ms));
            }
            drop(promise);
            turns.leave();
            outcome
        });
        turns.enter(1);
        let done = program();
        is_done.store(true, Relaxed);
        volume.wake();
        turns.leave();
        let outcome =
            background.join().map_err(|_| LabError::Setup("background work panicked".to_owned()))?;
        outcome.map_err(failed("do background work"))?;
        done
    })
}

/// The calls of a program, on a volume of any kind.
trait Calls {
    fn make(&self, parent: InodeNo, name: &str, node: NewNode<'_>) -> Result<InodeNo, FsError>;
    fn find(&self, parent: InodeNo, name: &str) -> Result<InodeNo, FsError>;
    fn unlink(&self, parent: InodeNo, name: &str) -> Result<(), FsError>;
    fn rmdir(&self, parent: InodeNo, name: &str) -> Result<(), FsError>;
    fn write(&self, ino: InodeNo, at_bytes: u64, bytes: &[u8]) -> Result<(), FsError>;
    fn read(&self, ino: InodeNo, at_bytes: u64, out: &mut [u8]) -> Result<usize, FsError>;
    fn close_file(&self, ino: InodeNo) -> Result<(), FsError>;
    fn sync(&self, scope: Scope) -> Result<(), FsError>;
}

impl<S: Engine> Calls for Volume<S> {
    fn make(&self, parent: InodeNo, name: &str, node: NewNode<'_>) -> Result<InodeNo, FsError> {
        let caller = Caller { uid: 0, gid: 0, umask: 0 };
        let made = self.run(|vfs, now| vfs.make(now, caller, parent, name.as_bytes(), node, false));
        made.map(|attr| attr.ino)
    }

    fn find(&self, parent: InodeNo, name: &str) -> Result<InodeNo, FsError> {
        let found = self.run(|vfs, now| vfs.lookup(now, parent, name.as_bytes(), false));
        found.map(|attr| attr.ino)
    }

    fn unlink(&self, parent: InodeNo, name: &str) -> Result<(), FsError> {
        self.run(|vfs, now| vfs.unlink(now, parent, name.as_bytes()))
    }

    fn rmdir(&self, parent: InodeNo, name: &str) -> Result<(), FsError> {
        self.run(|vfs, now| vfs.rmdir(now, parent, name.as_bytes()))
    }

    fn write(&self, ino: InodeNo, at_bytes: u64, bytes: &[u8]) -> Result<(), FsError> {
        self.write_all(ino, at_bytes, bytes, false)
    }

    fn read(&self, ino: InodeNo, at_bytes: u64, out: &mut [u8]) -> Result<usize, FsError> {
        Volume::read(self, ino, at_bytes, out)
    }

    fn close_file(&self, ino: InodeNo) -> Result<(), FsError> {
        self.file_closed(ino)
    }

    fn sync(&self, scope: Scope) -> Result<(), FsError> {
        Volume::sync(self, scope)
    }
}

/// A program on the machine, and the costs of its system calls.
pub(super) struct Program<'a> {
    volume: &'a (dyn Calls + Sync),
    log_state: &'a (dyn Fn() -> Result<LogState, FsError> + Sync),
    machine: &'a Machine,
    disk: &'a Disk,
    clock: &'a VirtualClock,
    block_bytes: u64,
    /// Shared with background work and with other programs; `None` without them.
    turns: Option<Arc<Turns>>,
    /// The number of the first program in it.
    first_turn: usize,
}

impl Program<'_> {
    /// The work so far.
    pub fn moment(&self) -> Moment {
        Moment { now_ns: self.clock.now_ns(), cpu_busy_ns: self.machine.busy_ns(), disk: self.disk.work() }
    }

    /// The work since a moment.
    pub fn since(&self, start: &Moment) -> Phase {
        let now = self.moment();
        let took_ns = (now.now_ns - start.now_ns).max(1) as f64;
        let disk = now.disk.since(&start.disk);
        Phase {
            seconds: took_ns / 1e9,
            cpu_share: (now.cpu_busy_ns - start.cpu_busy_ns) as f64 / took_ns,
            disk_share: disk.busy_ns as f64 / took_ns,
            disk,
        }
    }

    /// Counters of the log; zeros if there is none.
    pub fn counters(&self) -> Result<Counters, LabError> {
        Ok(self.log_state()?.counters)
    }

    /// Clean segments of the log, those included that wait for checkpoints; 0 if there is no log.
    pub fn clean_segments(&self) -> Result<u64, LabError> {
        Ok(self.log_state()?.clean_segments)
    }

    fn log_state(&self) -> Result<LogState, LabError> {
        (self.log_state)().map_err(failed("look at the volume"))
    }

    fn spend(&self, blocks: u64, more_ns: i64) {
        let cpu = self.machine.cpu();
        self.machine.spend_ns(cpu.system_call_ns() + cpu.blocks_ns(blocks) + more_ns);
    }

    fn transfer_ns(&self, bytes: usize) -> i64 {
        self.machine.cpu().transfer_in_ns(bytes as u64, self.block_bytes)
    }

    /// creat(2) or mkdir(2) in a directory of that many entries: searches it, then changes a block of it and a block of
    /// inodes.
    pub fn make(&self, parent: InodeNo, name: &str, kind: Kind, entries: u64) -> Result<InodeNo, LabError> {
        self.spend(2, self.machine.cpu().search_ns(entries));
        let mode = if kind == Kind::Directory { 0o755 } else { 0o644 };
        let node = NewNode { kind, mode, rdev: 0, target: b"" };
        self.volume.make(parent, name, node).map_err(failed("make a file"))
    }

    /// open(2) in a directory of that many entries: searches half of it, and reads a block of inodes.
    pub fn open(&self, parent: InodeNo, name: &str, entries: u64) -> Result<InodeNo, LabError> {
        self.spend(1, self.machine.cpu().search_ns(entries / 2));
        self.volume.find(parent, name).map_err(failed("look up"))
    }

    /// unlink(2) in a directory of that many entries: searches half of it, changes a block of it and of inodes, and drops one
    /// of data.
    pub fn unlink(&self, parent: InodeNo, name: &str, entries: u64) -> Result<(), LabError> {
        self.spend(3, self.machine.cpu().search_ns(entries / 2));
        self.volume.unlink(parent, name).map_err(failed("delete"))
    }

    /// rmdir(2) of an empty directory: as unlink(2), in a small directory.
    pub fn rmdir(&self, parent: InodeNo, name: &str) -> Result<(), LabError> {
        self.spend(3, 0);
        self.volume.rmdir(parent, name).map_err(failed("delete a directory"))
    }

    /// The program computes, in parts, so that others may use the processor too.
    pub fn compute(&self, work_ns: i64) {
        const PART_NS: i64 = 10_000_000;
        let parts = work_ns / PART_NS;
        (0..parts).for_each(|_| self.machine.spend_ns(PART_NS));
        self.machine.spend_ns(work_ns - parts * PART_NS);
    }

    /// The program waits, and the processor is free.
    pub fn pause(&self, wait_ns: i64) {
        match &self.turns {
            Some(turns) => turns.sleep_until(self.clock.now_ns() + wait_ns),
            None => self.clock.advance_ns(wait_ns),
        }
    }

    /// close(2).
    pub fn close(&self, ino: InodeNo) -> Result<(), LabError> {
        self.spend(0, 0);
        self.volume.close_file(ino).map_err(failed("close"))
    }

    /// write(2): each block is handled and copied; a long call by parts, so that the disk may begin with the first ones.
    pub fn write(&self, ino: InodeNo, at_bytes: u64, bytes: &[u8]) -> Result<(), LabError> {
        self.spend(0, 0);
        for (at_bytes, part) in (at_bytes..).step_by(PART_BYTES).zip(bytes.chunks(PART_BYTES)) {
            self.machine.spend_ns(self.transfer_ns(part.len()));
            self.volume.write(ino, at_bytes, part).map_err(failed("write"))?;
        }
        Ok(())
    }

    /// read(2): one block after the other is handled and copied once it is in memory.
    pub fn read(&self, ino: InodeNo, at_bytes: u64, out: &mut [u8]) -> Result<(), LabError> {
        self.spend(0, 0);
        let mut at_bytes = at_bytes;
        for block in out.chunks_mut(self.block_bytes as usize) {
            let len = self.volume.read(ino, at_bytes, block).map_err(failed("read"))?;
            at_bytes += len as u64;
            if len != block.len() {
                return Err(LabError::WrongData { path: "file".into(), at_bytes });
            }
            self.machine.spend_ns(self.transfer_ns(len));
        }
        Ok(())
    }

    /// fsync(2).
    pub fn fsync(&self, ino: InodeNo) -> Result<(), LabError> {
        self.spend(0, 0);
        self.volume.sync(Scope::File(ino)).map_err(failed("sync"))
    }

    /// sync(2), until everything is durable.
    pub fn sync(&self) -> Result<(), LabError> {
        self.spend(0, 0);
        self.volume.sync(Scope::All).map_err(failed("sync"))
    }
}
