//! Processor time of a write, without FUSE and without a device: `cargo run --release -p firnfs-manage --example write_path`.
//!
//! A file of 100 MiB is written in calls of 8 KiB, in sequence and then at random, and 20,000 files of 1 KiB are made, on a
//! log-structured volume and in the memory store, in interleaved rounds. The table has nanoseconds of processor time a call or
//! file, medians of the rounds:
//! - *prepare*: copies and checksums, made outside the lock of the driver;
//! - *write*: the operation, under the lock (for a file: making and writing it);
//! - *step*: background work under the lock, most of it laying out batches, as a share of each call;
//! - *request*: gathering segments for the device, outside the lock.
//!
//! With `--quotas` they are on, and everything counts for one user.
//!
//! Nothing is written to a device, except for the last line. *longest step* is the longest single hold of the lock by background
//! work, in microseconds: the most that a write waits for it. A second table has the holds of a sync of what is dirty just before
//! a commit is due. The last line is the longest step on a volume so full that the cleaner works all the time.

use firnfs::engine::{Engine, Pressure, Step};
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options, mkfs, read_superblock};
use firnfs::mem::{MemOptions, MemStore};
use firnfs::store::content::{Content, ReadyBlock, ready_blocks};
use firnfs::store::{Preparation, Prepared, Scope};
use firnfs::vfs::{AtimeMode, Caller, NewNode, Vfs};
use firnfs::{FsError, Outcome, Stop};
use firnfs_device::{AlignedBuf, Device, MemDevice, Request};
use firnfs_format::{InodeNo, TimeNs};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::sync::Arc;

const VOLUME_BYTES: u64 = 1 << 30;
const FILE_BYTES: u64 = 100 << 20;
/// The file is two thirds of it.
const FULL_VOLUME_BYTES: u64 = FILE_BYTES * 3 / 2;
const CALL_BYTES: usize = 8 << 10;
const FILES: u64 = 20_000;
/// Reading the clock of the processor time is a system call.
const CALLS_AT_A_TIME: usize = 64;
const ROUNDS: usize = 9;
/// Rounds of background work for one operation.
const ROUNDS_MAX: usize = 1_000;
/// Calls, and files, whose bytes are less than those from which a commit is due.
const CALLS_BEFORE_SYNC: usize = 1_900;
const FILES_BEFORE_SYNC: u64 = 5_000;
const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0 };

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Processor time of this thread, in nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Adds the time of `work` to `total_ns`; returns it too.
fn timed<T>(total_ns: &mut u64, work: impl FnOnce() -> T) -> (T, u64) {
    let begin_ns = cpu_ns();
    let value = work();
    let took_ns = cpu_ns() - begin_ns;
    *total_ns += took_ns;
    (value, took_ns)
}

/// Processor time by part, in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Cost {
    prepare: u64,
    write: u64,
    step: u64,
    request: u64,
    longest_step: u64,
}

/// A store, and the device that it was opened from.
struct Bench<S: Engine> {
    vfs: Vfs<S>,
    device: Option<MemDevice>,
    /// The device is written: a cleaner reads it.
    is_written: bool,
    ino: InodeNo,
    /// Grows with each call, so that times and contents differ.
    calls: u64,
}

impl<S: Engine> Bench<S> {
    fn new(vfs: Vfs<S>, device: Option<MemDevice>) -> Result<Self> {
        let mut bench = Self { vfs, device, is_written: false, ino: InodeNo::ROOT, calls: 0 };
        let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
        loop {
            match bench.vfs.make(TimeNs(1), CALLER, InodeNo::ROOT, b"file", node, false) {
                Ok(made) => {
                    bench.ino = made.ino;
                    if std::env::args().any(|word| word == "--quotas") {
                        bench.turn_quotas_on()?;
                    }
                    return Ok(bench);
                }
                Err(Stop::Need(fetches)) => bench.fetch(&fetches)?,
                Err(stop) => return Err(format!("a file cannot be made: {stop:?}").into()),
            }
        }
    }

    fn turn_quotas_on(&mut self) -> Result<()> {
        loop {
            let vfs = &mut self.vfs;
            let counted = vfs.turn_quotas(TimeNs(1), true).and_then(|()| vfs.count_quotas(TimeNs(1)));
            match counted {
                Ok(Some(_)) => return Ok(()),
                Ok(None) => {}
                Err(Stop::Need(fetches)) => self.fetch(&fetches)?,
                Err(stop) => return Err(format!("quotas cannot be turned on: {stop:?}").into()),
            }
        }
    }

