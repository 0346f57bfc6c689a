//! Two workloads of mail servers: as PostMark (no fsyncs), and as Filebench's varmail (an fsync after each delivery).

use super::{Measured, Place};
use crate::error::LabError;
use rand::{RngExt, SeedableRng};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A pool of files with the size that each has to have.
struct Pool<'a> {
    place: &'a Place<'a>,
    rng: rand_pcg::Pcg64Mcg,
    files: Vec<(PathBuf, u64)>,
    made: u64,
}

impl<'a> Pool<'a> {
    fn new(place: &'a Place<'a>) -> Self {
        Self { place, rng: rand_pcg::Pcg64Mcg::seed_from_u64(1), files: Vec::new(), made: 0 }
    }

    /// 512 bytes to 10 KB.
    fn letter(&mut self) -> Vec<u8> {
        vec![b'm'; self.rng.random_range(512..=10_240)]
    }

    fn make(&mut self, durable: bool) -> Result<(), LabError> {
        let path = self.place.path(format!("mail{:06}", self.made));
        self.made += 1;
        let letter = self.letter();
        let mut file = File::create_new(&path).map_err(LabError::io("create", &path))?;
        deliver(&mut file, &path, &letter, durable)?;
        self.files.push((path, letter.len() as u64));
        Ok(())
    }

    fn any(&mut self) -> usize {
        self.rng.random_range(0..self.files.len())
    }

    fn delete(&mut self) -> Result<(), LabError> {
        let any = self.any();
        let (path, _) = self.files.swap_remove(any);
        std::fs::remove_file(&path).map_err(LabError::io("delete", &path))
    }

    fn read(&mut self) -> Result<usize, LabError> {
        let any = self.any();
        let (path, size_bytes) = &self.files[any];
        let found = std::fs::read(path).map_err(LabError::io("read", path))?;
        match found.len() as u64 == *size_bytes && found.iter().all(|byte| *byte == b'm') {
            true => Ok(any),
            false => Err(LabError::WrongData { path: path.clone(), at_bytes: found.len() as u64 }),
        }
    }

    fn append(&mut self, any: usize, durable: bool) -> Result<(), LabError> {
        let letter = self.letter();
        let (path, size_bytes) = &mut self.files[any];
        let mut file = OpenOptions::new().append(true).open(&path).map_err(LabError::io("open", path))?;
        *size_bytes += letter.len() as u64;
        deliver(&mut file, path, &letter, durable)
    }
}

fn deliver(file: &mut File, path: &Path, letter: &[u8], durable: bool) -> Result<(), LabError> {
    file.write_all(letter).map_err(LabError::io("write", path))?;
    if durable { file.sync_all().map_err(LabError::io("sync", path)) } else { Ok(()) }
}

/// A pool is made; each transaction creates or deletes a file, and reads one or appends to one; all files are deleted.
pub(super) fn postmark(place: &Place<'_>) -> Result<Vec<Measured>, LabError> {
    let (files, transactions) = (place.amount(5_000, 50), place.amount(10_000, 100));
    let mut pool = Pool::new(place);
    let create = place.time_durable("create", || {
        (0..files).try_for_each(|_| pool.make(false))?;
        Ok(files)
    })?;
    let transact = place.time_durable("transactions", || {
        for _ in 0..transactions {
            if pool.rng.random_bool(0.5) || pool.files.len() < 2 {
                pool.make(false)?
            } else {
                pool.delete()?
            }
            if pool.rng.random_bool(0.5) {
                pool.read()?;
            } else {
                let any = pool.any();
                pool.append(any, false)?;
            }
        }
        Ok(transactions)
    })?;
    let left = pool.files.len() as u64;
    let delete = place.time_durable("delete", || {
        (0..left).try_for_each(|_| pool.delete())?;
        Ok(left)
    })?;
    Ok(vec![create, transact, delete])
}

/// Each turn deletes a letter, delivers one durably, reads one and appends to it durably, and reads another.
pub(super) fn varmail(place: &Place<'_>) -> Result<Vec<Measured>, LabError> {
    let (files, turns) = (place.amount(1_000, 20), place.amount(1_000, 20));
    let mut pool = Pool::new(place);
    (0..files).try_for_each(|_| pool.make(false))?;
    place.target.sync()?;
    let measured = place.time("turns", || {
        for _ in 0..turns {
            pool.delete()?;
            pool.make(true)?;
            let any = pool.read()?;
            pool.append(any, true)?;
            pool.read()?;
            place.stop.check()?;
        }
        Ok(turns)
    })?;
    Ok(vec![measured])
}
