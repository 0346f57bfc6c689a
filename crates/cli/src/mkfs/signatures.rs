//! Recognises the present content of a device or image by magic numbers, which libblkid(3) knows too.
//!
//! `mkfs` refuses to overwrite a known file system, container or partition table unless forced. firnfs has a table of its own:
//! it is one screen long, and the libraries for this task bring C code or cover a fifth of it. It reads two windows, the first
//! 2 MiB and the last 128 KiB; it never fails on odd bytes or short files. If the table does not recognise the content of a
//! block device, blkid(8) is asked, where it is installed.

use firnfs_format::ffs::superblock as ffs;
use firnfs_format::superblock::{SUPERBLOCK_MAGIC, SUPERBLOCK_PRIMARY_AT, SUPERBLOCK_SECOND_AT};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Bytes examined from the start: the uberblocks of ZFS are at 128 to 256 KiB, firnfs's second superblock at 1 MiB.
const HEAD_BYTES: u64 = 2 << 20;
/// Bytes examined before the end: backup partition tables and RAID superblocks of version 0.90 and 1.0.
const TAIL_BYTES: u64 = 128 << 10;

/// A magic number at a fixed offset from the start.
struct Magic {
    name: &'static str,
    at_bytes: usize,
    magic: &'static [u8],
}

const fn magic(name: &'static str, at_bytes: usize, magic: &'static [u8]) -> Magic {
    Magic { name, at_bytes, magic }
}

/// Longer and rarer magic numbers first, so that a chance match of a short one never hides them.
const TABLE: &[Magic] = &[
    magic("a LUKS volume", 0, b"LUKS\xba\xbe"),
    magic("a LUKS volume", 0x4000, b"SKUL\xba\xbe"),
    magic("a Btrfs file system", 0x1_0040, b"_BHRfS_M"),
    magic("swap space", 4096 - 10, b"SWAPSPACE2"),
    magic("swap space", 4096 - 10, b"SWAP-SPACE"),
    magic("a hibernation image", 4096 - 10, b"S1SUSPEND"),
    magic("swap space", 65536 - 10, b"SWAPSPACE2"),
    magic("a GPT partition table", 512, b"EFI PART"),
    magic("a GPT partition table", 4096, b"EFI PART"),
    magic("an exFAT file system", 3, b"EXFAT   "),
    magic("an NTFS file system", 3, b"NTFS    "),
    magic("a BitLocker volume", 3, b"-FVE-FS-"),
    magic("a FAT32 file system", 82, b"FAT32   "),
    magic("a FAT file system", 54, b"FAT16   "),
    magic("a FAT file system", 54, b"FAT12   "),
    magic("an ISO 9660 file system", 0x8001, b"CD001"),
    magic("a UDF file system", 0x8001, b"BEA01"),
    magic("a ReiserFS file system", 0x1_0034, b"ReIsEr"),
    magic("a ReiserFS file system", 0x2034, b"ReIsEr"),
    magic("an OCFS2 file system", 0x2000, b"OCFSV2"),
    magic("a Ceph BlueStore device", 0, b"bluestore block device"),
    magic("a romfs file system", 0, b"-rom1fs-"),
    magic("a VHDX disk image", 0, b"vhdxfile"),
    magic("a bcachefs file system or bcache device", 0x1018, b"\xc6\x85\x73\xf6"),
    magic("an XFS file system", 0, b"XFSB"),
    magic("a SquashFS file system", 0, b"hsqs"),
    magic("an EROFS file system", 1024, b"\xe2\xe1\xf5\xe0"),
    magic("a CramFS file system", 0, b"\x45\x3d\xcd\x28"),
    magic("an F2FS file system", 1024, b"\x10\x20\xf5\xf2"),
    magic("a JFS file system", 0x8000, b"JFS1"),
    magic("a GFS2 file system", 0x1_0000, b"\x01\x16\x19\x70"),
    magic("an APFS container", 32, b"NXSB"),
    magic("a UFS file system", 0x2000 + 1372, b"\x54\x19\x01\x00"),
    magic("a UFS file system", 0x2000 + 1372, b"\x19\x01\x54\x19"),
    magic("a UFS file system", 0x1_0000 + 1372, b"\x19\x01\x54\x19"),
    magic("a Linux RAID member", 0, b"\xfc\x4e\x2b\xa9"),
    magic("a Linux RAID member", 4096, b"\xfc\x4e\x2b\xa9"),
    magic("a QCOW disk image", 0, b"QFI\xfb"),
    magic("a VMDK disk image", 0, b"KDMV"),
    magic("a VirtualBox disk image", 0x40, b"\x7f\x10\xda\xbe"),
    magic("a NILFS2 file system", 1024 + 6, b"\x34\x34"),
    magic("an HFS+ file system", 1024, b"H+\x00\x04"),
    magic("an HFS+ file system", 1024, b"HX\x00\x05"),
];

