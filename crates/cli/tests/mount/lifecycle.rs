//! Mounting, serving and unmounting: daemons that are asked to end, daemons that die, and mounts that are refused.

use crate::common::{
    Kind, Mount, can_mount, complaint, eventually, firn, firn_json, firn_ok, is_root, kernel_caches_stay,
    pattern, shell, write_synced,
};
use crate::transports::transports;
use rustix::process::{Signal, kill_process};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

#[test]
fn what_was_synced_survives_a_killed_daemon_and_the_dead_mount_is_cleared() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(Kind::Image);
    let mut kept = Vec::new();
    for round in 0..5 {
        fs::create_dir(mount.path(&format!("d{round}"))).unwrap();
        for n in 0..20 {
            let name = format!("d{round}/f{n}");
            write_synced(&mount.path(&name), &pattern(round * 100 + n, 3000 * n as usize));
            kept.push((name, round * 100 + n, 3000 * n as usize));
        }
        let late = format!("d{round}/synced by command");
        fs::write(mount.path(&late), pattern(round, 100_000)).unwrap();
        mount.sync();
        kept.push((late, round, 100_000));
        fs::write(mount.path(&format!("d{round}/perhaps lost")), "x").unwrap();
        kill_process(mount.daemon_pid(), Signal::KILL).unwrap();
        eventually("the mount is dead", || rustix::fs::statvfs(&mount.mnt).is_err());
        assert!(mount.is_mounted());
        mount.mount_image(&[]);
        for (name, seed, len) in &kept {
            assert!(fs::read(mount.path(name)).unwrap() == pattern(*seed, *len), "round {round}: {name}");
        }
    }
    mount.umount();
}

#[test]
fn a_dead_mount_is_unmounted_by_firn_umount() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(Kind::Memory);
    kill_process(mount.daemon_pid(), Signal::KILL).unwrap();
    eventually("the mount is dead", || rustix::fs::statvfs(&mount.mnt).is_err());
    mount.umount();
    assert!(!mount.is_mounted());
}

#[test]
fn a_signal_unmounts_and_loses_nothing() {
    if !can_mount() {
        return;
    }
    for signal in [Signal::TERM, Signal::INT] {
        let mount = Mount::new(Kind::Image);
        fs::write(mount.path("f"), pattern(1, 3 << 20)).unwrap();
        kill_process(mount.daemon_pid(), signal).unwrap();
        eventually("it is unmounted", || !mount.is_mounted());
        // Waits for the lock if the daemon is still closing the volume.
        mount.mount_image(&[]);
        assert!(fs::read(mount.path("f")).unwrap() == pattern(1, 3 << 20));
        let stat = firn_json(&["stat", mount.mnt.to_str().unwrap(), "--json"]);
        assert_eq!(stat["log"]["recovery"]["cleanly_unmounted"], true, "{stat}");
    }
}

#[test]
fn a_busy_mount_is_served_to_the_end_after_a_signal() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(Kind::Image);
    let mut file = File::create(mount.path("f")).unwrap();
    file.write_all(b"before").unwrap();
    kill_process(mount.daemon_pid(), Signal::TERM).unwrap();
    eventually("no new user can enter the mount", || !mount.is_mounted());
    file.write_all(b" and after").unwrap();
    file.sync_all().unwrap();
    drop(file);
    mount.mount_image(&[]);
    assert_eq!(fs::read(mount.path("f")).unwrap(), b"before and after");
}

#[test]
fn firn_umount_refuses_a_busy_mount_and_returns_only_when_the_volume_is_released() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(Kind::Image);
    let mnt = mount.mnt.to_str().unwrap();
    let mut file = File::create(mount.path("f")).unwrap();
    assert!(complaint(&["umount", mnt]).contains("busy"));
    file.write_all(&pattern(5, 40 << 20)).unwrap();
    drop(file);
    let daemon = mount.daemon_pid();
    // This time by its image.
    firn_ok(&["umount", mount.image.to_str().unwrap()]);
    // Released: an exclusive lock is available at once.
    shell(Path::new("/"), &format!("flock -n -x {} true", mount.image.display()));
    eventually("the daemon ends", || rustix::process::test_kill_process(daemon).is_err());
    mount.mount_image(&[]);
    assert!(fs::read(mount.path("f")).unwrap() == pattern(5, 40 << 20));
}

