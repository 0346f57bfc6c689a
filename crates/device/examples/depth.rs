//! The cost of reads at depth: random reads of a file or block device through a `FileDevice` with each of its methods,
//! compared with a loop of pread(2) and with hints to the page cache, in interleaved rounds. `depth FILE [READS [ROUNDS
//! [buffered]]]`; FILE exists, is larger than 64 MiB and is only read.
//!
//! Each cell has microseconds for a read, and processor microseconds of this process in brackets; medians of the
//! rounds. Work of the kernel for other tasks, such as a loop device's, is not in the processor time.

use firnfs_device::{
    Access, AlignedBuf, DeepReads, Device, DirectIo, FileDevice, FileOptions, Lock, Request,
};
use rustix::fs::{Advice, OFlags, fadvise};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

const SIZES_BYTES: [u32; 3] = [8 << 10, 64 << 10, 1 << 20];
const DEPTHS: [usize; 4] = [1, 4, 16, 64];
/// Most that is read in a cell of a round.
const CELL_BYTES_MAX: usize = 48 << 20;

type Done = Result<(), Box<dyn Error>>;
type Way<'a> = (&'a str, Box<dyn Fn(&[u64], u32) -> Done + 'a>);

fn main() -> Done {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: depth FILE [READS [ROUNDS [buffered]]]")?;
    let reads: usize = args.next().map_or(Ok(1024), |a| a.parse())?;
    let rounds: usize = args.next().map_or(Ok(5), |a| a.parse())?;
    let is_direct = args.next().is_none();
    let path = Path::new(&path);

    let open = |deep_reads| open_device(path, deep_reads, is_direct);
    let devices = [open(DeepReads::OneByOne)?, open(DeepReads::Threads)?, open(DeepReads::Ring)?];
    let direct = if is_direct { OFlags::DIRECT.bits() as i32 } else { 0 };
    let plain = File::options().read(true).custom_flags(direct).open(path)?;
    let cached = File::open(path)?;
    let ways: [Way; 5] = [
        ("pread", Box::new(|batch, len| read_plainly(&plain, batch, len))),
        ("one by one", Box::new(|batch, len| read_through(&devices[0], batch, len))),
        ("threads", Box::new(|batch, len| read_through(&devices[1], batch, len))),
        ("io_uring", Box::new(|batch, len| read_through(&devices[2], batch, len))),
        ("hints, cached", Box::new(|batch, len| read_after_hints(&cached, batch, len))),
    ];
    println!("| reads | {} |", ways.each_ref().map(|(name, _)| *name).join(" | "));
    println!("|---|{}", "---|".repeat(ways.len()));
    let blocks_of = |len: u32| devices[0].geometry().size_bytes / u64::from(len);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for len_bytes in SIZES_BYTES {
        for depth in DEPTHS {
            let count = reads.min(CELL_BYTES_MAX / len_bytes as usize).next_multiple_of(depth);
            let mut costs = vec![Vec::new(); ways.len()];
            for _ in 0..rounds {
                for ((_, way), costs) in ways.iter().zip(&mut costs) {
                    let places: Vec<u64> = (0..count)
                        .map(|_| random.below(blocks_of(len_bytes)) * u64::from(len_bytes))
                        .collect();
                    fadvise(&cached, 0, None, Advice::DontNeed)?;
                    costs.push(cost_of(|| places.chunks(depth).try_for_each(|b| way(b, len_bytes)), count)?);
                }
            }
            let cells: Vec<String> = costs.into_iter().map(shown).collect();
            println!("| {} KiB, {depth} at a time | {} |", len_bytes >> 10, cells.join(" | "));
        }
    }
    println!("several reads through the device opened for io_uring: {:?}", devices[2].deep_reads());
    show_hand_over(&devices[2], path, rounds)
}

fn open_device(path: &Path, deep_reads: DeepReads, is_direct: bool) -> Result<FileDevice, Box<dyn Error>> {
    let direct = if is_direct { DirectIo::Prefer } else { DirectIo::Never };
    let (access, lock) = (Access::ReadOnly, Lock::None);
    let device =
        FileDevice::open(path, &FileOptions { access, lock, direct, deep_reads, ..FileOptions::default() })?;
    if let Some(why) = device.buffered_because() {
        println!("note: buffered, {why}");
    }
    Ok(device)
}

fn read_plainly(file: &File, places: &[u64], len_bytes: u32) -> Done {
    for &at in places {
        file.read_exact_at(&mut AlignedBuf::scratch(len_bytes as usize), at)?;
    }
    Ok(())
}

fn read_through(device: &FileDevice, places: &[u64], len_bytes: u32) -> Done {
    let submit = |&at_bytes: &u64| device.submit(Request::Read { at_bytes, len_bytes });
    let tags: Vec<_> = places.iter().map(submit).collect();
    for tag in tags {
        device.wait(tag)?;
    }
    Ok(())
}

fn read_after_hints(file: &File, places: &[u64], len_bytes: u32) -> Done {
    for &at in places {
        fadvise(file, at, std::num::NonZeroU64::new(u64::from(len_bytes)), Advice::WillNeed)?;
    }
    read_plainly(file, places, len_bytes)
}

/// A single read where the transfer costs nearly nothing: what the device adds to it.
fn show_hand_over(device: &FileDevice, path: &Path, rounds: usize) -> Done {
    const READS: usize = 20_000;
    let file = File::open(path)?;
    let buffered = open_device(path, device.deep_reads(), false)?;
    buffered.read(0, 4096)?;
    let mut costs = [Vec::new(), Vec::new(), Vec::new()];
    let places = [0; READS];
    for _ in 0..rounds {
        costs[0].push(cost_of(|| read_plainly(&file, &places, 4096), READS)?);
        costs[1].push(cost_of(
            || Ok(places.iter().try_for_each(|&at| buffered.read(at, 4096).map(drop))?),
            READS,
        )?);
        costs[2]
            .push(cost_of(|| places.chunks(1).try_for_each(|at| read_through(&buffered, at, 4096)), READS)?);
    }
    let [pread, read, submitted] = costs.map(shown);
    println!("4 KiB from the page cache: pread {pread}, Device::read {read}, submit and wait {submitted}");
    Ok(())
}

/// Microseconds of the clock and of the processor for each of `count` reads.
fn cost_of(work: impl FnOnce() -> Done, count: usize) -> Result<(f64, f64), Box<dyn Error>> {
    let (started, cpu_before) = (Instant::now(), cpu_us());
    work()?;
    let wall_us = started.elapsed().as_secs_f64() * 1e6;
    Ok((wall_us / count as f64, (cpu_us() - cpu_before) / count as f64))
}

/// Processor time of this process, its threads included.
fn cpu_us() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
}

fn shown(costs: Vec<(f64, f64)>) -> String {
    let (wall, cpu): (Vec<f64>, Vec<f64>) = costs.into_iter().unzip();
    format!("{:.1} ({:.1})", median(wall), median(cpu))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// xorshift64
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
