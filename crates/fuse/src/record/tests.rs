//! What the workers note reaches the file, or is counted as lost; the disk's refusals leave a whole file.

use super::*;
use crate::wire::request::Header as RequestHeader;
use crate::wire::{Operation, abi};
use firnfs_workload::{Op, Outcome, Reader, Record};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

fn plan(directory: &tempfile::TempDir, part_bytes: u64) -> RecordPlan {
    RecordPlan { path: directory.path().join("a.fwl"), part_bytes, hash_names: false }
}

fn lookup(recording: &Recording, name: &[u8]) {
    let header = RequestHeader { opcode: 1, unique: 1, nodeid: 1, uid: 0, gid: 0, pid: 77 };
    let mut reply = Reply::new(4096);
    reply.put(&abi::EntryOut { nodeid: 9, ..Default::default() });
    let request = Request { header, operation: Operation::Lookup { name } };
    recording.note(&request, &reply, Verdict::Answer, Instant::now(), 1000);
}

/// All parts in order: records, and how many were lost before each; and the total of those.
fn read(path: &Path) -> (Vec<(Record, u64)>, u64, u32) {
    let (mut records, mut lost, mut part) = (Vec::new(), 0, 0);
    let mut next = path.to_owned();
    let mut recording = None;
    loop {
        let mut reader = Reader::new(File::open(&next).unwrap()).unwrap();
        assert_eq!(reader.header().part, part);
        assert_eq!(*recording.get_or_insert(reader.header().recording), reader.header().recording);
        while let Some(record) = reader.next() {
            records.push((record.unwrap(), reader.lost()));
        }
        lost = lost.max(reader.lost());
        part += 1;
        match reader.end() {
            Some(End::Continued) => next = PathBuf::from(format!("{}.{part}", path.display())),
            Some(End::Last) => return (records, lost, part),
            None => panic!("{} has no end", next.display()),
        }
    }
}

/// Names that do not compress well.
fn name_of(n: u64) -> Vec<u8> {
    let mix = |n: u64| {
        (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    format!("{:016x}{:016x}{n:08}", mix(n), mix(n ^ 0xabcd_ef01)).into_bytes()
}

#[test]
fn what_the_thread_cannot_write_in_time_is_counted_where_it_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(&directory, 1 << 30);
    let (recording, parts) = Recording::new(&plan, Vec::new(), None).unwrap();
    // Nobody writes: the blocks fill up, and then records are lost.
    let mut noted = 0;
    while recording.status().lost < 100 {
        lookup(&recording, &name_of(noted));
        noted += 1;
    }
    let kept = noted - 100;
    assert_eq!(recording.status().records, kept);
    let bytes: usize = {
        let queue = recording.queue.lock();
        assert!(queue.spare.is_empty() && queue.full.len() + 1 == BLOCKS);
        queue.full.iter().map(|(block, _)| block.bytes().len()).sum()
    };
    assert!(bytes > 3 << 20, "most of the 4 MiB are used: {bytes}");
    recording.spawn_writer(parts).unwrap();
    // Room comes back, and recording goes on.
    while recording.queue.lock().spare.is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    lookup(&recording, b"after");
    recording.queue.lock().is_stopping = true;
    recording.changed.notify_one();
    recording.writer.lock().take().unwrap().join().unwrap();
    let (records, lost, parts) = read(&plan.path);
    assert_eq!((records.len() as u64, lost, parts), (kept + 1, 100, 1));
    assert!(records[..records.len() - 1].iter().all(|(_, lost)| *lost == 0));
    let (last, lost_before) = &records[records.len() - 1];
    assert_eq!((&last.name[..], *lost_before), (&b"after"[..], 100));
    assert_eq!((last.op, last.client, last.outcome, last.made.0), (Op::Lookup, 77, Outcome::Done(0), 9));
}

/// A block of records, from a number on.
fn block(from: u64) -> Block {
    let mut block = Block::new();
    let mut n = from;
    while block.has_room() {
        let mut record: Record = Record::new(n * 1000, Op::Lookup, firnfs_workload::FileId(1));
        record.name = name_of(n);
        block.push(&record).unwrap();
        n += 1;
    }
    block
}

#[test]
fn parts_follow_each_other_by_size_and_are_one_recording() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(&directory, 100_000);
    let (_recording, mut parts) = Recording::new(&plan, Vec::new(), None).unwrap();
    let mut written = 0;
    for _ in 0..12 {
        let block = block(written);
        written += u64::from(block.count());
        parts.write(&block, 5);
    }
    parts.finish(7, End::Last);
    let standing = parts.standing();
    let (records, lost, count) = read(&plan.path);
    assert_eq!((records.len() as u64, lost, count), (written, 7, standing.parts));
    assert!(
        records.iter().enumerate().all(|(n, (record, lost))| record.name == name_of(n as u64) && *lost == 5)
    );
    assert!(count >= 3, "{count} parts");
    let on_disk: u64 =
        std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(standing.file_bytes, on_disk);
    assert_eq!((standing.lost, standing.trouble), (0, None));
}