#[test]
fn a_second_mount_of_a_volume_is_refused_with_its_place() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(Kind::Image);
    let other = tempfile::tempdir().unwrap();
    let image = mount.image.to_str().unwrap();
    let line = complaint(&["mount", image, other.path().to_str().unwrap()]);
    assert!(line.contains("already mounted on") && line.contains(mount.mnt.to_str().unwrap()), "{line}");
    fs::write(mount.path("f"), "still served").unwrap();
}

#[test]
fn what_cannot_be_mounted_is_refused_with_one_line_that_says_why() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("zeros"), vec![0; 1 << 20]).unwrap();
    fs::create_dir(path("mnt")).unwrap();
    firn_ok(&["mkfs", &path("image"), "--size", "64M"]);
    fs::copy(path("image"), path("truncated")).unwrap();
    File::options().write(true).open(path("truncated")).unwrap().set_len(32 << 20).unwrap();
    for (image, mountpoint, named) in [
        ("zeros", "mnt", "firn mkfs"),
        ("truncated", "mnt", "truncated"),
        ("missing", "mnt", "No such file"),
        ("mnt", "mnt", "directory"),
        ("image", "missing", "No such file"),
        ("image", "zeros", "not a directory"),
    ] {
        let line = complaint(&["mount", &path(image), &path(mountpoint)]);
        assert!(line.contains(named), "{image} on {mountpoint}: {line}");
    }
    for command in ["umount", "sync"] {
        assert!(complaint(&[command, &path("mnt")]).contains("not"), "{command}");
    }
}

#[test]
fn a_read_only_mount_changes_neither_names_nor_the_image() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(Kind::Image);
    fs::write(mount.path("f"), "content").unwrap();
    mount.umount();
    let before = shell(mount.image.parent().unwrap(), "sha256sum disk.img");
    mount.mount_image(&["-o", "ro"]);
    assert_eq!(fs::read(mount.path("f")).unwrap(), b"content");
    let refused = fs::write(mount.path("g"), "").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::ROFS.raw_os_error()));
    mount.umount();
    assert_eq!(shell(mount.image.parent().unwrap(), "sha256sum disk.img"), before);
}

#[test]
fn opening_reading_and_closing_cost_only_the_requests_they_must() {
    if !can_mount() {
        return;
    }
    let _cached = kernel_caches_stay();
    let mount = Mount::new(Kind::Image);
    const FILES: u64 = 200;
    let block = vec![7; 4096];
    for n in 0..FILES {
        fs::write(mount.path(&format!("f{n}")), &block).unwrap();
    }
    assert_eq!(mount.requests("create"), FILES);
    assert_eq!(mount.requests("write"), FILES);
    // From one probe during the mount, the kernel has learned to send none of these.
    assert_eq!(mount.requests("open"), 1);
    assert_eq!((mount.requests("release"), mount.requests("flush")), (0, 1));
    // One request for the new name, at most one for the directory's attributes, one for security.capability.
    assert!(mount.requests("lookup") <= FILES + 2, "{}", mount.requests("lookup"));
    assert!(mount.requests("getattr") <= FILES + 2, "{}", mount.requests("getattr"));
    assert!(mount.requests("getxattr") <= FILES + 2, "{}", mount.requests("getxattr"));

    // Whole pages that were just written, and names that were looked up, are in the kernel's caches: no request at all.
    let total = |mount: &Mount| -> u64 {
        [
            "lookup",
            "getattr",
            "open",
            "read",
            "release",
            "flush",
            "getxattr",
            "opendir",
            "readdir",
            "readdirplus",
        ]
        .iter()
        .map(|name| mount.requests(name))
        .sum()
    };
    for n in 0..FILES {
        let _warm = fs::metadata(mount.path(&format!("f{n}"))).unwrap();
        assert!(fs::metadata(mount.path(&format!("absent{n}"))).is_err());
    }
    let before = total(&mount);
    for n in 0..FILES {
        assert_eq!(fs::metadata(mount.path(&format!("f{n}"))).unwrap().len(), 4096);
        assert_eq!(fs::read(mount.path(&format!("f{n}"))).unwrap(), block);
        assert!(fs::metadata(mount.path(&format!("absent{n}"))).is_err());
    }
    let reads = total(&mount) - before;
    assert!(reads <= 4, "{reads} requests for what the kernel had cached");

    // A second write to the same file needs no GETXATTR: the daemon clears set-id bits.
    let mut file = File::options().append(true).open(mount.path("f0")).unwrap();
    file.write_all(&block).unwrap();
    let before = mount.requests("getxattr");
    for _ in 0..50 {
        file.write_all(&block).unwrap();
    }
    assert_eq!(mount.requests("getxattr"), before);
}

