//! `FileDevice` on real files: reads return what was written, locks exclude, errors name the damage.

use firnfs_device::{
    Access, AlignedBuf, DeepReads, Device, DirectIo, FailureKind, FileDevice, FileOptions, Lock, OpenError,
    Pieces, ReadOnlyDevice, Request,
};
use std::io::IoSliceMut;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

fn scratch() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    (dir, path)
}

fn filled(byte: u8, len: usize) -> Arc<AlignedBuf> {
    Arc::new(AlignedBuf::copy_of(&vec![byte; len]))
}

#[test]
fn written_bytes_are_there_after_reopening_with_and_without_direct_io() {
    for (first, second) in [(DirectIo::Prefer, DirectIo::Never), (DirectIo::Never, DirectIo::Prefer)] {
        let (_dir, path) = scratch();
        let options = FileOptions { direct: first, ..FileOptions::default() };
        let device = FileDevice::create(&path, 64 * MIB, &options).unwrap();
        assert_eq!(device.geometry().size_bytes, 64 * MIB);
        device.write(63 * MIB, filled(0xa5, MIB as usize)).unwrap();
        device.write(8192, filled(0x5a, 4096)).unwrap();
        device.flush().unwrap();
        drop(device);

        let device =
            FileDevice::open(&path, &FileOptions { direct: second, ..FileOptions::default() }).unwrap();
        assert_eq!(&*device.read(63 * MIB, MIB as u32).unwrap(), &vec![0xa5; MIB as usize][..]);
        assert_eq!(&*device.read(8192, 4096).unwrap(), &[0x5a; 4096]);
        assert_eq!(&*device.read(4096, 4096).unwrap(), &[0; 4096]);
        let used_bytes = std::fs::metadata(&path).unwrap().blocks() * 512;
        assert!(used_bytes < 4 * MIB, "a new image is sparse, this one takes {used_bytes} bytes");
    }
}

#[test]
fn overlapping_writes_all_land_whatever_the_number_of_threads() {
    for writer_threads in [0, 1, 2, 5] {
        let (_dir, path) = scratch();
        let options = FileOptions { writer_threads, ..FileOptions::default() };
        let device = FileDevice::create(&path, 32 * MIB, &options).unwrap();
        let tags: Vec<_> = (0..128u64)
            .map(|i| {
                let data = filled(i as u8 + 1, 256 << 10);
                device.submit(Request::Write { at_bytes: i * (256 << 10), data: data.into() })
            })
            .collect();
        // In reverse order of submission, so that this thread takes some of them over.
        for tag in tags.into_iter().rev() {
            assert!(device.wait(tag).unwrap().is_none());
        }
        device.flush().unwrap();
        for i in 0..128u64 {
            let bytes = device.read(i * (256 << 10), 256 << 10).unwrap();
            assert!(bytes.iter().all(|&b| b == i as u8 + 1), "write {i} with {writer_threads} threads");
        }
    }
}

#[test]
fn pieces_land_one_behind_the_other_however_many_and_wherever_they_begin() {
    for direct in [DirectIo::Prefer, DirectIo::Never] {
        let (_dir, path) = scratch();
        let options = FileOptions { direct, ..FileOptions::default() };
        let device = FileDevice::create(&path, 8 * MIB, &options).unwrap();
        let buffers: Vec<_> = (0..2500_u32).map(|n| filled((n % 251) as u8, 4096)).collect();
        // More than one call takes; on sectors and beside them, where O_DIRECT would refuse them.
        for (from, len, at_bytes) in [(512, 1024, MIB), (100, 512, 4 * MIB)] {
            let mut pieces = Pieces::default();
            buffers.iter().for_each(|buffer| pieces.push(buffer, from..from + len));
            let whole_bytes = len * buffers.len();
            let tag = device.submit(Request::Write { at_bytes, data: pieces.into() });
            device.wait(tag).unwrap();
            let found = device.read(at_bytes, whole_bytes as u32).unwrap();
            assert!((0..whole_bytes).all(|at| found[at] == buffers[at / len][0]), "{len} bytes from {from}");
            let around = (device.read(at_bytes - 512, 512), device.read(at_bytes + whole_bytes as u64, 512));
            assert!(around.0.unwrap().iter().chain(around.1.unwrap().iter()).all(|byte| *byte == 0));
        }
    }
}

