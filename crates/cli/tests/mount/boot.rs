//! What a system needs at boot: readiness told to systemd, volumes by label, and the helpers of mount(8), mkfs(8) and fsck(8).

use crate::common::{can_mount, eventually, firn_ok, is_root};
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

const FIRN: &str = env!("CARGO_BIN_EXE_firn");

#[test]
fn a_mount_in_the_foreground_tells_systemd_when_it_answers_and_when_it_ends() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mnt = directory.path().join("mnt");
    std::fs::create_dir(&mnt).unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let hear = || {
        let mut bytes = [0; 4096];
        let len = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    };
    let mut daemon = Command::new(FIRN)
        .args(["mount", "--foreground", "--memory", "16M", mnt.to_str().unwrap()])
        .env("NOTIFY_SOCKET", &path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let told = hear();
    assert!(told.lines().any(|line| line == "READY=1"), "{told}");
    // It answers.
    std::fs::write(mnt.join("file"), "x").unwrap();
    firn_ok(&["umount", mnt.to_str().unwrap()]);
    assert!(hear().lines().any(|line| line == "STOPPING=1"));
    assert!(daemon.wait().unwrap().success());
}

#[test]
fn a_device_is_mounted_by_label_and_by_uuid() {
    if !can_mount() || !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (image, mnt) = (directory.path().join("disk.img"), directory.path().join("mnt"));
    std::fs::create_dir(&mnt).unwrap();
    let label = format!("boot test {}", std::process::id());
    let told = firn_ok(&["mkfs", image.to_str().unwrap(), "--size", "32M", "--label", &label]);
    let uuid = told.split("uuid ").nth(1).unwrap().trim().to_owned();
    let looped = Command::new("losetup").args(["--find", "--show"]).arg(&image).output();
    let Some(device) = looped.ok().filter(|output| output.status.success()) else {
        eprintln!("skipped: no loop devices");
        return;
    };
    let device = String::from_utf8(device.stdout).unwrap().trim().to_owned();
    let mnt = mnt.to_str().unwrap();
    for source in [format!("LABEL={label}"), format!("UUID={uuid}")] {
        firn_ok(&["mount", &source, mnt]);
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = table.lines().find(|line| line.contains(mnt)).unwrap();
        assert!(line.contains(&device), "{line}");
        firn_ok(&["umount", mnt]);
    }
    let detached = || Command::new("losetup").args(["--detach", &device]).status().unwrap().success();
    eventually("the loop device is free", detached);
}

