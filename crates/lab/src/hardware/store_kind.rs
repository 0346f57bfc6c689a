//! `StoreKind`: which file system a benchmark runs, the log or a variant of the Fast File System; `FastLayout`: how that one is made.

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

/// How a paper made its Fast File System, where that differs from the variant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastLayout {
    /// Size of a block in bytes; fragments have 1 KiB.
    pub block_bytes: u32,
    /// Blocks of gap after a contiguous run; `None`: as the variant.
    pub gap_blocks: Option<u32>,
    /// Length of a cylinder group in bytes; `None`: as long as can be.
    pub group_bytes: Option<u64>,
    /// Contiguous blocks at most; `None`: as the variant.
    pub cluster_blocks: Option<u32>,
    /// Blocks move to where they are contiguous before they are written.
    pub reallocates: bool,
    /// The first indirect block stays in the inode's group (NoSwitch).
    pub no_switch: bool,
    /// The last fragments of a file lie behind its last block, if that place is free (SmartFrag).
    pub smart_frag: bool,
    /// One inode for that many bytes.
    pub bytes_per_inode: u32,
    /// Share of the space that nobody gets, in percent.
    pub minfree_percent: u32,
}

impl FastLayout {
    /// A variant as it is, with blocks of that size.
    #[must_use]
    pub fn of_blocks(block_bytes: u32) -> Self {
        Self {
            block_bytes,
            gap_blocks: None,
            group_bytes: None,
            cluster_blocks: None,
            reallocates: false,
            no_switch: false,
            smart_frag: false,
            bytes_per_inode: 8192,
            minfree_percent: 10,
        }
    }

    fn tuning(&self, variant: Variant) -> Tuning {
        let tuning = variant.tuning(self.block_bytes);
        let sectors_per_s = tuning.track_sectors * tuning.rps;
        let rotdelay = |blocks: u32| blocks * (self.block_bytes / 512) * 1000 / sectors_per_s;
        Tuning {
            cpc: 0,
            rotdelay_ms: self.gap_blocks.map_or(tuning.rotdelay_ms, rotdelay),
            maxcontig: self.cluster_blocks.unwrap_or(tuning.maxcontig),
            reallocates: self.reallocates,
            no_switch: self.no_switch,
            smart_frag: self.smart_frag,
            minfree_percent: self.minfree_percent,
            ..tuning
        }
    }
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

    /// Fragments of 1 KiB (BSD-LFS 5); gaps, but no tables of rotational positions (`cpc` = 0, USENIX'95 3).
    pub(super) fn mkfs(variant: Variant, layout: &FastLayout, size_bytes: u64, now: TimeNs) -> MkfsOptions {
        MkfsOptions {
            block_bytes: layout.block_bytes,
            frag_bytes: 1024,
            group_bytes: layout.group_bytes,
            bytes_per_inode: layout.bytes_per_inode,
            tuning: layout.tuning(variant),
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
                "a write that has to be durable ends with a flush",
                "gaps are whole blocks, counted with the sectors and the speed of the HP 97560 on every disk",
            ]),
        }
    }
}
