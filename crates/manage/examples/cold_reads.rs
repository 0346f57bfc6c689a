//! The gain of reads at depth while nothing is in memory yet: recovery, the file system check, scrub, salvage, and one
//! sequential read through a volume. `cold_reads DIR [SIZE_MIB [ROUNDS [LATENCY_US [ROWS]]]]`; DIR has room for four images of
//! SIZE_MIB (2048), which are made if they are not there, and kept for the next run. With LATENCY_US (0) each read takes at
//! least that many microseconds, as on a disk behind a network; reads under way together wait together. ROWS is a part of the
//! names of the rows wanted.
//!
//! Each row has milliseconds, and in brackets those of the processor (this process), medians of interleaved rounds: through a
//! device that carries out reads one after the other, through one that carries out several at a time, and the ratio of the
//! times. Devices use O_DIRECT where the system allows it; the page cache is dropped before each measurement where the user may
//! do that.

// It measures time, which the crate itself never does.
#![allow(clippy::disallowed_methods)]

use firnfs::FsError;
use firnfs::check::salvage::Assumed;
use firnfs::check::{Depth, From};
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{
    Access, Clock, Completion, DeepReads, Device, FileDevice, FileOptions, Geometry, Lock, Request,
    SystemClock, Tag,
};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{LogVolume, Scrub, check, format, open, put_together, write_salvaged};
use firnfs_volume::Volume;
use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type Done<T = ()> = Result<T, Box<dyn Error>>;

const SMALL_FILES: u64 = 50_000;
const FILES_A_DIRECTORY: u64 = 1_000;
const BLOCK_BYTES: u64 = 4096;
const SEQUENTIAL_BYTES: u64 = 100 << 20;
const REQUEST_BYTES: usize = 128 << 10;
/// Requests of the raw device that are under way together.
const RAW_DEPTH: usize = 16;

/// The name of a measurement, its image, and the code.
type Row<'a> = (&'a str, &'a Path, fn(&Arc<dyn Device>, &Path) -> Done);

fn main() -> Done {
    let mut args = std::env::args().skip(1);
    let home =
        PathBuf::from(args.next().ok_or("usage: cold_reads DIR [SIZE_MIB [ROUNDS [LATENCY_US [ROWS]]]]")?);
    let size_mib: u64 = args.next().map_or(Ok(2048), |a| a.parse())?;
    let rounds: usize = args.next().map_or(Ok(5), |a| a.parse())?;
    let latency = Duration::from_micros(args.next().map_or(Ok(0), |a| a.parse())?);
    let wanted = args.next().unwrap_or_default();
    let image = |name: &str| home.join(format!("{name}-{size_mib}.img"));
    let images = [image("new"), image("rewritten"), image("random"), image("mixed")];
    let makers = [new_files, rewritten_files, random_writes, mixed];
    for (path, make) in images.iter().zip(makers) {
        if !path.exists() {
            println!("making {}", path.display());
            make(path, size_mib << 20)?;
        }
    }
    let [new, rewritten, random, mixed] = &images;
    let rows: [Row; 10] = [
        ("recovery, 50,000 new files", new, |device, _| recover(device)),
        ("recovery, 50,000 files rewritten", rewritten, |device, _| recover(device)),
        ("recovery, a file rewritten at random", random, |device, _| recover(device)),
        ("check", mixed, |device, _| check_all(device)),
        ("scrub, structure", mixed, |device, _| scrub(device, Depth::Structure)),
        ("scrub, everything", mixed, |device, _| scrub(device, Depth::Everything)),
        ("salvage, look", mixed, |device, _| salvage(device, None)),
        ("salvage, look and copy", mixed, |device, home| salvage(device, Some(home))),
        ("100 MiB file, 128 KiB at a time", mixed, |device, _| sequential(device)),
        ("100 MiB of the device, 128 KiB a request", mixed, |device, _| raw(device)),
    ];
    println!("| what | one by one | at depth | ratio |\n|---|---|---|---|");
    for (name, path, run) in rows.into_iter().filter(|(name, ..)| name.contains(&wanted)) {
        let ways = [DeepReads::OneByOne, DeepReads::Ring];
        let [one, deep] = measure(rounds, path, (ways, latency), |device| run(device, &home))?;
        println!(
            "| {name} | {:.0} ({:.0}) | {:.0} ({:.0}) | {:.2} |",
            one.0,
            one.1,
            deep.0,
            deep.1,
            deep.0 / one.0
        );
    }
    Ok(())
}

