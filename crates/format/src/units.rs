//! Newtypes for addresses and counts, so that a sector cannot be passed for a block.
//!
//! Byte offsets and byte counts stay `u64`/`u32` and end in `_bytes`.

use std::fmt;

/// Size of the sector that is the unit of addresses and stored lengths, in bytes. Independent of the device's own block
/// size.
pub const SECTOR_BYTES: u32 = 512;

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
        pub struct $name(pub $inner);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

unit!(
    /// Inode number. 0 is never a file; [`InodeNo::ROOT`] is the root directory, numbers below
    /// [`InodeNo::FIRST_USER`] are reserved for internal files.
    InodeNo(u64)
);
unit!(
    /// Number of a segment, counted from the first segment of the log area.
    SegmentId(u64)
);
unit!(
    /// Logical sector address: segment number times sectors per segment, plus the sector within the segment. 48 bits on
    /// disk.
    SectorAddr(u64)
);
unit!(
    /// Index of a block within one fork of a file (or, at higher levels, of an indirect block within its level).
    BlockIndex(u64)
);
unit!(
    /// Number of the checkpoint that a change will be part of. Grows by one with each checkpoint.
    Epoch(u32)
);
unit!(
    /// Position of a partial segment in the order of all log writes of a volume, over all open logs.
    Serial(u64)
);
unit!(
    /// Count of read-write mounts; each mount makes a new value durable before its first log write.
    Incarnation(u32)
);
unit!(
    /// Nanoseconds since 1970-01-01 UTC. Range 1677 to 2262.
    TimeNs(i64)
);

impl InodeNo {
    /// The root directory. FUSE demands 1.
    pub const ROOT: Self = Self(1);
    /// Inode map (an internal file).
    pub const INODE_MAP: Self = Self(2);
    /// Segment usage table (an internal file).
    pub const SEGMENT_USAGE: Self = Self(3);
    /// First number given to users' files.
    pub const FIRST_USER: Self = Self(16);
    /// Where blocks are that were moved, for the retained points: an internal file.
    pub const REMNANTS: Self = Self(4);
    /// Retained points that a checkpoint slot has no room for: an internal file.
    pub const POINTS: Self = Self(5);
}

impl Serial {
    /// The serial after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl TimeNs {
    /// Builds a time from seconds and nanoseconds, clamped to the range that fits.
    #[must_use]
    pub fn from_parts(secs: i64, nanos: u32) -> Self {
        Self(secs.saturating_mul(1_000_000_000).saturating_add(i64::from(nanos)))
    }

    /// Seconds since 1970, rounded down, and the nanoseconds above them (0 to 999,999,999).
    #[must_use]
    pub fn parts(self) -> (i64, u32) {
        (self.0.div_euclid(1_000_000_000), self.0.rem_euclid(1_000_000_000) as u32)
    }

    /// Milliseconds from `earlier` to `self`; 0 if the clock went backwards.
    #[must_use]
    pub fn millis_since(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0) / 1_000_000).unwrap_or(0)
    }
}
