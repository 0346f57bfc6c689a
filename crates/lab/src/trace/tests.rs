//! A trace is replayed as it says, the same each time, and what is counted is what happened.

use super::*;
use crate::micro::stop::Stop;
use firnfs_workload::{FileId, Op, Outcome};

/// Records in memory.
pub(super) struct List(Vec<Record>);

impl Records for List {
    fn open(&self) -> Result<Box<dyn Iterator<Item = Result<Record, LabError>> + '_>, LabError> {
        Ok(Box::new(self.0.iter().cloned().map(Ok)))
    }
}

pub(super) fn records(list: Vec<Record>) -> List {
    List(list)
}

/// A write at a second.
pub(super) fn write(at_s: u64, file: u64, offset: u64, len_bytes: u64) -> Record {
    Record {
        offset: Some(offset),
        length: Some(len_bytes),
        outcome: Outcome::Done(len_bytes),
        ..Record::new(at_s * 1_000_000_000, Op::Write, FileId(file))
    }
}

fn sized(at_s: u64, file: u64, len_bytes: u64) -> Record {
    Record { length: Some(len_bytes), ..Record::new(at_s * 1_000_000_000, Op::Getattr, FileId(file)) }
}

fn replayed(trace: &List, setup: &Setup) -> Replayed {
    run(trace, setup, &Stop::default(), &Progress(&|_, _| {})).unwrap()
}

/// Files of 64 KiB, of which one after the other is overwritten in bursts with pauses of 10 s.
fn bursts(files: u64, burst: u64, bursts: u64) -> List {
    let mut list: Vec<Record> = (0..files).map(|file| sized(0, 100 + file, 65536)).collect();
    for n in 0..bursts {
        for m in 0..burst {
            let file = 100 + (n * burst + m) * 7 % files;
            let mut record = write(10 + n * 10, file, (n % 8) * 8192, 8192);
            record.time_ns += m * 20_000_000;
            list.push(record);
        }
    }
    records(list)
}

#[test]
fn a_trace_replayed_twice_asks_the_same_of_the_disk_at_the_same_times() {
    let trace = bursts(600, 60, 40);
    for model in Model::ALL {
        let setup = Setup::of_1995(model).unwrap();
        let (first, second) = (replayed(&trace, &setup), replayed(&trace, &setup));
        assert_eq!(first, second);
        assert!(first.disk.user_requests > 0 && first.fingerprint != 0 && first.refused == 0);
        let other = Setup { idle_after_ms: 4_000, ..setup };
        assert_ne!(replayed(&trace, &other).fingerprint, first.fingerprint, "the threshold matters");
    }
}

#[test]
fn the_disk_is_as_full_as_asked_and_idle_time_is_used_for_cleaning() {
    let trace = bursts(1200, 60, 120);
    let setup = Setup::of_1995(Model::Async).unwrap();
    let full = replayed(&trace, &setup);
    assert!((full.utilisation - 0.9).abs() < 0.03, "{full:?}");
    assert!(full.segments_cleaned > 20, "{full:?}");
    assert!(full.on_demand_share() < 0.05, "pauses of 8 s suffice: {full:?}");
    assert!(full.disk.cleaner_read_bytes >= full.segments_cleaned * (256 << 10) / 2, "{full:?}");
    assert_eq!(full.four_after_two(), Some(1.0));
    // Without idle time the same writes are cleaned for on demand.
    let busy = Setup { idle_after_ms: 1_000_000, ..setup.clone() };
    let busy = replayed(&trace, &busy);
    assert!(busy.segments_cleaned > 0 && busy.cleaned_on_demand == busy.segments_cleaned, "{busy:?}");
    // A disk with more space needs less cleaning.
    let half = replayed(&trace, &Setup { utilisation: 0.5, ..setup });
    assert!(
        (half.utilisation - 0.5).abs() < 0.03 && half.segments_cleaned < full.segments_cleaned / 2,
        "{half:?}"
    );
}

#[test]
fn the_synchronous_model_writes_a_partial_segment_for_each_change_and_the_other_one_whole_segments() {
    let trace = bursts(600, 10, 30);
    let sync = replayed(&trace, &Setup::of_1995(Model::Sync).unwrap());
    let waits = replayed(&trace, &Setup::of_1995(Model::Async).unwrap());
    assert!(sync.disk.user_requests >= 300, "a request for each write: {sync:?}");
    // 300 writes of 8 KiB are 2.4 MB: nine segments' worth.
    assert!(waits.disk.user_requests < 40, "{waits:?}");
    let mean_bytes = waits.disk.user_written_bytes / waits.disk.user_requests.max(1);
    assert!(mean_bytes > 100 << 10, "{mean_bytes}");
    assert!(sync.disk.user_written_bytes > waits.disk.user_written_bytes);
}