/// The content of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// Only zeros in the examined places.
    Blank,
    /// Known content; the text names it with its article.
    Known(&'static str),
    /// Bytes that firn does not recognise.
    Unknown,
}

/// Examines an open file or device of `size_bytes`.
///
/// # Errors
/// As reading it reports.
pub fn identify(file: &File, size_bytes: u64) -> io::Result<Content> {
    let head = read_window(file, 0, size_bytes.min(HEAD_BYTES))?;
    let tail_at = size_bytes.saturating_sub(TAIL_BYTES);
    let tail = read_window(file, tail_at, size_bytes - tail_at)?;
    Ok(identify_windows(&head, &tail, size_bytes))
}

/// What blkid(8) finds on a device, as text; `None` if it finds nothing, is not installed, or cannot read the device.
#[must_use]
pub fn ask_blkid(path: &Path) -> Option<String> {
    let programs = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let mut blkid = Command::new("blkid");
    blkid.args(["--probe", "--output", "export"]).arg(path).env("PATH", programs).stdin(Stdio::null());
    let output = blkid.output().ok()?;
    blkid_says(output.status.code()?, &String::from_utf8_lossy(&output.stdout))
}

/// Reads `NAME=value` lines, as blkid(8) defines them with its exit codes: 0 for one finding, 8 for several that exclude each other.
fn blkid_says(exit_code: i32, lines: &str) -> Option<String> {
    const AMBIGUOUS: i32 = 8;
    let value = |name: &str| lines.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    match exit_code {
        0 => value("TYPE").map(|kind| format!("data of type {kind}, as blkid says")).or_else(|| {
            value("PTTYPE").map(|kind| format!("a partition table of type {kind}, as blkid says"))
        }),
        AMBIGUOUS => Some("signatures of several file systems, as blkid says".to_owned()),
        _ => None,
    }
}

fn read_window(file: &File, at_bytes: u64, len_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len_bytes as usize];
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], at_bytes + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

fn identify_windows(head: &[u8], tail: &[u8], size_bytes: u64) -> Content {
    let known = firnfs_volume(head)
        .or_else(|| TABLE.iter().find(|m| starts_at(head, m.at_bytes, m.magic)).map(|m| m.name))
        .or_else(|| extended_family(head))
        .or_else(|| lvm(head))
        .or_else(|| zfs(head))
        .or_else(|| backup_at_the_end(tail, size_bytes))
        .or_else(|| partition_table(head));
    match known {
        Some(name) => Content::Known(name),
        None if head.iter().chain(tail).all(|&b| b == 0) => Content::Blank,
        None => Content::Unknown,
    }
}

fn starts_at(bytes: &[u8], at_bytes: usize, magic: &[u8]) -> bool {
    bytes.get(at_bytes..).is_some_and(|rest| rest.starts_with(magic))
}

