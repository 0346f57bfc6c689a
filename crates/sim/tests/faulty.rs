//! The faulty disk: each fault has its effect at its time, and the same in every run.

use firnfs_device::{AlignedBuf, Device, FailureKind, MemDevice, Request, TraceDevice};
use firnfs_sim::{Effect, Fault, FaultyDisk, On, Trigger, VirtualClock};
use std::sync::Arc;

const SIZE: u64 = 64 << 10;

fn disk(seed: u64) -> FaultyDisk<MemDevice> {
    FaultyDisk::new(MemDevice::new(SIZE), seed)
}

fn write(disk: &impl Device, at_bytes: u64, byte: u8, len: usize) -> Result<(), String> {
    disk.write(at_bytes, Arc::new(AlignedBuf::copy_of(&vec![byte; len]))).map_err(|e| e.to_string())
}

fn byte_at(disk: &impl Device, at_bytes: u64) -> u8 {
    let bytes = disk.read(at_bytes, 512).unwrap();
    assert!(bytes.iter().all(|b| *b == bytes[0]));
    bytes[0]
}

#[test]
fn a_disk_without_faults_is_a_disk() {
    let disk = disk(1);
    write(&disk, 512, 7, 1024).unwrap();
    disk.flush().unwrap();
    assert_eq!((byte_at(&disk, 512), byte_at(&disk, 0)), (7, 0));
    disk.discard(512, 512).unwrap();
    assert_eq!(byte_at(&disk, 512), 0);
    assert!(disk.injected().is_empty());
}

#[test]
fn failed_requests_change_nothing_and_name_their_place() {
    let disk = disk(1);
    disk.arm(Fault { on: On::Write, place: 4096..8192, trigger: Trigger::Always, effect: Effect::Fail });
    write(&disk, 0, 1, 4096).unwrap();
    let expected = "write of 1024 bytes at byte 3584 of memory: input/output error (injected)";
    assert_eq!(write(&disk, 3584, 2, 1024).unwrap_err(), expected);
    assert_eq!((byte_at(&disk, 3584), byte_at(&disk, 4096)), (1, 0));
    write(&disk, 8192, 3, 512).unwrap();
    assert_eq!(disk.injected().len(), 1);
}

#[test]
fn triggers_count_the_requests_they_apply_to() {
    let disk = disk(1);
    disk.arm(Fault::anywhere(On::Flush, Trigger::Once { after: 2 }, Effect::Fail));
    disk.arm(Fault::anywhere(On::Read, Trigger::From { after: 1 }, Effect::Fail));
    let flushes: Vec<bool> = (0..5).map(|_| disk.flush().is_ok()).collect();
    assert_eq!(flushes, [true, true, false, true, true]);
    let reads: Vec<bool> = (0..3).map(|_| disk.read(0, 512).is_ok()).collect();
    assert_eq!(reads, [true, false, false]);
}

#[test]
fn a_fault_can_begin_at_a_given_time() {
    let clock = Arc::new(VirtualClock::at(100));
    let disk = FaultyDisk::new(MemDevice::new(SIZE), 1).with_clock(clock.clone());
    disk.arm(Fault::anywhere(On::Any, Trigger::FromTime { now_ns: 200 }, Effect::Fail));
    disk.flush().unwrap();
    clock.advance_ns(100);
    assert!(disk.flush().is_err());
}