#[test]
fn reads_that_the_cache_answers_do_not_reach_the_disk() {
    let read = |at_s, file, block| {
        let record = write(at_s, file, block * 4096, 4096);
        Record { op: Op::Read, ..record }
    };
    let mut list: Vec<Record> = (0..400).map(|file| sized(0, 100 + file, 65536)).collect();
    list.extend((0..16).map(|block| read(10 + block, 100, block)));
    let once = replayed(&records(list.clone()), &Setup::of_1995(Model::Async).unwrap());
    assert_eq!((once.cache_hit_bytes, once.cache_miss_bytes), (0, 65536));
    assert!(once.disk.user_read_bytes >= 65536);
    list.extend((0..16).map(|block| read(30 + block, 100, block)));
    let twice = replayed(&records(list), &Setup::of_1995(Model::Async).unwrap());
    assert_eq!((twice.cache_hit_bytes, twice.cache_miss_bytes), (65536, 65536));
    assert_eq!(twice.disk.user_requests, once.disk.user_requests);
}

#[test]
fn names_are_made_moved_and_removed_as_the_trace_says() {
    let named = |at_s: u64, op, dir: u64, name: &str| {
        let mut record = Record::new(at_s * 1_000_000_000, op, FileId(dir));
        (record.name, record.outcome) = (name.as_bytes().to_vec(), Outcome::Done(0));
        record
    };
    let made = |at_s, op, dir, name: &str, file| Record { made: FileId(file), ..named(at_s, op, dir, name) };
    let mut moved = named(4, Op::Rename, 20, "a");
    (moved.to_file, moved.to_name) = (FileId(1), b"b".to_vec());
    let mut list: Vec<Record> = (0..400).map(|file| sized(0, 1000 + file, 65536)).collect();
    list.extend([
        made(1, Op::Mkdir, 1, "d", 20),
        made(2, Op::Create, 20, "a", 21),
        write(3, 21, 0, 10_000),
        moved,
        named(5, Op::Rmdir, 1, "d"),
        // It existed before the trace, though nothing else tells of it.
        named(6, Op::Unlink, 1, "old"),
        named(7, Op::Unlink, 1, "b"),
        // Its number is used again.
        made(8, Op::Create, 1, "c", 21),
        write(9, 21, 0, 5_000),
        // No such file: the trace says that this failed.
        Record { outcome: Outcome::Failed(2), ..named(10, Op::Lookup, 1, "nothing") },
    ]);
    let done = replayed(&records(list.clone()), &Setup::of_1995(Model::Sync).unwrap());
    assert_eq!(done.refused, 0);
    // A trace that contradicts itself is replayed all the same, and the records that cannot be are counted.
    list.push(named(11, Op::Unlink, 1, "c"));
    list.push(named(12, Op::Rmdir, 1, "c"));
    assert!(replayed(&records(list), &Setup::of_1995(Model::Sync).unwrap()).refused > 0);
}

#[test]
fn a_replay_that_is_watched_asks_the_same_of_the_disk_as_one_that_is_not() {
    let trace = bursts(600, 60, 20);
    let setup = Setup::of_1995(Model::Async).unwrap();
    let unwatched = replayed(&trace, &setup);
    let begin = || Steps::new(&trace, &setup, &Stop::default(), &Progress(&|_, _| {})).unwrap();
    let look = |steps: &mut Steps<'_>| {
        let leaves = (0..).map(|leaf| steps.look(|log| log.watch_leaf(leaf)).unwrap());
        leaves.take_while(|leaf| !leaf.is_empty()).map(|leaf| leaf.len()).sum::<usize>()
    };
    // By time.
    let mut steps = begin();
    let mut last_ns = steps.now().0;
    while steps.pass(700_000_000).unwrap() {
        assert_eq!(steps.now().0 - last_ns, 700_000_000);
        last_ns = steps.now().0;
        assert!(look(&mut steps) > 50);
    }
    assert_eq!(steps.end(), unwatched);
    // Access by access: the requests of one operation are a step, and together they are all.
    let mut steps = begin();
    let mut accesses = 0;
    while steps.next_access().unwrap() {
        accesses += 1;
        look(&mut steps);
    }
    let requests = unwatched.disk.user_requests + unwatched.disk.cleaner_requests;
    assert!(accesses > 100 && accesses <= requests, "{accesses} steps for {requests} requests");
    assert_eq!(steps.end(), unwatched);
}
