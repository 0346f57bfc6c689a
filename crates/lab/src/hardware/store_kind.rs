//! `StoreKind`: which file system a benchmark runs, the log or a variant of the Fast File System.

use firnfs::ffs::{MkfsOptions, Options, Variant};
use firnfs_format::TimeNs;
use firnfs_format::ffs::Tuning;

/// See the module's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreKind {
    /// The log.
    Log,
    /// The Fast File System.
    Fast(Variant),
}

impl std::str::FromStr for StoreKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| "there are lfs, m1r2, efs, m8r2 and m8r0".to_owned())
    }
}

impl StoreKind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Log,
        Self::Fast(Variant::M1R2),
        Self::Fast(Variant::Efs),
        Self::Fast(Variant::M8R2),
        Self::Fast(Variant::M8R0),
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "lfs",
            Self::Fast(Variant::M1R2) => "m1r2",
            Self::Fast(Variant::Efs) => "efs",
            Self::Fast(Variant::M8R2) => "m8r2",
            Self::Fast(Variant::M8R0) => "m8r0",
        }
    }

    /// Blocks of 4 KiB and fragments of 1 KiB (BSD-LFS 5); gaps, but no tables of rotational positions (`cpc` = 0, USENIX'95 3).
    pub(super) fn mkfs(variant: Variant, size_bytes: u64, now: TimeNs) -> MkfsOptions {
        let block_bytes = 4096;
        MkfsOptions {
            block_bytes,
            frag_bytes: 1024,
            tuning: Tuning { cpc: 0, ..variant.tuning(block_bytes) },
            uuid: *b"firnfs: machines",
            hash_key: [19, 93],
            now,
            ..MkfsOptions::with_size(size_bytes)
        }
    }

    /// For a file cache of that size; a quarter of it may be dirty.
    pub(super) fn options(cache_bytes: u64) -> Options {
        Options { cache_bytes, write_threshold_bytes: cache_bytes / 4, ..Options::default() }
    }

    /// What still differs from the papers' Fast File Systems, one difference a line; `None` for the log, whose profile says it.
    #[must_use]
    pub fn differences(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Log => None,
            Self::Fast(_) => Some(&[
                "inodes have 256 bytes instead of 128, and directories come in whole blocks",
                "a write that has to be durable ends with a flush; segments' copies and checksums are charged for all writes",
                "gaps are those of the HP 97560; one block size for all papers: 4 KiB, SunOS and USENIX'95 section 3 had 8",
            ]),
        }
    }
}
