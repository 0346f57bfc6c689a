//! Completion knows the mounts of this machine.

use crate::common::{Kind, Mount, can_mount};
use std::process::Command;

#[test]
fn a_mountpoint_is_completed_wherever_a_mount_is_wanted() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(Kind::Memory);
    let mnt = mount.mnt.to_str().unwrap();
    for command in [
        "umount", "sync", "stat", "df", "tune", "scrub", "clean", "quota", "record", "trim", "snapshot",
        "log",
    ] {
        // As the script of bash asks.
        let output = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(["--", "firn", command, ""])
            .envs([("FIRN_COMPLETE", "bash"), ("_CLAP_COMPLETE_INDEX", "2"), ("_CLAP_IFS", "\n")])
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.lines().any(|line| line == mnt), "{command}: {said}");
    }
}
