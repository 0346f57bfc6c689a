//! What a system needs at boot: readiness told to systemd, volumes by label, and the helpers of mount(8), mkfs(8) and fsck(8).

use crate::common::{can_mount, eventually, firn_ok, is_root};
use std::os::unix::net::UnixDatagram;
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