#[test]
fn where_no_next_part_can_be_made_the_old_one_grows_on() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(&directory, 1);
    let (_recording, mut parts) = Recording::new(&plan, Vec::new(), None).unwrap();
    let in_the_way = directory.path().join("a.fwl.1");
    std::fs::write(&in_the_way, "somebody's").unwrap();
    for n in 0..3 {
        parts.write(&block(n), 0);
    }
    parts.finish(0, End::Last);
    let (_, lost, count) = read(&plan.path);
    assert_eq!((lost, count), (0, 1));
    assert_eq!(std::fs::read(&in_the_way).unwrap(), b"somebody's");
}

/// Replaces the file by one in memory that cannot grow any more: a full disk.
fn fill_up(parts: &mut Parts) -> File {
    use rustix::fs::{MemfdFlags, SealFlags};
    let memory = rustix::fs::memfd_create("full", MemfdFlags::ALLOW_SEALING).unwrap();
    let memory = File::from(memory);
    parts.replace_file(memory.try_clone().unwrap());
    rustix::fs::fcntl_add_seals(&memory, SealFlags::GROW).unwrap();
    memory
}

#[test]
fn a_full_disk_costs_records_and_even_the_end_needs_no_room() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(&directory, 1 << 30);
    let (_recording, mut parts) = Recording::new(&plan, Vec::new(), None).unwrap();
    let blocks = [block(0), block(10_000), block(20_000)];
    let counts = blocks.each_ref().map(|block| u64::from(block.count()));
    parts.write(&blocks[0], 0);
    parts.write(&blocks[1], 3);
    let memory = fill_up(&mut parts);
    parts.write(&blocks[2], 3);
    assert_eq!(parts.standing().lost, counts[2]);
    assert!(parts.standing().trouble.is_some());
    parts.finish(4, End::Last);
    // The end has replaced the second block.
    assert_eq!(parts.standing().lost, counts[1] + counts[2]);
    let bytes = {
        use std::os::unix::fs::FileExt;
        let mut bytes = vec![0; memory.metadata().unwrap().len() as usize];
        memory.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    std::fs::write(&plan.path, bytes).unwrap();
    let (records, lost, _) = read(&plan.path);
    assert_eq!((records.len() as u64, lost), (counts[0], 4 + counts[1] + counts[2]));
}

#[test]
fn housekeeping_of_the_kernel_is_no_record_and_failures_are() {
    let directory = tempfile::tempdir().unwrap();
    let plan = RecordPlan { hash_names: true, ..plan(&directory, 1 << 30) };
    let recorder = Recorder::default();
    let header = RequestHeader { opcode: 0, unique: 1, nodeid: 5, uid: 0, gid: 0, pid: 1 };
    let note = |operation: Operation<'_>, verdict: Verdict| {
        let request = Request { header, operation };
        recorder.note(&request, &Reply::new(4096), verdict, Instant::now(), 1);
    };
    note(Operation::Getattr, Verdict::Answer);
    recorder.start(&plan, vec![("a".into(), "b".into())], None).unwrap();
    assert!(matches!(recorder.start(&plan, Vec::new(), None), Err(RecordError::Running(_))));
    note(Operation::Forget { lookups: 1 }, Verdict::Silent);
    note(Operation::Open, Verdict::Error(Errno::NOSYS));
    note(Operation::Lookup { name: b"absent" }, Verdict::Answer);
    note(Operation::Rmdir { name: b"full" }, Verdict::Error(Errno::NOTEMPTY));
    let status = recorder.stop().unwrap();
    assert_eq!((status.records, status.lost, status.parts), (2, 0, 1));
    note(Operation::Getattr, Verdict::Answer);
    assert!(matches!(recorder.stop(), Err(RecordError::NotRunning)));
    let (records, _, _) = read(&plan.path);
    let seen: Vec<_> = records.iter().map(|(record, _)| (record.op, record.file.0, record.outcome)).collect();
    assert_eq!(seen, [(Op::Lookup, 5, Outcome::Failed(2)), (Op::Rmdir, 5, Outcome::Failed(39))]);
    assert!(records.iter().all(|(record, _)| record.name.len() == 16), "names are hashed");
    assert!(matches!(recorder.start(&plan, Vec::new(), None), Err(RecordError::Exists(_))));
    recorder.end();
    assert!(matches!(recorder.start(&plan, Vec::new(), None), Err(RecordError::Ended)));
}
