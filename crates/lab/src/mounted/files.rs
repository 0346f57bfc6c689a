//! Small files, a large file, and files by their size.

use super::{Measured, Place, expect, forget};
use crate::error::LabError;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const DIRECTORY_FILES: u64 = 100;

fn write_file(path: &Path, content: &[u8]) -> Result<(), LabError> {
    std::fs::write(path, content).map_err(LabError::io("write", path))
}

fn read_file(path: &Path) -> Result<Vec<u8>, LabError> {
    std::fs::read(path).map_err(LabError::io("read", path))
}

fn content(bytes: u64, fill: u8) -> Vec<u8> {
    (0..bytes).map(|at| fill ^ (at >> 3) as u8).collect()
}

/// Paths of so many files, 100 in a directory; the directories are made.
fn paths(place: &Place<'_>, kind: &str, count: u64) -> Result<Vec<PathBuf>, LabError> {
    let mut paths = Vec::new();
    for number in 0..count {
        let directory = place.path(format!("{kind}-{}", number / DIRECTORY_FILES));
        if number % DIRECTORY_FILES == 0 {
            std::fs::create_dir(&directory).map_err(LabError::io("create", &directory))?;
        }
        paths.push(directory.join(format!("file{number:06}")));
    }
    Ok(paths)
}

/// The four phases on files of one size.
fn phases(
    place: &Place<'_>,
    name: &str,
    bytes: u64,
    count: u64,
    overwrites: bool,
) -> Result<Vec<Measured>, LabError> {
    let paths = paths(place, name, count)?;
    let (first, second) = (content(bytes, 7), content(bytes, 9));
    let label = |phase: &str| if name == "small" { phase.to_owned() } else { format!("{phase} {name}") };
    let write = |content: &[u8]| {
        paths.iter().try_for_each(|path| write_file(path, content))?;
        Ok(count)
    };
    let mut all = vec![place.time_durable(label("create"), || write(&first))?];
    paths.iter().try_for_each(|path| forget(path))?;
    all.push(place.time(label("read"), || {
        for path in &paths {
            expect(path, &read_file(path)?, &first)?;
        }
        Ok(count)
    })?);
    if overwrites {
        all.push(place.time_durable(label("overwrite"), || {
            for path in &paths {
                let file = OpenOptions::new().write(true).open(path).map_err(LabError::io("open", path))?;
                file.write_all_at(&second, 0).map_err(LabError::io("write", path))?;
            }
            Ok(count)
        })?);
    }
    all.push(place.time_durable(label("delete"), || {
        for path in &paths {
            std::fs::remove_file(path).map_err(LabError::io("delete", path))?;
        }
        Ok(count)
    })?);
    Ok(all)
}

/// Files of 1 KB.
pub(super) fn small(place: &Place<'_>) -> Result<Vec<Measured>, LabError> {
    phases(place, "small", 1024, place.amount(10_000, 100), false)
}

/// Files of 4 KB to 4 MB, 32 MB or ten files of each size.
pub(super) fn by_size(place: &Place<'_>) -> Result<Vec<Measured>, LabError> {
    let mut all = Vec::new();
    for kib in [4u64, 16, 64, 256, 1024, 4096] {
        let count = place.amount((32 << 10) / kib, 2);
        all.extend(phases(place, &format!("{kib}K"), kib << 10, count, true)?);
    }
    Ok(all)
}

const UNIT_BYTES: usize = 8 << 10;

/// A file in units of 8 KB.
pub(super) fn large(place: &Place<'_>) -> Result<Vec<Measured>, LabError> {
    let path = place.path("large");
    let units = place.amount((100 << 20) / UNIT_BYTES as u64, 64);
    let mut order: Vec<u64> = (0..units).collect();
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(1);
    let file = File::options().create(true).read(true).write(true).truncate(true).open(&path);
    let file = file.map_err(LabError::io("create", &path))?;
    // Each unit says which it is, and in which pass it was written.
    let unit = |number: u64, pass: u64| {
        let mut unit = vec![pass as u8; UNIT_BYTES];
        unit[..8].copy_from_slice(&number.to_le_bytes());
        unit
    };
    let write = |order: &[u64], pass: u64| {
        for &number in order {
            let at = number * UNIT_BYTES as u64;
            file.write_all_at(&unit(number, pass), at).map_err(LabError::io("write", &path))?;
        }
        file.sync_all().map_err(LabError::io("sync", &path))?;
        Ok(units)
    };
    let read = |order: &[u64], pass: u64| {
        let mut found = vec![0; UNIT_BYTES];
        for &number in order {
            file.read_exact_at(&mut found, number * UNIT_BYTES as u64)
                .map_err(LabError::io("read", &path))?;
            expect(&path, &found, &unit(number, pass))?;
        }
        Ok(units)
    };
    let in_order = order.clone();
    let mut all = vec![place.time("write in order", || write(&in_order, 1))?];
    forget(&path)?;
    all.push(place.time("read in order", || read(&in_order, 1))?);
    order.shuffle(&mut rng);
    all.push(place.time("write at random", || write(&order, 2))?);
    forget(&path)?;
    let at_random: Vec<u64> = (0..units).map(|_| rng.random_range(0..units)).collect();
    all.push(place.time("read at random", || read(&at_random, 2))?);
    forget(&path)?;
    all.push(place.time("reread in order", || read(&in_order, 2))?);
    Ok(all)
}
