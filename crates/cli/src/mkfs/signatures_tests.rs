//! The tests make file systems with real tools where every Debian system has the tool; they write the magic numbers of
//! the others by hand.

use super::*;
use std::process::Command;

const SIZE_BYTES: u64 = 4 << 20;

fn with(at_bytes: usize, magic: &[u8]) -> Content {
    let mut image = vec![0; SIZE_BYTES as usize];
    image[at_bytes..at_bytes + magic.len()].copy_from_slice(magic);
    identify_image(&image)
}

fn identify_image(image: &[u8]) -> Content {
    let head = &image[..image.len().min(HEAD_BYTES as usize)];
    let tail = &image[image.len().saturating_sub(TAIL_BYTES as usize)..];
    identify_windows(head, tail, image.len() as u64)
}

/// Runs a mkfs tool on a fresh file; `None` if the tool is not installed.
fn made_by(tool: &str, args: &[&str], size_bytes: u64) -> Option<Content> {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(size_bytes).unwrap();
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let status = Command::new(tool).args(args).arg(file.path()).env("PATH", path).output().ok()?.status;
    assert!(status.success(), "{tool} {args:?}");
    Some(identify(file.as_file(), size_bytes).unwrap())
}

#[test]
fn every_row_of_the_table_is_recognised_at_its_place_and_only_there() {
    for row in TABLE {
        assert_eq!(with(row.at_bytes, row.magic), Content::Known(row.name));
        assert_eq!(with(row.at_bytes + 7, row.magic), Content::Unknown, "{}", row.name);
    }
}

#[test]
fn the_ext_family_is_told_apart_on_real_file_systems() {
    for (kind, name) in
        [("ext2", "an ext2 file system"), ("ext3", "an ext3 file system"), ("ext4", "an ext4 file system")]
    {
        match made_by("mke2fs", &["-q", "-F", "-t", kind], 16 << 20) {
            Some(found) => assert_eq!(found, Content::Known(name)),
            None => eprintln!("SKIPPED: mke2fs is not installed"),
        }
    }
}

#[test]
fn real_swap_space_is_recognised() {
    match made_by("mkswap", &[], 1 << 20) {
        Some(found) => assert_eq!(found, Content::Known("swap space")),
        None => eprintln!("SKIPPED: mkswap is not installed"),
    }
}

#[test]
fn labels_that_move_are_found_in_all_their_places() {
    let mut label = [0; 32];
    label[..8].copy_from_slice(b"LABELONE");
    label[24..].copy_from_slice(b"LVM2 001");
    for sector in 0..4 {
        assert_eq!(with(sector * 512, &label), Content::Known("an LVM physical volume"));
    }
    assert_eq!(with(4 * 512, &label), Content::Unknown);
    for at in [128 << 10, 200 << 10, 255 << 10] {
        assert_eq!(with(at, b"\x0c\xb1\xba\0\0\0\0\0"), Content::Known("a ZFS pool member"));
    }
}

#[test]
fn marks_at_the_end_are_found() {
    let end = SIZE_BYTES as usize;
    assert_eq!(with(end - 512, b"EFI PART"), Content::Known("a GPT partition table"));
    assert_eq!(with(end - 512, b"conectix"), Content::Known("a VHD disk image"));
    assert_eq!(with(end - 65536, b"\xfc\x4e\x2b\xa9"), Content::Known("a Linux RAID member"));
    assert_eq!(with(end - 8192, b"\xfc\x4e\x2b\xa9"), Content::Known("a Linux RAID member"));
}

#[test]
fn a_partition_table_needs_entries_and_a_boot_sector_does_not() {
    let mut sector = [0; 512];
    sector[510..].copy_from_slice(b"\x55\xaa");
    assert_eq!(with(0, &sector), Content::Known("a boot sector"));
    sector[446 + 4] = 0x83;
    sector[446 + 12] = 1;
    assert_eq!(with(0, &sector), Content::Known("a DOS partition table"));
    sector[446] = 0x11;
    assert_eq!(with(0, &sector), Content::Known("a boot sector"));
}

#[test]
fn blank_short_and_strange_images_are_told_apart_without_panic() {
    assert_eq!(identify_image(&[]), Content::Blank);
    assert_eq!(identify_image(&[0; 100]), Content::Blank);
    assert_eq!(identify_image(b"some text"), Content::Unknown);
    for len in [1, 511, 512, 1023, 4096, 65536] {
        assert_eq!(identify_image(&vec![0xa5; len]), Content::Unknown, "{len}");
    }
}

#[test]
fn our_own_volumes_are_recognised_by_either_copy_of_the_superblock() {
    for at_bytes in [SUPERBLOCK_PRIMARY_AT, SUPERBLOCK_SECOND_AT] {
        assert_eq!(with(at_bytes as usize, &SUPERBLOCK_MAGIC), Content::Known("a firnfs volume"));
    }
}

#[test]
fn blkid_is_asked_for_what_the_table_does_not_know() {
    let words = |text: &str| Some(text.to_owned());
    assert_eq!(blkid_says(0, "DEVNAME=/dev/x\nTYPE=minix\n"), words("data of type minix, as blkid says"));
    assert_eq!(blkid_says(0, "PTTYPE=sun\n"), words("a partition table of type sun, as blkid says"));
    assert_eq!(blkid_says(8, ""), words("signatures of several file systems, as blkid says"));
    assert_eq!(blkid_says(0, "DEVNAME=/dev/x\nUSAGE=filesystem\n"), None);
    assert_eq!(blkid_says(2, ""), None);

    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(4 << 20).unwrap();
    assert_eq!(ask_blkid(file.path()), None, "nothing is there");
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let installed =
        |tool: &str, args: &[&str]| Command::new(tool).args(args).env("PATH", &path).output().is_ok();
    if !installed("blkid", &["-V"]) || !installed("mkfs.minix", &[file.path().to_str().unwrap()]) {
        eprintln!("SKIPPED: blkid or mkfs.minix is not installed");
        return;
    }
    assert_eq!(identify(file.as_file(), 4 << 20).unwrap(), Content::Unknown);
    assert_eq!(ask_blkid(file.path()), words("data of type minix, as blkid says"));
}
