//! `mkfs`: what it refuses, and what it leaves behind.

use crate::common::{firn, json, ok, refused, text};
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn an_image_too_large_for_its_file_system_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let image = home.path().join("disk.img");
    // A limit of the process stands in for one of the file system: ftruncate(2) fails in the same way for
    // both.
    let script =
        format!("trap '' XFSZ; ulimit -f 1024; exec {} mkfs \"$0\" --size 16T", env!("CARGO_BIN_EXE_firn"));
    let output = Command::new("bash").args(["-c", &script]).arg(&image).output().unwrap();
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.contains("does not support a file of 16 TiB; choose a smaller --size"), "{line}");
    assert!(!image.exists());
}

#[test]
fn a_volume_that_is_too_small_is_refused_with_the_smallest_size_which_is_enough() {
    let home = tempfile::tempdir().unwrap();
    let image = home.path().join("x.img");
    let image = image.to_str().unwrap();
    for more in [
        &["--size", "1M"][..],
        &["--size", "100"],
        &["--size", "20M", "--segment-size", "4M"],
        &["--size", "8K", "--type", "ffs"],
    ] {
        let line = refused(&[&["mkfs", image], more].concat(), 2);
        assert!(line.contains("is too small: ") && !line.contains("0 B "), "{line}");
        assert!(!Path::new(image).exists(), "{line}");
        let least = line.split("--size ").nth(1).unwrap().split([' ', ',']).next().unwrap().trim_end();
        let (least, unit) = least.split_at(least.len() - 1);
        let with = |number: u64| {
            let size = format!("{number}{unit}");
            let output = firn(&[&["mkfs", image, "--size", &size][..], &more[2..]].concat());
            let made = output.status.success();
            if made {
                ok(&["fsck", image]);
                std::fs::remove_file(image).unwrap();
            }
            made
        };
        let least: u64 = least.parse().unwrap();
        assert!(with(least), "{line}");
        assert!(!with(least - 1), "{line}");
    }
}

#[test]
fn mkfs_refuses_a_tree_that_does_not_fit_before_it_writes_and_names_a_size_that_is_enough() {
    let (tree, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for n in 0..24 {
        std::fs::write(tree.path().join(format!("file {n}")), vec![n as u8; 1_000_000 + n * 1000]).unwrap();
    }
    let (new, old) = (home.path().join("new.img"), home.path().join("old.img"));
    let [new_path, old_path, from] = [new.as_path(), &old, tree.path()].map(|path| path.to_str().unwrap());
    let line = refused(&["mkfs", new_path, "--size", "32M", "--from-dir", from], 1);
    assert!(line.contains("does not fit: it needs 2"), "{line}");
    assert!(!new.exists());
    let fast = ["mkfs", new_path, "--size", "16M", "--from-dir", from, "--type", "ffs"];
    assert!(refused(&fast, 1).contains("does not fit"));
    assert!(!new.exists());

    // What an existing image holds is still there.
    ok(&["mkfs", old_path, "--size", "32M", "--label", "kept"]);
    refused(&["mkfs", old_path, "--force", "--from-dir", from], 1);
    assert_eq!(json(&["stat", old_path, "--json"])["log"]["label"], "kept");

    let size = line.split("--size ").nth(1).unwrap().split(' ').next().unwrap();
    let made = json(&["mkfs", new_path, "--size", size, "--from-dir", from, "--json"]);
    assert_eq!(made["copied"]["files"], 24);
    assert!(
        made["size_bytes"].as_u64().unwrap() < 64 << 20,
        "the size is not just any that is enough: {line}"
    );
}

#[test]
fn a_copy_that_fails_half_way_leaves_no_image() {
    let (tree, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Targets of symbolic links are not counted before.
    for n in 0..4000 {
        std::os::unix::fs::symlink("x".repeat(4000), tree.path().join(n.to_string())).unwrap();
    }
    let image = home.path().join("new.img");
    let args =
        ["mkfs", image.to_str().unwrap(), "--size", "32M", "--from-dir", tree.path().to_str().unwrap()];
    let line = refused(&args, 1);
    assert!(line.contains("no space left on the volume"), "{line}");
    assert!(!image.exists());
}

#[test]
fn a_signal_ends_the_copy_of_a_tree_and_the_new_image_is_gone() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::os::unix::fs::MetadataExt;
    let (tree, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(tree.path().join("large"), vec![1; 300 << 20]).unwrap();
    let image = home.path().join("new.img");
    for (signal, exit) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args([
                "mkfs",
                image.to_str().unwrap(),
                "--size",
                "1G",
                "--from-dir",
                tree.path().to_str().unwrap(),
            ])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while !std::fs::metadata(&image).is_ok_and(|meta| meta.blocks() * 512 > 4 << 20) {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it copied anything");
            std::thread::yield_now();
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let line = text(&output.stderr);
        assert_eq!(output.status.code(), Some(exit), "{line}");
        assert!(line.contains("interrupted") && !image.exists(), "{line}");
    }
}
