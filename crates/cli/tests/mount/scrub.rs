//! `firn scrub` on real mounts, and the check after a crash.

use crate::common::{Kind, Mount, can_mount, eventually, firn, firn_json, firn_ok, is_root, pattern, shell};
use crate::schema;
use rustix::process::{Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn scrub_json(mount: &Mount) -> (i32, serde_json::Value) {
    let output = firn(&["scrub", mount.mnt.to_str().unwrap(), "--json", "--rate", "2G"]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let value = schema::parse(&stdout);
    (output.status.code().unwrap(), value)
}

/// Flips a bit in every place of the image that holds these bytes; flipping twice restores them. Returns the number of places.
fn flip(mount: &Mount, bytes: &[u8]) -> usize {
    let image = fs::read(&mount.image).unwrap();
    let places: Vec<usize> =
        (0..=image.len() - bytes.len()).filter(|&at| image[at..].starts_with(bytes)).collect();
    flip_at(mount, &places);
    places.len()
}

fn flip_at(mount: &Mount, places: &[usize]) {
    let file = File::options().read(true).write(true).open(&mount.image).unwrap();
    for &at in places {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at as u64).unwrap();
        file.write_all_at(&[byte[0] ^ 4], at as u64).unwrap();
    }
    file.sync_all().unwrap();
}

#[test]
fn scrub_lists_damaged_files_by_path_while_the_volume_is_in_use() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "64M", &[]);
    // The damaged block would be a state's when the file is overwritten.
    mount.keep_no_history();
    fs::create_dir(mount.path("dir")).unwrap();
    for n in 0..30 {
        fs::write(mount.path(&format!("dir/file {n}")), pattern(n, 50_000)).unwrap();
    }
    mount.sync();
    assert_eq!(flip(&mount, &pattern(17, 50_000)[20_000..20_064]), 1);
    // A program works on the volume meanwhile.
    let busy = std::thread::spawn({
        let path = mount.path("busy");
        move || (0..200).for_each(|n| fs::write(&path, pattern(n, 100_000)).unwrap())
    });
    let (code, view) = scrub_json(&mount);
    busy.join().unwrap();
    assert_eq!(view["damaged_paths"], serde_json::json!(["/dir/file 17"]), "{view}");
    assert_eq!((code, view["sound"].as_bool(), view["complete"].as_bool()), (3, Some(false), Some(true)));
    // For people: the path, and the exit code again.
    let output = firn(&["scrub", mount.mnt.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("/dir/file 17") && text.contains("DAMAGED"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    // A later look shows it, too, and that reading fails.
    let told = || firn_ok(&["stat", mount.mnt.to_str().unwrap()]);
    assert!(told().contains("damage found by the last check"), "{}", told());
    assert!(
        told().contains("  damaged     /dir/file 17\n") && !told().contains("no damage met"),
        "{}",
        told()
    );
    // No cache has it after that.
    mount.umount();
    mount.mount_image(&[]);
    fs::read(mount.path("dir/file 17")).unwrap_err();
    assert!(told().contains(" failed (EIO)"), "{}", told());
    let stat = firn_json(&["stat", mount.mnt.to_str().unwrap(), "--json"]);
    assert!(stat["io_errors"].as_u64() > Some(0), "{stat}");
    // Overwritten, it is intact.
    fs::write(mount.path("dir/file 17"), pattern(1, 50_000)).unwrap();
    let (code, view) = scrub_json(&mount);
    assert_eq!(
        (code, view["sound"].as_bool(), view["complete"].as_bool()),
        (0, Some(true), Some(true)),
        "{view}"
    );
    assert!(!told().contains("damage found"), "{}", told());
    mount.umount();
    assert!(firn_ok(&["fsck", mount.image.to_str().unwrap()]).contains("clean"));
}

#[test]
fn scrub_is_stopped_by_ctrl_c_joined_by_a_second_one_and_ended_by_an_unmount() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "64M", &[]);
    fs::write(mount.path("large"), pattern(3, 20 << 20)).unwrap();
    mount.sync();
    let mnt = mount.mnt.to_str().unwrap().to_owned();
    // Twenty seconds of work.
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firn"));
        command.args(["scrub", &mnt, "--rate", "1M", "--json"]).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        eventually("the scrub runs", || {
            mount.control(r#"{"op":"scrub_status"}"#)["running"]["progress"].is_object()
        });
        child
    };
    let first = start();
    let second = Command::new(env!("CARGO_BIN_EXE_firn"))
        .args(["scrub", &mnt])
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = rustix::process::Pid::from_child(&first);
    std::thread::sleep(Duration::from_millis(500));
    kill_process(pid, Signal::INT).unwrap();
    let first = first.wait_with_output().unwrap();
    assert_eq!((first.status.code(), first.status.signal()), (Some(130), None));
    // What it did not read is no damage.
    let view = schema::parse(std::str::from_utf8(&first.stdout).unwrap());
    assert_eq!(
        (view["findings"].as_array().unwrap().len(), &view["more_findings"]),
        (0, &0.into()),
        "{view}"
    );
    assert!(view["sound"].is_null() && view["complete"] == false, "{view}");
    let (done, all) = (view["checked_bytes"].as_u64().unwrap(), view["live_bytes"].as_u64().unwrap());
    assert!(done < all && all > 20 << 20, "{view}");
    let second = second.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&second.stderr).contains("joined"));
    assert_eq!(second.status.code(), Some(130), "both commands watched the same scrub");
    let text = String::from_utf8_lossy(&second.stdout);
    let words = in_one_line(&text);
    assert!(words.contains("stopped after") && words.ends_with("no damage found so far"), "{text}");
    assert!(text.lines().count() <= 2, "{text}");
    let before = Instant::now();
    let third = start();
    mount.umount();
    assert!(before.elapsed() < Duration::from_secs(10));
    drop(third.wait_with_output().unwrap());
    mount.mount_image(&[]);
    assert_eq!(scrub_json(&mount).0, 0);
}

