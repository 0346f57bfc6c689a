//! A volume on a memory device, through the blocking driver.

use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{Device, FileDevice, FileOptions, MemDevice};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{format, open};
use firnfs_sim::VirtualClock;
use firnfs_volume::{Missing, Volume, attempt, never_waiting};
use std::collections::HashMap;
use std::sync::Arc;

const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0o022 };

fn mkfs_options(size_bytes: u64) -> MkfsOptions {
    MkfsOptions {
        size_bytes,
        block_bytes: 4096,
        segment_bytes: 256 << 10,
        physical_block_bytes: 4096,
        inline_max_bytes: 2048,
        label: "test".to_owned(),
        uuid: [7; 16],
        hash_key: [1, 2],
        now: TimeNs(1_000_000_000),
        root_owner: (0, 0),
    }
}

fn mount(device: &Arc<dyn Device>, options: Options) -> Volume<Lfs> {
    let clock = Arc::new(VirtualClock::at(2_000_000_000));
    open(device.clone(), options, AtimeMode::Noatime, clock).unwrap()
}

fn create(volume: &Volume<Lfs>, parent: InodeNo, name: &str, kind: Kind) -> InodeNo {
    let node = NewNode { kind, mode: 0o755, rdev: 0, target: b"" };
    volume.run(|vfs, now| vfs.make(now, CALLER, parent, name.as_bytes(), node, false)).unwrap().ino
}

fn find(volume: &Volume<Lfs>, parent: InodeNo, name: &str) -> Option<InodeNo> {
    volume.run(|vfs, now| vfs.lookup(now, parent, name.as_bytes(), false)).ok().map(|a| a.ino)
}

fn content(volume: &Volume<Lfs>, ino: InodeNo) -> Vec<u8> {
    let size = volume.run(|vfs, _| vfs.getattr(ino)).unwrap().size_bytes;
    let mut out = vec![0; size as usize];
    let mut done = 0;
    while done < out.len() {
        done += volume.read(ino, done as u64, &mut out[done..]).unwrap();
    }
    out
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len).map(|i| (seed.wrapping_mul(31).wrapping_add(i as u64 * 7) >> 2) as u8).collect()
}

#[test]
fn written_data_is_there_after_a_clean_unmount_and_after_a_crash() {
    let device: Arc<dyn Device> = Arc::new(MemDevice::new(64 << 20));
    format(&*device, &mkfs_options(64 << 20)).unwrap();
    let sizes = [0usize, 1, 1000, 2048, 2049, 4096, 5000, 60_000, 3_000_000];
    for round in 0..3u64 {
        let volume = mount(&device, Options::default());
        let dir = create(&volume, InodeNo::ROOT, &format!("round{round}"), Kind::Directory);
        for (n, &size) in sizes.iter().enumerate() {
            let ino = create(&volume, dir, &format!("file{n}"), Kind::Regular);
            volume.write(ino, 0, &pattern(round + n as u64, size), false).unwrap();
        }
        if round % 2 == 0 {
            volume.close().unwrap();
        } else {
            volume.sync(Scope::All).unwrap();
        }
        drop(volume);
        let volume = mount(&device, Options::default());
        assert_eq!(volume.run(|vfs, _| Ok(vfs.store().recovered().was_clean)).unwrap(), round % 2 == 0);
        for round in 0..=round {
            let dir = find(&volume, InodeNo::ROOT, &format!("round{round}")).unwrap();
            for (n, &size) in sizes.iter().enumerate() {
                let ino = find(&volume, dir, &format!("file{n}")).unwrap();
                assert!(content(&volume, ino) == pattern(round + n as u64, size), "round {round} file {n}");
            }
        }
    }
}

