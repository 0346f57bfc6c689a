use super::changes::{between, populate};
use super::profile::{DAY_NS, ShortFile, peak};
use super::*;
use crate::age::snapshot::{DIRECTORY, Entry, Extent, Generations, Meta, REGULAR, Snapshot};
use firnfs_workload::{FileId, Op, Outcome, Reader, Record};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::process::Command;

const DAY: i64 = DAY_NS as i64;
const HOUR: i64 = DAY / 24;
const ROOT_INO: u64 = 2;

fn extent(file_at_bytes: u64, disk_at_bytes: u64, len_bytes: u64) -> Extent {
    Extent { file_at_bytes, disk_at_bytes, len_bytes }
}

fn file(generation: u64, dir: u64, size_bytes: u64, ctime_ns: i64) -> Entry {
    let extents = if size_bytes > 0 { vec![extent(0, 1 << 20, size_bytes)] } else { Vec::new() };
    Entry { generation, kind: REGULAR, dir, size_bytes, ctime_ns, extents }
}

/// The state after that many days: a root and directories 10 and 20, and these files.
fn night(day: i64, files: &[(u64, Entry)]) -> Snapshot {
    let dir = |dir| Entry { generation: 1, kind: DIRECTORY, dir, ..Entry::default() };
    let dirs = [(ROOT_INO, dir(0)), (10, dir(ROOT_INO)), (20, dir(ROOT_INO))];
    let meta = Meta {
        taken_ns: day * DAY,
        fs_type: "test".to_owned(),
        size_bytes: 100 << 20,
        block_bytes: 8192,
        segment_bytes: 0,
        groups: None,
        generations: Generations::Stored,
        unmapped_files: 0,
        free: None,
        base: None,
    };
    Snapshot { meta, files: dirs.into_iter().chain(files.iter().cloned()).collect() }
}

/// What happened to the one file between the days 1 and 2, with times in hours since day 1.
fn changes(before: Option<Entry>, after: Option<Entry>) -> Vec<(i64, u64, Act)> {
    let state = |day, entry: Option<Entry>| {
        night(day, &entry.map(|entry| (100, entry)).into_iter().collect::<Vec<_>>())
    };
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let events = between(&state(1, before), &state(2, after), &mut rng);
    assert!(events.iter().all(|event| event.file == 100 && (DAY..=2 * DAY).contains(&event.time_ns)));
    events.iter().map(|event| ((event.time_ns - DAY) / HOUR, event.dir, event.act)).collect()
}

#[test]
fn a_new_file_is_created_at_the_time_in_its_inode() {
    let create = Act::Create { size_bytes: 9000 };
    assert_eq!(changes(None, Some(file(1, 10, 9000, DAY + 5 * HOUR))), [(5, 10, create)]);
    // A time outside the two nights is not believed.
    assert_eq!(changes(None, Some(file(1, 10, 9000, 0))), [(0, 10, create)]);
    assert_eq!(changes(None, Some(file(1, 10, 9000, 9 * DAY))), [(24, 10, create)]);
}

#[test]
fn a_deleted_file_goes_at_a_random_time_between_the_nights() {
    let times = |seed| {
        let files: Vec<_> = (100..200).map(|ino| (ino, file(1, 10, 1, 0))).collect();
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let events = between(&night(1, &files), &night(2, &[]), &mut rng);
        assert!(events.iter().all(|event| event.act == Act::Delete && event.dir == 10));
        events.iter().map(|event| event.time_ns - DAY).collect::<Vec<_>>()
    };
    let found = times(7);
    assert_eq!(found.len(), 100);
    assert!(found.iter().all(|&at| (0..DAY).contains(&at)));
    let early = found.iter().filter(|&&at| at < DAY / 2).count();
    assert!((35..=65).contains(&early), "{early} of 100 in the first half");
    assert_eq!(found, times(7), "the seed decides");
    assert_ne!(found, times(8));
}