#[test]
fn what_cannot_be_scrubbed_is_refused_in_one_line() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(Kind::Memory);
    for (path, code, named) in [(mount.mnt.to_str().unwrap(), 4, "has no log"), ("/proc", 3, "firn fsck")] {
        let output = firn(&["scrub", path]);
        let line = String::from_utf8(output.stderr).unwrap();
        assert!(line.contains(named) && line.lines().count() == 1, "{line}");
        assert_eq!(output.status.code(), Some(code));
    }
}

fn why_read_only(mount: &Mount) -> Option<String> {
    mount.control(r#"{"op":"statfs"}"#)["read_only"].as_str().map(str::to_owned)
}

fn kill_and_wait(mount: &Mount) {
    kill_process(mount.daemon_pid(), Signal::KILL).unwrap();
    eventually("the mount is dead", || rustix::fs::statvfs(&mount.mnt).is_err());
}

fn check_ended(mount: &Mount) {
    eventually("the check after the crash ends", || {
        mount.control(r#"{"op":"scrub_status"}"#)["ended"]["purpose"] == "after_crash"
    });
}

fn check_after_crash(mount: &Mount) -> serde_json::Value {
    firn_json(&["stat", mount.mnt.to_str().unwrap(), "--json"])["check_after_crash"].clone()
}

#[test]
fn after_a_crash_the_mount_serves_at_once_and_a_wrong_structure_makes_it_read_only() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "64M", &[]);
    let mnt = mount.mnt.to_str().unwrap().to_owned();
    fs::create_dir(mount.path("dir")).unwrap();
    for n in 0..200 {
        fs::write(mount.path(&format!("dir/a name of its own {n}")), "x").unwrap();
    }
    mount.remount_image();
    fs::write(mount.path("before"), "the crash").unwrap();
    mount.sync();
    kill_and_wait(&mount);
    // An intact volume is checked and stays writable.
    mount.mount_image(&[]);
    check_ended(&mount);
    assert_eq!(why_read_only(&mount), None);
    assert_eq!(check_after_crash(&mount)["state"], "passed");
    assert!(firn_ok(&["stat", &mnt]).contains("check       after the crash: passed: 20"));
    fs::write(mount.path("again"), "writable").unwrap();
    mount.sync();
    kill_and_wait(&mount);

    let name = b"a name of its own 150";
    assert!(flip(&mount, name) > 0);
    let log = mount.image.with_extension("log");
    mount.mount_image(&["--log", log.to_str().unwrap()]);
    // It is served, whatever the result of the check.
    assert_eq!(fs::read(mount.path("before")).unwrap(), b"the crash");
    eventually("the volume is read-only", || why_read_only(&mount).is_some());
    let why = why_read_only(&mount).unwrap();
    assert!(why.contains("the check after the crash found damage") && why.contains("/dir"), "{why}");
    let refused = fs::write(mount.path("new"), "").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::ROFS.raw_os_error()));
    let text = firn_ok(&["stat", &mnt]);
    let check = check_after_crash(&mount);
    assert_eq!(check["state"], "failed");
    assert!(check["reason"].as_str().unwrap().contains("/dir"), "{check}");
    let text = in_one_line(&text);
    assert!(text.contains(&why) && text.contains("check after the crash: FAILED: "), "{text}");
    eventually("the log says so", || fs::read_to_string(&log).unwrap().contains("read-only from now on"));

    // The structure is still wrong: the volume stays read-only, whoever asks.
    if is_root() {
        let refused = firn(&["mount", mount.image.to_str().unwrap(), &mnt, "-o", "remount,rw"]);
        let line = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(4), "{line}");
        assert!(line.contains("found damage") && line.contains("firn scrub --writable"), "{line}");
    }
    let output = firn(&["scrub", &mnt, "--writable"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("DAMAGED") && why_read_only(&mount).is_some(), "{text}");
    // Flipping the bit again repairs the damage.
    let mut wrong = name.to_vec();
    wrong[0] ^= 4;
    assert!(flip(&mount, &wrong) > 0);
    firn_ok(&["scrub", &mnt, "--writable"]);
    assert_eq!(why_read_only(&mount), None);
    fs::write(mount.path("new"), "written").unwrap();
    // After a clean unmount there is nothing to check.
    mount.remount_image();
    assert!(check_after_crash(&mount).is_null() && !firn_ok(&["stat", &mnt]).contains("after the crash"));
    mount.umount();
    assert!(firn_ok(&["fsck", mount.image.to_str().unwrap()]).contains("clean"));
}

