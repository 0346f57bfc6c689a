//! `firn rollback` that is cut off by the death of the daemon: no state suffers, and it can be run again.

use crate::common::{Kind, Mount, can_mount, eventually, firn_json, firn_ok, is_root, shell};
use crate::restore::{assert_same, tree};
use rustix::process::{Signal, kill_process};
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
