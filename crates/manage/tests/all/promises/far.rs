//! Files past 16 TiB, and volumes past 16 TiB: every byte offset and every address on the device is wider than 44 bits.

use crate::promises::support::{MIB, Mounted, TIB, make_volume, pattern};
use firnfs::FsError;
use firnfs::lfs::{Options, read_superblock};
use firnfs_device::{AlignedBuf, Device, MemDevice, TraceDevice, TraceEntry};
use firnfs_format::checkpoint::Checkpoint;
use firnfs_format::superblock::CHECKPOINT_SLOT_BYTES;
use firnfs_format::{InodeNo, SegmentId};
use firnfs_torture::audit::audit;
use std::sync::Arc;

#[test]
fn a_file_reaches_past_16_tib_and_to_its_limit() {
    let device: Arc<dyn Device> = Arc::new(MemDevice::new(64 * MIB));
    make_volume(&*device, MIB);
    let mounted = Mounted::new(device.clone(), Options::default());
    let file_max_bytes =
        mounted.volume.run(|vfs, _| Ok(firnfs::store::Store::facts(vfs.store()).file_max_bytes)).unwrap();
    assert!(file_max_bytes > 32 * TIB, "files reach {file_max_bytes} bytes");
    let ino = mounted.create(InodeNo::ROOT, "far");
    let places = [0, 16 * TIB - 1_000, 20 * TIB + 4_095, 31 * TIB, file_max_bytes - 2_000];
    for (n, &at_bytes) in places.iter().enumerate() {
        mounted.write(ino, at_bytes, &pattern(n as u64, 2_000));
    }
    assert_eq!(mounted.volume.write(ino, file_max_bytes, &[1], false), Err(FsError::TooLarge));
    mounted.close();

    let mounted = Mounted::new(device.clone(), Options::default());
    assert_eq!(mounted.attr(ino).size_bytes, file_max_bytes);
    assert!(mounted.attr(ino).allocated_bytes < MIB, "holes cost nothing");
    for (n, &at_bytes) in places.iter().enumerate() {
        assert!(mounted.read(ino, at_bytes, 2_000) == pattern(n as u64, 2_000), "at {at_bytes}");
        let hole_bytes = at_bytes.min(10);
        assert_eq!(mounted.read(ino, at_bytes - hole_bytes, 10), pattern_after_hole(n as u64, hole_bytes));
    }
    // Cut in the middle of a block past 16 TiB, then let it grow: the bytes beyond the cut must not come back.
    mounted.truncate(ino, 20 * TIB + 4_095 + 700);
    mounted.truncate(ino, 33 * TIB);
    mounted.sync();
    drop(mounted);
    let mounted = Mounted::new(device, Options::default());
    assert_eq!(mounted.attr(ino).size_bytes, 33 * TIB);
    let mut expected = pattern(2, 2_000);
    expected[700..].fill(0);
    assert!(mounted.read(ino, 20 * TIB + 4_095, 2_000) == expected);
    assert_eq!(mounted.read(ino, 31 * TIB, 2_000), vec![0; 2_000]);
    assert!(mounted.read(ino, 16 * TIB - 1_000, 2_000) == pattern(1, 2_000));
    assert!(audit(&mounted.volume).unwrap().is_empty());
}

/// Ten bytes: the end of a hole of that length, and the beginning of the data after it.
fn pattern_after_hole(seed: u64, hole_bytes: u64) -> Vec<u8> {
    let mut bytes = vec![0; hole_bytes as usize];
    bytes.extend(pattern(seed, 10 - hole_bytes as usize));
    bytes
}

/// Sends the logs to segments past 16 TiB: the state that a volume reaches by itself after that much writing.
fn lead_the_logs_far(device: &dyn Device, first_far_byte: u64) {
    let size_bytes = device.geometry().size_bytes;
    let mut read = |at: u64, len: u32| Ok(device.read(at, len).unwrap().to_vec());
    let sb = read_superblock(&mut read, size_bytes).unwrap();
    let far = (first_far_byte - sb.log_start_bytes) / u64::from(sb.segment_bytes) + 1;
    for at in sb.checkpoint_at_bytes {
        let slot = device.read(at, CHECKPOINT_SLOT_BYTES).unwrap();
        let Ok(mut checkpoint) = Checkpoint::decode(&slot, &sb.uuid) else { continue };
        for (n, tail) in checkpoint.tails.iter_mut().flatten().enumerate() {
            tail.next_segment = SegmentId(far + n as u64);
        }
        device.write(at, Arc::new(AlignedBuf::copy_of(&checkpoint.encode(sb.write_unit_bytes)))).unwrap();
    }
}

#[test]
fn a_volume_holds_data_past_16_tib() {
    let device = Arc::new(TraceDevice::new(MemDevice::new(40 * TIB)));
    make_volume(&*device, MIB);
    Mounted::new(device.clone(), Options::default()).close();
    lead_the_logs_far(&*device, 17 * TIB);
    let mounted = Mounted::new(device.clone(), Options::default());
    assert!(mounted.space().free_bytes > 35 * TIB);
    let mut files = Vec::new();
    for n in 0..300 {
        let ino = mounted.create(InodeNo::ROOT, &format!("f{n}"));
        mounted.write(ino, 0, &pattern(n, 9_000));
        files.push(ino);
    }
    mounted.sync();
    let far_writes = device
        .take()
        .iter()
        .filter(|e| matches!(e, TraceEntry::Write { at_bytes, .. } if *at_bytes > 16 * TIB))
        .count();
    assert!(far_writes > 0, "the log went on past 16 TiB");
    drop(mounted);
    // After a crash, through roll-forward, and after a clean unmount.
    for was_clean in [false, true] {
        let mounted = Mounted::new(device.clone(), Options::default());
        assert_eq!(mounted.volume.run(|vfs, _| Ok(vfs.store().recovered().was_clean)).unwrap(), was_clean);
        for (n, &ino) in (0..).zip(&files) {
            assert!(mounted.content(ino) == pattern(n, 9_000), "file {n}");
        }
        mounted.close();
    }
    let far_reads = device
        .take()
        .iter()
        .filter(|e| matches!(e, TraceEntry::Read { at_bytes, .. } if *at_bytes > 16 * TIB))
        .count();
    assert!(far_reads > 0, "some of the files were read from there");
}
