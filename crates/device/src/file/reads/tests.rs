use super::table::HELD_BYTES_MAX;
use super::*;
use crate::Lock;
use crate::error::FailureKind;
use crate::request::Geometry;
use std::fs::File;

const BLOCK: u32 = 4096;
const WAYS: [DeepReads; 3] = [DeepReads::Ring, DeepReads::Threads, DeepReads::OneByOne];

fn target(file: File, size_bytes: u64) -> Arc<Target> {
    let geometry = Geometry { size_bytes, logical_block_bytes: 512, physical_block_bytes: 4096 };
    Arc::new(Target {
        file,
        name: Arc::from("disk"),
        geometry,
        size_bytes: size_bytes.into(),
        is_block_device: false,
        read_only: true,
        lock: Lock::None,
        _claim: None,
    })
}

/// A file whose block `i` is full of `i as u8`.
fn numbered(blocks: u64) -> Arc<Target> {
    use std::io::Write;
    let mut file = tempfile::tempfile().unwrap();
    for i in 0..blocks {
        file.write_all(&[i as u8; BLOCK as usize]).unwrap();
    }
    target(file, blocks * u64::from(BLOCK))
}

fn block(i: u64) -> Request {
    Request::Read { at_bytes: i * u64::from(BLOCK), len_bytes: BLOCK }
}

fn no_ring(_: Arc<Target>) -> std::io::Result<Ring> {
    Err(Errno::NOSYS.into())
}

/// Reads blocks `0..count` at depth, waits in the order that `order` makes of them, and checks each.
fn check_numbered(reads: &Reads, count: u64, order: impl FnOnce(&mut Vec<(u64, Tag)>)) {
    let mut tags: Vec<(u64, Tag)> = (0..count).map(|i| (i, reads.submit(block(i)))).collect();
    order(&mut tags);
    for (i, tag) in tags {
        let data = reads.wait(tag).unwrap().unwrap();
        assert!(data.iter().all(|&byte| byte == i as u8), "block {i}");
    }
}

/// The table is empty once all reads have been waited for.
fn assert_empty(reads: &Reads) {
    let table = reads.shared.table.lock();
    assert!(table.is_empty(), "slots, owners or bytes are left");
}

#[test]
fn reads_are_right_in_any_order_of_waiting() {
    let target = numbered(200);
    for deep in WAYS {
        let reads = Reads::new(target.clone(), deep);
        check_numbered(&reads, 200, |_| {});
        check_numbered(&reads, 200, |tags| tags.reverse());
        check_numbered(&reads, 200, |tags| tags.rotate_left(70));
        check_numbered(&reads, 199, |tags| tags.sort_by_key(|(i, _)| i * 83 % 199));
        check_numbered(&reads, 1, |_| {});
        assert_empty(&reads);
        if Ring::new(target.clone()).is_ok() {
            assert_eq!(reads.deep(), deep, "nothing made it step down");
        }
    }
}

#[test]
fn started_reads_are_carried_out_although_nobody_waits() {
    let target = numbered(120);
    for deep in WAYS {
        let reads = Reads::new(target.clone(), deep);
        let tags: Vec<(u64, Tag)> = (0..3).map(|i| (i, reads.submit(block(i)))).collect();
        assert_eq!(reads.shared.table.lock().not_begun(), 3);
        reads.start();
        reads.start();
        // One by one is what the waiter does.
        let expected = if reads.deep() == DeepReads::OneByOne { 3 } else { 0 };
        while reads.shared.table.lock().not_begun() > expected {
            std::thread::yield_now();
        }
        check_numbered(&reads, 100, |_| {});
        for (i, tag) in tags {
            assert_eq!(reads.wait(tag).unwrap().unwrap()[0], i as u8);
        }
        assert_empty(&reads);
    }
}

#[test]
fn reads_started_by_a_thread_that_has_ended_are_still_served() {
    let target = numbered(120);
    for deep in WAYS {
        let reads = Reads::new(target.clone(), deep);
        let submit = || {
            let tags: Vec<(u64, Tag)> = (0..20).map(|i| (i, reads.submit(block(i)))).collect();
            reads.start();
            tags
        };
        let tags = std::thread::scope(|scope| scope.spawn(submit).join().unwrap());
        for (i, tag) in tags.into_iter().rev() {
            assert_eq!(reads.wait(tag).unwrap().unwrap()[0], i as u8);
        }
        assert_empty(&reads);
    }
}

#[test]
fn a_window_of_reads_that_moves_along_is_served() {
    let target = numbered(300);
    for deep in WAYS {
        let reads = Reads::new(target.clone(), deep);
        let mut window = std::collections::VecDeque::new();
        for i in 0..300 {
            window.push_back((i, reads.submit(block(i))));
            if window.len() > 8 {
                let (i, tag) = window.pop_front().unwrap();
                assert_eq!(reads.wait(tag).unwrap().unwrap()[0], i as u8);
            }
        }
        for (i, tag) in window {
            assert_eq!(reads.wait(tag).unwrap().unwrap()[0], i as u8);
        }
        assert_empty(&reads);
    }
}