/// Median milliseconds of each way, of the clock and of the processor.
fn measure(
    rounds: usize,
    path: &Path,
    (ways, latency): ([DeepReads; 2], Duration),
    mut run: impl FnMut(&Arc<dyn Device>) -> Done,
) -> Done<[(f64, f64); 2]> {
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (deep_reads, costs) in ways.into_iter().zip(&mut costs) {
            let options = FileOptions {
                access: Access::ReadOnly,
                lock: Lock::None,
                deep_reads,
                ..FileOptions::default()
            };
            let file = FileDevice::open(path, &options)?;
            let device: Arc<dyn Device> = match latency.is_zero() {
                true => Arc::new(file),
                false => Arc::new(Far::new(file, latency, deep_reads != DeepReads::OneByOne)),
            };
            // Without the permission to do it, O_DIRECT has to suffice.
            let _ = std::fs::write("/proc/sys/vm/drop_caches", "3");
            let (started, cpu_before) = (Instant::now(), cpu_ms()?);
            run(&device)?;
            costs.push((started.elapsed().as_secs_f64() * 1e3, cpu_ms()? - cpu_before));
        }
    }
    Ok(costs.map(|costs| {
        let (wall, cpu): (Vec<f64>, Vec<f64>) = costs.into_iter().unzip();
        (median(wall), median(cpu))
    }))
}

/// A device each of whose reads takes some time at least: from when it is submitted, or, one by one, from when it is waited for.
struct Far {
    inner: FileDevice,
    latency: Duration,
    is_deep: bool,
    submitted: Mutex<HashMap<Tag, Instant>>,
}

impl Far {
    fn new(inner: FileDevice, latency: Duration, is_deep: bool) -> Self {
        Self { inner, latency, is_deep, submitted: Mutex::default() }
    }
}

impl Device for Far {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        let is_read = matches!(request, Request::Read { .. });
        let tag = self.inner.submit(request);
        if is_read && let Ok(mut submitted) = self.submitted.lock() {
            submitted.insert(tag, Instant::now());
        }
        tag
    }
    fn wait(&self, tag: Tag) -> Completion {
        let submitted = self.submitted.lock().ok().and_then(|mut submitted| submitted.remove(&tag));
        let started = if self.is_deep { submitted } else { submitted.map(|_| Instant::now()) };
        let completion = self.inner.wait(tag);
        if let Some(started) = started {
            std::thread::sleep(self.latency.saturating_sub(started.elapsed()));
        }
        completion
    }
    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
}

/// Processor time of this process, its threads included, in steps of 10 ms.
fn cpu_ms() -> Done<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let behind_name = stat.rsplit(')').next().ok_or("no name in stat")?;
    let ticks = behind_name.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? * 10.0)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn mount(device: &Arc<dyn Device>, options: Options) -> Done<Volume<Lfs>> {
    Ok(open(device.clone(), options, AtimeMode::Noatime, Arc::new(SystemClock))?)
}

fn recover(device: &Arc<dyn Device>) -> Done {
    let volume = mount(device, Options { read_only: true, ..Options::default() })?;
    let found = volume.run(|vfs, _| Ok(*vfs.store().recovered()))?;
    if found.inodes == 0 || found.lost.is_some() {
        return Err(format!("nothing was recovered: {found:?}").into());
    }
    Ok(())
}