#[test]
fn the_same_generation_is_a_modified_file() {
    let old = file(1, 10, 9000, 0);
    let at = DAY + 3 * HOUR;
    assert_eq!(changes(Some(old.clone()), Some(old.clone())), [], "nothing happened");
    let touched = Entry { ctime_ns: at, ..old.clone() };
    assert_eq!(changes(Some(old.clone()), Some(touched)), [(3, 10, Act::Touch)]);
    // The same size elsewhere, and a smaller one: written anew.
    let elsewhere = Entry { extents: vec![extent(0, 5 << 20, 9000)], ctime_ns: at, ..old.clone() };
    assert_eq!(changes(Some(old.clone()), Some(elsewhere)), [(3, 10, Act::Rewrite { size_bytes: 9000 })]);
    let smaller = file(1, 10, 100, at);
    assert_eq!(changes(Some(old.clone()), Some(smaller)), [(3, 10, Act::Rewrite { size_bytes: 100 })]);
    // Moved by the file system itself.
    let coalesced = Entry { extents: vec![extent(0, 5 << 20, 9000)], ..old.clone() };
    assert_eq!(changes(Some(old), Some(coalesced)), []);
}

#[test]
fn a_file_that_grew_and_kept_its_blocks_was_appended_to() {
    let grown = |extents| Entry { extents, ..file(1, 10, 300_000, DAY) };
    let old = Entry { extents: vec![extent(0, 0, 200_000)], ..file(1, 10, 200_000, 0) };
    let grow = Act::Grow { from_bytes: 200_000, size_bytes: 300_000 };
    let rewrite = Act::Rewrite { size_bytes: 300_000 };
    assert_eq!(changes(Some(old.clone()), Some(grown(vec![extent(0, 0, 300_000)]))), [(0, 10, grow)]);
    let moved_tail = vec![extent(0, 0, 196_608), extent(196_608, 1 << 20, 103_392)];
    assert_eq!(changes(Some(old.clone()), Some(grown(moved_tail))), [(0, 10, grow)]);
    assert_eq!(changes(Some(old), Some(grown(vec![extent(0, 4 << 20, 300_000)]))), [(0, 10, rewrite)]);
    // Without places the size has to decide.
    let blind = |size| Entry { extents: Vec::new(), ..file(1, 10, size, DAY * i64::from(size > 200_000)) };
    assert_eq!(changes(Some(blind(200_000)), Some(blind(300_000))), [(0, 10, grow)]);
}

#[test]
fn another_generation_is_another_file_and_the_old_one_goes_just_before() {
    let found = changes(Some(file(1, 10, 9000, 0)), Some(file(2, 20, 50, DAY + 7 * HOUR)));
    assert_eq!(found, [(7, 10, Act::Delete), (7, 20, Act::Create { size_bytes: 50 })]);
}

#[test]
fn a_file_in_another_directory_was_moved() {
    let old = file(1, 10, 9000, 0);
    let moved = Entry { dir: 20, ctime_ns: DAY + HOUR, ..old.clone() };
    assert_eq!(changes(Some(old.clone()), Some(moved)), [(1, 10, Act::Move { to_dir: 20 })]);
    let grown = file(1, ROOT_INO, 90_000, DAY + HOUR);
    let found = changes(Some(old), Some(grown));
    assert_eq!(found[0], (1, 10, Act::Move { to_dir: ROOT }));
    assert_eq!(found[1], (1, ROOT, Act::Grow { from_bytes: 9000, size_bytes: 90_000 }));
}

#[test]
fn a_directory_that_is_gone_is_removed_after_its_files() {
    let old = night(1, &[(100, file(1, 20, 1, 0))]);
    let mut new = night(2, &[]);
    new.files.remove(&20);
    let events = between(&old, &new, &mut Pcg64Mcg::seed_from_u64(1));
    let acts: Vec<_> = events.iter().map(|event| (event.dir, event.act)).collect();
    assert_eq!(acts, [(20, Act::Delete), (20, Act::RemoveDirectory)]);
}

#[test]
fn the_first_snapshot_is_populated_in_the_order_of_changes() {
    let first =
        night(9, &[(100, file(1, 10, 1, 500)), (101, file(1, ROOT_INO, 2, 300)), (102, file(1, 20, 3, 400))]);
    let order: Vec<_> = populate(&first).iter().map(|event| (event.file, event.dir)).collect();
    assert_eq!(order, [(101, ROOT), (102, 20), (100, 10)]);
}

fn record(hour: u64, op: Op, dir: u64, name: &str) -> Record {
    let (time, outcome) = (hour * (DAY_NS / 24), Outcome::Done(0));
    Record { name: name.as_bytes().to_vec(), outcome, ..Record::new(time, op, FileId(dir)) }
}

fn made(file: u64, record: Record) -> Record {
    Record { made: FileId(file), ..record }
}

