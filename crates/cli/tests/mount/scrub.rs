//! `firn scrub` on real mounts, and the check that follows a crash.

use crate::common::{Kind, Mount, can_mount, eventually, firn, firn_ok, pattern};
use rustix::process::{Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn scrub_json(mount: &Mount) -> (i32, serde_json::Value) {
    let output = firn(&["scrub", mount.mnt.to_str().unwrap(), "--json", "--rate", "2G"]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let value = serde_json::from_str(&stdout).unwrap_or_else(|e| panic!("{e}: {stdout}"));
    (output.status.code().unwrap(), value)
}

/// Flips a bit in every place of the image where these bytes are; flipping twice undoes it. Tells how many there are.
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
    fs::create_dir(mount.path("dir")).unwrap();
    for n in 0..30 {
        fs::write(mount.path(&format!("dir/file {n}")), pattern(n, 50_000)).unwrap();
    }
    mount.sync();
    assert_eq!(flip(&mount, &pattern(17, 50_000)[20_000..20_064]), 1);
    // Somebody is at work meanwhile.
    let busy = std::thread::spawn({
        let path = mount.path("busy");
        move || (0..200).for_each(|n| fs::write(&path, pattern(n, 100_000)).unwrap())
    });
    let (code, view) = scrub_json(&mount);
    busy.join().unwrap();
    assert_eq!(view["damaged"], serde_json::json!(["/dir/file 17"]), "{view}");
    assert_eq!((code, view["clean"].as_bool(), view["complete"].as_bool()), (3, Some(false), Some(true)));
    // For people: the path, and the exit code again.
    let output = firn(&["scrub", mount.mnt.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("/dir/file 17") && text.contains("DAMAGED"), "{text}");
    // Overwritten, it is sound.
    fs::write(mount.path("dir/file 17"), pattern(1, 50_000)).unwrap();
    let (code, view) = scrub_json(&mount);
    assert_eq!(
        (code, view["clean"].as_bool(), view["complete"].as_bool()),
        (0, Some(true), Some(true)),
        "{view}"
    );
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
    // Twenty seconds' worth of work.
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firn"));
        command.args(["scrub", &mnt, "--rate", "1M", "--json"]).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        eventually("the scrub runs", || {
            mount.control(r#"{"op":"scrub_status"}"#)["running"]["progress"].is_object()
        });
        child
    };
    let mut first = start();
    let second = Command::new(env!("CARGO_BIN_EXE_firn"))
        .args(["scrub", &mnt])
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = rustix::process::Pid::from_child(&first);
    std::thread::sleep(Duration::from_millis(500));
    kill_process(pid, Signal::INT).unwrap();
    let status = first.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(130), None));
    let second = second.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&second.stderr).contains("joined"));
    assert_eq!(second.status.code(), Some(130), "it was one and the same scrub");
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
    for (path, code, named) in [(mount.mnt.to_str().unwrap(), 1, "memory"), ("/proc", 3, "firn fsck")] {
        let output = firn(&["scrub", path]);
        let line = String::from_utf8(output.stderr).unwrap();
        assert!(line.contains(named) && line.lines().count() == 1, "{line}");
        assert_eq!(output.status.code(), Some(code));
    }
}
