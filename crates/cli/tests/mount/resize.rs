//! `firn resize`: volumes grow and shrink, in use or not.

use crate::common::{Kind, Mount, can_mount, eventually, firn, firn_ok, pattern};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};

/// The exit code and the line on standard error.
fn refused(words: &[&str]) -> (i32, String) {
    let output = firn(words);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn room_bytes(mount: &Mount) -> u64 {
    let space = rustix::fs::statvfs(&mount.mnt).unwrap();
    space.f_blocks * space.f_frsize
}

#[test]
fn a_full_volume_grows_under_a_program_that_writes() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "64M", &[]);
    let (mnt, image) = (mount.mnt.to_str().unwrap(), mount.image.to_str().unwrap());
    let bytes = pattern(1, 1 << 20);
    let full = (0..).find(|n| fs::write(mount.path(&format!("a{n}")), &bytes).is_err()).unwrap();
    let before = room_bytes(&mount);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let written = |n: &u32| fs::write(mount.path(&format!("b{n}")), &bytes).is_ok();
            (0..100_000).filter(written).take(100).count()
        });
        assert!(
            firn_ok(&["resize", mnt, "+192M"]).contains("64 MiB -> 256 MiB: 192 MiB more, in 192 segments")
        );
        assert_eq!(writer.join().unwrap(), 100);
    });
    assert!(room_bytes(&mount) >= before + (180 << 20));
    assert_eq!(fs::metadata(&mount.image).unwrap().len(), 256 << 20);
    mount.remount_image();
    for n in 0..full {
        assert!(fs::read(mount.path(&format!("a{n}"))).unwrap() == bytes, "a{n}");
    }
    mount.umount();
    firn_ok(&["fsck", image]);
    // The same without a mount.
    let told: Value = serde_json::from_str(&firn_ok(&["resize", image, "1G", "--json"])).unwrap();
    assert_eq!((&told["was_bytes"], &told["size_bytes"]), (&Value::from(256 << 20), &Value::from(1 << 30)));
    firn_ok(&["fsck", image]);
    mount.mount_image(&[]);
    assert!(room_bytes(&mount) > 850 << 20);
    assert!(fs::read(mount.path("a0")).unwrap() == bytes);
}

/// Files of a mebibyte, of which every fifth is left.
fn scatter(mount: &Mount, count: u64) -> Vec<u64> {
    let write = |n: u64| fs::write(mount.path(&format!("a{n}")), pattern(n, 1 << 20)).unwrap();
    (0..count).for_each(write);
    let (kept, gone): (Vec<u64>, Vec<u64>) = (0..count).partition(|n| n % 5 == 0);
    gone.iter().for_each(|n| fs::remove_file(mount.path(&format!("a{n}"))).unwrap());
    kept
}

fn assert_content(mount: &Mount, files: &[u64]) {
    for n in files {
        assert!(fs::read(mount.path(&format!("a{n}"))).unwrap() == pattern(*n, 1 << 20), "a{n}");
    }
}

#[test]
fn a_volume_shrinks_under_programs_that_write_to_the_least_size_that_the_refusal_names() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "256M", &[]);
    let (mnt, image) = (mount.mnt.to_str().unwrap(), mount.image.to_str().unwrap());
    let kept = scatter(&mount, 200);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            (0..40)
                .filter(|n| fs::write(mount.path(&format!("b{}", n % 4)), pattern(*n, 1 << 20)).is_ok())
                .count()
        });
        assert!(
            firn_ok(&["resize", mnt, "128M"]).contains("256 MiB -> 128 MiB: 128 MiB less, in 128 segments")
        );
        assert_eq!(writer.join().unwrap(), 40);
    });
    assert_eq!(fs::metadata(&mount.image).unwrap().len(), 128 << 20);
    assert_content(&mount, &kept);
    mount.remount_image();
    assert_content(&mount, &kept);
    mount.umount();
    firn_ok(&["fsck", image]);
    // The same without a mount, to the least size.
    let (code, line) = refused(&["resize", image, "8M"]);
    assert_eq!(code, 2, "{line}");
    let least = line.split("about ").nth(1).unwrap().split(" is the least").next().unwrap().to_owned();
    let told: Value = serde_json::from_str(&firn_ok(&["resize", image, &least, "--json"])).unwrap();
    assert_eq!((&told["was_bytes"], &told["stopped"]), (&Value::from(128 << 20), &Value::from(false)));
    assert_eq!(Value::from(fs::metadata(&mount.image).unwrap().len()), told["size_bytes"]);
    firn_ok(&["fsck", image]);
    mount.mount_image(&[]);
    assert_content(&mount, &kept);
}

#[test]
fn ctrl_c_leaves_a_volume_of_the_old_size() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "512M", &[]);
    let (mnt, image) = (mount.mnt.to_str().unwrap(), mount.image.to_str().unwrap());
    let kept = scatter(&mount, 400);
    let room = room_bytes(&mount);
    let shrink = Command::new(env!("CARGO_BIN_EXE_firn"))
        .args(["resize", mnt, "256M"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It has begun once users have less room.
    eventually("less room", || room_bytes(&mount) < room);
    kill_process(Pid::from_child(&shrink), Signal::INT).unwrap();
    let output = shrink.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    // It may have been faster.
    if output.status.code() == Some(130) {
        assert!(said.contains("stopped; it has 512 MiB as before"), "{said}");
        assert_eq!(room_bytes(&mount), room);
        assert_eq!(fs::metadata(&mount.image).unwrap().len(), 512 << 20);
    } else {
        assert!(output.status.success() && said.contains(" less, in "), "{said}");
    }
    assert_content(&mount, &kept);
    mount.umount();
    firn_ok(&["fsck", image]);
}

#[test]
fn sizes_that_a_volume_cannot_have_are_refused_with_the_reason() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "64M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    for (size, named) in
        [("4M", "holds too much for 4 MiB: about "), ("64M", "whole segments"), ("+0", "whole segments")]
    {
        let (code, line) = refused(&["resize", mnt, size]);
        assert!(code == 2 && line.contains(named) && line.lines().count() == 1, "{size}: {code} {line}");
    }
    firn_ok(&["snapshot", mnt, "upgrade"]);
    for size in ["-4M", "5M"] {
        let (code, line) = refused(&["resize", mnt, size]);
        assert!(
            code == 4 && line.contains("has snapshots cannot shrink: delete them first"),
            "{code} {line}"
        );
    }
    let (code, line) = refused(&["resize", mnt, "128P"]);
    assert!(
        code == 2 && line.contains("128 PiB is too large: a volume has less than 128 PiB"),
        "{code} {line}"
    );
    firn_ok(&["freeze", mnt]);
    let (code, line) = refused(&["resize", mnt, "+8M"]);
    assert_eq!((code, line.as_str()), (4, "firn: the volume is frozen; thaw it first\n"));
    firn_ok(&["thaw", mnt]);
    assert_eq!(fs::metadata(&mount.image).unwrap().len(), 64 << 20);
    let memory = Mount::with(Kind::Memory, "32M", &[]);
    let (code, line) = refused(&["resize", memory.mnt.to_str().unwrap(), "1G"]);
    assert!(code == 4 && line.contains("cannot change its size"), "{code} {line}");
}
