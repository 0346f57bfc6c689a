//! `Profile`: how the file system is set up for a figure of a paper.
//!
//! The profile of 1993 follows the papers where the format and the options allow it. Remaining differences are listed beside each figure:
//! [`Profile::differences`].

use firnfs::lfs::{MkfsOptions, Options};
use firnfs_format::TimeNs;
use serde::Serialize;

/// See the module's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Profile {
    /// As the papers' file systems: blocks of 4 KiB, nothing in inodes, a small write threshold.
    #[serde(rename = "1993")]
    Of1993,
    /// firnfs with its defaults and the machine's memory.
    #[serde(rename = "modern")]
    Modern,
}

impl std::str::FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "1993" => Ok(Self::Of1993),
            "modern" => Ok(Self::Modern),
            _ => Err("there are 1993 and modern".to_owned()),
        }
    }
}

impl Profile {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Of1993, Self::Modern];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Of1993 => "1993",
            Self::Modern => "modern",
        }
    }

    pub(super) fn mkfs(self, block_bytes: u32, size_bytes: u64, now: TimeNs) -> MkfsOptions {
        let inline_max_bytes = match self {
            Self::Of1993 => 0,
            Self::Modern => 1024,
        };
        MkfsOptions {
            size_bytes,
            block_bytes,
            segment_bytes: 1 << 20,
            physical_block_bytes: 4096,
            inline_max_bytes,
            label: "papers".to_owned(),
            uuid: *b"firnfs: machines",
            hash_key: [19, 93],
            now,
            root_owner: (0, 0),
        }
    }

    /// For a file cache of that size.
    pub(super) fn options(self, cache_bytes: u64, write_threshold_bytes: u64) -> Options {
        let modern = Options { cache_bytes, ..Options::default() };
        match self {
            Self::Of1993 => Options {
                write_threshold_bytes,
                held_indirect_bytes: 0,
                commit_interval_ms: 30_000,
                coalesce_age_ms: None,
                ..modern
            },
            Self::Modern => modern,
        }
    }

    /// The remaining differences from the papers' file systems, one a line.
    #[must_use]
    pub fn differences(self) -> &'static [&'static str] {
        match self {
            Self::Of1993 => &[
                "pointers take 16 bytes: 256 to an indirect block, where the papers' file systems have 1024",
                "three logs at least: data by its expected lifetime in two, metadata in one of its own",
                "the last block of a file is stored at its own length; partial segments end on multiples of 4 KiB",
                "up to 512 KiB of a stream are read ahead, in steps of up to 128 KiB",
                "the checksum of all bytes of a block costs nothing here; one word of each is charged, as in BSD-LFS",
                "inode records are written beside their file's blocks, not collected in blocks of inodes",
            ],
            Self::Modern => &[],
        }
    }
}