#[test]
fn reads_may_be_waited_for_by_another_thread_than_their_submitter() {
    let target = numbered(120);
    for deep in WAYS {
        let reads = Reads::new(target.clone(), deep);
        let tags: Vec<(u64, Tag)> = (0..120).map(|i| (i, reads.submit(block(i)))).collect();
        std::thread::scope(|scope| {
            for part in 0..4 {
                let (reads, tags) = (&reads, &tags);
                scope.spawn(move || {
                    for &(i, tag) in tags.iter().skip(part).step_by(4) {
                        assert_eq!(reads.wait(tag).unwrap().unwrap()[0], i as u8);
                    }
                });
            }
        });
        assert_empty(&reads);
    }
}

#[test]
fn reads_outlive_the_thread_that_started_them() {
    let target = numbered(60);
    for deep in WAYS {
        let reads = Reads::new(target.clone(), deep);
        let start = || {
            let tags: Vec<Tag> = (0..60).map(|i| reads.submit(block(i))).collect();
            assert_eq!(reads.wait(tags[59]).unwrap().unwrap()[0], 59);
            tags
        };
        let tags = std::thread::scope(|scope| scope.spawn(start).join().unwrap());
        for (i, &tag) in tags[..59].iter().enumerate() {
            assert_eq!(reads.wait(tag).unwrap().unwrap()[0], i as u8);
        }
        assert_empty(&reads);
    }
}

#[test]
fn more_threads_than_rings_read_at_depth_at_the_same_time() {
    let target = numbered(100);
    for deep in WAYS {
        let reads = Reads::new(target.clone(), deep);
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..20).for_each(|_| check_numbered(&reads, 40, |_| {})));
            }
        });
        assert_empty(&reads);
    }
}

#[test]
fn where_the_system_makes_no_ring_threads_read() {
    let reads = Reads::with_rings(numbered(100), DeepReads::Ring, no_ring);
    assert_eq!(reads.deep(), DeepReads::Ring);
    check_numbered(&reads, 1, |_| {});
    assert_eq!(reads.deep(), DeepReads::Ring, "a single read needs no ring");
    assert!(reads.helpers.get().is_none());
    check_numbered(&reads, 100, |_| {});
    assert_eq!(reads.deep(), DeepReads::Threads);
    check_numbered(&reads, 100, |tags| tags.reverse());
    assert!(reads.helpers.get().is_some());
    assert_empty(&reads);
}

#[test]
fn a_ring_that_fails_with_reads_in_it_is_abandoned_and_the_reads_are_right() {
    fn failing_after(waits: u32, target: Arc<Target>) -> std::io::Result<Ring> {
        let mut ring = Ring::new(target)?;
        ring.waits_left = waits;
        Ok(ring)
    }
    let makers: [MakeRing; 3] = [
        |target| failing_after(0, target),
        |target| failing_after(1, target),
        |target| failing_after(5, target),
    ];
    for make_ring in makers {
        let reads = Reads::with_rings(numbered(200), DeepReads::Ring, make_ring);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..5).for_each(|_| check_numbered(&reads, 200, |_| {})));
            }
        });
        assert_empty(&reads);
    }
}

#[test]
fn a_failed_read_does_not_harm_the_others_and_names_its_place() {
    // The memory of this very process: an address that is not mapped is a read error, as a bad sector is.
    let data = vec![7u8; 256 << 10];
    let mapped = (data.as_ptr() as u64).next_multiple_of(u64::from(BLOCK));
    for deep in WAYS {
        let memory = target(File::open("/proc/self/mem").unwrap(), 1 << 47);
        let reads = Reads::new(memory, deep);
        let places = (0..32).map(|i| if i % 5 == 2 { 4096 } else { mapped + i * u64::from(BLOCK) });
        let tags: Vec<(u64, Tag)> = places
            .map(|at_bytes| (at_bytes, reads.submit(Request::Read { at_bytes, len_bytes: BLOCK })))
            .collect();
        for (at_bytes, tag) in tags {
            match reads.wait(tag) {
                Ok(read) => assert!(at_bytes >= mapped && read.unwrap().iter().all(|&byte| byte == 7)),
                Err(e) => {
                    assert_eq!((e.kind, e.at_bytes), (FailureKind::Io, 4096));
                    let start = "read of 4096 bytes at byte 4096 of disk: ";
                    assert!(e.to_string().starts_with(start), "{e}");
                }
            }
        }
        assert_empty(&reads);
    }
}