#[test]
fn a_listing_with_attributes_saves_the_lookups() {
    if !can_mount() {
        return;
    }
    for transport in transports() {
        let mount = Mount::with(Kind::Image, "512M", &["--transport", transport]);
        for n in 0..100 {
            fs::write(mount.path(&format!("f{n}")), "x").unwrap();
        }
        // Over io_uring the listing is tried again after each read of the device.
        mount.umount();
        mount.mount_image(&["--transport", transport]);
        let listed = fs::read_dir(&mount.mnt).unwrap();
        let sizes: u64 = listed.map(|e| e.unwrap().metadata().unwrap().len()).sum();
        assert_eq!(sizes, 100);
        assert!(mount.requests("readdirplus") >= 1);
        assert!(mount.requests("lookup") <= 5, "{transport}: {} lookups", mount.requests("lookup"));
        // The second listing needs no lookups either.
        let before = mount.requests("readdirplus") + mount.requests("readdir");
        assert_eq!(fs::read_dir(&mount.mnt).unwrap().count(), 100);
        assert_eq!(mount.requests("readdirplus") + mount.requests("readdir"), before, "{transport}");
    }
}

#[test]
fn a_walk_over_names_brings_no_inodes_and_one_over_files_few_lookups() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(Kind::Image);
    let directory = |n: u32| mount.path(&format!("d{n}"));
    for n in 0..40 {
        fs::create_dir(directory(n)).unwrap();
        (0..14).for_each(|file| fs::write(directory(n).join(format!("f{file}")), "x").unwrap());
    }
    let names = |n: u32| fs::read_dir(directory(n)).unwrap().map(Result::unwrap);
    mount.remount_image();
    let listed: usize = (0..40).map(|n| names(n).count()).sum();
    assert_eq!(listed, 40 * 14);
    // The kernel knows the directories alone.
    let before = mount.requests("lookup");
    let sizes: u64 = (1..40).map(|n| fs::metadata(directory(n).join("f3")).unwrap().len()).sum();
    assert_eq!(sizes, 39);
    let found = mount.requests("lookup") - before;
    assert!(found >= 30, "{found} lookups: a listing a tenth of a second after another one comes alone");
    mount.remount_image();
    let files = |n: u32| names(n).map(|entry| entry.metadata().unwrap().len()).sum::<u64>();
    assert_eq!((0..40).map(files).sum::<u64>(), 40 * 14);
    let lookups = mount.requests("lookup");
    assert!(lookups <= 40 + 3 * 14, "{lookups} lookups: the directories, and the files until it is noticed");
}

