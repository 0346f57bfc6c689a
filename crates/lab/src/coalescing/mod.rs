//! The benefit of coalescing: the real file system on a disk with a head, or without, in virtual time.
//!
//! Each scene writes data in order, reads it, scatters it, reads it again, leaves the volume idle for a while, and reads it once
//! more. The volume (`bench`) is remounted before each read, so that nothing comes from memory. Times are those of the disk:
//! computing takes no time. The same scene gives the same figures, bit for bit.
//!
//! Caller: `firn sim coalescing`. Page: docs/internals/coalescing.md.

mod bench;

use crate::error::LabError;
use bench::Bench;
use firnfs_sim::disk::DiskParams;
use firnfs_sim::seeded;
use rand::seq::SliceRandom;
use serde::Serialize;

/// Files, and how they are scattered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Scene {
    /// A file of which a share is overwritten in pieces, in random order, with an occasional fsync, as a database does.
    File {
        /// Size of the file, in bytes.
        #[serde(rename = "file_bytes")]
        bytes: u64,
        /// Size of a piece, in bytes.
        piece_bytes: u64,
        /// Percentage of the pieces that are overwritten.
        share_percent: u64,
    },
    /// A directory of small files that are rewritten in random order, with an occasional fsync.
    Directory {
        /// Number of files.
        files: u64,
        /// Size of each, in bytes.
        #[serde(rename = "file_bytes")]
        bytes: u64,
    },
    /// Files that grow in turn, a piece at a time, with a sync after each round: logs.
    Logs {
        /// Number of files.
        files: u64,
        /// Final size of each, in bytes.
        #[serde(rename = "file_bytes")]
        bytes: u64,
        /// Size of a piece, in bytes.
        piece_bytes: u64,
    },
}

/// The scenes that the page on coalescing shows.
pub const SCENES: [Scene; 7] = [
    Scene::File { bytes: 64 << 20, piece_bytes: 8 << 10, share_percent: 100 },
    Scene::File { bytes: 64 << 20, piece_bytes: 8 << 10, share_percent: 5 },
    Scene::Directory { files: 5000, bytes: 8 << 10 },
    Scene::Directory { files: 40_000, bytes: 700 },
    Scene::Logs { files: 8, bytes: 8 << 20, piece_bytes: 16 << 10 },
    // So little to read that a few extra seeks matter.
    Scene::Directory { files: 2000, bytes: 8 << 10 },
    Scene::Directory { files: 5000, bytes: 700 },
];

/// The disk that a scene lies on, and how it is mounted. The volume knows whether the disk has a head.
#[derive(Clone, Copy, Debug)]
pub struct Conditions<'a> {
    /// The disk.
    pub disk: &'a DiskParams,
    /// Memory for blocks and inodes, in bytes.
    pub cache_bytes: u64,
}

impl<'a> Conditions<'a> {
    /// A disk, with memory for all blocks of a scene.
    #[must_use]
    pub fn of(disk: &'a DiskParams) -> Self {
        Self { disk, cache_bytes: 256 << 20 }
    }
}

/// One read of everything, in order.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Reading {
    /// How long it took, in milliseconds of virtual time.
    #[serde(rename = "read_ms")]
    pub ms: f64,
    /// Seeks that it took.
    pub seeks: u64,
    /// Read requests.
    pub requests: u64,
    /// Bytes that came from the disk, including metadata and useless read-ahead.
    #[serde(rename = "read_bytes")]
    pub bytes: u64,
}

/// The result.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The scene.
    pub scene: Scene,
    /// As first written. For logs: one file of that size, written at once.
    pub first: Reading,
    /// Scattered.
    pub scattered: Reading,
    /// After idle time.
    pub coalesced: Reading,
    /// How long the disk was busy in idle time, in milliseconds.
    pub idle_busy_ms: f64,
    /// Bytes read in idle time.
    pub idle_read_bytes: u64,
    /// Bytes written in idle time, to the log and in checkpoints.
    pub idle_write_bytes: u64,
    /// Bytes that were put in order.
    pub moved_bytes: u64,
    /// Bytes put in order in an hour of idle time after the last read: data in order stays as it is.
    pub moved_again_bytes: u64,
}

/// Bytes overwritten between two fsyncs.
const SYNC_BYTES: u64 = 1 << 20;
/// Idle time before the last reading, in seconds.
const IDLE_S: u64 = 300;
/// Idle time after it, in seconds.
const HOUR_S: u64 = 3600;

/// Carries a scene out on a disk.
///
/// # Errors
/// The scene does not fit a volume, or content came back wrong.
pub fn run(scene: Scene, conditions: Conditions<'_>, seed: u64) -> Result<Row, LabError> {
    let mut bench = Bench::new(scene_bytes(scene), conditions)?;
    write_in_order(&mut bench, scene)?;
    let first = bench.read_cold()?;
    scatter(&mut bench, scene, seed)?;
    let scattered = bench.read_cold()?;
    let (before, idle) = (bench.moved_bytes()?, bench.idle(IDLE_S)?);
    let moved_bytes = bench.moved_bytes()? - before;
    let coalesced = bench.read_cold()?;
    let before = bench.moved_bytes()?;
    bench.idle(HOUR_S)?;
    let moved_again_bytes = bench.moved_bytes()? - before;
    Ok(Row {
        scene,
        first,
        scattered,
        coalesced,
        idle_busy_ms: idle.busy_ns as f64 / 1e6,
        idle_read_bytes: idle.asked.read_bytes,
        idle_write_bytes: idle.asked.write_bytes,
        moved_bytes,
        moved_again_bytes,
    })
}

fn scene_bytes(scene: Scene) -> u64 {
    match scene {
        Scene::File { bytes, .. } => bytes,
        Scene::Directory { files, bytes } | Scene::Logs { files, bytes, .. } => files.saturating_mul(bytes),
    }
}

fn write_in_order(bench: &mut Bench, scene: Scene) -> Result<(), LabError> {
    let (files, bytes) = match scene {
        Scene::File { bytes, .. } => (1, bytes),
        Scene::Directory { files, bytes } | Scene::Logs { files, bytes, .. } => (files, bytes),
    };
    for file in 0..files {
        bench.create(file)?;
        bench.write(file, 0, bytes)?;
    }
    bench.sync()
}

fn scatter(bench: &mut Bench, scene: Scene, seed: u64) -> Result<(), LabError> {
    match scene {
        Scene::File { bytes, piece_bytes, share_percent } => {
            let pieces = bytes / piece_bytes;
            let mut order: Vec<u64> = (0..pieces).collect();
            order.shuffle(&mut seeded(seed, "pieces"));
            order.truncate((pieces * share_percent / 100) as usize);
            for (done, piece) in (1..).zip(order) {
                bench.write(0, piece * piece_bytes, piece_bytes)?;
                bench.sync_now_and_then(done * piece_bytes, piece_bytes)?;
            }
        }
        Scene::Directory { files, bytes } => {
            let mut order: Vec<u64> = (0..files).collect();
            order.shuffle(&mut seeded(seed, "files"));
            for (done, file) in (1..).zip(order) {
                bench.truncate(file)?;
                bench.write(file, 0, bytes)?;
                bench.sync_now_and_then(done * bytes, bytes)?;
            }
        }
        Scene::Logs { files, bytes, piece_bytes } => {
            (0..files).try_for_each(|file| bench.truncate(file))?;
            for piece in 0..bytes / piece_bytes {
                (0..files).try_for_each(|file| bench.write(file, piece * piece_bytes, piece_bytes))?;
                bench.sync()?;
            }
        }
    }
    bench.sync()
}

#[cfg(test)]
mod tests;
