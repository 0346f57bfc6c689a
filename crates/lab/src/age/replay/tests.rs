use super::*;
use crate::age::snapshot::REGULAR;
use crate::age::take::image;
use crate::age::workload::{Act, Emitter, Event, ROOT, Random, SHORT_LIVED, random};
use firnfs::engine::Engine;
use firnfs::vfs::AtimeMode;
use firnfs::{ffs, lfs};
use firnfs_device::{MemDevice, TraceDevice};
use firnfs_format::TimeNs;
use firnfs_manage::{format, format_ffs, open, open_ffs};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use firnfs_workload::{End, FileId, Header, Writer};
use std::path::Path;
use std::sync::Arc;

fn plan(by: By, continues: bool) -> Plan {
    Plan { by, continues, identity: "a".to_owned() }
}

fn header() -> Header {
    let mut header = Header::new(Origin::Made);
    for (name, value) in [("groups", 3), ("group_inodes", 100), ("first_inode", 0), ("root_inode", 2)] {
        header.options.push((name.to_owned(), value.to_string()));
    }
    header
}

/// Every kind of event: files 150, 250 and a short-lived one of directory 210 stay.
fn every_kind() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut emitter = Emitter::new(&mut bytes, &header()).unwrap();
    let create = |size_bytes| Act::Create { size_bytes };
    let events = [
        (10, 150, create(100_000)),
        (ROOT, 5, create(10)),
        (ROOT, 5, Act::Touch),
        (10, 150, Act::Grow { from_bytes: 100_000, size_bytes: 150_000 }),
        (10, 250, create(0)),
        (10, 250, Act::Rewrite { size_bytes: 7 }),
        (10, 250, Act::Move { to_dir: 20 }),
        (ROOT, 5, Act::Delete),
        (30, 160, create(1)),
        (30, 160, Act::Delete),
        (30, 30, Act::RemoveDirectory),
        (210, SHORT_LIVED + 1, create(70_000)),
        (210, SHORT_LIVED + 2, create(70_000)),
        (210, SHORT_LIVED + 2, Act::Delete),
    ];
    for (time_ns, (dir, file, act)) in (0..).zip(events) {
        emitter.event(&Event { time_ns: time_ns * 86_400_000_000_000, dir, file, act }).unwrap();
    }
    emitter.finish().unwrap();
    bytes
}

fn run(
    plan: &Plan,
    bytes: &[u8],
    target: &mut dyn Target,
    stop_at: Option<u64>,
) -> Result<Outcome, LabError> {
    replay(plan, Reader::new(bytes).unwrap(), target, &mut |tally, _| match stop_at {
        Some(at) if tally.records >= at => Err(LabError::Interrupted),
        _ => Ok(()),
    })
}

fn tree(root: &Path) -> Vec<String> {
    let listed = Posix::new(root).list().unwrap();
    listed.into_iter().map(|(path, size)| format!("{path} {}", size.map_or(-1, u64::cast_signed))).collect()
}

#[test]
fn a_directory_has_what_the_workload_leaves() {
    let root = tempfile::tempdir().unwrap();
    let outcome =
        run(&plan(By::Directory, false), &every_kind(), &mut Posix::new(root.path()), None).unwrap();
    assert_eq!((outcome.mismatch_count, outcome.files, outcome.is_stopped), (0, 3, false));
    assert_eq!((outcome.tally.operations, outcome.tally.written_bytes), (13, 290_018));
    assert_eq!(tree(root.path()), ["d10/f150 150000", "d20/f250 7", "d210/s1 70000"]);
}

#[test]
fn by_group_files_go_where_their_inodes_were_and_short_lived_ones_to_their_directory() {
    let root = tempfile::tempdir().unwrap();
    run(&plan(By::Group, false), &every_kind(), &mut Posix::new(root.path()), None).unwrap();
    assert_eq!(tree(root.path()), ["g0 -1", "g1/f150 150000", "g2/f250 7", "g2/s1 70000"]);
    let mut without = Vec::new();
    Emitter::new(&mut without, &Header::new(Origin::Made)).unwrap().finish().unwrap();
    let error = run(&plan(By::Group, false), &without, &mut Posix::new(root.path()), None).unwrap_err();
    assert!(error.to_string().contains("--by"), "{error}");
}

#[test]
fn a_replay_that_is_stopped_anywhere_goes_on_to_the_same_end() {
    let bytes = every_kind();
    let records = Reader::new(&bytes[..]).unwrap().count() as u64;
    let whole = tempfile::tempdir().unwrap();
    let end = run(&plan(By::Directory, false), &bytes, &mut Posix::new(whole.path()), None).unwrap();
    for at in 1..=records {
        let root = tempfile::tempdir().unwrap();
        let mut target = Posix::new(root.path());
        let stopped = run(&plan(By::Directory, false), &bytes, &mut target, Some(at)).unwrap();
        assert!(stopped.is_stopped && stopped.mismatch_count == 0, "{at}: {stopped:?}");
        assert!(run(&plan(By::Directory, false), &bytes, &mut target, None).is_err(), "only with --continue");
        let outcome = run(&plan(By::Directory, true), &bytes, &mut Posix::new(root.path()), None).unwrap();
        assert_eq!((outcome.tally, outcome.mismatch_count), (end.tally, 0), "stopped after {at}");
        assert_eq!(tree(root.path()), tree(whole.path()));
    }
}