fn written(hour: u64, file: u64, len: u64) -> Record {
    Record { offset: Some(0), outcome: Outcome::Done(len), ..record(hour, Op::Write, file, "") }
}

#[test]
fn a_profile_has_the_files_of_one_directory_that_were_made_and_deleted_on_one_day() {
    let trace = [
        made(50, record(1, Op::Create, 10, "tmp")),
        written(2, 50, 777),
        made(51, record(2, Op::Create, 20, "stays")),
        record(3, Op::Unlink, 10, "tmp"),
        made(52, record(4, Op::Create, 10, "new")),
        // Replaces `old`, which was there before: only the name of 52 changes.
        Record { to_file: FileId(10), to_name: b"old".to_vec(), ..record(5, Op::Rename, 10, "new") },
        record(6, Op::Unlink, 10, "old"),
        made(53, record(20, Op::Create, 10, "over night")),
        record(26, Op::Unlink, 10, "over night"),
        made(54, record(27, Op::Create, 10, "next day")),
        record(28, Op::Unlink, 10, "next day"),
    ];
    let profiles = cut(trace.into_iter().map(Ok), 0).unwrap();
    let hour = DAY_NS / 24;
    let short = |made, deleted, size_bytes| ShortFile {
        made_ns: made * hour,
        deleted_ns: deleted * hour,
        size_bytes,
    };
    let files: Vec<_> = profiles.iter().map(|profile| profile.files.clone()).collect();
    assert_eq!(files, [vec![short(1, 3, 777), short(4, 6, 0)], vec![short(3, 4, 0)]]);
}

#[test]
fn creates_of_traces_that_do_not_say_which_file_was_made_have_profiles_and_copies_have_a_size() {
    let of = |client, record: Record| Record { client, ..record };
    let copied = Record {
        to_file: FileId(60),
        to_offset: Some(5000),
        outcome: Outcome::Done(2000),
        ..record(4, Op::Copy, 7, "")
    };
    let trace = [
        of(1, record(1, Op::Create, 10, "written")),
        of(2, record(2, Op::Create, 10, "never written")),
        of(1, written(3, 50, 777)),
        record(4, Op::Unlink, 10, "written"),
        record(4, Op::Unlink, 10, "never written"),
        made(60, record(4, Op::Create, 20, "copied")),
        copied,
        record(5, Op::Unlink, 20, "copied"),
    ];
    let profiles = cut(trace.into_iter().map(Ok), 0).unwrap();
    let sizes: Vec<Vec<u64>> =
        profiles.iter().map(|profile| profile.files.iter().map(|file| file.size_bytes).collect()).collect();
    assert_eq!(sizes, [vec![777, 0], vec![7000]]);
}

#[test]
fn failed_calls_make_no_profile_and_paths_say_the_directory() {
    let failed = Record { outcome: Outcome::Failed(2), ..record(2, Op::Unlink, 0, "/tmp/x/a") };
    let trace = [
        made(50, record(1, Op::Create, 0, "/tmp/x/a")),
        failed,
        made(51, record(3, Op::Create, 0, "/tmp/y/b")),
        record(4, Op::Unlink, 0, "/tmp/x/a"),
        record(5, Op::Unlink, 0, "/tmp/y/b"),
    ];
    let profiles = cut(trace.into_iter().map(Ok), 0).unwrap();
    assert_eq!(profiles.len(), 2, "two directories");
    assert_eq!(profiles.iter().map(|profile| profile.files.len()).sum::<usize>(), 2);
    assert!(profiles.iter().any(|profile| profile.files[0].deleted_ns == 4 * DAY_NS / 24));
}

#[test]
fn the_peak_is_the_hour_in_which_most_happens() {
    let hour = DAY_NS / 24;
    assert_eq!(peak([].into_iter()), 0);
    assert_eq!(peak([hour, 9 * hour, 9 * hour + hour / 2, 15 * hour].into_iter()), 9 * hour + hour / 4);
}

fn profile(files: u64) -> Profile {
    let at = |nth: u64| ShortFile { made_ns: nth, deleted_ns: nth + 1_000_000_000, size_bytes: 100 + nth };
    Profile { files: (0..files).map(at).collect() }
}

fn workload(series: &Series<'_>, nights: &[Snapshot]) -> (Vec<u8>, Counts) {
    let mut bytes = Vec::new();
    let counts = from_snapshots(series, &mut nights.iter().cloned().map(Ok), &mut bytes).unwrap();
    (bytes, counts)
}