fn check_all(device: &Arc<dyn Device>) -> Done {
    let report = check(&**device, From::Newest, &mut |_| {})?;
    if report.is_clean() { Ok(()) } else { Err(format!("{:?}", report.findings).into()) }
}

fn scrub(device: &Arc<dyn Device>, depth: Depth) -> Done {
    let volume = mount(device, Options { read_only: true, ..Options::default() })?;
    let (mut pace, mut watch) = (|_| true, |_| {});
    let done = volume.scrub(&mut Scrub { depth, pace: &mut pace, watch: &mut watch })?;
    if done.is_complete { Ok(()) } else { Err(format!("{:?}", done.report).into()) }
}

fn salvage(device: &Arc<dyn Device>, home: Option<&Path>) -> Done {
    let now = TimeNs(SystemClock.now_ns());
    let assumed = Assumed { block_bytes: None, segment_bytes: None, hash_key: [1, 2], now };
    let salvaged = put_together(&**device, &assumed, &mut |_| {})?;
    let Some(home) = home else { return Ok(()) };
    let path = home.join("salvaged.img");
    let size_bytes = device.geometry().size_bytes;
    let out: Arc<dyn Device> = Arc::new(FileDevice::create(&path, size_bytes, &FileOptions::default())?);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    write_salvaged(&**device, salvaged, &out, &clock, &mut |_| true, &mut |_| {})?;
    std::fs::remove_file(path)?;
    Ok(())
}

fn sequential(device: &Arc<dyn Device>) -> Done {
    let volume = mount(device, Options { read_only: true, ..Options::default() })?;
    let ino = volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, b"large 0", false))?.ino;
    let mut out = vec![0; REQUEST_BYTES];
    for at_bytes in (0..SEQUENTIAL_BYTES).step_by(REQUEST_BYTES) {
        if volume.read(ino, at_bytes, &mut out)? != REQUEST_BYTES {
            return Err("the file is shorter than it was made".into());
        }
    }
    Ok(())
}

/// As much of the device itself, at the end of the log's first part.
fn raw(device: &Arc<dyn Device>) -> Done {
    let mut under_way: VecDeque<Tag> = VecDeque::new();
    let from_bytes = device.geometry().size_bytes / 4 / BLOCK_BYTES * BLOCK_BYTES;
    for at_bytes in (from_bytes..from_bytes + SEQUENTIAL_BYTES).step_by(REQUEST_BYTES) {
        if under_way.len() == RAW_DEPTH {
            device.wait(under_way.pop_front().ok_or("some are under way")?)?;
        }
        under_way.push_back(device.submit(Request::Read { at_bytes, len_bytes: REQUEST_BYTES as u32 }));
    }
    under_way.into_iter().try_for_each(|tag| Ok(device.wait(tag).map(drop)?))
}

/// A new volume, and files put into it: the base, then a checkpoint, then the log's tail, then a crash.
fn crashed(
    path: &Path,
    size_bytes: u64,
    base: impl FnOnce(&Volume<Lfs>) -> Result<Vec<InodeNo>, FsError>,
    tail: impl FnOnce(&Volume<Lfs>, Vec<InodeNo>) -> Result<(), FsError>,
) -> Done {
    let device = new_volume(path, size_bytes)?;
    let volume = mount(&device, Options::default())?;
    let files = base(&volume)?;
    volume.close()?;
    drop(volume);
    let options =
        Options { checkpoint_bytes: u64::MAX, checkpoint_interval_ms: u64::MAX, ..Options::default() };
    let volume = mount(&device, options)?;
    tail(&volume, files)?;
    Ok(volume.sync(Scope::All)?)
}