    /// Writes the whole file in that order.
    fn overwrite(&mut self, order: &[u64]) -> Result<Cost> {
        let mut cost = Cost::default();
        let facts = self.vfs.store().facts();
        let mut bytes = vec![0; CALL_BYTES];
        for group in order.chunks(CALLS_AT_A_TIME) {
            let mut calls = Vec::with_capacity(group.len());
            let calls_before = self.calls;
            timed(&mut cost.prepare, || {
                for (n, &index) in (calls_before..).zip(group) {
                    bytes[..8].copy_from_slice(&n.to_le_bytes());
                    let at_bytes = index * CALL_BYTES as u64;
                    calls.push((at_bytes, ready_blocks(at_bytes, &bytes, &facts)));
                }
            });
            let ino = self.ino;
            self.carry_out(&mut cost, group.len(), |vfs, now, n| {
                let (at_bytes, blocks): &(u64, Vec<ReadyBlock>) = &calls[n];
                let content = Content::prepared(*at_bytes, &bytes, blocks, facts.block_bytes);
                let written = vfs.write_content(now, ino, *at_bytes, content, false)?;
                assert_eq!(written, bytes.len(), "no call reaches a limit of an operation");
                Ok(())
            })?;
        }
        Ok(cost)
    }

    /// Makes that many files of 1 KiB, then removes them; the time of the removal does not count.
    fn create(&mut self, files: u64) -> Result<Cost> {
        let mut cost = Cost::default();
        self.make_files(files, &mut cost)?;
        self.remove_files(files)?;
        Ok(cost)
    }

    fn make_files(&mut self, files: u64, cost: &mut Cost) -> Result<()> {
        let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
        let bytes = [7; 1 << 10];
        let numbers: Vec<u64> = (0..files).collect();
        for group in numbers.chunks(CALLS_AT_A_TIME) {
            let mut inos = Vec::new();
            self.carry_out(cost, group.len(), |vfs, now, n| {
                let made = vfs.make(now, CALLER, InodeNo::ROOT, &small_name(group[n]), node, false)?;
                inos.push(made.ino);
                Ok(())
            })?;
            self.carry_out(cost, group.len(), |vfs, now, n| {
                vfs.write(now, inos[n], 0, &bytes, false).map(drop)
            })?;
        }
        Ok(())
    }

    fn remove_files(&mut self, files: u64) -> Result<()> {
        self.carry_out(&mut Cost::default(), files as usize, |vfs, now, n| {
            vfs.unlink(now, InodeNo::ROOT, &small_name(n as u64)).map(drop)
        })
    }

    /// Commits everything as the driver does for a sync. Returns each hold of the lock in nanoseconds.
    fn sync(&mut self) -> Result<Vec<u64>> {
        let mut holds_ns = Vec::new();
        let mut preparation = Preparation::default();
        let mut prepared = Prepared::Part;
        while !matches!(prepared, Prepared::Whole(_)) {
            let (now, vfs) = (TimeNs(self.calls as i64 * 10_000), &mut self.vfs);
            let (result, took_ns) = timed(&mut 0, || match prepared {
                Prepared::Rest => vfs.commit(now, Scope::All).map(Prepared::Whole),
                _ => vfs.prepare_commit(now, Scope::All, &mut preparation),
            });
            holds_ns.push(took_ns);
            match result {
                Ok(next) => prepared = next,
                Err(Stop::Need(fetches)) => self.fetch(&fetches)?,
                Err(Stop::Room) => self.background(&mut Cost::default(), true)?,
                Err(Stop::Fail(e)) => return Err(e.into()),
            }
            self.complete_jobs(&mut 0)?;
        }
        Ok(holds_ns)
    }

