//! The months of a server on the real Fast File System, snapshots of it, and the tests on volumes with its free space.

use super::free_map::{FreeMap, TENTHS};
use super::servers::Server;
use super::{DATES, SIZES_KIB};
use crate::age::layout::{Layout, Score};
use crate::age::replay::By;
use crate::age::snapshot::Snapshot;
use crate::age::take::image;
use crate::error::LabError;
use crate::hardware::comparison::{Files, create_and_read};
use crate::hardware::lived::{failed, live_through, look_at_empty};
use crate::hardware::rig::Rig;
use crate::hardware::{FastLayout, Profile, Setup, StoreKind, find_disk, find_machine};
use firnfs::ffs::{Ffs, Variant};
use firnfs_volume::Volume;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Data that is written in files of one size; less where less is free (USENIX'95, section 3).
const DATA_BYTES: u64 = 32 * MIB;
/// Files in a directory (section 5.3).
const PER_DIRECTORY: u64 = 25;
const CACHE_BYTES: u64 = 16 << 20;
/// The paper does not say it. With the usual 10% the fullest file systems would have no room for the tests.
const MINFREE_PERCENT: u32 = 5;

/// Files of one size, on a volume with the free space of one date.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(in crate::hardware) struct Test {
    /// Files created a second, over those on an empty volume.
    pub create: f64,
    /// The same of files read.
    pub read: f64,
}

/// What became of a file system.
#[derive(Clone, PartialEq, Debug, Default)]
pub(in crate::hardware) struct Aged {
    /// For each date the share of the space for data that files have.
    pub full: [f64; DATES],
    /// For each date and each size of [`SIZES_KIB`].
    pub tests: [[Test; SIZES_KIB.len()]; DATES],
    /// On the last date, by size of the file rounded up to whole blocks, in bytes, a power of two: blocks that lie behind the one before.
    pub scores: Vec<(u64, Score)>,
    /// On the last date, for each tenth of the groups: the share of blocks that are free, and of those that lie in clusters.
    pub by_position: [(f64, f64); TENTHS],
}

/// Ages a file system and runs the tests. `shrink` divides its size, its numbers of groups and directories, and the data of the tests.
///
/// # Errors
/// A volume cannot be made, or the file system failed.
pub(in crate::hardware) fn run(server: &Server, shrink: u64, seed: u64) -> Result<Aged, LabError> {
    let server = &server.shrunk(shrink);
    let setup = setup(server)?;
    let dates = age(server, &setup, seed)?;
    let mut aged = Aged::default();
    for (date, (map, _)) in dates.iter().enumerate() {
        aged.full[date] = map.full();
        for (test, kib) in aged.tests[date].iter_mut().zip(SIZES_KIB) {
            let files = files(kib * KIB, (DATA_BYTES / shrink).min(map.usable_bytes(MINFREE_PERCENT) / 2));
            let [create, read] = create_and_read(&Rig::around(&setup, &|frag| map.is_taken(frag))?, &files)?;
            let [empty_create, empty_read] = create_and_read(&Rig::new(&setup)?, &files)?;
            *test = Test { create: create / empty_create, read: read / empty_read };
        }
    }
    if let Some((map, snapshot)) = dates.last() {
        aged.scores =
            Layout::of(snapshot).by_size.iter().map(|(&bytes, class)| (bytes, class.score)).collect();
        aged.by_position = map.by_position();
    }
    Ok(aged)
}

fn files(file_bytes: u64, data_bytes: u64) -> Files {
    Files { file_bytes, count: (data_bytes / file_bytes).max(1), per_directory: PER_DIRECTORY }
}

/// The machine and disk of table 5; `maxcontig` 7 and `rotdelay` 0, as the file systems had.
fn setup(server: &Server) -> Result<Setup, LabError> {
    let fast = FastLayout {
        gap_blocks: Some(0),
        cluster_blocks: Some(7),
        group_bytes: Some(server.group_mib * MIB),
        bytes_per_inode: server.bytes_per_inode,
        minfree_percent: MINFREE_PERCENT,
        ..FastLayout::of_blocks(8192)
    };
    Ok(Setup {
        cpu: find_machine("sparcstation1")?,
        disk: find_disk("m2694")?,
        store: StoreKind::Fast(Variant::M8R0),
        fast,
        cache_bytes: CACHE_BYTES,
        size_max_bytes: server.size_mib * MIB,
        ..Setup::usenix_95(Profile::Of1993)?
    })
}

/// Carries out the server's months, and returns what is free and where files lie on each date.
fn age(server: &Server, setup: &Setup, seed: u64) -> Result<Vec<(FreeMap, Snapshot)>, LabError> {
    let free_map = |volume: &Volume<Ffs>| FreeMap::of(volume).map_err(failed("read the volume"));
    let data_bytes = look_at_empty(setup, |volume| Ok(free_map(volume)?.usable_bytes(0)))?;
    let months = server.months(data_bytes, seed)?;
    let mut dates = Vec::new();
    live_through(setup, By::Directory, &months.workload, &months.dates_ns, &mut |volume| {
        // The last date may be the end.
        if dates.len() < DATES {
            dates.push((free_map(volume)?, image(volume, &mut |_| Ok(()))?));
        }
        Ok(())
    })?;
    Ok(dates)
}

#[cfg(test)]
mod tests {
    use super::super::servers::SERVERS;
    use super::*;

    #[test]
    fn the_smallest_server_lives_and_is_tested_at_an_eighth_of_its_size() {
        let server = SERVERS.iter().min_by_key(|server| server.size_mib).unwrap();
        let aged = run(server, 8, 1).unwrap();
        for (full, wanted) in aged.full.iter().zip(server.full) {
            assert!((full - wanted).abs() < 0.05, "{full} instead of {wanted}");
        }
        assert!(
            aged.tests.as_flattened().iter().all(|test| test.create > 0.3 && test.read > 0.3),
            "{aged:?}"
        );
    }
}
