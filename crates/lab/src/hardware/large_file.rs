//! Sprite LFS, figure 9: a file of 100 MB is written and read in units of 8 KB, in order, at random, and in order once more. Caller:
//! `firn sim paper large-file`.

use super::claims::{Claim, Expected};
use super::rig::{Phase, Program, Rig, Setup};
use crate::error::LabError;
use firnfs::inode::Kind;
use firnfs_format::InodeNo;
use firnfs_sim::seeded;
use rand::RngExt;
use serde::Serialize;

const UNIT_BYTES: u64 = 8 << 10;
const FILE: &str = "large";
/// The disk's maximum transfer bandwidth (section 5.1).
const BUS_MB_PER_S: f64 = 1.3;

/// One phase.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Speed {
    /// Bandwidth in KB/s, of 1000 bytes.
    pub kb_per_s: f64,
    /// Share of the time during which the processor worked.
    pub cpu_share: f64,
    /// Share of the time during which the disk worked.
    pub disk_share: f64,
    /// Bytes moved between disk and memory for each byte of the program.
    pub moved: f64,
}

/// The five phases; the volume is mounted again before each phase that reads.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Figure {
    /// Written in order, with an fsync at the end.
    pub write: Speed,
    /// Read in order.
    pub read: Speed,
    /// As many bytes written at random, with an fsync at the end.
    pub write_random: Speed,
    /// As many bytes read at random.
    pub read_random: Speed,
    /// Read in order after that.
    pub reread: Speed,
    /// Segments that were cleaned meanwhile; in the paper none.
    pub segments_cleaned: u64,
}

/// Runs the phases on a file of that many bytes.
///
/// # Errors
/// The volume cannot be made, or the file system failed.
pub fn run(setup: &Setup, bytes: u64, seed: u64, progress: &mut dyn FnMut(f64)) -> Result<Figure, LabError> {
    let rig = Rig::new(setup)?;
    let units = bytes / UNIT_BYTES;
    let in_order: Vec<u64> = (0..units).collect();
    let at_random = |purpose| {
        let mut rng = seeded(seed, purpose);
        (0..units).map(|_| rng.random_range(0..units)).collect::<Vec<u64>>()
    };
    let mut done = 0.0;
    let mut step = |speed: Speed| {
        done += 1.0;
        progress(done);
        speed
    };
    let write = rig.run(|program| {
        let ino = program.make(InodeNo::ROOT, FILE, Kind::Regular, 1)?;
        write(program, ino, &in_order)
    })?;
    let write = step(write);
    let read_in = |units: &[u64]| rig.run(|program| read(program, units));
    let read = step(read_in(&in_order)?);
    let (write_random, segments_cleaned) = rig.run(|program| {
        let before = program.counters()?;
        let ino = program.open(InodeNo::ROOT, FILE, 1)?;
        let speed = self::write(program, ino, &at_random("writes"))?;
        Ok((speed, program.counters()?.since(&before).segments_cleaned))
    })?;
    let write_random = step(write_random);
    let read_random = step(read_in(&at_random("reads"))?);
    let reread = step(read_in(&in_order)?);
    Ok(Figure { write, read, write_random, read_random, reread, segments_cleaned })
}

fn speed(phase: &Phase, units: usize) -> Speed {
    let bytes = units as f64 * UNIT_BYTES as f64;
    let moved = phase.disk.asked.read_bytes + phase.disk.asked.write_bytes;
    Speed {
        kb_per_s: bytes / 1e3 / phase.seconds,
        cpu_share: phase.cpu_share,
        disk_share: phase.disk_share,
        moved: moved as f64 / bytes,
    }
}

fn write(program: &Program<'_>, ino: InodeNo, units: &[u64]) -> Result<Speed, LabError> {
    let content = [9; UNIT_BYTES as usize];
    let start = program.moment();
    units.iter().try_for_each(|unit| program.write(ino, unit * UNIT_BYTES, &content))?;
    program.fsync(ino)?;
    Ok(speed(&program.since(&start), units.len()))
}

fn read(program: &Program<'_>, units: &[u64]) -> Result<Speed, LabError> {
    let mut content = [0; UNIT_BYTES as usize];
    let ino = program.open(InodeNo::ROOT, FILE, 1)?;
    let start = program.moment();
    units.iter().try_for_each(|unit| program.read(ino, unit * UNIT_BYTES, &mut content))?;
    Ok(speed(&program.since(&start), units.len()))
}

const POINTERS: &str = "each batch of random writes also writes the indirect blocks that it touches: with pointers of 16 bytes there \
                        are four times as many, see the bytes moved";

/// The claims of section 5.1 about the five bars of Sprite LFS; their heights are lost in the copy at hand.
#[must_use]
pub fn claims(figure: &Figure) -> Vec<Claim> {
    let ratio = |what, expected, over: Speed, under: Speed| {
        Claim::new("figure 9", what, expected, over.kb_per_s / under.kb_per_s, "ratio")
    };
    let within = |value, share| Expected::Within { value, share };
    let used = figure.write.kb_per_s / 1e3 / BUS_MB_PER_S;
    let bandwidth = "sequential writes: share of the disk's bandwidth (70% in section 1)";
    let same = "random against sequential writes: the log makes them the same";
    let seeks = "sequential reread after random writes, against the first read: it seeks";
    let scattered = "random reads against the reread: neither is in the order of the log";
    vec![
        Claim::new("figure 9", bandwidth, Expected::AtLeast(0.6), used, "share"),
        ratio(same, within(1.0, 0.1), figure.write_random, figure.write).missed(POINTERS),
        ratio(seeks, Expected::AtMost(0.5), figure.reread, figure.read),
        ratio(scattered, within(1.0, 0.5), figure.read_random, figure.reread),
    ]
}