#[test]
fn a_read_in_parts_fills_them_one_behind_the_other_wherever_they_lie_in_memory() {
    let (_dir, path) = scratch();
    let device = FileDevice::create(&path, 1 << 20, &FileOptions::default()).unwrap();
    let bytes: Vec<u8> = (0..64 << 10).map(|n: u32| (n / 512) as u8).collect();
    device.write(8192, Arc::new(AlignedBuf::copy_of(&bytes))).unwrap();
    let mut room = AlignedBuf::zeroed(80 << 10);
    // The first places suit O_DIRECT; a part of 700 bytes, or one that begins at an odd place, does not.
    for (skip, lens) in
        [(0, [4096, 512, 32 << 10]), (0, [700, 324, 4096]), (1, [512, 1024, 512]), (0, [0, 512, 0])]
    {
        room.fill(0);
        let mut rest = &mut room[skip..];
        let mut parts = Vec::new();
        for len in lens {
            let (part, behind) = rest.split_at_mut(len);
            parts.push(IoSliceMut::new(part));
            rest = behind;
        }
        device.read_parts(8192 + 1024, &mut parts).unwrap();
        let len: usize = lens.iter().sum();
        assert!(room[skip..skip + len] == bytes[1024..1024 + len], "{skip}, {lens:?}");
        assert!(room[skip + len..].iter().all(|&byte| byte == 0), "{skip}, {lens:?}: beyond the end");
    }
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(40 << 10).unwrap();
    let (first, second) = room.split_at_mut(32 << 10);
    let mut parts = [IoSliceMut::new(first), IoSliceMut::new(&mut second[..32 << 10])];
    let error = device.read_parts(0, &mut parts).unwrap_err().to_string();
    assert!(error.contains("the file ends at byte 40960: it was truncated"), "{error}");
    let beyond = device.read_parts((1 << 20) - 512, &mut [IoSliceMut::new(&mut room[..1024])]).unwrap_err();
    assert_eq!(beyond.kind, FailureKind::OutOfRange, "{beyond}");
}

#[test]
fn writes_that_are_not_waited_for_are_done_before_the_device_is_gone() {
    let (_dir, path) = scratch();
    let device = FileDevice::create(&path, 8 * MIB, &FileOptions::default()).unwrap();
    for i in 0..8 {
        device.submit(Request::Write { at_bytes: i * MIB, data: filled(9, MIB as usize).into() });
    }
    drop(device);
    assert!(std::fs::read(&path).unwrap().iter().all(|&b| b == 9));
}

#[test]
fn many_threads_read_and_write_their_own_places_at_the_same_time() {
    let (_dir, path) = scratch();
    let device = FileDevice::create(&path, 16 * MIB, &FileOptions::default()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let device = &device;
            scope.spawn(move || {
                for round in 0..50u64 {
                    let at_bytes = thread * 4 * MIB + (round % 16) * 4096;
                    let byte = (thread * 50 + round) as u8;
                    device.write(at_bytes, filled(byte, 4096)).unwrap();
                    assert_eq!(&*device.read(at_bytes, 4096).unwrap(), &[byte; 4096]);
                }
                device.flush().unwrap();
            });
        }
    });
}

#[test]
fn a_second_opener_is_refused_with_the_name_of_the_holder() {
    let (_dir, path) = scratch();
    let device = FileDevice::create(&path, MIB, &FileOptions::default()).unwrap();
    let error = FileDevice::open(&path, &FileOptions::default()).err().unwrap();
    let expected = format!("{}: in use by process {} (", path.display(), std::process::id());
    assert!(error.to_string().starts_with(&expected), "{error}");

    let look = FileOptions { access: Access::ReadOnly, lock: Lock::None, ..FileOptions::default() };
    FileDevice::open(&path, &look).unwrap();
    drop(device);
    FileDevice::open(&path, &FileOptions::default()).unwrap();
}

#[test]
fn a_lock_can_be_waited_for() {
    let (_dir, path) = scratch();
    let device = FileDevice::create(&path, MIB, &FileOptions::default()).unwrap();
    let brief = FileOptions { lock_wait_ms: 60, ..FileOptions::default() };
    let started = Instant::now();
    assert!(matches!(FileDevice::open(&path, &brief), Err(OpenError::InUse { .. })));
    assert!(started.elapsed() >= Duration::from_millis(60));

    let patient = FileOptions { lock_wait_ms: u64::MAX, ..FileOptions::default() };
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| FileDevice::open(&path, &patient).is_ok());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiter.is_finished());
        drop(device);
        assert!(waiter.join().unwrap());
    });
}