/// The rule for udev makes the links by which mount(8) and systemd find a label and a UUID; one for a label with a blank has the name that
/// mount(8) looks for.
#[test]
fn a_rule_of_udev_links_a_device_by_label_and_by_uuid() {
    if !can_mount() || !is_root() {
        return;
    }
    if Command::new("udevadm").arg("--version").output().is_err() {
        eprintln!("SKIPPED: NOT TESTED: udevadm is missing");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (image, rules) = (directory.path().join("disk.img"), directory.path().join("61-firnfs.rules"));
    let told = firn_ok(&["mkfs", image.to_str().unwrap(), "--size", "32M", "--label", "my disk"]);
    let uuid = told.split("uuid ").nth(1).unwrap().trim().to_owned();
    let properties = firn_ok(&["udev-id", image.to_str().unwrap()]);
    assert!(properties.contains(&format!("ID_FS_UUID={uuid}\n")), "{properties}");
    let looped = Command::new("losetup").args(["--find", "--show"]).arg(&image).output();
    let Some(device) = looped.ok().filter(|output| output.status.success()) else {
        eprintln!("skipped: no loop devices");
        return;
    };
    let device = String::from_utf8(device.stdout).unwrap().trim().to_owned();
    let rule = include_str!("../../../../contrib/udev/61-firnfs.rules");
    std::fs::write(&rules, rule.replace("/usr/bin/firn", FIRN)).unwrap();
    // In a namespace of its own, so that the rule is nobody else's. What udevadm finds out it only prints.
    let script = format!(
        "mkdir -p /run/udev && mount -t tmpfs none /run/udev && mkdir /run/udev/rules.d && cp {} /run/udev/rules.d/ &&
        udevadm test --action=change /sys/class/block/{} 2>&1",
        rules.display(),
        device.rsplit('/').next().unwrap()
    );
    let tested = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap();
    let tested = String::from_utf8_lossy(&tested.stdout).into_owned();
    assert!(Command::new("losetup").args(["--detach", &device]).status().unwrap().success());
    let links = tested.lines().find_map(|line| line.strip_prefix("DEVLINKS=")).unwrap_or(&tested);
    for link in ["/dev/disk/by-label/my\\x20disk".to_owned(), format!("/dev/disk/by-uuid/{uuid}")] {
        assert!(links.split(' ').any(|name| name == link), "{link}: {tested}");
    }
}

#[test]
fn links_named_as_the_helpers_of_mkfs_and_fsck_do_their_work() {
    let directory = tempfile::tempdir().unwrap();
    let link = |name: &str| {
        let path = directory.path().join(name);
        std::os::unix::fs::symlink(FIRN, &path).unwrap();
        path
    };
    let (mkfs, fsck) = (link("mkfs.firnfs"), link("fsck.firnfs"));
    let image = directory.path().join("disk.img");
    let made = Command::new(mkfs).args(["-L", "data", "--size", "32M"]).arg(&image).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let check = |options: &[&str]| {
        let output = Command::new(&fsck).args(options).arg(&image).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, told) = check(&["-a", "-T"]);
    assert!(code == Some(0) && told.contains("not checked"), "{told}");
    let (code, told) = check(&["-f", "-a"]);
    assert!(code == Some(0) && !told.contains("not checked"), "{told}");
    // Damage is found when it is looked for, and only then.
    let file = std::fs::File::options().write(true).open(&image).unwrap();
    for at_bytes in [64 << 10, (1 << 20) + (256 << 10)] {
        std::os::unix::fs::FileExt::write_all_at(&file, &[0xdb; 4096], at_bytes).unwrap();
    }
    assert_eq!(check(&["-a"]).0, Some(0));
    assert_ne!(check(&["-n"]).0, Some(0));
    std::fs::remove_file(&image).unwrap();
    assert_eq!(check(&["-a"]).0, Some(8), "no device");
}

/// fsck(8) passes letters on as they were given, and boot scripts give any of them.
#[test]
fn the_helper_of_fsck_takes_every_option_of_fsck_8_alone_and_together() {
    let directory = tempfile::tempdir().unwrap();
    let (fsck, image) = (directory.path().join("fsck.firnfs"), directory.path().join("disk.img"));
    std::os::unix::fs::symlink(FIRN, &fsck).unwrap();
    firn_ok(&["mkfs", image.to_str().unwrap(), "--size", "32M"]);
    for options in [
        "-a", "-p", "-y", "-n", "-f", "-V", "-v", "-T", "-R", "-M", "-C5", "-C 5", "-C", "-fy", "-r -y",
        "-aTM -C0",
    ] {
        let output = Command::new(&fsck).args(options.split(' ')).arg(&image).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{options}: {output:?}");
    }
    if can_mount() {
        let mnt = directory.path().join("mnt");
        std::fs::create_dir(&mnt).unwrap();
        firn_ok(&["mount", image.to_str().unwrap(), mnt.to_str().unwrap()]);
        let code = |option| Command::new(&fsck).arg(option).arg(&image).output().unwrap().status.code();
        assert_eq!((code("-M"), code("-n")), (Some(0), Some(8)), "mounted");
        firn_ok(&["umount", mnt.to_str().unwrap()]);
    }
}

#[test]
fn a_fake_mount_checks_everything_and_mounts_nothing() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (helper, image) = (directory.path().join("mount.firnfs"), directory.path().join("disk.img"));
    let mnt = directory.path().join("mnt");
    std::fs::create_dir(&mnt).unwrap();
    std::os::unix::fs::symlink(FIRN, &helper).unwrap();
    firn_ok(&["mkfs", image.to_str().unwrap(), "--size", "32M"]);
    let before = std::fs::read(&image).unwrap();
    let fake = |image: &std::path::Path, place: &std::path::Path, words: &[&str]| {
        let output = Command::new(&helper).args([image, place]).args(words).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let is_mounted =
        || std::fs::read_to_string("/proc/self/mountinfo").unwrap().contains(mnt.to_str().unwrap());
    assert_eq!(fake(&image, &mnt, &["-f", "-v", "-o", "noatime"]), (0, String::new()));
    assert_eq!(fake(&image, &mnt, &["-fn", "-o", "ro", "-t", "firnfs"]), (0, String::new()));
    assert!(std::fs::read(&image).unwrap() == before && !is_mounted());
    let nowhere = directory.path().join("nowhere");
    for (image, place, words, named) in [
        (&image, &mnt, "-f -o bogus=1", "bogus=1: unknown option"),
        (&image, &mnt, "-f -o cache=soon", "cache=soon"),
        (&image, &nowhere, "-f", "nowhere"),
        (&image, &image, "-f", "not a directory"),
        (&nowhere, &mnt, "-f", "nowhere"),
        (&helper, &mnt, "-f", "not a firnfs volume"),
    ] {
        let (code, line) = fake(image, place, &words.split(' ').collect::<Vec<_>>());
        assert!(code != 0 && line.contains(named), "{words}: {code} {line}");
    }
    // Sloppy: what nobody knows is ignored; what is known must be right.
    assert_eq!(fake(&image, &mnt, &["-sf", "-o", "bogus=1,noatime,more"]), (0, String::new()));
    assert!(fake(&image, &mnt, &["-sf", "-o", "bogus=1,cache=soon"]).1.contains("cache=soon"));
    // It is also asked of what is mounted.
    firn_ok(&["mount", image.to_str().unwrap(), mnt.to_str().unwrap()]);
    assert_eq!(fake(&image, &mnt, &["-f"]), (0, String::new()));
    firn_ok(&["umount", mnt.to_str().unwrap()]);
}

/// mount(8) reads fstab in the namespace, and has the helper enter it.
#[test]
fn the_helper_of_mount_mounts_in_the_namespace_that_mount_8_names() {
    if !can_mount() || !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = format!(
        "mkdir mnt; ln -s {FIRN} mount.firnfs; {FIRN} mkfs disk.img --size 32M >/dev/null
         unshare --mount --propagation private sleep 60 & there=$!
         trap 'kill $there' EXIT
         while [ $(readlink /proc/$there/ns/mnt) = $(readlink /proc/self/ns/mnt) ]; do sleep 0.05; done
         ./mount.firnfs $PWD/disk.img $PWD/mnt -N /proc/$there/ns/mnt -o noatime
         ! grep $PWD/mnt /proc/self/mountinfo
         grep -c $PWD/mnt /proc/$there/mountinfo
         nsenter --target $there --mount touch $PWD/mnt/file
         nsenter --target $there --mount {FIRN} umount $PWD/mnt
         {FIRN} fsck disk.img"
    );
    let told = crate::common::shell(directory.path(), &script);
    assert!(told.starts_with("1\n") && told.contains("2 inodes"), "{told}");
}

/// An automount that was set off lets nobody through but the process that mounts and its group; everybody else waits for the mount.
#[test]
fn a_mount_does_not_wait_for_the_automount_that_waits_for_it() {
    if !can_mount() || !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (image, mnt) = (directory.path().join("disk.img"), directory.path().join("mnt"));
    std::fs::create_dir(&mnt).unwrap();
    firn_ok(&["mkfs", image.to_str().unwrap(), "--size", "32M"]);
    let (requests, kernel) = std::io::pipe().unwrap();
    let script = format!("read go && {FIRN} mount {} {}", image.display(), mnt.display());
    let mut mount =
        Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).process_group(0).spawn().unwrap();
    let data = format!(
        "fd={},pgrp={},minproto=5,maxproto=5,direct",
        std::os::fd::AsRawFd::as_raw_fd(&kernel),
        mount.id()
    );
    let data = std::ffi::CString::new(data).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    if let Err(why) = rustix::mount::mount(c"auto", &mnt, c"autofs", flags, data.as_c_str()) {
        eprintln!("SKIPPED: NOT TESTED: no automounts here: {why}");
        drop(mount.stdin.take());
        mount.wait().unwrap();
        return;
    }
    let mut user = Command::new("ls").arg(&mnt).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut set_off = [rustix::event::PollFd::new(&requests, rustix::event::PollFlags::IN)];
    let patience = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
    let is_set_off = rustix::event::poll(&mut set_off, Some(&patience)).unwrap() > 0;
    writeln!(mount.stdin.take().unwrap(), "go").unwrap();
    let began = std::time::Instant::now();
    let mut ended = None;
    while ended.is_none() && began.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(20));
        ended = mount.try_wait().unwrap();
    }
    // Then nobody waits any more, and everything can be taken down.
    user.kill().unwrap();
    user.wait().unwrap();
    if ended.is_none() {
        let group = rustix::process::Pid::from_child(&mount);
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    } else {
        firn_ok(&["umount", mnt.to_str().unwrap()]);
    }
    let status = mount.wait().unwrap();
    rustix::mount::unmount(&mnt, rustix::mount::UnmountFlags::DETACH).unwrap();
    assert!(is_set_off && status.success(), "set off: {is_set_off}, {status}");
}