    /// Carries out operation 0, 1, ... `count` - 1, with background work as it falls due.
    fn carry_out(
        &mut self,
        cost: &mut Cost,
        count: usize,
        mut op: impl FnMut(&mut Vfs<S>, TimeNs, usize) -> Outcome<()>,
    ) -> Result<()> {
        let (mut done, mut rounds) = (0, 0);
        while done < count {
            let first = done;
            let (stopped, _) = timed(&mut cost.write, || {
                while done < count {
                    self.calls += 1;
                    op(&mut self.vfs, TimeNs(self.calls as i64 * 10_000), done)?;
                    done += 1;
                    if self.vfs.store().pressure() == Pressure::Due {
                        break;
                    }
                }
                Ok(())
            });
            if done > first {
                rounds = 0;
            }
            match stopped {
                Ok(()) => self.background(cost, false)?,
                Err(Stop::Fail(e)) => return Err(e.into()),
                Err(Stop::Need(fetches)) => self.fetch(&fetches)?,
                Err(Stop::Room) => self.background(cost, true)?,
            }
            rounds += 1;
            assert!(rounds < ROUNDS_MAX, "operation {done} is never admitted");
        }
        Ok(())
    }

    fn fetch(&mut self, fetches: &[firnfs::Fetch]) -> Result<()> {
        let device = self.device.as_ref().ok_or("the memory store reads nothing")?;
        for fetch in fetches {
            let bytes = read_range(device, fetch.at_bytes, fetch.len_bytes)?;
            self.vfs.store_mut().supply(&fetch.token, &bytes.into())?;
        }
        Ok(())
    }

    /// Steps and jobs until nothing is due.
    fn background(&mut self, cost: &mut Cost, pressed: bool) -> Result<()> {
        loop {
            let now = TimeNs(self.calls as i64 * 10_000);
            let vfs = &mut self.vfs;
            let (step, took_ns) = timed(&mut cost.step, || vfs.store_mut().step(now, pressed));
            cost.longest_step = cost.longest_step.max(took_ns);
            // The operation is tried again then, and says itself if there is no space.
            let is_idle = matches!(step, Ok(Step::Idle(_) | Step::Stuck));
            match step {
                Ok(_) | Err(Stop::Room) => {}
                Err(Stop::Need(fetches)) => self.fetch(&fetches)?,
                Err(Stop::Fail(e)) => return Err(e.into()),
            }
            self.complete_jobs(&mut cost.request)?;
            if is_idle {
                return Ok(());
            }
        }
    }

    /// All requests for the device that there are; adds the time of gathering them.
    fn complete_jobs(&mut self, request_ns: &mut u64) -> Result<()> {
        while let Some(job) = self.vfs.store_mut().next_job() {
            let (request, _) = timed(request_ns, || job.request());
            match (&self.device, request) {
                (Some(device), Request::Write { at_bytes, data }) if self.is_written => {
                    device.write(at_bytes, data.whole())?;
                }
                _ => {}
            }
            self.vfs.store_mut().job_done(job.id, Ok(()));
        }
        Ok(())
    }
}

fn small_name(n: u64) -> Vec<u8> {
    format!("small{n}").into_bytes()
}

/// A range of any place and length: the device wants whole sectors.
fn read_range(device: &MemDevice, at_bytes: u64, len_bytes: u32) -> Result<Vec<u8>> {
    let start = at_bytes / 512 * 512;
    let end = (at_bytes + u64::from(len_bytes)).next_multiple_of(512);
    let data = device.read(start, (end - start) as u32)?;
    let from = (at_bytes - start) as usize;
    Ok(data[from..from + len_bytes as usize].to_vec())
}

fn log_structured(size_bytes: u64) -> Result<Bench<Lfs>> {
    let device = MemDevice::new(size_bytes);
    let options = MkfsOptions {
        size_bytes,
        block_bytes: 4096,
        segment_bytes: 1 << 20,
        physical_block_bytes: 4096,
        inline_max_bytes: 2048,
        label: String::new(),
        uuid: *b"write path bench",
        hash_key: [1, 2],
        now: TimeNs(0),
        root_owner: (0, 0),
    };
    for (at_bytes, bytes) in mkfs(&options)? {
        device.write(at_bytes, Arc::new(AlignedBuf::copy_of(&bytes)))?;
    }
    let mut read = |at_bytes, len_bytes| {
        read_range(&device, at_bytes, len_bytes).map_err(|e| FsError::Io(e.to_string()))
    };
    let superblock = read_superblock(&mut read, size_bytes)?;
    // As in a mount: the kernel caches written data.
    let options = Options { cache_file_data: false, ..Options::default() };
    let lfs = Lfs::open(&mut read, superblock, options, TimeNs(1))?;
    Bench::new(Vfs::new(lfs, AtimeMode::Noatime), Some(device))
}