fn records(bytes: &[u8]) -> Vec<Record> {
    Reader::new(bytes).unwrap().map(|record| record.unwrap()).collect()
}

/// Days 1, 2 and 3: on each a file in directory 10 is made at noon, and ten in 20 at 18:00.
fn three_nights() -> Vec<Snapshot> {
    let new = |day: i64| {
        let few = [(day.cast_unsigned() * 100, file(1, 10, 1, day * DAY + 12 * HOUR))];
        let many =
            (1..11).map(move |n| (day.cast_unsigned() * 100 + n, file(1, 20, 1, day * DAY + 18 * HOUR)));
        few.into_iter().chain(many)
    };
    (1..4).map(|day| night(day, &(1..day).flat_map(new).collect::<Vec<_>>())).collect()
}

#[test]
fn each_day_gets_a_profile_for_every_40_mb_in_its_active_directories_at_their_peak() {
    let profiles = [profile(3)];
    let series = Series { profiles: &profiles, profiles_from: "test", seed: 1 };
    let (bytes, counts) = workload(&series, &three_nights());
    // 100 MB: two profiles a day, on two days; the first night has no day before it.
    assert_eq!((counts.short_lived, counts.creates, counts.deletes), (12, 34, 12));
    let all = records(&bytes);
    let start = Reader::new(&bytes[..]).unwrap().header().start_ns.cast_signed();
    for record in all.iter().filter(|r| r.op == Op::Create && r.made.0 >= SHORT_LIVED) {
        let hour_of_day = (start + record.time_ns.cast_signed()) % DAY / HOUR;
        let expected = if record.file == FileId(10) { 11..=12 } else { 17..=18 };
        assert!(expected.contains(&hour_of_day), "directory {} at {hour_of_day}", record.file.0);
    }
    assert!(all.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
    assert_eq!(counts.left_files, 22);
}

#[test]
fn a_quiet_day_and_a_series_without_profiles_get_no_short_lived_files() {
    let nights = [night(1, &[]), night(2, &[])];
    let profiles = [profile(3)];
    let series = |profiles| Series { profiles, profiles_from: "test", seed: 1 };
    assert_eq!(workload(&series(&profiles), &nights).1.short_lived, 0);
    assert_eq!(workload(&series(&[]), &three_nights()).1.short_lived, 0);
}

#[test]
fn a_directory_is_made_before_its_files_and_each_name_exists_once() {
    let profiles = Preset::Engineering.profiles(3);
    let (bytes, counts) =
        workload(&Series { profiles: &profiles, profiles_from: "test", seed: 1 }, &three_nights());
    let mut names = std::collections::BTreeSet::new();
    let mut dirs = std::collections::BTreeSet::from([FileId(ROOT)]);
    for record in records(&bytes) {
        match record.op {
            Op::Mkdir => assert!(dirs.insert(record.made)),
            Op::Create => assert!(dirs.contains(&record.file) && names.insert((record.file, record.name))),
            Op::Unlink => assert!(names.remove(&(record.file, record.name))),
            _ => {}
        }
    }
    assert_eq!(names.len() as u64, counts.left_files);
    assert!(counts.short_lived > 50);
}

#[test]
fn the_same_seed_makes_the_same_bytes_and_snapshots_have_an_order() {
    let profiles = Preset::News.profiles(3);
    let series = |seed| Series { profiles: &profiles, profiles_from: "test", seed };
    assert_eq!(workload(&series(5), &three_nights()).0, workload(&series(5), &three_nights()).0);
    assert_ne!(workload(&series(5), &three_nights()).0, workload(&series(6), &three_nights()).0);
    let mut wrong = three_nights();
    wrong.swap(0, 2);
    let mut nights = wrong.into_iter().map(Ok);
    assert!(from_snapshots(&series(5), &mut nights, Vec::new()).unwrap_err().to_string().contains("order"));
}

#[test]
fn presets_differ_and_their_files_live_shortly() {
    let mut means = Vec::new();
    for preset in Preset::ALL {
        let profiles = preset.profiles(1);
        assert_eq!(profiles.len(), 449, "as many as in the paper");
        let files: Vec<_> = profiles.iter().flat_map(|profile| &profile.files).collect();
        assert!(files.iter().all(|file| file.made_ns <= file.deleted_ns && file.deleted_ns < DAY_NS));
        means.push(files.iter().map(|file| file.size_bytes).sum::<u64>() / files.len() as u64);
    }
    means.sort_unstable();
    assert!(means.windows(2).all(|pair| pair[0] * 5 < pair[1] * 4), "{means:?}");
}

#[test]
fn the_random_ager_fills_and_stays_as_full_as_it_should() {
    let plan = Random { size_bytes: 100 << 20, full_percent: 70, operations: 5000, seed: 1 };
    let mut bytes = Vec::new();
    let counts = random(&plan, &mut bytes).unwrap();
    assert_eq!(counts.operations(), 5000);
    let (mut sizes, mut live) = (std::collections::BTreeMap::new(), 0);
    for record in records(&bytes) {
        match record.op {
            Op::Write => {
                live += record.length.unwrap();
                sizes.insert(record.file, record.length.unwrap());
            }
            Op::Unlink => live -= sizes[&record.made],
            _ => {}
        }
    }
    let full = live as f64 / (100 << 20) as f64;
    assert!((0.66..=0.745).contains(&full), "{full}");
}

#[test]
fn a_repository_is_checked_out_commit_by_commit_and_built() {
    let directory = tempfile::tempdir().unwrap();
    let script = r#"
        git init -q . && git config user.email a@b && git config user.name a
        commit() { git add -A && GIT_COMMITTER_DATE="$1 +0000" git commit -q -m x --date "$1 +0000"; }
        mkdir src && printf 0123456789 >src/a.c && printf 1 >README && commit 1000000000
        printf 01234567890123 >src/a.c && commit 1000001000
        git rm -q README && printf 5 >"src/ü b" && commit 1000002000
    "#;
    let ran = Command::new("sh").args(["-euc", script]).current_dir(directory.path()).output();
    if !ran.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no git");
        return;
    }
    let repository = Repository {
        path: directory.path().to_owned(),
        commits_max: None,
        build_every: 0,
        checkout_every: 0,
        seed: 1,
    };
    let run = |repository: &Repository| {
        let (mut bytes, mut commits) = (Vec::new(), 0);
        let counts = from_git(repository, &mut bytes, &mut |n| {
            commits = n;
            Ok(())
        })
        .unwrap();
        (records(&bytes), counts, commits)
    };
    let (records, counts, commits) = run(&repository);
    let acts: Vec<_> = records
        .iter()
        .filter(|r| [Op::Create, Op::Unlink, Op::Write].contains(&r.op))
        .map(|r| (r.time_ns / 1_000_000_000, r.op, r.length))
        .collect();
    let expected = [
        (0, Op::Create, None),
        (0, Op::Write, Some(1)),
        (0, Op::Create, None),
        (0, Op::Write, Some(10)),
        (1000, Op::Unlink, None),
        (1000, Op::Create, None),
        (1000, Op::Write, Some(14)),
        (2000, Op::Unlink, None),
        (2000, Op::Create, None),
        (2000, Op::Write, Some(1)),
    ];
    assert_eq!(acts, expected);
    assert_eq!((counts.left_files, counts.directories, commits), (2, 1, 3));
    let (_, built, _) = run(&Repository { build_every: 1, ..repository.clone() });
    // Two commits change a source: an object and the program each.
    assert_eq!(built.left_files, 4);
    assert_eq!(built.creates - built.short_lived, 4 + 4);
    assert!(built.short_lived > 0);
    let (records, back, _) = run(&Repository { checkout_every: 2, ..repository.clone() });
    // After the second commit the first state and the second: only a.c differs.
    let looked: Vec<_> = records
        .iter()
        .filter(|r| r.time_ns / 1_000_000_000 == 1000 && r.op == Op::Write)
        .chain(records.iter().filter(|r| r.time_ns / 1_000_000_000 == 1060 && r.op == Op::Write))
        .map(|r| r.length.unwrap())
        .collect();
    assert_eq!((looked, back.left_files), (vec![14, 10, 14], 2));
    let (_, last, commits) = run(&Repository { commits_max: Some(1), ..repository });
    // What was there before the last commit, and what that adds.
    assert_eq!((last.creates, last.left_files, commits), (2 + 1, 2, 1));
    let none =
        Repository { path: "/nowhere".into(), commits_max: None, build_every: 0, checkout_every: 0, seed: 1 };
    assert!(from_git(&none, Vec::new(), &mut |_| Ok(())).is_err());
}
