//! Recording a live mount: what programs do is what the file says.

use crate::common::{
    ALL, Kind, Mount, can_mount, eventually, firn, firn_json, firn_ok, is_root, pattern, shell,
};
use crate::schema;
use firnfs_workload::{End, Error, FileId, Op, Outcome, Reader, Record};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// All records of a whole file, and how many were lost.
fn read(path: &Path) -> (Vec<Record>, u64) {
    let mut reader = Reader::new(File::open(path).unwrap()).unwrap();
    let records: Vec<Record> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(reader.end(), Some(End::Last), "{}", path.display());
    (records, reader.lost())
}

fn record(mount: &Mount, words: &[&str]) -> String {
    let mut all = vec!["record", mount.mnt.to_str().unwrap()];
    all.extend(words);
    firn_ok(&all)
}

fn refused(mount: &Mount, words: &[&str]) -> String {
    let mut all = vec!["record", mount.mnt.to_str().unwrap()];
    all.extend(words);
    let output = firn(&all);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(4) && stderr.lines().count() == 1, "{words:?}: {stderr}");
    stderr
}

/// Calls whose requests do not depend on what the kernel has cached.
fn known_calls(mnt: &Path) {
    fs::create_dir(mnt.join("d")).unwrap();
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(mnt.join("d/a")).unwrap();
    file.write_all_at(&pattern(1, 8192), 4096).unwrap();
    file.sync_all().unwrap();
    file.set_len(5000).unwrap();
    fs::hard_link(mnt.join("d/a"), mnt.join("d/b")).unwrap();
    fs::rename(mnt.join("d/b"), mnt.join("c")).unwrap();
    std::os::unix::fs::symlink("to nowhere", mnt.join("s")).unwrap();
    assert!(fs::metadata(mnt.join("absent")).is_err());
    assert!(fs::remove_dir(mnt.join("d")).is_err());
    fs::remove_file(mnt.join("c")).unwrap();
}

