//! `firn resize`: volumes grow, in use or not.

use crate::common::{Kind, Mount, can_mount, firn, firn_ok, pattern};
use serde_json::Value;
use std::fs;

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
        assert!(firn_ok(&["resize", mnt, "+192M"]).contains("64 MiB -> 256 MiB, 192 segments more"));
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

#[test]
fn sizes_that_a_volume_cannot_have_are_refused_with_the_reason() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "64M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    for (size, named) in
        [("32M", "cannot be made smaller"), ("64M", "whole segments"), ("+0", "whole segments")]
    {
        let (code, line) = refused(&["resize", mnt, size]);
        assert!(code == 2 && line.contains(named) && line.lines().count() == 1, "{size}: {code} {line}");
    }
    assert_eq!(fs::metadata(&mount.image).unwrap().len(), 64 << 20);
    let memory = Mount::with(Kind::Memory, "32M", &[]);
    let (code, line) = refused(&["resize", memory.mnt.to_str().unwrap(), "1G"]);
    assert!(code == 4 && line.contains("cannot change its size"), "{code} {line}");
}