#[test]
fn sync_reaches_the_daemon_and_umount_waits_where_the_mount_is_fuseblk() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = Mount::new(Kind::Image);
    mount.umount();
    let found =
        std::process::Command::new("losetup").args(["--find", "--show"]).arg(&mount.image).output().unwrap();
    if !found.status.success() {
        eprintln!("SKIPPED: NOT TESTED: no loop device: {}", String::from_utf8_lossy(&found.stderr));
        return;
    }
    let device = String::from_utf8(found.stdout).unwrap().trim().to_owned();
    let outcome = std::panic::catch_unwind(|| {
        let mnt = mount.mnt.to_str().unwrap();
        firn_ok(&["mount", &device, mnt]);
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = table.lines().find(|line| line.contains(mnt)).unwrap();
        assert!(line.contains(" fuseblk.firnfs "), "{line}");
        assert!(complaint(&["mount", &device, "/mnt"]).contains("already mounted"));
        fs::write(mount.path("f"), pattern(1, 1 << 20)).unwrap();
        let file = File::open(mount.path("f")).unwrap();
        let before = mount.requests("syncfs");
        rustix::fs::syncfs(&file).unwrap();
        assert_eq!(mount.requests("syncfs"), before + 1);
        drop(file);
        kill_process(mount.daemon_pid(), Signal::KILL).unwrap();
        eventually("the mount is dead", || rustix::fs::statvfs(&mount.mnt).is_err());
        firn_ok(&["mount", &device, mnt]);
        assert!(fs::read(mount.path("f")).unwrap() == pattern(1, 1 << 20), "syncfs made it durable");
        fs::write(mount.path("g"), pattern(2, 1 << 20)).unwrap();
        // The daemon closes the volume before umount(8) returns.
        shell(Path::new("/"), &format!("umount {mnt}"));
        let stat = firn_json(&["stat", &device, "--json"]);
        assert_eq!(stat["log"]["recovery"]["cleanly_unmounted"], true, "{stat}");
        assert!(firn_ok(&["fsck", &device]).contains("clean"));
        firn_ok(&["mount", &device, mnt]);
        assert!(fs::read(mount.path("g")).unwrap() == pattern(2, 1 << 20));
        mount.umount();
    });
    shell(
        Path::new("/"),
        &format!("umount -l {} 2>/dev/null; losetup -d {device}", mount.mnt.display())
            .replace("; l", " || true; l"),
    );
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn a_block_device_with_data_that_only_blkid_knows_is_not_overwritten() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = format!(
        "export PATH=$PATH:/usr/sbin:/sbin; firn={}
        truncate -s 64M disk.img
        if ! blkid -V >/dev/null 2>&1 || ! mkfs.minix disk.img >/dev/null || ! loop=$(losetup --find --show disk.img); then
            echo 'SKIPPED: NOT TESTED: no blkid, mkfs.minix or loop device'; exit 0
        fi
        trap 'losetup -d $loop' EXIT
        sum=$(md5sum < $loop)
        if $firn mkfs $loop 2> said; then echo overwritten; exit 1; fi
        test \"$(wc -l < said)\" = 1; grep -q 'holds data of type minix, as blkid says; --force overwrites it' said
        test \"$sum\" = \"$(md5sum < $loop)\"
        $firn mkfs --force $loop",
        env!("CARGO_BIN_EXE_firn")
    );
    let said = shell(directory.path(), &script);
    if said.contains("SKIPPED") {
        eprintln!("{said}");
    }
}

/// Bytes that an image takes on the file system that holds it.
fn image_bytes(mount: &Mount) -> u64 {
    fs::metadata(&mount.image).unwrap().blocks() * 512
}

#[test]
fn with_discard_the_unmount_frees_the_space_of_files_deleted_just_before_it_in_the_image() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "512M", &["-o", "discard"]);
    write_synced(&mount.path("large"), &pattern(1, 100 << 20));
    assert!(image_bytes(&mount) > 100 << 20);
    fs::remove_file(mount.path("large")).unwrap();
    mount.umount();
    assert!(image_bytes(&mount) < 12 << 20, "{} bytes", image_bytes(&mount));
}