/// Text as it was before it was laid out for the width of a terminal.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The place of the first block of pointers of a file, in bytes.
fn first_indirect(mount: &Mount, path: &str) -> usize {
    let dump = firn_json(&["dump", mount.image.to_str().unwrap(), "--inode", path, "--json"]);
    let blocks = dump["block_map"].as_array().unwrap();
    let ptr = &blocks.iter().find(|block| block["level"] == 1).unwrap()["ptr"];
    let number = |name: &str| ptr[name].as_u64().unwrap() as usize;
    // Segments of 1 MiB begin at 2 MiB.
    (2 << 20) + (number("segment") << 20) + 512 * number("sector")
}

#[test]
fn content_that_a_repair_has_left_lost_does_not_make_a_volume_read_only_after_a_crash() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "64M", &[]);
    fs::write(mount.path("large"), pattern(1, 3_000_000)).unwrap();
    mount.umount();
    flip_at(&mount, &[first_indirect(&mount, "/large")]);
    let repaired = firn(&["fsck", mount.image.to_str().unwrap(), "--repair", "--yes"]);
    assert!(String::from_utf8(repaired.stdout).unwrap().contains("/large"));
    mount.mount_image(&[]);
    fs::write(mount.path("before"), "the crash").unwrap();
    mount.sync();
    kill_and_wait(&mount);

    mount.mount_image(&[]);
    check_ended(&mount);
    assert_eq!(why_read_only(&mount), None);
    let check = check_after_crash(&mount);
    assert_eq!((&check["state"], &check["damaged_paths"]), (&"passed".into(), &["/large"].into()));
    let text = in_one_line(&firn_ok(&["stat", mount.mnt.to_str().unwrap()]));
    assert!(text.contains("checked; /large has lost data"), "{text}");
    fs::write(mount.path("after"), "writable").unwrap();
    mount.sync();
    assert!(fs::read(mount.path("large")).is_err());
    fs::remove_file(mount.path("large")).unwrap();
    assert_eq!(fs::read(mount.path("before")).unwrap(), b"the crash");
}

