//! BSD-LFS, figures 9, 10 and 12: how fast a file of a given size is written and read, against the raw disk.
//!
//! A file is written as a whole 50 times, each time with an fsync at its end; for reading, the volume is mounted again before each
//! time. The raw disk is given one request of 64 KB at a time, with the copy between program and kernel before each;
//! *clustered* stands for EFS: each 64 KB goes through the file cache and is posted at once, and the program waits at the end.
//! Caller: `firn sim paper bandwidth`.

use super::claims::{Claim, Expected};
use super::rig::{Program, Rig, Setup};
use crate::error::LabError;
use crate::plot::{Curve, Plot, Scale, Style};
use firnfs::inode::Kind;
use firnfs_device::{AlignedBuf, Clock, Device, MemDevice, Request};
use firnfs_format::InodeNo;
use firnfs_sim::{Machine, TimedDisk, VirtualClock};
use serde::Serialize;
use std::sync::Arc;

/// Sizes of the file, in bytes: the abscissa of the figures.
pub const SIZES: [u64; 9] =
    [64 << 10, 128 << 10, 256 << 10, 512 << 10, 768 << 10, 1 << 20, 2 << 20, 3 << 20, 4 << 20];
/// A program's write or read, and the raw disk's request.
const UNIT_BYTES: u64 = 64 << 10;
const FILE: &str = "file";

/// One size.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Point {
    /// Size of the file, in bytes.
    #[serde(rename = "file_bytes")]
    pub bytes: u64,
    /// Writing it and fsync, in MB/s.
    pub lfs_write_mb_per_s: f64,
    /// Time of the writes, in milliseconds.
    pub lfs_write_ms: f64,
    /// Time of the fsync, in milliseconds.
    pub lfs_fsync_ms: f64,
    /// Share of writing during which the processor worked.
    pub lfs_write_cpu_share: f64,
    /// Reading it, in MB/s.
    pub lfs_read_mb_per_s: f64,
    /// Share of reading during which the processor worked.
    pub lfs_read_cpu_share: f64,
    /// Share of reading during which the disk worked.
    pub lfs_read_disk_share: f64,
    /// The raw disk written, in MB/s.
    pub raw_write_mb_per_s: f64,
    /// Written through the cache and posted in clusters, without metadata, in MB/s.
    pub clustered_write_mb_per_s: f64,
    /// The raw disk read, in MB/s.
    pub raw_read_mb_per_s: f64,
}

fn mb_per_s(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / 1e6 / seconds
}

/// Measures every size; reports to `progress` how many are done.
///
/// # Errors
/// The volume cannot be made, or the file system failed.
pub fn run(setup: &Setup, runs: u32, progress: &mut dyn FnMut(f64)) -> Result<Vec<Point>, LabError> {
    let numbered = SIZES.into_iter().enumerate();
    let measure = |(n, bytes)| {
        let point = point(setup, bytes, runs.max(1));
        progress(n as f64 + 1.0);
        point
    };
    numbered.map(measure).collect()
}

pub(super) fn point(setup: &Setup, bytes: u64, runs: u32) -> Result<Point, LabError> {
    let rig = Rig::new(setup)?;
    let written = rig.run(|program| write_runs(program, bytes, runs))?;
    let read = read_runs(&rig, bytes, runs)?;
    Ok(Point {
        bytes,
        lfs_write_mb_per_s: mb_per_s(bytes, written.write_s + written.fsync_s),
        lfs_write_ms: written.write_s * 1e3,
        lfs_fsync_ms: written.fsync_s * 1e3,
        lfs_write_cpu_share: written.cpu_share,
        lfs_read_mb_per_s: mb_per_s(bytes, read.seconds),
        lfs_read_cpu_share: read.cpu_share,
        lfs_read_disk_share: read.disk_share,
        raw_write_mb_per_s: raw(setup, bytes, runs, Raw::Write),
        clustered_write_mb_per_s: raw(setup, bytes, runs, Raw::Clustered),
        raw_read_mb_per_s: raw(setup, bytes, runs, Raw::Read),
    })
}

/// Means of the runs.
struct Written {
    write_s: f64,
    fsync_s: f64,
    cpu_share: f64,
}

