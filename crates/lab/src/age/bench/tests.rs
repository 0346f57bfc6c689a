use super::*;
use crate::age::replay::{Plan, Posix, replay};
use crate::age::workload::{Act, Emitter, Event, ROOT};
use firnfs_workload::{Header, Origin};
use std::cell::Cell;
use std::time::{Duration, SystemTime};

/// Counts what it is asked for.
#[derive(Default)]
struct Counting {
    syncs: u32,
    cooled: u32,
    /// Files in each directory of the run.
    seen: Vec<usize>,
    /// What to do to the files before they are read.
    damages: bool,
    /// Calls of `go_on` until it refuses; never if it is `None`.
    stops_after: Option<u32>,
    asked: Cell<u32>,
}

impl Help for Counting {
    fn go_on(&self) -> Result<(), LabError> {
        let asked = self.asked.replace(self.asked.get() + 1);
        if self.stops_after == Some(asked) { Err(LabError::Interrupted) } else { Ok(()) }
    }

    fn sync(&mut self, _dir: &Path) -> Result<(), LabError> {
        self.syncs += 1;
        Ok(())
    }

    fn cool(&mut self, dir: &Path) -> Result<(), LabError> {
        self.cooled += 1;
        if self.damages {
            fs::write(dir.join("0/1"), vec![0; 1 << 20]).unwrap();
        }
        forget(dir)
    }

    fn examine(&mut self, dir: &Path) -> Result<(), LabError> {
        let inner = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        self.seen = inner.map(|dir| fs::read_dir(dir).unwrap().count()).collect();
        self.seen.sort_unstable();
        Ok(())
    }
}

#[test]
fn a_sequential_run_has_32_mb_in_directories_of_25_files_and_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let mut help = Counting::default();
    let row = sequential(root.path(), 1 << 20, 2, &mut help).unwrap();
    assert_eq!((row.files, row.bytes), (32, 32 << 20));
    assert_eq!((help.syncs, help.cooled, help.seen), (2, 2, vec![7, 25]));
    assert!(row.read.mean > 0.0 && row.write.mean > 0.0);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    let large = sequential(root.path(), 32 << 20, 1, &mut Counting::default()).unwrap();
    assert_eq!((large.files, large.read.deviation), (1, 0.0));
}

#[test]
fn a_run_stops_at_any_file_and_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    // While files are made, and while they are read.
    for stops_after in [0, 5, 31, 32, 40] {
        let mut help = Counting { stops_after: Some(stops_after), ..Counting::default() };
        let stopped = sequential(root.path(), 1 << 20, 1, &mut help);
        assert!(matches!(stopped, Err(LabError::Interrupted)), "{stops_after}: {stopped:?}");
        assert_eq!((help.asked.get(), help.syncs), (stops_after + 1, u32::from(stops_after >= 32)));
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
    fs::write(root.path().join("hot"), "content").unwrap();
    for stops_after in [0, 1] {
        let mut help = Counting { stops_after: Some(stops_after), ..Counting::default() };
        let stopped = hot(root.path(), &[root.path().join("hot")], 1, &mut help);
        assert!(matches!(stopped, Err(LabError::Interrupted)), "{stops_after}: {stopped:?}");
    }
}

#[test]
fn content_that_changed_is_found_and_a_directory_in_the_way_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let mut help = Counting { damages: true, ..Counting::default() };
    let error = sequential(root.path(), 1 << 20, 1, &mut help).unwrap_err();
    assert!(matches!(error, LabError::WrongData { at_bytes: 0, .. }), "{error}");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    fs::create_dir(root.path().join(PLAYGROUND)).unwrap();
    assert!(sequential(root.path(), 1 << 20, 1, &mut Counting::default()).is_err());
    assert!(root.path().join(PLAYGROUND).exists());
}

#[test]
fn hot_files_are_read_and_overwritten_by_directory_and_keep_what_they_have() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("b")).unwrap();
    let names = ["z", "b/a", "b/y"];
    for (nth, name) in names.iter().enumerate() {
        fs::write(root.path().join(name), vec![nth as u8; 100_000]).unwrap();
    }
    fs::write(root.path().join("empty"), "").unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = File::options().write(true).open(root.path().join("z")).unwrap();
    file.set_times(FileTimes::new().set_modified(old)).unwrap();
    let hot_files = hot_by_time(root.path(), 30).unwrap();
    assert_eq!(hot_files, names.map(|name| root.path().join(name)));
    let row = hot(root.path(), &hot_files, 3, &mut Counting::default()).unwrap();
    assert_eq!((row.files, row.bytes, row.file_bytes), (3, 300_000, 100_000));
    for (nth, name) in names.iter().enumerate() {
        assert_eq!(fs::read(root.path().join(name)).unwrap(), vec![nth as u8; 100_000]);
    }
    assert_eq!(fs::metadata(root.path().join("z")).unwrap().modified().unwrap(), old);
    assert!(hot(root.path(), &[], 1, &mut Counting::default()).is_err());
}

#[test]
fn a_workload_says_which_files_of_its_replay_are_hot() {
    let mut header = Header::new(Origin::Made);
    for (name, value) in [("groups", 2), ("group_inodes", 102), ("first_inode", 0), ("root_inode", 2)] {
        header.options.push((name.to_owned(), value.to_string()));
    }
    let mut bytes = Vec::new();
    let mut emitter = Emitter::new(&mut bytes, &header).unwrap();
    let create = Act::Create { size_bytes: 10 };
    let events = [
        (0, 10, 100, create),
        (1, 10, 101, create),
        (2, 20, 102, create),
        (70, 10, 101, Act::Rewrite { size_bytes: 5 }),
        (80, 20, 102, Act::Move { to_dir: 10 }),
        (90, ROOT, 103, create),
        (95, 20, 104, create),
        (96, 20, 104, Act::Delete),
        (97, 20, 105, Act::Create { size_bytes: 0 }),
    ];
    for (day, dir, file, act) in events {
        emitter.event(&Event { time_ns: day * DAY_NS, dir, file, act }).unwrap();
    }
    emitter.finish().unwrap();
    let reader = || Reader::new(&bytes[..]).unwrap();
    let of_group = ["g0/f101", "g1/f102", "g1/f103"];
    for (by, expected) in [(By::Directory, ["f103", "d10/f101", "d10/f102"]), (By::Group, of_group)] {
        let root = tempfile::tempdir().unwrap();
        let plan = Plan { by, continues: false, identity: String::new() };
        replay(&plan, reader(), &mut Posix::new(root.path()), &mut |_, _| Ok(())).unwrap();
        let hot_files = || hot_by_workload(reader(), root.path(), by, 30).unwrap();
        assert_eq!(hot_files(), expected.map(|name| root.path().join(name)));
        // A file for which there was no room.
        fs::remove_file(root.path().join(expected[0])).unwrap();
        assert_eq!(hot_files(), expected[1..].iter().map(|name| root.path().join(name)).collect::<Vec<_>>());
    }
}

#[test]
fn rates_have_a_mean_and_a_deviation() {
    assert_eq!(Rate::of(&[4.0]), Rate { mean: 4.0, deviation: 0.0 });
    let rate = Rate::of(&[1.0, 2.0, 3.0]);
    assert!((rate.mean - 2.0).abs() < 1e-12 && (rate.deviation - 1.0).abs() < 1e-12);
}
