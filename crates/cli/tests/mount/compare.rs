//! `firn age compare` on real file systems: all live through the same, the report has what was measured, and nothing stays.

use crate::bench::{Running, entries, home, left_behind};
use crate::common::{can_mount, eventually, firn_json, firn_ok, is_root, kernel_caches_go};
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

fn workload(home: &Path) -> String {
    let path = home.join("w.fwl").to_str().unwrap().to_owned();
    firn_ok(&["age", "workload", "--random", "16M", "--operations", "800", "-o", &path]);
    path
}

#[test]
fn file_systems_that_are_compared_have_the_same_files_after_each_stage() {
    if !can_mount() || !is_root() {
        return;
    }
    let _dropped = kernel_caches_go();
    let home = home();
    let (workload, place) = (workload(home.path()), home.path().to_str().unwrap());
    let out = home.path().join("out");
    let mut words = vec!["age", "compare", &workload, "--out", out.to_str().unwrap(), "--dir", place];
    words.extend([
        "--on",
        "firnfs,ext4,ffs",
        "--size",
        "128M",
        "--stages",
        "2",
        "--runs",
        "1",
        "--rest",
        "0",
        "--json",
    ]);
    let said = firn_json(&words);
    let systems = said["systems"].as_array().unwrap();
    let names: Vec<&str> = systems.iter().map(|system| system["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["firnfs", "ext4", "ffs"]);
    let stages = [0, 1, 2].map(|at| systems[at]["stages"].as_array().unwrap());
    assert_eq!(stages.map(Vec::len), [2, 2, 2]);
    let others = stages[1..].iter().flat_map(|other| stages[0].iter().zip(*other));
    for (log, other) in others {
        assert!(log["files"].as_u64() > Some(10) && log["tree_bytes"].as_u64() > Some(1 << 20), "{log}");
        assert_eq!((&log["files"], &log["tree_bytes"]), (&other["files"], &other["tree_bytes"]));
        for stage in [log, other] {
            assert!(
                stage["aged_ms"].as_f64() > Some(0.0) && stage["fresh_ms"].as_f64() > Some(0.0),
                "{stage}"
            );
            assert!(stage["pace"]["disk_bytes"].as_u64() > Some(1 << 20), "{stage}");
        }
        assert_eq!(log["pace"]["file_operations"], other["pace"]["file_operations"]);
    }
    assert!(systems.iter().all(|system| system["written_bytes"] == systems[0]["written_bytes"]), "{said}");
    // The log holds all that the workload wrote and was not dead before it was synced.
    assert!(
        systems[0]["logged"]["log_bytes"].as_u64() > systems[0]["stages"][1]["tree_bytes"].as_u64(),
        "{said}"
    );
    for other in &systems[1..] {
        assert!(other["logged"].is_null() && other["layout_score"].as_f64() > Some(0.0), "{other}");
    }
    let page = std::fs::read_to_string(out.join("compare.html")).unwrap();
    assert!(page.contains("firnfs") && page.matches("<svg").count() == 4);
    assert!(out.join("reading.csv").exists());
    eventually("mounts and loop devices are gone", || left_behind(home.path()).is_empty());
    let mut left = entries(home.path());
    left.sort();
    assert_eq!(left, ["out", "w.fwl"]);
}

#[test]
fn a_comparison_that_is_stopped_leaves_nothing_behind() {
    if !can_mount() || !is_root() {
        return;
    }
    let _dropped = kernel_caches_go();
    let home = home();
    let workload = workload(home.path());
    let mut command = Command::new(env!("CARGO_BIN_EXE_firn"));
    command.args([
        "age", "compare", &workload, "--on", "firnfs", "--size", "128M", "--stages", "800", "--rest", "0",
    ]);
    command.arg("--out").arg(home.path().join("out")).arg("--dir").arg(home.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = Running(command.process_group(0).spawn().unwrap());
    // An image, its loop device's file and its mount, and the same of the copy.
    eventually("both disks are there", || left_behind(home.path()).len() >= 4);
    kill_process_group(Pid::from_child(&child.0), Signal::INT).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
    eventually("mounts and loop devices are gone", || left_behind(home.path()).is_empty());
    assert_eq!(entries(home.path()), ["w.fwl"]);
}