#[test]
fn shared_locks_exclude_writers_only() {
    let (_dir, path) = scratch();
    drop(FileDevice::create(&path, MIB, &FileOptions::default()).unwrap());
    let shared = FileOptions { access: Access::ReadOnly, lock: Lock::Shared, ..FileOptions::default() };
    let first = FileDevice::open(&path, &shared).unwrap();
    let second = FileDevice::open(&path, &shared).unwrap();
    assert!(matches!(FileDevice::open(&path, &FileOptions::default()), Err(OpenError::InUse { .. })));
    drop((first, second));
    FileDevice::open(&path, &FileOptions::default()).unwrap();
}

#[test]
fn reading_past_the_end_of_a_truncated_image_names_the_place() {
    let (_dir, path) = scratch();
    let device = FileDevice::create(&path, MIB, &FileOptions::default()).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(512 << 10).unwrap();
    device.read(0, 512 << 10).unwrap();
    let error = device.read((512 << 10) - 4096, 8192).unwrap_err();
    let expected = format!(
        "read of 8192 bytes at byte 520192 of {}: the file ends at byte 524288: it was truncated",
        path.display()
    );
    assert_eq!((error.to_string(), error.kind), (expected, FailureKind::Io));
    assert_eq!(device.read(MIB, 512).unwrap_err().kind, FailureKind::OutOfRange);
}

#[test]
fn a_device_opened_for_reading_refuses_to_change_anything() {
    let (_dir, path) = scratch();
    drop(FileDevice::create(&path, MIB, &FileOptions::default()).unwrap());
    let options = FileOptions { access: Access::ReadOnly, lock: Lock::Shared, ..FileOptions::default() };
    let device = FileDevice::open(&path, &options).unwrap();
    assert_eq!(device.write(0, filled(1, 4096)).unwrap_err().kind, FailureKind::ReadOnly);
    assert_eq!(device.discard(0, 4096).unwrap_err().kind, FailureKind::ReadOnly);
    device.flush().unwrap();
    assert_eq!(&*device.read(0, 4096).unwrap(), &[0; 4096]);
}

#[test]
fn discarded_ranges_read_as_zeros_and_free_their_blocks() {
    let (_dir, path) = scratch();
    let device = FileDevice::create(&path, 8 * MIB, &FileOptions::default()).unwrap();
    device.write(0, filled(1, 8 * MIB as usize)).unwrap();
    device.flush().unwrap();
    let before = std::fs::metadata(&path).unwrap().blocks();
    match device.discard(MIB, 4 * MIB) {
        Err(e) => assert_eq!(e.kind, FailureKind::Unsupported, "{e}"),
        Ok(()) => {
            assert!(device.read(MIB, 4 * MIB as u32).unwrap().iter().all(|&b| b == 0));
            assert!(device.read(5 * MIB, MIB as u32).unwrap().iter().all(|&b| b == 1));
            let after = std::fs::metadata(&path).unwrap().blocks();
            assert!(after < before, "{after} < {before}");
        }
    }
}

#[test]
fn a_path_that_cannot_hold_a_volume_is_refused_with_its_type() {
    let (dir, path) = scratch();
    let open = |path: &std::path::Path| FileDevice::open(path, &FileOptions::default()).err().unwrap();
    assert_eq!(open(&path), OpenError::NotFound(path.clone()));
    let text = format!("{}: is a directory, not an image file or a block device", dir.path().display());
    assert_eq!(open(dir.path()).to_string(), text);
    // Opening a FIFO would wait for a writer for ever.
    let fifo = dir.path().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert!(matches!(open(&fifo), OpenError::WrongType { found: "FIFO", .. }));
    assert!(matches!(open("/dev/null".as_ref()), OpenError::WrongType { found: "character device", .. }));
    std::fs::write(&path, b"precious").unwrap();
    let error = FileDevice::create(&path, MIB, &FileOptions::default()).err().unwrap();
    assert_eq!(error, OpenError::Exists(path.clone()));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[test]
fn an_image_is_resized_only_under_its_lock() {
    let (_dir, path) = scratch();
    let device = FileDevice::create(&path, MIB, &FileOptions::default()).unwrap();
    let grow = FileOptions { resize_bytes: Some(4 * MIB), ..FileOptions::default() };
    assert!(FileDevice::open(&path, &grow).is_err());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), MIB);
    drop(device);
    let device = FileDevice::open(&path, &grow).unwrap();
    assert_eq!(device.geometry().size_bytes, 4 * MIB);
}