/// The scripts that a maintainer runs, with the program under test in the package.
#[test]
fn the_debian_package_is_installed_used_and_purged() {
    if !can_mount() || !is_root() {
        return;
    }
    let has = |tool: &&str| Command::new(tool).arg("--version").output().is_ok_and(|o| o.status.success());
    if let Some(missing) = ["dpkg-deb", "strip", "objdump", "gzip"].iter().find(|tool| !has(tool)) {
        eprintln!("SKIPPED: NOT TESTED: {missing} is missing");
        return;
    }
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let script = |name: &str, argument: &str| {
        let output = Command::new("sh").current_dir(root).args([name, argument]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{name}: {said}{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let package = script("scripts/package.sh", FIRN);
    let told = script("scripts/package-test.sh", &package);
    assert!(told.starts_with("installed, used and purged: firnfs_"), "{told}");
}

/// mount(8) finds its helpers in /sbin alone: a namespace of its own gets links there. No line of fstab names these mounts.
#[test]
fn mount_8_remounts_images_and_devices_by_the_types_in_the_table_of_mounts() {
    if !can_mount() || !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = format!(
        "mkdir links mnt; ln -s {FIRN} links/mount.fuse.firnfs; ln -s {FIRN} links/mount.fuseblk.firnfs
         {FIRN} mkfs disk.img --size 64M >/dev/null
         if ! mount -t overlay -o lowerdir=$PWD/links:/usr/sbin overlay /usr/sbin || ! loop=$(losetup -f --show disk.img)
         then echo skipped; exit; fi
         trap '{FIRN} umount mnt 2>/dev/null || true; losetup -d $loop' EXIT
         for source in disk.img $loop; do
             {FIRN} mount $source mnt -o noatime
             mount -o remount,cache=64M,ro mnt; {FIRN} tune mnt | grep -o '^cache  *64M'; touch mnt/f 2>/dev/null && echo writable
             mount -o remount,rw mnt; touch mnt/f
             ! mount -o remount,bogus=3 mnt 2>&1
             {FIRN} umount mnt
         done"
    );
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-euc", &script])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    if told.contains("skipped") {
        eprintln!("SKIPPED: NOT TESTED: no overlay or no loop device");
        return;
    }
    assert!(told.matches("64M").count() == 2 && !told.contains("writable"), "{told}");
    assert_eq!(told.matches("bogus").count(), 2, "{told}");
}

/// The same for umount(8): systemd unmounts the file system with the image next. The kernel alone does not wait for the daemon.
#[test]
fn umount_8_returns_when_the_daemon_has_closed_the_image() {
    if !can_mount() || !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = format!(
        "mkdir links mnt store; ln -s {FIRN} links/umount.fuse.firnfs; ln -s {FIRN} links/umount.fuseblk.firnfs
         if ! mount -t overlay -o lowerdir=$PWD/links:/usr/sbin overlay /usr/sbin; then echo skipped; exit; fi
         mount -t tmpfs none store
         {FIRN} mkfs store/disk.img --size 64M >/dev/null
         {FIRN} mount store/disk.img $PWD/mnt
         echo x >mnt/file
         # A daemon that is slow.
         daemon=$(pgrep -f \"$PWD/mnt --daemon\"); kill -STOP $daemon
         (sleep 1; kill -CONT $daemon) &
         umount mnt
         umount store
         {FIRN} mount --memory 16M mnt; umount -l mnt; {FIRN} mount --memory 16M mnt; umount -f mnt
         ! grep $PWD/mnt /proc/self/mountinfo"
    );
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-euc", &script])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    if told.contains("skipped") {
        eprintln!("SKIPPED: NOT TESTED: no overlay");
    }
}
