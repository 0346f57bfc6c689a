//! Completion knows the mounts of this machine, their states and their clones.

use crate::common::{Kind, Mount, Stopped, can_mount, firn_ok};
use std::process::Command;

/// What can stand for the last word, as the script of bash asks.
fn offered(words: &[&str]) -> Vec<String> {
    let index = words.len().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_firn"))
        .args(["--", "firn"])
        .args(words)
        .envs([("FIRN_COMPLETE", "bash"), ("_CLAP_COMPLETE_INDEX", &*index), ("_CLAP_IFS", "\n")])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_mountpoint_is_completed_wherever_a_mount_is_wanted() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(Kind::Memory);
    let mnt = mount.mnt.to_str().unwrap().to_owned();
    for command in [
        "umount", "sync", "stat", "df", "tune", "scrub", "clean", "quota", "record", "trim", "snapshot",
        "log", "watch", "resize", "freeze", "thaw", "dump", "retain", "clone", "restore", "undelete",
        "rollback", "diff", "send",
    ] {
        let offered = offered(&[command, ""]);
        assert!(offered.contains(&mnt), "{command}: {offered:?}");
    }
}

#[test]
fn states_and_clones_are_completed_by_their_names() {
    if !can_mount() {
        return;
    }
    let (mount, other) = (Mount::with(Kind::Image, "64M", &[]), Mount::with(Kind::Image, "64M", &[]));
    let elsewhere = other.mnt.to_str().unwrap();
    firn_ok(&["snapshot", elsewhere, "upland"]);
    firn_ok(&["clone", elsewhere, "upland", other.path("woods").to_str().unwrap()]);
    // No other mount is asked: Tab would wait for its daemon.
    let stopped = Stopped::new(other.daemon_pid());
    let (mnt, image) = (mount.mnt.to_str().unwrap(), mount.image.to_str().unwrap());
    firn_ok(&["snapshot", mnt, "upgrade"]);
    firn_ok(&["clone", mnt, "upgrade", mount.path("work").to_str().unwrap()]);
    let begun = |place: &str, rest: &str| format!("{place}@{rest}");
    for (words, whole) in [
        (&["clone", mnt, "upg"][..], "upgrade".to_owned()),
        (&["clone", mnt, "--delete", "wo"], "work".to_owned()),
        (&["rollback", mnt, "upg"], "upgrade".to_owned()),
        (&["restore", mnt, "--at", "upg"], "upgrade".to_owned()),
        (&["snapshot", mnt, "--delete", "upg"], "upgrade".to_owned()),
        (&["diff", &begun(mnt, "upg")], begun(mnt, "upgrade")),
        (&["send", &begun(mnt, "upg")], begun(mnt, "upgrade")),
        (&["send", &begun(mnt, "upgrade..upg")], begun(mnt, "upgrade..upgrade")),
    ] {
        let offered = offered(words);
        assert!(offered.contains(&whole), "{words:?}: {offered:?}");
        assert!(!offered.iter().any(|word| ["upland", "woods"].contains(&&**word)), "{words:?}: {offered:?}");
    }
    drop(stopped);
    assert!(offered(&["restore", "--at", "upl"]).contains(&"upland".to_owned()), "no mount is named yet");
    mount.umount();
    let offered = offered(&["mount", &begun(image, "upg")]);
    assert!(offered.contains(&begun(image, "upgrade")), "{offered:?}");
    mount.mount_image(&[]);
}
