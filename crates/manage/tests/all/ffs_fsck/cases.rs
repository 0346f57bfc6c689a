//! One image, or more, for each kind of finding.

use crate::ffs_fsck::fixture::{BLOCK, Fixture};
use firnfs::dirent;
use firnfs::inode::Kind;
use firnfs_format::InodeNo;
use firnfs_format::ffs::State;
use firnfs_format::ffs::superblock::COPY_AT_BYTES;

/// A damage.
pub struct Case {
    pub name: &'static str,
    pub damage: fn(&mut Fixture),
    /// Exactly these kinds of findings.
    pub kinds: &'static [&'static str],
    /// Paths that do not lead to the same file any more, each with everything below it.
    pub lost: &'static [&'static str],
}

/// What else an inode that went away, or fewer blocks, change.
macro_rules! with_tables {
    ($($kind:literal),*) => { &[$($kind,)* "FreeFrags", "Counts", "Summary"] };
}

const FIRST: u64 = COPY_AT_BYTES;

/// All of them.
#[must_use]
pub fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "a volume that was not unmounted",
            damage: |f| f.edit_superblock(0, |sb| sb.state = State::InUse),
            kinds: &["NotUnmounted"],
            lost: &[],
        },
        Case {
            name: "the first superblock destroyed",
            damage: |f| f.edit(FIRST, 512, |bytes| bytes.fill(0x55)),
            kinds: &["Superblock"],
            lost: &[],
        },
        Case {
            name: "the first superblock and the next copy destroyed",
            damage: |f| {
                f.edit(FIRST, 512, |bytes| bytes.fill(0));
                f.edit(f.group_at(1) + FIRST, 512, |bytes| bytes[100] ^= 1);
            },
            kinds: &["Superblock"],
            lost: &[],
        },
        Case {
            name: "a copy of the superblock destroyed",
            damage: |f| f.edit(f.group_at(2) + FIRST, 512, |bytes| bytes.fill(0)),
            kinds: &["Superblock"],
            lost: &[],
        },
        Case {
            name: "a copy of another volume's superblock",
            damage: |f| f.edit_superblock(1, |sb| sb.uuid = [8; 16]),
            kinds: &["Superblock"],
            lost: &[],
        },
        Case {
            name: "an inode of no type",
            damage: |f| f.edit(f.inode_at(f.ino("dir/pipe")), 256, |bytes| bytes[0] = 3),
            kinds: &["Inode", "UsedInodes", "Counts", "Summary", "EntryDangling"],
            lost: &["dir/pipe"],
        },
        Case {
            name: "a file that is larger than any",
            damage: |f| f.edit_inode("dir/pipe", |inode| inode.size_bytes = u64::MAX),
            kinds: &["Inode", "UsedInodes", "Counts", "Summary", "EntryDangling"],
            lost: &["dir/pipe"],
        },
        Case {
            name: "the root directory's inode destroyed",
            damage: |f| f.edit(f.inode_at(InodeNo::ROOT), 256, |bytes| bytes[0] = 3),
            kinds: with_tables!("Inode", "LostTree", "LostFile", "Links"),
            lost: &["dir", "small", "wide", "many names", "attributed"],
        },
        Case {
            name: "a pointer that leads outside",
            damage: |f| f.edit_inode("dir/blocks", |inode| inode.roots[0][3] = 0x7fff_0000),
            kinds: with_tables!("Pointer", "Frags"),
            lost: &["dir/blocks"],
        },
        Case {
            name: "a pointer into a group's tables",
            damage: |f| {
                let descriptor = f.layout.group_frags + f.layout.descriptor_at();
                f.edit_inode("dir/blocks", |inode| inode.roots[0][3] = descriptor);
            },
            kinds: with_tables!("Pointer", "Frags"),
            lost: &["dir/blocks"],
        },
        Case {
            name: "two files with the same block",
            damage: |f| {
                let taken = f.inode("dir/sub/large").roots[0][4];
                f.edit_inode("dir/blocks", |inode| inode.roots[0][3] = taken);
            },
            kinds: with_tables!("Shared", "Frags"),
            lost: &["dir/blocks", "dir/sub/large"],
        },
        Case {
            name: "a count of fragments",
            damage: |f| f.edit_inode("small", |inode| inode.frags += 3),
            kinds: &["Frags"],
            lost: &[],
        },
        Case {
            name: "an inode without a name that was being removed",
            damage: |f| {
                let mut gone = f.inode("dir/pipe");
                gone.nlink = 0;
                let free = InodeNo(f.ino("many names").0 + 9);
                f.edit_number(free, |inode| *inode = gone);
            },
            kinds: &["Unreferenced"],
            lost: &[],
        },
        Case {
            name: "a descriptor destroyed",
            damage: |f| f.edit(f.group_at(1) + f.at(f.layout.descriptor_at()), BLOCK, |bytes| bytes.fill(7)),
            kinds: &["Descriptor"],
            lost: &[],
        },
        Case {
            name: "inodes marked wrongly",
            damage: |f| f.edit_descriptor(0, |group| group.used_inodes[2] ^= 0x11),
            kinds: &["UsedInodes"],
            lost: &[],
        },
        Case {
            name: "a block in use marked as free, and a free one as used",
            damage: |f| {
                let addr = f.inode("dir/blocks").roots[0][2] % f.layout.group_frags;
                let group = f.inode("dir/blocks").roots[0][2] / f.layout.group_frags;
                f.edit_descriptor(group, |group| {
                    group.free_frags[addr as usize / 8] ^= 0xff;
                    let last = group.free_frags.len() - 1;
                    group.free_frags[last] ^= 0xff;
                });
            },
            kinds: &["FreeFrags"],
            lost: &[],
        },
        Case {
            name: "counts of a group",
            damage: |f| f.edit_descriptor(2, |group| group.summary.free_blocks += 1),
            kinds: &["Counts"],
            lost: &[],
        },
        Case {
            name: "a bitmap of blocks",
            damage: |f| f.edit_descriptor(1, |group| group.free_blocks[40] ^= 4),
            kinds: &["Counts"],
            lost: &[],
        },
        Case {
            name: "a summary that no group can have",
            damage: |f| f.edit_summary(1, |summary| summary.free_blocks = u32::MAX),
            kinds: &["Summary"],
            lost: &[],
        },
        Case {
            name: "a torn sector of a directory",
            damage: |f| f.edit_block("wide", 0, 1, |block| block[512..1024].fill(0x33)),
            kinds: &["DirectoryBlock", "Links"],
            lost: &["wide", "many names"],
        },
        Case {
            name: "a name that cannot be",
            damage: |f| f.edit_entry("dir", "pipe", |record| record[dirent::HEAD_BYTES + 1] = b'/'),
            kinds: &["EntryName"],
            lost: &["dir/pipe"],
        },
        Case {
            name: "a name that is there twice",
            damage: |f| {
                f.edit_entry("dir/sub", "shared too", |record| {
                    record[dirent::HEAD_BYTES..][..10].copy_from_slice(b"large\0\0\0\0\0");
                    record[10] = 5;
                });
            },
            kinds: &["EntryTwice", "Links"],
            lost: &["dir/sub/shared too", "dir/shared"],
        },
        Case {
            name: "an entry that names nothing",
            damage: |f| f.edit_entry("dir", "shared", |r| r[..8].copy_from_slice(&190u64.to_le_bytes())),
            kinds: &["EntryDangling", "Links"],
            lost: &["dir/shared", "dir/sub/shared too"],
        },
        Case {
            name: "an entry of another type",
            damage: |f| f.edit_entry("dir", "pipe", |record| record[11] = Kind::Socket as u8),
            kinds: &["EntryKind"],
            lost: &[],
        },
        Case {
            name: "a second name of a directory",
            damage: |f| {
                let deep = f.ino("dir/sub/deep").0;
                f.edit_entry("wide", "a name in the wide directory 3", |record| {
                    record[..8].copy_from_slice(&deep.to_le_bytes());
                    record[11] = Kind::Directory as u8;
                });
            },
            kinds: &["EntrySecond", "Links"],
            lost: &["wide/a name in the wide directory 3"],
        },
        Case {
            name: "a second name of a directory, in a directory before the one that `..` names",
            damage: |f| {
                let deep = f.ino("dir/sub/deep").0;
                f.edit_entry("", "small", |record| {
                    record[..8].copy_from_slice(&deep.to_le_bytes());
                    record[11] = Kind::Directory as u8;
                });
            },
            kinds: &["EntrySecond", "LostFile"],
            lost: &["small"],
        },
        Case {
            name: "a directory's second name, and its parent is itself below it",
            damage: |f| {
                let (sub, deep) = (f.ino("dir/sub").0, f.ino("dir/sub/deep").0);
                f.edit_inode("dir/sub", |inode| inode.node = deep);
                f.edit_entry("dir/sub/deep", "link", |record| {
                    record[..8].copy_from_slice(&sub.to_le_bytes());
                    record[11] = Kind::Directory as u8;
                });
            },
            kinds: &["EntrySecond", "DotDot", "LostFile"],
            lost: &["dir/sub/deep/link"],
        },
        Case {
            name: "a directory with another parent",
            damage: |f| f.edit_inode("dir/sub/deep", |inode| inode.node = InodeNo::ROOT.0),
            kinds: &["DotDot"],
            lost: &[],
        },
        Case {
            name: "a directory's counts",
            damage: |f| f.edit_inode("dir/sub", |inode| inode.entries += 1),
            kinds: &["DirCounts"],
            lost: &[],
        },
        Case {
            name: "a hash index",
            damage: |f| f.edit_block("wide", 1, 0, |block| block[100..300].fill(0x77)),
            kinds: &["Index"],
            lost: &[],
        },
        Case {
            name: "a tree that lost its name",
            damage: |f| {
                f.edit_entry("dir", "sub", |record| record[..8].copy_from_slice(&190u64.to_le_bytes()))
            },
            kinds: &["EntryDangling", "LostTree", "Links"],
            lost: &["dir/sub"],
        },
        Case {
            name: "a file that lost its name",
            damage: |f| {
                f.edit_entry("", "small", |record| record[..8].copy_from_slice(&190u64.to_le_bytes()))
            },
            kinds: &["EntryDangling", "LostFile"],
            lost: &["small"],
        },
        Case {
            name: "a count of links",
            damage: |f| f.edit_inode("dir/shared", |inode| inode.nlink = 9),
            kinds: &["Links"],
            lost: &[],
        },
        Case {
            name: "a root directory without links",
            damage: |f| f.edit_inode("", |inode| inode.nlink = 0),
            kinds: &["Root", "Links"],
            lost: &[],
        },
        Case {
            name: "attributes",
            damage: |f| f.edit_block("attributed", 2, 0, |block| block[..40].fill(0xee)),
            kinds: &["Attributes"],
            lost: &["attributed"],
        },
        Case {
            name: "a file with an index",
            damage: |f| f.edit_inode("small", |inode| inode.index_blocks = 1),
            kinds: &["Form"],
            lost: &[],
        },
    ]
}