fn write_runs(program: &Program<'_>, bytes: u64, runs: u32) -> Result<Written, LabError> {
    let ino = program.make(InodeNo::ROOT, FILE, Kind::Regular, 1)?;
    write_file(program, ino, bytes, 0)?;
    program.sync()?;
    let (mut writes, mut all) = (0.0, 0.0);
    let start = program.moment();
    for run in 1..=runs {
        let from = program.moment();
        write_file(program, ino, bytes, run as u8)?;
        writes += program.since(&from).seconds;
        program.fsync(ino)?;
        all += program.since(&from).seconds;
    }
    let cpu_share = program.since(&start).cpu_share;
    let runs = f64::from(runs);
    Ok(Written { write_s: writes / runs, fsync_s: (all - writes) / runs, cpu_share })
}

fn write_file(program: &Program<'_>, ino: InodeNo, bytes: u64, fill: u8) -> Result<(), LabError> {
    let content = vec![fill; UNIT_BYTES as usize];
    (0..bytes).step_by(UNIT_BYTES as usize).try_for_each(|at| program.write(ino, at, &content))
}

/// Means of the runs.
struct Read {
    seconds: f64,
    cpu_share: f64,
    disk_share: f64,
}

fn read_runs(rig: &Rig, bytes: u64, runs: u32) -> Result<Read, LabError> {
    let mut sum = Read { seconds: 0.0, cpu_share: 0.0, disk_share: 0.0 };
    for _ in 0..runs {
        let phase = rig.run(|program| {
            let mut buffer = vec![0; UNIT_BYTES as usize];
            let ino = program.open(InodeNo::ROOT, FILE, 1)?;
            let from = program.moment();
            (0..bytes).step_by(UNIT_BYTES as usize).try_for_each(|at| program.read(ino, at, &mut buffer))?;
            Ok(program.since(&from))
        })?;
        sum.seconds += phase.seconds / f64::from(runs);
        sum.cpu_share += phase.cpu_share / f64::from(runs);
        sum.disk_share += phase.disk_share / f64::from(runs);
    }
    Ok(sum)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Raw {
    Read,
    Write,
    Clustered,
}

/// The raw disk, without a file system: the same place each time.
fn raw(setup: &Setup, bytes: u64, runs: u32, raw: Raw) -> f64 {
    let clock = Arc::new(VirtualClock::at(0));
    let machine = Machine::new(setup.cpu.clone(), clock.clone());
    let params = &setup.disk.params;
    let disk = TimedDisk::of(MemDevice::new(bytes), clock.clone(), params, setup.cpu.command_ns());
    let data = Arc::new(AlignedBuf::zeroed(UNIT_BYTES as usize));
    for _ in 0..runs {
        let places = (0..bytes).step_by(UNIT_BYTES as usize);
        let write = |at_bytes| Request::Write { at_bytes, data: data.clone().into() };
        let one_by_one = |request: Request| {
            machine.spend_ns(
                setup.cpu.system_call_ns() + setup.cpu.copy_ns(UNIT_BYTES) + setup.cpu.command_ns(),
            );
            // A disk in memory does not fail.
            let _ = disk.wait(disk.submit(request));
        };
        match raw {
            Raw::Write => places.map(write).for_each(one_by_one),
            Raw::Read => {
                let read = |at_bytes| Request::Read { at_bytes, len_bytes: UNIT_BYTES as u32 };
                places.map(read).for_each(one_by_one);
            }
            Raw::Clustered => {
                let post = |at_bytes| {
                    let cpu = &setup.cpu;
                    machine.spend_ns(cpu.system_call_ns() + cpu.transfer_ns(UNIT_BYTES) + cpu.command_ns());
                    disk.submit(write(at_bytes))
                };
                let tags: Vec<_> = places.map(post).collect();
                tags.into_iter().for_each(|tag| drop(disk.wait(tag)));
            }
        }
    }
    mb_per_s(bytes * u64::from(runs), clock.now_ns() as f64 / 1e9)
}

const COLD_START: &str = "a cold file's metadata is read with 320 KiB of neighbours, 0.2 s on this bus, and the first two reads of a file \
                          start no others";

/// The claims of section 5.2.1 that need no FFS.
#[must_use]
pub fn claims(setup: &Setup, points: &[Point]) -> Vec<Claim> {
    let at = |bytes: u64| points.iter().find(|point| point.bytes == bytes);
    let (Some(half), Some(large)) = (at(512 << 10), at(4 << 20)) else { return Vec::new() };
    let mut claims = write_claims(half, large);
    let gap_ms = setup.cpu.copy_ns(UNIT_BYTES) as f64 / 1e6;
    let gap = "time that a raw request waits for its copy";
    claims.insert(0, Claim::new("5.2.1", gap, within(5.0, 0.1), gap_ms, "ms").of_input());
    claims.extend(read_claims(large));
    claims
}

fn within(value: f64, share: f64) -> Expected {
    Expected::Within { value, share }
}

fn ratio(place: &'static str, what: &str, expected: Expected, over: f64, under: f64) -> Claim {
    Claim::new(place, what, expected, over / under, "ratio")
}

fn write_claims(half: &Point, large: &Point) -> Vec<Claim> {
    let clustered_ms = |point: &Point| point.bytes as f64 / 1e3 / point.clustered_write_mb_per_s;
    vec![
        ratio(
            "figure 9",
            "clustered against raw writes, 4 MB (EFS is above RAW)",
            Expected::AtLeast(1.0),
            large.clustered_write_mb_per_s,
            large.raw_write_mb_per_s,
        ),
        ratio(
            "figure 9",
            "LFS against RAW, 512 KB (LFS is noticeably worse)",
            Expected::AtMost(0.97),
            half.lfs_write_mb_per_s,
            half.raw_write_mb_per_s,
        ),
        ratio(
            "figure 9",
            "the same, 4 MB",
            Expected::AtMost(0.97),
            large.lfs_write_mb_per_s,
            large.raw_write_mb_per_s,
        ),
        ratio(
            "figure 10",
            "512 KB: time of LFS's fsync against all of clustered writing (EFS: nearly identical)",
            within(1.0, 0.15),
            half.lfs_fsync_ms,
            clustered_ms(half),
        ),
        ratio(
            "5.2.1",
            "4 MB: the same; fsync writes only what is left below the threshold: a fifth, and seeks",
            Expected::AtMost(0.25),
            large.lfs_fsync_ms,
            clustered_ms(large),
        ),
    ]
}

fn read_claims(large: &Point) -> Vec<Claim> {
    let bus = "raw reads, 4 MB, against the bus (\"close to 100%\")";
    let three_percent = "LFS against raw reads, 4 MB (\"very small (3%)\")";
    let (lfs, raw) = (large.lfs_read_mb_per_s, large.raw_read_mb_per_s);
    vec![
        Claim::new("figure 12", bus, within(1.6, 0.15), raw, "MB/s"),
        ratio("figure 12", three_percent, within(1.0, 0.03), lfs, raw).missed(COLD_START),
    ]
}

const LFS: Style = Style(0);
const EFS: Style = Style(2);
const RAW: Style = Style(4);

/// Figures 9 and 12.
#[must_use]
pub fn plots(setup: &Setup, points: &[Point]) -> Vec<Plot> {
    let conditions =
        format!("{}, {}, profile {}", setup.cpu.title, setup.disk.params.title, setup.profile.name());
    let curve = |label, style, of: fn(&Point) -> f64| {
        Curve::new(
            label,
            style,
            points.iter().map(|point| (point.bytes as f64 / 1024.0, of(point))).collect(),
        )
    };
    let plot = |file: &'static str, title: &'static str, curves: Vec<Curve>| {
        let ordinates = curves.iter().flat_map(|curve| &curve.points).map(|point| point.1);
        Plot {
            file: file.into(),
            title: title.into(),
            conditions: conditions.clone().into(),
            x: "kilobytes",
            y: "MB/s",
            x_scale: Scale::Log2,
            y_scale: Scale::Linear,
            x_max: 4096.0,
            y_max: ordinates.fold(0.0, f64::max) * 1.2,
            curves,
        }
    };
    let written = vec![
        curve("clustered, for EFS", EFS, |point| point.clustered_write_mb_per_s),
        curve("raw", RAW, |point| point.raw_write_mb_per_s),
        curve("LFS", LFS, |point| point.lfs_write_mb_per_s),
    ];
    let read = vec![
        curve("raw", RAW, |point| point.raw_read_mb_per_s),
        curve("LFS", LFS, |point| point.lfs_read_mb_per_s),
    ];
    vec![
        plot("figure-9", "Figure 9: write bandwidth by size", written),
        plot("figure-12", "Figure 12: read bandwidth by size", read),
    ]
}
