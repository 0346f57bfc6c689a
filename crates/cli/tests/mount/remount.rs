//! `firn mount -o remount,ro` and `rw` while programs use the mount.

use crate::common::{Kind, Mount, can_mount, eventually, firn, firn_ok, is_root};
use rustix::process::{Signal, kill_process};
use std::fs::{self, OpenOptions};
use std::io::Write;

/// The exit code and the line on standard error.
fn remount(mount: &Mount, options: &str) -> (i32, String) {
    let (image, mnt) = (mount.image.to_str().unwrap(), mount.mnt.to_str().unwrap());
    let output = firn(&["mount", image, mnt, "-o", &format!("remount,{options}")]);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// The mount knows its image, so a person need not.
#[test]
fn a_remount_needs_no_image() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "64M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    firn_ok(&["mount", "-o", "remount,commit=3", mnt]);
    let told = firn_ok(&["tune", mnt]);
    assert!(told.lines().any(|line| line.starts_with("commit           3 ")), "{told}");
    let alone = firn(&["mount", "-o", "noatime", mnt]);
    let line = String::from_utf8(alone.stderr).unwrap();
    assert!(alone.status.code() == Some(2) && line.contains("no image to mount"), "{line}");
}

#[test]
fn what_programs_wrote_before_a_remount_read_only_survives_a_crash_after_it() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = Mount::with(Kind::Image, "128M", &["--commit-interval", "3600"]);
    let file = mount.path("log");
    let written = std::thread::scope(|scope| {
        // No fsync: only the remount makes it durable.
        let writer = scope.spawn(|| {
            for n in 0_u64.. {
                let opened = OpenOptions::new().append(true).create(true).open(&file);
                match opened.and_then(|mut file| writeln!(file, "{n}")) {
                    Ok(()) => {}
                    Err(e) if e.kind() == std::io::ErrorKind::ReadOnlyFilesystem => return n,
                    Err(e) => panic!("{n}: {e}"),
                }
            }
            unreachable!("it writes until the file system is read-only")
        });
        std::thread::sleep(std::time::Duration::from_millis(300));
        // The kernel refuses while the writer has the file open; a person would try again as well.
        eventually("the mount is read-only", || {
            let (code, line) = remount(&mount, "ro");
            assert!(code == 0 || line.contains("open for writing"), "{code} {line}");
            code == 0
        });
        writer.join().unwrap()
    });
    assert!(written > 100, "{written} lines");
    kill_process(mount.daemon_pid(), Signal::KILL).unwrap();
    eventually("the mount is dead", || rustix::fs::statvfs(&mount.mnt).is_err());
    let image = mount.image.to_str().unwrap();
    firn_ok(&["fsck", image]);
    mount.mount_image(&[]);
    let lines = fs::read_to_string(&file).unwrap();
    assert_eq!(lines.lines().count() as u64, written);
    assert!((0..written).zip(lines.lines()).all(|(n, line)| line == n.to_string()), "every line, in order");
    mount.umount();
}

#[test]
fn a_file_open_for_writing_keeps_the_mount_writable_and_says_so() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = Mount::with(Kind::Image, "64M", &[]);
    let mut file = fs::File::create(mount.path("file")).unwrap();
    let (code, line) = remount(&mount, "ro");
    assert!(code == 4 && line.contains("has files open for writing"), "{code} {line}");
    file.write_all(b"still writable").unwrap();
    drop(file);
    assert_eq!(remount(&mount, "ro"), (0, String::new()));
    // Again: nothing to do. Reading goes on, and back to writing.
    assert_eq!(remount(&mount, "ro"), (0, String::new()));
    assert_eq!(fs::read(mount.path("file")).unwrap(), b"still writable");
    assert_eq!(remount(&mount, "rw"), (0, String::new()));
    fs::write(mount.path("file"), b"again").unwrap();
    mount.remount_image();
    assert_eq!(fs::read(mount.path("file")).unwrap(), b"again");
}
