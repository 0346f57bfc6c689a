//! mkfs from a user's view: what it makes, and what it refuses to overwrite.

use super::*;
use crate::failure::Exit;
use clap::Parser;
use std::path::Path;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: MkfsArgs,
}

fn mkfs(image: &Path, more: &[&str]) -> Done {
    let line = ["mkfs", image.to_str().unwrap()].into_iter().chain(more.iter().copied());
    let args = Line::try_parse_from(line).unwrap().args;
    run(&args, &mut Output::to(Box::new(std::io::sink())))
}

fn image_in(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("disk.img")
}

#[test]
fn a_new_image_is_sparse_and_holds_the_volume_that_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = image_in(&directory);
    let more = ["--size", "64M", "--label", "home", "--segment-size", "512K", "--block-size", "8K"];
    mkfs(&path, &more).unwrap();
    let image = crate::image::Image::open(&path).unwrap();
    let superblock = &image.superblock;
    assert_eq!(
        (superblock.size_bytes, superblock.segment_bytes, superblock.block_bytes),
        (64 << 20, 512 << 10, 8192)
    );
    assert_eq!(superblock.label, "home");
    assert_eq!(image.good_copies, [true; 3]);
    assert!(image.slots.iter().all(Result::is_ok));
    let meta = std::fs::metadata(&path).unwrap();
    assert_eq!(meta.len(), 64 << 20);
    assert!(std::os::unix::fs::MetadataExt::blocks(&meta) * 512 < 4 << 20);
}

#[test]
fn two_volumes_never_share_a_uuid_or_a_hash_key() {
    let directory = tempfile::tempdir().unwrap();
    let made: Vec<_> = ["a", "b"]
        .map(|name| {
            let path = directory.path().join(name);
            mkfs(&path, &["--size", "64M"]).unwrap();
            crate::image::Image::open(&path).unwrap().superblock
        })
        .into();
    assert_ne!(made[0].uuid, made[1].uuid);
    assert_ne!(made[0].hash_key, made[1].hash_key);
    assert_eq!(made[0].uuid[6] >> 4, 4);
}

#[test]
fn a_known_file_system_is_overwritten_only_by_force_and_then_leaves_no_trace() {
    let directory = tempfile::tempdir().unwrap();
    let path = image_in(&directory);
    let mut old = vec![0; 64 << 20];
    old[0x10040..0x10048].copy_from_slice(b"_BHRfS_M");
    let end = old.len();
    old[end - 512..end - 504].copy_from_slice(b"EFI PART");
    std::fs::write(&path, &old).unwrap();
    let refused = mkfs(&path, &[]).unwrap_err();
    assert_eq!(refused.exit, Exit::Refused);
    assert!(refused.to_string().contains("holds a Btrfs file system"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), old);

    mkfs(&path, &["--force"]).unwrap();
    let new = std::fs::read(&path).unwrap();
    assert_ne!(&new[0x10040..0x10048], b"_BHRfS_M");
    assert_ne!(&new[end - 512..end - 504], b"EFI PART");
    crate::image::Image::open(&path).unwrap();
}

#[test]
fn our_own_volume_and_data_of_unknown_kind_are_not_overwritten_either() {
    let directory = tempfile::tempdir().unwrap();
    let path = image_in(&directory);
    mkfs(&path, &["--size", "64M"]).unwrap();
    let again = mkfs(&path, &[]).unwrap_err();
    assert!(again.exit == Exit::Refused && again.to_string().contains("a firnfs volume"), "{again}");
    std::fs::write(&path, "my thesis").unwrap();
    let thesis = mkfs(&path, &["--size", "64M"]).unwrap_err();
    assert_eq!(thesis.exit, Exit::Refused);
    assert_eq!(std::fs::read(&path).unwrap(), b"my thesis");
}

#[test]
fn an_image_that_is_open_as_a_volume_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = image_in(&directory);
    mkfs(&path, &["--size", "64M"]).unwrap();
    let held = firnfs_device::FileDevice::open(&path, &firnfs_device::FileOptions::default()).unwrap();
    let refused = mkfs(&path, &["--force"]).unwrap_err();
    assert_eq!(refused.exit, Exit::Refused);
    assert!(refused.to_string().contains("in use by process"), "{refused}");
    drop(held);
    mkfs(&path, &["--force"]).unwrap();
}

#[test]
fn what_cannot_be_made_is_refused_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = image_in(&directory);
    for more in [
        &["--size", "1M"][..],
        &["--size", "64M", "--block-size", "5000"],
        &["--size", "64M", "--segment-size", "128K"],
        &["--size", "64M", "--inline-max", "1M"],
        &["--size", "64M", "--segment-size", "8G"],
        &[
            "--size",
            "64M",
            "--label",
            "a label that is longer than the sixty-four bytes that are allowed for it",
        ],
        &[],
    ] {
        let refused = mkfs(&path, more).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage, "{more:?}: {refused}");
        assert!(!path.exists(), "{more:?}");
    }
}

#[test]
fn an_option_of_the_other_kind_of_volume_is_refused_by_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = image_in(&directory);
    for (kind, option, needed) in [
        ("ffs", &["--segment-size", "1M"][..], "log"),
        ("ffs", &["--inline-max", "0"], "log"),
        ("ffs", &["--data-logs", "2"], "log"),
        ("ffs", &["--history", "off"], "log"),
        ("log", &["--frag-size", "1K"], "ffs"),
        ("log", &["--minfree", "5"], "ffs"),
        ("log", &["--smart-frag"], "ffs"),
    ] {
        let refused = mkfs(&path, &[&["--size", "64M", "--type", kind], option].concat()).unwrap_err();
        let message = format!("{} needs --type {needed}", option[0]);
        assert_eq!((refused.exit, refused.message), (Exit::Usage, message));
        assert!(!path.exists());
    }
}