fn le_u32(bytes: &[u8], at_bytes: usize) -> u32 {
    bytes.get(at_bytes..at_bytes + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

/// A firnfs volume: either of the two superblock copies near the start.
fn firnfs_volume(head: &[u8]) -> Option<&'static str> {
    if starts_at(head, ffs::COPY_AT_BYTES as usize, &ffs::MAGIC) {
        return Some("a Fast File System of firnfs");
    }
    [SUPERBLOCK_PRIMARY_AT, SUPERBLOCK_SECOND_AT]
        .into_iter()
        .any(|at_bytes| starts_at(head, at_bytes as usize, &SUPERBLOCK_MAGIC))
        .then_some("a firnfs volume")
}

/// ext2, 3 and 4 share a magic number; the feature bits tell them apart.
fn extended_family(head: &[u8]) -> Option<&'static str> {
    const SUPERBLOCK_AT: usize = 1024;
    const HAS_JOURNAL: u32 = 0x4;
    const EXT4_INCOMPATIBLE: u32 = 0x40 | 0x80 | 0x200; // extents, 64bit, flex_bg
    if !starts_at(head, SUPERBLOCK_AT + 0x38, b"\x53\xef") {
        return None;
    }
    let compatible = le_u32(head, SUPERBLOCK_AT + 0x5c);
    let incompatible = le_u32(head, SUPERBLOCK_AT + 0x60);
    Some(if incompatible & EXT4_INCOMPATIBLE != 0 {
        "an ext4 file system"
    } else if compatible & HAS_JOURNAL != 0 {
        "an ext3 file system"
    } else {
        "an ext2 file system"
    })
}

/// The label may be in any of the first four sectors.
fn lvm(head: &[u8]) -> Option<&'static str> {
    (0..4)
        .map(|sector| sector * 512)
        .any(|at| starts_at(head, at, b"LABELONE") && starts_at(head, at + 24, b"LVM2 001"))
        .then_some("an LVM physical volume")
}

/// The uberblock ring of the first label, in either byte order.
fn zfs(head: &[u8]) -> Option<&'static str> {
    const LITTLE: &[u8] = b"\x0c\xb1\xba\x00\x00\x00\x00\x00";
    const BIG: &[u8] = b"\x00\x00\x00\x00\x00\xba\xb1\x0c";
    (128..256)
        .map(|kib| kib << 10)
        .any(|at| starts_at(head, at, LITTLE) || starts_at(head, at, BIG))
        .then_some("a ZFS pool member")
}

fn backup_at_the_end(tail: &[u8], size_bytes: u64) -> Option<&'static str> {
    const RAID: &[u8] = b"\xfc\x4e\x2b\xa9";
    let before_end = |distance: usize| tail.len().checked_sub(distance).map_or(&[][..], |at| &tail[at..]);
    let raid_1_0 = before_end((8192 + size_bytes % 4096) as usize);
    let raid_0_90 = before_end((65536 + size_bytes % 65536) as usize);
    if raid_1_0.starts_with(RAID) || raid_0_90.starts_with(RAID) {
        Some("a Linux RAID member")
    } else if before_end(512).starts_with(b"EFI PART") || before_end(4096).starts_with(b"EFI PART") {
        Some("a GPT partition table")
    } else if before_end(512).starts_with(b"conectix") {
        Some("a VHD disk image")
    } else {
        None
    }
}

/// A DOS partition table: boot sectors have the same two-byte mark, so the entries must be plausible too.
fn partition_table(head: &[u8]) -> Option<&'static str> {
    const FIRST_ENTRY_AT: usize = 446;
    if !starts_at(head, 510, b"\x55\xaa") {
        return None;
    }
    let entries: Vec<&[u8]> = head[FIRST_ENTRY_AT..510].chunks_exact(16).collect();
    let sane = entries.iter().all(|e| e[0] & 0x7f == 0);
    let used = entries.iter().any(|e| e[4] != 0 && le_u32(e, 12) != 0);
    Some(if sane && used { "a DOS partition table" } else { "a boot sector" })
}

#[cfg(test)]
#[path = "signatures_tests.rs"]
mod tests;
