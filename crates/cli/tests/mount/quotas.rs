//! Quotas on real mounts of every kind, with users who are not root.

use crate::common::{ALL, Kind, Mount, can_mount, eventually, firn, firn_ok, is_root, shell};
use crate::schema;
use std::path::Path;

/// For scripts: runs a command as user and group 1001, or another number.
const AS: &str = "as() { id=$1; shift; setpriv --reuid=$id --regid=$id --clear-groups \"$@\"; }
    refused() { if out=$(\"$@\" 2>&1); then echo \"$* should fail\"; exit 1; fi
        case $out in *'Disk quota exceeded'*) ;; *) echo \"$*: $out\"; exit 1;; esac; }\n";

fn quota(mnt: &Path, words: &[&str]) -> String {
    let mut all = vec!["quota", mnt.to_str().unwrap()];
    all.extend(words);
    firn_ok(&all)
}

fn script(mnt: &Path, text: &str) -> String {
    shell(mnt, &format!("{AS}{text}"))
}

/// Bytes and inodes of a user, as the daemon keeps them.
fn used(mnt: &Path, user: &str) -> (u64, u64) {
    let report = schema::parse(&quota(mnt, &["--user", user, "--json"]));
    let of = |what: &str| report["lines"][0][format!("used_{what}")].as_u64().unwrap_or(0);
    (of("bytes"), of("inodes"))
}

/// The same from the files themselves.
fn walked(mnt: &Path, user: &str) -> (u64, u64) {
    let text = shell(mnt, &format!("find . -xdev -uid {user} -printf '%i %b\\n' | sort -u"));
    let blocks = text.lines().map(|line| line.split_once(' ').unwrap().1.parse::<u64>().unwrap());
    blocks.fold((0, 0), |(bytes, inodes), blocks| (bytes + 512 * blocks, inodes + 1))
}

fn limited(kind: Kind) -> Mount {
    let mount = Mount::new(kind);
    script(&mount.mnt, "mkdir shared; chmod 1777 shared");
    quota(&mount.mnt, &["--on"]);
    quota(&mount.mnt, &["--user", "1001", "--set", "blocks=4M,inodes=20"]);
    mount
}

#[test]
fn the_call_that_exceeds_a_limit_fails_and_only_for_its_user() {
    if !can_mount() || !is_root() {
        return;
    }
    for kind in ALL {
        let mount = limited(kind);
        let mnt = &mount.mnt;
        script(
            mnt,
            "cd shared
            refused as 1001 dd if=/dev/zero of=big bs=64K count=100
            size=$(stat -c %s big); [ $size -ge 3900000 ] && [ $size -le 4194304 ]
            refused as 1001 dd if=/dev/zero of=small bs=64K count=1 conv=fsync
            refused as 1001 fallocate -l 1M more
            as 1002 dd if=/dev/zero of=other bs=64K count=100 status=none
            dd if=/dev/zero of=big bs=64K count=1 seek=100 conv=notrunc status=none
            as 1001 rm big
            as 1001 dd if=/dev/zero of=again bs=64K count=32 status=none
            as 1001 rm again small more
            for n in $(seq 20); do as 1001 touch f$n; done
            refused as 1001 touch f21
            refused as 1001 mkdir d
            refused as 1001 ln -s target link
            as 1001 mv f1 g1; as 1001 ln g1 h1; as 1001 rm f2; as 1001 mkdir d
            as 1001 rm h1",
        );
        assert_eq!(used(mnt, "1001"), walked(mnt, "1001"), "{kind:?}");
        assert_eq!(used(mnt, "1002"), walked(mnt, "1002"), "{kind:?}");
        assert_eq!(used(mnt, "1001").1, 20);
        quota(mnt, &["--off"]);
        script(mnt, "cd shared; as 1001 touch f21");
        assert!(quota(mnt, &[]).contains("quotas are off"));
        mount.umount();
    }
}