#[test]
fn a_known_sequence_of_calls_is_what_the_file_says() {
    if !can_mount() {
        return;
    }
    for kind in ALL {
        let mount = Mount::new(kind);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.fwl");
        record(&mount, &["start", file.to_str().unwrap()]);
        known_calls(&mount.mnt);
        let stopped = record(&mount, &["stop"]);
        // After the stop nothing is recorded.
        fs::create_dir(mount.path("later")).unwrap();
        let (records, lost) = read(&file);
        assert!(lost == 0 && stopped.contains(&format!("{} records", records.len())), "{kind:?}: {stopped}");

        let root = FileId(1);
        let made =
            |name: &str| records.iter().find(|r| r.name == name.as_bytes() && r.made.is_some()).unwrap().made;
        let (d, a) = (made("d"), made("a"));
        let asked = [
            Op::Mkdir,
            Op::Create,
            Op::Write,
            Op::Fsync,
            Op::Truncate,
            Op::Link,
            Op::Rename,
            Op::Symlink,
            Op::Unlink,
            Op::Rmdir,
        ];
        let seen: Vec<_> = records
            .iter()
            .filter(|r| asked.contains(&r.op))
            .map(|r| {
                (r.op, r.file, text(&r.name), r.to_file, text(&r.to_name), r.offset, r.length, r.outcome)
            })
            .collect();
        let done = Outcome::Done(0);
        let none = FileId::NONE;
        let wanted = [
            (Op::Mkdir, root, "d", none, "", None, None, done),
            (Op::Create, d, "a", none, "", None, None, done),
            (Op::Write, a, "", none, "", Some(4096), Some(8192), Outcome::Done(8192)),
            (Op::Fsync, a, "", none, "", None, None, done),
            (Op::Truncate, a, "", none, "", None, Some(5000), done),
            (Op::Link, a, "", d, "b", None, None, done),
            (Op::Rename, d, "b", root, "c", None, None, done),
            (Op::Symlink, root, "s", none, "to nowhere", None, None, done),
            (Op::Rmdir, root, "d", none, "", None, None, Outcome::Failed(39)),
            (Op::Unlink, root, "c", none, "", None, None, done),
        ];
        let wanted: Vec<_> = wanted
            .into_iter()
            .map(|w| (w.0, w.1, w.2.to_owned(), w.3, w.4.to_owned(), w.5, w.6, w.7))
            .collect();
        assert_eq!(seen, wanted, "{kind:?}");
        let absent = records.iter().find(|r| r.op == Op::Lookup && r.name == b"absent").unwrap();
        assert_eq!(absent.outcome, Outcome::Failed(2), "{kind:?}");
        // The kernel names the thread, not the process.
        let me = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        assert!(records.iter().any(|r| r.op == Op::Write && r.client == me), "{kind:?}");
        assert!(records.iter().all(|r| r.duration_ns.is_some_and(|ns| ns > 0)), "{kind:?}");
        mount.umount();
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

#[test]
fn a_mount_that_records_from_its_beginning_misses_no_request() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.fwl");
    let options = ["--record", file.to_str().unwrap(), "--record-hash-names"];
    let mount = Mount::with(Kind::Image, "512M", &options);
    shell(
        &mount.mnt,
        "for t in 1 2 3 4; do
            ( mkdir $t; for n in $(seq 200); do echo $n > $t/f$n; done; ls -l $t > /dev/null; rm $t/f1* ) &
         done; wait",
    );
    let counted: Vec<(Op, u64)> = [
        (Op::Mkdir, "mkdir"),
        (Op::Create, "create"),
        (Op::Write, "write"),
        (Op::Unlink, "unlink"),
        (Op::Getxattr, "getxattr"),
    ]
    .map(|(op, name)| (op, mount.requests(name)))
    .to_vec();
    mount.umount();
    let (records, lost) = read(&file);
    assert_eq!(lost, 0);
    for (op, count) in counted {
        assert_eq!(records.iter().filter(|record| record.op == op).count() as u64, count, "{op:?}");
    }
    let clear: Vec<Vec<u8>> = (1..=200).map(|n| format!("f{n}").into_bytes()).collect();
    assert!(records.iter().all(|record| !clear.contains(&record.name.to_vec())), "names are hashed");
    let info: serde_json::Value = firn_json(&["workload", "info", file.to_str().unwrap(), "--json"]);
    assert_eq!(
        (&info["workloads"][0]["whole"], &info["workloads"][0]["naming"]),
        (&true.into(), &"hashed".into())
    );
}

#[test]
fn recording_starts_and_stops_on_a_live_mount_and_refuses_what_makes_no_sense() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(Kind::Memory);
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    assert!(record(&mount, &["status"]).contains("nothing is being recorded"));
    assert!(refused(&mount, &["stop"]).contains("nothing is being recorded"));
    record(&mount, &["start", &file("one")]);
    fs::create_dir(mount.path("first")).unwrap();
    assert!(refused(&mount, &["start", &file("two")]).contains("already recording to"));
    let status: serde_json::Value =
        schema::parse(&record(&mount, &["status", "--json"]))["recording"].clone();
    assert!(
        status["records"].as_u64() >= Some(1) && status["lost_records"] == 0 && status["parts"] == 1,
        "{status}"
    );
    record(&mount, &["stop"]);
    fs::create_dir(mount.path("between")).unwrap();
    record(&mount, &["start", &file("two")]);
    fs::create_dir(mount.path("second")).unwrap();
    // The unmount stops it.
    assert!(refused(&mount, &["start", &file("three")]).contains("already recording"));
    mount.umount();
    for (name, dir) in [("one", "first"), ("two", "second")] {
        let (records, _) = read(Path::new(&file(name)));
        let made: Vec<String> = records.iter().filter(|r| r.op == Op::Mkdir).map(|r| text(&r.name)).collect();
        assert_eq!(made, [dir]);
    }

    let mount = Mount::new(Kind::Memory);
    assert!(refused(&mount, &["start", &file("one")]).contains("exists"));
    let own = mount.path("own.fwl");
    assert!(refused(&mount, &["start", own.to_str().unwrap()]).contains("on the mount that it would record"));
    assert!(!own.exists());
    mount.umount();
}