#[test]
fn chances_follow_the_seed() {
    let run = |seed| -> Vec<bool> {
        let disk = disk(seed);
        disk.arm(Fault::anywhere(On::Write, Trigger::Chance(0.3), Effect::Fail));
        (0..200).map(|_| write(&disk, 0, 1, 512).is_ok()).collect()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
    let failures = run(5).iter().filter(|ok| !**ok).count();
    assert!((30..90).contains(&failures), "{failures} of 200 at a chance of 0.3");
}

#[test]
fn bad_sectors_fail_reads_until_they_are_written() {
    let disk = disk(1);
    disk.spoil(1024..1025);
    let error = disk.read(0, 4096).unwrap_err();
    assert_eq!(error.kind, FailureKind::Io);
    assert!(error.to_string().contains("unreadable sector at byte 1024"), "{error}");
    disk.read(0, 1024).unwrap();
    write(&disk, 1024, 4, 512).unwrap();
    assert_eq!(byte_at(&disk, 1024), 4);

    disk.arm(Fault::anywhere(On::Write, Trigger::Once { after: 0 }, Effect::Spoil));
    write(&disk, 2048, 5, 1024).unwrap();
    assert!(disk.read(2560, 512).is_err());
    disk.clear();
    assert_eq!(byte_at(&disk, 2560), 5);
}

#[test]
fn misdirected_requests_succeed_in_the_wrong_place() {
    let disk = disk(1);
    let effect = Effect::Misdirected { by_bytes: 4096 };
    disk.arm(Fault::anywhere(On::Write, Trigger::Once { after: 0 }, effect));
    write(&disk, 0, 9, 512).unwrap();
    assert_eq!((byte_at(&disk, 0), byte_at(&disk, 4096)), (0, 9));
    let back = Effect::Misdirected { by_bytes: -4096 };
    disk.arm(Fault::anywhere(On::Read, Trigger::Always, back));
    assert_eq!(byte_at(&disk, 8192), 9);
    // Beyond the end of the disk it wraps around; it is never an error.
    disk.read(0, 8192).unwrap();
}

#[test]
fn short_writes_land_in_part_and_fail() {
    let disk = disk(1);
    disk.arm(Fault::anywhere(On::Write, Trigger::Always, Effect::Short { bytes: 1100 }));
    assert!(write(&disk, 0, 6, 4096).unwrap_err().contains("only 1100 bytes"));
    assert_eq!([0, 512, 1024].map(|at| byte_at(&disk, at)), [6, 6, 0]);
}

#[test]
fn lost_writes_are_reported_done() {
    let disk = disk(1);
    disk.arm(Fault::anywhere(On::Any, Trigger::Always, Effect::Lost));
    write(&disk, 0, 6, 512).unwrap();
    disk.flush().unwrap();
    assert_eq!(byte_at(&disk, 0), 0);
}

#[test]
fn a_flipped_bit_is_one_bit() {
    let flipped = |on| {
        let disk = disk(3);
        disk.arm(Fault::anywhere(on, Trigger::Once { after: 0 }, Effect::FlipBit));
        write(&disk, 0, 0, 4096).unwrap();
        let first: u32 = disk.read(0, 4096).unwrap().iter().map(|b| b.count_ones()).sum();
        let second: u32 = disk.read(0, 4096).unwrap().iter().map(|b| b.count_ones()).sum();
        (first, second)
    };
    assert_eq!(flipped(On::Write), (1, 1));
    assert_eq!(flipped(On::Read), (1, 0));
}

#[test]
fn a_vanished_disk_fails_everything_until_it_is_back() {
    let disk = disk(1);
    write(&disk, 0, 1, 512).unwrap();
    disk.arm(Fault::anywhere(On::Write, Trigger::Once { after: 0 }, Effect::Vanish));
    assert!(write(&disk, 0, 2, 512).is_err());
    assert!(disk.read(0, 512).is_err() && disk.flush().is_err() && disk.discard(0, 512).is_err());
    disk.clear();
    assert_eq!(byte_at(&disk, 0), 1);
}

#[test]
fn a_shuffled_disk_carries_out_everything_in_a_seeded_order() {
    let run = |seed| {
        let disk = FaultyDisk::new(TraceDevice::new(MemDevice::new(SIZE)), seed).shuffled();
        let tags: Vec<_> = (0..20u8)
            .map(|i| {
                let data = Arc::new(AlignedBuf::copy_of(&[i + 1; 512]));
                disk.submit(Request::Write { at_bytes: u64::from(i) * 512, data: data.into() })
            })
            .collect();
        tags.into_iter().for_each(|tag| drop(disk.wait(tag).unwrap()));
        let trace = disk.inner().take();
        for i in 0..20u8 {
            assert_eq!(byte_at(&disk, u64::from(i) * 512), i + 1);
        }
        trace
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert_eq!(run(1).len(), 20);
}
