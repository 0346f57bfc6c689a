//! Runs a workload on a mounted file system: times each operation, makes what was written durable as the workload's time passes,
//! and cuts the file system's life into stages of as many records each.
//!
//! Caller: `compare`, which examines the file system between two stages.

use super::disk::Disk;
use crate::age::replay::{Fault, Posix, Spot, Target};
use crate::error::LabError;
use firnfs_volume::Latency;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Instant;

/// How the operations of a stage went.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Pace {
    /// Operations: each create, write of a file, truncate, rename and delete.
    pub file_operations: u64,
    /// Their time with the syncs, in milliseconds.
    pub elapsed_ms: f64,
    /// Syncs.
    pub syncs: u64,
    /// The time of the syncs, in milliseconds.
    pub sync_ms: f64,
    /// Half of all operations took no longer, in milliseconds.
    pub p50_ms: f64,
    /// 99% of all operations took no longer, in milliseconds.
    pub p99_ms: f64,
    /// Bytes that were written to the disk.
    pub disk_bytes: u64,
}

/// What the caller does between two stages, with the file system synced and nothing open.
pub(super) type Look<'a> = dyn FnMut(&mut Disk<'_>, Pace) -> Result<(), LabError> + 'a;

/// See the module's head.
pub(super) struct Life<'a, 'd> {
    posix: Posix,
    disk: &'a mut Disk<'d>,
    look: &'a mut Look<'a>,
    /// Records of each stage.
    stage_records: u64,
    records: u64,
    sync_every_ns: i64,
    synced_at_ns: Option<i64>,
    latency: Latency,
    pace: Pace,
    /// Bytes on the disk's counter when the stage began.
    written_before: u64,
}

impl<'a, 'd> Life<'a, 'd> {
    pub fn new(
        posix: Posix,
        disk: &'a mut Disk<'d>,
        stage_records: u64,
        sync_every_ns: i64,
        look: &'a mut Look<'a>,
    ) -> Result<Self, LabError> {
        let written_before = disk.written_bytes()?;
        Ok(Self {
            posix,
            disk,
            look,
            stage_records: stage_records.max(1),
            records: 0,
            sync_every_ns,
            synced_at_ns: None,
            latency: Latency::default(),
            pace: Pace::default(),
            written_before,
        })
    }

    fn timed<T>(&mut self, call: impl FnOnce(&mut Posix) -> Result<T, Fault>) -> Result<T, Fault> {
        let began = Instant::now();
        let done = call(&mut self.posix);
        let ns = began.elapsed().as_nanos() as u64;
        self.latency.record(ns);
        self.pace.file_operations += 1;
        self.pace.elapsed_ms += ns as f64 / 1e6;
        done
    }

    fn sync(&mut self) -> Result<(), LabError> {
        let began = Instant::now();
        self.disk.sync()?;
        let ms = began.elapsed().as_secs_f64() * 1e3;
        self.pace.syncs += 1;
        self.pace.sync_ms += ms;
        self.pace.elapsed_ms += ms;
        Ok(())
    }

    /// Ends a stage; the last one may be shorter.
    ///
    /// # Errors
    /// The file system cannot be synced, or the caller's.
    pub fn end_stage(&mut self) -> Result<(), LabError> {
        self.posix.let_go();
        self.sync()?;
        let quantile_ms = |part| self.latency.quantile_ns(part).unwrap_or(0) as f64 / 1e6;
        (self.pace.p50_ms, self.pace.p99_ms) = (quantile_ms(0.5), quantile_ms(0.99));
        self.pace.disk_bytes = self.disk.written_bytes()? - self.written_before;
        (self.look)(self.disk, self.pace)?;
        (self.latency, self.pace, self.records) = (Latency::default(), Pace::default(), 0);
        self.written_before = self.disk.written_bytes()?;
        Ok(())
    }

    /// True if nothing was done since the last stage.
    pub fn is_at_end_of_stage(&self) -> bool {
        self.records == 0
    }
}

impl Target for Life<'_, '_> {
    fn at(&mut self, time_ns: i64) -> Result<(), LabError> {
        if self.records == self.stage_records {
            self.end_stage()?;
        }
        self.records += 1;
        if time_ns - *self.synced_at_ns.get_or_insert(time_ns) >= self.sync_every_ns {
            self.synced_at_ns = Some(time_ns);
            self.sync()?;
        }
        Ok(())
    }

    fn mkdir(&mut self, dir: &str) -> Result<(), Fault> {
        self.timed(|posix| posix.mkdir(dir))
    }

    fn rmdir(&mut self, dir: &str) -> Result<(), Fault> {
        self.timed(|posix| posix.rmdir(dir))
    }

    fn create(&mut self, spot: &Spot) -> Result<(), Fault> {
        self.timed(|posix| posix.create(spot))
    }

    fn write(&mut self, spot: &Spot, at_bytes: u64, len_bytes: u64) -> Result<(), Fault> {
        self.timed(|posix| posix.write(spot, at_bytes, len_bytes))
    }

    fn truncate(&mut self, spot: &Spot, size_bytes: u64) -> Result<(), Fault> {
        self.timed(|posix| posix.truncate(spot, size_bytes))
    }

    fn chmod(&mut self, spot: &Spot, mode: u32) -> Result<(), Fault> {
        self.timed(|posix| posix.chmod(spot, mode))
    }

    fn rename(&mut self, from: &Spot, to: &Spot) -> Result<(), Fault> {
        self.timed(|posix| posix.rename(from, to))
    }

    fn unlink(&mut self, spot: &Spot) -> Result<(), Fault> {
        self.timed(|posix| posix.unlink(spot))
    }

    fn close(&mut self, spot: &Spot) -> Result<(), Fault> {
        self.timed(|posix| posix.close(spot))
    }

    fn list(&mut self) -> Result<BTreeMap<String, Option<u64>>, LabError> {
        self.posix.list()
    }

    fn load(&mut self, name: &str) -> Result<Option<Vec<u8>>, LabError> {
        self.posix.load(name)
    }

    fn save(&mut self, name: &str, content: Option<&[u8]>) -> Result<(), LabError> {
        self.posix.save(name, content)
    }
}