/// The caller hands all of it to a thread that may wait. A part would be a short write that no program asked for.
#[test]
fn a_write_that_would_wait_after_a_part_is_done_as_a_whole_by_who_may_wait() {
    let device: Arc<dyn Device> = Arc::new(MemDevice::new(64 << 20));
    format(&*device, &mkfs_options(64 << 20)).unwrap();
    let volume = mount(&device, Options::default());
    let ino = create(&volume, InodeNo::ROOT, "file", Kind::Regular);
    let before = pattern(1, 3_000_000);
    volume.write_all(ino, 0, &before, false).unwrap();
    volume.close().unwrap();
    drop(volume);
    let volume = mount(&device, Options::default());
    // The first operation takes a MiB of whole blocks, for which this read brings the map. The rest is less than a block, whose old content is needed.
    volume.read(ino, 2 << 20, &mut [0; 1]).unwrap();
    let new = pattern(2, (1 << 20) + 100);
    let write = || volume.write(ino, 0, &new, false);
    assert_eq!(never_waiting(write), Err(FsError::WouldWait));
    assert_eq!(write(), Ok(new.len()));
    let mut expected = before;
    expected[..new.len()].copy_from_slice(&new);
    assert!(content(&volume, ino) == expected);
}

/// What a thread that may not wait does with an image file: it has what is missing read, and tries again, each time a little further.
#[test]
fn operations_on_a_cold_volume_end_without_waiting_once_what_they_missed_has_been_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let device: Arc<dyn Device> =
        Arc::new(FileDevice::create(&path, 64 << 20, &FileOptions::default()).unwrap());
    let Some(mut reads) = device.own_reads() else {
        eprintln!("SKIPPED: NOT TESTED: no io_uring here");
        return;
    };
    format(&*device, &mkfs_options(64 << 20)).unwrap();
    let volume = mount(&device, Options::default());
    let names = |n: u64| format!("file {n}");
    for n in 0..200 {
        let ino = create(&volume, InodeNo::ROOT, &names(n), Kind::Regular);
        volume.write_all(ino, 0, &pattern(n, 100_000), false).unwrap();
    }
    volume.close().unwrap();
    drop(volume);
    let volume = mount(&device, Options { cache_file_data: false, ..Options::default() });
    let mut attempts = 0;
    for n in (0..200).rev() {
        let mut landed = Vec::new();
        let mut read = vec![0; 30_000];
        loop {
            let operation = || {
                let name = names(n);
                let found = volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, name.as_bytes(), false))?;
                let ino = found.ino;
                volume.read(ino, 1000 * (n % 50), &mut read)
            };
            let (done, missing) = attempt(&landed, operation);
            attempts += 1;
            match done {
                Ok(len) => break assert_eq!(len, read.len()),
                Err(why) => assert!(why == FsError::WouldWait && !missing.is_empty(), "{why}, file {n}"),
            }
            let ranges: Vec<_> = missing.iter().map(Missing::range).collect();
            let started = reads.start(&ranges);
            let mut answers = HashMap::new();
            while answers.len() < started.len() {
                answers.extend(reads.landed());
            }
            for (name, missing) in started.iter().zip(&missing) {
                landed.extend(volume.landed(missing, answers.remove(name).unwrap()));
            }
        }
        let from = 1000 * (n as usize % 50);
        assert!(read == pattern(n, 100_000)[from..from + 30_000], "file {n}");
    }
    assert!(attempts > 400, "{attempts}: they had to read");
}

#[test]
fn a_volume_at_80_percent_is_overwritten_ten_times() {
    let size = 32 << 20;
    let device: Arc<dyn Device> = Arc::new(MemDevice::new(size));
    format(&*device, &mkfs_options(size)).unwrap();
    let options = Options { write_threshold_bytes: 1 << 20, ..Options::default() };
    let volume = mount(&device, options);
    let space = volume.run(|vfs, _| Ok(vfs.statfs())).unwrap();
    let file_bytes = 40_000;
    let files = (space.total_bytes * 8 / 10 / 43_000) as usize;
    let inodes: Vec<_> =
        (0..files).map(|n| create(&volume, InodeNo::ROOT, &format!("f{n}"), Kind::Regular)).collect();
    let mut seeds = vec![0u64; files];
    let mut state = 12345u64;
    for step in 0..files * 10 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let n = if step < files { step } else { (state >> 33) as usize % files };
        seeds[n] = state;
        volume.write(inodes[n], 0, &pattern(state, file_bytes), false).unwrap();
    }
    for (n, ino) in inodes.iter().enumerate() {
        assert!(content(&volume, *ino) == pattern(seeds[n], file_bytes), "file {n}");
    }
    volume.close().unwrap();
    drop(volume);
    let volume = mount(&device, options);
    for (n, ino) in inodes.iter().enumerate() {
        assert!(content(&volume, *ino) == pattern(seeds[n], file_bytes), "file {n} after remount");
    }
}