#[test]
fn a_file_that_the_mount_would_cover_is_refused_before_anything_is_mounted() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mnt = directory.path().to_str().unwrap();
    let below = directory.path().join("a.fwl");
    let output = firn(&["mount", "--memory", "64M", mnt, "--record", below.to_str().unwrap()]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(4) && stderr.contains("would record"), "{stderr}");
    assert!(!below.exists());
}

/// A small file system in memory.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn new(size: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        shell(directory.path(), &format!("mount -t tmpfs -o size={size} tmpfs ."));
        Self(directory)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _left_mounted = rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_under_the_file_loses_records_counted_and_never_the_mount() {
    if !can_mount() || !is_root() {
        return;
    }
    let disk = Tmpfs::new("256k");
    let mount = Mount::new(Kind::Image);
    let file = disk.0.path().join("a.fwl");
    let filler = disk.0.path().join("filler");
    fs::write(&filler, vec![0; 128 << 10]).unwrap();
    record(&mount, &["start", file.to_str().unwrap()]);
    let status = || -> serde_json::Value {
        schema::parse(&record(&mount, &["status", "--json"]))["recording"].clone()
    };
    let mut asked = 0;
    let mut ask = |count: u64| {
        for _ in 0..count {
            let name: String = pattern(asked, 24).iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(fs::metadata(mount.path(&name)).is_err());
            asked += 1;
        }
    };
    ask(6000);
    eventually("the disk is full", || status()["lost_records"].as_u64() > Some(0));
    assert!(status()["error"].as_str().unwrap().contains("No space"));
    // The mount is as well as before, and goes on with its recording once there is room.
    fs::write(mount.path("kept"), "content").unwrap();
    mount.sync();
    fs::remove_file(&filler).unwrap();
    ask(1000);
    eventually("the disk has room again", || status()["error"].is_null());
    let stopped: serde_json::Value = schema::parse(&record(&mount, &["stop", "--json"]))["recording"].clone();
    let (records, lost) = read(&file);
    assert_eq!(
        (stopped["records"].as_u64(), stopped["lost_records"].as_u64()),
        (Some(records.len() as u64), Some(lost))
    );
    let kept =
        records.iter().filter(|record| record.op == Op::Lookup && record.name.len() == 48).count() as u64;
    assert!(lost > 0 && kept < asked && kept + lost >= asked, "{kept} kept, {lost} lost, {asked} asked");
    let last: String = pattern(asked - 1, 24).iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(records.iter().any(|record| record.name == last.as_bytes()), "it went on");
    assert_eq!(fs::read(mount.path("kept")).unwrap(), b"content");
    mount.remount_image();
    assert_eq!(fs::read(mount.path("kept")).unwrap(), b"content");
    mount.umount();
}

#[test]
fn a_daemon_that_is_killed_leaves_all_but_the_last_second() {
    if !can_mount() || !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.fwl");
    let mount = Mount::with(Kind::Image, "512M", &["--record", file.to_str().unwrap()]);
    for n in 0..50 {
        fs::create_dir(mount.path(&format!("d{n}"))).unwrap();
    }
    let header_bytes = fs::metadata(&file).unwrap().len();
    eventually("the records are written", || fs::metadata(&file).unwrap().len() > header_bytes);
    std::thread::sleep(std::time::Duration::from_millis(2500));
    rustix::process::kill_process(mount.daemon_pid(), rustix::process::Signal::KILL).unwrap();
    eventually("the daemon is gone", || fs::metadata(mount.path("d0").join("x")).is_err());
    let mut made = 0;
    let mut error = None;
    for next in Reader::new(File::open(&file).unwrap()).unwrap() {
        match next {
            Ok(record) => made += u64::from(record.op == Op::Mkdir),
            Err(found) => error = Some(found),
        }
    }
    assert_eq!(made, 50);
    assert!(matches!(error, Some(Error::Damaged { .. })), "{error:?}");
}