/// Writes until the daemon refuses because it has no room; returns the data accepted until then.
fn write_what_is_accepted(path: &str, bytes: &[u8]) -> Vec<u8> {
    let Ok(file) = File::create(path) else { return Vec::new() };
    let mut len = 0;
    while len < bytes.len() {
        match file.write_at(&bytes[len..], len as u64) {
            Ok(more) => len += more,
            Err(_) => break,
        }
    }
    bytes[..len].to_vec()
}

#[test]
fn a_volume_whose_device_had_no_room_is_writable_again_once_the_device_has_room() {
    if !can_mount() || !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let small = directory.path().join("small");
    let mnt = directory.path().join("mnt");
    fs::create_dir(&small).unwrap();
    fs::create_dir(&mnt).unwrap();
    let (small, mnt) = (small.to_str().unwrap(), mnt.to_str().unwrap());
    shell(directory.path(), &format!("mount -t tmpfs -o size=12M none {small}"));
    let outcome = std::panic::catch_unwind(|| {
        let image = format!("{small}/disk.img");
        firn_ok(&["mkfs", &image, "--size", "64M"]);
        firn_ok(&["mount", &image, mnt]);
        fs::write(format!("{mnt}/kept"), pattern(1, 1 << 20)).unwrap();
        firn_ok(&["sync", mnt]);
        // Files that are too short for a chunk wait for the commit. A chunk would find out early that the device is full.
        let names: Vec<String> = (0..20).map(|n| format!("{mnt}/new{n}")).collect();
        let accepted: Vec<Vec<u8>> = names
            .iter()
            .zip(2..)
            .map(|(name, n)| write_what_is_accepted(name, &pattern(n, 1 << 20)))
            .collect();
        let all_is_there = || {
            let mut both = names.iter().zip(&accepted).filter(|(_, bytes)| !bytes.is_empty());
            both.all(|(name, bytes)| fs::read(name).unwrap() == *bytes)
        };
        let accepted_bytes: usize = accepted.iter().map(Vec::len).sum();
        assert!(accepted_bytes > 12 << 20, "{accepted_bytes} bytes");
        assert!(!firn(&["sync", mnt]).status.success(), "the image cannot grow");
        assert!(firn_ok(&["stat", mnt]).contains("read-only"));
        let refused = firn(&["scrub", mnt, "--writable"]);
        let line = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(4), "{line}");
        assert!(line.contains("the device still fails") && line.lines().count() == 1, "{line}");
        shell(directory.path(), &format!("mount -o remount,size=200M {small}"));
        firn_ok(&["scrub", mnt, "--writable"]);
        // No accepted data is lost.
        firn_ok(&["sync", mnt]);
        assert!(all_is_there());
        firn_ok(&["umount", mnt]);
        assert!(firn_ok(&["fsck", &image]).contains("clean"));
        firn_ok(&["mount", &image, mnt]);
        assert!(all_is_there());
        assert!(fs::read(format!("{mnt}/kept")).unwrap() == pattern(1, 1 << 20));
        firn_ok(&["umount", mnt]);
    });
    shell(directory.path(), &format!("umount -l {mnt} 2>/dev/null || true; umount -l {small}"));
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}