/// Each method for several reads, past the page cache and through it.
fn ways_to_read() -> impl Iterator<Item = FileOptions> {
    [DeepReads::Ring, DeepReads::Threads, DeepReads::OneByOne].into_iter().flat_map(|deep_reads| {
        [DirectIo::Prefer, DirectIo::Never].map(|direct| FileOptions {
            deep_reads,
            direct,
            ..FileOptions::default()
        })
    })
}

#[test]
fn threads_that_write_and_read_many_places_at_a_time_see_what_they_wrote_last() {
    const BLOCKS: u64 = 48;
    for options in ways_to_read() {
        let (_dir, path) = scratch();
        let device = FileDevice::create(&path, 8 * MIB, &options).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let device = &device;
                scope.spawn(move || {
                    let at = |i: u64| thread * 2 * MIB + i * 8192;
                    for round in 0..12u64 {
                        // Half of the blocks are written again while the other half is being read.
                        let is_written = |i: u64| round == 0 || (i + round).is_multiple_of(2);
                        let byte =
                            |i: u64| (thread * 60 + i + if is_written(i) { round } else { round - 1 }) as u8;
                        let reads: Vec<_> = (0..BLOCKS)
                            .filter(|&i| !is_written(i))
                            .map(|i| (i, device.submit(Request::Read { at_bytes: at(i), len_bytes: 8192 })))
                            .collect();
                        let writes: Vec<_> = (0..BLOCKS)
                            .filter(|&i| is_written(i))
                            .map(|i| {
                                device.submit(Request::Write {
                                    at_bytes: at(i),
                                    data: filled(byte(i), 8192).into(),
                                })
                            })
                            .collect();
                        for (i, tag) in reads.into_iter().rev() {
                            assert_eq!(&*device.wait(tag).unwrap().unwrap(), &[byte(i); 8192]);
                        }
                        for tag in writes {
                            device.wait(tag).unwrap();
                        }
                        let ranges: Vec<(u64, u32)> = (0..BLOCKS).map(|i| (at(i), 8192)).collect();
                        for (i, data) in (0..BLOCKS).zip(device.read_all(&ranges)) {
                            assert_eq!(
                                &*data.unwrap(),
                                &[byte(i); 8192],
                                "{:?} round {round}",
                                device.deep_reads()
                            );
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn reads_that_are_asked_for_together_fail_or_succeed_one_by_one() {
    for options in ways_to_read() {
        let (_dir, path) = scratch();
        let device = FileDevice::create(&path, MIB, &options).unwrap();
        device.write(0, filled(3, MIB as usize)).unwrap();
        device.flush().unwrap();
        drop(device);
        let access = FileOptions { access: Access::ReadOnly, lock: Lock::Shared, ..options };
        let device = Arc::new(ReadOnlyDevice::new(FileDevice::open(&path, &access).unwrap()));
        let ranges =
            [(0, 4096), (MIB, 4096), (MIB - 4096, 4096), (MIB - 4096, 8192), (100, 4096), (8192, 65536)];
        let results = device.read_all(&ranges);
        for ((at_bytes, len_bytes), result) in ranges.into_iter().zip(results) {
            match result {
                Ok(data) => assert_eq!(&*data, &vec![3; len_bytes as usize][..]),
                Err(e) => {
                    assert!(at_bytes + u64::from(len_bytes) > MIB || at_bytes == 100, "{e}");
                    assert_eq!((e.kind, e.at_bytes), (FailureKind::OutOfRange, at_bytes));
                }
            }
        }
        assert!(device.read_all(&[]).is_empty());
        assert_eq!(device.read_all(&[(0, 512)]).remove(0).unwrap().len(), 512);
    }
}

#[test]
fn the_lock_ends_with_the_device_also_after_reads_at_depth() {
    for options in ways_to_read() {
        let (_dir, path) = scratch();
        drop(FileDevice::create(&path, MIB, &options).unwrap());
        for _ in 0..50 {
            let device = FileDevice::open(&path, &options).unwrap();
            assert!(device.read_all(&[(0, 65536); 16]).iter().all(Result::is_ok));
        }
    }
}