#[test]
fn reads_that_end_beyond_a_truncated_file_fail_where_it_ends() {
    let target = numbered(64);
    target.file.set_len(40 * u64::from(BLOCK) + 512).unwrap();
    for deep in WAYS {
        let reads = Reads::new(target.clone(), deep);
        let tags: Vec<Tag> = (0..66).map(|i| reads.submit(block(i))).collect();
        for (i, tag) in tags.into_iter().enumerate() {
            match (i, reads.wait(tag)) {
                (0..40, result) => assert_eq!(result.unwrap().unwrap()[0], i as u8),
                (40, Err(e)) => {
                    assert!(e.to_string().ends_with("the file ends at byte 164352: it was truncated"))
                }
                (41..64, Err(e)) => assert_eq!((e.kind, e.at_bytes), (FailureKind::Io, i as u64 * 4096)),
                (_, Err(e)) => assert_eq!(e.kind, FailureKind::OutOfRange),
                (_, Ok(_)) => panic!("block {i} was read"),
            }
        }
        assert_empty(&reads);
    }
}

#[test]
fn buffers_of_reads_not_yet_fetched_are_bounded() {
    const LEN_BYTES: u32 = 1 << 20;
    let file = tempfile::tempfile().unwrap();
    file.set_len(u64::from(LEN_BYTES)).unwrap();
    let target = target(file, u64::from(LEN_BYTES));
    for deep in WAYS {
        let reads = Reads::new(target.clone(), deep);
        let whole = Request::Read { at_bytes: 0, len_bytes: LEN_BYTES };
        let tags: Vec<Tag> = (0..100).map(|_| reads.submit(whole.clone())).collect();
        for tag in tags {
            assert!(reads.shared.table.lock().held_bytes() <= HELD_BYTES_MAX);
            assert_eq!(reads.wait(tag).unwrap().unwrap().len(), LEN_BYTES as usize);
        }
        assert_empty(&reads);
    }
}

#[test]
fn a_device_may_be_dropped_while_reads_are_under_way() {
    let target = numbered(200);
    for deep in WAYS {
        for _ in 0..20 {
            let reads = Reads::new(target.clone(), deep);
            let tags: Vec<Tag> = (0..200).map(|i| reads.submit(block(i))).collect();
            reads.wait(tags[0]).unwrap();
            drop(reads);
        }
    }
    // Rings and threads are gone too: they would hold the file.
    assert_eq!(Arc::strong_count(&target), 1);
}

/// Waits until something has landed, and takes it.
fn landed(reads: &mut dyn OwnReads) -> Vec<(u64, Completion)> {
    for _ in 0..10_000 {
        let landed = reads.landed();
        if !landed.is_empty() {
            return landed;
        }
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    panic!("nothing has landed");
}

#[test]
fn a_thread_has_reads_of_its_own_and_is_told_what_became_of_each() {
    let reads = Reads::new(numbered(300), DeepReads::Ring);
    let Some(mut own) = reads.own() else {
        eprintln!("SKIPPED: NOT TESTED: no io_uring here");
        return;
    };
    let room = own.room();
    let ranges: Vec<(u64, u32)> = (0..room as u64).map(|n| (n * 3 * 4096, 4096)).collect();
    let names = own.start(&ranges);
    assert_eq!(own.room(), 0);
    let mut found = std::collections::HashMap::new();
    while found.len() < names.len() {
        found.extend(landed(&mut *own).into_iter().map(|(name, read)| (name, read.unwrap().unwrap()[4095])));
    }
    assert!(names.iter().zip(0..).all(|(name, n)| found[name] == (n * 3) as u8));
    assert_eq!(own.room(), room);
    // Refused, and beyond the end of a file that became shorter.
    reads.shared.target.file.set_len(100 * 4096).unwrap();
    let names = own.start(&[(300 * 4096, 4096), (99 * 4096, 8192), (99 * 4096, 4096)]);
    let mut found = std::collections::HashMap::new();
    while found.len() < names.len() {
        found.extend(landed(&mut *own));
    }
    let kind = |n: usize| found[&names[n]].as_ref().err().map(|error| error.kind);
    assert_eq!([0, 1, 2].map(kind), [Some(FailureKind::OutOfRange), Some(FailureKind::Io), None]);
    // No more memory than is allowed.
    let reads = Reads::new(numbered(4096), DeepReads::Ring);
    let mut own = reads.own().unwrap();
    own.start(&[(0, 8 << 20)]);
    assert_eq!(own.room(), 0);
    assert_eq!(landed(&mut *own).len(), 1);
    assert!(own.room() > 0);
    // What is under way is waited for.
    own.start(&[(0, 4096), (1 << 20, 4096)]);
    drop(own);
    assert!(Reads::new(numbered(1), DeepReads::Threads).own().is_none());
}

#[test]
fn reads_of_a_ring_that_failed_are_done_at_once_and_no_more_are_taken() {
    let Ok(mut own) = OwnRing::new(numbered(10)) else {
        eprintln!("SKIPPED: NOT TESTED: no io_uring here");
        return;
    };
    own.fail();
    assert_eq!(own.room(), 0);
    let names = own.start(&[(4096, 4096), (5 * 4096, 512)]);
    let found: Vec<_> =
        own.landed().into_iter().map(|(name, read)| (name, read.unwrap().unwrap()[0])).collect();
    assert_eq!(found, [(names[0], 1), (names[1], 5)]);
    assert_eq!(own.fd(), -1);
}
