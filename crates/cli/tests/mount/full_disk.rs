//! A sparse image on a disk that is smaller than the image.

use crate::common::{can_mount, complaint, eventually, firn, firn_json, firn_ok, is_root, pattern, shell};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A small file system in memory, and a mount of the volume whose image is on it.
struct Disk {
    home: tempfile::TempDir,
}

impl Disk {
    fn new(size: &str) -> Self {
        let disk = Self { home: tempfile::tempdir().unwrap() };
        shell(disk.home.path(), &format!("mkdir disk mnt; mount -t tmpfs -o size={size} tmpfs disk"));
        disk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn resize(&self, size: &str) {
        shell(self.home.path(), &format!("mount -o remount,size={size} disk"));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = firn(&["umount", self.path("mnt").to_str().unwrap()]);
        shell(self.home.path(), "umount -l disk");
    }
}

fn stat(path: &Path) -> Value {
    firn_json(&["stat", path.to_str().unwrap(), "--json"])
}

fn df(path: &Path) -> Value {
    let volumes: Value = firn_json(&["df", path.to_str().unwrap(), "--json"]);
    volumes["volumes"][0].clone()
}

/// A text without its line breaks.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_tree_that_the_disk_beneath_cannot_take_is_refused_before_an_image_is_made() {
    if !is_root() {
        return;
    }
    let disk = Disk::new("16M");
    let (image, tree) = (disk.path("disk/volume.img"), disk.path("tree"));
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), pattern(1, 20_000_000)).unwrap();
    let (image_word, tree_word) = (image.to_str().unwrap(), tree.to_str().unwrap());
    for kind in ["log", "ffs"] {
        let line =
            complaint(&["mkfs", image_word, "--size", "100M", "--type", kind, "--from-dir", tree_word]);
        assert!(line.contains("does not fit on the disk that holds") && line.contains("are left"), "{line}");
        assert!(!image.exists(), "{kind}");
    }
    // Holes take no space.
    fs::File::create(tree.join("file")).unwrap().set_len(20_000_000).unwrap();
    firn_ok(&["mkfs", image_word, "--size", "100M", "--from-dir", tree_word]);
}

#[test]
fn a_disk_that_is_too_small_for_its_image_is_told_of_at_once_and_as_long_as_it_is() {
    if !can_mount() || !is_root() {
        return;
    }
    let disk = Disk::new("16M");
    let (image, mnt) = (disk.path("disk/volume.img"), disk.path("mnt"));
    let made = firn(&["mkfs", image.to_str().unwrap(), "--size", "100M"]);
    let warning = String::from_utf8(made.stderr).unwrap();
    assert!(made.status.success() && warning.contains("16 MiB left"), "{warning}");
    let view = df(&image);
    assert_eq!(
        (&view["beneath"]["full"], view["beneath"]["free_bytes"].as_u64() <= Some(16 << 20)),
        (&false.into(), true)
    );
    assert!(words(&firn_ok(&["df", image.to_str().unwrap()])).contains("the image can grow by"));

    firn_ok(&["mount", image.to_str().unwrap(), mnt.to_str().unwrap()]);
    // Until the disk is full.
    for n in 0..40 {
        let file = mnt.join(format!("{n}"));
        if fs::write(&file, vec![n as u8; 1 << 20]).and_then(|()| fs::File::open(&file)?.sync_all()).is_err()
        {
            break;
        }
    }
    eventually("the volume is read-only", || !stat(&mnt)["read_only_reason"].is_null());
    assert_eq!(stat(&mnt)["beneath"]["full"], true);
    let told = words(&firn_ok(&["stat", mnt.to_str().unwrap()]));
    assert!(told.contains("is full") && told.contains("--writable"), "{told}");

    // The way out, as told.
    disk.resize("200M");
    firn_ok(&["scrub", mnt.to_str().unwrap(), "--writable"]);
    fs::write(mnt.join("after"), "that").unwrap();
    let view = stat(&mnt);
    assert!(view["read_only_reason"].is_null() && view["beneath"].is_null(), "{view:#}");
}

#[test]
fn a_salvage_that_fails_leaves_no_image_behind() {
    if !is_root() {
        return;
    }
    let disk = Disk::new("1M");
    let (image, out) = (disk.path("volume.img"), disk.path("disk/salvaged.img"));
    let tree = disk.path("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), vec![1; 4 << 20]).unwrap();
    let (image, tree) = (image.to_str().unwrap(), tree.to_str().unwrap());
    firn_ok(&["mkfs", image, "--size", "32M", "--from-dir", tree]);
    let failed = firn(&["fsck", image, "--salvage", out.to_str().unwrap()]);
    let said = String::from_utf8(failed.stderr).unwrap();
    assert!(failed.status.code() == Some(8) && said.contains("No space"), "{said}");
    assert!(!out.exists());
    disk.resize("64M");
    let salvaged = firn(&["fsck", image, "--salvage", out.to_str().unwrap()]);
    assert_eq!(salvaged.status.code(), Some(1), "{salvaged:?}");
    assert!(out.exists());
}