#[test]
fn a_state_is_continued_only_with_its_own_workload_and_placement() {
    let (bytes, root) = (every_kind(), tempfile::tempdir().unwrap());
    let mut target = Posix::new(root.path());
    let error = |plan: &Plan, target: &mut Posix| run(plan, &bytes, target, None).unwrap_err().to_string();
    assert!(error(&plan(By::Directory, true), &mut target).contains("leave out --continue"));
    run(&plan(By::Directory, false), &bytes, &mut target, Some(9)).unwrap();
    assert!(error(&plan(By::Group, true), &mut target).contains("--by"));
    let other = Plan { identity: "b".to_owned(), ..plan(By::Directory, true) };
    assert!(error(&other, &mut target).contains("another workload"));
    std::fs::write(root.path().join(STATE), "{").unwrap();
    assert!(error(&plan(By::Directory, true), &mut target).contains("damaged"));
}

#[test]
fn what_is_in_use_or_no_workload_for_aging_is_refused() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("lost+found")).unwrap();
    std::fs::write(root.path().join("mine"), "").unwrap();
    let error =
        run(&plan(By::Directory, false), &every_kind(), &mut Posix::new(root.path()), None).unwrap_err();
    assert!(error.to_string().contains("not empty: it has mine"), "{error}");
    std::fs::remove_file(root.path().join("mine")).unwrap();
    run(&plan(By::Directory, false), &every_kind(), &mut Posix::new(root.path()), None).unwrap();
    let mut traced = Vec::new();
    Emitter::new(&mut traced, &Header::new(Origin::Strace)).unwrap().finish().unwrap();
    let error = run(&plan(By::Directory, false), &traced, &mut Posix::new(root.path()), None).unwrap_err();
    assert!(error.to_string().contains("firn age workload"), "{error}");
}

#[test]
fn what_is_not_as_it_should_be_at_the_end_is_reported() {
    let (bytes, root) = (every_kind(), tempfile::tempdir().unwrap());
    let meddle = |tally: &Tally| {
        if tally.records == Reader::new(&bytes[..]).unwrap().count() as u64 {
            std::fs::remove_file(root.path().join("d20/f250")).unwrap();
            std::fs::write(root.path().join("d10/f150"), "short").unwrap();
            std::fs::write(root.path().join("d10/new"), "").unwrap();
        }
    };
    let mut progress = |tally: &Tally, _| {
        meddle(tally);
        Ok(())
    };
    let mut target = Posix::new(root.path());
    let reader = Reader::new(&bytes[..]).unwrap();
    let outcome = replay(&plan(By::Directory, false), reader, &mut target, &mut progress).unwrap();
    let expected = [
        "d10/f150: 5 bytes instead of 150000 bytes",
        "d10/new should not exist",
        "d20 is empty: it should have files, or be gone",
        "d20/f250 is missing",
    ];
    assert_eq!((outcome.mismatches, outcome.mismatch_count), (expected.map(str::to_owned).to_vec(), 4));
}

type Traced = Arc<TraceDevice<MemDevice>>;

fn on_ffs<T>(size_bytes: u64, act: impl FnOnce(&Volume<ffs::Ffs>, &VirtualClock) -> T) -> (T, Traced) {
    let options = ffs::MkfsOptions { group_bytes: Some(4 << 20), ..ffs::MkfsOptions::with_size(size_bytes) };
    let device = Arc::new(TraceDevice::new(MemDevice::new(size_bytes)));
    format_ffs(&*device, &options).unwrap();
    let clock = Arc::new(VirtualClock::at(1));
    let volume =
        open_ffs(device.clone(), ffs::Options::default(), AtimeMode::Noatime, clock.clone()).unwrap();
    let done = act(&volume, &clock);
    volume.close().unwrap();
    (done, device)
}

fn on_log<T>(size_bytes: u64, act: impl FnOnce(&Volume<lfs::Lfs>, &VirtualClock) -> T) -> (T, Traced) {
    let options = lfs::MkfsOptions {
        size_bytes,
        block_bytes: 4096,
        segment_bytes: 256 << 10,
        physical_block_bytes: 4096,
        inline_max_bytes: 1024,
        label: String::new(),
        uuid: *b"firnfs: a replay",
        hash_key: [1, 2],
        now: TimeNs(1),
        root_owner: (0, 0),
    };
    let device = Arc::new(TraceDevice::new(MemDevice::new(size_bytes)));
    format(&*device, &options).unwrap();
    let clock = Arc::new(VirtualClock::at(1));
    let volume = open(device.clone(), lfs::Options::default(), AtimeMode::Noatime, clock.clone()).unwrap();
    let done = act(&volume, &clock);
    volume.close().unwrap();
    (done, device)
}