#[test]
fn trim_discards_clean_segments_of_a_mount_and_of_an_image() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(Kind::Image);
    let (mnt, image) = (mount.mnt.to_str().unwrap(), mount.image.to_str().unwrap());
    write_synced(&mount.path("kept"), &pattern(2, 10 << 20));
    for is_mounted in [true, false] {
        write_synced(&mount.path("large"), &pattern(1, 100 << 20));
        fs::remove_file(mount.path("large")).unwrap();
        let path = if is_mounted { mnt } else { image };
        if !is_mounted {
            mount.umount();
        }
        assert!(image_bytes(&mount) > 100 << 20);
        let said: serde_json::Value = firn_json(&["trim", path, "--json"]);
        let discarded = said["discarded_bytes"].as_u64().unwrap();
        assert!((400 << 20..502 << 20).contains(&discarded), "{said}");
        assert!(image_bytes(&mount) < 24 << 20, "{} bytes", image_bytes(&mount));
        if !is_mounted {
            assert!(firn_ok(&["fsck", image]).contains("clean"));
            mount.mount_image(&[]);
        }
        assert!(fs::read(mount.path("kept")).unwrap() == pattern(2, 10 << 20));
    }
    assert!(firn_ok(&["trim", mnt]).ends_with(" discarded\n"));
    let memory = Mount::new(Kind::Memory);
    assert!(complaint(&["trim", memory.mnt.to_str().unwrap()]).contains("no log"));
}

#[test]
fn an_ordinary_user_mounts_syncs_and_unmounts_through_fusermount3() {
    if !can_mount() || !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("firn");
    fs::copy(env!("CARGO_BIN_EXE_firn"), &program).unwrap();
    let script = "chmod 755 . firn; mkdir mine; chown 65534:65534 mine; chmod o+rw /dev/fuse
        as() { setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"; }
        as ./firn mkfs mine/disk.img --size 64M > /dev/null
        as mkdir mine/mnt; as ./firn mount mine/disk.img mine/mnt
        as sh -c 'echo content > mine/mnt/f'; as stat -c '%u %g' mine/mnt mine/mnt/f
        cat mine/mnt/f 2>&1 | grep -c 'Permission denied'
        as ./firn sync mine/mnt; as ./firn umount mine/mnt
        as ./firn mount mine/disk.img mine/mnt; as cat mine/mnt/f; as ./firn umount mine/mnt
        ls -A mine/mnt";
    // FUSE without allow_other keeps even root out of a user's mount.
    assert_eq!(shell(directory.path(), script), "65534 65534\n65534 65534\n1\ncontent\n");
}

#[test]
fn fstab_style_mounts_and_remounts_go_through_the_helper() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = Mount::new(Kind::Image);
    mount.umount();
    let directory = mount.image.parent().unwrap();
    let script = format!(
        "ln -s {} mount.firnfs
         ./mount.firnfs disk.img mnt -n -t firnfs -o rw,noatime,nodev,x-mine
         grep -c \" $PWD/mnt .*nodev.*noatime.* fuse.firnfs \" /proc/self/mountinfo
         touch mnt/f; ./mount.firnfs disk.img mnt -o remount,ro; ! touch mnt/g 2>/dev/null
         ./mount.firnfs disk.img mnt -o remount,rw; touch mnt/g; ls mnt",
        env!("CARGO_BIN_EXE_firn")
    );
    assert_eq!(shell(directory, &script), "1\nf\ng\n");
}

#[test]
fn stat_says_that_a_mount_was_remounted_read_only_and_how_that_ends() {
    if !can_mount() || !is_root() {
        return;
    }
    for kind in [Kind::Image, Kind::Memory] {
        let mount = Mount::new(kind);
        let mnt = mount.mnt.to_str().unwrap();
        assert!(firn_ok(&["stat", mnt]).contains(" writable"));
        firn_ok(&["mount", "-o", "remount,ro", mnt]);
        let told = firn_ok(&["stat", mnt]);
        assert!(told.contains(" read-only (remounted)") && !told.contains("writable"), "{told}");
        let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("'firn mount -o remount,rw {mnt}' ends that")), "{told}");
        assert_eq!(firn_json(&["stat", mnt, "--json"])["read_only_reason"], "remounted read-only");
        firn_ok(&["mount", "-o", "remount,rw", mnt]);
        assert!(firn_ok(&["stat", mnt]).contains(" writable"));
    }
}