fn new_volume(path: &Path, size_bytes: u64) -> Done<Arc<dyn Device>> {
    let device: Arc<dyn Device> = Arc::new(FileDevice::create(path, size_bytes, &FileOptions::default())?);
    let options = MkfsOptions {
        size_bytes,
        block_bytes: BLOCK_BYTES as u32,
        segment_bytes: 1 << 20,
        physical_block_bytes: 4096,
        inline_max_bytes: 2048,
        label: "cold".to_owned(),
        uuid: [7; 16],
        hash_key: [1, 2],
        now: TimeNs(SystemClock.now_ns()),
        root_owner: (0, 0),
    };
    format(&*device, &options)?;
    Ok(device)
}

fn new_files(path: &Path, size_bytes: u64) -> Done {
    crashed(path, size_bytes, |_| Ok(Vec::new()), |volume, _| small_files(volume).map(drop))
}

fn rewritten_files(path: &Path, size_bytes: u64) -> Done {
    crashed(path, size_bytes, small_files, |volume, files| {
        // Not in the order in which they were made.
        for n in 0..files.len() {
            let at = n * 7919 % files.len();
            volume.write_all(files[at], 0, &content(n as u64, len_of(at as u64)), false)?;
        }
        Ok(())
    })
}

fn random_writes(path: &Path, size_bytes: u64) -> Done {
    let file_blocks = size_bytes / 4 / BLOCK_BYTES;
    let base = |volume: &Volume<Lfs>| Ok(vec![large_file(volume, 0, file_blocks * BLOCK_BYTES)?]);
    crashed(path, size_bytes, base, |volume, files| {
        let mut block = 1;
        for n in 0..file_blocks / 8 {
            block = (block * 40_503 + 12_345) % file_blocks;
            volume.write_all(files[0], block * BLOCK_BYTES, &content(n, BLOCK_BYTES), false)?;
        }
        Ok(())
    })
}

/// 50,000 small files and some large ones, which fill half of it.
fn mixed(path: &Path, size_bytes: u64) -> Done {
    let device = new_volume(path, size_bytes)?;
    let volume = mount(&device, Options::default())?;
    small_files(&volume)?;
    for n in 0..size_bytes / 3 / SEQUENTIAL_BYTES {
        large_file(&volume, n, SEQUENTIAL_BYTES)?;
    }
    Ok(volume.close()?)
}

/// 1 to 16 KiB; a part of them is in the inode's record.
fn len_of(n: u64) -> u64 {
    1024 * (1 + n * 31 % 16)
}

fn content(seed: u64, len_bytes: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = (0..len_bytes.div_ceil(8)).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.take(len_bytes as usize).collect()
}

fn make(volume: &Volume<Lfs>, parent: InodeNo, name: &str, kind: Kind) -> Result<InodeNo, FsError> {
    let node = NewNode { kind, mode: 0o755, rdev: 0, target: b"" };
    let caller = Caller { uid: 0, gid: 0, umask: 0 };
    Ok(volume.run(|vfs, now| vfs.make(now, caller, parent, name.as_bytes(), node, false))?.ino)
}

fn small_files(volume: &Volume<Lfs>) -> Result<Vec<InodeNo>, FsError> {
    let mut files = Vec::new();
    let mut dir = InodeNo::ROOT;
    for n in 0..SMALL_FILES {
        if n % FILES_A_DIRECTORY == 0 {
            dir = make(volume, InodeNo::ROOT, &format!("d{n}"), Kind::Directory)?;
        }
        let file = make(volume, dir, &format!("file {n}"), Kind::Regular)?;
        volume.write_all(file, 0, &content(n, len_of(n)), false)?;
        files.push(file);
    }
    Ok(files)
}

fn large_file(volume: &Volume<Lfs>, n: u64, len_bytes: u64) -> Result<InodeNo, FsError> {
    let file = make(volume, InodeNo::ROOT, &format!("large {n}"), Kind::Regular)?;
    for at_bytes in (0..len_bytes).step_by(1 << 20) {
        volume.write_all(file, at_bytes, &content(n ^ at_bytes, 1 << 20), false)?;
    }
    Ok(file)
}
