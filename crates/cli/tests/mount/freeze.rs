//! `firn freeze` and `firn thaw`: the image is copied while programs write, and the copy is sound.

use crate::common::{Held, Kind, Mount, can_mount, eventually, firn, firn_json, firn_ok, pattern};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const WRITERS: u64 = 3;
const FILE_BYTES: usize = 30_000;

fn refused(words: &[&str]) -> (i32, String) {
    let output = firn(words);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn content(writer: u64, number: u64) -> Vec<u8> {
    pattern(writer * 1000 + number, FILE_BYTES)
}

/// The copy is clean, mounts, and has all files that were complete before the freeze.
fn check_copy(copy: &Path, before: &[u64]) {
    let copy = copy.to_str().unwrap();
    firn_ok(&["fsck", copy]);
    let directory = tempfile::tempdir().unwrap();
    let mnt = directory.path().to_str().unwrap();
    firn_ok(&["mount", copy, mnt]);
    for (writer, count) in (0..).zip(before) {
        for number in 0..*count {
            let found = fs::read(directory.path().join(format!("new/{writer}.{number}"))).unwrap();
            assert!(found == content(writer, number), "{writer}.{number}");
        }
    }
    firn_ok(&["umount", mnt]);
}

#[test]
fn a_copy_made_while_programs_write_is_sound_and_complete() {
    if !can_mount() {
        return;
    }
    for kind in [Kind::Image, Kind::Fast] {
        let mount = Mount::with(kind, "128M", &["-o", "commit=0.1,checkpoint=1"]);
        let mnt = mount.mnt.to_str().unwrap();
        // The kernel keeps a directory locked while a creation in it waits: whoever looks up a name there that is not cached waits too.
        // What is read during the freeze is therefore in a directory of its own, or open before.
        fs::create_dir(mount.path("new")).unwrap();
        fs::create_dir(mount.path("old")).unwrap();
        fs::write(mount.path("old/file"), content(9, 0)).unwrap();
        let done: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
        let counts = || -> Vec<u64> { done.iter().map(|done| done.load(Ordering::SeqCst)).collect() };
        let stop = AtomicBool::new(false);
        let copy = mount.image.with_extension("copy");
        let mut before = Vec::new();
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (done, stop, mount) = (&done[writer as usize], &stop, &mount);
                scope.spawn(move || {
                    for number in (0..600).take_while(|_| !stop.load(Ordering::SeqCst)) {
                        fs::write(mount.path(&format!("new/{writer}.{number}")), content(writer, number))
                            .unwrap();
                        done.fetch_add(1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(2));
                    }
                });
            }
            eventually("files are written", || counts().iter().all(|count| *count >= 20));
            before = counts();
            let mut opened = fs::File::open(mount.path("new/0.3")).unwrap();
            let told = firn_ok(&["freeze", mnt, "--timeout", "120"]);
            assert!(told.contains("frozen; thaws by itself in 120 s"), "{told}");
            let frozen = Instant::now();
            let held = counts();
            let (code, line) = refused(&["freeze", mnt]);
            assert!(code == 4 && line.contains("frozen already"), "{code} {line}");
            let told = firn_ok(&["stat", mnt]);
            assert!(told.contains("health      frozen"), "{told}");
            assert!(told.contains(&format!("changes wait until 'firn thaw {mnt}', 1")), "{told}");
            let left_ms = firn_json(&["stat", mnt, "--json"])["thaws_in_ms"].as_u64().unwrap();
            assert!((1..=120_000).contains(&left_ms), "{left_ms}");
            fs::copy(&mount.image, &copy).unwrap();
            std::thread::sleep(Duration::from_millis(1500));
            assert!(counts().iter().zip(&held).all(|(now, held)| *now <= held + 1), "writers wait");
            assert_eq!(fs::read(mount.path("old/file")).unwrap(), content(9, 0), "reads go on");
            let mut found = Vec::new();
            opened.read_to_end(&mut found).unwrap();
            assert_eq!(found, content(0, 3), "reads of open files go on, wherever others create");
            let is_same = fs::read(&mount.image).unwrap() == fs::read(&copy).unwrap();
            assert!(is_same, "{kind:?}: something was written within {:?}", frozen.elapsed());
            let told = firn_ok(&["thaw", mnt]);
            assert!(told.contains("thawed after"), "{told}");
            assert!(firn_json(&["stat", mnt, "--json"])["thaws_in_ms"].is_null());
            let resumed = counts();
            eventually("writers go on", || counts().iter().zip(&resumed).all(|(now, then)| now > then));
            stop.store(true, Ordering::SeqCst);
        });
        let (code, line) = refused(&["thaw", mnt]);
        assert!(code == 4 && line.contains("not frozen"), "{code} {line}");
        check_copy(&copy, &before);
        mount.remount_image();
    }
}

#[test]
fn what_the_kernel_held_before_a_freeze_is_in_the_copy() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &["--writeback"]);
    let mnt = mount.mnt.to_str().unwrap();
    let _held = Held::written(mount.path("held"));
    let copy = mount.image.with_extension("copy");
    firn_ok(&["freeze", mnt, "--timeout", "120"]);
    fs::copy(&mount.image, &copy).unwrap();
    firn_ok(&["thaw", mnt]);
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().to_str().unwrap();
    firn_ok(&["mount", copy.to_str().unwrap(), seen]);
    let found = fs::read(directory.path().join("held")).unwrap();
    firn_ok(&["umount", seen]);
    assert_eq!(found, Held::content());
}

#[test]
fn a_freeze_that_nobody_ends_ends_by_itself_and_thaw_says_so() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "64M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    firn_ok(&["freeze", mnt, "--timeout", "1"]);
    let began = Instant::now();
    fs::write(mount.path("file"), "waits").unwrap();
    let waited = began.elapsed();
    assert!((Duration::from_millis(500)..Duration::from_secs(15)).contains(&waited), "{waited:?}");
    let (code, line) = refused(&["thaw", mnt]);
    assert!(code == 1 && line.contains("by itself"), "{code} {line}");
    // An unmount does not wait for the end of a freeze.
    firn_ok(&["freeze", mnt, "--timeout", "600"]);
    let began = Instant::now();
    mount.umount();
    assert!(began.elapsed() < Duration::from_secs(60));
    firn_ok(&["fsck", mount.image.to_str().unwrap()]);
}

#[test]
fn an_unmount_ends_the_freeze_that_a_resize_waits_for() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "256M", &[]);
    let (mnt, image) = (mount.mnt.to_str().unwrap(), mount.image.to_str().unwrap());
    fs::write(mount.path("file"), vec![1; 100 << 20]).unwrap();
    firn_ok(&["freeze", mnt, "--timeout", "600"]);
    let mut shrink = Command::new(env!("CARGO_BIN_EXE_firn")).args(["resize", mnt, "160M"]).spawn().unwrap();
    // Nothing tells that it waits.
    thread::sleep(Duration::from_millis(500));
    assert!(shrink.try_wait().unwrap().is_none());
    let began = Instant::now();
    mount.umount();
    assert!(began.elapsed() < Duration::from_secs(60));
    assert!(!shrink.wait().unwrap().success(), "the volume was closed under it");
    firn_ok(&["fsck", image]);
}