fn in_memory() -> Result<Bench<MemStore>> {
    let store = MemStore::new(MemOptions::with_capacity(VOLUME_BYTES), TimeNs(1));
    Bench::new(Vfs::new(store, AtimeMode::Noatime), None)
}

/// All calls of a pass, each once, in an order that a multiplication makes.
fn shuffled(calls: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..calls).collect();
    order.sort_by_key(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17));
    order
}

fn median(costs: &[Cost], part: impl Fn(&Cost) -> u64) -> u64 {
    let mut values: Vec<u64> = costs.iter().map(part).collect();
    values.sort_unstable();
    values[values.len() / 2]
}

/// Rounds of one scenario on both stores, and their rows of the table.
fn compare(
    name: &str,
    count: u64,
    mut log: impl FnMut() -> Result<Cost>,
    mut memory: impl FnMut() -> Result<Cost>,
) -> Result<()> {
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        costs[0].push(log()?);
        costs[1].push(memory()?);
    }
    for (store, costs) in ["log", "memory"].iter().zip(&costs) {
        let parts = [|c: &Cost| c.prepare, |c: &Cost| c.write, |c: &Cost| c.step, |c: &Cost| c.request];
        let [prepare, write, step, request] = parts.map(|part| median(costs, part) / count);
        let sum = prepare + write + step + request;
        let longest_us = median(costs, |c| c.longest_step) / 1000;
        println!("{name:<12}{store:<8}{prepare:>9}{write:>9}{step:>9}{request:>9}{sum:>9}  {longest_us} us");
    }
    Ok(())
}

/// A row of the table of holds: medians of the rounds.
fn row_of_holds(name: &str, mut round: impl FnMut() -> Result<Vec<u64>>) -> Result<()> {
    let rounds: Vec<Vec<u64>> = (0..ROUNDS).map(|_| round()).collect::<Result<_>>()?;
    let median_us = |part: fn(&Vec<u64>) -> u64| {
        let mut values: Vec<u64> = rounds.iter().map(part).collect();
        values.sort_unstable();
        values[values.len() / 2] / 1000
    };
    let longest_us = median_us(|holds| holds.iter().copied().max().unwrap_or(0));
    let sum_us = median_us(|holds| holds.iter().sum());
    let holds = rounds.iter().map(Vec::len).max().unwrap_or(0);
    println!("{name:<24}{holds:>7}{sum_us:>9} us{longest_us:>9} us");
    Ok(())
}

fn main() -> Result<()> {
    let calls = FILE_BYTES / CALL_BYTES as u64;
    let sequence: Vec<u64> = (0..calls).collect();
    let (mut log, mut memory) = (log_structured(VOLUME_BYTES)?, in_memory()?);
    // The first pass allocates; it does not count.
    log.overwrite(&sequence)?;
    memory.overwrite(&sequence)?;
    println!(
        "{:<12}{:<8}{:>9}{:>9}{:>9}{:>9}{:>9}  longest step",
        "", "store", "prepare", "write", "step", "request", "sum"
    );
    let random = shuffled(calls);
    compare("sequential", calls, || log.overwrite(&sequence), || memory.overwrite(&sequence))?;
    compare("random", calls, || log.overwrite(&random), || memory.overwrite(&random))?;
    compare("small files", FILES, || log.create(FILES), || memory.create(FILES))?;
    println!("\n{:<24}{:>7}{:>12}{:>12}", "sync of", "holds", "sum", "longest");
    let few = CALLS_BEFORE_SYNC;
    for (name, order) in [("15 MiB in sequence", &sequence), ("15 MiB at random", &random)] {
        row_of_holds(name, || {
            log.overwrite(&order[..few])?;
            log.sync()
        })?;
    }
    row_of_holds("5,000 files of 1 KiB", || {
        log.sync()?;
        log.make_files(FILES_BEFORE_SYNC, &mut Cost::default())?;
        let holds_ns = log.sync();
        log.remove_files(FILES_BEFORE_SYNC)?;
        holds_ns
    })?;
    // The cleaner works all the time.
    let mut full = log_structured(FULL_VOLUME_BYTES)?;
    full.is_written = true;
    full.overwrite(&sequence)?;
    let costs: Vec<Cost> = (0..3).map(|_| full.overwrite(&random)).collect::<Result<_>>()?;
    println!("\nlongest step with the cleaner at work: {} us", median(&costs, |c| c.longest_step) / 1000);
    Ok(())
}
