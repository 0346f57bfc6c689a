//! `Rig`: the file system on a machine with a disk, in virtual time. A program's calls cost processor time and device time; background
//! work runs beside the program, as on a mount, and shares the processor.
//!
//! The cost of a call is counted in blocks of the file cache that its algorithm touches (4.4BSD), not measured: see the methods
//! of [`Program`]. Each [`Rig::run`] mounts the volume again, so nothing is in memory. Callers: the benchmarks beside this file.

use super::choose::{ChosenDisk, find_disk, find_machine};
use super::profile::Profile;
use super::store_kind::{FastLayout, StoreKind};
use crate::error::LabError;
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::lfs::Counters;
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{Clock, Device, MemDevice};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{OpenError, OpenFfsError, format, format_ffs, open, open_ffs};
use firnfs_sim::{CpuModel, DiskWork, Machine, MachineDisk, TimedDisk, Turns, VirtualClock};
use firnfs_volume::Volume;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const START_NS: i64 = 700_000_000_000_000_000;
const SEGMENT_BYTES: u64 = 1 << 20;
/// Part of a call that is handled at a time: the papers' largest transfer.
const PART_BYTES: usize = 64 << 10;

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

/// See the module's head.
pub(super) struct Rig {
    setup: Setup,
    clock: Arc<VirtualClock>,
    image: Arc<MemDevice>,
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

fn failed(action: &'static str) -> impl Fn(FsError) -> LabError {
    move |source| LabError::Volume { action, source }
}

impl Rig {
    /// A machine with an empty volume.
    pub fn new(setup: &Setup) -> Result<Self, LabError> {
        let disk_bytes = setup.disk.params.kind.size_bytes().unwrap_or(u64::MAX);
        let size_bytes = disk_bytes.min(setup.size_max_bytes) / SEGMENT_BYTES * SEGMENT_BYTES;
        let image = Arc::new(MemDevice::new(size_bytes));
        let now = TimeNs(START_NS);
        let made = match setup.store {
            StoreKind::Log => format(&*image, &setup.profile.mkfs(setup.log_block_bytes, size_bytes, now)),
            StoreKind::Fast(variant) => {
                format_ffs(&*image, &StoreKind::mkfs(variant, &setup.fast, size_bytes, now))
            }
        };
        made.map_err(failed("make a volume"))?;
        Ok(Self { setup: setup.clone(), clock: Arc::new(VirtualClock::at(START_NS)), image })
    }

    /// Mounts the volume, runs a program, and unmounts it.
    pub fn run<T>(&self, program: impl FnOnce(&Program<'_>) -> Result<T, LabError>) -> Result<T, LabError> {
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
                let options = profile.options(*cache_bytes, *write_threshold_bytes);
                let volume = open(device, options, atime, clock).map_err(|error| match error {
                    OpenError::Fs(source) => LabError::Volume { action: "mount", source },
                    OpenError::NotFirnfs(other) => LabError::Setup(other.to_string()),
                })?;
                let counters = || volume.run_quietly(|vfs, _| Ok(*vfs.store().counters()));
                self.run_on(&volume, &counters, (&machine, &timed), self.setup.has_log_thread, program)
            }
            StoreKind::Fast(_) => {
                let volume =
                    open_ffs(device, StoreKind::options(*cache_bytes), atime, clock).map_err(|error| {
                        match error {
                            OpenFfsError::Fs(source) => LabError::Volume { action: "mount", source },
                            OpenFfsError::NotFfs(other) => LabError::Setup(other.to_string()),
                        }
                    })?;
                // Nobody waits for the writes that are delayed or asynchronous.
                self.run_on(&volume, &|| Ok(Counters::default()), (&machine, &timed), true, program)
            }
        }
    }

    /// Runs a program on a mounted volume, and unmounts it.
    fn run_on<S: Engine, T>(
        &self,
        volume: &Volume<S>,
        counters: &dyn Fn() -> Result<Counters, FsError>,
        (machine, timed): (&Arc<Machine>, &Arc<Disk>),
        has_background: bool,
        program: impl FnOnce(&Program<'_>) -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        let block_bytes = match self.setup.store {
            StoreKind::Log => self.setup.log_block_bytes,
            StoreKind::Fast(_) => self.setup.fast.block_bytes,
        };
        let context = Program {
            volume,
            counters,
            machine,
            disk: timed,
            clock: &self.clock,
            block_bytes: u64::from(block_bytes),
        };
        if !has_background {
            let done = program(&context)?;
            volume.close().map_err(failed("unmount"))?;
            return Ok(done);
        }
        let turns = Arc::new(Turns::new(self.clock.clone(), 2));
        timed.take_turns(turns.clone());
        machine.take_turns(turns.clone());
        let (parked, woken) = (turns.clone(), turns.clone());
        let nanoseconds = |wait: Duration| i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX);
        volume.park_with(move |wait| parked.wait(nanoseconds(wait)), move || woken.notify());
        let done = beside_background(volume, &turns, || program(&context))?;
        volume.close().map_err(failed("unmount"))?;
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
    volume: &'a dyn Calls,
    counters: &'a dyn Fn() -> Result<Counters, FsError>,
    machine: &'a Machine,
    disk: &'a Disk,
    clock: &'a VirtualClock,
    block_bytes: u64,
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
        (self.counters)().map_err(failed("look at the volume"))
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
