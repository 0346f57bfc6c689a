//! `firn rollback`: the volume is as it was, whatever was done to it, and durable. If the death of the daemon cuts it off, no state suffers, and it can be run again.

use crate::common::{Kind, Mount, can_mount, eventually, firn_json, firn_ok, is_root, shell};
use crate::restore::{assert_same, tree};
use rustix::buffer::spare_capacity;
use rustix::fs::{XattrFlags, listxattr, setxattr};
use rustix::process::{Signal, kill_process};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

/// Requests that a rollback makes the daemon carry out.
fn changes(mount: &Mount) -> u64 {
    ["rename2", "unlink", "create", "mkdir", "setattr"].iter().map(|name| mount.requests(name)).sum()
}

#[test]
fn a_rollback_that_a_dead_daemon_cut_off_is_run_again_and_no_state_suffers() {
    if !can_mount() || !is_root() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "256M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    shell(
        &mount.mnt,
        "for d in $(seq 10); do mkdir d$d; for f in $(seq 30); do echo $d $f > d$d/f$f; done; done; ln d1/f1 d2/link; sync",
    );
    let before = tree(&mount.mnt);
    firn_ok(&["snapshot", mnt, "one"]);
    shell(
        &mount.mnt,
        "mkdir e; for d in $(seq 10); do mv d$d/f1 e/g$d; mv d$d/f2 d$d/other; done; mv d6 moved; rm -r d3 d4; for f in d5/*; do echo more >> $f; done
         for f in $(seq 50); do echo new > e/n$f; done",
    );
    let after = tree(&mount.mnt);
    let mut undo = None;
    // Among the first renames, among the new names that go, among the content that comes back.
    for least in [4, 60, 140] {
        let began = changes(&mount);
        let mut rollback = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(["rollback", mnt, "one"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("it has come so far", || {
            changes(&mount) >= began + least || rollback.try_wait().unwrap().is_some()
        });
        // So that the next one begins between the two states.
        mount.sync();
        kill_process(mount.daemon_pid(), Signal::KILL).unwrap();
        rollback.wait().unwrap();
        shell(&mount.mnt, "cd /; umount -l \"$OLDPWD\" || true");
        eventually("the mount is gone", || !mount.is_mounted());
        firn_ok(&["fsck", "--all-points", mount.image.to_str().unwrap()]);
        mount.mount_image(&[]);
        assert_same(&before, &tree(&mount.path(".firn/history/one")));
        let first = undo.get_or_insert_with(|| {
            let states = firn_json(&["snapshot", mnt, "--list", "--json"]);
            let names = states["states"].as_array().unwrap().iter();
            let mut names = names.map(|state| state["name"].as_str().unwrap().to_owned());
            names
                .find(|name| name.starts_with("before-rollback-"))
                .expect("the present became a snapshot first")
        });
        assert_same(&after, &tree(&mount.path(&format!(".firn/history/{first}"))));
    }
    firn_ok(&["rollback", mnt, "one"]);
    assert_same(&before, &tree(&mount.mnt));
    firn_ok(&["rollback", mnt, &undo.unwrap()]);
    assert_same(&after, &tree(&mount.mnt));
    mount.umount();
    firn_ok(&["fsck", "--all-points", mount.image.to_str().unwrap()]);
}

/// What equal times, sizes and names hide.
#[test]
fn a_volume_is_as_it_was_whatever_was_done_to_it() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "64M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    shell(
        &mount.mnt,
        "echo original > set-back; touch -d 2020-01-01 set-back; echo a > first; ln first second; ln first third
         echo x > marked; echo y > came-back; mkdir d; echo a > d/a; echo b > d/b; echo 1 > one; echo 1 > other",
    );
    firn_ok(&["snapshot", mnt, "one"]);
    shell(&mount.mnt, "rm came-back");
    let rollback = || firn_ok(&["rollback", mnt, "one"]);
    rollback();
    let before = tree(&mount.mnt);
    let mark = |name: &str| {
        setxattr(mount.path(name), "user.mark", b"new", XattrFlags::empty()).unwrap();
    };
    ["marked", "came-back", "set-back"].into_iter().for_each(mark);
    shell(
        &mount.mnt,
        "echo modified | dd of=set-back conv=notrunc status=none; touch -d 2020-01-01 set-back; ln marked marked-too
         rm second third; echo a > second; touch -r first second; echo other > third; ln -f one other
         echo new > d/new; mkdir d/dir; echo in > d/dir/in; mv d/b d/dir/b; mv d d2",
    );
    rollback();
    assert_same(&before, &tree(&mount.mnt));
    let inode = |name: &str| std::fs::metadata(mount.path(name)).unwrap().ino();
    assert_eq!([inode("second"), inode("third")], [inode("first"); 2], "names of one file");
    assert_ne!(inode("one"), inode("other"), "two files");
    for name in ["marked", "came-back", "set-back"] {
        let mut list = Vec::with_capacity(256);
        listxattr(mount.path(name), spare_capacity(&mut list)).unwrap();
        assert!(!list.starts_with(b"user.mark"), "{name}");
    }
    let said = rollback();
    assert!(said.contains("0 names removed, 0 back, 0 renamed, 0 files turned back"), "{said}");
    assert_eq!(firn_ok(&["diff", &format!("{mnt}@one")]), "");
}

#[test]
fn what_a_rollback_turned_back_is_there_after_the_daemon_was_killed() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::NoHistory, "64M", &[]);
    let mnt = mount.mnt.to_str().unwrap();
    shell(&mount.mnt, "yes old | head -c 300000 > file; echo x > plain; chmod 640 plain");
    let before = tree(&mount.mnt);
    firn_ok(&["snapshot", mnt, "one"]);
    shell(
        &mount.mnt,
        "yes new | head -c 300000 | dd of=file conv=notrunc status=none; chmod 600 plain; echo > more",
    );
    firn_ok(&["rollback", mnt, "one"]);
    kill_process(mount.daemon_pid(), Signal::KILL).unwrap();
    shell(&mount.mnt, "cd /; umount -l \"$OLDPWD\" || true");
    eventually("the mount is gone", || !mount.is_mounted());
    mount.mount_image(&[]);
    assert_same(&before, &tree(&mount.mnt));
}