#[test]
fn a_volume_has_the_same_tree_and_files_are_as_old_as_the_workload_says() {
    let bytes = every_kind();
    on_ffs(32 << 20, |volume, clock| {
        let mut target = OnVolume::new(volume, clock);
        let outcome = run(&plan(By::Directory, false), &bytes, &mut target, None).unwrap();
        assert_eq!((outcome.mismatch_count, outcome.files), (0, 3));
        let taken = image(volume, &mut |_| Ok(())).unwrap();
        let mut days: Vec<i64> = taken
            .files
            .values()
            .filter(|entry| entry.kind == REGULAR)
            .map(|entry| entry.ctime_ns / 86_400_000_000_000)
            .collect();
        days.sort_unstable();
        assert_eq!(days, [3, 6, 11], "grown on day 3, moved on day 6, made on day 11");
    });
}

#[test]
fn the_same_workload_makes_the_same_requests_to_the_device() {
    let plan_of = Random { size_bytes: 16 << 20, full_percent: 60, operations: 400, seed: 2 };
    let mut bytes = Vec::new();
    random(&plan_of, &mut bytes).unwrap();
    fn replayed<S: Engine>(bytes: &[u8], volume: &Volume<S>, clock: &VirtualClock) {
        let mut target = OnVolume::new(volume, clock);
        let outcome = run(&plan(By::Directory, false), bytes, &mut target, None).unwrap();
        assert_eq!(outcome.mismatch_count, 0);
    }
    let fast = || on_ffs(32 << 20, |volume, clock| replayed(&bytes, volume, clock)).1.take();
    let log = || on_log(32 << 20, |volume, clock| replayed(&bytes, volume, clock)).1.take();
    let (first_fast, first_log) = (fast(), log());
    assert!(first_fast.len() > 1000 && first_log.len() > 500, "{} {}", first_fast.len(), first_log.len());
    assert!(first_fast == fast() && first_log == log());
}

#[test]
fn a_workload_that_claims_any_length_is_an_error_or_lacks_room() {
    let write = |offset: u64, length: u64| {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, &header()).unwrap();
        let create = Record::new(0, Op::Create, FileId(ROOT));
        writer.push(&Record { made: FileId(9), name: b"f9".to_vec(), ..create }).unwrap();
        let write: Record = Record::new(0, Op::Write, FileId(9));
        writer.push(&Record { offset: Some(offset), length: Some(length), ..write }).unwrap();
        writer.finish(End::Last).unwrap();
        bytes
    };
    for (offset, length) in [(u64::MAX - 9, 100), (0, u64::MAX)] {
        let bytes = write(offset, length);
        let (outcome, _) = on_log(32 << 20, |volume, clock| {
            run(&plan(By::Directory, false), &bytes, &mut OnVolume::new(volume, clock), None)
        });
        assert!(outcome.is_err() || outcome.is_ok_and(|outcome| outcome.tally.refused == 1), "{offset}");
        let root = tempfile::tempdir().unwrap();
        if offset > 0 {
            assert!(run(&plan(By::Directory, false), &bytes, &mut Posix::new(root.path()), None).is_err());
        }
    }
}

#[test]
fn without_room_files_are_left_out_and_the_rest_is_right_also_after_a_stop() {
    let plan_of = Random { size_bytes: 64 << 20, full_percent: 90, operations: 600, seed: 3 };
    let mut bytes = Vec::new();
    random(&plan_of, &mut bytes).unwrap();
    let (refused, _) = on_ffs(16 << 20, |volume, clock| {
        let mut target = OnVolume::new(volume, clock);
        let outcome = run(&plan(By::Directory, false), &bytes, &mut target, None).unwrap();
        assert_eq!(outcome.mismatch_count, 0, "{:?}", outcome.mismatches);
        outcome.tally.refused
    });
    assert!(refused > 10, "{refused}");
    fn stopped_and_continued<S: Engine>(bytes: &[u8], volume: &Volume<S>, clock: &VirtualClock) {
        let mut target = OnVolume::new(volume, clock);
        let stopped = run(&plan(By::Directory, false), bytes, &mut target, Some(900)).unwrap();
        assert!(stopped.tally.refused > 0 && stopped.mismatch_count == 0);
        let mut target = OnVolume::new(volume, clock);
        let outcome = run(&plan(By::Directory, true), bytes, &mut target, None).unwrap();
        assert_eq!(outcome.mismatch_count, 0, "{:?}", outcome.mismatches);
    }
    on_ffs(16 << 20, |volume, clock| stopped_and_continued(&bytes, volume, clock));
    on_log(16 << 20, |volume, clock| stopped_and_continued(&bytes, volume, clock));
}