#[test]
fn many_writers_of_one_user_stay_below_the_hard_limit() {
    if !can_mount() || !is_root() {
        return;
    }
    for kind in ALL {
        let mount = limited(kind);
        script(
            &mount.mnt,
            "cd shared
            for n in 1 2 3 4 5 6 7 8; do
                as 1001 dd if=/dev/zero of=f$n bs=12345 count=1000 2> /dev/null &
            done
            wait",
        );
        let (bytes, inodes) = used(&mount.mnt, "1001");
        assert!(
            (3_500_000..=4 << 20).contains(&bytes) && inodes == 8,
            "{kind:?}: {bytes} bytes, {inodes} inodes"
        );
        mount.sync();
        assert_eq!(used(&mount.mnt, "1001"), walked(&mount.mnt, "1001"), "{kind:?}");
        mount.umount();
    }
}

#[test]
fn usage_is_exact_after_the_daemon_was_killed_and_limits_stay() {
    if !can_mount() || !is_root() {
        return;
    }
    for kind in [Kind::Image, Kind::Fast] {
        let mount = limited(kind);
        let mnt = &mount.mnt;
        script(mnt, "cd shared; as 1001 dd if=/dev/zero of=a bs=64K count=20 status=none");
        mount.sync();
        script(mnt, "cd shared; as 1001 dd if=/dev/zero of=b bs=64K count=20 status=none; as 1001 rm a");
        rustix::process::kill_process(mount.daemon_pid(), rustix::process::Signal::KILL).unwrap();
        eventually("the daemon is gone", || std::fs::metadata(mnt.join("shared")).is_err());
        mount.mount_image(&[]);
        assert_eq!(used(mnt, "1001"), walked(mnt, "1001"), "{kind:?}");
        script(mnt, "cd shared; refused as 1001 dd if=/dev/zero of=c bs=64K count=100");
        mount.remount_image();
        assert_eq!(used(mnt, "1001"), walked(mnt, "1001"), "{kind:?}");
        assert!(quota(mnt, &["--check"]).contains("everything that was kept is right"));
        let names = script(mnt, "getfattr -m - -d . 2>/dev/null || true");
        assert!(!names.contains("quota"), "the tables are hidden: {names}");
        mount.umount();
        let fsck = firn(&["fsck", mount.image.to_str().unwrap()]);
        assert!(fsck.status.success(), "{}", String::from_utf8_lossy(&fsck.stdout));
    }
}

#[test]
fn chown_and_chgrp_move_usage_and_chgrp_may_be_refused() {
    if !can_mount() || !is_root() {
        return;
    }
    for kind in ALL {
        let mount = limited(kind);
        let mnt = &mount.mnt;
        quota(mnt, &["--group", "2002", "--set", "blocks=64K"]);
        script(
            mnt,
            "cd shared; as 1002 dd if=/dev/zero of=f bs=64K count=8 status=none
            refused setpriv --reuid=1002 --regid=1002 --groups 2002 chgrp 2002 f
            chown 1001 f",
        );
        assert_eq!(used(mnt, "1001"), walked(mnt, "1001"), "{kind:?}");
        assert_eq!(used(mnt, "1002"), walked(mnt, "1002"), "{kind:?}");
        assert_eq!(used(mnt, "1001").1, 1);
        mount.umount();
    }
}

#[test]
fn the_command_explains_what_it_refuses() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = Mount::new(Kind::Memory);
    let mnt = mount.mnt.to_str().unwrap();
    for (words, says) in [
        (&["--user", "0", "--set", "blocks=1G"][..], "superuser"),
        (&["--user", "7", "--set", "blocks=2G:1G"], "soft limit above the hard limit"),
        (&["--set", "blocks=1G"], "--user NAME"),
        (&["--user", "no-such-user", "--set", "blocks=1G"], "no user"),
        (&["--check"], "quotas are off"),
    ] {
        let mut all = vec!["quota", mnt];
        all.extend(words);
        let output = firn(&all);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(says), "{words:?}: {stderr}");
    }
    quota(&mount.mnt, &["--on"]);
    quota(&mount.mnt, &["--user", "root", "--set", "grace=1h"]);
    quota(&mount.mnt, &["--user", "daemon", "--set", "blocks=1G:2G,inodes=5:"]);
    let report = quota(&mount.mnt, &[]);
    assert!(report.lines().all(|line| line.len() <= 80) && report.contains("daemon"), "{report}");
    mount.umount();
}