#[test]
fn fsck_refuses_what_is_mounted_and_says_where() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(Kind::Image);
    let image = mount.image.to_str().unwrap();
    let line = complaint(&["fsck", image]);
    assert!(line.contains("is mounted on") && line.contains("firn umount"), "{line}");
    assert_eq!(firn(&["fsck", image]).status.code(), Some(8));
    let mnt = mount.mnt.to_str().unwrap();
    let line = complaint(&["fsck", mnt]);
    assert!(line.contains(&format!("'firn scrub {mnt}' checks it")), "{line}");
    fs::write(mount.path("new"), "not on the device yet").unwrap();
    let line = complaint(&["dump", mnt, "--inode", "/new"]);
    assert!(line.contains(&format!("'firn sync {mnt}' first")), "{line}");
    fs::write(mount.path("f"), pattern(1, 100_000)).unwrap();
    mount.umount();
    assert!(firn_ok(&["fsck", image]).contains("clean"));
}

#[test]
fn fsck_waits_for_the_process_that_holds_the_volume_and_names_it() {
    let mount = tempfile::tempdir().unwrap();
    let image = mount.path().join("disk.img");
    let image = image.to_str().unwrap();
    firn_ok(&["mkfs", image, "--size", "64M"]);
    let file = File::open(image).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let line = complaint(&["fsck", image]);
    assert!(line.contains(&format!("process {}", std::process::id())), "{line}");
    drop(file);
    firn_ok(&["fsck", image]);
}

#[test]
fn recovery_reads_no_more_log_than_the_options_allow_and_reports_what_it_found() {
    if !can_mount() {
        return;
    }
    let recovered_bytes = |options: &[&str]| {
        let mount = Mount::with(Kind::Image, "256M", options);
        for n in 0..160 {
            write_synced(&mount.path(&format!("f{n}")), &pattern(n, 256 << 10));
        }
        // By then a checkpoint that the last of them triggered is complete; this one follows it.
        std::thread::sleep(std::time::Duration::from_millis(500));
        write_synced(&mount.path("last"), b"last");
        kill_process(mount.daemon_pid(), Signal::KILL).unwrap();
        eventually("the mount is dead", || rustix::fs::statvfs(&mount.mnt).is_err());
        let (image, mnt) = (mount.image.to_str().unwrap(), mount.mnt.to_str().unwrap());
        let told = firn(&["mount", "-v", image, mnt]);
        assert!(told.status.success());
        let stat: serde_json::Value = firn_json(&["stat", mnt, "--json"]);
        let recovery = &stat["log"]["recovery"];
        assert_eq!(recovery["cleanly_unmounted"], false);
        let line = String::from_utf8(told.stderr).unwrap();
        assert!(
            line.contains(&format!("recovered {} files", recovery["rolled_forward_inodes"])),
            "{line}: {recovery}"
        );
        assert!(firn_ok(&["stat", mnt]).contains("recovered"));
        for n in 0..160 {
            assert!(fs::read(mount.path(&format!("f{n}"))).unwrap() == pattern(n, 256 << 10), "f{n}");
        }
        recovery["rolled_forward_bytes"].as_u64().unwrap()
    };
    let never = ["--checkpoint-bytes", "1T", "--checkpoint-interval", "3600"];
    let all = recovered_bytes(&never);
    assert!(all >= 40 << 20, "{all} bytes");
    let some = recovered_bytes(&["--checkpoint-bytes", "2M", "--checkpoint-interval", "3600"]);
    assert!((1..10 << 20).contains(&some), "{some} bytes");
}
